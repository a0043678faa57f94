"""The latest time to fetch under a promise, against the probability it bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gamma as gamma_distribution

from recrawl.core.belief import GammaBelief, very_stale_probability
from recrawl.core.price.promise import first_change_quantile_of, latest_elapsed

shapes = st.floats(0.05, 1e4)
durations = st.floats(1e-3, 1e9)


@given(
    shape=shapes,
    seconds=durations,
    stale_for=durations,
    probability=st.floats(1e-6, 0.999),
)
def test_is_when_the_promise_is_just_kept(
    shape: float, seconds: float, stale_for: float, probability: float
) -> None:
    belief = GammaBelief.of(shape, seconds)
    latest = latest_elapsed(belief, stale_for=stale_for, probability=probability)
    exposed = latest - stale_for
    # What is left after subtracting a much longer time has lost its digits.
    if exposed > 1e-4 * stale_for and np.isfinite(latest):
        chance = very_stale_probability(belief, latest, stale_for)
        assert chance == pytest.approx(probability, rel=1e-9)
    assert latest >= stale_for


@given(shape=shapes, seconds=durations, probability=st.floats(0, 0.999))
def test_the_kernel_agrees_with_the_function_of_arrays(
    shape: float, seconds: float, probability: float
) -> None:
    belief = GammaBelief.of(shape, seconds)
    latest = latest_elapsed(belief, stale_for=0.0, probability=probability)
    assert first_change_quantile_of(shape, seconds, probability) == pytest.approx(
        float(latest), rel=1e-13
    )


def test_matches_integration_over_the_belief() -> None:
    """Stale for longer than s at t: changed before t - s, at whatever rate."""
    shape, seconds, stale_for, probability = 0.6, 50.0, 8.0, 0.1
    latest = latest_elapsed(
        GammaBelief.of(shape, seconds), stale_for=stale_for, probability=probability
    )
    density = gamma_distribution(shape, scale=1 / seconds).pdf
    chance = quad(
        lambda z: np.exp(z) * density(np.exp(z)) * -np.expm1(-np.exp(z) * (latest - stale_for)),
        -80,
        3,
        limit=400,
    )[0]
    assert chance == pytest.approx(probability, rel=1e-7)


def test_a_sharp_belief_waits_for_the_quantile_of_the_first_change() -> None:
    belief = GammaBelief.with_mean_rate(0.2, shape=1e9)
    latest = latest_elapsed(belief, stale_for=3.0, probability=0.25)
    assert latest == pytest.approx(3.0 - np.log(0.75) / 0.2, rel=1e-8)


def test_the_ends_of_the_range() -> None:
    belief = GammaBelief.of([0.001, 2.0], 5.0)
    np.testing.assert_array_equal(latest_elapsed(belief, stale_for=7.0, probability=0.0), 7.0)
    np.testing.assert_array_equal(latest_elapsed(belief, stale_for=7.0, probability=1.0), np.inf)
    # So little is known of the first page that it may wait for longer than a float can say.
    assert latest_elapsed(belief, stale_for=7.0, probability=0.9)[0] == np.inf


@given(shape=shapes, seconds=durations, stale_for=durations)
def test_does_not_depend_on_the_unit_of_time(
    shape: float, seconds: float, stale_for: float
) -> None:
    latest = latest_elapsed(GammaBelief.of(shape, seconds), stale_for=stale_for, probability=0.3)
    in_days = latest_elapsed(
        GammaBelief.of(shape, seconds / 86_400), stale_for=stale_for / 86_400, probability=0.3
    )
    assert in_days * 86_400 == pytest.approx(latest, rel=1e-12)
