"""The exact mean, deviation and bias of the estimators at regular polls.

All are in changes per poll, CGM's frequency ratio r = λI: the change rate times the interval
between polls.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate.last_modified import last_modified_change_rate

__all__ = [
    "EstimateMoments",
    "last_modified_moments",
    "naive_moments",
    "regular_moments",
    "unbiased_limit",
]


class EstimateMoments(NamedTuple):
    """Mean and standard deviation of an estimate of the changes per poll."""

    mean: FloatArray
    deviation: FloatArray


def naive_moments(expected_changes: ArrayLike, n_polls: ArrayLike) -> EstimateMoments:
    """Return the exact mean and standard deviation of X / n.

    Parameters
    ----------
    expected_changes
        True number of changes per poll.
    n_polls
        Polls made.

    Examples
    --------
    Two changes per poll are taken for .86, however many polls are made:

    >>> mean, deviation = naive_moments(2.0, [10, 1000])
    >>> mean.round(2), deviation.round(3)
    (array([0.86, 0.86]), array([0.108, 0.011]))

    References
    ----------
    CGM §4.1, Theorem 4.1, Corollary 4.2
    """
    # CGM Theorem 4.1:    E[r̂] = 1 - e^{-r}
    # CGM Corollary 4.2:  σ[r̂] = sqrt(e^{-r} (1 - e^{-r}) / n)
    r, n = np.broadcast_arrays(
        np.asarray(expected_changes, dtype=np.float64), np.asarray(n_polls, dtype=np.float64)
    )
    mean = -np.expm1(-r)
    return EstimateMoments(mean, np.sqrt(np.exp(-r) * mean / n))


@kernel
def _expected_power(
    odds: float, n: int, prior_changed: float, prior_unchanged: float, centre: float, power: int
) -> float:
    """Return the mean of (estimate - centre)^power when a poll is changed with these odds."""
    # The weights C(n, i) (1 - e^{-r})^{n-i} e^{-ri} of i unchanged polls are built outwards from
    # the largest by their ratios, w(i-1) / w(i) = i / (n - i + 1) · (e^r - 1), and normalised at
    # the end: none underflows early, and for any n and r the result is good to about 1e-13.
    mode = min(max(int((n + 1) / (1.0 + odds)), 0), n)
    largest = math.log1p((n + prior_changed) / prior_unchanged) ** power
    total = 0.0
    weighted = 0.0
    for step in (-1, 1):
        weight = 1.0
        i = mode
        if step == 1:
            weight = (n - mode) / (mode + 1.0) / odds
            i = mode + 1
        # What is left is at most n terms of this weight.
        while 0 <= i <= n and weight * largest * n > 1e-17 * weighted:
            estimate = math.log1p((n - i + prior_changed) / (i + prior_unchanged))
            total += weight
            weighted += weight * (estimate - centre) ** power
            if step == -1:
                weight *= i / (n - i + 1.0) * odds
            else:
                weight *= (n - i) / (i + 1.0) / odds
            i += step
    return weighted / total


@kernel
def regular_moments_of(
    expected_changes: float, n_polls: int, prior_changed: float, prior_unchanged: float
) -> tuple[float, float]:
    """Return mean and deviation for one number of polls; the kernel behind `regular_moments`."""
    # CGM Corollary 4.3 (eq. 1), for any constants (App. B):
    #
    #     E[r̂] = -Σ_i log((i + b) / (n + a + b)) C(n, i) (1 - e^{-r})^{n-i} e^{-ri}
    #
    # and V[r̂] = E[(r̂ - E[r̂])²] in the same way.
    odds = math.expm1(min(expected_changes, 700.0))
    mean = _expected_power(odds, n_polls, prior_changed, prior_unchanged, 0.0, 1)
    variance = _expected_power(odds, n_polls, prior_changed, prior_unchanged, mean, 2)
    return mean, math.sqrt(variance)


@kernel
def _regular_moments(
    expected_changes: FloatArray,
    n_polls: FloatArray,
    prior_changed: float,
    prior_unchanged: float,
    mean: FloatArray,
    deviation: FloatArray,
) -> None:
    for row in range(mean.size):
        mean[row], deviation[row] = regular_moments_of(
            expected_changes[row], int(n_polls[row]), prior_changed, prior_unchanged
        )


def regular_moments(
    expected_changes: ArrayLike,
    n_polls: ArrayLike,
    *,
    prior_changed: float = 0.0,
    prior_unchanged: float = 0.5,
) -> EstimateMoments:
    """Return the exact mean and standard deviation of the regular estimate, by enumeration.

    Parameters
    ----------
    expected_changes
        True number of changes per poll; more than 0.
    n_polls
        Polls made; at least 1.
    prior_changed, prior_unchanged
        Constants of the estimator: those of `regular_change_rate`, or of `beta_change_rate`.

    Examples
    --------
    Ten polls at 1.5 changes each: hardly biased, and 40 % uncertain.

    >>> mean, deviation = regular_moments(1.5, 10)
    >>> (mean / 1.5).round(3), (deviation / 1.5).round(3)
    (np.float64(0.997), np.float64(0.402))

    References
    ----------
    CGM §4.2, Corollary 4.3, eq. 1, Theorem 4.4
    """
    shape, (r, n) = as_columns(expected_changes, n_polls)
    if not np.all(r > 0):
        raise ValueError("expected_changes must be positive")
    if not np.all(n >= 1):
        raise ValueError("n_polls must be at least 1")
    mean, deviation = np.empty(r.size), np.empty(r.size)
    _regular_moments(r, n, prior_changed, prior_unchanged, mean, deviation)
    return EstimateMoments(mean.reshape(shape), deviation.reshape(shape))


def unbiased_limit(n_polls: int, *, bias_max: float = 0.1) -> float:
    """Return the number of changes per poll up to which the regular estimate is unbiased.

    The estimate cannot exceed log(2n + 1) changes per poll, so beyond some rate it falls behind;
    more polls push that point outwards.

    Parameters
    ----------
    n_polls
        Polls made; at least 1.
    bias_max
        Relative bias, up or down, that still counts as none.

    Returns
    -------
    float
        The smallest number of changes per poll at which the bias exceeds ``bias_max``; 0 if it
        does so everywhere.

    Examples
    --------
    >>> [round(unbiased_limit(n), 2) for n in (3, 20, 80)]
    [1.3, 3.48, 5.14]

    References
    ----------
    CGM fig. 6
    """
    if not 0 < bias_max < 1:
        raise ValueError(f"bias_max must be between 0 and 1, got {bias_max!r}")

    def excess(r: float) -> float:
        return abs(float(regular_moments(r, n_polls).mean) / r - 1) - bias_max

    # The bias has a hump or two and then falls for good: an estimate is at most log(2n + 1), so
    # the end of the grid is beyond the bound for certain.
    grid = np.geomspace(1e-4, 2 * math.log(2 * n_polls + 1) / (1 - bias_max), 1_000)
    beyond = np.abs(regular_moments(grid, n_polls).mean / grid - 1) > bias_max
    first = int(np.argmax(beyond))
    if first == 0:
        return 0.0
    return float(brentq(excess, grid[first - 1], grid[first], xtol=1e-10))


def _last_modified_power(r: float, n: int, numerator: FloatArray, power: int) -> float:
    """Return the mean of (numerator[X] / T)^power at ``r`` changes per poll, T in intervals."""
    # CGM Lemma D.1 (eq. 3):  E[r̂] = Σ_k Pr{X = k} ∫ (k / ft) Pr{T = t | X = k} dt.  The density
    # of T is a k-fold convolution (eqs 4 and 5); its Laplace transform is a product, and
    # E[1/T^p] = ∫₀^∞ s^{p-1} E[e^{-sT}] ds / (p-1)!, so that with y = r + s
    #
    #     E[(c_X/T)^p] = Σ_k c_k^p C(n, k) ∫_r^∞ (y - r)^{p-1} e^{-y(n-k)} (r (1 - e^{-y}) / y)^k dy
    #
    # integrated over log(y/r), where it falls like e^{-(n-p) log(y/r)}.
    k = np.arange(1, n + 1)
    weight = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    with np.errstate(divide="ignore"):
        weight += power * np.log(numerator[1:])

    def integrand(log_ratio: float) -> float:
        y = r * math.exp(log_ratio)
        log_changed = math.log(-math.expm1(-y)) - log_ratio
        terms = np.exp(weight - y * (n - k) + k * log_changed)
        return float(terms.sum()) * (y - r) ** (power - 1) * y

    # The integrand is at most of the order of e^-40 beyond; in steps, because it is narrow for
    # many polls and broad for few.
    end = 40 / (n - power) + max(0.0, -math.log(r))
    steps = [0.0, *(end * np.geomspace(1e-3, 1, 10))]
    pieces = [
        quad(integrand, begin, until, epsabs=0.0, epsrel=1e-10, limit=200)[0]
        for begin, until in pairwise(steps)
    ]
    return math.fsum(pieces)


def last_modified_moments(
    expected_changes: ArrayLike, n_polls: ArrayLike, *, corrected: bool = True
) -> EstimateMoments:
    """Return the exact mean and standard deviation of the last-modified estimate.

    Computed by quadrature, in some ten milliseconds each.

    Parameters
    ----------
    expected_changes
        True number of changes per poll; more than 0.
    n_polls
        Polls made; at least 2.  With 2 the deviation is infinite.
    corrected
        Whether to use CGM's X' (figure 13), as `last_modified_change_rate` does, or X itself
        (figure 10).

    Examples
    --------
    Five polls at four changes each:

    >>> mean, deviation = last_modified_moments(4.0, 5)
    >>> (mean / 4).round(4), (deviation / 4).round(2)
    (np.float64(0.9991), np.float64(0.58))

    References
    ----------
    CGM App. D, Lemma D.1, Theorem D.2, eq. 3, eq. 5
    """
    shape, (r, n) = as_columns(expected_changes, n_polls)
    if not np.all(r > 0):
        raise ValueError("expected_changes must be positive")
    if not np.all(n >= 2):
        raise ValueError("n_polls must be at least 2")
    mean, deviation = np.empty(r.size), np.empty(r.size)
    for row in range(r.size):
        n_row = int(n[row])
        n_changed = np.arange(n_row + 1.0)
        numerator = last_modified_change_rate(n_row, n_changed, 1.0) if corrected else n_changed
        mean[row] = _last_modified_power(r[row], n_row, numerator, 1)
        if n_row == 2:
            deviation[row] = np.inf
        else:
            square = _last_modified_power(r[row], n_row, numerator, 2)
            deviation[row] = math.sqrt(square - mean[row] ** 2)
    return EstimateMoments(mean.reshape(shape), deviation.reshape(shape))
