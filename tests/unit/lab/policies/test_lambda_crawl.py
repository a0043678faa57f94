"""LambdaCrawl's rates minimise its penalty, and announced pages are fetched when announced."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from lab.policies.lambda_crawl import LambdaCrawl, lambda_crawl_rates
from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.sim import FetchOutcomes, SignalSource, make_web, realistic_web, signals_web, simulate

HOUR = 3_600.0
DAY = 24 * HOUR


def penalty(
    fetch_rate: FloatArray, change_rate: FloatArray, importance: FloatArray, announced: FlagArray
) -> float:
    """Return the mean of 1 + 1/2 + … + 1/n over the changes missed, n, weighted."""
    # n is geometric with ratio q, and Σ (1-q) qⁿ H(n) is summed here without its closed form.
    q = np.where(announced, 1 - fetch_rate / change_rate, change_rate / (fetch_rate + change_rate))
    n = np.arange(1, 4_000)
    harmonic = np.cumsum(1 / n)
    return float(sum(w * ((1 - r) * r**n @ harmonic) for w, r in zip(importance, q, strict=True)))


@pytest.mark.parametrize("budget", [0.5, 3.0, 9.0])
def test_its_rates_spend_the_budget_at_the_least_penalty(budget: float) -> None:
    change_rate = np.array([0.1, 1.0, 4.0, 0.5, 2.0])
    importance = np.array([1.0, 2.0, 0.5, 3.0, 1.0])
    announced = np.array([False, False, False, True, True])
    rates = lambda_crawl_rates(change_rate, importance, announced, budget)
    assert rates.sum() == pytest.approx(budget, rel=1e-6)

    def at(log_share: FloatArray) -> float:
        share = np.exp(log_share - log_share.max())
        found = budget * share / share.sum()
        found = np.where(announced, np.minimum(found, change_rate * (1 - 1e-12)), found)
        return penalty(found, change_rate, importance, announced)

    best = minimize(at, np.log(rates), method="Nelder-Mead", options={"maxiter": 400})
    assert at(np.log(rates)) <= best.fun * (1 + 1e-6) + 1e-9


def test_pages_all_announced_are_fetched_at_every_change_if_the_budget_allows() -> None:
    change_rate = np.array([0.1, 0.2])
    rates = lambda_crawl_rates(change_rate, np.ones(2), np.ones(2, np.bool_), budget=1.0)
    np.testing.assert_array_equal(rates, change_rate)


@pytest.mark.slow_without_jit
def test_perfect_signals_are_recognised_and_followed() -> None:
    """Pages of a group that announces every change: in the end fetched when they change."""
    rate = np.full(40, 0.5 / DAY)
    group = np.repeat([0, 1], 20)
    source = SignalSource(recall=np.where(group == 0, 1.0, 0.0), false_rate=np.zeros(40))
    web = make_web(2, 120 * DAY, rate, group=group, sources=[source])
    n_fetches = np.zeros(2, np.int64)
    n_changed = np.zeros(2, np.int64)

    def note(page: np.ndarray, at: np.ndarray, outcomes: FetchOutcomes) -> None:
        late = at > 60 * DAY
        np.add.at(n_fetches, group[page[late]], 1)
        np.add.at(n_changed, group[page[late & outcomes.changed]], 1)

    simulate(web, LambdaCrawl(), 60 / DAY, on_fetches=note)
    assert n_changed[0] == n_fetches[0] > 200
    assert n_changed[1] < 0.6 * n_fetches[1]


@pytest.mark.slow_without_jit
def test_signals_can_be_ignored() -> None:
    web = signals_web(0, horizon=300 * HOUR, n_pages=60)
    silent = web._replace(
        signals=web.signals._replace(
            at=np.empty(0),
            offsets=np.zeros(61, np.int64),
            source=np.empty(0, np.int64),
            claimed_at=np.empty(0),
        )
    )
    deaf = simulate(web, LambdaCrawl(heeds_signals=False), 3 / HOUR)
    assert deaf.freshness == simulate(silent, LambdaCrawl(), 3 / HOUR).freshness


@pytest.mark.slow_without_jit
def test_runs_are_reproducible_in_batches_late_and_without_copies() -> None:
    web = realistic_web(5, 60, horizon=90 * DAY)
    how: dict[str, Any] = {"n_per_pick": 7, "latency_seconds": HOUR, "has_copies": False}
    first = simulate(web, LambdaCrawl(), 100 / DAY, **how)
    assert simulate(web, LambdaCrawl(), 100 / DAY, **how).freshness == first.freshness
