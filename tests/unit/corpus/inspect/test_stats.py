"""Statistics count events and estimate freshness."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from recrawl.corpus.inspect.stats import demand_curve, stats_of, wilson_interval
from recrawl.shard import PriceMode, Reason, Verdict
from tests.reference.shards import DAY, HOUR, START_MS, Story, ms


def test_a_new_corpus_has_nothing_fresh_and_everything_due() -> None:
    story = Story()
    story.add(3, group=[0, 0, 1])
    stats = stats_of([story.shard], now_ms=START_MS)
    assert stats.n_pages == 3
    assert stats.pages_by_status["new"] == 3
    assert stats.n_groups == 2
    assert stats.n_due == 3
    assert stats.freshness_modelled == 0.0
    assert stats.oldest_fetch_at_ms is None
    assert stats.budget_per_second is None
    assert stats.credit is None


def test_counts_what_happened() -> None:
    story = Story()
    page = story.add(5)
    story.fetch(page[:3], [Verdict.CHANGED, Verdict.UNCHANGED, Verdict.GONE], at=HOUR)
    story.fetch(page[0], Verdict.CHANGED, at=DAY)
    story.signal(page[1], at=DAY)
    story.order(page[4])
    story.report(99)  # no such page
    stats = stats_of([story.shard], now_ms=int(ms(DAY)))
    assert stats.pages_by_status == {
        "new": 2,
        "active": 2,
        "gone": 1,
        "moved": 0,
        "disallowed": 0,
        "retired": 0,
    }
    assert (stats.in_flight, stats.n_ordered, stats.n_outcomes) == (1, 5, 4)
    assert (stats.n_polls, stats.n_changed) == (1, 1)
    assert stats.memory_changes == story.shard.memory_changes
    assert (stats.n_signals, stats.n_void) == (1, 1)
    assert stats.n_leases >= 1
    assert stats.oldest_fetch_at_ms == ms(HOUR)


def test_memory_is_the_mean_over_shards_and_none_if_evidence_never_loses_weight() -> None:
    shards = [Story(memory_changes_max=most).shard for most in (10.0, 30.0)]
    assert stats_of(shards, now_ms=0).memory_changes == 20.0
    assert stats_of([Story(estimator="counts").shard], now_ms=0).memory_changes is None


def test_freshness_agrees_with_the_explanation_of_each_page() -> None:
    story = Story()
    importance = np.array([1.0, 4.0, 0.0, 2.0])
    page = story.add(4, importance=importance)
    story.fetch(page[:3], at=HOUR)
    story.tick(40 * DAY)
    stats = stats_of([story.shard], now_ms=story.shard.now_ms)
    explained = [story.shard.explain(int(p)) for p in page]
    fresh = np.array([e.freshness_probability for e in explained if e is not None])
    assert fresh[3] == 0.0
    assert 0.1 < fresh[0] < 0.9
    assert stats.freshness_modelled == pytest.approx(fresh.mean())
    weighted = np.average(fresh, weights=importance)
    assert stats.weighted_freshness_modelled == pytest.approx(weighted)


def test_due_pages_are_worth_the_price_and_not_in_flight() -> None:
    story = Story()
    page = story.add(4)
    story.fetch(page, at=HOUR)
    story.budget(math.inf, 1, price_mode=PriceMode.FIXED, price=1e5)
    soon = stats_of([story.shard], now_ms=int(ms(2 * HOUR)))
    assert (soon.n_due, soon.price, soon.price_is_fixed) == (0, 1e5, True)
    later = int(ms(60 * DAY))
    assert stats_of([story.shard], now_ms=later).n_due == 4
    story.tick(60 * DAY)
    story.order(page[0])
    assert stats_of([story.shard], now_ms=later).n_due == 3


def test_budget_and_credit_are_of_all_shards() -> None:
    stories = [Story(), Story()]
    for story in stories:
        story.add(2)
        story.budget(30, HOUR, burst_seconds=2 * HOUR)
        story.tick(HOUR)
    stats = stats_of([story.shard for story in stories], now_ms=int(ms(HOUR)))
    assert stats.budget_per_second == pytest.approx(60 / HOUR)
    assert stats.credit == pytest.approx(120, abs=61)
    assert stats.n_pages == 4


def test_audits_come_with_an_interval() -> None:
    story = Story()
    page = story.add(40)
    story.fetch(page, at=HOUR)
    story.tick(2 * HOUR)
    verdict = np.where(np.arange(40) < 10, Verdict.CHANGED, Verdict.UNCHANGED)
    story.report(page, verdict, order=story.order(page, reason=int(Reason.AUDIT)))
    audited = stats_of([story.shard], now_ms=int(ms(2 * HOUR))).audited
    assert (audited.n_audited, audited.n_fresh, audited.ratio) == (40, 30, 0.75)
    assert audited.ratio_low < 0.75 < audited.ratio_high


@pytest.mark.parametrize(("n_true", "n"), [(0, 1), (1, 1), (0, 50), (94, 100), (9_360, 10_000)])
def test_the_interval_is_wilsons(n_true: int, n: int) -> None:
    expected = binomtest(n_true, n).proportion_ci(method="wilson")
    assert wilson_interval(n_true, n) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_no_observation_is_0_to_1() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_a_sample_represents_all_pages(rng: np.random.Generator) -> None:
    """Of 2000 pages drawn, each with a freshness between 0 and 1: 5 σ are at most 0.06."""
    story = Story()
    page = story.add(10_000)
    for part, at in ((page[:3_000], HOUR), (page[3_000:8_000], 30 * DAY)):
        story.tick(at)
        story.report(part)
    now = int(ms(90 * DAY))
    exact = stats_of([story.shard], now_ms=now)
    sampled = stats_of([story.shard], now_ms=now, n_pages_max=2_000)
    assert sampled.is_sampled
    assert not exact.is_sampled
    assert sampled.freshness_modelled == pytest.approx(exact.freshness_modelled, abs=0.06)
    assert sampled.pages_by_status == exact.pages_by_status


def test_statistics_are_plain_data() -> None:
    story = Story()
    story.add(1)
    stats = stats_of([story.shard], now_ms=START_MS)
    assert json.loads(json.dumps(stats.as_dict(), allow_nan=False)) == stats.as_dict()


def test_an_empty_corpus_has_statistics() -> None:
    stats = stats_of([Story().shard], now_ms=START_MS)
    assert (stats.n_pages, stats.freshness_modelled, stats.weighted_freshness_modelled) == (0, 0, 0)
    with pytest.raises(ValueError, match="there must be at least one shard"):
        stats_of([], now_ms=START_MS)


def test_demand_counts_pages_that_were_added_since_the_last_decision() -> None:
    story = Story()
    story.add(2)
    story.shard.decide(START_MS, 1)
    _, before = story.shard.demand_curve()
    tables = story.shard.tables
    # So many that the columns are replaced by longer ones.
    story.add(4 * tables.pages.word.size)
    n_pages = story.shard.n_pages
    _, after = story.shard.demand_curve()
    np.testing.assert_allclose(after, before * n_pages / 2)


def test_demand_is_the_curve_of_the_picker() -> None:
    story = Story()
    story.add(5)
    assert demand_curve([story.shard]).price.size == 0
    story.shard.decide(START_MS, 1)
    price, spent = story.shard.demand_curve()
    alone = demand_curve([story.shard])
    np.testing.assert_allclose(alone.price, price)
    np.testing.assert_allclose(alone.spent_per_second, spent)
    twice = demand_curve([story.shard, story.shard])
    np.testing.assert_allclose(twice.spent_per_second, 2 * spent)
