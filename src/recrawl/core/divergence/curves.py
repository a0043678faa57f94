"""How the divergence of a copy grows with its age, for pages that churn and pages that scroll.

Longevity models a page as static, churn and scroll parts, each with a Poisson process of updates.
It gives the *lifetimes* of fragments.  What a schedule needs is the expected *divergence* of a
copy, which follows from the same model and is a different curve: the fragments of a copy are
those present at one moment, not those that appear, and what has come since counts against it too.
"""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, by_rows
from recrawl.core.exponentials import residual
from recrawl.core.kernel import kernel

__all__ = [
    "check_items",
    "churn_ceiling",
    "churn_divergence",
    "churn_lifetime",
    "n_steps_that_count",
    "poisson_mass",
    "scroll_divergence",
    "scroll_divergence_of",
    "scroll_lifetime",
    "scroll_slope_of",
    "scroll_step",
]


def churn_ceiling(dynamic_share: ArrayLike) -> FloatArray:
    """Return the divergence of two versions that share only the static part of the page.

    A page of a share c of dynamic content, all of it replaced, has 1 - c in common and 1 + c in
    the union: the divergence is 2c / (1 + c).

    Parameters
    ----------
    dynamic_share
        Share of the page's content that changes, 0 to 1.

    Examples
    --------
    >>> churn_ceiling([0.1, 0.5, 1.0]).round(3)
    array([0.182, 0.667, 1.   ])

    References
    ----------
    Longevity §3.3 (static and churn content)
    Longevity §2.1.1, eq. 3
    """
    share = np.asarray(dynamic_share, dtype=np.float64)
    return np.asarray(2.0 * share / (1.0 + share))


def churn_divergence(
    divergence_rate: ArrayLike, elapsed: ArrayLike, *, ceiling: ArrayLike = 1.0
) -> FloatArray:
    """Return the expected divergence of a copy of a page whose dynamic part is overwritten.

    The curve ``ceiling * (1 - exp(-divergence_rate * elapsed))``.  For true churn the rate is
    the change rate.  Pages whose content goes piece by piece in random order have the same
    curve with a lower rate: on real pages the two have a median ratio of .07, so fit the rate to
    the divergences seen (`recrawl.papers.divergence.fit`), not to the changes.

    Parameters
    ----------
    divergence_rate
        Divergence rate, per second.
    elapsed
        Seconds since the copy was fetched.
    ceiling
        Divergence after a long time, 0 to 1; see `churn_ceiling`.

    Examples
    --------
    >>> churn_divergence(0.25, [0.0, 4.0, 100.0], ceiling=0.5).round(3)
    array([0.   , 0.316, 0.5  ])

    References
    ----------
    Longevity §3.3 (churn)
    """
    exponent = np.asarray(divergence_rate, dtype=np.float64) * np.asarray(elapsed)
    return np.asarray(np.asarray(ceiling) * -np.expm1(-exponent))


def churn_lifetime(change_rate: ArrayLike, age: ArrayLike) -> FloatArray:
    """Return the probability that a fragment of a churn region is gone within ``age``.

    Parameters
    ----------
    change_rate
        Updates of the region per second.
    age
        Seconds since the fragment appeared.

    Examples
    --------
    >>> churn_lifetime(0.25, [8.0, 40.0]).round(3)
    array([0.865, 1.   ])

    References
    ----------
    Longevity §3.3 (churn)
    """
    return np.asarray(-np.expm1(-np.asarray(change_rate, dtype=np.float64) * np.asarray(age)))


def check_items(n_items: ArrayLike) -> None:
    """Raise `ValueError` where a scroll page has no item."""
    if np.any(np.asarray(n_items) < 1):
        raise ValueError(f"n_items must be at least 1, got {n_items!r}")


@kernel
def poisson_mass(j: int, x: float) -> float:
    """Return x^j e^-x / j!."""
    if not x > 0.0:
        return 1.0 if j == 0 else 0.0
    return math.exp(j * math.log(x) - x - math.lgamma(j + 1.0)) if x < math.inf else 0.0


@kernel
def scroll_step(j: int, n_items: int, static_items: float) -> float:
    """Return what the update after ``j`` others adds to the divergence of a scroll page."""
    # After m = min(j, K) updates of K items, S static ones beside them, S + K - m are in both
    # versions and S + K + m in either (Longevity eq. 3):
    #
    #     h_j = 2m / (S + K + m),        h_{j+1} - h_j = 2 (S+K) / ((S+K+j) (S+K+j+1)),  j < K.
    #
    size = static_items + n_items  # S + K
    return 2.0 * size / ((size + j) * (size + j + 1.0))


@kernel
def n_steps_that_count(n_steps: int, x: float) -> int:
    """Return how many terms of Σ_{j < n_steps} c_j R^j(x), c_j falling, reach 1e-16 of the sum.

    The sums run downwards from there, adding the terms of the Poisson distribution: positive
    terms only, and none that underflows while a later one would not.
    """
    if x < 1e-8:
        return min(n_steps, 3)
    if x < 1.0:
        return min(n_steps, 18)
    if x > n_steps:
        return n_steps
    return min(n_steps, int(x + 40.0 + 10.0 * math.sqrt(x)))


@kernel
def scroll_divergence_of(n_items: int, static_items: float, x: float) -> float:
    """Return the divergence of a scroll page after ``x`` expected updates."""
    # Longevity §3.3:  D = Σ_j Poisson(j; x) h_j with x = λt.  Summed by parts,
    #
    #     D = Σ_{j<K} (h_{j+1} - h_j) P(more than j updates) = Σ_{j<K} (h_{j+1} - h_j) R^j(x),
    #
    # with R^{j-1}(x) = R^j(x) + x^j e^{-x}/j!.
    if not x > 0.0:
        return 0.0
    j = n_steps_that_count(n_items, x) - 1
    tail = residual(j, x)  # R^j(x)
    mass = poisson_mass(j, x)
    total = scroll_step(j, n_items, static_items) * tail
    while j > 0:
        tail += mass
        mass *= j / x
        j -= 1
        total += scroll_step(j, n_items, static_items) * tail
    return total


@kernel
def scroll_slope_of(n_items: int, static_items: float, x: float) -> float:
    """Return the derivative of `scroll_divergence_of` with respect to ``x``."""
    # dD/dx = Σ_{j<K} (h_{j+1} - h_j) x^j e^{-x}/j!.
    if not x > 0.0:
        return scroll_step(0, n_items, static_items)
    j = n_steps_that_count(n_items, x) - 1
    mass = poisson_mass(j, x)
    total = scroll_step(j, n_items, static_items) * mass
    while j > 0:
        mass *= j / x
        j -= 1
        total += scroll_step(j, n_items, static_items) * mass
    return total


@kernel
def _scroll_divergences(
    change_rate: FloatArray,
    elapsed: FloatArray,
    n_items: FloatArray,
    static_items: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        out[row] = scroll_divergence_of(
            int(n_items[row]), static_items[row], change_rate[row] * elapsed[row]
        )


def scroll_divergence(
    change_rate: ArrayLike,
    elapsed: ArrayLike,
    *,
    n_items: ArrayLike,
    static_items: ArrayLike = 0.0,
) -> FloatArray:
    """Return the expected divergence of a copy of a page that is a sliding window of items.

    Each change adds an item and drops the oldest of ``n_items``.  The divergence is nearly
    linear until ``n_items`` changes have come, then flat at 2K / (S + 2K), so such a page is
    worth following where a churn page of the same change rate is not.

    Parameters
    ----------
    change_rate
        Items added per second.
    elapsed
        Seconds since the copy was fetched.
    n_items
        Items on the page (K), at least 1; with 1 the page churns.
    static_items
        Size of the static part, in items (S).

    Examples
    --------
    Ten items, one new every four days.  After eight days two have come and two gone, so that 8
    of 12 are in both versions; a fragment that appears has almost no chance to be gone by then:

    >>> round(float(scroll_divergence(0.25, 8.0, n_items=10)), 3)
    0.311
    >>> round(float(scroll_lifetime(0.25, 8.0, n_items=10)), 5)
    5e-05

    References
    ----------
    Longevity §3.3 (scroll)
    Longevity §2.1.1, eq. 3
    """
    check_items(n_items)
    return by_rows(_scroll_divergences, change_rate, elapsed, n_items, static_items)


@kernel
def _scroll_lifetimes(
    change_rate: FloatArray, age: FloatArray, n_items: FloatArray, out: FloatArray
) -> None:
    # Longevity §3.3:  P(lifetime ≤ t) = 1 - Σ_{i<K} (λt)^i e^{-λt}/i! = R^{K-1}(λt), Erlang(K).
    for row in range(out.size):
        out[row] = residual(int(n_items[row]) - 1, change_rate[row] * age[row])


def scroll_lifetime(change_rate: ArrayLike, age: ArrayLike, *, n_items: ArrayLike) -> FloatArray:
    """Return the probability that a fragment of a scroll region is gone within ``age``.

    This is about a fragment that just appeared, which K updates must push out.  It is not the
    divergence of a copy (`scroll_divergence`), most of whose items are older.

    Parameters
    ----------
    change_rate
        Items added per second.
    age
        Seconds since the fragment appeared.
    n_items
        Items in the region (K), at least 1.

    Examples
    --------
    >>> scroll_lifetime(0.25, [8.0, 40.0, 80.0], n_items=10).round(3)
    array([0.   , 0.542, 0.995])

    References
    ----------
    Longevity §3.3, fig. 4 (scroll)
    """
    check_items(n_items)
    return by_rows(_scroll_lifetimes, change_rate, age, n_items)
