"""How estimates scatter, against many digits, direct integration and the paper's figures."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binom

from recrawl.papers.change_rate import (
    last_modified_change_rate,
    last_modified_moments,
    naive_moments,
    regular_change_rate,
    regular_moments,
    unbiased_limit,
)
from tests.reference.change_rate_moments import (
    age_sum_density,
    last_modified_power,
)
from tests.reference.change_rate_moments import regular_moments as exact_regular_moments


@pytest.mark.parametrize("r", [0.01, 1 / 7, 1.0, 2.0, 8.0])
def test_naive_moments_are_those_of_all_outcomes(r: float) -> None:
    """CGM Theorem 4.1 and Corollary 4.2, by enumeration."""
    n = 12
    x = np.arange(n + 1)
    probability = binom.pmf(x, n, 1 - math.exp(-r))
    mean = probability @ (x / n)
    deviation = math.sqrt(probability @ (x / n - mean) ** 2)
    ours = naive_moments(r, n)
    assert ours.mean == pytest.approx(mean, rel=1e-11)
    assert ours.deviation == pytest.approx(deviation, rel=1e-11)


def test_a_crawler_that_is_too_slow_or_too_fast() -> None:
    """CGM Example 3: bias .43 at r = 2; a 95 % interval of 1.5 r at r = 1/7 with ten polls."""
    assert naive_moments(2.0, 10).mean / 2 == pytest.approx(0.4323, abs=5e-5)
    assert 2 * naive_moments(1 / 7, 10).deviation * 7 == pytest.approx(1.504, abs=5e-4)


def test_the_naive_estimate_is_unbiased_below_a_fifth_of_a_change_per_poll() -> None:
    """CGM §4.1: a bias of 10 % at r = 0.21."""
    r = brentq(lambda r: float(naive_moments(r, 1).mean) / r - 0.9, 0.01, 1)
    assert r == pytest.approx(0.2146, abs=5e-5)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 400])
@pytest.mark.parametrize("r", [1e-9, 1e-3, 0.3, 1.5, 6.0, 60.0])
@pytest.mark.parametrize("prior", [(0.0, 0.5), (1.0, 1.0)])
def test_regular_moments_agree_with_50_digits(n: int, r: float, prior: tuple[float, float]) -> None:
    """CGM Corollary 4.3 (eq. 1)."""
    ours = regular_moments(r, n, prior_changed=prior[0], prior_unchanged=prior[1])
    np.testing.assert_allclose(ours, exact_regular_moments(r, n, *prior), rtol=1e-12)


@pytest.mark.parametrize(("n", "r"), [(3_000, 2e-5), (10_000, 1.0), (5_000, 7.0), (5_000, 800.0)])
def test_regular_moments_hold_for_thousands_of_polls(n: int, r: float) -> None:
    i = np.arange(n + 1)
    probability = binom.pmf(i, n, math.exp(-r))
    estimate = np.log((n + 0.5) / (i + 0.5))
    mean = probability @ estimate
    deviation = math.sqrt(probability @ (estimate - mean) ** 2)
    # scipy's own weights are good to a few 1e-11 here.
    np.testing.assert_allclose(regular_moments(r, n), (mean, deviation), rtol=1e-9, atol=1e-14)


def test_more_polls_remove_bias_and_scatter() -> None:
    """CGM Theorem 4.4, at three changes per poll."""
    mean, deviation = regular_moments(3.0, [10, 100, 1_000, 10_000])
    assert np.all(np.diff(np.abs(mean - 3)) < 0)
    assert np.all(np.diff(deviation) < 0)
    assert abs(mean[-1] - 3) < 1e-3
    assert deviation[-1] < 0.05


def test_the_scatter_of_ten_and_of_forty_polls() -> None:
    """CGM §4.2: σ/r is 0.4 at n = 10 and 0.2 at n = 40, at r = 1.5 as printed."""
    deviation = regular_moments(1.5, [10, 40]).deviation
    np.testing.assert_allclose(deviation / 1.5, [0.402, 0.202], atol=5e-4)
    at_one = regular_moments(1.0, [10, 40]).deviation
    np.testing.assert_allclose(at_one, [0.440, 0.210], atol=5e-4)


def test_ten_polls_at_one_and_a_half_changes_each() -> None:
    """CGM Example 4: bias under 0.3 %, within 35 % of the rate with probability .755."""
    r = 1.5
    assert abs(regular_moments(r, 10).mean / r - 1) < 0.003
    x = np.arange(11)
    estimate = regular_change_rate(10, x, 1.0)
    near = np.abs(estimate / r - 1) <= 0.35
    assert binom.pmf(x, 10, 1 - math.exp(-r)) @ near == pytest.approx(0.755, abs=5e-4)
    # "Every ten days" of a weekly page is r = 10/7, where two more outcomes fall outside.
    r = 10 / 7
    near = np.abs(estimate / r - 1) <= 0.35
    assert binom.pmf(x, 10, 1 - math.exp(-r)) @ near == pytest.approx(0.531, abs=5e-4)


def test_a_page_that_may_only_be_polled_once_a_month() -> None:
    """CGM Example 6: E/r = .575 at r = 4 and n = 5; with last-modified dates within 0.1 %."""
    assert regular_moments(4.0, 5).mean / 4 == pytest.approx(0.575, abs=5e-4)
    assert abs(last_modified_moments(4.0, 5).mean / 4 - 1) < 0.001


def test_twenty_polls_are_practically_unbiased_below_two_changes_each() -> None:
    """CGM §4.2 says less than 0.1 %; exactly it is at most 0.17 %, at r = 1.59."""
    r = np.linspace(0.01, 2, 400)
    bias = np.abs(regular_moments(r, 20).mean / r - 1)
    assert bias.max() == pytest.approx(0.00172, abs=5e-6)
    assert r[bias.argmax()] == pytest.approx(1.59, abs=0.02)


def test_the_unbiased_region_grows_with_the_number_of_polls() -> None:
    """CGM fig. 6: r < 3.5 at n = 20, r < 5 at n = 80."""
    assert unbiased_limit(20) == pytest.approx(3.5, abs=0.05)
    assert unbiased_limit(80) == pytest.approx(5.0, abs=0.15)
    limits = [unbiased_limit(n) for n in (1, 2, 5, 10, 20, 80, 320)]
    assert limits == sorted(limits)


@pytest.mark.parametrize("n", [3, 20, 80])
@pytest.mark.parametrize("bias_max", [0.01, 0.1])
def test_the_unbiased_region_ends_where_the_bias_passes_its_bound(n: int, bias_max: float) -> None:
    limit = unbiased_limit(n, bias_max=bias_max)
    assert abs(regular_moments(limit, n).mean / limit - 1) == pytest.approx(bias_max, rel=1e-6)
    below = np.linspace(1e-3, limit * (1 - 1e-9), 5_000)
    assert np.all(np.abs(regular_moments(below, n).mean / below - 1) <= bias_max * (1 + 1e-9))


def test_two_polls_are_nowhere_unbiased_to_one_per_cent() -> None:
    assert unbiased_limit(2, bias_max=0.01) == 0.0


def x_corrected(n: int) -> np.ndarray:
    return last_modified_change_rate(n, np.arange(n + 1), 1.0)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("r", [0.05, 0.7, 4.0, 20.0])
def test_last_modified_moments_agree_with_lemma_d1_integrated_directly(n: int, r: float) -> None:
    """CGM App. D: the density of T itself, instead of its Laplace transform."""
    for corrected, numerator in ((True, x_corrected(n)), (False, np.arange(n + 1.0))):
        mean, deviation = last_modified_moments(r, n, corrected=corrected)
        expected = last_modified_power(r, n, numerator, 1)
        assert mean == pytest.approx(expected, rel=1e-8)
        if n == 2:
            assert deviation == math.inf
        else:
            square = last_modified_power(r, n, numerator, 2)
            assert deviation == pytest.approx(math.sqrt(square - expected**2), rel=1e-7)


@pytest.mark.parametrize("n", [2, 3, 10, 50])
def test_the_uncorrected_bias_has_the_limits_of_theorem_d2(n: int) -> None:
    """CGM Theorem D.2: n log(n / (n - 1)) at r → 0, n / (n - 1) at r → ∞."""
    slow, fast = last_modified_moments([1e-6, 500.0], n, corrected=False).mean / [1e-6, 500.0]
    assert slow == pytest.approx(n * math.log(n / (n - 1)), rel=1e-5)
    assert fast == pytest.approx(n / (n - 1), rel=1e-9)


def test_the_corrected_bias_is_under_two_per_cent_at_any_rate() -> None:
    """CGM §5, fig. 12: even for two polls, whose ratio is least, .9856, at r = 0.70."""
    r = np.geomspace(1e-4, 300, 40)
    for n in (2, 3, 5, 10, 100):
        assert np.all(np.abs(last_modified_moments(r, n).mean / r - 1) < 0.02)
    least = minimize_scalar(
        lambda r: float(last_modified_moments(r, 2).mean) / r, bounds=(0.2, 3), method="bounded"
    )
    assert least.fun == pytest.approx(0.98556, abs=5e-6)
    assert least.x == pytest.approx(0.704, abs=2e-3)


@pytest.mark.parametrize("r", [0.2, 1.0, 3.0])
def test_the_density_for_three_changes_is_as_printed_only_at_one_change_per_poll(r: float) -> None:
    """CGM App. D: the later pieces need 6λt·r - 2(λt)² - 3r² and (λt - 3r)²."""

    def density(t: float, scale: float) -> float:
        x = r * t  # λt, in units of the interval
        middle = 6 * x * scale - 2 * x**2 - 3 * scale**2
        polynomial = (x**2, middle, (x - 3 * scale) ** 2)[int(t)]
        return polynomial * r * math.exp(-x) / (2 * (1 - math.exp(-r)) ** 3)

    for t in np.linspace(0.05, 2.95, 30):
        assert density(t, r) == pytest.approx(age_sum_density(3, r, t), rel=1e-9)
    right, printed = (
        sum(quad(density, j, j + 1 - 1e-12, args=(scale,))[0] for j in range(3))
        for scale in (r, 1.0)
    )
    assert right == pytest.approx(1.0)
    assert (abs(printed - 1) < 1e-6) == (r == 1.0)
