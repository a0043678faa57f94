"""CGM's crawlers warm up in turn, then fetch by what they found."""

from typing import Any

import numpy as np
import pytest

from lab.policies.cgm import CgmOptimal, CgmSqrt
from recrawl.core.signal_quality import SignalRates
from recrawl.papers.price import continuous_optimum
from recrawl.sim import FetchOutcomes, Policy, Uniform, Web, make_web, realistic_web, simulate

HOUR = 3_600.0
DAY = 24 * HOUR
POLICIES: dict[str, Policy] = {
    "naive": CgmSqrt("naive"),
    "improved": CgmSqrt("improved", by_importance=True),
    "dropping": CgmSqrt("improved", revisits_unchanged=False),
    "dated": CgmSqrt("last_modified"),
    "optimal": CgmOptimal(n_warm_up=3),
    "optimal by importance": CgmOptimal("improved", by_importance=True),
}


@pytest.fixture(scope="module")
def web() -> Web:
    return realistic_web(5, 60, horizon=90 * DAY)


def fetches_of(web: Web, policy: Policy, budget: float, after: float = 0.0) -> np.ndarray:
    """Return how often each page was fetched after an instant."""
    counts = np.zeros(web.n_pages, np.int64)

    def count(page: np.ndarray, at: np.ndarray, outcomes: FetchOutcomes) -> None:
        np.add.at(counts, page[at > after], 1)

    simulate(web, policy, budget, on_fetches=count)
    return counts


@pytest.mark.parametrize("name", POLICIES)
def test_the_warm_up_fetches_each_page_in_turn(name: str, web: Web) -> None:
    order: list[int] = []

    def note(page: np.ndarray, at: np.ndarray, outcomes: FetchOutcomes) -> None:
        order.extend(page.tolist())

    simulate(web, POLICIES[name], 60 / DAY, horizon=3 * DAY, on_fetches=note)
    assert order == list(range(60)) * 3


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", POLICIES)
def test_runs_are_reproducible_in_batches_late_and_without_copies(name: str, web: Web) -> None:
    policy = POLICIES[name]
    how: dict[str, Any] = {"n_per_pick": 7, "latency_seconds": HOUR, "has_copies": False}
    first = simulate(web, policy, 100 / DAY, **how)
    assert simulate(web, policy, 100 / DAY, **how).freshness == first.freshness
    assert 0.3 < first.freshness <= 1.0


@pytest.mark.slow_without_jit
def test_fetches_are_proportional_to_the_square_root_of_the_rate() -> None:
    """Rates 1, 4 and 16 a day, 20 pages each: fetches as 1, 2 and 4, within 5 %."""
    rate = np.repeat([1.0, 4.0, 16.0], 20) / DAY
    web = make_web(0, 12 * DAY, rate)
    policy = CgmSqrt("irregular", n_warm_up=50)
    counts = fetches_of(web, policy, 60 * 12 / DAY, after=5 * DAY).reshape(3, 20).sum(axis=1)
    np.testing.assert_allclose(counts / counts[0], [1.0, 2.0, 4.0], rtol=0.05)


def test_pages_that_never_changed_can_be_dropped() -> None:
    rate = np.where(np.arange(40) < 20, 0.0, 1 / DAY)
    web = make_web(0, 60 * DAY, rate)
    after = 10 * DAY
    kept = fetches_of(web, CgmSqrt(), 40 / DAY, after)
    dropped = fetches_of(web, CgmSqrt(revisits_unchanged=False), 40 / DAY, after)
    assert kept[:20].min() > 0
    assert dropped[:20].sum() == 0


@pytest.mark.slow_without_jit
def test_the_optimum_is_near_that_of_known_rates_once_rates_are_learned() -> None:
    """Fetches of 30 days against the optimum of the true rates: within 10 % of it per class."""
    rate = np.repeat([0.2, 1.0, 3.0], 15) / DAY
    web = make_web(1, 80 * DAY, rate)
    budget = 90 / DAY
    counts = fetches_of(web, CgmOptimal(n_warm_up=20), budget, after=50 * DAY)
    best = continuous_optimum(SignalRates.of(rate, 0.0, 0.0), budget).fetch_rate * 30 * DAY
    found, wanted = counts.reshape(3, 15).sum(axis=1), best.reshape(3, 15).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=0.1)


@pytest.mark.slow_without_jit
def test_using_importance_beats_uniform_fetches(web: Web) -> None:
    budget = 60 / DAY
    uniform = simulate(web, Uniform(), budget, burn_in_seconds=20 * DAY).freshness
    for name in ("improved", "optimal by importance"):
        account = simulate(web, POLICIES[name], budget, burn_in_seconds=20 * DAY)
        assert account.freshness > uniform
