"""One crawl of a flat spider in a process of its own, with its speed and memory.

This module does not import recrawl, so that the memory of a plain crawl is that of Scrapy.
"""

import cProfile
import pstats
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response

if TYPE_CHECKING:
    from recrawl.scrapy.reporter import Reporter

__all__ = ["VARIANTS", "CrawlSpeed", "crawl_once"]

VARIANTS: Final = ("plain", "addon", "plain_with_resiliparse", "addon_with_content")
_WARM_SHARE: Final = 0.1


class CrawlSpeed(TypedDict):
    """One crawl in a process of its own."""

    pages_per_second: float
    pages_per_cpu_second: float
    """CPU time of the process of Scrapy, with all its threads."""
    open_seconds: float
    """Time from the start of the crawl to the first request."""
    memory_megabytes: float
    private_megabytes: float
    peak_megabytes: float
    profile: list[str]


class _FlatSpider(Spider):
    """Fetches pages by number, and notes the time."""

    name = "flat"
    marks: list[tuple[float, float]]
    site: str
    n_pages: int
    has_listing: bool
    read_text: Callable[[bytes], str | bytes]

    async def start(self) -> AsyncIterator[Request]:
        """Yield all requests."""
        self.marks = [(time.perf_counter(), time.process_time())]
        for number in range(1 if self.has_listing else self.n_pages):
            yield Request(f"{self.site}{number}")

    def parse(self, response: Response, **kwargs: Any) -> Iterator[dict[str, Any] | Request]:
        """Yield the size of a page, or of its text, and of a listing all requests."""
        del kwargs
        n = len(self.read_text(response.body))
        if self.has_listing and response.url == f"{self.site}0":
            for number in range(1, self.n_pages):
                yield Request(f"{self.site}{number}")
        yield {"url": response.url, "n": n}
        self.marks.append((time.perf_counter(), time.process_time()))


def crawl_once(
    site: str,
    variant: str,
    n_pages: int,
    folder: str,
    *,
    has_listing: bool = False,
    is_profiled: bool = False,
) -> CrawlSpeed:
    """Crawl once; only the first call in a process works.

    Parameters
    ----------
    site
        Start of the URLs of pages, which end with numbers.
    variant
        One of `VARIANTS`.
    n_pages
        Number of pages.
    folder
        Folder of the corpus.
    has_listing
        Whether the first page leads to all others; else they are the requests of the start.
    is_profiled
        Whether to profile the crawl.
    """
    settings: dict[str, Any] = {
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
    }
    if variant.startswith("addon"):
        settings |= {
            "ADDONS": {"recrawl.scrapy.Addon": 500},
            "RECRAWL_CORPUS": folder,
            "RECRAWL_CONTENT": variant.endswith("content"),
        }
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(_FlatSpider)
    memory: dict[str, float] = {}
    # When the spider is idle all pages are done, and the corpus is still open.
    crawler.signals.connect(
        lambda: memory.update(_memory()), signal=signals.spider_idle, weak=False
    )
    profiles = _Profiles() if is_profiled else None
    began = time.perf_counter()
    process.crawl(
        crawler,
        site=site,
        n_pages=n_pages,
        has_listing=has_listing,
        read_text=_reader(variant),
    )
    if profiles is not None:
        profiles.main.enable()
    process.start()
    lines = [] if profiles is None else profiles.lines(n_pages)
    assert isinstance(crawler.spider, _FlatSpider)
    marks = crawler.spider.marks
    assert len(marks) == n_pages + 1, f"{len(marks) - 1} of {n_pages} pages"
    warm = marks[max(int(_WARM_SHARE * n_pages), 1)]
    n_timed = n_pages - max(int(_WARM_SHARE * n_pages), 1)
    return {
        "pages_per_second": n_timed / max(marks[-1][0] - warm[0], 1e-9),
        "pages_per_cpu_second": n_timed / max(marks[-1][1] - warm[1], 1e-9),
        "open_seconds": marks[0][0] - began,
        "memory_megabytes": memory["VmRSS"],
        "private_megabytes": memory["RssAnon"],
        "peak_megabytes": memory["VmHWM"],
        "profile": lines,
    }


def _reader(variant: str) -> Callable[[bytes], str | bytes]:
    if variant != "plain_with_resiliparse":
        return bytes
    from benchmarks.observe import read_bare  # noqa: PLC0415

    return read_bare


def _memory() -> dict[str, float]:
    """Return the resident memory of this process in megabytes: all, private and peak."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon", "VmHWM"):
            found[name] = int(value.split()[0]) * 1.024 / 1e3
    return found


class _Profiles:
    """Profiles of the thread of the crawl and of the thread that reports."""

    def __init__(self) -> None:
        self.main = cProfile.Profile()
        self.reporter = cProfile.Profile()
        from recrawl.scrapy.reporter import Reporter  # noqa: PLC0415

        work = Reporter._work

        def profiled(reporter: "Reporter") -> None:
            self.reporter.runcall(work, reporter)

        Reporter._work = profiled  # type: ignore[method-assign, assignment]

    def lines(self, n_pages: int) -> list[str]:
        """Return the functions that take the most time, in microseconds per page."""
        self.main.disable()
        lines = []
        for name, profile in (("crawl", self.main), ("reporter", self.reporter)):
            table = pstats.Stats(profile).stats  # type: ignore[attr-defined]
            lines.append(f"{name}: own and cumulated microseconds per page, calls per page")
            for keep, n_lines in (("recrawl/", 70), ("", 40)):
                rows = [
                    (1e6 * own / n_pages, 1e6 * total / n_pages, n_calls / n_pages, where)
                    for where, (_, n_calls, own, total, _) in table.items()
                    if keep in where[0]
                ]
                rows.sort(key=lambda row: -row[1 if keep else 0])
                lines += [
                    f"{own:8.1f} {total:8.1f} {n:6.2f} {where[0].rpartition('packages/')[2]}:"
                    f"{where[1]} {where[2]}"
                    for own, total, n, where in rows[:n_lines]
                ]
                lines.append("")
        return lines
