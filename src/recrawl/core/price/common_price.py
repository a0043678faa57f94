"""The price that several shards have in common, and what each of them spends at it.

A budget is best spent where all shards pay the same price: if one of them fetched pages of a lower
value than another leaves out, moving budget from one to the other would gain freshness.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray

__all__ = ["CommonPrice", "split_at_common_price"]

# Prices below it are taken for it, because a logarithm is needed.
_PRICE_MIN = 1e-300


class CommonPrice(NamedTuple):
    """A budget that is split among shards."""

    price: float
    """Price at which all of them together spend the budget; nan if no shard would spend."""
    share: FloatArray
    """Share of the budget that each of them spends at that price."""


def split_at_common_price(
    budget: float, curves: Sequence[tuple[FloatArray, FloatArray]]
) -> CommonPrice | None:
    """Return the price at which shards together spend a budget, and the share of each.

    Outside its prices, a curve is taken to stay as it is at the nearest end.

    Parameters
    ----------
    budget
        Budget per second.
    curves
        Demand curve of each shard: prices, and the spending per second at each.

    Returns
    -------
    The price and the shares; None if no shard would spend anything.

    Examples
    --------
    The second shard has twice as many pages of the same kind:

    >>> price = np.array([1.0, 2.0, 4.0])
    >>> spent = np.array([9.0, 6.0, 3.0])
    >>> split = split_at_common_price(18.0, [(price, spent), (price, 2 * spent)])
    >>> split.price, split.share
    (2.0, array([0.33333333, 0.66666667]))
    """
    price = np.unique(np.concatenate([price for price, _ in curves]))
    log_price = np.log(np.maximum(price, _PRICE_MIN))
    spent = np.array([_spending_at(log_price, *curve) for curve in curves])
    # A sample may spend a little more at a higher price.
    total = np.minimum.accumulate(spent.sum(axis=0))
    if total[0] <= 0:
        return None
    # The first price at which no more than the budget is spent, and the one before it.
    after = int(np.searchsorted(-total, -budget))
    if after in {0, total.size}:
        at = min(after, total.size - 1)
        while spent[:, at].sum() <= 0:
            at -= 1
        chosen, found = spent[:, at], float(price[at])
    else:
        weight = float((total[after - 1] - budget) / (total[after - 1] - total[after]))
        chosen = (1 - weight) * spent[:, after - 1] + weight * spent[:, after]
        found = float(np.exp((1 - weight) * log_price[after - 1] + weight * log_price[after]))
    share: NDArray[np.float64] = chosen / chosen.sum()
    return CommonPrice(found, share)


def _spending_at(log_price: FloatArray, known: FloatArray, spent: FloatArray) -> FloatArray:
    order = np.argsort(known)
    found: FloatArray = np.interp(
        log_price, np.log(np.maximum(known[order], _PRICE_MIN)), spent[order]
    )
    return found
