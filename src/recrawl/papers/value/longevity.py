"""Longevity's value U of refetching a page, for any divergence curve.

With D(t) the expected divergence of a copy of age t, a fetch is worth U(t) = t D(t) - ∫₀ᵗ D.
Since U'(t) = t D'(t), curves made of Poisson terms have values made of the same terms, and all of
them positive.  Scroll pages are in `recrawl.core.value.scroll`.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_columns, by_rows
from recrawl.core.exponentials import is_saturated, mean_residual, residual
from recrawl.core.kernel import kernel
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.scroll import scroll_due, scroll_value
from recrawl.papers.divergence.fit import FittedCurves
from recrawl.papers.divergence.regions import PageRegions, gain_of_churn, gain_of_item

__all__ = [
    "churn_due",
    "churn_value",
    "fitted_due",
    "fitted_value",
    "mean_divergence",
    "regions_value",
    "value_of_curve",
    "value_of_samples",
]

# Panels halve towards 0, so that a curve may rise anywhere between 2^-40 of the elapsed time and
# all of it; three panels of 16 nodes an octave follow a scroll page of 160 items to 1e-12.
_N_OCTAVES = 40
_N_PANELS_PER_OCTAVE = 3
_N_NODES = 16


def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of ∫₀¹ on panels that shrink geometrically towards 0."""
    edges = np.concatenate(
        [[0.0], 2.0 ** np.linspace(-_N_OCTAVES, 0.0, _N_OCTAVES * _N_PANELS_PER_OCTAVE + 1)]
    )
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    half_widths = np.diff(edges)[:, None] / 2.0
    middles = (edges[1:] + edges[:-1])[:, None] / 2.0
    return (middles + half_widths * nodes).ravel(), (half_widths * weights).ravel()


def value_of_curve(
    divergence: Callable[[FloatArray], FloatArray],
    elapsed: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching pages with any smooth divergence curve.

    By Gauss-Legendre quadrature on panels that shrink towards age 0: good to 1e-12 for curves
    as smooth as those of `recrawl.core.divergence.curves`.  A curve with jumps belongs to
    `value_of_samples`.

    Parameters
    ----------
    divergence
        Function that returns the expected divergence of copies of the given ages (seconds);
        called once, with an array of one more axis than ``elapsed``, the last.
    elapsed
        Seconds since each page was last fetched.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    A curve that is linear has the value of the triangle above it:

    >>> value_of_curve(lambda age: 0.01 * age, [10.0, 20.0]).round(3)
    array([0.5, 2. ])

    References
    ----------
    Longevity §2.2, eq. 4
    """
    # Longevity eq. 4, as U(t) = ∫₀ᵗ (D(t) - D(s)) ds, whose terms do not cancel.
    ages = np.asarray(elapsed, dtype=np.float64)
    nodes, weights = _quadrature()
    curve = divergence(ages[..., None] * np.append(nodes, 1.0))
    return np.asarray(importance) * ages * ((curve[..., -1:] - curve[..., :-1]) @ weights)


def mean_divergence(
    divergence: Callable[[FloatArray], FloatArray],
    interval: ArrayLike,
    *,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the mean over time of the divergence of pages fetched at regular intervals.

    What a schedule minimises, summed over pages, at a given number of fetches.

    Parameters
    ----------
    divergence
        Divergence curve, as for `value_of_curve`.
    interval
        Seconds between two fetches of each page, positive.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    >>> mean_divergence(lambda age: 0.01 * age, [10.0, 20.0]).round(3)
    array([0.05, 0.1 ])

    References
    ----------
    Longevity eq. 2
    """
    ages = np.asarray(interval, dtype=np.float64)
    nodes, weights = _quadrature()
    return np.asarray(importance) * (divergence(ages[..., None] * nodes) @ weights)


def value_of_samples(
    times: ArrayLike,
    divergences: ArrayLike,
    elapsed: ArrayLike,
    *,
    between: Literal["linear", "first", "second"] = "linear",
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching a page whose divergence is known at some ages.

    The divergence is 0 at age 0, and stays as it is after the last sample.

    Parameters
    ----------
    times
        Ages of a copy in seconds, ascending and positive.
    divergences
        Divergence at these ages.
    elapsed
        Seconds since the page was last fetched.
    between
        Place where the divergence grows between two samples: evenly ("linear"), right after the
        "first", which bounds the curve from above, or right before the "second", which bounds it
        from below.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    >>> value_of_samples([10.0, 20.0], [0.2, 0.3], [10.0, 20.0]).round(3)
    array([1. , 2.5])
    >>> value_of_samples([10.0, 20.0], [0.2, 0.3], [10.0, 20.0], between="second").round(3)
    array([2., 4.])

    References
    ----------
    Longevity §2.2, eq. 4
    Longevity §4.3 (bounds on the area, fig. 7)
    """
    knots = np.concatenate([[0.0], np.asarray(times, dtype=np.float64)])
    levels = np.concatenate([[0.0], np.asarray(divergences, dtype=np.float64)])
    if np.any(np.diff(knots) <= 0.0):
        raise ValueError(f"times must be positive and ascending, got {times!r}")
    ages = np.asarray(elapsed, dtype=np.float64)
    widths = np.diff(knots)
    # From sample i to the next: the divergence just after i, and just before the next.
    start = levels[1:] if between == "first" else levels[:-1]
    end = levels[:-1] if between == "second" else levels[1:]
    area_to = np.concatenate([[0.0], np.cumsum(widths * (start + end) / 2.0)])
    i = np.clip(np.searchsorted(knots, ages, side="right") - 1, 0, knots.size - 1)
    since = ages - knots[i]
    slope = np.append((end - start) / widths, 0.0)[i]
    level = np.append(start, levels[-1])[i]
    # At a sample the divergence is the one sampled, whichever way it grows beyond it.
    here = np.where(since > 0.0, level + slope * since, levels[i])
    area = area_to[i] + since * (level + slope * since / 2.0)
    return np.asarray(np.asarray(importance) * (ages * here - area))


@kernel
def _churn_values(divergence_rate: FloatArray, elapsed: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = crawl_value_of(divergence_rate[row], elapsed[row])


def churn_value(
    divergence_rate: ArrayLike,
    elapsed: ArrayLike,
    *,
    ceiling: ArrayLike = 1.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching pages with the curve of `churn_divergence`.

    It is the value of a page that is either fresh or stale, `crawl_value`, with importance times
    ceiling and the rate of the divergence.  So a belief Gamma(a, b) over a page's change rate,
    and a ratio ρ of divergence to change rate, make it the belief-averaged value at scale b/ρ.

    Parameters
    ----------
    divergence_rate
        Divergence rate, per second; may be 0.
    elapsed
        Seconds since the page was last fetched.
    ceiling
        Divergence after a long time, 0 to 1.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    >>> churn_value(0.25, [4.0, 40.0], ceiling=0.5).round(3)
    array([0.528, 1.999])

    References
    ----------
    Longevity §2.2, eq. 4
    Longevity §3.3 (churn)
    Longevity App. A (holistic staleness, a ceiling of 1)
    """
    weight = np.asarray(importance, dtype=np.float64) * np.asarray(ceiling)
    return np.asarray(weight * by_rows(_churn_values, divergence_rate, elapsed))


def churn_due(
    divergence_rate: ArrayLike,
    price: ArrayLike,
    *,
    ceiling: ArrayLike = 1.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return how long after a fetch a page with the curve of `churn_divergence` is due again.

    Parameters
    ----------
    divergence_rate
        Divergence rate, per second.
    price
        Value that a fetch must reach (Longevity's utility threshold T).
    ceiling
        Divergence after a long time, 0 to 1.
    importance
        Weight of the page, or requests per second for its copy.

    Returns
    -------
    FloatArray
        Seconds; inf where the page is never worth the price, nan where the solver failed.

    Examples
    --------
    Half the content means that a fetch is worth half as much:

    >>> churn_due(1.0, [0.25, 0.5], ceiling=[0.5, 1.0]).round(3)
    array([1.678, 1.678])

    References
    ----------
    Longevity §4.2 (period)
    """
    # A scroll page of one item churns.
    weight = np.asarray(importance, dtype=np.float64) * np.asarray(ceiling)
    return scroll_due(divergence_rate, price, n_items=1, importance=weight)


def fitted_value(
    curves: FittedCurves, elapsed: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the value of refetching pages whose curves were fitted to their change profiles.

    Parameters
    ----------
    curves
        Curves from `recrawl.papers.divergence.fit.fit_curves`; churn or scroll.
    elapsed
        Seconds since each page was last fetched.
    importance
        Weight of the page, or requests per second for its copy.

    References
    ----------
    Longevity §4.2 (period, step 3)
    """
    # A scroll page of one item churns, and a static part of S items makes its ceiling 2/(S + 2).
    return scroll_value(
        curves.rate,
        elapsed,
        n_items=curves.n_items,
        static_items=curves.static_items,
        importance=importance,
    )


def fitted_due(
    curves: FittedCurves, price: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return how long after a fetch each page with a fitted curve is due again.

    Parameters
    ----------
    curves
        Curves from `recrawl.papers.divergence.fit.fit_curves`; churn or scroll.
    price
        Value that a fetch must reach (Longevity's utility threshold T).
    importance
        Weight of the page, or requests per second for its copy.

    Returns
    -------
    FloatArray
        Seconds; inf where the page is never worth the price, nan where the solver failed.

    References
    ----------
    Longevity §4.2 (period, step 3)
    """
    return scroll_due(
        curves.rate,
        price,
        n_items=curves.n_items,
        static_items=curves.static_items,
        importance=importance,
    )


@kernel
def _tail_time(j: int, rate: float, elapsed: float) -> float:
    """Return R^{j+1}(rate · elapsed) / rate, also for a rate of 0."""
    x = rate * elapsed
    if is_saturated(j + 1, x):
        return 1.0 / rate
    if j == 0:
        return elapsed * mean_residual(x)
    return elapsed * residual(j + 1, x) / x if x > 0.0 else 0.0


@kernel
def _regions_value(
    static_size: float,
    churn_size: float,
    churn_rate: float,
    item_size: float,
    n_items: int,
    scroll_rate: float,
    elapsed: float,
) -> float:
    # With λ = λ_s + λ_c, q = λ_s/λ, f(m) the divergence of a page with m replaced, c the churn
    # region and s an item, a_j = f(s(j+1)) - f(sj), a'_j = f(c+s(j+1)) - f(c+sj) ≤ a_j and
    # g_j = f(c+sj) - f(sj) ≥ g_K, the curve of `regions_divergence` has the slope
    #
    #     D' = λ_s Σ_{j<K} p_j(λ_s t) (a'_j + e^{-λ_c t} (a_j - a'_j))
    #        + λ_c e^{-λ_c t} (g_K + Σ_{j<K} p_j(λ_s t) (g_j - g_K)),
    #
    # p_j(x) = x^j e^{-x}/j!, and U = ∫ t D' is a sum of ∫₀ᵗ s λ p_j(λs) ds = (j+1) R^{j+1}(λt)/λ,
    # all positive.
    size = static_size + churn_size + n_items * item_size
    if not size > 0.0:
        return 0.0
    rate = scroll_rate + churn_rate
    share = scroll_rate / rate if rate > 0.0 else 0.0  # q
    last_gain = gain_of_churn(n_items, churn_size, item_size, size)  # g_K
    value = last_gain * _tail_time(0, churn_rate, elapsed)
    power = 1.0  # q^j
    for j in range(n_items):
        beside_new = gain_of_item(j, churn_size, item_size, size)  # a'_j
        beside_old = gain_of_item(j, 0.0, item_size, size)  # a_j
        gain = gain_of_churn(j, churn_size, item_size, size)  # g_j
        value += (j + 1.0) * beside_new * _tail_time(j, scroll_rate, elapsed)
        joint = share * (beside_old - beside_new) + (1.0 - share) * (gain - last_gain)
        value += (j + 1.0) * power * joint * _tail_time(j, rate, elapsed)
        power *= share
    return value


@kernel
def _regions_values(columns: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        out[row] = _regions_value(
            columns[0, row],
            columns[1, row],
            columns[2, row],
            columns[3, row],
            int(columns[4, row]),
            columns[5, row],
            columns[6, row],
        )


def regions_value(
    regions: PageRegions, elapsed: ArrayLike, *, importance: ArrayLike = 1.0
) -> FloatArray:
    """Return the value of refetching pages with a static, a churn and a scroll region.

    Parameters
    ----------
    regions
        Regions of the pages.
    elapsed
        Seconds since each page was last fetched.
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    An advertisement that never stays adds nothing to the worth of a page of recipes; it takes
    its share of the page:

    >>> recipes = PageRegions(static_size=300, item_size=60, n_items=10, scroll_rate=0.25)
    >>> with_advertisement = recipes._replace(churn_size=100, churn_rate=50.0)
    >>> regions_value(recipes, [8.0, 30.0]).round(2)
    array([0.86, 8.17])
    >>> regions_value(with_advertisement, [8.0, 30.0]).round(2)
    array([0.67, 6.6 ])

    References
    ----------
    Longevity §2.2, eq. 4
    Longevity §3.3 (independent static, churn and scroll regions)
    """
    shape, columns = as_columns(*regions, elapsed)
    out = np.empty(columns[0].size)
    _regions_values(np.stack(columns), out)
    return np.asarray(importance) * out.reshape(shape)
