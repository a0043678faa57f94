"""The likelihood of polls, written down and maximised without its derivative."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import minimize_scalar


def log_likelihood(rate: float, elapsed: Sequence[float], changed: Sequence[bool]) -> float:
    """Return log Π (1 - e^{-λt}) Π e^{-λt}."""
    total = 0.0
    for t, found in zip(elapsed, changed, strict=True):
        x = rate * t
        total += math.log(-math.expm1(-x)) if found else -x
    return total


def most_likely_rate(elapsed: Sequence[float], changed: Sequence[bool]) -> float:
    """Return the rate of largest likelihood; good to about 1e-7, as maxima are flat."""
    centre = -math.log(float(np.mean(elapsed)))
    found = minimize_scalar(
        lambda log_rate: -log_likelihood(math.exp(log_rate), elapsed, changed),
        bounds=(centre - 30, centre + 30),
        method="bounded",
        options={"xatol": 1e-12, "maxiter": 1_000},
    )
    return math.exp(float(found.x))


def all_outcomes(n: int) -> Iterator[tuple[bool, ...]]:
    """Yield every sequence of ``n`` changed and unchanged polls."""
    return itertools.product((False, True), repeat=n)


def likelihoods(rate: float, elapsed: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return the probability of each row of ``outcomes``."""
    unchanged = np.exp(-rate * elapsed)
    return np.asarray(np.prod(np.where(outcomes, 1 - unchanged, unchanged), axis=1))
