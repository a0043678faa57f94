"""Freshness and cost of fetching at a fixed interval, for known change rates."""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, as_floats, by_rows
from recrawl.core.exponentials import mean_decay, mean_residual
from recrawl.core.kernel import kernel
from recrawl.core.price.due import due_elapsed

__all__ = [
    "asymptotic_interval",
    "cost_price",
    "cost_rate",
    "freshness_at_interval",
    "optimal_interval",
]


@kernel
def _freshness(change_rate: FloatArray, interval: FloatArray, out: FloatArray) -> None:
    for row in range(out.size):
        is_static = change_rate[row] == 0.0
        out[row] = 1.0 if is_static else mean_decay(change_rate[row] * interval[row])


@kernel
def _staleness(change_rate: FloatArray, interval: FloatArray, out: FloatArray) -> None:
    """Write 1 - freshness, without cancellation at short intervals."""
    for row in range(out.size):
        x = 0.0 if change_rate[row] == 0.0 else change_rate[row] * interval[row]
        out[row] = 1.0 - mean_decay(x) if x > 1.0 else -math.expm1(-x) - mean_residual(x)


def freshness_at_interval(change_rate: ArrayLike, interval: ArrayLike) -> FloatArray:
    """Return the share of time that a copy fetched every ``interval`` seconds is fresh.

    Examples
    --------
    >>> day = 86_400.0
    >>> freshness_at_interval(1 / day, [day / 10, day, 10 * day]).round(3)
    array([0.952, 0.632, 0.1  ])

    References
    ----------
    Cost §3.1 (E(match))
    Signals App. A (eq. 5: G(ξ) = ξ/Δ (1 - e^{-Δ/ξ}))
    """
    # (Δ/t)(1 - e^{-t/Δ}), Δ the change period
    return by_rows(_freshness, change_rate, interval)


def cost_rate(
    change_rate: ArrayLike,
    interval: ArrayLike,
    *,
    fetch_cost: ArrayLike,
    staleness_cost: ArrayLike,
) -> FloatArray:
    """Return what a page costs per second: its fetches and the time its copy is stale.

    Parameters
    ----------
    change_rate
        Changes per second.
    interval
        Seconds between fetches.
    fetch_cost
        Cost of one fetch (Cc).
    staleness_cost
        Cost of one second of staleness (Cs).

    References
    ----------
    Cost §3.1 (the total cost function)
    """
    stale = by_rows(_staleness, change_rate, interval)
    return stale * as_floats(staleness_cost) + as_floats(fetch_cost) / as_floats(interval)


def cost_price(fetch_cost: ArrayLike, staleness_cost: ArrayLike) -> FloatArray:
    """Return the price equivalent to a cost of fetching and a cost of staleness.

    Fetching a page of importance 1 when its value exceeds this price minimises `cost_rate`.

    Parameters
    ----------
    fetch_cost
        Cost of one fetch.
    staleness_cost
        Cost of one second of staleness.

    Returns
    -------
    FloatArray
        Seconds of staleness that cost as much as a fetch.

    References
    ----------
    Cost §3.2 (Cc/Cs)
    """
    return as_floats(fetch_cost) / as_floats(staleness_cost)


def optimal_interval(
    change_rate: ArrayLike, *, fetch_cost: ArrayLike, staleness_cost: ArrayLike
) -> FloatArray:
    """Return the seconds between fetches that minimise `cost_rate`; inf if no fetch pays off.

    Examples
    --------
    A page that changes every 24 h, and a fetch that costs as much as an hour of staleness:

    >>> hour = 3_600.0
    >>> interval = optimal_interval(1 / (24 * hour), fetch_cost=1.0, staleness_cost=1 / hour)
    >>> round(float(interval / (24 * hour)), 3)
    0.321

    References
    ----------
    Cost §3.2 (e^r = (1+r)/(1 - Cc/(CsΔ)))
    """
    return due_elapsed(change_rate, cost_price(fetch_cost, staleness_cost))


def asymptotic_interval(
    change_rate: ArrayLike, *, fetch_cost: ArrayLike, staleness_cost: ArrayLike
) -> FloatArray:
    """Return the limit of `optimal_interval` for pages that change rarely.

    References
    ----------
    Cost §3.4 (t ≈ √(2ΔCc/Cs))
    """
    interval: FloatArray = np.sqrt(
        2 * cost_price(fetch_cost, staleness_cost) / as_floats(change_rate)
    )
    return interval
