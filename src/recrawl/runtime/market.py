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


def budget_of(nodes: Sequence[Node], burst_seconds: float) -> BudgetSet:
    """Return the budget that partitions have together."""
    registers = [node.shard.tables.registers for node in nodes]
    return event_of(
        BudgetSet,
        amount=sum(float(r.budget[0]) for r in registers),
        period_seconds=1.0,
        burst_seconds=burst_seconds,
        unit=registers[0].budget_unit[0],
        price_mode=registers[0].price_mode[0],
        price=registers[0].fixed_price[0],
    )


def rebalanced(nodes: Sequence[Node], budget: BudgetSet) -> list[BudgetSet]:
    """Return budgets for all partitions, if what they have has drifted; else none.

    Parameters
    ----------
    nodes
        Of all partitions.
    budget
        Of all together, as it was told: what partitions have need not add up to it.
    """
    total = float(budget.amount[0])
    if len(nodes) == 1 or not 0 < total < np.inf or budget.period_seconds[0] == 0:
        return []
    has = np.array([float(node.shard.tables.registers.budget[0]) for node in nodes])
    share = quotas(nodes)
    wanted = total / float(budget.period_seconds[0]) * share
    if np.abs(wanted - has).max() < _SHARE_MOVE_MIN * wanted.sum():
        return []
    return [budget._replace(amount=np.full(1, total * part)) for part in share]


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
