"""Intervals for all looks together: their width, their limits, and how often they are wrong."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from recrawl.corpus.holdout.confidence import (
    HOSTS_MIN,
    arm_estimate,
    detectable_difference,
    difference_of,
    half_width,
)


def test_the_variance_of_equal_hosts_is_that_of_their_mean() -> None:
    fresh = np.array([8, 6, 9, 7, 10])
    arm = arm_estimate(np.full(5, 10), fresh)
    assert arm.freshness == pytest.approx(0.8)
    assert arm.variance == pytest.approx((fresh / 10).var(ddof=1) / 5)
    assert arm.n_hosts == 5
    assert arm.n_effective == pytest.approx(5.0)


def test_a_few_fresh_copies_do_not_mean_certainty() -> None:
    arm = arm_estimate(np.ones(30, np.int64), np.ones(30, np.int64))
    assert arm.freshness == 1
    assert arm.variance > 0.001
    none = arm_estimate(np.zeros(3, np.int64), np.zeros(3, np.int64))
    assert math.isnan(none.freshness)
    assert not difference_of(arm, none).is_known


def test_one_large_host_is_not_many_hosts() -> None:
    audits = np.array([10_000, *[1] * 50])
    arm = arm_estimate(audits, audits // 2)
    assert arm.n_effective < 2
    assert not difference_of(arm, arm).is_known
    even = arm_estimate(np.full(int(HOSTS_MIN), 5), np.full(int(HOSTS_MIN), 4))
    assert difference_of(even, even).is_known


@pytest.mark.parametrize("error", [0.005, 0.02, 0.05])
def test_looking_at_any_time_costs_less_than_twice_the_width(error: float) -> None:
    fixed = norm.ppf(0.975) * error
    assert 1.3 * fixed < half_width(error**2) < 2 * fixed
    assert half_width(error**2, 10.0) > half_width(error**2)


def test_the_bound_holds_for_a_brownian_motion_at_all_times() -> None:
    """Of 2,000 paths at most 5 % leave the bound; three standard errors more would be 6.5 %."""
    rng = np.random.default_rng(0)
    times = np.geomspace(10, 1e5, 200)
    steps = rng.standard_normal((2_000, times.size)) * np.sqrt(np.diff(times, prepend=0.0))
    mean = np.cumsum(steps, axis=1) / times
    bound = np.array([half_width(1 / t) for t in times])
    assert 0.01 < (np.abs(mean) > bound).any(axis=1).mean() < 0.05


def test_a_larger_experiment_finds_smaller_differences() -> None:
    def of(n_hosts: float, n_audits: float, spread: float = 0.1) -> float:
        return detectable_difference(
            n_hosts=(n_hosts, n_hosts),
            n_audits=(n_audits, n_audits),
            freshness=0.8,
            host_spread=spread,
        )

    assert of(100, 1_000) > of(100, 4_000) > of(400, 4_000) > of(400, 4_000, 0.0)
    assert of(HOSTS_MIN - 1, 1_000) == math.inf
    assert of(100, 0) == math.inf
