"""With estimates in place of the truth Signals' policies still do what they are for."""

from typing import Any

import numpy as np
import pytest

from lab.policies.estimated import EstimatedGreedy, EstimatedNcis
from recrawl.sim import (
    FetchOutcomes,
    Oracle,
    Policy,
    Uniform,
    papers_web,
    realistic_web,
    signals_web,
    simulate,
)

HOUR = 3_600.0
DAY = 24 * HOUR
POLICIES: dict[str, Policy] = {
    "mean": EstimatedGreedy(),
    "most likely": EstimatedGreedy("most likely"),
    "ncis": EstimatedNcis(),
}


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", POLICIES)
def test_runs_are_reproducible_in_batches_late_and_without_copies(name: str) -> None:
    web = realistic_web(5, 60, horizon=90 * DAY)
    how: dict[str, Any] = {"n_per_pick": 7, "latency_seconds": HOUR, "has_copies": False}
    first = simulate(web, POLICIES[name], 100 / DAY, **how)
    assert simulate(web, POLICIES[name], 100 / DAY, **how).freshness == first.freshness


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", POLICIES)
def test_freshness_is_between_uniform_fetches_and_the_oracle(name: str) -> None:
    web = papers_web(1, horizon=600 * HOUR, n_pages=100)
    found = simulate(web, POLICIES[name], 3 / HOUR).freshness
    assert simulate(web, Uniform(), 3 / HOUR).freshness < found
    assert found < simulate(web, Oracle(web), 3 / HOUR).freshness


@pytest.mark.slow_without_jit
def test_fitted_signals_improve_freshness() -> None:
    web = signals_web(0, horizon=1_000 * HOUR, n_pages=100)
    with_signals = simulate(web, EstimatedNcis(), 2 / HOUR).freshness
    assert with_signals > simulate(web, EstimatedGreedy(), 2 / HOUR).freshness + 0.02


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("name", POLICIES)
def test_a_page_under_way_is_not_picked_again(name: str) -> None:
    web = papers_web(1, horizon=100 * HOUR, n_pages=20)
    late = 6 * HOUR
    last = np.full(20, -np.inf)

    def check(page: np.ndarray, at: np.ndarray, outcomes: FetchOutcomes) -> None:
        assert np.all(at - last[page] >= late)
        last[page] = at

    simulate(web, POLICIES[name], 2 / HOUR, latency_seconds=late, on_fetches=check)
