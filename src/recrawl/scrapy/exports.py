"""What a crawl exports: only items with news, the changes, and a warning before items are lost."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from scrapy.exceptions import DropItem

from recrawl.scrapy.crawl_corpus import CrawlCorpus

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["DropUnchanged", "warn_of_overwriting"]

logger = logging.getLogger(__name__)

# Storages that replace what is there unless they are told not to.
_REPLACING_SCHEMES: Final = frozenset({"s3", "gs", "ftp"})


class DropUnchanged:
    """Drops items whose page has not changed since the crawl before.

    It must come first: ``ITEM_PIPELINES = {"recrawl.scrapy.DropUnchanged": 0, …}``.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: "Crawler") -> None:
        self._crawl = CrawlCorpus.of(crawler)
        self._crawl.notes_items = True

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the pipeline of a crawler."""
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        """Return an item, or drop it."""
        news = self._crawl.take_item_news(item)
        if news is not None and news.transition == "unchanged":
            raise DropItem("its page has not changed", log_level="DEBUG")
        return item


def warn_of_overwriting(crawler: "Crawler", *, n_pages: int) -> None:
    """Warn if items of this crawl alone replace an export that may have more.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    n_pages
        Number of pages that earlier crawls know; without any, nothing is dropped.
    """
    if not n_pages:
        return
    feeds: dict[Any, Any] = crawler.settings.getdict("FEEDS")
    replaced = [str(uri) for uri, options in feeds.items() if _is_replaced(str(uri), options or {})]
    if replaced:
        logger.warning(
            "The export %s will contain only the items of pages that this crawl fetches, and "
            "replaces one that may have more.  Append with -o instead of -O, or use a new file "
            "name for each crawl.",
            ", ".join(replaced),
        )


def _is_replaced(uri: str, options: dict[str, Any]) -> bool:
    parts = urlsplit(uri)
    is_file = parts.scheme in ("", "file") or len(parts.scheme) == 1
    if "%(" in uri:  # a new name for each crawl
        return False
    if not options.get("overwrite", parts.scheme in _REPLACING_SCHEMES):
        return False
    path = Path(parts.path if parts.scheme == "file" else uri)
    return not is_file or (path.exists() and path.stat().st_size > 0)
