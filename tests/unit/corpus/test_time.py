"""Long pauses, clocks that jump, and fetchers with wrong clocks."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import ClockError
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(50)]
DAY = 86_400.0


def test_after_a_year_without_opening_no_unspent_budget_has_piled_up(
    open_corpus: Open, clock: ManualClock
) -> None:
    sections = {"budget": {"rate": "10/h", "burst": "1h"}, "clock": {"gap_max": "400d"}}
    corpus = open_corpus(**sections)
    corpus.add(URLS)
    clock.pass_seconds(3600)
    orders = corpus.lease(5)
    corpus.report([Outcome(handle=order.handle, digest=b"a") for order in orders[:3]])
    corpus.close()
    clock.pass_seconds(365 * DAY)
    corpus = open_corpus(**sections)
    assert corpus.stats().credit == pytest.approx(10)
    assert len(corpus.lease(50)) == 10
    # The two that were never reported have run out, and may be among the ten.
    assert corpus.stats().in_flight == 10
    late = corpus.report([Outcome(handle=order.handle, digest=b"a") for order in orders[3:]])
    assert not late.counted.any()
    explanation = corpus.explain(orders[0].url)
    assert explanation is not None
    assert explanation.state.fetched_at_ms is not None
    assert explanation.now_ms - explanation.state.fetched_at_ms >= 364 * DAY * 1000
    assert 0 <= explanation.state.freshness_probability < 0.9


def test_a_clock_that_jumps_back_an_hour_moves_nothing_back(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(budget={"rate": "60/h", "burst": "60s"})
    corpus.add(URLS)
    clock.pass_seconds(3600)
    (order,) = corpus.lease(5, seconds=300)
    before = corpus.nodes[0].shard.now_ms
    clock.set_back(3600)
    # The budget goes on at the pace of real time, and so does the lease.
    clock.pass_seconds(61)
    assert corpus.nodes[0].shard.now_ms == before
    (second,) = corpus.lease(5, seconds=300)
    assert corpus.nodes[0].shard.now_ms == before + 61_000
    assert corpus.report(Outcome(handle=order.handle, digest=b"a")).counted.all()
    clock.pass_seconds(301)
    corpus.lease(1)
    assert not corpus.release([second.handle])
    # Opened again while the clock is still behind: time goes on from where the log is.
    corpus.close()
    last = before + 362_000
    corpus = open_corpus(budget={"rate": "60/h", "burst": "60s"})
    assert corpus.nodes[0].shard.now_ms >= last
    clock.pass_seconds(61)
    assert len(corpus.lease(5)) == 1
    assert corpus.nodes[0].shard.now_ms >= last + 61_000


def test_a_fetcher_whose_clock_is_a_day_ahead_reports_what_was_fetched_now(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    (order,) = corpus.lease(1)
    clock.pass_seconds(5)
    ahead = clock.wall_ms() + round(DAY * 1000)
    outcome = Outcome(handle=order.handle, digest=b"a", fetched_at_ms=ahead)
    assert corpus.report(outcome).counted.all()
    explanation = corpus.explain(order.url)
    assert explanation is not None
    assert explanation.state.fetched_at_ms is not None
    assert explanation.state.fetched_at_ms <= clock.wall_ms()
    # And its time is not believed for others either.
    assert corpus.nodes[0].shard.now_ms <= clock.wall_ms()
    clock.pass_seconds(3600)
    again = Outcome(url=order.url, digest=b"b", fetched_at_ms=ahead + 7_200_000)
    assert corpus.report(again).counted.all()


def test_a_fetcher_whose_clock_is_behind_fetched_no_earlier_than_it_was_ordered(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    (order,) = corpus.lease(1)
    ordered_at = clock.wall_ms()
    clock.pass_seconds(5)
    behind = ordered_at - round(DAY * 1000)
    corpus.report(Outcome(handle=order.handle, digest=b"a", fetched_at_ms=behind))
    explanation = corpus.explain(order.url)
    assert explanation is not None
    assert explanation.state.fetched_at_ms is not None
    assert explanation.state.fetched_at_ms >= ordered_at - 1000


def test_a_clock_that_jumps_ahead_by_years_does_not_move_the_corpus(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    (order,) = corpus.lease(1, seconds=300)
    before = clock.wall_ms()
    clock.wall += round(20 * 365 * DAY * 1000)
    clock.pass_seconds(10)
    assert corpus.lease(1)
    assert corpus.nodes[0].shard.now_ms == before + 10_000
    assert corpus.stats().clock_held_back_seconds == 20 * 365 * DAY
    assert corpus.report(Outcome(handle=order.handle, digest=b"a")).counted.all()
    clock.wall -= round(20 * 365 * DAY * 1000)
    corpus.close()
    corpus = open_corpus()
    assert corpus.nodes[0].shard.now_ms == before + 10_000
    assert corpus.stats().clock_held_back_seconds == 0


def test_a_corpus_is_not_opened_by_a_clock_that_is_years_ahead(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.close()
    end = corpus_end(tmp_path, clock)
    clock.pass_seconds(31 * DAY)
    with pytest.raises(ClockError) as caught:
        open_corpus()
    message = str(caught.value)
    assert "says 2023-12-15 22:13 UTC, and the last change of the corpus was at" in message
    assert "2023-11-14 22:13 UTC: 31 days earlier, more than clock.gap_max (30 days)" in message
    assert f"recrawl doctor -C {tmp_path / 'corpus'} --accept-clock` once" in message
    assert corpus_end(tmp_path, clock) == end  # nothing was written
    with recrawl.open(tmp_path / "corpus", clock=clock, accept_clock=True) as accepted:
        assert accepted.nodes[0].shard.now_ms == clock.wall_ms()
    clock.pass_seconds(29 * DAY)
    assert open_corpus().n_pages == 50


def corpus_end(tmp_path: Path, clock: ManualClock) -> int:
    with recrawl.open(tmp_path / "corpus", read_only=True, clock=clock) as corpus:
        return corpus.nodes[0].ledger.end


def test_a_corpus_that_is_ahead_can_be_reset(open_corpus: Open, clock: ManualClock) -> None:
    sections = {"budget": {"rate": "60/h", "burst": "60s"}, "clock": {"gap_max": "30000d"}}
    corpus = open_corpus(**sections)
    corpus.add(URLS)
    clock.pass_seconds(61)
    (early,) = corpus.lease(1)
    corpus.report(Outcome(handle=early.handle, digest=b"a"))
    early_fetch = clock.wall_ms()
    corpus.close()
    # Opened while the clock is twenty years ahead, and again when it is right.
    ahead_ms = round(20 * 365 * DAY * 1000)
    clock.wall += ahead_ms
    corpus = open_corpus(**sections)
    clock.pass_seconds(61)
    (late,) = corpus.lease(1)
    corpus.report(Outcome(handle=late.handle, digest=b"a"))
    late_fetch = clock.wall_ms()
    clock.pass_seconds(61)
    (held,) = corpus.lease(1, seconds=600)
    corpus.close()
    clock.wall -= ahead_ms
    corpus = open_corpus(**sections)
    clock.pass_seconds(100)
    assert corpus.reset_clock() == ahead_ms / 1000
    assert corpus.now_ms() == clock.wall_ms()
    for url, fetched_at in ((early.url, early_fetch), (late.url, late_fetch - ahead_ms)):
        explanation = corpus.explain(url)
        assert explanation is not None
        assert explanation.state.fetched_at_ms == fetched_at // 1000 * 1000
    assert corpus.reset_clock() == 0
    # Leases and the budget go on at normal speed.
    assert corpus.extend([held.handle], seconds=600) == 1
    clock.pass_seconds(61)
    assert len(corpus.lease(5)) == 1
    assert corpus.report(Outcome(handle=held.handle, digest=b"a")).counted.all()
    corpus.close()
    state = [node.shard.digest() for node in corpus.nodes]
    # The log alone gives the same state.
    read = open_corpus(read_only=True, **sections)
    assert [node.shard.digest() for node in read.nodes] == state
    assert read.now_ms() == clock.wall_ms()


def test_a_clock_that_was_never_set_resets_nothing(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus()
    before = corpus.now_ms()
    clock.wall = 5_000
    with pytest.raises(ClockError, match="says 1970-01-01 00:00 UTC, which cannot be true"):
        corpus.reset_clock()
    assert corpus.now_ms() == before


@pytest.mark.parametrize("how", ["few", "many", "release"])
def test_the_delay_of_a_host_starts_when_its_fetch_ends(
    how: str, tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict({"politeness": {"delay": "1s"}})
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        corpus.add(["https://a.example/1", "https://a.example/2"])
        (order,) = corpus.lease(10)
        clock.pass_seconds(0.9)  # not long enough for a tick
        outcome = Outcome(handle=order.handle, digest=bytes(16))
        if how == "few":
            assert corpus.report([outcome]).counted.all()
        elif how == "many":
            table = pa.table({"handle": [order.handle], "digest": [bytes(16)]})
            assert corpus.report(table).counted.all()
        else:
            assert corpus.release([order.handle]) == 1
        clock.pass_seconds(0.95)
        assert not corpus.lease(10)
        clock.pass_seconds(0.06)
        assert len(corpus.lease(10)) == 1
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.stats().in_flight == 1
