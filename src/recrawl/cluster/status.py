"""The state of a cluster, as somebody sees it who only reads the control topic."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Final

from recrawl.cluster.budget.quotas import (
    BUDGET_KEY,
    DEMAND_KEY,
    QUOTAS_KEY,
    BudgetMessage,
    DemandMessage,
    QuotaMessage,
)
from recrawl.cluster.control_topic import ControlLog
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.membership import GAP_SECONDS_MAX
from recrawl.cluster.placement import PlacementRules
from recrawl.cluster.presence import BEAT_SECONDS, heartbeat_of
from recrawl.cluster.roles import partitions_text
from recrawl.cluster.rules import OperatorRules
from recrawl.units import seconds_text

__all__ = ["ClusterStatus", "PartitionStatus", "observe_cluster"]

_LOOK_SECONDS: Final = 0.05
# Time for what the topic has kept, and then time in which every worker that lives is heard.
_OBSERVED_SECONDS: Final = 1.5 * BEAT_SECONDS + GAP_SECONDS_MAX
# A topic that is silent for so long has no workers, or cannot be read.
_SILENT_SECONDS_MAX: Final = 10.0 * BEAT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """Who works on a partition."""

    partition: int
    owner: str | None
    """Name of the worker with the last claim; None if no worker says that it owns it."""
    epoch: int
    n_pages: int
    snapshot_seconds: float | None
    """Age of its newest snapshot; None without one."""
    standbys: Mapping[str, float]
    """Seconds by which each standby is behind, by name of the worker."""
    quota_per_second: float | None = None
    """Fetches or cost that it may spend in a second, as its owner said last; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The workers of a cluster and their partitions."""

    workers: tuple[Heartbeat, ...]
    """Last heartbeat of each worker that lives, by name."""
    partitions: tuple[PartitionStatus, ...]
    rules: PlacementRules
    """Decisions of operators."""
    budget_per_second: float | None = None
    """Budget of all partitions together; None if the workers have not agreed on one yet."""
    price: float | None = None
    """Value that a fetch must reach in every partition; None if it is not known."""
    is_budget_pending: bool = False
    """Whether a budget was set that the workers have not divided yet."""

    @property
    def away(self) -> list[str]:
        """Names of workers that are drained and do not run."""
        return sorted({*self.rules.drained} - {one.worker for one in self.workers})

    @property
    def do_all_clocks_differ(self) -> bool:
        """Whether no worker has a clock that agrees with those of most others."""
        return bool(self.workers) and all(one.clock_ahead_seconds for one in self.workers)

    @property
    def do_all_keys_differ(self) -> bool:
        """Whether no worker has a cluster key of most others."""
        return bool(self.workers) and all(one.has_other_keys for one in self.workers)

    @property
    def _workers_by_keys(self) -> list[list[str]]:
        """Names of workers with the same cluster keys, without those that give way to others."""
        found: dict[frozenset[str], list[str]] = {}
        for one in self.workers:
            if one.key_ids and (self.do_all_keys_differ or not one.has_other_keys):
                found.setdefault(frozenset(one.key_ids), []).append(one.worker)
        return [*found.values()]

    def _why_owner(self, unable: Heartbeat) -> str:
        """Return what a worker does that cannot own partitions: without another, it has to."""
        if unable.owned and not any(one.can_own for one in self.workers):
            return f"{unable.worker} keeps its partitions only because no worker can take them"
        return f"{unable.worker} cannot own partitions"

    @property
    def problems(self) -> list[str]:
        """What an operator should know, in sentences."""
        found = []
        if not self.workers:
            found.append("No worker is running.")
        without_owner = [one.partition for one in self.partitions if one.owner is None]
        if without_owner and self.workers:
            found.append(f"No worker owns {partitions_text(without_owner)}.")
        n_able = sum(one.can_own and not one.is_leaving for one in self.workers)
        alone = [one.partition for one in self.partitions if one.owner and not one.standbys]
        if alone and n_able > 1:
            has = "have" if len(alone) > 1 else "has"
            found.append(f"{partitions_text(alone).capitalize()} {has} no standby yet.")
        found += [
            f"{self._why_owner(one)}: its disk is full."
            for one in self.workers
            if not one.can_own
            and one.reads_log
            and not one.clock_ahead_seconds
            and not one.has_other_keys
        ]
        found += [
            f"{self._why_owner(one)}: the others have none of its cluster keys. Give it their file "
            "of keys."
            for one in self.workers
            if one.has_other_keys and not self.do_all_keys_differ
        ]
        if len(self._workers_by_keys) > 1:
            groups = "; ".join(", ".join(names) for names in self._workers_by_keys)
            found.append(
                f"Workers have different files of cluster keys: {groups}. Copy the newest file to "
                "all of them: a worker refuses what is signed with a key that it does not have, "
                "and five minutes after a key was made it is used."
            )
        if self.do_all_clocks_differ:
            found.append(
                "The clocks of all workers differ, so they keep their partitions, but most of what "
                "they forward to each other fails. Set the clocks."
            )
        else:
            found += [
                f"{self._why_owner(one)}: its clock is {_difference(one)} most others."
                for one in self.workers
                if one.clock_ahead_seconds
            ]
        found += [
            f"{one.worker} cannot read the log, because a newer version wrote to it: upgrade it."
            for one in self.workers
            if not one.reads_log
        ]
        if self.is_budget_pending and self.workers:
            found.append(
                "A new budget was set, and is not in use yet. If this stays so for a minute, the "
                "worker that owns partition 0 does not divide it: see what it logs."
            )
        versions = sorted({one.version for one in self.workers})
        if len(versions) > 1:
            found.append(f"Workers have different versions: {', '.join(versions)}.")
        if len({one.reads_version for one in self.workers}) > 1:
            lowest = min(one.reads_version for one in self.workers)
            found.append(f"All write version {lowest} of the log's records until all are upgraded.")
        return found


def _difference(worker: Heartbeat) -> str:
    seconds = worker.clock_ahead_seconds
    return f"{seconds_text(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'}"


def observe_cluster(
    log: ControlLog,
    n_partitions: int,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ClusterStatus:
    """Return the state of a cluster, after listening for three and a half seconds.

    These begin with the first message, because connecting may take seconds.

    Parameters
    ----------
    log
        Control topic.
    n_partitions
        Number of partitions of the corpus.
    monotonic
        Clock that never jumps, in seconds.
    sleep
        Function that waits for some seconds.
    """
    rules, spending = OperatorRules(), _Spending()
    heard: dict[str, tuple[Heartbeat, float]] = {}
    until = monotonic() + _SILENT_SECONDS_MAX
    has_begun = False
    while (now := monotonic()) < until:
        messages = log.read()
        if messages and not has_begun:
            has_begun, until = True, now + _OBSERVED_SECONDS
        for key, message in messages:
            heartbeat = heartbeat_of(key, message)
            if heartbeat is None:
                if not rules.hear(key, message):
                    spending.hear(key, message)
                continue
            before = heard.get(heartbeat.worker)
            if before is None or heartbeat.start >= before[0].start:
                heard[heartbeat.worker] = heartbeat, now
        sleep(_LOOK_SECONDS)
    # The topic has kept earlier heartbeats, also of workers that are gone, and they come first.
    last = [one for one, at in heard.values() if at >= until - GAP_SECONDS_MAX]
    lives = tuple(
        one for one in sorted(last, key=lambda one: one.worker) if one.owned or not one.is_leaving
    )
    return ClusterStatus(
        workers=lives,
        partitions=tuple(
            _partition_status(i, lives, spending.quotas.get(i)) for i in range(n_partitions)
        ),
        rules=rules.placement,
        budget_per_second=None if spending.last is None else spending.last.budget.per_second,
        price=None if spending.last is None or isnan(spending.last.price) else spending.last.price,
        is_budget_pending=spending.is_budget_pending,
    )


class _Spending:
    """What workers say about the budget."""

    def __init__(self) -> None:
        self.last: QuotaMessage | None = None
        self.quotas: dict[int, float] = {}
        self._set: BudgetMessage | None = None

    @property
    def is_budget_pending(self) -> bool:
        """Whether a budget was set that the last record of quotas does not divide."""
        return self._set is not None and (self.last is None or self.last.budget != self._set.budget)

    def hear(self, key: str, message: bytes) -> None:
        if key == QUOTAS_KEY:
            found = QuotaMessage.from_bytes(message)
            if found is not None and (self.last is None or found.id >= self.last.id):
                self.last = found
        elif key == BUDGET_KEY:
            budget = BudgetMessage.from_bytes(message)
            if budget is not None and (self._set is None or budget.order > self._set.order):
                self._set = budget
        elif key.startswith(DEMAND_KEY):
            demand = DemandMessage.from_bytes(message)
            if demand is not None and demand.key == key:
                self.quotas[demand.partition] = demand.per_second


def _partition_status(
    partition: int, workers: tuple[Heartbeat, ...], quota: float | None
) -> PartitionStatus:
    claims = [(one.owned[partition], one.worker) for one in workers if partition in one.owned]
    last, owner = max(claims, default=(None, None), key=lambda claim: claim[0].epoch)
    return PartitionStatus(
        partition=partition,
        owner=owner,
        epoch=0 if last is None else last.epoch,
        n_pages=0 if last is None else last.n_pages,
        snapshot_seconds=None if last is None else last.snapshot_seconds,
        standbys={
            one.worker: one.standby_seconds[partition]
            for one in workers
            if partition in one.standby_seconds
        },
        quota_per_second=quota,
    )
