"""The likelihood of one poll and its derivatives, against many digits."""

import math

import mpmath
import numpy as np
import pytest

from recrawl.papers.change_rate.likelihood import changed_score, log_changed, poll_information

ARGUMENTS = [*np.geomspace(1e-12, 690, 300), np.nextafter(0.1, 0), 0.1, math.log(2)]


def test_the_score_of_a_change_is_good_to_3e_15() -> None:
    """On both sides of the point where a series takes over."""
    for x in ARGUMENTS:
        with mpmath.workdps(40):
            exact = float(mpmath.mpf(x) / mpmath.expm1(mpmath.mpf(x)))
        assert changed_score(x) == pytest.approx(exact, rel=3e-15)


def test_the_log_likelihood_of_a_change_keeps_its_digits() -> None:
    for x in ARGUMENTS:
        with mpmath.workdps(400):
            exact = float(mpmath.log(1 - mpmath.exp(-mpmath.mpf(x))))
        assert log_changed(x) == pytest.approx(exact, rel=1e-14)


def test_the_information_is_the_variance_of_the_score() -> None:
    """The score is the derivative of the log-likelihood by log rate, here by differences."""
    for x in (0.01, 0.3, 1.0, 4.0):
        step = 1e-5
        up, down = x * math.exp(step), x * math.exp(-step)
        changed = (log_changed(up) - log_changed(down)) / (2 * step)
        unchanged = (down - up) / (2 * step)
        chance = 1 - math.exp(-x)
        assert chance * changed + (1 - chance) * unchanged == pytest.approx(0, abs=1e-9)
        variance = chance * changed**2 + (1 - chance) * unchanged**2
        assert poll_information(x) == pytest.approx(variance, rel=1e-8)


def test_the_limits_are_finite() -> None:
    assert changed_score(0.0) == 1.0
    assert changed_score(1e9) == 0.0
    assert poll_information(1e9) == 0.0
    assert log_changed(0.0) == -math.inf
    assert log_changed(1e9) == 0.0
