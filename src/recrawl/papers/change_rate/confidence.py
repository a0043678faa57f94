"""Confidence bounds for change rates."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate.irregular import irregular_relative_error
from recrawl.papers.change_rate.likelihood import log_changed
from recrawl.papers.change_rate.polls import PollHistories
from recrawl.papers.change_rate.pseudo_observations import PseudoObservations

__all__ = ["RateBounds", "irregular_bounds", "regular_bounds"]


class RateBounds(NamedTuple):
    """Lower and upper bounds of change rates, per second."""

    lower: FloatArray
    upper: FloatArray


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    return (1 - confidence) / 2


def regular_bounds(
    n_polls: ArrayLike, n_changed: ArrayLike, interval: ArrayLike, *, confidence: float = 0.95
) -> RateBounds:
    """Return bounds for the rates of pages polled every ``interval``, never too narrow.

    The bounds of Clopper and Pearson for the chance that a poll finds a change, turned into
    rates: they hold the true rate at least as often as ``confidence`` says, whatever it is.

    Parameters
    ----------
    n_polls
        Polls made; at least 1.
    n_changed
        Polls that found a change.
    interval
        Seconds between polls.
    confidence
        Least probability that the bounds contain the rate.

    Examples
    --------
    Six of ten daily polls found a change, and none:

    >>> lower, upper = regular_bounds(10, [6, 0], 1.0)
    >>> lower.round(2), upper.round(2)
    (array([0.3, 0. ]), array([2.11, 0.37]))

    References
    ----------
    CGM §4.1 (confidence interval, there 2 σ)
    """
    tail = _tail(confidence)
    n, x, seconds = np.broadcast_arrays(
        *(np.asarray(q, dtype=np.float64) for q in (n_polls, n_changed, interval))
    )
    if not np.all((x >= 0) & (x <= n) & (n >= 1)):
        raise ValueError("n_changed must be 0 to n_polls, and n_polls at least 1")
    # Quantiles of Beta(x, n-x+1) and Beta(x+1, n-x); the upper one as that of the unchanged
    # share, Beta(n-x, x+1), because a rate is the logarithm of that share and may be large.
    changed_low = np.where(x > 0, betaincinv(np.maximum(x, 0.5), n - x + 1, tail), 0.0)
    unchanged_low = np.where(x < n, betaincinv(np.maximum(n - x, 0.5), x + 1, tail), 0.0)
    with np.errstate(divide="ignore"):
        return RateBounds(-np.log1p(-changed_low) / seconds, -np.log(unchanged_low) / seconds)


@kernel
def _lower_bound_if_always_changed(elapsed: FloatArray, tail: float) -> float:
    """Return the rate at which changes at every poll have probability ``tail``."""
    # Π_i (1 - e^{-λ t_i}) = tail.  With m equal intervals t the root is -log(1 - tail^{1/m}) / t,
    # so it lies between that at the longest and that at the shortest interval.
    shortest = math.inf
    longest = 0.0
    m = 0
    for t in elapsed:
        if t > 0.0:
            shortest = min(shortest, t)
            longest = max(longest, t)
            m += 1
    equal = -math.log1p(-(tail ** (1.0 / m)))
    low = equal / longest
    high = equal / shortest
    for _ in range(200):
        middle = math.sqrt(low * high)
        total = 0.0
        for t in elapsed:
            if t > 0.0:
                total += log_changed(middle * t)
        if total < math.log(tail):
            low = middle
        else:
            high = middle
        if high <= low * (1.0 + 1e-12):
            break
    return math.sqrt(low * high)


@kernel
def _edge_bounds(
    elapsed: FloatArray,
    offsets: RowArray,
    rate: FloatArray,
    tail: float,
    lower: FloatArray,
    upper: FloatArray,
) -> None:
    for row in range(rate.size):
        polls = elapsed[offsets[row] : offsets[row + 1]]
        if rate[row] == 0.0:
            # e^{-λT} = tail.
            lower[row] = 0.0
            upper[row] = -math.log(tail) / polls.sum()
        elif rate[row] == math.inf:
            lower[row] = _lower_bound_if_always_changed(polls, tail)
            upper[row] = math.inf
        elif math.isnan(rate[row]):
            lower[row] = 0.0
            upper[row] = math.inf


def irregular_bounds(
    histories: PollHistories,
    change_rate: ArrayLike,
    *,
    pseudo: PseudoObservations | None = None,
    confidence: float = 0.95,
) -> RateBounds:
    """Return bounds for rates found by `irregular_change_rate`.

    Normal in the logarithm of the rate, with the standard error of `irregular_relative_error`:
    good from a few changed and a few unchanged polls on.  The edges are exact: the upper
    bound of a page never found changed is the rate at which that would be too unlikely, likewise
    the lower bound of a page always found changed; a page never polled has 0 and infinity.

    Parameters
    ----------
    histories
        Poll histories.
    change_rate
        Rates from `irregular_change_rate`, per second.
    pseudo
        Pseudo-observations used for these rates.
    confidence
        Probability that the bounds contain the rate.

    Examples
    --------
    >>> histories = PollHistories.of_one_page([6.0, 4.0, 3.0, 7.0], [1, 0, 1, 0])
    >>> lower, upper = irregular_bounds(histories, [2.67 / 20])
    >>> (20 * lower).round(2), (20 * upper).round(2)
    (array([0.62]), array([11.43]))
    """
    tail = _tail(confidence)
    rate = np.ascontiguousarray(change_rate, dtype=np.float64)
    error = irregular_relative_error(histories, rate, pseudo=pseudo)
    inside = (rate > 0) & (rate < np.inf)
    width = np.exp(-ndtri(tail) * np.where(inside, error, 0.0))
    lower, upper = rate / width, rate * width
    _edge_bounds(histories.elapsed, histories.offsets, rate, tail, lower, upper)
    return RateBounds(lower, upper)
