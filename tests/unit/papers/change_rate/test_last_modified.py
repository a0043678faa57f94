"""The last-modified estimator: the paper's bookkeeping, its limits, its laws.

Its bias is checked in test_sampling.py.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from recrawl.papers.change_rate import (
    LastModifiedChangeRate,
    LastModifiedCounts,
    last_modified_change_rate,
    last_modified_moments,
)

DAY = 86_400.0
estimator = LastModifiedChangeRate(prior_rate=1e-6)
polls = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0.0, 1e7), st.floats(0.0, 1e7)), max_size=30
)


@given(polls=polls)
def test_keeps_the_numbers_of_figure_10(polls: list[tuple[int, float, float]]) -> None:
    """CGM fig. 10, Update, written down once more for one page at a time; batch = one by one."""
    batched, single = LastModifiedCounts.zeros(3), LastModifiedCounts.zeros(3)
    rows, elapsed, age = zip(*polls, strict=True) if polls else ((), (), ())
    estimator.observe(batched, rows, elapsed, age)
    for row, interval, since_change in polls:
        estimator.observe(single, [row], interval, since_change)
    for page in range(3):
        n = x = 0
        t = 0.0
        for row, interval, since_change in polls:
            if row == page and interval > 0:
                n += 1
                x += since_change < interval
                t += min(since_change, interval)
        for counts in (batched, single):
            assert (counts.n_polls[page], counts.n_changed[page]) == (n, x)
            assert counts.unchanged_seconds[page] == pytest.approx(t)


def test_the_corrected_count_has_its_limits() -> None:
    """CGM fig. 13, footnotes 5 and 12: X' is 0 at X = 0, N - 1 at X = N."""
    assert last_modified_change_rate(7, 0, 1.0) == 0
    assert last_modified_change_rate(7, 7, 1.0) == 6
    assert last_modified_change_rate(7, 1, 1.0) == pytest.approx(1 / (7 * math.log(7 / 6)))
    x = np.linspace(1e-6, 1, 5)  # the formula tends to both limits
    near_zero = last_modified_change_rate(7, x * 1e-3, 1.0)
    assert near_zero[0] == pytest.approx(0, abs=1e-8)
    assert last_modified_change_rate(7, 7 - 1e-9, 1.0) == pytest.approx(6, abs=0.05)


def test_recovers_the_rate_of_simulated_pages(rng: np.random.Generator) -> None:
    """Mean over 20 000 pages of six polls, within 5 standard errors (fails 1 in 1.7 million)."""
    n_pages, n_polls, true_rate = 20_000, 6, 1.3
    age = rng.exponential(1 / true_rate, (n_polls, n_pages))
    counts = LastModifiedCounts.zeros(n_pages)
    for row_ages in age:
        # Changes before the previous poll all look the same.
        estimator.observe(counts, np.arange(n_pages), 1.0, row_ages)
    rate = estimator.change_rate(counts)
    mean, deviation = last_modified_moments(true_rate, n_polls)
    assert abs(rate.mean() - mean) < 5 * deviation / math.sqrt(n_pages)


def mean_over_rate(intervals: list[float], rate: float) -> float:
    """Return the expected estimate over the true rate, by one integral (no sampling).

    1/T is the integral of exp(-sT) over s, and the generating function of changed polls and
    exp(-sT) is a product over polls: a poll after I leaves exp(-(rate + s)I) without a change, and
    rate (1 - exp(-(rate + s)I)) / (rate + s) with one.
    """
    n = len(intervals)
    numerator = last_modified_change_rate(n, np.arange(n + 1), 1.0)
    total = sum(intervals)

    def integrand(u: float) -> float:
        s = u / (1 - u) / total
        weights = np.ones(1)
        for interval in intervals:
            exponent = (rate + s) * interval
            changes = -rate * math.expm1(-exponent) / (rate + s)
            weights = np.convolve(weights, [math.exp(-exponent), changes])
        return float(np.sum(weights * numerator)) / rate / total / (1 - u) ** 2

    return float(quad(integrand, 0, 1, limit=200)[0])


@pytest.mark.parametrize(("n", "rate"), [(2, 1.0), (5, 0.3), (10, 2.0)])
def test_the_integral_agrees_with_the_moments_of_regular_polls(n: int, rate: float) -> None:
    expected = float(last_modified_moments(rate, n).mean) / rate
    assert mean_over_rate([1.0] * n, rate) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("intervals", "percent"),
    [([1.0, 3.0], 20), ([1.0, 5.0], 42), ([1.0] * 5 + [10.0] * 5, 7), ([1.0] * 10, 0)],
    ids=["1 and 3", "1 and 5", "ten polls", "regular"],
)
def test_irregular_polls_make_the_rate_too_high(intervals: list[float], percent: int) -> None:
    """CGM §5: the paper's "negligible bias" holds at regular intervals only."""
    longest = max(intervals)
    found = max(mean_over_rate(intervals, rate / longest) for rate in (0.01, 0.1, 0.3, 1, 3))
    assert round(100 * (found - 1)) == pytest.approx(percent, abs=1)


@pytest.mark.parametrize("intervals", [[1.0, 3.0], [1.0, 2.0, 4.0], [1.0] * 4 + [20.0]])
def test_pages_that_seldom_change_have_the_bias_of_the_formula(intervals: list[float]) -> None:
    n, total = len(intervals), sum(intervals)
    formula = sum(math.log(total / (total - each)) for each in intervals)
    formula /= n * math.log(n / (n - 1))
    assert mean_over_rate(intervals, 1e-5 / total) == pytest.approx(formula, rel=1e-4)


@given(n=st.integers(2, 1_000), total=st.floats(1e-3, 1e9))
def test_more_changes_mean_a_higher_rate_below_the_plain_one(n: int, total: float) -> None:
    x = np.arange(n + 1)
    rate = last_modified_change_rate(n, x, total)
    assert np.all(np.diff(rate) > 0)
    assert np.all(rate <= x / total)
    np.testing.assert_allclose(last_modified_change_rate(n, x, total / DAY), rate * DAY, rtol=1e-12)


def test_pages_polled_less_than_twice_get_the_prior() -> None:
    counts = LastModifiedCounts.zeros(3)
    estimator.observe(counts, [1, 2, 2], DAY, [DAY / 2, DAY / 2, DAY / 4])
    rate = estimator.change_rate(counts)
    assert rate[0] == rate[1] == 1e-6
    assert rate[2] == pytest.approx(1 / (0.75 * DAY))


def test_a_page_changed_at_the_very_moment_of_each_poll_has_no_rate() -> None:
    counts = LastModifiedCounts.zeros(1)
    estimator.observe(counts, [0, 0], DAY, [0.0, -5.0])
    assert np.isnan(last_modified_change_rate(*counts)[0])
    assert estimator.change_rate(counts) == 1e-6


@pytest.mark.parametrize("prior_rate", [0.0, math.inf])
def test_a_prior_rate_must_be_positive(prior_rate: float) -> None:
    with pytest.raises(ValueError, match="prior_rate must be positive and finite, got"):
        LastModifiedChangeRate(prior_rate=prior_rate)
