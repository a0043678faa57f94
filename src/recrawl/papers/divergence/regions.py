"""The expected divergence of a page with a static, a churn and a scroll region, in closed form."""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns
from recrawl.core.divergence.curves import poisson_mass
from recrawl.core.exponentials import residual
from recrawl.core.kernel import kernel

__all__ = ["PageRegions", "gain_of_churn", "gain_of_item", "regions_divergence"]


class PageRegions(NamedTuple):
    """Regions of pages; sizes in any one unit, say fragments.  48 bytes a page.

    Fields may be scalars or columns and are broadcast.  A size or number of 0 means that the
    page has no such region.
    """

    static_size: ArrayLike = 0.0
    """Size of the content that never changes."""
    churn_size: ArrayLike = 0.0
    """Size of the churn region, which an update replaces as a whole."""
    churn_rate: ArrayLike = 0.0
    """Updates of the churn region per second."""
    item_size: ArrayLike = 1.0
    """Size of one item of the scroll region."""
    n_items: ArrayLike = 0
    """Items in the scroll region (K)."""
    scroll_rate: ArrayLike = 0.0
    """Items added per second."""


@kernel
def gain_of_item(j: int, replaced: float, item_size: float, size: float) -> float:
    """Return what one more new item adds to the divergence.

    Before it, ``j`` items are new, and ``replaced`` is the size of other content that is new.
    """
    # If m of a page of size T is replaced, the two versions share T - m, and their union is T + m.
    # So the divergence is f(m) = 2m/(T+m) (Longevity eq. 3), and an item of size s adds
    # f(m+s) - f(m) = 2Ts / ((T+m) (T+m+s)).
    m = replaced + j * item_size
    return 2.0 * size * item_size / ((size + m) * (size + m + item_size))


@kernel
def gain_of_churn(j: int, churn_size: float, item_size: float, size: float) -> float:
    """Return what replacing the churn region adds to the divergence after ``j`` new items."""
    m = j * item_size
    return 2.0 * size * churn_size / ((size + m) * (size + m + churn_size))


@kernel
def _regions_divergence(
    static_size: float,
    churn_size: float,
    churn_rate: float,
    item_size: float,
    n_items: int,
    scroll_rate: float,
    elapsed: float,
) -> float:
    # Let b = 1 - e^{-λ_c t} be the probability that the churn region (size c) was replaced, and
    # J = min(updates of the scroll region, K), which is independent of it.  With f as in
    # `gain_of_item` and g_j = f(c + sj) - f(sj):
    #
    #     D(t) = E f(sJ) + b E g_J
    #          = Σ_{j<K} (f(s(j+1)) - f(sj)) R^j(x) + b (g_K + Σ_{j<K} (g_j - g_K) x^j e^{-x}/j!),
    #
    # where x = λ_s t.  All terms are positive, because g falls with j.
    size = static_size + churn_size + n_items * item_size
    if not size > 0.0:
        return 0.0
    x = scroll_rate * elapsed
    from_scroll = 0.0
    churn_gain = gain_of_churn(n_items, churn_size, item_size, size)
    last_gain = churn_gain
    for j in range(n_items):
        from_scroll += gain_of_item(j, 0.0, item_size, size) * residual(j, x)
        mass = poisson_mass(j, x)
        churn_gain += mass * (gain_of_churn(j, churn_size, item_size, size) - last_gain)
    return from_scroll - math.expm1(-churn_rate * elapsed) * churn_gain


@kernel
def _regions_divergences(columns: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = _regions_divergence(
            columns[0, row],
            columns[1, row],
            columns[2, row],
            columns[3, row],
            int(columns[4, row]),
            columns[5, row],
            columns[6, row],
        )


def regions_divergence(regions: PageRegions, elapsed: ArrayLike) -> FloatArray:
    """Return the expected divergence of a copy of pages made of regions.

    Regions are updated independently.  The divergences of the regions cannot simply be added,
    because new content enlarges the union of the two versions; the result takes this into account.

    Parameters
    ----------
    regions
        Regions of the pages.
    elapsed
        Seconds since the copy was fetched.

    Examples
    --------
    Navigation of 300 fragments, an advertisement of 100 that changes all the time, and ten
    recipes of 60, one new every four days (time in days).  The advertisement is stale almost at
    once; the recipes follow:

    >>> page = PageRegions(
    ...     static_size=300, churn_size=100, churn_rate=50.0,
    ...     item_size=60, n_items=10, scroll_rate=0.25,
    ... )
    >>> regions_divergence(page, [1.0, 8.0, 100.0]).round(3)
    array([0.205, 0.353, 0.824])

    References
    ----------
    Longevity §3.3 (independent static, churn and scroll regions)
    Longevity §2.1.1, eq. 3
    """
    shape, columns = as_columns(*regions, elapsed)
    out = np.empty(columns[0].size)
    _regions_divergences(np.stack(columns), out)
    return out.reshape(shape)
