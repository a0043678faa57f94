"""The effect of signals as additional elapsed time, so that pages need no signal counter."""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats, by_rows
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel

__all__ = ["effective_elapsed", "elapsed_after_signal", "elapsed_after_signal_of"]


def effective_elapsed(
    elapsed: ArrayLike, n_signals: ArrayLike, signal_age: ArrayLike, *, axis: int | None = None
) -> FloatArray:
    """Return the elapsed time without signals that leaves the same P(fresh), for known rates.

    Parameters
    ----------
    elapsed
        Seconds since the last fetch.
    n_signals
        Number of signals since then.
    signal_age
        Seconds that one signal is worth (`SignalRates.signal_age`).
    axis
        Axis along which ``n_signals`` and ``signal_age`` list several sources; None for one.

    Examples
    --------
    Three pages with no, one and two signals; and one page with signals of two sources:

    >>> effective_elapsed(100.0, [0, 1, 2], 10.0)
    array([100., 110., 120.])
    >>> float(effective_elapsed(100.0, [2, 1], [10.0, 40.0], axis=-1))
    160.0

    References
    ----------
    Signals eq. 1, §3 (τ_eff = τ_elap + β n)
    """
    n, age = np.broadcast_arrays(as_floats(n_signals), as_floats(signal_age))
    # No signal adds nothing, even one that would be worth an infinite time.
    aged = np.zeros(n.shape)
    np.multiply(n, age, where=n > 0, out=aged)
    return as_floats(elapsed) + (aged if axis is None else aged.sum(axis=axis))


@kernel
def elapsed_after_signal_of(
    shape: float, seconds: float, effective_elapsed: float, precision: float
) -> float:
    """Return one page's effective elapsed time after one more signal."""
    # P(fresh) = (b/(b+t))^a falls by the factor 1-p:   t' = (b+t)(1-p)^{-1/a} - b
    if precision >= 1.0:
        return math.inf
    exponent = -math.log1p(-precision) / shape
    growth = math.expm1(exponent) if exponent < 700.0 else math.inf
    return effective_elapsed + (seconds + effective_elapsed) * growth


@kernel
def _age(
    shape: FloatArray,
    seconds: FloatArray,
    elapsed: FloatArray,
    precision: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        out[row] = elapsed_after_signal_of(shape[row], seconds[row], elapsed[row], precision[row])


def elapsed_after_signal(
    belief: GammaBelief, effective_elapsed: ArrayLike, precision: ArrayLike
) -> FloatArray:
    """Return the effective elapsed time after one more signal, under a belief about the rate.

    The signal moves it to the time of equal P(fresh), so that the state of a page is one time
    however many signals it had.

    References
    ----------
    Signals eq. 1 (averaged over the belief)
    """
    return by_rows(_age, belief.shape, belief.seconds, effective_elapsed, precision)
