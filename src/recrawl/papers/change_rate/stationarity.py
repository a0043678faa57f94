"""Whether a page's change rate drifts, so that old polls mislead.

CGM leave this open ("Changing λ", §7.1): tests for Poisson processes need the times of all
changes, and polls only show whether there were any.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate.irregular import irregular_change_rate
from recrawl.papers.change_rate.likelihood import changed_score
from recrawl.papers.change_rate.polls import PollHistories

__all__ = ["TrendTest", "trend_test"]


class TrendTest(NamedTuple):
    """Trends in log rate, and how far they are from none.

    ``trend`` is in 1/s: the rate is multiplied by ``exp(trend * seconds)``, to first order.
    ``z_score`` is standard normal for a page whose rate is constant, positive for one that
    speeds up.  ``p_value`` is the chance of a score as far from 0 at a constant rate.
    """

    trend: FloatArray
    z_score: FloatArray
    p_value: FloatArray


@kernel
def _trend_of(
    elapsed: FloatArray, changed: FlagArray, rate: float, n_each_min: int
) -> tuple[float, float]:
    """Return trend and z-score of one page whose most likely constant rate is ``rate``."""
    # Let the rate be λ e^{θs} at time s.  A poll over an interval of length t and middle s then
    # expects x (1 + θs) changes to first order in θ, x = λt: the middle is exact for any t.
    # With u the derivative of a poll's log-likelihood by log λ, x / (e^x - 1) if it found a
    # change and -x if not, and w = x² / (e^x - 1) its variance, the score at θ = 0 is
    #
    #     Σ s u,   of variance   Σ w s² - (Σ w s)² / Σ w
    #
    # where λ is the most likely rate, so that Σ u = 0; the second term is what estimating it
    # costs.  The origin of s does not matter.
    n = 0
    n_changed = 0
    length = 0.0
    for i in range(elapsed.size):
        if elapsed[i] > 0.0:
            n += 1
            n_changed += changed[i]
            length += elapsed[i]
    if n_changed < n_each_min or n - n_changed < n_each_min:
        return math.nan, math.nan
    score = 0.0
    w_sum = 0.0
    w_mean = 0.0
    w_squares = 0.0
    begin = -0.5
    for i in range(elapsed.size):
        if not elapsed[i] > 0.0:
            continue
        share = elapsed[i] / length
        middle = begin + 0.5 * share
        begin += share
        x = rate * elapsed[i]
        h = changed_score(x)
        score += middle * (h if changed[i] else -x)
        # Weighted mean and sum of squares about it, one poll at a time (West 1979).
        w = x * h
        if w > 0.0:
            w_sum += w
            off = middle - w_mean
            w_mean += off * w / w_sum
            w_squares += w * off * (middle - w_mean)
    # One of n polls went into the rate: n/(n-1) makes the variance exact for regular polls,
    # where the test is Wilcoxon's rank sum test of the changed against the unchanged.
    variance = w_squares * n / (n - 1.0)
    if not variance > 0.0:
        return math.nan, math.nan
    return score / variance / length, score / math.sqrt(variance)


@kernel
def _trends(
    elapsed: FloatArray,
    changed: FlagArray,
    offsets: RowArray,
    rate: FloatArray,
    n_each_min: int,
    trend: FloatArray,
    z_score: FloatArray,
) -> None:
    for row in range(rate.size):
        polls = slice(offsets[row], offsets[row + 1])
        trend[row], z_score[row] = _trend_of(elapsed[polls], changed[polls], rate[row], n_each_min)


def trend_test(histories: PollHistories, *, n_each_min: int = 5) -> TrendTest:
    """Test whether each page's change rate rises or falls over its history.

    A score test for a rate of λ e^{θs} at time s against a constant one.  It needs polls, at any
    intervals, and not the times of changes.  A rate that rises and falls again escapes it.

    Parameters
    ----------
    histories
        Poll histories, each page's polls in order of time.
    n_each_min
        Least number of changed polls, and of unchanged ones, to test a page; below it the
        results are nan.  From 5 of each a test at the 5 % level rejects 4.0 to 5.6 % of constant
        pages polled regularly, and 2 to 6 % of others, nearer to 5 the more polls; with fewer
        the score takes too few values, and may reject 10 % or none.

    Examples
    --------
    A page that changed at every poll in its first half and at none after:

    >>> day = 86_400.0
    >>> histories = PollHistories.of_one_page(np.full(20, day), [True] * 10 + [False] * 10)
    >>> test = trend_test(histories)
    >>> test.z_score.round(2), test.p_value.round(5)
    (array([-3.78]), array([0.00016]))

    References
    ----------
    CGM §7.1 (changing λ)
    """
    if n_each_min < 1:
        raise ValueError(f"n_each_min must be at least 1, got {n_each_min!r}")
    rate, _ = irregular_change_rate(histories)
    trend, z_score = np.empty(rate.size), np.empty(rate.size)
    _trends(*histories, rate, n_each_min, trend, z_score)
    return TrendTest(trend, z_score, 2 * ndtr(-np.abs(z_score)))
