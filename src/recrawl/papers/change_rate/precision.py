"""The number and interval of polls that a change rate of given precision takes."""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate.sampling import regular_moments, regular_moments_of, unbiased_limit

__all__ = [
    "INFORMATIVE_CHANGES",
    "informative_changes",
    "naive_polls_required",
    "polls_required",
]

INFORMATIVE_CHANGES = 1.5936242600400401
"""Changes per poll at which a poll says most about the rate: 2 + W(-2 e^-2) = 1.594.

The Fisher information about the log rate, r² / (e^r - 1), is largest where 2 (e^r - 1) = r e^r.
CGM's 1.5 is this, for few polls.
"""


def naive_polls_required(expected_changes: ArrayLike, relative_deviation: ArrayLike) -> FloatArray:
    """Return the number of polls at which X / n has a wanted deviation.

    Its bias does not fall with the number of polls.

    Parameters
    ----------
    expected_changes
        Changes per poll.
    relative_deviation
        Standard deviation wanted, as a share of the changes per poll.

    Examples
    --------
    >>> naive_polls_required([1.0, 0.3], 0.5)
    array([1., 9.])

    References
    ----------
    CGM §4.1 (polls required)
    """
    # CGM Corollary 4.2:  σ²/r² = e^{-r} (1 - e^{-r}) / (n r²).
    r = np.asarray(expected_changes, dtype=np.float64)
    wanted = np.asarray(relative_deviation, dtype=np.float64)
    return np.ceil(np.exp(-r) * -np.expm1(-r) / (r * wanted) ** 2)


@kernel
def _polls_required(
    expected_changes: FloatArray,
    relative_deviation: FloatArray,
    bias_max: float,
    n_polls_max: int,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        r = expected_changes[row]
        out[row] = math.inf
        for n in range(1, n_polls_max + 1):
            mean, deviation = regular_moments_of(r, n, 0.0, 0.5)
            if abs(mean - r) <= bias_max * r and deviation <= relative_deviation[row] * r:
                out[row] = n
                break


def polls_required(
    expected_changes: ArrayLike,
    relative_deviation: ArrayLike,
    *,
    bias_max: float = 0.01,
    n_polls_max: int = 100_000,
) -> FloatArray:
    """Return the number of polls for which `regular_change_rate` is as precise as wanted.

    The smallest number at which the exact standard deviation is small enough and the estimate is
    unbiased; without the second condition few polls of a fast page would do, which all find it
    changed and agree on a rate that is far too low.

    Parameters
    ----------
    expected_changes
        Changes per poll; more than 0.
    relative_deviation
        Standard deviation wanted, as a share of the changes per poll; more than 0.
    bias_max
        Relative bias allowed.
    n_polls_max
        Largest number of polls tried.

    Returns
    -------
    FloatArray
        Numbers of polls; inf where ``n_polls_max`` are not enough.

    Examples
    --------
    How many polls find a rate to 20 %, at half a change, 1.5 and 4 changes per poll?

    >>> polls_required([0.5, 1.5, 4.0], 0.2)
    array([66., 41., 96.])

    References
    ----------
    CGM fig. 6, fig. 7
    """
    shape, (r, wanted) = as_columns(expected_changes, relative_deviation)
    if not (np.all(r > 0) and np.all(wanted > 0)):
        raise ValueError("expected_changes and relative_deviation must be positive")
    out = np.empty(r.size)
    _polls_required(r, wanted, bias_max, n_polls_max, out)
    return out.reshape(shape)


def informative_changes(n_polls: int, *, bias_max: float = 0.1) -> float:
    """Return the changes per poll at which ``n_polls`` polls say most about the rate.

    Divided by a guess of the change rate it is the best interval for learning: 1.5 changes per
    poll, so a page thought to change once a week is best learned by a poll every ten days.

    The relative deviation σ/r is smallest there, among the rates at which the estimate is
    unbiased.  Rates beyond `INFORMATIVE_CHANGES`, which is the answer for many polls, are left
    out: the deviation falls there because nearly every poll finds a change.

    Parameters
    ----------
    n_polls
        Number of polls that will be made; at least 1.
    bias_max
        Relative bias allowed.

    Examples
    --------
    >>> [round(informative_changes(n), 2) for n in (10, 20, 40, 1000)]
    [1.59, 1.35, 1.44, 1.59]

    References
    ----------
    CGM fig. 7, Example 4
    """
    limit = min(unbiased_limit(n_polls, bias_max=bias_max), INFORMATIVE_CHANGES)
    if limit == 0:
        raise ValueError(f"bias_max must be larger for {n_polls} polls, got {bias_max!r}")

    def relative_deviation(r: float) -> float:
        return float(regular_moments(r, n_polls).deviation) / r

    # σ/r falls from infinity at 0, and has at most one minimum before it falls again.
    grid = np.linspace(limit / 100, limit, 100)
    best = int(np.argmin(regular_moments(grid, n_polls).deviation / grid))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    found = minimize_scalar(
        relative_deviation, bounds=bounds, method="bounded", options={"xatol": 1e-8}
    )
    return limit if relative_deviation(limit) <= float(found.fun) else float(found.x)
