"""One crawl of the local web for the measurement of the month, in stepped time."""

import asyncio
import gc
import resource
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import recrawl
from recrawl.corpus import Corpus, CorpusConfig, Transition
from recrawl.fetch import FetchSettings, HttpFetcher
from recrawl.fetch.sinks import SinkRunner, Spool, open_sink
from recrawl.run import CrawlSettings, CrawlSummary, crawl
from recrawl.run.discovery import Discovery, DiscoverySettings
from recrawl.run.discovery.hint_documents import DOCUMENT_KEY
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    LocalWeb,
    LoggedRequest,
    RequestLog,
    SitemapForm,
    WebPage,
    make_hosts,
    read_request_log,
    serve,
)
from recrawl.testing.web.request_log import log_line
from recrawl.testing.web.robots import is_allowed

__all__ = [
    "DAY_MS",
    "DELAY_SECONDS",
    "START_MS",
    "SWITCHES",
    "MonthCrawl",
    "Switch",
    "crawl_month",
    "make_month_web",
    "month_pages",
]

Switch = Literal["signals", "conditional_get", "content"]
SWITCHES: tuple[Switch, ...] = ("signals", "conditional_get", "content")

START_MS = 1_767_225_600_000
DAY_MS = 86_400_000
DELAY_SECONDS = 1.0
# Fetches are at least minutes apart, so there is no need to look each second.
_IDLE_SECONDS = 300.0
_SHELL_KIND = "empty_app"


@dataclass(slots=True)
class MonthCrawl:
    """What a crawl did, by the log of the server and by its own account.

    Parameters
    ----------
    web, log
        The web, and the log of its server.
    summary
        What the crawl says about itself.
    changed, returned
        URLs that were reported as changed, and as returned to an earlier version, with instants.
    n_files
        Number of files in the folder of Markdown at the end.
    memory_bytes
        Memory of the process after each day.
    cpu_seconds
        Processor time of the crawl, its server included.
    """

    web: LocalWeb
    log: RequestLog
    summary: CrawlSummary
    changed: list[tuple[str, int]] = field(default_factory=list)
    returned: list[tuple[str, int]] = field(default_factory=list)
    n_files: int = 0
    memory_bytes: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0


def make_month_web(
    n_hosts: int, n_pages: int, n_days: float, seed: int = 0, *, has_huge_sitemaps: bool = True
) -> LocalWeb:
    """Return a web of hosts of every kind, with the histories of its pages already made.

    So the web does not grow while the memory of the crawler is measured.

    Parameters
    ----------
    n_hosts, n_pages
        Size of the web.
    n_days
        Length of the crawl.
    seed
        Random seed.
    has_huge_sitemaps
        Whether some sitemaps name 60,000 pages that do not exist.
    """
    host_traits = make_hosts(n_hosts, n_pages, seed)
    if not has_huge_sitemaps:
        host_traits = [
            replace(one, sitemap=SitemapForm.PLAIN) if one.sitemap is SitemapForm.HUGE else one
            for one in host_traits
        ]
    web = LocalWeb(host_traits, started_at_ms=START_MS)
    for page in web.pages():
        web.hosts[page.host].versions(page.page, START_MS + round(n_days * DAY_MS))
    return web


def month_pages(web: LocalWeb, n_days: float) -> list[WebPage]:
    """Return the pages whose freshness counts.

    These are the pages that robots.txt allows at the end.  Pages that are empty without a browser
    do not count.

    Parameters
    ----------
    web
        The web.
    n_days
        Length of the crawl.
    """
    found = []
    for page in web.pages():
        traits = web.hosts[page.host].traits
        path = web.hosts[page.host].path(page.page)
        if traits.page_kind != _SHELL_KIND and is_allowed(traits, path, n_days * 86_400):
            found.append(page)
    return found


def _config(fetches_per_day: float, off: Collection[Switch]) -> CorpusConfig:
    tables: dict[str, object] = {
        # What is not spent is saved for an hour only, so that no day has more than the others.
        "budget": {"rate": f"{fetches_per_day:g}/day", "burst": "1h"},
        "content": {"enabled": "content" not in off},
        # In stepped time the default would take a snapshot after every few fetches.
        "snapshots": {"every": "1d"},
    }
    return CorpusConfig.from_dict(tables)


def _memory_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _page_changes(corpus: Corpus) -> Iterator[tuple[Transition, str, int]]:
    """Yield the changes of pages; "changed" of a sitemap or feed means that it brought news."""
    cursor = None
    while changes := corpus.changes(cursor):
        for change in changes:
            if DOCUMENT_KEY not in (change.metadata or {}):
                yield change.what, change.url, change.at_ms
        cursor = changes[-1].cursor


def crawl_month(
    web: LocalWeb, fetches_per_day: float, n_days: float, off: Collection[Switch] = ()
) -> MonthCrawl:
    """Crawl a web with the loop of ``recrawl run``, in stepped time.

    The crawler is given the URLs of all pages and of the home pages of all hosts.  It finds
    sitemaps and feeds by itself.

    Parameters
    ----------
    web
        The web.
    fetches_per_day
        Budget.
    n_days
        Length of the crawl.
    off
        Parts that are switched off.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log_path = folder / "requests.jsonl"
        memory: list[int] = []
        started = time.process_time()
        with log_path.open("w", encoding="utf-8") as file:
            # The log of the server is in a file, so that it takes no memory.
            def write(row: LoggedRequest) -> None:
                file.write(log_line(row))

            log = RequestLog(write, keeps_rows=False)

            async def main(stepped: SteppedTime) -> CrawlSummary:
                watch = asyncio.create_task(_watch_memory(stepped, memory))
                try:
                    return await _crawl(
                        web, log, folder, stepped, _config(fetches_per_day, off), n_days, off
                    )
                finally:
                    watch.cancel()

            summary = run_stepped(main, start_at_ms=START_MS)
        found = MonthCrawl(web, read_request_log(log_path), summary, memory_bytes=memory)
        found.cpu_seconds = time.process_time() - started
        found.n_files = sum(1 for path in (folder / "pages").rglob("*.md"))
        with recrawl.open(folder / "corpus", read_only=True) as corpus:
            for what, url, at_ms in _page_changes(corpus):
                if what is Transition.CHANGED:
                    found.changed.append((url, at_ms))
                elif what is Transition.REVERTED:
                    found.returned.append((url, at_ms))
        return found


async def _watch_memory(stepped: SteppedTime, memory: list[int]) -> None:
    while True:
        await stepped.sleep(86_400)
        memory.append(_memory_bytes())


async def _crawl(
    web: LocalWeb,
    log: RequestLog,
    folder: Path,
    stepped: SteppedTime,
    config: CorpusConfig,
    n_days: float,
    off: Collection[Switch],
) -> CrawlSummary:
    settings = FetchSettings(
        contact="https://example.com/bot",
        allow_networks=("127.0.0.0/8",),
        delay_seconds=DELAY_SECONDS,
    )
    with (
        closing(Spool.open(folder / "spool")) as spool,
        recrawl.open(folder / "corpus", config, clock=stepped.clock) as corpus,
    ):
        urls = [page.url for page in web.pages()]
        urls += [host.origin + "/" for host in web.hosts.values()]
        spool.settle_feed(corpus, spool.pending)
        async with await serve(web, now_ms=stepped.now_ms, sets_port=False, log=log) as server:
            fetcher = HttpFetcher(settings, time=stepped, resolver=server.resolver())
            sinks = [open_sink("folder", {"folder": folder / "pages"})]
            with SinkRunner(spool, sinks):
                finder = None
                if "signals" not in off:
                    finder = Discovery(corpus, DiscoverySettings())
                try:
                    return await crawl(
                        corpus,
                        fetcher,
                        urls,
                        settings=CrawlSettings(
                            for_seconds=n_days * 86_400,
                            idle_seconds_max=_IDLE_SECONDS,
                            is_conditional="conditional_get" not in off,
                        ),
                        time=stepped,
                        spool=spool,
                        finder=finder,
                    )
                finally:
                    await fetcher.close()
                    if finder is not None:
                        finder.close()
