"""Polls required and the best interval for learning, against enumeration and the paper."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import lambertw
from scipy.stats import binom

from recrawl.papers.change_rate import (
    INFORMATIVE_CHANGES,
    informative_changes,
    naive_moments,
    naive_polls_required,
    polls_required,
    regular_moments,
)


def test_polls_for_a_scatter_of_one_half() -> None:
    """CGM §4.1: one poll at r = 1, nine at r = 0.3."""
    required = naive_polls_required([1.0, 0.3], 0.5)
    np.testing.assert_array_equal(required, [1, 9])
    for r, n in zip((1.0, 0.3), required, strict=True):
        assert naive_moments(r, n).deviation <= 0.5 * r


def is_precise(r: float, n: int, wanted: float, bias_max: float) -> bool:
    i = np.arange(n + 1)
    probability = binom.pmf(i, n, math.exp(-r))
    estimate = np.log((n + 0.5) / (i + 0.5))
    mean = probability @ estimate
    deviation = math.sqrt(probability @ (estimate - mean) ** 2)
    return bool(abs(mean / r - 1) <= bias_max and deviation <= wanted * r)


@pytest.mark.parametrize(
    ("r", "wanted", "bias_max"),
    [(0.1, 0.5, 0.01), (0.5, 0.3, 0.01), (1.5, 0.2, 0.01), (4.0, 0.2, 0.01), (4.0, 0.3, 0.1)],
)
def test_fewer_polls_than_required_are_not_enough(r: float, wanted: float, bias_max: float) -> None:
    required = int(polls_required(r, wanted, bias_max=bias_max))
    assert is_precise(r, required, wanted, bias_max)
    assert not any(is_precise(r, n, wanted, bias_max) for n in range(1, required))


@pytest.mark.slow_without_jit
def test_many_polls_are_required_as_the_information_says() -> None:
    """For high precision the number is (e^r - 1) / (r · wanted)²."""
    r = np.array([0.05, 0.5, 1.594, 3.0])
    ratio = polls_required(r, 0.05) / (np.expm1(r) / (r * 0.05) ** 2)
    np.testing.assert_allclose(ratio, 1, atol=0.05)


def test_no_number_of_polls_may_be_enough() -> None:
    assert polls_required(1.0, 0.01, n_polls_max=100) == math.inf


def test_a_poll_is_most_informative_at_one_point_six_changes() -> None:
    best = minimize_scalar(lambda r: -(r**2) / np.expm1(r), bounds=(0.5, 3), method="bounded")
    assert best.x == pytest.approx(INFORMATIVE_CHANGES, abs=1e-5)
    assert lambertw(-2 * math.exp(-2)).real + 2 == pytest.approx(INFORMATIVE_CHANGES, abs=1e-14)


def test_twenty_polls_are_most_informative_at_1_35_changes_each() -> None:
    """CGM §4.2: σ/r is least at r ≈ 1.35 for n = 20, where the bias is small (0.14 %)."""
    best = informative_changes(20, bias_max=0.002)
    assert best == pytest.approx(1.35, abs=0.01)
    assert abs(regular_moments(best, 20).mean / best - 1) < 0.0015


def test_a_weekly_page_is_learned_by_a_poll_every_ten_days() -> None:
    """CGM Example 4: 7 days × 1.5."""
    assert 7 * informative_changes(40) == pytest.approx(10, abs=0.2)


@pytest.mark.parametrize("n", [5, 10, 18, 20, 40, 200, 1_000])
def test_no_rate_below_is_learned_better(n: int) -> None:
    best = informative_changes(n)
    others = np.linspace(0.01, INFORMATIVE_CHANGES, 1_000)
    unbiased = np.abs(regular_moments(others, n).mean / others - 1) <= 0.1
    deviations = regular_moments(others, n).deviation / others
    here = float(regular_moments(best, n).deviation) / best
    assert here <= deviations[unbiased].min() * (1 + 1e-9)


def test_many_polls_reach_the_limit_of_the_information() -> None:
    assert informative_changes(5_000) == pytest.approx(INFORMATIVE_CHANGES, abs=2e-3)


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="bias_max must be larger for 2 polls"):
        informative_changes(2, bias_max=0.01)
    with pytest.raises(ValueError, match="must be positive"):
        polls_required(0.0, 0.5)
