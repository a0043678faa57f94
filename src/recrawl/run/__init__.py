"""Keep pages fresh: the loop that fetches what is due, which ``recrawl run`` uses.

`crawl` connects a corpus, a fetcher and a spool.  It needs the extra ``recrawl[run]``.
"""

from recrawl.run.crawl import CrawlEnd, CrawlSummary, crawl
from recrawl.run.found import Findings, FoundPage, FoundSignal, PageFinder
from recrawl.run.held_orders import HeldOrders
from recrawl.run.progress import CrawlProgress, FetchResult, RecentChange
from recrawl.run.settings import CrawlSettings

__all__ = [
    "CrawlEnd",
    "CrawlProgress",
    "CrawlSettings",
    "CrawlSummary",
    "FetchResult",
    "Findings",
    "FoundPage",
    "FoundSignal",
    "HeldOrders",
    "PageFinder",
    "RecentChange",
    "crawl",
]
