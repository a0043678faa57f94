"""Estimates from regular polls, against the papers' examples and other ways to the same number."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta

from recrawl.papers.change_rate import (
    PollCounts,
    PolledChangeRate,
    beta_change_rate,
    naive_change_rate,
    regular_change_rate,
    regular_moments,
)

DAY = 86_400.0
intervals = st.floats(1e-3, 1e9)


def test_six_changes_in_ten_daily_polls() -> None:
    """CGM Example 1: naively 0.6 a day, better 0.85 (printed 0.8)."""
    assert naive_change_rate(6, 10 * DAY) * DAY == pytest.approx(0.6)
    assert regular_change_rate(10, 6, DAY) * DAY == pytest.approx(-math.log(4.5 / 10.5))
    assert regular_change_rate(10, 6, DAY) * DAY == pytest.approx(0.847, abs=5e-4)


def test_polling_half_as_often_hides_changes() -> None:
    """Prior fig. 1: seven changes in T = 8 C, seen as 6/T every C and as 4/T every 2 C."""
    changes = np.array([0.5, 1.5, 2.5, 4.2, 4.6, 6.5, 7.5])
    for interval, found in ((1, 6), (2, 4)):
        polls = np.histogram(changes, bins=np.arange(0, 9, interval))[0] > 0
        assert polls.sum() == found
        assert naive_change_rate(polls.sum(), 8.0) == found / 8


def test_a_page_never_polled_has_no_naive_rate() -> None:
    assert np.isnan(naive_change_rate(0, 0.0))


def test_half_a_poll_is_the_constant_without_bias() -> None:
    """CGM App. B, fig. 19: n log((n + a) / (n - 1 + a)) = 1 has a root that tends to 0.5."""
    n_polls = [1, 2, 3, 5, 10, 100, 1000]
    roots = [
        brentq(lambda a, n=n: n * math.log((n + a) / (n - 1 + a)) - 1, 1e-9, 1) for n in n_polls
    ]
    assert roots == sorted(roots, reverse=True)
    assert roots[0] == pytest.approx(0.582, abs=5e-4)
    assert roots[-1] == pytest.approx(0.5, abs=1e-4)
    # The same from our own exact mean: the factor of r in E[r̂], for a page that hardly changes.
    for n, a in zip(n_polls, roots, strict=True):
        mean = regular_moments(1e-9, n, prior_unchanged=a).mean
        assert mean == pytest.approx(1e-9, rel=1e-7)


@pytest.mark.parametrize(("prior_changed", "prior_unchanged"), [(1.0, 1.0), (0.5, 0.5), (2.0, 7.0)])
def test_the_beta_variant_is_at_the_posterior_mean(
    prior_changed: float, prior_unchanged: float
) -> None:
    n, x = np.array([0, 1, 10, 10, 10]), np.array([0, 1, 0, 6, 10])
    theta = beta(x + prior_changed, n - x + prior_unchanged).mean()
    rate = beta_change_rate(n, x, DAY, prior_changed=prior_changed, prior_unchanged=prior_unchanged)
    np.testing.assert_allclose(rate, -np.log1p(-theta) / DAY, rtol=1e-12)


def test_the_uniform_prior_adds_a_poll_of_each_kind() -> None:
    """CGM App. B: -log((n - X + 1) / (n + 2))."""
    assert beta_change_rate(10, 6, 1.0) == pytest.approx(-math.log(5 / 12))


@given(n=st.integers(1, 10_000), x=st.integers(0, 10_000), interval=intervals)
def test_does_not_depend_on_the_unit_of_time(n: int, x: int, interval: float) -> None:
    x = min(x, n)
    for per_second, per_day in (
        (regular_change_rate(n, x, interval), regular_change_rate(n, x, interval / DAY)),
        (naive_change_rate(x, n * interval), naive_change_rate(x, n * interval / DAY)),
        (beta_change_rate(n, x, interval), beta_change_rate(n, x, interval / DAY)),
    ):
        np.testing.assert_allclose(per_second * DAY, per_day, rtol=1e-12)


@given(n=st.integers(1, 1_000), interval=intervals)
def test_more_changes_mean_a_higher_rate_above_the_naive_one(n: int, interval: float) -> None:
    x = np.arange(n + 1)
    rate = regular_change_rate(n, x, interval)
    assert rate[0] == 0
    assert np.all(np.diff(rate) > 0)
    assert np.all(np.isfinite(rate))
    assert np.all(rate[1:] > naive_change_rate(x[1:], (n + 0.5) * interval))


class TestPolledChangeRate:
    estimator = PolledChangeRate(prior_rate=1e-6)

    def test_unpolled_pages_get_the_prior(self) -> None:
        counts = PollCounts.zeros(3)
        self.estimator.observe(counts, [1], [DAY], [True])
        rate = self.estimator.change_rate(counts)
        assert rate[0] == rate[2] == 1e-6
        assert rate[1] == pytest.approx(math.log(3) / DAY)

    def test_two_fetches_in_one_second_leave_the_prior(self) -> None:
        counts = PollCounts.zeros(1)
        self.estimator.observe(counts, [0], [0.0], [True])
        assert self.estimator.change_rate(counts) == 1e-6

    def test_a_change_never_lowers_the_rate(self) -> None:
        changed, unchanged = PollCounts.zeros(1), PollCounts.zeros(1)
        self.estimator.observe(changed, [0, 0], [DAY, DAY], [False, True])
        self.estimator.observe(unchanged, [0, 0], [DAY, DAY], [False, False])
        assert self.estimator.change_rate(changed) > self.estimator.change_rate(unchanged)


@pytest.mark.parametrize("prior_rate", [0.0, -1.0, math.inf, math.nan])
def test_a_prior_rate_must_be_positive(prior_rate: float) -> None:
    with pytest.raises(ValueError, match="prior_rate must be positive and finite, got"):
        PolledChangeRate(prior_rate=prior_rate)


def test_a_beta_prior_must_leave_room_for_a_page_that_always_changes() -> None:
    with pytest.raises(ValueError, match="prior_unchanged must be positive"):
        beta_change_rate(10, 10, 1.0, prior_unchanged=0.0)
    with pytest.raises(ValueError, match="prior_changed must be 0 or more"):
        beta_change_rate(10, 10, 1.0, prior_changed=-1.0)
