"""Split the budget of a corpus among its partitions.

The demand curve of a partition says what it would spend at each price.  The sum of all curves
crosses the budget at one common price; what a partition spends at that price is its share.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import inf, isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.common_price import split_at_common_price
from recrawl.messages.budgets import Budget
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.config.sections import BURST_SECONDS_MIN
from recrawl.node.config.time_windows import local_date, zone_of
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes, lock_nodes, submit_each
from recrawl.shard import (
    BudgetSet,
    BudgetUnit,
    CreditSet,
    QuotaSet,
    RunBudgetSet,
    RunChosen,
    event_of,
)
from recrawl.shard.state.tables import Registers

__all__ = [
    "BudgetSplit",
    "budget_of_event",
    "budget_shares",
    "run_number",
    "split_amount",
    "todays_run",
]

# Shares stay unchanged while none differs by more than this share of the budget.
_SHARE_MOVE_MIN = 0.02
# Time between two checks of the shares.
_REBALANCE_MS = 60_000
# A new budget begins with what it earns in this time, or in its burst if that is shorter.
_START_SECONDS = 86_400.0
_RUN_NAME_LENGTH_MAX = 200


def run_number(name: str) -> int:
    """Return the number by which shards know a run, above 0."""
    if not name.isprintable() or not name.strip():
        raise ValueError(f"run must be a name without control characters, got {name!r}")
    if len(name) > _RUN_NAME_LENGTH_MAX:
        raise ValueError(
            f"run must have {_RUN_NAME_LENGTH_MAX} characters at most, got {len(name)}"
        )
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) or 1


def todays_run(config: CorpusConfig, now_ms: int) -> str:
    """Return the name of a run that has none: the date in the configured time zone."""
    return local_date(now_ms, zone_of(config.budget.time_zone)).isoformat()


class BudgetSplit:
    """The budget of a corpus, split among its partitions.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    config
        Configuration of the corpus.
    clock
        Time source, for when to check the shares again.
    """

    def __init__(self, nodes: OpenNodes, config: CorpusConfig, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._config = config
        self._budget = self._logged_budget()
        # The budget that this process has set; None if it continues with what the log has.
        self._event: BudgetSet | RunBudgetSet | None = None
        self._rebalanced_ms = clock.running_ms()
        # Number of the run whose budget this process has split.
        self._run = 0
        self._run_lock = threading.RLock()
        # Where a budget goes that a user sets, if quotas are given from outside.
        self._on_budget: Callable[[Budget], object] | None = None

    def _logged_budget(self) -> BudgetSet:
        """Return the budget of the whole corpus, by what the open partitions have."""
        registers, event = self._registers(), self._config.budget_event()
        if registers:
            budget = _budget_of(registers, self._config.budget.burst)
            return budget._replace(amount=budget.amount / self._part())
        if isinstance(event, BudgetSet):
            return event
        return event_of(
            BudgetSet, amount=inf, period_seconds=0, burst_seconds=0, unit=0, price_mode=0, price=0
        )

    def follow_quotas(self, on_budget: Callable[[Budget], object]) -> None:
        """Split nothing from now on, unless the budget is per run; others give quotas.

        Parameters
        ----------
        on_budget
            Function that is called with a budget that a user sets.
        """
        self._on_budget = on_budget

    def follow_partitions(self, opened: Node | None = None) -> None:
        """Split the budget again after a partition was opened or closed in this process.

        Parameters
        ----------
        opened
            Node of the partition that was opened; None if one was closed.
        """
        self._run = 0
        nodes = self._nodes.all
        if not nodes:
            return
        if isinstance(self._event, RunBudgetSet):
            self._set_run_budget(self._event)
            return
        if self._on_budget is not None:
            return
        own = self._own_budget()
        if 0 < own.amount[0] < inf and own.period_seconds[0] > 0:
            with lock_nodes(nodes):
                for node in nodes:
                    node.check_owner()
                self._move_budget(nodes, own, budget_shares(nodes))
        elif opened is not None and self._event is not None:
            opened.submit([self._event])

    def _registers(self) -> list[Registers]:
        return [node.shard.tables.registers for node in self._nodes.all]

    def _part(self) -> float:
        """Return the part of the corpus's budget that the open partitions have.

        Other processes have the others, so it goes by the number of partitions alone.
        """
        return len(self._nodes.all) / self._nodes.n_partitions

    def _own_budget(self) -> BudgetSet:
        """Return the budget of the open partitions together."""
        return self._budget._replace(amount=self._budget.amount * self._part())

    def set_budget(self, config: CorpusConfig) -> None:
        """Set the budget of a configuration, if it has one."""
        event = config.budget_event()
        self._event = event or self._event
        nodes = self._nodes.all
        if isinstance(event, RunBudgetSet):
            self._set_run_budget(event)
        elif event is not None:
            self._budget = event
            if self._on_budget is not None:
                self._on_budget(budget_of_event(event))
                return
            if not nodes:
                return
            own = self._own_budget()
            credit = _credit_after(own, self._registers(), self._credit(nodes))
            self._submit_budget(nodes, own, budget_shares(nodes), credit)

    @staticmethod
    def _credit(nodes: Sequence[Node]) -> float:
        return sum(node.shard.credit(node.shard.now_ms) for node in nodes)

    def _move_budget(
        self, nodes: Sequence[Node], event: BudgetSet, share: NDArray[np.float64]
    ) -> None:
        """Give each partition another share of the same budget.

        Others may have claimed a partition of a shared log meanwhile: what its former owner logs
        then has to be void, so it has an epoch, and unspent budget stays where it is.
        """
        if not any(node.is_shared for node in nodes):
            self._submit_budget(nodes, event, share, self._credit(nodes))
            return
        budget = budget_of_event(event)
        submitted: list[tuple[Node, list[Any]]] = []
        for node, part in zip(nodes, share.tolist(), strict=True):
            own = budget._replace(per_second=budget.per_second * part)._asdict()
            now_ms = node.shard.now_ms
            quota = event_of(QuotaSet, epoch=node.shard.epoch, at_ms=now_ms, **own)
            submitted.append((node, [quota]))
        submit_each(submitted)

    @staticmethod
    def _submit_budget(
        nodes: Sequence[Node], event: BudgetSet, share: NDArray[np.float64], credit: float | None
    ) -> None:
        """Give each partition its share of the budget, and of the unspent credit unless None."""
        submitted: list[tuple[Node, list[Any]]] = []
        for node, part in zip(nodes, share, strict=True):
            entries: list[Any] = [event._replace(amount=event.amount * part)]
            if credit is not None:
                entries.append(event_of(CreditSet, credit=credit * part))
            submitted.append((node, entries))
        with lock_nodes(nodes):
            submit_each(submitted)

    def _set_run_budget(self, event: RunBudgetSet) -> None:
        self._run = 0
        for node in self._nodes:
            registers = node.shard.tables.registers
            columns = ("run_budget", "budget_unit", "price_mode", "fixed_price")
            before = [getattr(registers, name)[0] for name in columns]
            if before != [event.amount[0], event.unit[0], event.price_mode[0], event.price[0]]:
                node.submit([event])

    def set_rate(self, rate: str | None) -> None:
        """Set the rate of the budget; its unit, fetches or cost, stays the same."""
        own = self._config.budget
        unit = BudgetUnit(int(self._budget.unit[0])).name.lower()
        for registers in self._registers()[:1]:
            unit = BudgetUnit(int(registers.budget_unit[0])).name.lower()
        budget: dict[str, Any] = {
            "rate": "unlimited" if rate is None else rate,
            # Money is always counted in cost; what replaces it is as configured.
            "unit": own.unit if own.rate is not None and own.rate.currency else unit,
            "burst": own.burst,
            "cost_per_fetch": own.cost_per_fetch,
        }
        given = {key: value for key, value in budget.items() if value is not None}
        self.set_budget(CorpusConfig.from_dict({"budget": given}))

    def continue_budget(self, config: CorpusConfig) -> None:
        """Give a corpus of 0.1.0 whose budget is per run one for each named run."""
        if not self._nodes.all:
            return
        rate, registers = config.budget.rate, self._registers()[0]
        is_old = registers.budget[0] == 0 and registers.run_budget[0] == 0
        if is_old and registers.credit_max[0] > 0 and rate is not None and not rate.per_seconds:
            self.set_budget(config)

    # ------------------------------------------------------------------ runs

    @property
    def is_per_run(self) -> bool:
        """Whether the budget is per run."""
        nodes = self._nodes.all
        return bool(nodes and nodes[0].shard.tables.registers.run_budget[0] > 0)

    @contextmanager
    def use_run(self, name: str) -> Iterator[None]:
        """Begin or continue a run: orders made in the context are paid from its budget.

        Other threads wait, unless the budget is not per run.
        """
        run = run_number(name)
        with self._run_lock if self.is_per_run else nullcontext():
            if self.is_per_run and (
                self._run != run or any(r.run[0] != run for r in self._registers())
            ):
                self._split_run(run)
            yield

    def split_rest(self) -> bool:
        """Split the rest of the run again if a partition has spent its part; return whether so."""
        credit = np.array([float(r.credit[0]) for r in self._registers()])
        if not self.is_per_run or self._run == 0:
            return False
        if not (credit < 1).any() or credit.max() < 1:
            return False
        self._split_run(self._run)
        return True

    def _split_run(self, run: int) -> None:
        nodes = self._nodes.all
        with lock_nodes(nodes):
            for node in nodes:
                node.check_owner()
            registers = nodes[0].shard.tables.registers
            spent = np.array([node.shard.run_spending(run) for node in nodes])
            budget = float(registers.run_budget[0]) * len(nodes) / self._nodes.n_partitions
            left = max(budget - float(spent.sum()), 0.0)
            is_whole = bool(registers.budget_unit[0] == BudgetUnit.FETCHES)
            parts = split_amount(left, budget_shares(nodes), is_whole=is_whole)
            submitted: list[tuple[Node, list[Any]]] = []
            for node, amount in zip(nodes, spent + parts, strict=True):
                epoch = node.shard.epoch
                chosen = event_of(RunChosen, epoch=epoch, run=np.uint64(run), amount=amount)
                submitted.append((node, [chosen]))
            submit_each(submitted)
            self._run = run

    # ------------------------------------------------------------------ partitions

    def rebalance(self) -> None:
        """Move budget to the partitions where it achieves more, at most once a minute."""
        now_ms = self._clock.running_ms()
        nodes = self._nodes.all
        if (
            self._on_budget is not None
            or len(nodes) <= 1
            or now_ms - self._rebalanced_ms < _REBALANCE_MS
        ):
            return
        self._rebalanced_ms = now_ms
        with lock_nodes(nodes):
            share = self._moved_shares(nodes)
            if share is not None:
                for node in nodes:
                    node.check_owner()
                self._move_budget(nodes, self._own_budget(), share)

    def _moved_shares(self, nodes: Sequence[Node]) -> NDArray[np.float64] | None:
        """Return new shares of all partitions if they have drifted; otherwise None.

        They add up to the budget as it was set, which the old ones need not do.
        """
        budget = self._own_budget()
        total, period = float(budget.amount[0]), float(budget.period_seconds[0])
        if not 0 < total < np.inf or period == 0 or self.is_per_run:
            return None
        current = np.array([float(node.shard.tables.registers.budget[0]) for node in nodes])
        share = budget_shares(nodes)
        if np.abs(total / period * share - current).max() < _SHARE_MOVE_MIN * total / period:
            return None
        return share


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
    curves = [node.shard.demand_curve() for node in nodes]
    if any(price.size < 2 for price, _ in curves):
        return by_pages
    common = split_at_common_price(budget, curves)
    if common is None:
        return by_pages
    # Every partition gets something: without fetches, its demand would stay unknown.
    share: NDArray[np.float64] = 0.95 * common.share + 0.05 * by_pages
    return share


def budget_of_event(event: BudgetSet) -> Budget:
    """Return the budget that an event sets, in numbers."""
    amount, period = float(event.amount[0]), float(event.period_seconds[0])
    return Budget(
        per_second=amount / period if period > 0 else amount,
        period_seconds=period,
        burst_seconds=float(event.burst_seconds[0]),
        unit=int(event.unit[0]),
        price_mode=int(event.price_mode[0]),
        price=float(event.price[0]),
    )


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


def _budget_of(registers: Sequence[Registers], burst: float | None) -> BudgetSet:
    """Return the sum of the partitions' budgets, in the unit of time in which it was set."""
    period = float(registers[0].budget_period[0]) or 1.0
    return event_of(
        BudgetSet,
        amount=sum(float(r.budget[0]) for r in registers) * period,
        period_seconds=period,
        burst_seconds=max(period, BURST_SECONDS_MIN) if burst is None else burst,
        unit=registers[0].budget_unit[0],
        price_mode=registers[0].price_mode[0],
        price=registers[0].fixed_price[0],
    )


def _credit_after(event: BudgetSet, registers: Sequence[Registers], credit: float) -> float | None:
    """Return the unspent budget of all partitions after the budget is set; None to keep it.

    A new budget begins with a day's worth of credit, or with its burst if that is shorter.  A
    changed one adds or subtracts the difference, so that what has been spent stays spent.

    Parameters
    ----------
    event
        Budget to be set.
    registers
        Registers of all partitions.
    credit
        Unspent budget of all partitions.
    """
    period, burst = float(event.period_seconds[0]), float(event.burst_seconds[0])
    if period == 0 or not 0 < event.amount[0] < inf:
        return None
    rate = float(event.amount[0]) / period
    most = max(rate * burst, 1.0)
    start = max(rate * min(burst, _START_SECONDS), 1.0)
    before, saved = _total(registers, "budget"), _total(registers, "credit_max")
    had_rate = 0 < before < inf and registers[0].run_budget[0] == 0
    if not had_rate or registers[0].budget_unit[0] != event.unit[0]:
        return start
    if isclose(rate, before, rel_tol=1e-9) and registers[0].budget_period[0] in (0.0, period):
        # Splitting it again must not lose credit.
        return None if len(registers) == 1 else min(credit, most)
    start_before = max(before * min(saved / before, _START_SECONDS), 1.0)
    return min(max(credit + start - start_before, 0.0), most)


def _total(registers: Iterable[Registers], name: str) -> float:
    return sum(float(getattr(r, name)[0]) for r in registers)
