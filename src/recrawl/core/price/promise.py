"""A promise that copies are seldom very stale, as a latest time to fetch."""

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats
from recrawl.core.belief.gamma import GammaBelief

__all__ = ["latest_elapsed"]


def latest_elapsed(
    belief: GammaBelief, *, stale_for: ArrayLike, probability: ArrayLike
) -> FloatArray:
    """Return the age up to which a copy is unlikely to have been stale for long.

    Fetched by then, it is stale for longer than ``stale_for`` with at most this probability,
    given what is believed of its rate.

    Parameters
    ----------
    belief
        About the page's change rate.
    stale_for
        Seconds of staleness that the promise allows.
    probability
        With which it may be broken.

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
    # 1 - (b/(b+t-s))^a ≤ p   ⟺   t ≤ s + b ((1-p)^{-1/a} - 1)
    with np.errstate(divide="ignore", over="ignore"):
        exponent = -np.log1p(-as_floats(probability)) / belief.shape
        latest: FloatArray = as_floats(stale_for) + belief.seconds * np.expm1(exponent)
    return latest
