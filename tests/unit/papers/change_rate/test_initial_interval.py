"""The best first interval, against paths followed one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.papers.change_rate import PseudoObservations, best_initial_interval
from tests.reference.polls_likelihood import log_likelihood
from tests.reference.polls_tree import paths

DAY = 86_400.0


def brute_force_deviation(
    rates: list[float], weights: list[float], first: float, n_polls: int, factor: float
) -> float:
    """Return the median over pages, paths and epochs, each as often as it is probable."""
    found = [
        (abs(period - 1 / rate), weight * math.exp(log_likelihood(rate, elapsed, changed)))
        for rate, weight in zip(rates, weights, strict=True)
        for elapsed, changed, period in paths(first, n_polls, factor, [], [])
    ]
    found.sort()
    half = sum(weight for _, weight in found) / 2
    running = 0.0
    for deviation, weight in found:
        running += weight
        if running >= half:
            return deviation
    raise AssertionError


@pytest.mark.parametrize("factor", [0.8, 1.0])
def test_agrees_with_paths_followed_one_by_one(factor: float) -> None:
    rates, weights = [1 / 2, 1 / 9, 1 / 40], [1.0, 3.0, 2.0]
    candidates = [0.7, 3.0, 11.0, 30.0]
    tried = best_initial_interval(
        rates, candidates, weights=weights, n_polls=4, interval_factor=factor
    )
    expected = [brute_force_deviation(rates, weights, c, 4, factor) for c in candidates]
    np.testing.assert_allclose(tried.deviation, expected, rtol=1e-5)
    assert tried.best == candidates[int(np.argmin(expected))]


def test_one_poll_can_only_say_its_own_interval() -> None:
    """Both substitutes are the interval itself: never changed, and always changed."""
    tried = best_initial_interval([1 / 5.0], [1.0, 5.0, 20.0], n_polls=1)
    np.testing.assert_allclose(tried.deviation, [4, 0, 15], atol=1e-12)
    assert tried.best == 5.0


def test_a_population_has_a_best_first_interval() -> None:
    """Prior §4.2, fig. 4: neither the shortest nor the longest, of the order of its periods."""
    periods = np.exp(np.linspace(math.log(1), math.log(100), 60)) * DAY
    candidates = np.geomspace(0.1, 200, 30) * DAY
    tried = best_initial_interval(1 / periods, candidates)
    assert 1 * DAY < tried.best < 30 * DAY
    assert tried.deviation.min() < 0.7 * min(tried.deviation[0], tried.deviation[-1])


def test_a_prior_helps_whatever_the_first_interval() -> None:
    """Prior §5: with pseudo-observations a poor first interval costs less."""
    periods = np.exp(np.linspace(math.log(5), math.log(50), 40))
    candidates = np.array([0.1, 200.0])
    pseudo = PseudoObservations(changed_after=5.0, unchanged_after=12.0)
    bare = best_initial_interval(1 / periods, candidates)
    helped = best_initial_interval(1 / periods, candidates, pseudo=pseudo)
    assert np.all(helped.deviation < bare.deviation)


@given(scale=st.floats(1e-6, 1e6))
def test_does_not_depend_on_the_unit_of_time(scale: float) -> None:
    rates, candidates = np.array([0.5, 0.1, 0.02]), np.array([1.0, 6.0])
    here = best_initial_interval(rates, candidates, n_polls=3)
    there = best_initial_interval(rates / scale, candidates * scale, n_polls=3)
    np.testing.assert_allclose(there.deviation, here.deviation * scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"change_rate": [0.0]}, "change_rate must be"),
        ({"interval": [0.0]}, "interval must be"),
        ({"n_polls": 0}, "n_polls must be 1 to 20, got 0"),
        ({"interval_factor": 0.0}, "interval_factor must be positive"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, object], message: str) -> None:
    whole = {"change_rate": [1.0], "interval": [1.0]} | arguments
    with pytest.raises(ValueError, match=message):
        best_initial_interval(**whole)  # type: ignore[arg-type]
