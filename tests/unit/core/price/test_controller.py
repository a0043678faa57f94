"""The price controller: steady, bounded, and in closed loop with a corpus on virtual time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.price import PriceController, due_elapsed
from recrawl.core.signal_quality import from_recall
from recrawl.papers.price import continuous_optimum


def test_a_backlog_as_wanted_leaves_the_price_alone() -> None:
    controller = PriceController(backlog_steps=3.0)
    assert controller.next_correction(0.25, backlog=30, allowed=10, n_pages=1_000) == 0.25


@given(
    correction=st.floats(-3, 3),
    backlog=st.floats(0, 1e9),
    allowed=st.floats(0.01, 1e5),
    n_pages=st.floats(1, 1e10),
)
def test_moves_against_the_excess_and_never_far(
    correction: float, backlog: float, allowed: float, n_pages: float
) -> None:
    controller = PriceController()
    moved = controller.next_correction(
        correction, backlog=backlog, allowed=allowed, n_pages=n_pages
    )
    excess = backlog - controller.backlog_steps * allowed
    assert abs(moved) <= controller.correction_max
    assert abs(moved - correction) <= allowed / n_pages * (1 + 1e-12) + 1e-12
    assert (moved - correction) * excess >= 0


def test_an_empty_corpus_keeps_its_price() -> None:
    assert PriceController().next_correction(0.1, backlog=0, allowed=5, n_pages=0) == 0.1


@pytest.mark.parametrize("bad", [{"gain": 0.0}, {"gain": 1.5}, {"backlog_steps": -1.0}])
def test_says_what_is_wrong_with_a_parameter(bad: dict[str, float]) -> None:
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be"):
        PriceController(**bad)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("start", [-0.3, 0.0, 0.3])
def test_finds_the_optimal_price_and_holds_the_budget(start: float) -> None:
    """Four thousand pages, 10 fetches a step, oldest due first; a forecast wrong by ``start``.

    Deterministic but for the pages' fixed rates.  After settling, every step spends its whole
    budget, the price stays within 5 % of the continuous optimum's (a little below: pages wait
    some steps after they are due) and the backlog is bounded.
    """
    rng = np.random.default_rng(0)
    n_pages, allowed = 4_000, 10
    change_rate = rng.uniform(0.01, 1.0, n_pages)
    importance = rng.uniform(0.1, 1.0, n_pages)
    best = continuous_optimum(from_recall(change_rate, 0, 0), allowed, importance=importance)
    controller = PriceController()
    correction = start
    fetched_at = -rng.random(n_pages) * np.minimum(best.effective_elapsed, 1_000)
    spent, corrections, backlogs = [], [], []
    for now in range(4_000):
        price = best.price * math.exp(correction)
        overdue = now - fetched_at - due_elapsed(change_rate, price, importance=importance)
        due = np.flatnonzero(overdue >= 0)
        chosen = due[np.argsort(-overdue[due])][:allowed]
        fetched_at[chosen] = now
        backlog = due.size - chosen.size
        correction = controller.next_correction(
            correction, backlog=backlog, allowed=allowed, n_pages=n_pages
        )
        spent.append(chosen.size)
        corrections.append(correction)
        backlogs.append(backlog)
    settled = slice(2_500, None)
    assert min(spent[settled]) == allowed
    assert np.ptp(corrections[settled]) < 0.05
    assert abs(np.mean(corrections[settled])) < 0.05
    assert max(backlogs[settled]) < 10 * allowed
