"""The value of refetching a page now when no signals announce its changes."""

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats, by_rows
from recrawl.core.exponentials import mean_residual
from recrawl.core.kernel import kernel

__all__ = ["crawl_value", "crawl_value_of"]


@kernel
def crawl_value_of(change_rate: float, elapsed: float) -> float:
    """Return the value of one page of importance 1; the kernel behind `crawl_value`."""
    # Longevity eq. 4:  U(t) = t D(t) - ∫₀ᵗ D(s) ds.  A Poisson page of change rate λ is stale
    # with probability D(t) = 1 - e^{-λt} (Signals §5.1, V_Greedy), hence
    #
    #     U(t) = (1 - (1 + λt) e^{-λt}) / λ = R¹(λt) / λ,
    #
    # where R¹(x) = 1 - (1 + x) e^{-x}.  It is computed as t R¹(λt)/(λt), which is valid for λ = 0;
    # above 700, where R¹ is 1, as 1/λ, which is valid for an infinite t.
    changes = change_rate * elapsed
    if changes > 700.0:
        return 1.0 / change_rate
    return elapsed * mean_residual(changes)


@kernel
def _crawl_values(change_rate: FloatArray, elapsed: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = crawl_value_of(change_rate[row], elapsed[row])


def crawl_value(
    change_rate: ArrayLike, elapsed: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the value of refetching each page now, when its change rate is known.

    Pages worth more than the current price are due.  The value grows with ``elapsed`` from 0
    towards ``importance / change_rate``: a page that changes faster than any affordable
    fetch rate is worth little, however stale.

    Parameters
    ----------
    change_rate
        Changes per second; may be 0.
    elapsed
        Seconds since the page was last fetched.
    importance
        Weight of the page, or requests per second for its copy.

    Returns
    -------
    FloatArray
        Seconds of freshness gained by one fetch, times importance.

    Examples
    --------
    A page that changes once a day, six hours, a day and a month after its last fetch:

    >>> hour, day = 3_600.0, 86_400.0
    >>> (crawl_value(1 / day, [6 * hour, day, 30 * day]) / hour).round(2)
    array([ 0.64,  6.34, 24.  ])

    References
    ----------
    Longevity eq. 4
    Signals §5.1 (no change-indicating signals)
    """
    return as_floats(importance) * by_rows(_crawl_values, change_rate, elapsed)
