"""Replaying the log gives the explanation that the corpus gave at that time."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, PageExplanation
from recrawl.corpus.past.replay import (
    earliest_ms,
    explain_page_at,
    locate_page,
    log_start_time,
    shard_at,
)
from recrawl.errors import TimeLost
from recrawl.shard import PageStatus
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
HOUR = 3_600
URLS = [f"https://h{i % 3}.example/{i}" for i in range(12)]


def work(corpus: Corpus, clock: ManualClock, n_hours: int) -> None:
    """Let hours pass in which pages are fetched and signalled."""
    for i in range(n_hours):
        clock.pass_seconds(HOUR)
        for k, order in enumerate(corpus.lease(4)):
            corpus.report(Outcome(handle=order.handle, digest=b"%d" % ((i + k) % 5)))
        corpus.signal([URLS[i % 12]], source="feed")


def now_read(corpus: Corpus, clock: ManualClock, url: str) -> PageExplanation:
    """Ask another process, as it were: a reader, which goes by what is in the log."""
    config = corpus.config
    with recrawl.open(corpus.folder, config, read_only=True, clock=clock) as reader:
        page = reader.explain(url)
    assert page is not None
    return page


def same_state(page: PageExplanation | None, other: PageExplanation) -> bool:
    assert page is not None
    assert page.is_past
    return page.state == other.state and page.group_view == other.group_view


@pytest.fixture
def corpus(open_corpus: Open) -> Corpus:
    sections: dict[str, Any] = {
        "snapshots": {"every": "52w", "keep": 2},
        "budget": {"rate": "4/h"},
    }
    corpus = open_corpus(**sections)
    corpus.add(URLS)
    return corpus


def test_replay_gives_the_explanation_of_that_time(corpus: Corpus, clock: ManualClock) -> None:
    said = []
    for _ in range(5):
        work(corpus, clock, 7)
        said.append((clock.wall_ms(), {url: now_read(corpus, clock, url) for url in URLS[:4]}))
    for at_ms, pages in said:
        for url, page in pages.items():
            assert same_state(explain_page_at(corpus, url, at_ms), page)


def test_replay_starts_with_an_earlier_snapshot_if_there_is_one(
    corpus: Corpus, clock: ManualClock
) -> None:
    work(corpus, clock, 5)
    corpus.snapshot()
    position = corpus.nodes[0].position
    work(corpus, clock, 5)
    page = now_read(corpus, clock, URLS[1])
    at_ms = clock.wall_ms()
    work(corpus, clock, 5)
    read: list[int] = []
    assert same_state(explain_page_at(corpus, URLS[1], at_ms, on_record=read.append), page)
    assert len(read) <= corpus.nodes[0].position - position


def test_time_passes_between_two_records(corpus: Corpus, clock: ManualClock) -> None:
    work(corpus, clock, 12)
    at_ms = clock.wall_ms()
    fresh = [explain_page_at(corpus, URLS[0], at_ms + 1000 * s) for s in (0, 600, 1200)]
    work(corpus, clock, 12)
    again = [explain_page_at(corpus, URLS[0], at_ms + 1000 * s) for s in (0, 600, 1200)]
    assert fresh == again
    chances = [page.state.freshness_probability for page in again if page is not None]
    assert chances == sorted(chances, reverse=True)
    assert len(set(chances)) == 3


def test_a_future_time_assumes_that_nothing_happens_until_then(
    corpus: Corpus, clock: ManualClock
) -> None:
    work(corpus, clock, 12)
    now = now_read(corpus, clock, URLS[0])
    then = explain_page_at(corpus, URLS[0], clock.wall_ms() + 30 * 86_400_000)
    assert then is not None
    assert then.state.freshness_probability < now.state.freshness_probability
    assert then.state.fetched_at_ms == now.state.fetched_at_ms


def test_a_page_is_unknown_before_it_was_added(corpus: Corpus, clock: ManualClock) -> None:
    work(corpus, clock, 3)
    at_ms = clock.wall_ms()
    clock.pass_seconds(HOUR)
    corpus.add(["https://late.example/"])
    assert explain_page_at(corpus, "https://late.example/", at_ms) is None
    page = explain_page_at(corpus, "https://late.example/", clock.wall_ms())
    assert page is not None
    assert page.state.status == PageStatus.NEW


def test_a_page_that_is_not_tracked_is_not_found(corpus: Corpus, clock: ManualClock) -> None:
    assert explain_page_at(corpus, "https://other.example/", clock.wall_ms()) is None
    assert explain_page_at(corpus, "no url", clock.wall_ms()) is None
    assert locate_page(corpus, "https://other.example/") is None


def test_the_error_of_a_truncated_log_has_the_earliest_time(
    corpus: Corpus, clock: ManualClock
) -> None:
    begun_ms = clock.wall_ms()
    assert earliest_ms(corpus.partitions[0]) is None
    snapped = []
    for _ in range(3):
        work(corpus, clock, 5)
        corpus.snapshot()
        snapped.append(clock.wall_ms())
    work(corpus, clock, 2)
    partition = corpus.partitions[0]
    assert partition.ledger.first > 0
    assert earliest_ms(partition) == snapped[1]
    assert log_start_time(partition).now_ms == snapped[1]
    assert explain_page_at(corpus, URLS[0], snapped[1]) is not None
    with pytest.raises(TimeLost, match=r"it begins at 2023-11-15 08:13"):
        explain_page_at(corpus, URLS[0], begun_ms)


def test_a_broken_snapshot_is_skipped(corpus: Corpus, clock: ManualClock) -> None:
    work(corpus, clock, 5)
    corpus.snapshot()
    work(corpus, clock, 5)
    page = now_read(corpus, clock, URLS[2])
    (snapshot,) = (corpus.folder / "snapshots" / "0").iterdir()
    data = bytearray((snapshot / "columns").read_bytes())
    data[100] ^= 0xFF
    (snapshot / "columns").unlink()  # a thread may read the old file by a mapping
    (snapshot / "columns").write_bytes(data)
    assert same_state(explain_page_at(corpus, URLS[2], clock.wall_ms()), page)


def test_without_a_snapshot_and_a_beginning_there_is_an_error(
    corpus: Corpus, clock: ManualClock
) -> None:
    for _ in range(3):
        work(corpus, clock, 2)
        corpus.snapshot()
    shutil.rmtree(corpus.folder / "snapshots")
    with pytest.raises(TimeLost, match="no usable snapshot"):
        shard_at(corpus.partitions[0], clock.wall_ms())


def test_replay_changes_nothing_on_disk(corpus: Corpus, clock: ManualClock) -> None:
    work(corpus, clock, 5)
    position, digest = corpus.nodes[0].position, corpus.nodes[0].shard.digest()
    explain_page_at(corpus, URLS[0], clock.wall_ms() - 2 * HOUR * 1000)
    assert corpus.nodes[0].ledger.end == position
    assert corpus.nodes[0].shard.digest() == digest


def test_decisions_of_another_epoch_do_not_advance_time(tmp_path: Any, clock: ManualClock) -> None:
    config = CorpusConfig.from_dict({"politeness": IMPOLITE})
    for _ in range(3):
        with recrawl.open(tmp_path, config, clock=clock) as corpus:
            corpus.add(URLS)
            work(corpus, clock, 3)
    with recrawl.open(tmp_path, config, read_only=True, clock=clock) as reader:
        page = reader.explain(URLS[0])
        assert page is not None
        then = explain_page_at(reader, URLS[0], clock.wall_ms())
    assert then is not None
    assert then == replace(page, is_past=True, last_outcome=None, etag=None, last_modified=None)
