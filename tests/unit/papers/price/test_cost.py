"""Freshness and cost at a fixed interval, against integration, minimisation and the paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from recrawl.core.signal_quality import from_recall
from recrawl.core.value import crawl_value
from recrawl.papers.price.cost import (
    asymptotic_interval,
    cost_price,
    cost_rate,
    freshness_at_interval,
    optimal_interval,
)
from recrawl.papers.price.optimum import continuous_optimum

HOUR = 3_600.0
DAY = 24 * HOUR

costs = st.floats(1e-3, 1e3)


def optimal_ratio(fetch_cost: float, staleness_cost_per_hour: float, period: float = DAY) -> float:
    """Return Cost's r = interval / period, with its cost of staleness per hour."""
    interval = optimal_interval(
        1 / period, fetch_cost=fetch_cost, staleness_cost=staleness_cost_per_hour / HOUR
    )
    return float(interval / period)


@pytest.mark.parametrize(
    ("fetch_cost", "staleness_cost", "ratio"), [(1, 1, 0.321), (1, 4, 0.152), (4, 1, 0.731)]
)
def test_the_papers_examples(fetch_cost: float, staleness_cost: float, ratio: float) -> None:
    """Cost §3.1 reads 0.3 off its figure and §3.2 0.15 and "0.8", at a period of 24 h."""
    assert optimal_ratio(fetch_cost, staleness_cost) == pytest.approx(ratio, abs=5e-4)


def test_freshness_is_the_mean_chance_of_no_change() -> None:
    for interval in (1e-3, 0.5, 3.0, 40.0):
        expected = quad(lambda t: np.exp(-0.7 * t), 0, interval)[0] / interval
        assert freshness_at_interval(0.7, interval) == pytest.approx(expected, rel=1e-12)


def test_a_page_that_never_changes_stays_fresh() -> None:
    np.testing.assert_array_equal(freshness_at_interval(0.0, [1.0, np.inf]), 1.0)
    cost = cost_rate(0.0, [10.0, np.inf], fetch_cost=2.0, staleness_cost=5.0)
    np.testing.assert_array_equal(cost, [0.2, 0.0])


def test_a_page_never_fetched_is_stale() -> None:
    assert freshness_at_interval(0.3, np.inf) == 0.0
    assert cost_rate(0.3, np.inf, fetch_cost=2.0, staleness_cost=5.0) == 5.0


@given(rate=st.floats(1e-9, 1.0), fetch_cost=costs, staleness_cost=costs)
def test_the_optimum_is_the_least_cost(
    rate: float, fetch_cost: float, staleness_cost: float
) -> None:
    prices = {"fetch_cost": fetch_cost, "staleness_cost": staleness_cost}
    best = float(optimal_interval(rate, **prices))
    if fetch_cost * rate >= staleness_cost:
        assert best == np.inf
        return
    if fetch_cost * rate > 0.99 * staleness_cost:
        return  # the minimum is too flat to be found
    found = minimize_scalar(
        lambda log_t: float(cost_rate(rate, np.exp(log_t), **prices)),
        bracket=(np.log(best) - 1, np.log(best) + 0.5),
        tol=1e-10,
    )
    assert np.exp(found.x) == pytest.approx(best, rel=1e-4)
    assert float(cost_rate(rate, best, **prices)) <= found.fun * (1 + 1e-12)


@given(ratio=st.floats(1e-10, 0.99), period=st.floats(1.0, 1e9))
def test_the_stationarity_condition_holds(ratio: float, period: float) -> None:
    """Cost §3.2: e^r = (1 + r)/(1 - Cc/(CsΔ))."""
    interval = optimal_interval(1 / period, fetch_cost=ratio * period, staleness_cost=1.0)
    r = interval / period
    # As r - log(1 + r) = -log(1 - Cc/(CsΔ)), which does not cancel.
    small = r**2 / 2 - r**3 / 3 + r**4 / 4
    left = small if r < 1e-4 else r - np.log1p(r)
    assert left == pytest.approx(-np.log1p(-ratio), rel=1e-9)


def test_no_interval_is_worth_it_for_a_page_that_changes_too_fast() -> None:
    """None if Cc ≥ Cs Δ, with Δ the change period."""
    assert optimal_ratio(1, 1, period=HOUR) == np.inf
    assert optimal_ratio(1, 1, period=0.5 * HOUR) == np.inf
    assert optimal_ratio(1, 1, period=1.001 * HOUR) < np.inf


def test_the_interval_grows_as_the_root_of_the_period() -> None:
    periods = np.array([1e3, 1e5, 1e9]) * HOUR
    exact = optimal_interval(1 / periods, fetch_cost=1.0, staleness_cost=1 / HOUR)
    limit = asymptotic_interval(1 / periods, fetch_cost=1.0, staleness_cost=1 / HOUR)
    np.testing.assert_allclose(limit, np.sqrt(2 * periods * HOUR))
    # r ≈ √(2z) (1 + √(2z)/3), z = Cc/(CsΔ)
    first_order = limit * (1 + np.sqrt(2 * HOUR / periods) / 3)
    np.testing.assert_allclose(exact, first_order, rtol=2 * HOUR / periods[0])
    assert exact[-1] == pytest.approx(limit[-1], rel=2e-5)


@given(rate=st.floats(1e-6, 0.5), fetch_cost=costs, staleness_cost=costs)
def test_a_cost_ratio_is_a_price(rate: float, fetch_cost: float, staleness_cost: float) -> None:
    """At the optimal interval a fetch is worth Cc/Cs: Longevity's rule, Signals' multiplier."""
    interval = optimal_interval(rate, fetch_cost=fetch_cost, staleness_cost=staleness_cost)
    if np.isfinite(interval):
        price = cost_price(fetch_cost, staleness_cost)
        assert crawl_value(rate, interval) == pytest.approx(float(price), rel=1e-9)


def test_the_price_of_a_budget_is_a_cost_ratio() -> None:
    """Pages at their least cost spend some budget, whose optimum has that ratio as its price."""
    rates = np.array([0.1, 0.5, 1.2])
    intervals = optimal_interval(rates, fetch_cost=0.3, staleness_cost=1.0)
    best = continuous_optimum(from_recall(rates, 0.0, 0.0), float((1 / intervals).sum()))
    assert best.price == pytest.approx(0.3, rel=1e-6)
    np.testing.assert_allclose(best.effective_elapsed, intervals, rtol=1e-6)


@given(rate=st.floats(1e-6, 1e2), interval=st.floats(1e-6, 1e6))
def test_cost_does_not_depend_on_the_unit_of_time(rate: float, interval: float) -> None:
    cost = cost_rate(rate, interval, fetch_cost=2.0, staleness_cost=3.0)
    in_days = cost_rate(rate * DAY, interval / DAY, fetch_cost=2.0, staleness_cost=3.0 * DAY)
    assert in_days / DAY == pytest.approx(float(cost), rel=1e-9)


def test_short_intervals_keep_the_digits_of_staleness() -> None:
    """Half an interval's changes, r/2 - r²/6."""
    for r in (1e-12, 1e-7, 1e-4):
        stale = cost_rate(r, 1.0, fetch_cost=0.0, staleness_cost=1.0)
        assert stale == pytest.approx(r / 2 - r**2 / 6 + r**3 / 24, rel=1e-13)
    sides = cost_rate([1.0, np.nextafter(1, 2)], 1.0, fetch_cost=0.0, staleness_cost=1.0)
    np.testing.assert_allclose(sides, np.exp(-1), rtol=1e-15)
