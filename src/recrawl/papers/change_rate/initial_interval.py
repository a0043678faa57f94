"""The best interval before the first poll of an unknown page."""

from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray
from recrawl.papers.change_rate.irregular import irregular_change_rate, substitute_edges
from recrawl.papers.change_rate.polls import PollHistories
from recrawl.papers.change_rate.pseudo_observations import PseudoObservations

__all__ = ["InitialIntervals", "best_initial_interval"]

# Trees of more polls than this have more than a million outcomes.
_N_POLLS_MAX = 20


class InitialIntervals(NamedTuple):
    """Candidate first intervals, the deviation to which each leads, and the best of them.

    All in seconds; ``deviation`` is the median absolute deviation of estimated periods.
    """

    interval: FloatArray
    deviation: FloatArray
    best: float


class _Level(NamedTuple):
    """The polls of one epoch on every path that leads to it, and the estimates after them.

    A path is a number: its binary digits are the outcomes, the last poll's the lowest.
    """

    elapsed: FloatArray  # of the poll, one per path before it
    period: FloatArray  # estimated after the poll, one per path including it


def _outcome_tree(
    interval: float, n_polls: int, interval_factor: float, pseudo: PseudoObservations | None
) -> list[_Level]:
    """Return intervals and estimates along every path of changed and unchanged polls.

    The estimate after a sequence of outcomes, and so the next interval, does not depend on the
    true rate; only the probability of the sequence does.
    """
    levels: list[_Level] = []
    elapsed = np.empty((1, 0))
    changed: FlagArray = np.empty((1, 0), np.bool_)
    following = np.array([interval])
    for _ in range(n_polls):
        elapsed = np.repeat(np.column_stack([elapsed, following]), 2, axis=0)
        outcome = np.tile([False, True], following.size)
        changed = np.column_stack([np.repeat(changed, 2, axis=0), outcome])
        n_paths, n_epochs = elapsed.shape
        histories = PollHistories(
            elapsed.reshape(-1), changed.reshape(-1), np.arange(n_paths + 1) * n_epochs
        )
        rate, _ = irregular_change_rate(histories, pseudo=pseudo)
        period = 1 / substitute_edges(histories, rate)
        levels.append(_Level(following, period))
        following = interval_factor * period
    return levels


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(cumulative, 0.5 * cumulative[-1])]])


def _deviation(levels: list[_Level], change_rate: FloatArray, weight: FloatArray) -> float:
    """Return the median of |estimated - true period| over pages, paths and epochs."""
    true_period = 1 / change_rate
    probability = weight[:, np.newaxis]
    deviations, probabilities = [], []
    for level in levels:
        x = np.outer(change_rate, level.elapsed)
        unchanged, changed = probability * np.exp(-x), probability * -np.expm1(-x)
        probability = np.stack([unchanged, changed], axis=-1).reshape(change_rate.size, -1)
        deviations.append(np.abs(level.period - true_period[:, np.newaxis]).reshape(-1))
        probabilities.append(probability.reshape(-1))
    return _weighted_median(np.concatenate(deviations), np.concatenate(probabilities))


def best_initial_interval(
    change_rate: ArrayLike,
    interval: ArrayLike,
    *,
    weights: ArrayLike = 1.0,
    n_polls: int = 5,
    interval_factor: float = 1.0,
    pseudo: PseudoObservations | None = None,
) -> InitialIntervals:
    """Return how well each first interval suits a population, and the best one.

    Every page is polled first after ``interval``, then after ``interval_factor`` times its
    estimated period.  The deviation is the median, over pages and their first ``n_polls``
    estimates, of the distance between estimated and true period.  All 2^n outcomes are
    enumerated with their probabilities, where the paper simulates 1000 pages.

    Parameters
    ----------
    change_rate
        Changes per second of a sample of pages, each more than 0.
    interval
        First intervals to try, seconds.
    weights
        Weight of each page.
    n_polls
        Number of polls of each page.
    interval_factor
        Next interval over estimated period.
    pseudo
        Pseudo-observations for the estimates; without them edge cases are substituted.

    Examples
    --------
    >>> day = 86_400.0
    >>> periods = np.geomspace(1, 100, 40) * day
    >>> tried = best_initial_interval(1 / periods, np.array([1, 4, 16, 64]) * day)
    >>> (tried.deviation / day).round(1), tried.best / day
    (array([ 6.4,  4.2, 13.1, 55.6]), 4.0)

    References
    ----------
    Prior §4.2, fig. 4
    """
    rate, weight = np.broadcast_arrays(
        np.asarray(change_rate, dtype=np.float64).reshape(-1),
        np.asarray(weights, dtype=np.float64),
    )
    if not rate.size or not np.all((rate > 0) & (rate < np.inf)):
        raise ValueError("change_rate must be one or more positive, finite rates")
    candidates = np.asarray(interval, dtype=np.float64).reshape(-1)
    if not candidates.size or not np.all((candidates > 0) & (candidates < np.inf)):
        raise ValueError("interval must be one or more positive, finite times")
    if not 1 <= n_polls <= _N_POLLS_MAX:
        raise ValueError(f"n_polls must be 1 to {_N_POLLS_MAX}, got {n_polls!r}")
    if not 0 < interval_factor < np.inf:
        raise ValueError(f"interval_factor must be positive and finite, got {interval_factor!r}")
    deviation = np.array(
        [
            _deviation(_outcome_tree(float(first), n_polls, interval_factor, pseudo), rate, weight)
            for first in candidates
        ]
    )
    return InitialIntervals(candidates, deviation, float(candidates[np.argmin(deviation)]))
