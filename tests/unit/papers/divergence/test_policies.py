"""Longevity's online policies, against areas summed by hand and the period they should reach."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.core.divergence import (
    ChangeProfiles,
    add_observations,
    combine_profiles,
    scroll_divergence,
    start_bases,
)
from recrawl.core.value.scroll import scroll_due
from recrawl.papers.divergence import (
    BoundBasedPolicy,
    CurveFittingPolicy,
    Periods,
    ValueBounds,
    fit_curves,
    risk_cap,
)
from recrawl.papers.value.longevity import fitted_due, value_of_samples

observations = st.lists(st.tuples(st.integers(1, 50), st.floats(0, 0.2)), min_size=1, max_size=8)


def one_profile(gaps_and_growths: list[tuple[int, float]]) -> tuple[ChangeProfiles, np.ndarray]:
    """Return a profile whose divergence grows by these steps, at these gaps, and both."""
    profiles = ChangeProfiles.empty(1, n_bases=1)
    start_bases(profiles, 0, 0.0)
    steps = np.array(gaps_and_growths)
    at = np.cumsum(steps[:, 0])
    seen = np.minimum(np.cumsum(steps[:, 1]), 1).astype(np.float32)
    add_observations(profiles, np.zeros(at.size, int), at, seen[:, None])
    return profiles, np.stack([at, seen.astype(float)])


@given(steps=observations)
def test_bounds_of_one_profile_are_its_step_functions(steps: list[tuple[int, float]]) -> None:
    """Longevity fig. 7: the jump comes right after an observation, or right before the next."""
    profiles, (at, seen) = one_profile(steps)
    bounds = BoundBasedPolicy().bounds(profiles, at[-1])
    lower = value_of_samples(at, seen, at[-1], between="first")
    upper = value_of_samples(at, seen, at[-1], between="second")
    np.testing.assert_allclose(bounds.lower, np.maximum(lower, 0), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(bounds.upper, upper, rtol=1e-9, atol=1e-6)


@given(steps=observations, share=st.floats(0.01, 1))
def test_bounds_hold_for_any_curve_between(steps: list[tuple[int, float]], share: float) -> None:
    """The straight line between observations is one, also at an age between two of them."""
    profiles, (at, seen) = one_profile(steps)
    elapsed = share * at[-1]
    bounds = BoundBasedPolicy().bounds(profiles, elapsed)
    value = value_of_samples(at, seen, elapsed)
    assert bounds.lower <= value * (1 + 1e-6) + 1e-6
    assert value <= bounds.upper * (1 + 1e-6) + 1e-6


def test_each_age_is_averaged_over_the_profiles_that_reach_it() -> None:
    """Bases at 0 and 10, fetches at 10 and 20; the younger base counts up to age 10 only.

    Up to age 10 the divergence is 0 to .2 and 0 to .4, from 10 to 20 it is .2 to .6, at 20 it
    is .6: the areas are at least 10 · 0 + 10 · .2 and at most 10 · .3 + 10 · .6.
    """
    profiles = ChangeProfiles.empty(1, n_bases=2)
    start_bases(profiles, 0, 0.0)
    add_observations(profiles, 0, 10.0, [0.2, np.nan])
    start_bases(profiles, 0, 10.0)
    add_observations(profiles, 0, 20.0, [0.6, 0.4])
    bounds = BoundBasedPolicy().bounds(profiles, 20.0)
    np.testing.assert_allclose(bounds.lower, 20 * 0.6 - (3 + 6), rtol=1e-6)
    np.testing.assert_allclose(bounds.upper, 20 * 0.6 - (0 + 2), rtol=1e-6)


def test_beyond_all_observations_divergence_does_not_fall_and_is_at_most_one() -> None:
    profiles = ChangeProfiles.empty(1, n_bases=1)
    start_bases(profiles, 0, 0.0)
    add_observations(profiles, 0, 10.0, [0.5])
    bounds = BoundBasedPolicy().bounds(profiles, 30.0)
    np.testing.assert_allclose(bounds.lower, 0.0, atol=1e-9)
    np.testing.assert_allclose(bounds.upper, 30 * 1 - (10 * 0 + 20 * 0.5))


def test_an_unknown_page_has_the_widest_bounds() -> None:
    bounds = BoundBasedPolicy().bounds(ChangeProfiles.empty(1), 7.0)
    assert (bounds.lower[0], bounds.upper[0]) == (0.0, 7.0)


def test_doubles_halves_and_keeps() -> None:
    """Longevity §4.3, at T = 5, six seconds after the reference time; 4 was the period."""
    policy = BoundBasedPolicy()
    bounds = ValueBounds(np.array([1.0, 5.0, 1.0]), np.array([4.9, 9.0, 9.0]))
    before = Periods(np.full(3, 4.0), np.full(3, 100.0))
    after = policy.step(before, 106.0, bounds, price=5.0)
    np.testing.assert_array_equal(after.period, [12.0, 2.0, 4.0])
    np.testing.assert_array_equal(after.reference_at, [100.0, 106.0, 100.0])


def test_importance_lowers_the_threshold() -> None:
    profiles, _ = one_profile([(10, 0.3)])
    policy = BoundBasedPolicy()
    bounds = policy.bounds(profiles, 10.0)
    before = Periods(np.array([10.0]), np.array([0.0]))
    plain = policy.step(before, 10.0, bounds, price=5.0)
    heavy = policy.step(before, 10.0, bounds, price=10.0, importance=2.0)
    assert plain.period == heavy.period == 20.0


def run_bounds(n_items: int, price: float, n_bases: int) -> np.ndarray:
    """Follow a page whose divergence is the mean curve itself; return the later periods."""
    policy = BoundBasedPolicy()
    profiles = ChangeProfiles.empty(1, n_bases=n_bases)
    periods = Periods(np.array([0.1]), np.array([0.0]))
    start_bases(profiles, 0, 0.0)
    at = 0.0
    waited = []
    for _ in range(120):
        at += periods.period[0]
        waited.append(periods.period[0])
        age = np.nan_to_num(at - profiles.base_at[0], nan=-1.0)
        seen = scroll_divergence(1.0, np.maximum(age, 0), n_items=n_items)
        add_observations(profiles, 0, at, np.where(age > 0, seen, np.nan))
        bounds = policy.bounds(profiles, at - periods.reference_at)
        periods = policy.step(periods, at, bounds, price)
        start_bases(profiles, 0, at, keep_at=periods.reference_at)
    return np.array(waited[40:])


@pytest.mark.parametrize("n_bases", [1, 2, 5])
@pytest.mark.parametrize("n_items", [1, 10])
@pytest.mark.parametrize("price", [0.05, 0.2, 0.5])
def test_bounds_settle_near_the_best_period(n_items: int, price: float, n_bases: int) -> None:
    """A third to the whole of the best one: it looks more often than needed, to be sure."""
    best = min(float(scroll_due(1.0, price, n_items=n_items)), 10 * price)
    waited = run_bounds(n_items, price, n_bases)
    assert 0.3 * best < waited.mean() < 1.1 * best
    assert waited.max() <= 10 * price


@pytest.mark.parametrize("divergence", [0.0, 1.0])
def test_bounds_never_get_stuck(divergence: float) -> None:
    """A page that never changes ends at the longest period; one replaced at once is given up."""
    policy = BoundBasedPolicy(risk=10.0)
    profiles = ChangeProfiles.empty(1, n_bases=1)
    periods = Periods(np.array([0.1]), np.array([0.0]))
    start_bases(profiles, 0, 0.0)
    at = 0.0
    references = set()
    for _ in range(200):
        at += periods.period[0]
        add_observations(profiles, 0, at, [divergence])
        bounds = policy.bounds(profiles, at - periods.reference_at)
        periods = policy.step(periods, at, bounds, price=1.0)
        start_bases(profiles, 0, at, keep_at=periods.reference_at)
        references.add(float(periods.reference_at[0]))
    assert len(references) > 10
    if divergence == 0.0:
        assert periods.period[0] == 10.0


def test_curve_fitting_finds_the_best_period() -> None:
    """Profiles of the mean curve, learned in a few fetches: the period is the optimum."""
    price, n_items = 0.5, 10
    policy = CurveFittingPolicy(learning_seconds=0.4)
    profiles = ChangeProfiles.empty(1)
    start_bases(profiles, 0, 0.0)
    at, period = 0.0, 0.4
    for n_fetches in range(1, 13):
        at += period
        age = np.nan_to_num(at - profiles.base_at[0], nan=-1.0)
        seen = scroll_divergence(1.0, np.maximum(age, 0), n_items=n_items)
        add_observations(profiles, 0, at, np.where(age > 0, seen, np.nan))
        start_bases(profiles, 0, at)
        due = fitted_due(fit_curves(combine_profiles(profiles), n_items_tried=(10,)), price)
        period = float(policy.period(due, n_fetches + 1, price)[0])
        assert period <= 0.4 * (n_fetches + 1) * (1 + 1e-12)
    assert period == pytest.approx(float(scroll_due(1.0, price, n_items=n_items)), rel=1e-3)


def test_the_learning_phase_grows_by_the_fetch() -> None:
    """Longevity §4.2: at most l · n."""
    policy = CurveFittingPolicy(learning_seconds=3.0)
    np.testing.assert_array_equal(
        policy.period(np.inf, [0, 1, 2, 10], price=2.0), [3.0, 3.0, 6.0, 20.0]
    )


@given(price=st.floats(1e-3, 1e6), risk=st.floats(1, 100), importance=st.floats(1e-3, 1e3))
def test_no_more_than_the_risk_is_lost(price: float, risk: float, importance: float) -> None:
    """Longevity §4.5: a copy wrong from the start loses importance times Dmax a second."""
    cap = risk_cap(price, risk=risk, importance=importance, divergence_max=0.5)
    assert cap * importance * 0.5 == pytest.approx(risk * price)


def test_refuses_hyper_parameters_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"risk must be at least 1, got 0\.5"):
        BoundBasedPolicy(risk=0.5)
    with pytest.raises(ValueError, match=r"learning_seconds must be positive, got 0\.0"):
        CurveFittingPolicy(learning_seconds=0.0)
