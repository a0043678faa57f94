"""The value of refetching pages that are a sliding window of items, and their due times.

Longevity calls such pages scroll: each change adds an item and drops the oldest of K.  The due
times solve value = price by Newton's method.
"""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, by_rows, target_value
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.divergence.curves import (
    check_items,
    n_steps_that_count,
    poisson_mass,
    scroll_slope_of,
    scroll_step,
)
from recrawl.core.exponentials import is_saturated, log_poisson, mean_residual, residual
from recrawl.core.kernel import kernel

__all__ = [
    "scroll_due",
    "scroll_due_of",
    "scroll_due_under_belief",
    "scroll_value",
    "scroll_value_of",
    "scroll_value_under_belief",
    "scroll_value_under_belief_of",
]

_DUE_ITERATIONS_MAX = 200
# Far more nodes than an elapsed time of 10^300 times the belief's seconds needs.
_BELIEF_NODES_MAX = 100_000


@kernel
def _mean_scroll_gain(n_items: int, static_items: float, x: float) -> float:
    """Return λU/x of a scroll page of importance 1 after ``x`` expected updates."""
    # U' = t D' with D' = λ Σ_{j<K} (h_{j+1} - h_j) (λt)^j e^{-λt}/j!, hence
    #
    #     U(t) = Σ_{j<K} (h_{j+1} - h_j) (j+1)/λ · R^{j+1}(λt),
    #
    # summed downwards as in `scroll_divergence_of`.
    if not x > 0.0:
        return 0.0
    j = n_steps_that_count(n_items, x) - 1
    total = 0.0
    if j > 0:
        tail = residual(j + 1, x)  # R^{j+1}(x)
        mass = poisson_mass(j + 1, x)
        while j > 0:
            total += scroll_step(j, n_items, static_items) * (j + 1.0) * tail
            tail += mass
            mass *= (j + 1.0) / x
            j -= 1
    return total / x + scroll_step(0, n_items, static_items) * mean_residual(x)


@kernel
def _scroll_gain_limit(n_items: int, static_items: float) -> float:
    """Return λU of a scroll page of importance 1 after a long time."""
    total = 0.0
    for j in range(n_items):
        total += scroll_step(j, n_items, static_items) * (j + 1.0)
    return total


@kernel
def scroll_value_of(change_rate: float, elapsed: float, n_items: int, static_items: float) -> float:
    """Return the value of one page of importance 1; the kernel behind `scroll_value`."""
    x = change_rate * elapsed
    if is_saturated(n_items, x):
        return _scroll_gain_limit(n_items, static_items) / change_rate
    return elapsed * _mean_scroll_gain(n_items, static_items, x)


@kernel
def _scroll_values(
    change_rate: FloatArray,
    elapsed: FloatArray,
    n_items: FloatArray,
    static_items: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        out[row] = scroll_value_of(
            change_rate[row], elapsed[row], int(n_items[row]), static_items[row]
        )


def scroll_value(
    change_rate: ArrayLike,
    elapsed: ArrayLike,
    *,
    n_items: ArrayLike,
    static_items: ArrayLike = 0.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching pages that are a sliding window of items.

    Parameters
    ----------
    change_rate
        Items added per second; may be 0.
    elapsed
        Seconds since the page was last fetched.
    n_items
        Items on the page (K), at least 1.
    static_items
        Size of the static part, in items (S).
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    One new item a day of ten.  A page that is replaced every day is worth at most one day:

    >>> scroll_value(1.0, [1.0, 7.0, 30.0], n_items=10).round(3)
    array([0.082, 2.289, 4.375])

    References
    ----------
    Longevity §2.2, eq. 4
    Longevity §3.3 (scroll)
    """
    check_items(n_items)
    value = by_rows(_scroll_values, change_rate, elapsed, n_items, static_items)
    return np.asarray(importance) * value


@kernel
def scroll_due_of(
    change_rate: float, price: float, n_items: int, static_items: float
) -> tuple[float, bool]:
    """Return the elapsed time at which one page of importance 1 is due, and convergence."""
    # Longevity §4.2:  the t with U(t) = T.  In x = λt:  F(x) = λU = y with y = λT, and F' = x D_x.
    # log F is concave in log x (its slope falls from 2 to 0), so Newton's method on it climbs to
    # the root from any start below, and F(x) ≤ (h_1 - h_0) x²/2 gives one.
    if not price > 0.0:
        return 0.0, True
    target = change_rate * price
    if not change_rate > 0.0 or target >= _scroll_gain_limit(n_items, static_items):
        return math.inf, True
    x = math.sqrt(2.0 * target / scroll_step(0, n_items, static_items))
    for _ in range(_DUE_ITERATIONS_MAX):
        gain = x * _mean_scroll_gain(n_items, static_items, x)
        # Within rounding of the limit the gain no longer grows.
        if gain >= target or is_saturated(n_items, x):
            return x / change_rate, True
        slope = x * x * scroll_slope_of(n_items, static_items, x)
        growth = math.log(target / gain) * gain / slope
        x *= math.exp(growth)
        if growth < 1e-14:
            return x / change_rate, True
    return x / change_rate, False


@kernel
def _scroll_dues(
    change_rate: FloatArray,
    price: FloatArray,
    n_items: FloatArray,
    static_items: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        due, converged = scroll_due_of(
            change_rate[row], price[row], int(n_items[row]), static_items[row]
        )
        out[row] = due if converged else math.nan


def scroll_due(
    change_rate: ArrayLike,
    price: ArrayLike,
    *,
    n_items: ArrayLike,
    static_items: ArrayLike = 0.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return how long after a fetch a scroll page is due again.

    Parameters
    ----------
    change_rate
        Items added per second.
    price
        Value that a fetch must reach (Longevity's utility threshold T).
    n_items
        Items on the page (K), at least 1.
    static_items
        Size of the static part, in items (S).
    importance
        Weight of the page, or requests per second for its copy.

    Returns
    -------
    FloatArray
        Seconds; inf where the page is never worth the price, nan where the solver failed.

    Examples
    --------
    Pages with one change a day.  At a low price the scroll page is fetched less often than the
    one replaced by every change; at a price of a day and more only the scroll page is fetched:

    >>> prices = [0.1, 0.5, 1.0]
    >>> scroll_due(1.0, prices, n_items=10).round(2)
    array([1.11, 2.69, 4.05])
    >>> scroll_due(1.0, prices, n_items=1).round(2)
    array([0.53, 1.68,  inf])

    References
    ----------
    Longevity §4.2 (period)
    """
    check_items(n_items)
    threshold = target_value(price, importance)
    return by_rows(_scroll_dues, change_rate, threshold, n_items, static_items)


@kernel
def scroll_value_under_belief_of(
    shape: float, seconds: float, elapsed: float, n_items: int, static_items: float
) -> tuple[float, float]:
    """Return the value of one page of importance 1, and its derivative by log(elapsed)."""
    # U is linear in D, so its mean over the belief is the Bayes value:  ∫ U_λ(t) p(λ) dλ with
    # p Gamma(a, b).  In z = log(λb/a) the integrand is smooth and falls off at least
    # exponentially, where the trapezoidal rule converges exponentially.  Its features are
    # 1/√(a+K) wide; the step below leaves an error of 1e-12.
    #
    #     λ p(λ) = exp(a (z + 1 - e^z)) a^a e^{-a} / Γ(a)
    #
    if not elapsed > 0.0:
        return 0.0, 0.0
    if elapsed == math.inf:
        if shape <= 1.0:
            return math.inf, 0.0
        return _scroll_gain_limit(n_items, static_items) * seconds / (shape - 1.0), 0.0
    step = min(0.25, 0.5 / math.sqrt(shape + n_items))
    log_scale = math.log(shape * step) + log_poisson(shape, shape)
    value = 0.0
    slope = 0.0
    for direction in (1.0, -1.0):
        k = 0 if direction > 0.0 else 1
        while k < _BELIEF_NODES_MAX:
            z = direction * k * step
            weight = math.exp(log_scale + shape * (z - math.expm1(z)))
            rate = shape / seconds * math.exp(z)
            term = weight * scroll_value_of(rate, elapsed, n_items, static_items)
            x = rate * elapsed
            value += term
            slope += weight * x * elapsed * scroll_slope_of(n_items, static_items, x)
            if term <= 1e-17 * value:
                break
            k += 1
    return value, slope


@kernel
def _scroll_values_under_belief(
    shape: FloatArray,
    seconds: FloatArray,
    elapsed: FloatArray,
    n_items: FloatArray,
    static_items: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        out[row], _ = scroll_value_under_belief_of(
            shape[row], seconds[row], elapsed[row], int(n_items[row]), static_items[row]
        )


def scroll_value_under_belief(
    belief: GammaBelief,
    elapsed: ArrayLike,
    *,
    n_items: ArrayLike,
    static_items: ArrayLike = 0.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return the value of refetching scroll pages, averaged over the belief about their rate.

    Parameters
    ----------
    belief
        Belief about the items added per second.
    elapsed
        Seconds since the page was last fetched.
    n_items
        Items on the page (K), at least 1.
    static_items
        Size of the static part, in items (S).
    importance
        Weight of the page, or requests per second for its copy.

    Examples
    --------
    A page thought to add an item a day is worth refetching for what it might be, also long
    after the value of a page that surely does has stopped growing:

    >>> belief = GammaBelief.of(shape=0.5, seconds=0.5)
    >>> scroll_value_under_belief(belief, [1.0, 7.0, 30.0], n_items=10).round(3)
    array([0.069, 1.2  , 4.758])

    References
    ----------
    Longevity §2.2, eq. 4
    Longevity §3.3 (scroll)
    """
    check_items(n_items)
    value = by_rows(_scroll_values_under_belief, *belief, elapsed, n_items, static_items)
    return np.asarray(importance) * value


@kernel
def _scroll_due_under_belief(
    shape: float, seconds: float, price: float, n_items: int, static_items: float
) -> tuple[float, bool]:
    # As `scroll_due_of`, with the mean rate in the bound that starts it.
    if not price > 0.0:
        return 0.0, True
    limit, _ = scroll_value_under_belief_of(shape, seconds, math.inf, n_items, static_items)
    if not price < limit:
        return math.inf, True
    first = scroll_step(0, n_items, static_items)
    due = math.sqrt(2.0 * price * seconds / (shape * first))
    for _ in range(_DUE_ITERATIONS_MAX):
        value, slope = scroll_value_under_belief_of(shape, seconds, due, n_items, static_items)
        if not (value > 0.0 and slope > 0.0):
            break
        growth = math.log(price / value) * value / slope
        if growth < 1e-12:
            return due, True
        due *= math.exp(min(growth, 300.0))
        if due == math.inf:
            return due, True
    return due, False


@kernel
def _scroll_dues_under_belief(
    shape: FloatArray,
    seconds: FloatArray,
    price: FloatArray,
    n_items: FloatArray,
    static_items: FloatArray,
    out: FloatArray,
) -> None:
    for row in range(out.size):
        due, converged = _scroll_due_under_belief(
            shape[row], seconds[row], price[row], int(n_items[row]), static_items[row]
        )
        out[row] = due if converged else math.nan


def scroll_due_under_belief(
    belief: GammaBelief,
    price: ArrayLike,
    *,
    n_items: ArrayLike,
    static_items: ArrayLike = 0.0,
    importance: ArrayLike = 1.0,
) -> FloatArray:
    """Return how long after a fetch a scroll page of uncertain rate is due again.

    Parameters
    ----------
    belief
        Belief about the items added per second.
    price
        Value that a fetch must reach (Longevity's utility threshold T).
    n_items
        Items on the page (K), at least 1.
    static_items
        Size of the static part, in items (S).
    importance
        Weight of the page, or requests per second for its copy.

    Returns
    -------
    FloatArray
        Seconds; inf where the page is never worth the price, nan where the solver failed.

    Examples
    --------
    The surer the belief, the nearer to a known rate of one item a day:

    >>> belief = GammaBelief.of(shape=[0.5, 5.0, 500.0], seconds=[0.5, 5.0, 500.0])
    >>> scroll_due_under_belief(belief, 0.5, n_items=10).round(2)
    array([3.49, 2.76, 2.69])

    References
    ----------
    Longevity §4.2 (period)
    """
    check_items(n_items)
    threshold = target_value(price, importance)
    return by_rows(_scroll_dues_under_belief, *belief, threshold, n_items, static_items)
