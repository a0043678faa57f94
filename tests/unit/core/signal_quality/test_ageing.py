"""Signals as ageing: P(fresh) after signals is that of a later time without them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.belief import GammaBelief, expected_freshness
from recrawl.core.signal_quality import (
    SignalRates,
    effective_elapsed,
    elapsed_after_signal,
    false_chance,
)

DAY = 86_400.0
precisions = st.floats(0, 0.99)
shapes = st.floats(0.1, 100)
ratios = st.floats(0, 1e3)


@given(alpha=st.floats(1e-3, 10), p=precisions, n=st.integers(0, 20), elapsed=st.floats(0, 100))
def test_effective_time_leaves_the_chance_of_being_fresh(
    alpha: float, p: float, n: int, elapsed: float
) -> None:
    """Signals eq. 1: e^{-ατ}(ν/γ)^n = e^{-α τ_eff}."""
    age = SignalRates.of(alpha, 1.0, p).signal_age()
    aged = float(effective_elapsed(elapsed, n, age))
    expected = alpha * elapsed - n * np.log1p(-p)
    assert alpha * aged == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_sources_add_up_along_their_axis() -> None:
    n = np.array([[2, 0], [1, 3], [0, 0]])
    aged = effective_elapsed([100.0, 10.0, 5.0], n, [10.0, np.inf], axis=-1)
    np.testing.assert_array_equal(aged, [120.0, np.inf, 5.0])
    one_source = effective_elapsed([100.0, 10.0], [2, 1], [10.0, 40.0])
    np.testing.assert_array_equal(one_source, [120.0, 50.0])


@given(shape=shapes, elapsed=ratios, p=precisions)
def test_a_signal_divides_the_believed_freshness_by_its_precision(
    shape: float, elapsed: float, p: float
) -> None:
    belief = GammaBelief.of(shape, DAY)
    aged = elapsed_after_signal(belief, elapsed * DAY, p)
    before, after = expected_freshness(belief, elapsed * DAY), expected_freshness(belief, aged)
    assert float(after) == pytest.approx(float(before) * (1 - p), rel=1e-9)
    assert aged >= elapsed * DAY


@given(shape=shapes, elapsed=ratios, p=st.lists(precisions, min_size=1, max_size=4))
def test_the_order_of_signals_does_not_matter(shape: float, elapsed: float, p: list[float]) -> None:
    belief = GammaBelief.of(shape, DAY)
    there = back = np.asarray(elapsed * DAY)
    for precision in p:
        there = elapsed_after_signal(belief, there, precision)
    for precision in p[::-1]:
        back = elapsed_after_signal(belief, back, precision)
    np.testing.assert_allclose(there, back, rtol=1e-9)
    np.testing.assert_allclose(
        expected_freshness(belief, there),
        expected_freshness(belief, elapsed * DAY) * np.prod(1 - np.array(p)),
        rtol=1e-9,
        atol=1e-300,
    )


def test_a_sharp_belief_ages_as_a_known_rate() -> None:
    rate = 2 / DAY
    belief = GammaBelief.with_mean_rate(rate, shape=1e8)
    aged = elapsed_after_signal(belief, 3 * DAY, 0.7)
    known = effective_elapsed(3 * DAY, 1, SignalRates.of(rate, 1.0, 0.7).signal_age())
    np.testing.assert_allclose(aged, known, rtol=1e-6)


def test_useless_signals_age_nothing_and_perfect_ones_for_ever() -> None:
    belief = GammaBelief.of([0.5, 5.0], DAY)
    np.testing.assert_array_equal(elapsed_after_signal(belief, [0.0, DAY], 0.0), [0.0, DAY])
    np.testing.assert_array_equal(elapsed_after_signal(belief, [0.0, DAY], 1.0), np.inf)
    np.testing.assert_allclose(
        elapsed_after_signal(belief, DAY, 1e-9) / DAY - 1, [4e-9, 4e-10], rtol=1e-3
    )


@given(shape=shapes, elapsed=ratios, p=precisions)
def test_does_not_depend_on_the_unit_of_time(shape: float, elapsed: float, p: float) -> None:
    in_seconds = elapsed_after_signal(GammaBelief.of(shape, 7 * DAY), elapsed * DAY, p)
    in_days = elapsed_after_signal(GammaBelief.of(shape, 7.0), elapsed, p)
    np.testing.assert_allclose(in_days * DAY, in_seconds, rtol=1e-9)


def test_counted_or_aged_the_chance_is_the_same() -> None:
    """Three signals one by one, or their false chance at once."""
    belief, aged = GammaBelief.of(0.6, 4 * DAY), np.asarray(2 * DAY)
    for _ in range(3):
        aged = elapsed_after_signal(belief, aged, 0.4)
    chance = expected_freshness(belief, 2 * DAY) * false_chance(0.4, 3)
    assert float(expected_freshness(belief, aged)) == pytest.approx(float(chance))
