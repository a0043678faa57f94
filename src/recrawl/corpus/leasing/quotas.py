"""Quotas of the open partitions, where all workers of a cluster agree on them."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf

import numpy as np

from recrawl.corpus.budget_split import BudgetSplit, budget_of_event
from recrawl.errors import RecrawlError
from recrawl.messages.budgets import CURVE_POINTS_MAX, Budget, Demand, Quota, QuotaInUse
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.shard import BudgetSet, QuotaSet, event_of

__all__ = ["PartitionQuotas"]

logger = logging.getLogger(__name__)


class PartitionQuotas:
    """The quotas of the partitions that are open in this process.

    `recrawl.cluster.budget.price.Agreement` says how they are used.  Until `follow` is called, the
    process splits the budget by itself.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    budget_split
        Splitter of the budget without an agreement.
    config
        Configuration of the corpus.
    time
        Time of the corpus.
    """

    def __init__(
        self, nodes: OpenNodes, budget_split: BudgetSplit, config: CorpusConfig, time: NodeTime
    ) -> None:
        self._nodes = nodes
        self._budget_split = budget_split
        self._config = config
        self._time = time
        self._budget: Callable[[], Budget] | None = None

    @property
    def configured(self) -> Budget | None:
        """The configured budget of the whole corpus; None if it is unlimited or per run."""
        event = self._config.budget_event()
        return budget_of_event(event) if isinstance(event, BudgetSet) else None

    def follow(self, budget: Callable[[], Budget], set_budget: Callable[[Budget], object]) -> None:
        """Use only quotas that are given from now on; call it before a partition is opened.

        Parameters
        ----------
        budget
            Function that returns the budget of the whole corpus.
        set_budget
            Function that is called with a budget that a user sets.
        """
        self._budget = budget
        self._budget_split.follow_quotas(set_budget)

    def begin(self, node: Node) -> None:
        """Let a partition that was never limited spend nothing until it is given a quota."""
        registers = node.shard.tables.registers
        is_limited = registers.budget[0] < inf or registers.run_budget[0] > 0
        if self._budget is None or is_limited:
            return
        budget = self._budget()
        if budget.per_second < inf:
            self._submit(node, 0.0, budget)

    def in_use(self) -> dict[int, QuotaInUse]:
        """Return the quota of each partition that this process owns, by the partition's log.

        Partitions whose last append failed are left out: nobody knows what their log says.
        """
        found = {}
        for node in self._nodes.all:
            with node.lock:
                registers = node.shard.tables.registers
                if node.can_decide and registers.run_budget[0] == 0:
                    quota = QuotaInUse(node.shard.epoch, float(registers.budget[0]))
                    found[node.partition] = quota
        return found

    def demands(self) -> dict[int, Demand]:
        """Return the demand of each partition that this process owns."""
        found = {}
        for node in self._nodes.all:
            with node.lock:
                if node.can_decide:
                    found[node.partition] = _demand_of(node)
        return found

    def set(self, quotas: Mapping[int, Quota], budget: Budget) -> None:
        """Log the quotas of partitions, where they differ from what the partition has.

        A partition that fails is left as it is.

        Parameters
        ----------
        quotas
            Quotas by partition; those of another epoch, or of partitions that are not open, are
            ignored.
        budget
            Budget that they are parts of.
        """
        for partition, quota in quotas.items():
            with self._use(partition) as node:
                if node is None or node.shard.epoch != quota.epoch or not node.can_decide:
                    continue
                if not _has_quota(node, quota.per_second, budget):
                    try:
                        self._submit(node, quota.per_second, budget)
                    except RecrawlError as error:
                        logger.warning("the quota of partition %d waits: %s", partition, error)

    @contextmanager
    def _use(self, partition: int) -> Iterator[Node | None]:
        node = self._nodes.enter(partition)
        if node is None:
            yield None
            return
        try:
            with node.lock:
                yield node
        finally:
            self._nodes.leave(node)

    def _submit(self, node: Node, per_second: float, budget: Budget) -> None:
        event = event_of(
            QuotaSet,
            epoch=node.shard.epoch,
            at_ms=self._time.now_ms(),
            **budget._replace(per_second=per_second)._asdict(),
        )
        node.submit([event])


def _has_quota(node: Node, per_second: float, budget: Budget) -> bool:
    registers = node.shard.tables.registers
    columns = ("budget", "budget_period", "budget_unit", "price_mode", "fixed_price", "credit_max")
    most = max(per_second * budget.burst_seconds, 1.0) if per_second < inf else inf
    wanted = per_second, budget.period_seconds, budget.unit, budget.price_mode, budget.price, most
    return wanted == tuple(getattr(registers, name)[0] for name in columns)


def _demand_of(node: Node) -> Demand:
    price, spent = node.shard.demand_curve()
    rows = np.flatnonzero(np.isfinite(price) & np.isfinite(spent) & (price > 0) & (spent >= 0))
    rows = rows[np.argsort(price[rows], kind="stable")]
    if rows.size > CURVE_POINTS_MAX:
        rows = rows[np.linspace(0, rows.size - 1, CURVE_POINTS_MAX).astype(np.int64)]
    return Demand(node.shard.n_pages, tuple(price[rows].tolist()), tuple(spent[rows].tolist()))
