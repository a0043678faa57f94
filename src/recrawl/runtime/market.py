"""One budget for several partitions: each gets what it would spend at the price of all.

A partition's demand curve says what it would spend at each price.  Their sum crosses the budget at
the price of the whole; what each spends there is its quota.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recrawl.runtime.node import Node

__all__ = ["quotas"]


def quotas(nodes: Sequence[Node]) -> NDArray[np.float64]:
    """Return the share of the budget that each partition should have.

    In proportion to pages until every partition knows its demand.
    """
    if len(nodes) == 1:
        return np.ones(1)
    n_pages = np.array([node.shard.n_pages for node in nodes], np.float64) + 1.0
    by_pages: NDArray[np.float64] = n_pages / n_pages.sum()
    budget = sum(float(node.shard.tables.registers.budget[0]) for node in nodes)
    if not 0 < budget < np.inf:
        return by_pages
    curves = [node.shard.picker.demand_curve() for node in nodes]
    if any(price.size < 2 for price, _ in curves):
        return by_pages
    price = np.unique(np.concatenate([price for price, _ in curves]))
    spent = np.array([_spent_at(price, *curve) for curve in curves])
    total = spent.sum(axis=0)
    cleared = int(np.argmin(np.abs(total - budget)))
    if total[cleared] <= 0:
        return by_pages
    # Nobody is left with nothing: a partition whose demand is not seen yet could not show it.
    share: NDArray[np.float64] = 0.95 * spent[:, cleared] / total[cleared] + 0.05 * by_pages
    return share


def _spent_at(
    price: NDArray[np.float64], known: NDArray[np.float64], spent: NDArray[np.float64]
) -> NDArray[np.float64]:
    order = np.argsort(known)
    found: NDArray[np.float64] = np.interp(
        np.log(np.maximum(price, 1e-300)),
        np.log(np.maximum(known[order], 1e-300)),
        spent[order],
    )
    return found
