"""Long pauses, clocks that jump, and fetchers with wrong clocks."""

from collections.abc import Callable

import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(50)]
DAY = 86_400.0


def test_after_a_year_without_opening_no_unspent_budget_has_piled_up(
    open_corpus: Open, clock: ManualClock
) -> None:
    sections = {"budget": {"rate": "10/h", "burst": "1h"}}
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
