"""The Gamma belief, against numerical posteriors and its laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recrawl.core.belief import (
    GammaBelief,
    after_last_modified,
    after_poll,
    expected_freshness,
    fade_beliefs,
    mean_rate,
    rate_quantile,
    rebase_beliefs,
    very_stale_probability,
)
from tests.reference.belief_posterior import DensePosterior, exact_moments, log_rates_around

DAY = 86_400.0
shapes = st.floats(0.02, 1e3)
durations = st.floats(1.0, 1e9)
chances = st.floats(0.0, 1.0)


def variance(belief: GammaBelief) -> float:
    return float(belief.shape / belief.seconds**2)


@pytest.mark.parametrize("shape", [0.05, 0.4, 1.0, 3.0, 150.0])
def test_a_change_leaves_the_mean_and_variance_of_the_exact_posterior(shape: float) -> None:
    """Sums over 1 500 to 50 000 rates, for intervals from 1e-5 to 1e4 of the belief's seconds."""
    seconds = 7.0
    log_rate = log_rates_around(shape, seconds)
    for ratio, q in itertools.product(
        (1e-5, 1e-2, 0.3, 1.0, 5.0, 100.0, 1e4), (1.0, 0.999, 0.6, 0.1, 1e-6)
    ):
        exact = DensePosterior(shape, seconds, log_rate)
        exact.poll(ratio * seconds, True, q)
        belief = after_poll(GammaBelief.of(shape, seconds), ratio * seconds, True, q)
        assert float(mean_rate(belief)) == pytest.approx(float(exact.mean()[0]), rel=1e-8)
        assert variance(belief) == pytest.approx(float(exact.variance()[0]), rel=1e-8)


@given(shape=st.floats(1e-2, 1e4), ratio=st.floats(-13, 9), q=chances)
def test_a_change_is_matched_without_loss_of_digits(shape: float, ratio: float, q: float) -> None:
    """Where the moments' differences cancel: against 60 digits."""
    mean, spread = exact_moments(shape, DAY, 10**ratio * DAY, q)
    belief = after_poll(GammaBelief.of(shape, DAY), 10**ratio * DAY, True, q)
    assert float(mean_rate(belief)) == pytest.approx(mean, rel=1e-11)
    assert variance(belief) == pytest.approx(spread, rel=1e-11)


def test_a_change_at_once_is_one_more_change_seen() -> None:
    """The limit t → 0: the density is multiplied by the rate."""
    for elapsed in (1e-12, 5e-324):
        shape, seconds = after_poll(GammaBelief.of([0.3, 40.0], 1e6), elapsed, True)
        np.testing.assert_allclose(shape, [1.3, 41.0], rtol=1e-12)
        np.testing.assert_allclose(seconds, 1e6, rtol=1e-12)


def test_a_change_that_signals_explain_says_nothing() -> None:
    belief = GammaBelief.of([0.3, 40.0], 1e6)
    for elapsed in (0.0, 1e3, 1e12):
        np.testing.assert_array_equal(after_poll(belief, elapsed, True, 0.0), belief)
    nearly = after_poll(belief, 1e6, True, 1e-9)
    np.testing.assert_allclose(nearly, belief, rtol=1e-7)


def test_a_change_after_a_very_long_time_says_nothing() -> None:
    belief = GammaBelief.of([0.3, 40.0], 1.0)
    np.testing.assert_allclose(after_poll(belief, 1e60, True), belief, rtol=1e-15)


@pytest.mark.parametrize("shape", [0.1, 0.7, 20.0])
def test_polls_without_a_change_are_exact(shape: float) -> None:
    exact = DensePosterior(shape, 5.0, log_rates_around(shape, 5.0, step=0.01))
    belief = GammaBelief.of(shape, 5.0)
    for elapsed in (0.0, 0.3, 11.0, 2.0):
        exact.poll(elapsed, False)
        belief = after_poll(belief, elapsed, False, 0.4)
    assert float(mean_rate(belief)) == pytest.approx(float(exact.mean()[0]), rel=1e-9)
    assert variance(belief) == pytest.approx(float(exact.variance()[0]), rel=1e-9)


@pytest.mark.parametrize("shape", [0.2, 4.0])
def test_a_last_modified_date_is_exact(shape: float) -> None:
    """A change 3 s ago; none since the poll 5 s ago; a change 2 s ago that a signal announced."""
    exact = DensePosterior(shape, 6.0, log_rates_around(shape, 6.0, step=0.01))
    belief = GammaBelief.of(shape, 6.0)
    exact.last_change(3.0)
    belief = after_last_modified(belief, elapsed=8.0, age=3.0)
    exact.poll(5.0, False)
    belief = after_last_modified(belief, elapsed=5.0, age=11.0)
    exact.poll(2.0, False)
    belief = after_last_modified(belief, elapsed=9.0, age=2.0, is_signalled=True)
    assert float(mean_rate(belief)) == pytest.approx(float(exact.mean()[0]), rel=1e-9)
    assert variance(belief) == pytest.approx(float(exact.variance()[0]), rel=1e-9)


def test_a_last_modified_date_says_more_than_the_poll_alone() -> None:
    belief = GammaBelief.of(0.5, 10 * DAY)
    dated = after_last_modified(belief, elapsed=30 * DAY, age=[1 * DAY, 29 * DAY, 30 * DAY])
    undated = after_poll(belief, 30 * DAY, [True, True, False])
    assert np.all(dated.shape[:2] > undated.shape[:2])
    np.testing.assert_array_equal(dated.shape[2:], undated.shape[2:])
    np.testing.assert_array_equal(dated.seconds[2:], undated.seconds[2:])


@given(shape=shapes, seconds=durations, elapsed=durations, q=chances)
def test_a_change_never_lowers_the_rate_and_none_never_raises_it(
    shape: float, seconds: float, elapsed: float, q: float
) -> None:
    belief = GammaBelief.of(shape, seconds)
    before = float(mean_rate(belief))
    changed = after_poll(belief, elapsed, True, q)
    assert float(mean_rate(changed)) >= before * (1 - 1e-14)
    assert float(changed.shape) >= shape * (1 - 1e-14)
    assert float(changed.shape) <= (shape + 1) * (1 + 1e-13)
    assert float(mean_rate(after_poll(belief, elapsed, False, q))) <= before


@given(shape=shapes, seconds=durations, elapsed=durations, q=st.tuples(chances, chances))
def test_a_better_explained_change_says_less(
    shape: float, seconds: float, elapsed: float, q: tuple[float, float]
) -> None:
    less, more = (
        float(mean_rate(after_poll(GammaBelief.of(shape, seconds), elapsed, True, x)))
        for x in sorted(q)
    )
    assert less <= more * (1 + 1e-13)


@given(shape=shapes, seconds=durations, elapsed=durations, q=chances, changed=st.booleans())
def test_does_not_depend_on_the_unit_of_time(
    shape: float, seconds: float, elapsed: float, q: float, changed: bool
) -> None:
    in_seconds = after_poll(GammaBelief.of(shape, seconds), elapsed, changed, q)
    in_days = after_poll(GammaBelief.of(shape, seconds / DAY), elapsed / DAY, changed, q)
    np.testing.assert_allclose(in_days.shape, in_seconds.shape, rtol=1e-9)
    np.testing.assert_allclose(in_days.seconds * DAY, in_seconds.seconds, rtol=1e-9)
    stale = very_stale_probability(in_seconds, elapsed, 100.0)
    in_days_stale = very_stale_probability(in_days, elapsed / DAY, 100.0 / DAY)
    np.testing.assert_allclose(in_days_stale, stale, rtol=1e-6, atol=1e-14)


def test_a_batch_gives_what_its_pages_give_alone(rng: np.random.Generator) -> None:
    shape, seconds, elapsed = np.exp(rng.normal(0, 2, (3, 4, 50)))
    changed, q = rng.random((4, 50)) < 0.5, rng.random((4, 50))
    batch = after_poll(GammaBelief.of(shape, seconds), elapsed, changed, q)
    assert batch.shape.shape == (4, 50)
    for at in itertools.product(range(4), range(50)):
        alone = after_poll(GammaBelief.of(shape[at], seconds[at]), elapsed[at], changed[at], q[at])
        assert (float(alone.shape), float(alone.seconds)) == (batch.shape[at], batch.seconds[at])


def test_one_prior_serves_many_pages() -> None:
    belief = after_poll(GammaBelief.of(0.5, DAY), [DAY, DAY], [True, False])
    assert belief.shape.shape == belief.seconds.shape == (2,)


def test_a_belief_of_a_mean_rate_has_it() -> None:
    belief = GammaBelief.with_mean_rate([2e-6, 1e-3], shape=[0.4, 9.0])
    np.testing.assert_allclose(mean_rate(belief), [2e-6, 1e-3])
    np.testing.assert_array_equal(belief.shape, [0.4, 9.0])


def test_quantiles_are_those_of_the_gamma_distribution() -> None:
    shape, seconds = np.array([0.05, 0.5, 1.0, 80.0]), np.array([1e6, 2.0, 5.0, 7.0])
    belief = GammaBelief.of(shape, seconds)
    for probability in (1e-3, 0.05, 0.5, 0.95, 0.999):
        expected = stats.gamma(shape, scale=1 / seconds).ppf(probability)
        np.testing.assert_allclose(rate_quantile(belief, probability), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [0.1, 1.0, 30.0])
def test_freshness_is_averaged_over_the_belief(shape: float) -> None:
    exact = DensePosterior(shape, 4.0, log_rates_around(shape, 4.0, step=0.01))
    belief = GammaBelief.of(shape, 4.0)
    for elapsed in (1e-6, 0.1, 1.0, 50.0, 1e5):
        expected = float(exact.chance_of_none(elapsed)[0])
        assert float(expected_freshness(belief, elapsed)) == pytest.approx(expected, rel=1e-9)
        very_stale = very_stale_probability(belief, elapsed + 2.5, 2.5)
        assert float(very_stale) == pytest.approx(1 - expected, rel=1e-9, abs=1e-15)


def test_a_copy_cannot_be_stale_for_longer_than_its_age() -> None:
    belief = GammaBelief.of(0.5, DAY)
    np.testing.assert_array_equal(very_stale_probability(belief, [0, 5, 10], 10.0), 0.0)
    assert very_stale_probability(belief, 11.0, 10.0) > 0


@given(shape=shapes, seconds=durations, chance=st.floats(-15, -5))
def test_a_tiny_chance_of_being_stale_keeps_its_digits(
    shape: float, seconds: float, chance: float
) -> None:
    elapsed = 10**chance * seconds / shape
    found = very_stale_probability(GammaBelief.of(shape, seconds), elapsed, 0.0)
    assert float(found) == pytest.approx(10**chance, rel=1e-3)


def test_evidence_is_halved_in_every_half_life() -> None:
    prior = GammaBelief.of(0.5, 10.0)
    belief = GammaBelief.of([4.5, 0.5], [130.0, 4.0])
    once = fade_beliefs(belief, prior, elapsed=7.0, half_life=7.0)
    np.testing.assert_allclose(once, [[2.5, 0.5], [70.0, 7.0]])
    np.testing.assert_allclose(
        fade_beliefs(once, prior, elapsed=3.5, half_life=7.0),
        fade_beliefs(belief, prior, elapsed=10.5, half_life=7.0),
    )
    np.testing.assert_array_equal(fade_beliefs(belief, prior, 1e9, np.inf), belief)
    by_changes = fade_beliefs(
        belief, prior, elapsed=7.0, half_life=np.inf, memory_changes=[1.0, np.inf]
    )
    expected = 7.0 * float(mean_rate(belief)[0])
    np.testing.assert_allclose(by_changes[0][0], 0.5 + (belief.shape[0] - 0.5) * 2**-expected)
    np.testing.assert_array_equal(by_changes[0][1], belief.shape[1])
    gone = fade_beliefs(belief, prior, 1e9, 1.0)
    np.testing.assert_allclose(gone, [[0.5, 0.5], [10.0, 10.0]])


def test_rebasing_is_exact_for_unchanged_polls_and_dates() -> None:
    old, new = GammaBelief.of(0.5, 1e6), GammaBelief.of(0.9, 3e5)
    from_old, from_new = (
        after_last_modified(after_poll(prior, 4e5, False), [9e5, 9e5], [2e5, 1e9])
        for prior in (old, new)
    )
    np.testing.assert_allclose(rebase_beliefs(from_old, old, new), from_new, rtol=1e-12)
    np.testing.assert_allclose(rebase_beliefs(from_new, new, old), from_old, rtol=1e-12)


def test_rebasing_is_close_for_changed_polls(rng: np.random.Generator) -> None:
    """From a prior twice too high, the mean of the right one is met within 5 % at the median."""
    old, new = GammaBelief.of(0.5, 10 * DAY), GammaBelief.of(0.5, 20 * DAY)
    rates = rng.gamma(0.5, 1 / (20 * DAY), 400) + 1e-9
    from_old, from_new = old, new
    for _ in range(20):
        elapsed = rng.lognormal(np.log(7 * DAY), 1.0, 400)
        changed = rng.random(400) < -np.expm1(-rates * elapsed)
        from_old, from_new = (after_poll(b, elapsed, changed) for b in (from_old, from_new))
    ratio = mean_rate(rebase_beliefs(from_old, old, new)) / mean_rate(from_new)
    assert np.median(np.abs(ratio - 1)) < 0.05
    assert np.quantile(np.abs(ratio - 1), 0.9) < 0.2


def test_seconds_taken_away_by_signalled_changes_stay_away() -> None:
    """1 - q e^{-αt} with a small t raises the rate as an unchanged poll of negative time would."""
    old, new = GammaBelief.of(0.5, 1e6), GammaBelief.of(0.5, 2e6)
    from_old, from_new = (after_poll(prior, 3e5, True, 0.3) for prior in (old, new))
    assert from_old.seconds < old.seconds
    moved = rebase_beliefs(from_old, old, new)
    assert float(mean_rate(moved)) == pytest.approx(float(mean_rate(from_new)), rel=0.1)
    assert mean_rate(moved) > mean_rate(new)
    np.testing.assert_allclose(rebase_beliefs(from_old, old, old), from_old, rtol=1e-12)
