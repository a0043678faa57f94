"""Split the budget of a corpus among its partitions.

The demand curve of a partition says what it would spend at each price.  The sum of all curves
crosses the budget at one common price; what a partition spends at that price is its share.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.node import Node
from recrawl.shard import BudgetSet, BudgetUnit, event_of

__all__ = ["BudgetSplit", "budget_shares", "split_amount"]

# Shares stay unchanged while none differs by more than this share of the budget.
_SHARE_MOVE_MIN = 0.02
# Time between two checks of the shares.
_REBALANCE_MS = 60_000


class BudgetSplit:
    """The budget of a corpus, split among its partitions.

    Parameters
    ----------
    nodes
        Nodes of all partitions.
    config
        Configuration of the corpus.
    clock
        Time source, for when to check the shares again.
    """

    def __init__(self, nodes: Sequence[Node], config: CorpusConfig, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._burst_seconds = config.budget.burst
        self._budget = _budget_of(nodes, config.budget.burst)
        self._rebalanced_ms = clock.running_ms()

    def set_budget(self, config: CorpusConfig) -> None:
        """Set the budget of a configuration, if it has one."""
        event = config.budget_event()
        if event is None:
            return
        self._budget = event
        is_whole = bool(event.period_seconds[0] == 0) and config.budget.unit == "fetches"
        parts = split_amount(float(event.amount[0]), budget_shares(self._nodes), is_whole=is_whole)
        for node, part in zip(self._nodes, parts, strict=True):
            node.submit([event._replace(amount=np.full(1, part))])

    def set_rate(self, rate: str | None) -> None:
        """Set the rate of the budget; its unit, fetches or cost, stays the same."""
        unit = BudgetUnit(int(self._nodes[0].shard.tables.registers.budget_unit[0]))
        budget = {
            "rate": "unlimited" if rate is None else rate,
            "unit": unit.name.lower(),
            "burst": self._burst_seconds,
        }
        self.set_budget(CorpusConfig.from_dict({"budget": budget}))

    def begin_run(self, config: CorpusConfig) -> None:
        """Renew the budget of a run, if the corpus has one."""
        rate = config.budget.rate
        is_per_run = float(self._nodes[0].shard.tables.registers.budget[0]) == 0.0
        if is_per_run and rate is not None and rate.per_seconds is None:
            self.set_budget(config)

    def rebalance(self) -> None:
        """Move budget to the partitions where it achieves more, at most once a minute."""
        now_ms = self._clock.running_ms()
        if len(self._nodes) == 1 or now_ms - self._rebalanced_ms < _REBALANCE_MS:
            return
        self._rebalanced_ms = now_ms
        with ExitStack() as locks:
            for node in self._nodes:
                locks.enter_context(node.lock)
            for node, event in zip(self._nodes, self._rebalanced_budgets(), strict=False):
                node.check_owner()
                node.submit([event])

    def _rebalanced_budgets(self) -> list[BudgetSet]:
        """Return new budgets for all partitions if their shares have drifted; otherwise nothing.

        They add up to the budget as it was set, which the old ones need not do.
        """
        total, period = float(self._budget.amount[0]), float(self._budget.period_seconds[0])
        if not 0 < total < np.inf or period == 0:
            return []
        current = np.array([float(node.shard.tables.registers.budget[0]) for node in self._nodes])
        share = budget_shares(self._nodes)
        if np.abs(total / period * share - current).max() < _SHARE_MOVE_MIN * total / period:
            return []
        return [self._budget._replace(amount=np.full(1, total * part)) for part in share]


def budget_shares(nodes: Sequence[Node]) -> NDArray[np.float64]:
    """Return the share of the budget that each partition should have.

    The shares are in proportion to pages until every partition has a demand curve.
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
    spent = np.array([_spending_at(price, *curve) for curve in curves])
    total = spent.sum(axis=0)
    crossing = int(np.argmin(np.abs(total - budget)))
    if total[crossing] <= 0:
        return by_pages
    # Every partition gets something: without fetches, its demand would stay unknown.
    share: NDArray[np.float64] = 0.95 * spent[:, crossing] / total[crossing] + 0.05 * by_pages
    return share


def split_amount(
    amount: float, share: NDArray[np.float64], *, is_whole: bool
) -> NDArray[np.float64]:
    """Split an amount by shares; whole fetches of a run are split into whole numbers."""
    if not is_whole or not np.isfinite(amount):
        return amount * share
    exact: NDArray[np.float64] = np.floor(amount) * share
    part: NDArray[np.float64] = np.floor(exact)
    left = round(np.floor(amount) - part.sum())
    part[np.argsort(part - exact, kind="stable")[:left]] += 1
    return part


def _budget_of(nodes: Sequence[Node], burst_seconds: float) -> BudgetSet:
    """Return the sum of the partitions' budgets."""
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


def _spending_at(
    price: NDArray[np.float64], known: NDArray[np.float64], spent: NDArray[np.float64]
) -> NDArray[np.float64]:
    order = np.argsort(known)
    found: NDArray[np.float64] = np.interp(
        np.log(np.maximum(price, 1e-300)),
        np.log(np.maximum(known[order], 1e-300)),
        spent[order],
    )
    return found
