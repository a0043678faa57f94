"""Find the price at which pages spend a budget, given beliefs about their change rates."""

import math

import numpy as np

from recrawl.core.arrays import ArrayLike, as_floats
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.price.due import averaged_due_elapsed

__all__ = ["price_of_budget"]

_N_PRICES_MAX = 100


def price_of_budget(
    belief: GammaBelief,
    fetch_budget: float,
    *,
    importance: ArrayLike = 1.0,
    cost: ArrayLike = 1.0,
    tolerance: float = 1e-6,
) -> float:
    """Return the price at which fetching every page when it is due spends the budget.

    This is for pages without signals.  If there are very many pages, or if they have signals,
    count them per code and use `recrawl.core.price.demand_at`.

    Parameters
    ----------
    belief
        Belief about the change rate of each page.
    fetch_budget
        Fetches per second; with costs, cost per second.
    importance
        Weight of each page.
    cost
        Cost of one fetch of each page.
    tolerance
        Relative error allowed in the spending.

    Examples
    --------
    A thousand pages believed to change every 10 days or so, on 20 fetches an hour:

    >>> hour, day = 3_600.0, 86_400.0
    >>> belief = GammaBelief.with_mean_rate(np.full(1_000, 0.1 / day), shape=0.5)
    >>> price = price_of_budget(belief, 20 / hour)
    >>> due = averaged_due_elapsed(belief, price)
    >>> round(price / hour, 2), round(float((1 / due).sum() * hour), 3)
    (3.65, 20.0)
    """
    if not 0 < fetch_budget < math.inf:
        raise ValueError(f"fetch_budget must be positive and finite, got {fetch_budget!r}")
    costs = np.broadcast_to(as_floats(cost), belief.shape.shape)
    weight = as_floats(importance) / costs

    def excess(log_price: float) -> float:
        due = averaged_due_elapsed(belief, math.exp(log_price), importance=weight)
        spent = float((costs / due).sum())
        return math.log(spent / fetch_budget) if spent > 0.0 else -math.inf

    # Spending is about proportional to 1/√price, so secant steps within a bracket converge fast.
    low, high = -math.inf, math.inf
    log_price = math.log(float(np.max(weight * belief.seconds / belief.shape))) - 1.0
    for _ in range(_N_PRICES_MAX):
        gap = excess(log_price)
        if abs(gap) <= tolerance:
            break
        low, high = (log_price, high) if gap > 0.0 else (low, log_price)
        log_price += min(max(2.0 * gap, -3.0), 3.0)
        if not low < log_price < high:
            log_price = 0.5 * (low + high)
        if high - low <= 1e-14 * abs(high):
            break  # spending jumps past the budget at this price, above which a page is never due
    return math.exp(log_price)
