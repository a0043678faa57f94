"""Importance from requests, against sums over single requests; shares against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binomtest

from recrawl.core.requests import (
    RequestCounts,
    RequestImportance,
    expected_request_freshness,
    observed_request_freshness,
)

HOUR, DAY = 3_600, 86_400
importance = RequestImportance(half_life=10 * DAY, prior_seconds=2.0 * DAY)
events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 100 * DAY), st.integers(1, 50)), max_size=30
)


def expected_rate(
    requests: list[tuple[int, int]], now: int, prior_rate: float, half_life: float = 10 * DAY
) -> float:
    """Each request and each counted second weighs 2^(-age / half-life)."""
    seen = sum(n * 2 ** (-(now - at) / half_life) for at, n in requests)
    watched = quad(lambda s: 2 ** (-(now - s) / half_life), 0, now)[0]
    return (prior_rate * 2 * DAY + seen) / (2 * DAY + watched)


@given(events=events)
def test_each_request_counts_by_its_age(events: list[tuple[int, int, int]]) -> None:
    """In the order in which they arrive, however late, and in one batch or many."""
    now, prior_rate = 100 * DAY, 3 / DAY
    batched, single = (RequestCounts.zeros(0, 3) for _ in range(2))
    rows, at, n_requests = zip(*events, strict=True) if events else ((), (), ())
    importance.observe(batched, rows, at, n_requests)
    for row, instant, n in events:
        importance.observe(single, [row], instant, n)
    for one, other in zip(batched, single, strict=True):
        np.testing.assert_array_equal(one, other)
    rate = importance.rate(batched, now=now, prior_rate=prior_rate)
    for page in range(3):
        own = [(instant, n) for row, instant, n in events if row == page]
        assert rate[page] == pytest.approx(expected_rate(own, now, prior_rate), rel=1e-7)


def test_a_page_just_added_has_the_prior_rate() -> None:
    counts = RequestCounts.zeros(5 * DAY, 2)
    rate = importance.rate(counts, now=5 * DAY, prior_rate=[1e-3, 1e-5])
    np.testing.assert_allclose(rate, [1e-3, 1e-5])


def test_silence_lowers_the_rate_to_a_floor() -> None:
    """The counted time is never worth more than half-life / log 2."""
    counts = RequestCounts.zeros(0, 1)
    rates = [importance.rate(counts, now=t * DAY, prior_rate=1.0)[0] for t in (0, 1, 10, 1_000)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(2 / (2 + 10 / math.log(2)))


def test_without_forgetting_it_is_a_plain_count() -> None:
    forever = RequestImportance(half_life=math.inf, prior_seconds=1.0)
    counts = RequestCounts.zeros(0, 1)
    forever.observe(counts, [0, 0], [10, 70], [3, 4])
    assert forever.rate(counts, now=100, prior_rate=0.5) == pytest.approx((0.5 + 7) / 101)


@given(scale=st.sampled_from([1, 60, 3_600, 86_400]))
def test_does_not_depend_on_the_unit_of_time(scale: int) -> None:
    scaled = RequestImportance(half_life=10.0 * scale, prior_seconds=2.0 * scale)
    counts = RequestCounts.zeros(0, 1)
    scaled.observe(counts, [0, 0], [3 * scale, 7 * scale], 5)
    rate = scaled.rate(counts, now=9 * scale, prior_rate=1.0 / scale)[0] * scale
    seen = 5 * 2**-0.6 + 5 * 2**-0.2
    watched = 10 / math.log(2) * (1 - 2**-0.9)
    assert rate == pytest.approx((2 + seen) / (2 + watched), rel=1e-12)


def test_steady_requests_are_counted_rightly(rng: np.random.Generator) -> None:
    """500 pages requested 2 times an hour: the mean rate within 5 standard errors.

    A discounted count of mean n has variance n / 2 (fails 1 in 1.7 million).
    """
    n_pages, true_rate, now = 500, 2 / HOUR, 60 * DAY
    counts = RequestCounts.zeros(0, n_pages)
    for hour in range(now // HOUR):
        n_requests = rng.poisson(true_rate * HOUR, n_pages)
        importance.observe(counts, np.arange(n_pages), hour * HOUR + HOUR // 2, n_requests)
    rate = importance.rate(counts, now=now, prior_rate=true_rate)
    seconds = 10 * DAY / math.log(2)
    margin = 5 * math.sqrt(true_rate * seconds / 2 / n_pages) / seconds
    assert abs(rate.mean() - true_rate) < margin


def test_a_host_speaks_for_its_new_pages() -> None:
    counts = RequestCounts.zeros(0, 5)
    importance.observe(counts, [0, 1, 2], DAY, [100, 140, 60])
    hosts = np.array([0, 0, 0, 0, 1])
    by_host = importance.host_rate(counts, now=DAY, hosts=hosts, n_hosts=3, prior_rate=1 / DAY)
    watched = 10 / math.log(2) * (1 - 2 ** (-1 / 10))
    expected = np.array([(2 + 300) / (2 + 4 * watched), 2 / (2 + watched), 1])
    np.testing.assert_allclose(by_host * DAY, expected)
    rate = importance.rate(counts, now=DAY, prior_rate=by_host[hosts])
    assert rate[1] > rate[0] > rate[3] > rate[4]


def test_time_does_not_run_backwards() -> None:
    counts = RequestCounts.zeros(0, 1)
    importance.observe(counts, [0], 100)
    with pytest.raises(ValueError, match="now must not be before the last request, got 99"):
        importance.rate(counts, now=99, prior_rate=1.0)


@pytest.mark.parametrize(("n_fresh", "n"), [(0, 1), (1, 1), (0, 40), (37, 40), (940, 1_000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_bounds_are_those_of_wilson(n_fresh: int, n: int, confidence: float) -> None:
    expected = binomtest(n_fresh, n).proportion_ci(confidence, method="wilson")
    share, lower, upper = observed_request_freshness(n_fresh, n, confidence=confidence)
    assert share == n_fresh / n
    np.testing.assert_allclose([lower, upper], [expected.low, expected.high], atol=1e-12)


def test_without_requests_the_bounds_are_0_and_1() -> None:
    share, lower, upper = observed_request_freshness([0, 3], [0, 4])
    assert np.isnan(share[0])
    assert (lower[0], upper[0]) == (0, 1)
    assert lower[1] < share[1] < upper[1]


def test_expected_freshness_is_what_requests_meet() -> None:
    """Signals §3: the share of requests, not of pages."""
    assert expected_request_freshness([3.0, 1.0], [0.9, 0.5]) == pytest.approx(0.8)
    assert expected_request_freshness([1.0, 1.0, 2.0], 0.25) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("half_life", "prior_seconds", "message"),
    [
        (0.0, 1.0, "half_life must be positive, got 0.0"),
        (1.0, 0.0, "prior_seconds must be positive and finite, got 0.0"),
        (1.0, math.inf, "prior_seconds must be positive and finite, got inf"),
    ],
)
def test_invalid_arguments_are_rejected(
    half_life: float, prior_seconds: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RequestImportance(half_life=half_life, prior_seconds=prior_seconds)


def test_impossible_shares_are_rejected() -> None:
    with pytest.raises(ValueError, match="n_fresh must be 0 to n_requests"):
        observed_request_freshness(5, 4)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        observed_request_freshness(1, 4, confidence=1.0)
    with pytest.raises(ValueError, match="importance must have a positive, finite sum"):
        expected_request_freshness([0.0], [1.0])
