"""What people read while a crawl runs, and at its end."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recrawl.corpus import Corpus, Outcome, Stats
from recrawl.run import CrawlEnd, CrawlProgress, CrawlSummary, FetchResult, RecentChange
from recrawl.run.discovery import DiscoveryCounts
from recrawl.run.live_text import (
    freshness_sentence,
    live_lines,
    progress_sentence,
    summary_sentences,
)
from recrawl.run.session import CrawlSession
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
PAGES = ["https://a.example/", "https://a.example/1"]
MAP = "https://a.example/sitemap.xml"


@pytest.fixture
def session(open_corpus: Open) -> CrawlSession:
    """Return what a view needs of a session: one sitemap among three pages."""
    corpus = open_corpus(budget={"rate": "100/h"})
    corpus.add([*PAGES, MAP])
    corpus.set([MAP], importance=0.0)
    made: Any = SimpleNamespace(
        corpus=corpus,
        progress=CrawlProgress(),
        n_documents=1,
        delayed_hosts={},
        sink_statuses=[],
        discovery_counts=DiscoveryCounts(n_documents=1),
    )
    return cast(CrawlSession, made)


def lines_of(session: CrawlSession, stats: Stats | None) -> list[str]:
    lines = live_lines(session, stats, per_second=1.0, seconds=5.0)
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_the_view_says_what_is_read_first(session: CrawlSession) -> None:
    session.progress.begin_asking(3)
    session.progress.count_asked(1)
    assert "now        reading robots.txt and the sitemaps of 2 sites" in lines_of(session, None)
    session.progress.count_asked(2)
    assert not any(line.startswith("now") for line in lines_of(session, None))


def test_freshness_is_not_claimed_before_pages_were_fetched_again(
    session: CrawlSession, clock: ManualClock
) -> None:
    for n in range(4):
        stats = session.corpus.stats()
        (line,) = (one for one in lines_of(session, stats) if one.startswith("pages"))
        # The sitemap is no page, and its age says nothing about the copies.
        assert "2 pages" in line
        assert "price" not in line
        sentence = freshness_sentence(session, stats)
        assert ("not known yet" in sentence) is (n < 3)
        assert ("of the copies" in line) is (n == 3)
        outcomes = [Outcome(url=url, digest=b"1") for url in (*PAGES, MAP)]
        session.corpus.report(outcomes)
        clock.pass_seconds(3_600.0)
    assert sentence.startswith("About 100% of the copies of 2 pages are up to date now")


def test_a_line_of_a_log_names_the_latest_change(session: CrawlSession) -> None:
    assert progress_sentence(session, 10.0) == "10 s: 0 fetches."
    session.progress.results[FetchResult.NEW] += 1
    session.progress.recent.append(RecentChange(0, FetchResult.NEW, PAGES[0]))
    assert progress_sentence(session, 60.0) == f"60 s: 1 fetch: new 1. Latest: new {PAGES[0]}"


def test_a_pass_without_anything_due_says_so(session: CrawlSession) -> None:
    summary = CrawlSummary(CrawlEnd.PASS_OVER, 3.0, session.progress, 0)
    text = summary_sentences(session, summary)[0]
    assert text == "Nothing was due, so nothing was fetched, after 3 s."


def test_the_summary_counts_sitemaps_apart(session: CrawlSession, tmp_path: Path) -> None:
    progress = session.progress
    progress.n_found = 2
    progress.results[FetchResult.NOT_FOUND] += 1
    summary = CrawlSummary(CrawlEnd.PASS_OVER, 3.0, progress, 0)
    text = " ".join(summary_sentences(session, summary))
    assert "Found 2 pages by itself, and 1 sitemap or feed." in text
    assert "Not fetched: 0 failed, 1 not found, 0 disallowed." in text
