"""Precision and recall of one page's signals, estimated from its own polls."""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray
from recrawl.core.kernel import kernel

__all__ = ["SignalFit", "SignalledPolls", "count_quality", "fit_signals"]

_N_STEPS_MAX = 100
# A precision of 1 - e^-40 is 1 in double precision; beyond it αβ is not looked for.
_EXPONENT_MAX = 40.0


class SignalledPolls(NamedTuple):
    """Polls of many pages, one after the other: 17 bytes a poll.

    Page i's polls are the entries ``offsets[i]`` to ``offsets[i + 1]``: the ``elapsed`` seconds
    since the previous poll, the signals (``n_signals``) received in them, and whether the poll
    found the page ``changed``.
    """

    offsets: CountArray
    elapsed: FloatArray
    n_signals: FloatArray
    changed: FlagArray

    @classmethod
    def of_page(
        cls, elapsed: ArrayLike, n_signals: ArrayLike, changed: ArrayLike
    ) -> "SignalledPolls":
        """Return the polls of a single page."""
        column = np.asarray(elapsed, dtype=np.float64)
        return cls(
            np.array([0, column.size]),
            column,
            np.asarray(n_signals, dtype=np.float64),
            np.asarray(changed, dtype=np.bool_),
        )


class SignalFit(NamedTuple):
    """The most likely signal quality of each page, and whether the search converged."""

    unsignalled_change_rate: FloatArray
    precision: FloatArray
    converged: FlagArray


@kernel
def _log_likelihood(
    elapsed: FloatArray, n_signals: FloatArray, changed: FlagArray, alpha: float, kappa: float
) -> float:
    # P(no change) = exp(-ατ - αβ·n); Signals App. E prints it as the probability of a change.
    total = 0.0
    for i in range(elapsed.size):
        u = alpha * elapsed[i] + kappa * n_signals[i]
        if not changed[i]:
            total -= u
        elif u > 0.0:
            total += math.log(-math.expm1(-u))
        elif elapsed[i] > 0.0 or n_signals[i] > 0.0:
            return -math.inf
    return total


@kernel
def _slope_and_curvature(
    elapsed: FloatArray, n_signals: FloatArray, changed: FlagArray, alpha: float, kappa: float
) -> tuple[float, float, float, float, float]:
    """Return the gradient of the log likelihood by (α, αβ) and minus its second derivatives."""
    ga = gk = haa = hak = hkk = 0.0
    for i in range(elapsed.size):
        t = elapsed[i]
        n = n_signals[i]
        if changed[i]:
            u = alpha * t + kappa * n
            if u > 0.0:  # polls after 0 seconds without a signal say nothing
                odds = 1.0 / math.expm1(min(u, 700.0))  # P(none)/P(change)
                curve = odds * (1.0 + odds)
                ga += odds * t
                gk += odds * n
                haa += curve * t * t
                hak += curve * t * n
                hkk += curve * n * n
        else:
            ga -= t
            gk -= n
    return ga, gk, haa, hak, hkk


@kernel
def _step(
    hold_alpha: bool,
    hold_kappa: bool,
    ga: float,
    gk: float,
    haa: float,
    hak: float,
    hkk: float,
) -> tuple[float, float]:
    """Return the Newton step of the parameters that are free to move; α in 1/mean interval."""
    # A little is added to the diagonal: where the polls cannot tell the two apart, or no change
    # was signalled, the step then is a long one to the boundary.
    haa += 1e-10 * (haa + abs(ga))
    hkk += 1e-10 * (hkk + abs(gk))
    if hold_alpha:
        return 0.0, gk / hkk
    if hold_kappa:
        return ga / haa, 0.0
    determinant = haa * hkk - hak * hak
    return (hkk * ga - hak * gk) / determinant, (haa * gk - hak * ga) / determinant


@kernel
def _fit_page(
    elapsed: FloatArray, n_signals: FloatArray, changed: FlagArray
) -> tuple[float, float, bool]:
    """Return (α, αβ, converged): Newton among the parameters that are not held at a bound.

    The log likelihood is concave in both, and each step raises it.
    """
    n_polls = n_changed = 0
    seconds = 0.0
    signals = 0.0
    for i in range(elapsed.size):
        if elapsed[i] > 0.0 or n_signals[i] > 0.0:
            n_polls += 1
            n_changed += changed[i]
        seconds += elapsed[i]
        signals += n_signals[i]
    if n_changed == 0:
        return 0.0, 0.0, n_polls > 0
    if n_changed == n_polls:
        return math.inf, math.inf, False
    unit = seconds / n_polls if seconds > 0.0 else 1.0
    alpha = 0.5 * n_changed / n_polls if seconds > 0.0 else 0.0  # per mean interval
    kappa = 0.5 * min(1.0, n_changed / signals) if signals > 0.0 else 0.0
    best = _log_likelihood(elapsed, n_signals, changed, alpha / unit, kappa)
    for _ in range(_N_STEPS_MAX):
        ga, gk, haa, hak, hkk = _slope_and_curvature(
            elapsed, n_signals, changed, alpha / unit, kappa
        )
        ga /= unit
        haa /= unit * unit
        hak /= unit
        hold_alpha = (alpha <= 0.0 and ga <= 0.0) or seconds <= 0.0
        hold_kappa = (
            (kappa <= 0.0 and gk <= 0.0) or (kappa >= _EXPONENT_MAX and gk >= 0.0) or signals <= 0.0
        )
        if hold_alpha and hold_kappa:
            return alpha / unit, kappa, True
        da, dk = _step(hold_alpha, hold_kappa, ga, gk, haa, hak, hkk)
        # Where a joint step leads out of a bound, the other parameter moves alone.
        if alpha <= 0.0 and da < 0.0:
            da, dk = _step(True, hold_kappa, ga, gk, haa, hak, hkk)
        elif (kappa <= 0.0 and dk < 0.0) or (kappa >= _EXPONENT_MAX and dk > 0.0):
            da, dk = _step(hold_alpha, True, ga, gk, haa, hak, hkk)
        # What the step would gain if the curvature stayed as it is.  Newton squares it: a gain
        # of 1e-9 leaves 1e-18 to be had.
        is_last = ga * da + gk * dk < 1e-9
        scale = 1.0
        if da < 0.0:
            scale = min(scale, -alpha / da)
        if dk < 0.0:
            scale = min(scale, -kappa / dk)
        elif dk > 0.0:
            scale = min(scale, (_EXPONENT_MAX - kappa) / dk)
        is_inside = scale == 1.0
        for _ in range(60):
            new_alpha = alpha + scale * da
            new_kappa = kappa + scale * dk
            # A step to a bound ends on it, not beside it by a rounding error.
            if new_alpha < 1e-9 * alpha:
                new_alpha = 0.0
            if new_kappa < 1e-9 * kappa:
                new_kappa = 0.0
            elif new_kappa > _EXPONENT_MAX - 1e-9:
                new_kappa = _EXPONENT_MAX
            new = _log_likelihood(elapsed, n_signals, changed, new_alpha / unit, new_kappa)
            if new >= best or is_last:
                break
            scale *= 0.5
        else:
            return alpha / unit, kappa, False
        alpha, kappa, best = new_alpha, new_kappa, new
        if is_last and is_inside:
            return alpha / unit, kappa, True
    return alpha / unit, kappa, False


@kernel
def _fit_pages(polls: SignalledPolls, out: FloatArray, converged: FlagArray) -> None:
    for page in range(converged.size):
        first = polls.offsets[page]
        last = polls.offsets[page + 1]
        alpha, kappa, good = _fit_page(
            polls.elapsed[first:last], polls.n_signals[first:last], polls.changed[first:last]
        )
        out[0, page] = alpha
        out[1, page] = -math.expm1(-kappa)
        converged[page] = good


def fit_signals(polls: SignalledPolls) -> SignalFit:
    """Return the rate of unsignalled changes and the precision that best explain the polls.

    The two are found together, by maximum likelihood of P(no change) = e^{-ατ} (1-p)^n.  The
    signal rate γ is counted; recall is then pγ/(α + pγ).  Pages that changed in every interval
    have no finite estimate: infinity, not converged.

    Examples
    --------
    Two polls after a signal found a change, one did not; of four without a signal, one did:

    >>> day = 86_400.0
    >>> polls = SignalledPolls.of_page([day] * 7, [1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0])
    >>> fit = fit_signals(polls)
    >>> round(float(fit.unsignalled_change_rate[0] * day), 3), round(float(fit.precision[0]), 3)
    (0.288, 0.556)

    References
    ----------
    Signals App. E (with the probability of *no* change)
    """
    n_pages = polls.offsets.size - 1
    out = np.empty((2, n_pages))
    converged = np.empty(n_pages, np.bool_)
    _fit_pages(polls, out, converged)
    return SignalFit(out[0], out[1], converged)


def count_quality(polls: SignalledPolls) -> tuple[FloatArray, FloatArray]:
    """Return precision and recall by counting intervals: biased, for comparison only.

    Precision counts intervals with a signal and a change among those with a signal, recall
    among those with a change.  An interval with a false signal and an unsignalled change counts
    for the signal, so both come out too high.

    References
    ----------
    Signals App. E (the naive approach; precision divides by intervals with a *signal*)
    """
    signalled = polls.n_signals > 0
    both = signalled & polls.changed

    def per_page(flags: FlagArray) -> FloatArray:
        running = np.concatenate([[0], np.cumsum(flags)])
        return np.diff(running[polls.offsets]).astype(np.float64)

    with np.errstate(invalid="ignore"):
        return per_page(both) / per_page(signalled), per_page(both) / per_page(polls.changed)
