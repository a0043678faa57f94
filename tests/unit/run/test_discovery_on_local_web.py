"""Which sitemaps and feeds are read, and how often: crawls of a local web in stepped time."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import recrawl
from recrawl.corpus.inspect.source_table import SourceRow
from recrawl.fetch import FetchSettings, HttpFetcher
from recrawl.run import CrawlSettings, crawl
from recrawl.run.discovery import Discovery, DiscoveryCounts
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    FeedKind,
    HostTraits,
    LocalWeb,
    SitemapDates,
    ValidatorKind,
    copies_made,
    find_violations,
    mean_freshness,
    serve,
)
from recrawl.testing.web.request_log import LoggedRequest

START_AT_MS = 1_767_225_600_000
HOUR = 3_600.0


class Crawled(NamedTuple):
    """What a crawl did."""

    requests: list[LoggedRequest]
    counts: DiscoveryCounts
    sources: dict[tuple[str, str], SourceRow]


def crawl_web(folder: Path, web: LocalWeb, *, hours: float, rate: str) -> Crawled:
    """Crawl all hosts of a web from their home pages; check that the crawl is polite."""

    async def main(time: SteppedTime) -> Crawled:
        async with await serve(web, now_ms=time.now_ms, sets_port=False) as server:
            fetch_settings = FetchSettings(
                contact="https://example.com/bot", allow_networks=("127.0.0.0/8",)
            )
            fetcher = HttpFetcher(fetch_settings, time=time, resolver=server.resolver())
            with recrawl.open(folder / "corpus", clock=time.clock) as corpus:
                corpus.set_budget(rate)
                finder = Discovery(corpus)
                try:
                    await crawl(
                        corpus,
                        fetcher,
                        [f"http://{name}/" for name in web.hosts],
                        settings=CrawlSettings(for_seconds=hours * HOUR, idle_seconds_max=300.0),
                        time=time,
                        finder=finder,
                    )
                finally:
                    finder.close()
                    await fetcher.close()
                sources = {(row.group, row.source): row for row in corpus.sources().rows}
            assert find_violations(web, server.log) == []
            return Crawled(list(server.log), finder.counts, sources)

    return run_stepped(main, start_at_ms=START_AT_MS)


@pytest.mark.slow_without_jit
def test_reliable_sitemaps_are_polled_more_often(tmp_path: Path) -> None:
    dates = {
        "right": SitemapDates.RIGHT,
        "wrong": SitemapDates.WRONG,
        "built": SitemapDates.BUILD_TIME,
    }
    hosts = [
        HostTraits(name=f"{name}.example", n_pages=16, sitemap_dates=kind)
        for name, kind in dates.items()
    ]
    web = LocalWeb(hosts, started_at_ms=START_AT_MS, page_speed=12.0)
    done = crawl_web(tmp_path, web, hours=24, rate="240/d")
    late = [one for one in done.requests if one.at_ms > START_AT_MS + 8 * HOUR * 1000]
    polls = Counter(one.host for one in late if one.path == "/sitemap.xml")
    assert polls["right.example"] > 1.5 * polls["wrong.example"]
    assert polls["right.example"] > 1.5 * polls["built.example"]
    # The dates of a build are tested with samples, and then left alone.
    assert done.counts.n_signals_held_back > 10
    assert ("built.example", "sitemap") not in done.sources
    assert done.sources["right.example", "sitemap"].precision > 0.6
    assert done.sources["built.example", "rebuilt sitemap"].precision < 0.5


@pytest.mark.slow_without_jit
def test_of_a_sitemap_and_a_feed_that_say_the_same_one_is_read(tmp_path: Path) -> None:
    hosts = [
        HostTraits(name="both.example", n_pages=24, feed=FeedKind.ATOM),
        HostTraits(
            name="wrong.example", n_pages=24, sitemap_dates=SitemapDates.WRONG, feed=FeedKind.ATOM
        ),
    ]
    web = LocalWeb(hosts, started_at_ms=START_AT_MS, page_speed=12.0)
    done = crawl_web(tmp_path, web, hours=48, rate="480/d")
    late = [one for one in done.requests if one.at_ms > START_AT_MS + 24 * HOUR * 1000]
    polls = Counter((one.host, one.path) for one in late)
    assert polls["both.example", "/sitemap.xml"] > 10 * polls["both.example", "/feed.xml"]
    # A sitemap that is wrong does not speak for the feed.
    assert polls["wrong.example", "/feed.xml"] > polls["wrong.example", "/sitemap.xml"]


@pytest.mark.slow_without_jit
def test_a_change_that_a_sitemap_announces_is_not_hidden_by_a_wrong_304(tmp_path: Path) -> None:
    """The server compares validators with those of the pages at midnight; its sitemap is right.

    With conditional requests the sitemap had a precision of 0.16, and the copies a freshness of
    0.57.
    """
    host = HostTraits(
        name="late.example",
        n_pages=16,
        sitemap_dates=SitemapDates.RIGHT,
        validators=ValidatorKind.WRONG_304,
    )
    web = LocalWeb([host], started_at_ms=START_AT_MS, page_speed=12.0)
    done = crawl_web(tmp_path, web, hours=48, rate="240/d")
    assert done.sources["late.example", "sitemap"].precision > 0.6
    end_at_ms = START_AT_MS + 48 * round(HOUR) * 1000
    copies = copies_made(done.requests)
    assert mean_freshness(web, copies, from_ms=START_AT_MS, until_ms=end_at_ms) > 0.8
