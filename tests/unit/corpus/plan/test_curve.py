"""Plans agree with known optima, integrals and simulations."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from recrawl.core.belief import GammaBelief
from recrawl.core.price import DueCodes, averaged_due_elapsed
from recrawl.core.signal_quality import SignalRates, from_recall
from recrawl.corpus.inspect.page_sample import sample_of
from recrawl.corpus.plan.curve import Plan, plan_of
from recrawl.papers.price import continuous_optimum, thresholds_at_price
from recrawl.shard import BudgetUnit, LimitsSet, PriorsSet, SourcesSet, event_of
from recrawl.shard.state.words import class_of, log2_period_of
from recrawl.sim import papers_web, simulate
from recrawl.sim.policies.shard_policy import ShardPolicy
from tests.reference.shards import DAY, HOUR, START_MS, Story

CODES = DueCodes()
SHARPEST = float(CODES.shapes()[-1])
# Periods, shapes and importances that stand for themselves: the codes of a word are exact there.
PERIODS = np.exp2(5.4 + np.array([100, 120, 140, 160]) / 10)
IMPORTANCE = np.exp2(np.array([0.0, 2.0, -1.0, 0.5]))


def story_of(shape: float = SHARPEST, n_each: int = 25, **settings: Any) -> Story:
    """Return a shard of pages of four kinds, one for each period, just added."""
    story = Story(**settings)
    kind = np.arange(4)
    beliefs = event_of(PriorsSet, epoch=1, kind=kind, shape=shape, seconds=shape * PERIODS)
    assert story.apply(beliefs).valid.all()
    kinds = np.repeat(kind, n_each)
    story.add(kinds.size, kind=kinds, importance=IMPORTANCE[kinds])
    return story


def plan(*stories: Story, **options: Any) -> Plan:
    return plan_of([story.shard for story in stories], now_ms=START_MS, **options)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("shape", CODES.shapes()[[8, 15, 25]])
def test_agrees_with_intervals_and_integrals_of_the_belief(shape: float) -> None:
    found = plan(story_of(shape, 1, estimator="gamma", learning="bonus", learning_bonus=0.0))
    # Where hardly anything is fresh, ages are beyond the due table.
    first = int(np.argmax(found.curve.freshness > 0.1))
    for i in range(first, found.curve.price.size, 5):
        belief = GammaBelief.of(shape, shape * PERIODS)
        interval = averaged_due_elapsed(belief, found.curve.price[i], importance=IMPORTANCE)
        fresh = [
            quad(lambda s, b=b: (1 + s / b) ** -shape, 0, t, limit=500)[0] / t
            if t < math.inf
            else 0.0
            for b, t in zip(shape * PERIODS, interval, strict=True)
        ]
        assert found.curve.fetches_per_hour[i] == pytest.approx((HOUR / interval).sum(), rel=0.01)
        assert found.curve.freshness[i] == pytest.approx(np.mean(fresh), abs=2e-3)
        weighted = np.average(fresh, weights=IMPORTANCE)
        assert found.curve.weighted_freshness[i] == pytest.approx(weighted, abs=2e-3)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 3.0])
def test_comes_near_the_optimum_of_known_rates(share: float) -> None:
    rates = from_recall(1 / PERIODS, recall=0.0, false_signal_rate=0.0)
    budget = share * float((1 / PERIODS).sum())
    best = continuous_optimum(rates, budget, importance=IMPORTANCE)
    found = plan(story_of())
    per_hour = 25 * HOUR * budget
    assert found.freshness_at(per_hour) == pytest.approx(best.weighted_freshness, abs=0.01)
    assert found.price_at(per_hour) == pytest.approx(best.price, rel=0.05)


@pytest.mark.slow_without_jit
def test_comes_near_the_optimum_of_pages_with_signals() -> None:
    story = Story(signal_rate_seconds=0.0)
    story.apply(event_of(PriorsSet, epoch=1, kind=0, shape=SHARPEST, seconds=SHARPEST * DAY))
    story.apply(event_of(SourcesSet, source=0, precision=0.8, delay_seconds=0.0))
    page = story.add(20)
    story.report(page, at=0.0)
    for day in range(1, 31):
        story.tick(day * DAY)
        story.signal(page)
    word = story.shard.tables.pages.word[0]
    recall, precision = CODES.class_quality(class_of(word))
    assert recall > 0.3
    alpha = 2.0 ** -log2_period_of(word)
    signal_rate = alpha * recall / (1 - recall) / precision
    one = np.ones(1)
    rates = SignalRates(alpha * one, signal_rate * one, precision * one)
    found = plan(story)
    for i in range(0, found.curve.price.size, 8):
        _, fetch_rate, freshness = thresholds_at_price(rates, found.curve.price[i])
        per_hour = 20 * HOUR * fetch_rate[0]
        assert found.curve.fetches_per_hour[i] == pytest.approx(per_hour, rel=0.1, abs=0.05)
        assert found.curve.freshness[i] == pytest.approx(freshness[0], abs=0.03)


@pytest.mark.slow_without_jit
def test_a_simulated_corpus_is_as_fresh_as_planned(seed: int) -> None:
    """Over 100 seeds it was 0.008 less fresh on average, the deviation 0.008: 5 σ are 0.05."""
    web = papers_web(seed, horizon=1_000 * HOUR, n_pages=100)
    policy = ShardPolicy()
    account = simulate(web, policy, 2 / HOUR, burn_in_seconds=500 * HOUR)
    found = plan_of([policy.shard], now_ms=0)
    assert found.freshness_at(2) == pytest.approx(account.freshness, abs=0.05)


def test_freshness_and_spending_rise_as_the_price_falls() -> None:
    found = plan(story_of())
    for column in ("fetches_per_hour", "freshness", "weighted_freshness"):
        assert (np.diff(getattr(found.curve, column)) >= -1e-9).all()
    assert (np.diff(found.curve.price) < 0).all()
    assert found.curve.weighted_freshness[0] < 0.05
    assert found.curve.freshness[-1] > 0.99


def test_budget_and_freshness_are_the_inverse_of_each_other() -> None:
    found = plan(story_of())
    for freshness in (0.001, 0.3, 0.8, 0.95):
        budget = found.budget_for(freshness)
        assert found.freshness_at(budget) == pytest.approx(freshness, rel=1e-6)
        plain = found.budget_for(freshness, weighted=False)
        assert found.freshness_at(plain, weighted=False) == pytest.approx(freshness, rel=1e-6)


def test_beyond_its_ends_the_curve_is_constant_or_proportional() -> None:
    found = plan(story_of())
    assert found.freshness_at(0.0) == 0.0
    assert found.budget_for(0.0) == 0.0
    assert found.budget_for(1.0) == math.inf
    assert found.freshness_at(math.inf) == found.curve.weighted_freshness[-1]
    assert found.price_at(0.0) == found.curve.price[0]
    with pytest.raises(ValueError, match="freshness must be from 0 to 1, got 2"):
        found.budget_for(2)


def test_kinds_add_up_and_have_their_names() -> None:
    found = plan(story_of(), kinds={1: "product", 2: "news"})
    assert [kind.kind for kind in found.kinds] == ["other", "product", "news", "3"]
    assert [kind.n_pages for kind in found.kinds] == [25] * 4
    spent = np.sum([kind.curve.fetches_per_hour for kind in found.kinds], axis=0)
    np.testing.assert_allclose(spent, found.curve.fetches_per_hour)
    weight = np.array([kind.importance for kind in found.kinds])
    fresh = np.stack([kind.curve.weighted_freshness for kind in found.kinds])
    np.testing.assert_allclose(weight @ fresh / weight.sum(), found.curve.weighted_freshness)


def test_kinds_with_different_numbers_in_shards_are_joined_by_name() -> None:
    one, two = story_of(n_each=3), story_of(n_each=4)
    found = plan(one, two, kinds=[{1: "a", 2: "b"}, {1: "b", 2: "a"}])
    assert {kind.kind: kind.n_pages for kind in found.kinds} == {"other": 7, "a": 7, "b": 7, "3": 7}
    alone = plan(one)
    assert found.n_pages == 28
    both = plan(one, one)
    np.testing.assert_allclose(both.curve.weighted_freshness, alone.curve.weighted_freshness)
    np.testing.assert_allclose(both.curve.fetches_per_hour, 2 * alone.curve.fetches_per_hour)


def test_max_age_costs_and_min_age_saves_at_any_price() -> None:
    story = story_of(n_each=1)
    limits = {"stale_seconds": 0.0, "stale_probability": 0.0}
    story.apply(
        event_of(
            LimitsSet,
            page=[0, 1],
            interval_seconds_min=[0.0, 6 * HOUR],
            interval_seconds_max=[HOUR / 2, math.inf],
            **limits,
        )
    )
    found = plan(story)
    ceiling, floor = (kind.curve.fetches_per_hour for kind in found.kinds[:2])
    assert (ceiling >= 2 - 1e-9).all()
    assert (floor <= 1 / 6 + 1e-9).all()
    # Below what the ceiling costs, in proportion.
    least = found.budget_per_hour[0]
    assert found.freshness_at(least / 2) == pytest.approx(found.freshness_at(least) / 2)


def test_a_staleness_limit_acts_like_max_age() -> None:
    story = story_of(n_each=1)
    story.apply(
        event_of(
            LimitsSet,
            page=0,
            interval_seconds_min=0.0,
            interval_seconds_max=math.inf,
            stale_seconds=HOUR,
            stale_probability=0.1,
        )
    )
    # 1 - e^(-(t - 1 h)/period) ≤ 0.1, the rate being all but known
    latest = HOUR - PERIODS[0] * math.log(0.9)
    found = plan(story)
    assert found.kinds[0].curve.fetches_per_hour[0] == pytest.approx(HOUR / latest, rel=0.01)


def test_a_group_gets_no_more_fetches_than_its_delay_allows() -> None:
    story = story_of()
    free = plan(story)
    story.set_group(0, delay_ms=60_000)
    found = plan(story)
    assert free.curve.fetches_per_hour.max() > 120
    assert found.curve.fetches_per_hour.max() == pytest.approx(60)
    assert (found.curve.weighted_freshness <= free.curve.weighted_freshness + 1e-12).all()
    # What it may sell, it sells as if that were the budget.
    end = found.curve.weighted_freshness[-1]
    assert end == pytest.approx(free.freshness_at(60), abs=2e-3)


def test_a_closed_group_gets_no_fetches() -> None:
    story = story_of()
    story.set_group(0, is_closed=1)
    found = plan(story)
    assert found.curve.fetches_per_hour.max() == 0
    assert found.curve.freshness.max() == 0
    assert found.freshness_at(10) == 0.0
    assert found.budget_for(0.5) == math.inf


def test_a_budget_in_cost_is_planned_in_cost() -> None:
    story = Story()
    story.add(10, cost=4.0)
    story.budget(10, HOUR, unit=BudgetUnit.COST)
    found = plan(story)
    assert found.unit == "cost"
    np.testing.assert_allclose(found.budget_per_hour, 4 * found.curve.fetches_per_hour, rtol=1e-3)


def test_a_page_of_importance_0_has_no_weight() -> None:
    story = Story()
    story.add(2, importance=[1.0, 0.0])
    found = plan(story)
    assert found.kinds[0].importance == pytest.approx(1.0)


def test_the_plan_of_an_empty_corpus_is_empty() -> None:
    found = plan(Story())
    assert (found.n_pages, found.kinds) == (0, ())
    assert found.freshness_at(10) == 0.0
    assert found.budget_for(0.5) == math.inf


def test_a_plan_without_shards_or_points_is_rejected() -> None:
    with pytest.raises(ValueError, match="there must be at least one shard"):
        plan()
    with pytest.raises(ValueError, match="n_budgets must be at least 2, got 1"):
        plan(Story(), n_budgets=1)


@pytest.mark.slow_without_jit
def test_a_sample_represents_all_pages(rng: np.random.Generator) -> None:
    """Three thousand pages of importances that vary by a factor of e: 5 σ are 0.02."""
    story = Story()
    n = 20_000
    kind = (rng.random(n) < 0.001).astype(np.int64)
    story.add(n, kind=kind, importance=rng.lognormal(0, 1, n))
    exact, sampled = plan(story, n_pages_max=n), plan(story, n_pages_max=3_000)
    assert exact.is_exact
    assert not sampled.is_exact
    assert sampled.n_counted < 3_100
    assert sampled.n_pages == n
    # A kind of a few pages is looked at whole.
    assert sampled.kinds[1].n_pages == np.count_nonzero(kind)
    budget = exact.budget_for(0.9)
    assert sampled.freshness_at(budget) == pytest.approx(0.9, abs=0.02)
    np.testing.assert_array_equal(
        plan(story, n_pages_max=3_000).curve.freshness, sampled.curve.freshness
    )


def test_a_sample_has_each_page_once_and_represents_all() -> None:
    story = Story()
    page = story.add(1_000, kind=np.arange(1_000) % 3)
    story.remove(page[::7])
    sample = sample_of(story.shard.tables, 100)
    assert np.unique(sample.slot).size == sample.slot.size
    assert not np.isin(sample.slot, page[::7]).any()
    assert sample.n_pages.sum() == pytest.approx(story.shard.n_pages)
    assert not sample.is_all
    everything = sample_of(story.shard.tables, 10_000)
    assert everything.is_all
    assert everything.slot.size == story.shard.n_pages
