"""The knowledge gradient, against the best of all intervals and the averages it is made of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import gamma

from recrawl.core.belief import GammaBelief, after_poll
from recrawl.core.price import (
    averaged_due_elapsed,
    best_net_freshness,
    knowledge_gradient,
    learning_due_elapsed,
)
from recrawl.core.value import averaged_value

HOUR = 3_600.0
shapes = st.floats(-2, 5).map(lambda x: 2.0**x)
# In mean periods of the page.
targets = st.floats(-6, 3).map(lambda x: 2.0**x)
ages = st.floats(-5, 6).map(lambda x: 2.0**x)


def net_freshness(shape: float, seconds: float, target: float, interval: float) -> float:
    """(∫₀^τ F(s) ds - ν) / τ by quadrature."""
    fresh = quad(lambda s: (1 + s / seconds) ** -shape, 0, interval, limit=200)[0]
    return float((fresh - target) / interval)


@pytest.mark.parametrize("shape", [0.3, 0.9, 1.0, 2.5, 20.0])
@pytest.mark.parametrize("target", [0.01, 0.2, 0.6])
def test_is_the_best_of_all_intervals(shape: float, target: float) -> None:
    found = minimize_scalar(
        lambda z: -net_freshness(shape, shape, target, np.exp(z)), bounds=(-6, 9), method="bounded"
    )
    best = best_net_freshness(GammaBelief.of(shape, shape), target)
    assert best == pytest.approx(-found.fun, rel=1e-6)


def test_a_page_that_is_never_worth_the_price_has_no_net_freshness() -> None:
    belief = GammaBelief.of(3.0, HOUR)
    assert best_net_freshness(belief, 0.5 * HOUR) == 0
    assert best_net_freshness(belief, 0.49 * HOUR) > 0


def test_at_price_0_a_page_is_always_fresh() -> None:
    assert best_net_freshness(GammaBelief.of(0.7, HOUR), 0.0) == 1


@given(shape=shapes, target=targets, elapsed=ages)
def test_the_gain_is_the_mean_over_what_a_poll_finds(
    shape: float, target: float, elapsed: float
) -> None:
    belief = GammaBelief.of(shape, shape)
    changed = after_poll(belief, elapsed, True)
    unchanged = after_poll(belief, elapsed, False)
    fresh = gamma(shape, scale=1 / shape).expect(lambda rate: np.exp(-rate * elapsed))
    after = fresh * best_net_freshness(unchanged, target)
    after += (1 - fresh) * best_net_freshness(changed, target)
    gain = after - best_net_freshness(belief, target)
    found = knowledge_gradient(belief, elapsed, target)
    assert found == pytest.approx(max(gain, 0), abs=1e-6)


@given(shape=shapes, target=targets, elapsed=ages)
def test_a_page_found_changed_has_no_better_prospects(
    shape: float, target: float, elapsed: float
) -> None:
    """By which the search for a due time leaves out what cannot matter."""
    belief = GammaBelief.of(shape, shape)
    changed = after_poll(belief, elapsed, True)
    assert best_net_freshness(changed, target) <= best_net_freshness(belief, target) + 1e-9


@pytest.mark.parametrize(("shape", "elapsed"), [(0.5, 0.7), (1.4, 2.0), (6.0, 0.3)])
def test_beliefs_matched_by_moments_promise_more_than_the_exact_ones(
    shape: float, elapsed: float
) -> None:
    """The posterior after a change is not a Gamma, so the horizon is a scale, not seconds."""
    target = 0.8
    chance = 1 - (1 + elapsed / shape) ** -shape

    def fresh_if_changed(age: float) -> float:
        unchanged_since = (1 + age / shape) ** -shape - (1 + (age + elapsed) / shape) ** -shape
        return unchanged_since / chance

    def loss(z: float) -> float:
        interval = np.exp(z)
        return float((target - quad(fresh_if_changed, 0, interval)[0]) / interval)

    if_changed = max(-minimize_scalar(loss, bounds=(-5, 9), method="bounded").fun, 0)
    belief = GammaBelief.of(shape, shape)
    if_fresh = best_net_freshness(GammaBelief.of(shape, shape + elapsed), target)
    gain = chance * if_changed + (1 - chance) * if_fresh - best_net_freshness(belief, target)
    assert -1e-9 <= gain <= knowledge_gradient(belief, elapsed, target)


def test_with_a_horizon_of_0_only_the_value_counts() -> None:
    belief = GammaBelief.of([0.2, 1.0, 3.0, 3.0], HOUR)
    price = [HOUR, HOUR, 0.2 * HOUR, HOUR]
    np.testing.assert_array_equal(
        learning_due_elapsed(belief, price, learning_horizon=0.0),
        averaged_due_elapsed(belief, price),
    )


@settings(max_examples=50)
@given(shape=shapes, target=targets, learning_horizon=st.floats(0.5, 40))
def test_is_the_first_age_at_which_value_and_information_reach_the_price(
    shape: float, target: float, learning_horizon: float
) -> None:
    belief = GammaBelief.of(shape, shape)
    due = learning_due_elapsed(belief, target, learning_horizon=learning_horizon)
    tried = 0.2 * target * 2 ** np.arange(0, 20, 1 / 8)

    def worth(elapsed: np.ndarray) -> np.ndarray:
        gain = knowledge_gradient(belief, elapsed, target)
        return averaged_value(belief, elapsed) / target + learning_horizon * gain

    # Less than a thousandth is not looked for.
    assert np.all(worth(tried[tried < due * (1 - 1e-9)]) < 1 + 2e-3)
    if due < np.inf:
        assert worth(due) >= 1 - 1e-9
    assert due <= averaged_due_elapsed(belief, target)


def test_is_largest_for_pages_that_may_be_just_too_fast() -> None:
    belief = GammaBelief.with_mean_rate([0.01 / HOUR, 0.5 / HOUR, 50 / HOUR], shape=2.0)
    gain = knowledge_gradient(belief, 2 * HOUR, price=4 * HOUR)
    assert gain.argmax() == 1
    assert gain[2] == 0


@given(shape=shapes, target=targets, unit=st.floats(1e-3, 1e6))
def test_does_not_depend_on_the_unit_of_time(shape: float, target: float, unit: float) -> None:
    belief, scaled = GammaBelief.of(shape, shape), GammaBelief.of(shape, shape * unit)
    due = learning_due_elapsed(belief, target, learning_horizon=8.0)
    in_units = learning_due_elapsed(scaled, target * unit, learning_horizon=8.0) / unit
    assert in_units == pytest.approx(due, rel=1e-3)
