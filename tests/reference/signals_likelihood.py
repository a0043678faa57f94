"""Signal quality by brute force: likelihoods written down, maximised or summed over grids."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

Floats = NDArray[np.float64]


def log_likelihood(
    alpha: float, precision: float, elapsed: Any, n_signals: Any, changed: Any
) -> float:
    """Return log Π (1 - e^{-ατ}(1-p)^n) Π e^{-ατ}(1-p)^n."""
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.exp(-alpha * np.asarray(elapsed)) * (1 - precision) ** np.asarray(n_signals)
        return float(np.log(np.where(changed, 1 - none, none)).sum())


def greatest_log_likelihood(elapsed: Floats, n_signals: Floats, changed: Any) -> float:
    """Return the greatest log likelihood within α ≥ 0, 0 ≤ p ≤ 1, by a search from many starts."""
    unit = float(np.mean(elapsed))

    def at(alpha: float, precision: float) -> float:
        value = log_likelihood(alpha / unit, precision, elapsed, n_signals, changed)
        return value if np.isfinite(value) else -1e9

    some, share = (0.0, 50.0), (0.0, 1.0)
    # Along the edges too, which a search for an inner point only creeps up to.
    return max(
        *(_greatest(at, [some, share], x) for x in ([0.3, 0.3], [0.02, 0.9], [1.5, 0.02])),
        *(_greatest(lambda alpha: at(alpha, 0.0), [some], [x]) for x in (0.05, 1.0)),
        *(_greatest(lambda alpha: at(alpha, 1.0), [some], [x]) for x in (0.0, 0.05, 1.0)),
        _greatest(lambda precision: at(0.0, precision), [share], [0.5]),
    )


def _greatest(
    function: Callable[..., float], bounds: list[tuple[float, float]], start: list[float]
) -> float:
    options: Any = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 4_000}
    low, high = np.array(bounds).T

    def loss(x: Floats) -> float:
        return -function(*x)

    found = minimize(loss, start, method="Nelder-Mead", bounds=Bounds(low, high), options=options)
    return -float(found.fun)


def beta_moments_after_change(
    true: float, false: float, n_signals: int, freshness: float
) -> tuple[float, float]:
    """Return mean and variance of a precision, Beta before, after an interval with a change.

    By sums over the log odds, in which the density p^a (1-p)^b vanishes at both ends.
    """
    reach = 40 / min(true, false, 1.0)
    step = min(0.05, 0.1 / np.sqrt(true + false))
    odds = np.arange(-reach, reach, step, dtype=np.longdouble) + np.log(true / false)
    p, none = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
    log_density = true * np.log(p) + false * np.log(none)
    weight = np.exp(log_density - log_density.max()) * (1 - freshness * none**n_signals)
    mean = (weight @ p) / weight.sum()
    return float(mean), float((weight @ (p - mean) ** 2) / weight.sum())


def precision_log_likelihood(
    precision: float, shape: float, seconds: float, polls: Sequence[tuple[Any, Any, Any]]
) -> float:
    """Return the log likelihood of one precision, the rate of every page summed over.

    ``polls`` are rounds of (elapsed, signals, changed), one entry a page; rates come from a Gamma
    distribution.
    """
    log_rate = np.arange(np.log(1e-8 / seconds), np.log(300 / seconds), 0.1)
    rate = np.exp(log_rate)
    prior = shape * log_rate - seconds * rate
    total = np.tile(prior - np.log(np.exp(prior).sum()), (len(polls[0][0]), 1))
    for elapsed, n_signals, changed in polls:
        log_none = n_signals[:, None] * np.log1p(-precision) - np.multiply.outer(elapsed, rate)
        total += np.where(changed[:, None], np.log1p(-np.exp(log_none)), log_none)
    return float(np.logaddexp.reduce(total, axis=1).sum())
