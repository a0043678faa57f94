"""The add-on: puts the components of recrawl into the settings of a Scrapy project."""

import logging
from typing import TYPE_CHECKING, Any, Final

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import NotConfigured, UsageError

from recrawl.errors import ConfigError
from recrawl.scrapy.addon_settings import AddonSettings
from recrawl.scrapy.observer import ObserverMiddleware
from recrawl.scrapy.politeness.host_delays import HostDelayMiddleware
from recrawl.scrapy.politeness.robots import RobotsMiddleware
from recrawl.scrapy.scheduler import RecrawlScheduler
from recrawl.scrapy.spider_output import SpiderOutputMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["Addon"]

logger = logging.getLogger(__name__)

_ROBOTS_PRIORITY: Final = 100
# Behind Scrapy's retries (550) and redirects (600), and before most middlewares of users (543).
_OBSERVER_PRIORITY: Final = 545
# Before retries, which would otherwise hide the answer.
_DELAYS_PRIORITY: Final = 560
# Nearest to the engine: sees what callbacks and all other middlewares leave.
_OUTPUT_PRIORITY: Final = 10
_SPIDER_MODULE: Final = "recrawl.scrapy.spiders"
_RFC_POLICY: Final = "RFC2616Policy"


class Addon:
    """Makes spiders fetch only what is worth fetching; see `recrawl.scrapy`."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: "BaseSettings") -> None:
        """Make ``scrapy crawl refresh`` known.

        Parameters
        ----------
        settings
            Settings of the project.
        """
        _check(settings)
        modules = settings.getlist("SPIDER_MODULES")
        if _SPIDER_MODULE not in modules:
            priority = settings.getpriority("SPIDER_MODULES") or 0
            settings.set("SPIDER_MODULES", [*modules, _SPIDER_MODULE], max(priority, 15))

    def update_settings(self, settings: "BaseSettings") -> None:
        """Add the components of recrawl.

        Parameters
        ----------
        settings
            Settings of the crawl.

        Raises
        ------
        NotConfigured
            If ``RECRAWL_ENABLED`` is False.
        UsageError
            If a setting is unknown or has an invalid value.
        """
        if not settings.getbool("RECRAWL_ENABLED", True):
            raise NotConfigured("RECRAWL_ENABLED is False")
        _check(settings)
        inner = settings.get("SCHEDULER")
        settings.set("RECRAWL_FALLBACK_SCHEDULER", inner, "addon")
        priority = settings.getpriority("SCHEDULER") or 0
        settings.set("SCHEDULER", RecrawlScheduler, max(priority, 15))
        _set_default(settings, "DOWNLOADER_MIDDLEWARES", ObserverMiddleware, _OBSERVER_PRIORITY)
        _set_default(settings, "DOWNLOADER_MIDDLEWARES", HostDelayMiddleware, _DELAYS_PRIORITY)
        _set_default(settings, "SPIDER_MIDDLEWARES", SpiderOutputMiddleware, _OUTPUT_PRIORITY)
        if settings.getbool("ROBOTSTXT_OBEY"):
            _set_default(settings, "DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
            _set_default(settings, "DOWNLOADER_MIDDLEWARES", RobotsMiddleware, _ROBOTS_PRIORITY)
        _warn_of_cache(settings)


def _check(settings: "BaseSettings") -> None:
    try:
        AddonSettings.of(settings, "")
    except ConfigError as error:
        # Scrapy shows an error of a crawl below a long traceback, or not at all.
        logger.error("%s", error)
        raise UsageError(str(error), print_help=False) from None


def _set_default(settings: "BaseSettings", name: str, component: Any, priority: int | None) -> None:
    settings.setdefault_in_component_priority_dict(name, component, priority)


def _warn_of_cache(settings: "BaseSettings") -> None:
    if not settings.getbool("HTTPCACHE_ENABLED"):
        return
    if str(settings.get("HTTPCACHE_POLICY", "")).endswith(_RFC_POLICY):
        logger.warning(
            "HTTPCACHE_POLICY is RFC2616Policy, which sends its own conditional requests.  Use "
            "either the cache or recrawl: set HTTPCACHE_ENABLED = False."
        )
    else:
        logger.warning(
            "HTTPCACHE_ENABLED is True: pages in the cache are never fetched, and recrawl learns "
            "nothing from them.  Use the cache only while you develop a spider."
        )
