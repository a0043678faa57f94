"""One budget for several partitions: each gets what it would spend at the price of all.

A partition's demand curve says what it would spend at each price.  Their sum crosses the budget at
the price of the whole; what each spends there is its quota.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.node import Node
from recrawl.shard import BudgetSet, BudgetUnit, event_of

__all__ = ["Market", "divided", "quotas"]

# Quotas are left alone while none is off by more than this share of the budget.
_SHARE_MOVE_MIN = 0.02
# How often the budget is divided anew.
_REBALANCE_MS = 60_000


class Market:
    """The budget of a corpus, divided among its partitions.

    Parameters
    ----------
    nodes
        Of all partitions.
    config
        Of the corpus.
    clock
        That says when it is time to divide anew.
    """

    def __init__(self, nodes: Sequence[Node], config: CorpusConfig, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._burst_seconds = config.budget.burst
        self._budget = _budget_of(nodes, config.budget.burst)
        self._rebalanced_ms = clock.running_ms()

    def set_budget(self, config: CorpusConfig) -> None:
        """Set what a configuration says of the budget, if it says anything."""
        event = config.budget_event()
        if event is None:
            return
        self._budget = event
        is_whole = bool(event.period_seconds[0] == 0) and config.budget.unit == "fetches"
        parts = divided(float(event.amount[0]), quotas(self._nodes), is_whole=is_whole)
        for node, part in zip(self._nodes, parts, strict=True):
            node.submit([event._replace(amount=np.full(1, part))])

    def set_rate(self, rate: str | None) -> None:
        """Set what may be spent, and leave what that counts."""
        unit = BudgetUnit(int(self._nodes[0].shard.tables.registers.budget_unit[0]))
        budget = {
            "rate": "unlimited" if rate is None else rate,
            "unit": unit.name.lower(),
            "burst": self._burst_seconds,
        }
        self.set_budget(CorpusConfig.from_dict({"budget": budget}))

    def begin_run(self, config: CorpusConfig) -> None:
        """Set the budget of a run anew, if that is what the corpus has."""
        rate = config.budget.rate
        has_one = float(self._nodes[0].shard.tables.registers.budget[0]) == 0.0
        if has_one and rate is not None and rate.per_seconds is None:
            self.set_budget(config)

    def rebalance(self) -> None:
        """Move budget between partitions, now and then, to where it buys more."""
        now_ms = self._clock.running_ms()
        if len(self._nodes) == 1 or now_ms - self._rebalanced_ms < _REBALANCE_MS:
            return
        self._rebalanced_ms = now_ms
        with ExitStack() as locks:
            for node in self._nodes:
                locks.enter_context(node.lock)
            for node, event in zip(self._nodes, self._rebalanced(), strict=False):
                node.check_owner()
                node.submit([event])

    def _rebalanced(self) -> list[BudgetSet]:
        """Return budgets for all partitions, if what they have has drifted; else none.

        From what was told for all together: what partitions have need not add up to it.
        """
        total, period = float(self._budget.amount[0]), float(self._budget.period_seconds[0])
        if not 0 < total < np.inf or period == 0:
            return []
        has = np.array([float(node.shard.tables.registers.budget[0]) for node in self._nodes])
        share = quotas(self._nodes)
        if np.abs(total / period * share - has).max() < _SHARE_MOVE_MIN * total / period:
            return []
        return [self._budget._replace(amount=np.full(1, total * part)) for part in share]


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


def _budget_of(nodes: Sequence[Node], burst_seconds: float) -> BudgetSet:
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
