"""The learned precision and delay of sources, against integrals, and the laws of counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from recrawl.core.belief import GammaBelief, expected_freshness
from recrawl.core.signal_quality import (
    DelayLearner,
    PrecisionLearner,
    SourceCounts,
    SourceDelays,
    precision_after_fetch,
    signal_rate,
)
from recrawl.core.signal_quality.learning import precision_after_change_of
from tests.reference.signals_likelihood import beta_moments_after_change

HOUR, DAY = 3_600.0, 86_400.0
UNKNOWN = GammaBelief.of(0.5, 25 * DAY)


def moments(true: float, total: float) -> tuple[float, float]:
    distribution = beta(true, total - true)
    return float(distribution.mean()), float(distribution.var())


@pytest.mark.parametrize(("true", "false"), [(1, 1), (0.4, 3), (30, 5), (2, 400), (700, 900)])
def test_a_change_leaves_the_mean_and_variance_of_the_exact_posterior(
    true: float, false: float
) -> None:
    for n_signals in (1, 2, 7, 40):
        for freshness in (1.0, 0.99, 0.5, 0.01):
            after = precision_after_change_of(true, true + false, n_signals, math.log(freshness))
            expected = beta_moments_after_change(true, false, n_signals, freshness)
            np.testing.assert_allclose(moments(*after), expected, rtol=1e-8)


@given(true=st.floats(1e-3, 1e8), false=st.floats(1e-3, 1e8))
def test_a_signal_checked_at_once_counts_as_one(true: float, false: float) -> None:
    """Nothing else can have changed the page: one more true signal, to the last digits."""
    after = precision_after_change_of(true, true + false, 1, 0.0)
    np.testing.assert_allclose(after, [true + 1, true + false + 1], rtol=1e-9)


def test_a_change_that_others_explain_says_nothing() -> None:
    after = precision_after_change_of(3.0, 7.0, 2, -math.inf)
    assert after == pytest.approx((3.0, 7.0))
    counts = SourceCounts.zeros(1)
    PrecisionLearner().observe(counts, 0, UNKNOWN, DAY, 2, True, others_false_chance=0.0)
    np.testing.assert_array_equal(counts, 0.0)


@given(
    true=st.floats(0.1, 1e5),
    false=st.floats(0.1, 1e5),
    n_signals=st.integers(1, 50),
    freshness=st.floats(1e-6, 1.0),
)
def test_a_change_never_lowers_a_precision(
    true: float, false: float, n_signals: int, freshness: float
) -> None:
    after_true, after_total = precision_after_change_of(
        true, true + false, n_signals, math.log(freshness)
    )
    before, after = true / (true + false), after_true / after_total
    assert before * (1 - 1e-12) <= after < 1
    assert 0 < after_true < after_total
    # It shows no more than that many signals would, each known to be true or false.
    assert after_total < true + false + n_signals + 1e-6 * (true + false)


def test_no_change_proves_signals_false() -> None:
    learner, counts = PrecisionLearner(prior_precision=0.4, prior_weight=5), SourceCounts.zeros(2)
    learner.observe(counts, [1, 1], UNKNOWN, DAY, [3, 2], False)
    np.testing.assert_array_equal(counts.true, [0, 0])
    np.testing.assert_array_equal(counts.total, [0, 5])
    np.testing.assert_allclose(learner.precision(counts), [0.4, 2 / 10])


def test_intervals_without_signals_are_ignored() -> None:
    learner, counts = PrecisionLearner(), SourceCounts.zeros(1)
    learner.observe(counts, 0, UNKNOWN, DAY, 0, [True, False])
    np.testing.assert_array_equal(counts, 0.0)


def test_polls_are_taken_one_after_the_other(rng: np.random.Generator) -> None:
    n = 60
    source = rng.integers(0, 3, n)
    belief = GammaBelief.of(rng.lognormal(0, 1, n), rng.lognormal(13, 1, n))
    elapsed, signals = rng.lognormal(12, 1, n), rng.integers(0, 4, n)
    changed, others = rng.random(n) < 0.5, rng.random(n)
    learner, batch, single = PrecisionLearner(), SourceCounts.zeros(3), SourceCounts.zeros(3)
    learner.observe(batch, source, belief, elapsed, signals, changed, others)
    for i in range(n):
        alone = GammaBelief.of(belief.shape[i], belief.seconds[i])
        learner.observe(single, source[i], alone, elapsed[i], signals[i], changed[i], others[i])
    np.testing.assert_array_equal(batch, single)


def test_the_believed_freshness_is_what_a_change_is_weighed_by() -> None:
    """And other sources' signals explain a change as the page itself does."""
    learner, counts, same = PrecisionLearner(), SourceCounts.zeros(1), SourceCounts.zeros(1)
    belief = GammaBelief.of(2.0, 3 * DAY)
    freshness = float(expected_freshness(belief, DAY))
    learner.observe(counts, 0, belief, DAY, 2, True, others_false_chance=0.7)
    true, total = precision_after_change_of(1.0, 2.0, 2, math.log(freshness * 0.7))
    np.testing.assert_allclose(counts, [[true - 1], [total - 2]], rtol=1e-12)
    learner.observe(same, 0, belief, 0.0, 2, True, others_false_chance=freshness * 0.7)
    np.testing.assert_allclose(counts, same, rtol=1e-12)


@given(scale=st.floats(1e-6, 1e6), signals=st.integers(1, 9), changed=st.booleans())
def test_does_not_depend_on_the_unit_of_time(scale: float, signals: int, changed: bool) -> None:
    learner, here, there = PrecisionLearner(), SourceCounts.zeros(1), SourceCounts.zeros(1)
    learner.observe(here, 0, GammaBelief.of(0.7, 5.0), 3.0, signals, changed)
    learner.observe(there, 0, GammaBelief.of(0.7, 5.0 * scale), 3.0 * scale, signals, changed)
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)


def test_evidence_is_halved_in_every_half_life() -> None:
    learner = PrecisionLearner(half_life=7 * DAY)
    counts = SourceCounts(np.array([6.0]), np.array([8.0]))
    learner.fade(counts, 14 * DAY)
    np.testing.assert_allclose(counts, [[1.5], [2.0]])
    PrecisionLearner().fade(counts, 1e12)
    np.testing.assert_allclose(counts, [[1.5], [2.0]])
    delays = SourceDelays(np.array([60.0]), np.array([4.0]))
    DelayLearner(half_life=HOUR).fade(delays, HOUR)
    np.testing.assert_allclose(delays, [[30.0], [2.0]])


def test_a_source_never_timed_has_the_prior_delay() -> None:
    learner, delays = DelayLearner(prior_delay=600.0, prior_weight=3.0), SourceDelays.zeros(2)
    learner.observe(delays, [1, 1, 1], [60.0, 120.0, -5.0])
    np.testing.assert_allclose(learner.mean_delay(delays), [600.0, (180 + 1800) / 6])


def test_the_mean_delay_is_learned(rng: np.random.Generator) -> None:
    """Of 20 000 exponential delays within 5 standard errors, 0.7 % each."""
    learner, delays = DelayLearner(), SourceDelays.zeros(3)
    learner.observe(delays, rng.integers(0, 2, 20_000), rng.exponential(2 * HOUR, 20_000))
    means = learner.mean_delay(delays)
    np.testing.assert_allclose(means[:2], 2 * HOUR, rtol=5 * 1.001 / math.sqrt(9_700))
    assert means[2] == HOUR


def test_a_late_signal_may_announce_a_change_before_the_fetch(rng: np.random.Generator) -> None:
    """Changes and false signals drawn for a year, fetches once a day, within 5 standard errors.

    Of the signals that arrive in an hour of the day, the share is counted that announce a change
    since the fetch at the day's start.
    """
    delay, precision, days = 3 * HOUR, 0.8, 4_000
    changed_at = rng.uniform(0, days * DAY, days * 20)
    arrives = np.concatenate(
        [
            changed_at + rng.exponential(delay, changed_at.size),
            rng.uniform(0, days * DAY, changed_at.size // 4),
        ]
    )
    changed_at = np.concatenate([changed_at, np.full(changed_at.size // 4, -np.inf)])
    since_fetch = arrives % DAY
    is_news = changed_at > arrives - since_fetch
    for hour in (0, 1, 3, 10, 23):
        now = (since_fetch >= hour * HOUR) & (since_fetch < (hour + 1) * HOUR)
        middles = hour * HOUR + (np.arange(60) + 0.5) * 60
        expected = precision_after_fetch(precision, middles, delay).mean()
        tolerance = 5 * 0.5 / math.sqrt(now.sum())
        assert abs(is_news[now].mean() - expected) < tolerance


def test_a_signal_without_delay_is_as_good_as_ever() -> None:
    np.testing.assert_array_equal(precision_after_fetch(0.6, [0.0, 5.0], 0.0), 0.6)
    np.testing.assert_array_equal(precision_after_fetch([0.6, 1.0], 0.0, 60.0), 0.0)


def test_a_signal_rate_is_shrunk_towards_the_prior() -> None:
    rate = signal_rate([0, 6, 6], [0.0, 3 * DAY, 0.0], 1 / DAY, 2 * DAY)
    np.testing.assert_allclose(rate * DAY, [1.0, 8 / 5, 4.0])
    np.testing.assert_allclose(signal_rate(6, 3 * DAY, 0.0, 0.0) * DAY, 2.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prior_precision": 1.0}, "prior_precision must be between 0 and 1, got 1.0"),
        ({"prior_weight": 0.0}, "prior_weight must be positive, got 0.0"),
        ({"half_life": 0.0}, "half_life must be positive, got 0.0"),
    ],
)
def test_bad_assumptions_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrecisionLearner(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prior_delay": -1.0}, "prior_delay must not be negative, got -1.0"),
        ({"prior_weight": math.inf}, "prior_weight must be positive, got inf"),
        ({"half_life": -2.0}, "half_life must be positive, got -2.0"),
    ],
)
def test_bad_delays_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DelayLearner(**wrong)
