"""A downloader middleware that obeys robots.txt files as RFC 9309 says.

Scrapy's own fetches pages when robots.txt answers with an error or not at all, where the standard
says that everything is disallowed, and never reads a file again.  Usable alone::

    DOWNLOADER_MIDDLEWARES = {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "recrawl.scrapy.RobotsMiddleware": 100,
    }

References
----------
RFC 9309 (Robots Exclusion Protocol)
"""

import logging
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.httpobj import urlparse_cached

from recrawl.fetch import FetchAnswer, FetchProblem, RobotsState, SystemTime, product_token
from recrawl.fetch.robots_cache import RobotsCache
from recrawl.scrapy.politeness.host_delays import count_stat, slow_down

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["DisallowedByRobots", "RobotsMiddleware"]

logger = logging.getLogger(__name__)

_PRIORITY: Final = 1000


class DisallowedByRobots(IgnoreRequest):
    """The robots.txt file of a site disallows a request, or could not be read."""


class RobotsMiddleware:
    """Drops requests that robots.txt disallows, and obeys its ``Crawl-delay``.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: "Crawler") -> None:
        settings = crawler.settings
        if not settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured
        self._crawler = crawler
        self._builtin: Any = None
        if not is_asyncio_available():
            logger.warning(
                "recrawl.scrapy.RobotsMiddleware needs asyncio (the default of TWISTED_REACTOR); "
                "Scrapy's own robots.txt middleware is used instead."
            )
            self._builtin = RobotsTxtMiddleware.from_crawler(crawler)
        self._time = SystemTime()
        agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or ""
        self._cache = RobotsCache(_product_of(str(agent)), self._time, self._fetch)

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the middleware of a crawler."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Raise `DisallowedByRobots` if a request is not allowed."""
        if self._builtin is not None:
            await self._builtin.process_request(request)
            return
        if request.meta.get("dont_obey_robotstxt") or not request.url.startswith("http"):
            return
        parts = urlparse_cached(request)
        origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        file = self._cache.fresh_file(origin)
        if file is None:
            found = await self._cache.refresh(origin)
            if isinstance(found, FetchAnswer):
                raise IgnoreRequest(f"{origin}/robots.txt was not asked for: {found.detail}")
            file = found
        if not file.allows(request.url):
            reason = "forbidden"
            if file.state == RobotsState.UNREACHABLE and file.rules is None:
                reason = "unreachable"
            count_stat(self._crawler, f"robotstxt/{reason}")
            raise DisallowedByRobots(
                "Forbidden by robots.txt"
                if reason == "forbidden"
                else f"{origin}/robots.txt could not be read, so nothing is allowed"
            )
        if file.rules is not None and file.rules.crawl_delay_seconds:
            slow_down(self._crawler, request, file.rules.crawl_delay_seconds)

    async def _fetch(self, url: str) -> FetchAnswer:
        """Fetch a file through Scrapy, with its middlewares and delays."""
        engine = self._crawler.engine
        assert engine is not None
        request = Request(
            url,
            priority=_PRIORITY,
            callback=NO_CALLBACK,
            meta={"dont_obey_robotstxt": True, "recrawl_enabled": False, "dont_cache": True},
        )
        count_stat(self._crawler, "robotstxt/request_count")
        now_ms = self._time.now_ms()
        try:
            response = await engine.download_async(request)
        except Exception as error:
            is_unsent = isinstance(error, IgnoreRequest)
            count_stat(self._crawler, f"robotstxt/exception_count/{type(error).__name__}")
            return FetchAnswer(
                url=url,
                final_url=url,
                fetched_at_ms=now_ms,
                problem=FetchProblem.HOST_DELAY if is_unsent else FetchProblem.CONNECT,
                detail=str(error) or type(error).__name__,
            )
        count_stat(self._crawler, "robotstxt/response_count")
        count_stat(self._crawler, f"robotstxt/response_status_count/{response.status}")
        return FetchAnswer(
            url=url,
            final_url=response.url,
            status=response.status,
            body=response.body,
            fetched_at_ms=now_ms,
        )


def _product_of(agent: str) -> str:
    try:
        return product_token(agent)
    except ValueError:
        return "Scrapy"
