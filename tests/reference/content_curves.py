"""Divergence curves and their values by enumeration and numerical integration."""

from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import poisson


def scroll_divergence(rate: float, elapsed: float, n_items: int, static: float) -> float:
    """Return the mean of the divergence over the number of updates."""
    n_updates = np.arange(int(poisson.isf(1e-16, rate * elapsed)) + 2)
    gone = np.minimum(n_updates, n_items)
    divergence = 1 - (static + n_items - gone) / (static + n_items + gone)
    return float(poisson.pmf(n_updates, rate * elapsed) @ divergence)


def regions_divergence(
    elapsed: float,
    static: float,
    churn: tuple[float, float],
    scroll: tuple[float, int, float],
) -> float:
    """Return the mean over what happened to a churn (size, rate) and a scroll region.

    The scroll region is (size of an item, number of items, rate).
    """
    churn_size, churn_rate = churn
    item_size, n_items, scroll_rate = scroll
    size = static + churn_size + n_items * item_size
    total = 0.0
    for replaced, chance in ((0.0, np.exp(-churn_rate * elapsed)), (1.0, None)):
        p_churn = 1 - np.exp(-churn_rate * elapsed) if chance is None else chance
        for j in range(n_items + 1):
            p_scroll = (
                poisson.sf(n_items - 1, scroll_rate * elapsed)
                if j == n_items
                else poisson.pmf(j, scroll_rate * elapsed)
            )
            new = replaced * churn_size + j * item_size
            total += p_churn * p_scroll * (1 - (size - new) / (size + new))
    return float(total)


def value(divergence: Callable[[float], float], elapsed: float) -> float:
    """Return t D(t) minus the area under D."""
    area = quad(divergence, 0, elapsed, epsabs=1e-12, epsrel=1e-11, limit=500)[0]
    return elapsed * divergence(elapsed) - float(area)


def due(divergence: Callable[[float], float], price: float, latest: float) -> float:
    """Return the time at which the value reaches the price."""
    return float(brentq(lambda t: value(divergence, t) - price, 1e-9, latest, xtol=1e-10))


def cost_per_second(divergence: Callable[[float], float], price: float, interval: float) -> float:
    """Return mean divergence plus what fetches cost, of a page fetched at regular intervals."""
    area = quad(divergence, 0, interval, epsabs=1e-12, epsrel=1e-11, limit=500)[0]
    return float(area + price) / interval
