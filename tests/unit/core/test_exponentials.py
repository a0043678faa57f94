"""Residuals of the exponential series against incomplete gamma functions of 50 digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from recrawl.core.exponentials import log_poisson, mean_decay, mean_residual, residual, residual_one

# Each place where a kernel changes its formula, from both sides.
BORDERS = (1e-5, 0.25)


def exact_residual(i: int, x: float) -> mpmath.mpf:
    with mp.workdps(50):
        return mpmath.gammainc(i + 1, 0, mpmath.mpf(x), regularized=True)


def around(border: float) -> list[float]:
    return [float(np.nextafter(border, 0)), border, float(np.nextafter(border, 1))]


def arguments() -> list[float]:
    spread = [float(x) for x in np.geomspace(1e-14, 600, 60)]
    return spread + [x for border in BORDERS for x in around(border)]


@pytest.mark.parametrize("sign", [1, -1])
def test_mean_decay_is_the_mean_of_the_exponential(sign: int) -> None:
    for x in arguments():
        with mp.workdps(50):
            expected = float(-mpmath.expm1(mpmath.mpf(-sign * x)) / (sign * mpmath.mpf(x)))
        assert mean_decay(sign * x) == pytest.approx(expected, rel=1e-15)
    assert mean_decay(0.0) == 1.0


def test_the_first_residual_matches_fifty_digits() -> None:
    for x in arguments():
        assert residual_one(x) == pytest.approx(float(exact_residual(1, x)), rel=2e-14)
        with mp.workdps(50):
            mean = float(exact_residual(1, x) / mpmath.mpf(x))
        assert mean_residual(x) == pytest.approx(mean, rel=2e-14)
    assert mean_residual(0.0) == residual_one(0.0) == 0.0


def places(i: int) -> list[float]:
    """Return arguments from far below to far above i, and both sides of each border."""
    deviations = np.array([-9, -6, -3, -1, 0, 1, 3, 6, 9]) * np.sqrt(i + 1)
    tiny = [1e-8, 1e-3, 0.5]
    # The tail above is left out from here, and the head summed from there.
    borders = around(i + 2.0) + around(i + 40 + 10 * np.sqrt(i + 1))
    return [x for x in [*tiny, *(i + 1 + deviations), *borders] if x > 0]


@pytest.mark.parametrize("i", [0, 1, 2, 5, 14, 15, 16, 40, 200, 1_000, 10_000])
def test_every_residual_matches_fifty_digits(i: int) -> None:
    for x in places(i):
        expected = float(exact_residual(i, x))
        if expected > 1e-290:
            assert residual(i, x) == pytest.approx(expected, rel=2e-13), x


@pytest.mark.parametrize("i", [0.0, 0.3, 3.0, 15.0, 15.999, 16.0, 16.5, 300.0, 1e4, 1e6])
def test_the_poisson_probability_matches_fifty_digits(i: float) -> None:
    for x in places(int(i)):
        with mp.workdps(50):
            exact = mpmath.mpf(i) * mpmath.log(x) - mpmath.mpf(x) - mpmath.loggamma(i + 1)
        if exact > -40:
            assert log_poisson(i, x) == pytest.approx(float(exact), abs=2e-14 * (1 + i / 1e4))


@given(i=st.integers(0, 400), x=st.floats(1e-3, 600))
def test_residuals_lie_between_neighbours(i: int, x: float) -> None:
    """R^i falls with i by the Poisson probability of i, and is a probability."""
    above, here = residual(i + 1, x), residual(i, x)
    assert 0 <= above <= here <= 1
    step = np.exp(log_poisson(i + 1, x))
    assert here - above == pytest.approx(step, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("x", [0.0, -1.0])
def test_nothing_remains_of_an_empty_series(x: float) -> None:
    assert residual(3, x) == 0.0


def test_an_infinite_argument_leaves_everything() -> None:
    assert residual(3, np.inf) == 1.0
