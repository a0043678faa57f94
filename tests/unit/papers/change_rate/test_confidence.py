"""Bounds of rates: how often they hold, exactly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from recrawl.papers.change_rate import (
    PollHistories,
    irregular_bounds,
    irregular_change_rate,
    regular_bounds,
)
from tests.reference.polls_likelihood import all_outcomes, likelihoods


@pytest.mark.parametrize(("n", "x"), [(1, 0), (1, 1), (10, 0), (10, 6), (10, 10), (2_000, 3)])
def test_regular_bounds_are_those_of_clopper_and_pearson(n: int, x: int) -> None:
    interval = binomtest(x, n).proportion_ci(0.9, method="exact")
    lower, upper = regular_bounds(n, x, 5.0, confidence=0.9)
    assert lower == pytest.approx(-math.log1p(-interval.low) / 5, rel=1e-9)
    expected = math.inf if x == n else -math.log1p(-interval.high) / 5
    assert upper == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [1, 5, 30])
def test_regular_bounds_hold_at_least_as_often_as_they_say(n: int) -> None:
    """By enumeration of all outcomes, at rates from rarely to always changed."""
    x = np.arange(n + 1)
    lower, upper = regular_bounds(n, x, 1.0)
    for r in np.geomspace(1e-3, 20, 200):
        holds = (lower <= r) & (r <= upper)
        assert binom.pmf(x, n, -math.expm1(-r)) @ holds >= 0.95 - 1e-12


def test_irregular_bounds_hold_nearly_as_often_as_they_say() -> None:
    """All 4096 outcomes of twelve polls: 95 % bounds hold 93 to 99.9 % of the time.

    At rates where some polls are changed and some not; elsewhere the exact edges take over.
    """
    elapsed = np.geomspace(0.3, 3.0, 12)
    outcomes = np.array(list(all_outcomes(12)))
    histories = PollHistories(
        np.tile(elapsed, len(outcomes)), outcomes.ravel(), np.arange(len(outcomes) + 1) * 12
    )
    rate, converged = irregular_change_rate(histories)
    assert converged.all()
    lower, upper = irregular_bounds(histories, rate)
    for true_rate in np.geomspace(0.05, 3, 25):
        holds = (lower <= true_rate) & (true_rate <= upper)
        assert 0.93 <= likelihoods(true_rate, elapsed, outcomes) @ holds <= 0.999


def test_the_edges_are_exact() -> None:
    elapsed = [3.0, 10.0, 1.0]
    histories = PollHistories.from_rows(
        [0, 0, 0, 1, 1, 1], elapsed * 2, [0, 0, 0, 1, 1, 1], n_pages=3
    )
    rate, _ = irregular_change_rate(histories)
    lower, upper = irregular_bounds(histories, rate, confidence=0.8)
    assert lower[0] == 0
    assert math.exp(-upper[0] * 14.0) == pytest.approx(0.1)
    assert upper[1] == math.inf
    assert np.prod(-np.expm1(-lower[1] * np.array(elapsed))) == pytest.approx(0.1)
    assert (lower[2], upper[2]) == (0, math.inf)


def test_an_always_changed_page_polled_regularly_has_the_regular_bound() -> None:
    histories = PollHistories.of_one_page([2.0] * 4, [True] * 4)
    lower, _ = irregular_bounds(histories, [math.inf])
    assert lower[0] == pytest.approx(float(regular_bounds(4, 4, 2.0).lower), rel=1e-10)


@given(scale=st.floats(1e-6, 1e6))
def test_does_not_depend_on_the_unit_of_time(scale: float) -> None:
    elapsed, changed = np.array([6.0, 4.0, 3.0, 7.0]), [True, False, True, False]
    rate = 0.13
    here = irregular_bounds(PollHistories.of_one_page(elapsed, changed), [rate])
    there = irregular_bounds(PollHistories.of_one_page(elapsed * scale, changed), [rate / scale])
    np.testing.assert_allclose(np.array(there) * scale, here, rtol=1e-9)
    assert here.lower[0] * here.upper[0] == pytest.approx(rate**2)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 95"):
        regular_bounds(10, 6, 1.0, confidence=95)
    with pytest.raises(ValueError, match="n_changed must be 0 to n_polls"):
        regular_bounds(10, 11, 1.0)
