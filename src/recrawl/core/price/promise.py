"""Latest fetch times that keep a limit on the probability of very stale copies."""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.kernel import kernel

__all__ = ["first_change_quantile_of", "latest_elapsed"]

# Beyond this exponent the result exceeds any clock, and soon any float.
_EXPONENT_MAX = 700.0


@kernel
def first_change_quantile_of(shape: float, seconds: float, probability: float) -> float:
    """Return the age by which a page has changed with this probability; inf beyond any clock.

    ``shape`` and ``seconds`` are the belief about its change rate; ``probability`` is below 1.
    """
    # 1 - (b/(b+t))^a ≤ p   ⟺   t ≤ b ((1-p)^{-1/a} - 1)
    exponent = -math.log1p(-probability) / shape
    if exponent > _EXPONENT_MAX:
        return math.inf
    return seconds * math.expm1(exponent)


def latest_elapsed(
    belief: GammaBelief, *, stale_for: ArrayLike, probability: ArrayLike
) -> FloatArray:
    """Return the age up to which a copy is unlikely to have been stale for long.

    Fetched by then, it is stale for longer than ``stale_for`` with at most this probability,
    given the belief about its rate.

    Parameters
    ----------
    belief
        Belief about the page's change rate.
    stale_for
        Seconds of staleness that are allowed.
    probability
        Largest probability of longer staleness.

    Examples
    --------
    >>> hour, day = 3_600.0, 86_400.0
    >>> belief = GammaBelief.with_mean_rate(1 / day, shape=4.0)
    >>> (latest_elapsed(belief, stale_for=6 * hour, probability=[0.05, 0.5]) / hour).round(1)
    array([ 7.2, 24.2])

    References
    ----------
    Cost §5.3 (the chance of being very stale, bounded per page)
    """
    # Stale for longer than s at age t: changed before t - s.  This is `first_change_quantile_of`
    # in numpy, because read-only commands compute it for many pages without loading the compiler.
    with np.errstate(divide="ignore", over="ignore"):
        exponent = -np.log1p(-as_floats(probability)) / belief.shape
        quantile = np.where(exponent > _EXPONENT_MAX, np.inf, belief.seconds * np.expm1(exponent))
    latest: FloatArray = as_floats(stale_for) + quantile
    return latest
