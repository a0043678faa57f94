"""One budget for several partitions: each gets what it would spend at the price of all.

A partition's demand curve says what it would spend at each price.  Their sum crosses the budget at
the price of the whole; what each spends there is its quota.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recrawl.runtime.node import Node
from recrawl.shard import BudgetSet, event_of

__all__ = ["divided", "quotas", "rebalanced"]

# Quotas are left alone while none is off by more than this share of the budget.
_SHARE_MOVE_MIN = 0.02


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


def divided(amount: float, share: NDArray[np.float64], *, is_whole: bool) -> NDArray[np.float64]:
    """Return an amount in parts; whole ones, of fetches for one run, are as fair as they can be."""
    if not is_whole or not np.isfinite(amount):
        return amount * share
    exact: NDArray[np.float64] = np.floor(amount) * share
    part: NDArray[np.float64] = np.floor(exact)
    left = round(np.floor(amount) - part.sum())
    part[np.argsort(part - exact, kind="stable")[:left]] += 1
    return part


def rebalanced(nodes: Sequence[Node]) -> list[BudgetSet]:
    """Return budgets for all partitions, of the same total, if they have drifted; else none."""
    registers = [node.shard.tables.registers for node in nodes]
    budget = np.array([float(r.budget[0]) for r in registers])
    total = float(budget.sum())
    if len(nodes) == 1 or not 0 < total < np.inf:
        return []
    share = quotas(nodes)
    if np.abs(share - budget / total).max() < _SHARE_MOVE_MIN:
        return []
    burst_seconds = sum(float(r.credit_max[0]) for r in registers) / total
    return [
        event_of(
            BudgetSet,
            amount=total * part,
            period_seconds=1.0,
            burst_seconds=burst_seconds,
            unit=r.budget_unit[0],
            price_mode=r.price_mode[0],
            price=r.fixed_price[0],
        )
        for part, r in zip(share, registers, strict=True)
    ]


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
