"""Properties of a run, from a replay of the complete logs that knows nothing of the workers."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from recrawl.ledger import SavedSnapshot, SnapshotFolder
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.node.durability.recovery import initial_shard, restore_shard
from recrawl.node.few_reported import FewPagesReported
from recrawl.node.node import apply_entry
from recrawl.node.records import (
    ConsumersPlaced,
    CorpusIdentified,
    CurvePriorSet,
    HandlesMoved,
    LayoutReplaced,
    LogEntry,
    NamesNumbered,
    PagesAddedWithUrls,
    PagesReported,
    StateSampled,
    UserDataSet,
    entry_of,
)
from recrawl.shard import Applied, Claimed, CreditSet, Ordered, Outcomes, QuotaSet, Signals
from recrawl.sim.faults.laws import BrokenLawError, Laws
from recrawl.testing.stores import contents_of
from tests.simulation.cluster.clients import Clients
from tests.simulation.cluster.partition_logs import ArchivedLog
from tests.simulation.cluster.storage import FaultyStorage
from tests.simulation.cluster.workers import SKEW_MS_MAX, Machines, SimulatedWorker
from tests.simulation.cluster.world import PropertyViolatedError

__all__ = ["ReplayedLog", "SeenState", "check_run"]

WINDOW_MS: Final = 60_000
# A delay begins at the last time in the log, which is at most this much before a report.
_LATE_MS: Final = 50
# Before, the log does not say which settings a shard begins with.
_BEGINNING_RECORDS: Final = 2


@dataclass(frozen=True, slots=True)
class SeenState:
    """The state of a node at a moment of the run."""

    partition: int
    position: int
    digest: str
    worker: str


@dataclass(frozen=True, slots=True)
class _Made:
    """An order as the log has it."""

    writer: int
    owner: int
    at_ms: int


@dataclass(slots=True)
class ReplayedLog:
    """What a log says."""

    digests: dict[int, str] = field(default_factory=dict)
    orders: dict[int, _Made] = field(default_factory=dict)
    outcomes: list[int] = field(default_factory=list)
    """Order of each outcome that counted."""
    urls: set[str] = field(default_factory=set)
    quotas: list[tuple[int, float]] = field(default_factory=list)
    """True time of each quota, and fetches per second."""
    n_signals: int = 0
    n_claims: int = 0
    n_void_orders: int = 0
    digest: str = ""


class _ClusterLaws(Laws):
    """Laws of a shard whose owner moves unspent budget between partitions."""

    def follow_entry(self, entry: LogEntry) -> Applied:
        match entry:
            case PagesAddedWithUrls(added, epoch):
                if not (epoch == self.shard.epoch).all():
                    return Applied(np.zeros(epoch.size, np.bool_), np.zeros(0, np.uint8))
                return self.follow(added)
            case PagesReported(outcomes) | FewPagesReported(outcomes):
                return self.follow(outcomes)
            case (
                CorpusIdentified()
                | NamesNumbered()
                | CurvePriorSet()
                | UserDataSet()
                | HandlesMoved()
                | LayoutReplaced()
                | ConsumersPlaced()
                | StateSampled()
            ):
                return apply_entry(self.shard, entry)
            case CreditSet():
                applied = self.follow(entry)
                if applied.valid.all():
                    self._earn()
                    self._credit = min(float(entry.credit[-1]), self._credit_max)
                return applied
        return self.follow(entry)


def replay_log(log: ArchivedLog, positions: Iterable[int]) -> ReplayedLog:
    """Apply a complete log to a new shard, and check every law on the way.

    Parameters
    ----------
    log
        Log with all its records.
    positions
        Positions at which the state is of interest.
    """
    wanted = {*positions}
    laws = _ClusterLaws(initial_shard(log))  # type: ignore[arg-type]
    shard, found = laws.shard, ReplayedLog()
    for position, written in enumerate(log.records):
        if position in wanted:
            found.digests[position] = shard.digest()
        entry = entry_of(written.record)
        try:
            applied = laws.follow_entry(entry)
        except BrokenLawError as error:
            raise PropertyViolatedError(f"position {position}: {error}") from error
        match entry:
            case PagesAddedWithUrls(url=url):
                rows = np.flatnonzero(applied.valid).tolist()
                found.urls |= {url[row].as_py() for row in rows}
            case Ordered():
                made = _Made(written.writer, int(shard.tables.registers.owner[0]), written.at_ms)
                found.orders |= dict.fromkeys(entry.order[applied.valid].tolist(), made)
                found.n_void_orders += int(np.count_nonzero(~applied.valid))
            case PagesReported(outcomes) | FewPagesReported(outcomes):
                found.outcomes += outcomes.order[applied.valid].tolist()
            case Outcomes():
                found.outcomes += entry.order[applied.valid].tolist()
            case Signals():
                found.n_signals += int(np.count_nonzero(applied.valid))
            case QuotaSet() if applied.valid.all():
                found.quotas.append((written.at_ms, float(entry.per_second[-1])))
            case Claimed():
                found.n_claims += int(np.count_nonzero(applied.valid))
    found.digest = found.digests[log.end] = shard.digest()
    return found


def check_run(
    machines: Machines,
    workers: Sequence[SimulatedWorker],
    clients: Clients,
    seen: Sequence[SeenState],
    *,
    delay_ms: int,
    rate: float,
    burst: float,
) -> list[ReplayedLog]:
    """Check everything that must hold after a run; return what the logs say.

    Parameters
    ----------
    machines
        Logs and files.
    workers
        Workers that live.
    clients
        What clients were told.
    seen
        States of nodes during the run.
    delay_ms
        Time between two fetches from a host.
    rate, burst
        Budget in fetches per second, and fetches that may be saved up.
    """
    seen = [*seen, *_last_states(machines, workers)]
    logs = [
        replay_log(log, {one.position for one in seen if one.partition == i})
        for i, log in enumerate(machines.logs)
    ]
    for one in seen:
        if one.position < _BEGINNING_RECORDS:
            continue
        _expect(
            logs[one.partition].digests[one.position] == one.digest,
            f"{one.worker} has another state of partition {one.partition} at {one.position} than "
            "the replay",
        )
    _check_acknowledged(logs, clients)
    _check_orders(logs, clients)
    _check_delays(clients, delay_ms)
    _check_quotas(logs, rate)
    _check_budget(logs, rate, burst)
    _check_snapshots(machines, logs)
    _check_stores(machines, workers)
    return logs


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise PropertyViolatedError(what)


def _last_states(machines: Machines, workers: Sequence[SimulatedWorker]) -> list[SeenState]:
    states = []
    for worker in workers:
        for node in worker.nodes():
            node.follow()
            _expect(
                node.position == machines.logs[node.partition].end,
                f"{worker.name} did not read partition {node.partition} to its end",
            )
            states.append(
                SeenState(node.partition, node.position, node.shard.digest(), worker.name)
            )
    return states


def _check_acknowledged(logs: Sequence[ReplayedLog], clients: Clients) -> None:
    """No acknowledged row is lost, and no outcome counts twice."""
    lost = clients.added - set().union(*(log.urls for log in logs))
    _expect(not lost, f"pages were added and are lost: {sorted(lost)}")
    for i, log in enumerate(logs):
        counted = {order for partition, order in clients.counted if partition == i}
        _expect(counted <= {*log.outcomes}, f"partition {i} has lost outcomes that counted")
        reported = [order for order in log.outcomes if order > 0]
        _expect(len({*reported}) == len(reported), f"an outcome counted twice in partition {i}")
    _expect(len({*clients.counted}) == len(clients.counted), "an outcome was counted twice")
    _expect(clients.n_signals <= sum(log.n_signals for log in logs), "signals are lost")


def _check_orders(logs: Sequence[ReplayedLog], clients: Clients) -> None:
    """Every order that was handed out is valid, and of the owner at that position."""
    seen = set()
    for one in clients.handed_out:
        what = f"order {one.order} of partition {one.partition} from {one.worker.name}"
        made = logs[one.partition].orders.get(one.order)
        if made is None:
            raise PropertyViolatedError(f"{what} was handed out, and is void")
        _expect(made.writer == one.worker.number, f"{what} was made by another worker")
        _expect(made.owner == made.writer, f"{what} was not made by the owner")
        _expect((one.partition, one.order) not in seen, f"{what} was handed out twice")
        seen.add((one.partition, one.order))


def _check_delays(clients: Clients, delay_ms: int) -> None:
    """No host is contacted before its delay has passed, whoever ordered it, minus the skew."""
    free_ms: dict[str, int] = {}
    for one in sorted(clients.handed_out, key=lambda one: one.at_ms):
        if one.expires_ms <= one.at_ms:
            continue  # a fetcher does not fetch it any more
        host = one.url.split("/")[2]
        early_ms = free_ms.get(host, 0) - one.at_ms
        most = 2 * SKEW_MS_MAX + _LATE_MS
        _expect(early_ms <= most, f"{one.url} was ordered {early_ms} ms too early")
        ended_ms = clients.ended_ms.get((one.partition, one.order), one.at_ms)
        free_ms[host] = min(ended_ms, one.expires_ms) + delay_ms


def _check_quotas(logs: Sequence[ReplayedLog], rate: float) -> None:
    """At no moment do the quotas of all partitions add up to more than the budget."""
    changes = sorted((at_ms, i, quota) for i, log in enumerate(logs) for at_ms, quota in log.quotas)
    current = [0.0] * len(logs)
    for at_ms, i, quota in changes:
        current[i] = quota
        _expect(
            sum(current) <= rate * (1 + 1e-9),
            f"quotas of {sum(current):.3f} fetches per second at {at_ms / 1000:.3f} s, "
            f"at most {rate}",
        )


def _check_budget(logs: Sequence[ReplayedLog], rate: float, burst: float) -> None:
    """No minute has more orders than the budget and what may be saved up."""
    at_ms = sorted(made.at_ms for log in logs for made in log.orders.values())
    most = rate * WINDOW_MS / 1000 + burst
    first = 0
    for i, end_ms in enumerate(at_ms):
        while at_ms[first] <= end_ms - WINDOW_MS:
            first += 1
        _expect(
            i - first + 1 <= most,
            f"{i - first + 1} orders within a minute until {end_ms / 1000:.1f} s, at most {most}",
        )


def _check_snapshots(machines: Machines, logs: Sequence[ReplayedLog]) -> None:
    """The oldest snapshot of each machine, and of the storage, leads to the same state."""
    entries = [[entry_of(one.record) for one in log.records] for log in machines.logs]
    oldest: dict[tuple[int, int], tuple[SavedSnapshot, str]] = {}
    for i in range(len(logs)):
        for folder in sorted(machines.folder.glob(f"*/snapshots/{i}")):
            saved = SnapshotFolder(folder).list_saved()
            if saved:
                oldest.setdefault((i, saved[-1].position), (saved[-1], str(folder)))
        _check_shared(machines, i, oldest)
    for (i, position), (one, place) in oldest.items():
        shard = restore_shard(one, is_reader=False)
        if shard is None:
            raise PropertyViolatedError(f"the oldest snapshot in {place} is damaged")
        for entry in entries[i][position:]:
            apply_entry(shard, entry)
        _expect(shard.digest() == logs[i].digest, f"the oldest snapshot in {place} differs")


def _check_shared(
    machines: Machines, i: int, oldest: dict[tuple[int, int], tuple[SavedSnapshot, str]]
) -> None:
    shared: SharedSnapshots = FaultyStorage(machines.shared, machines.origin(i), machines.world)
    first = machines.logs[i].first
    usable = [one for one in shared.list_complete() if one.position >= first]
    _expect(first == 0 or bool(usable), f"partition {i} begins at {first} without a snapshot")
    for one in usable[-1:]:
        restored = shared.restore(one, SnapshotFolder(machines.folder / "restored" / str(i)))
        oldest.setdefault((i, one.position), (restored, one.path))


def _check_stores(machines: Machines, workers: Sequence[SimulatedWorker]) -> None:
    """All copies of a partition have the same pages, names, changes and records."""
    found: dict[int, list[dict[str, object]]] = defaultdict(list)
    for worker in workers:
        for node in worker.nodes():
            n_slots = int(node.shard.tables.registers.n_slots[0])
            found[node.partition].append(contents_of(node.store, n_slots))
    for i, stores in found.items():
        _expect(all(one == stores[0] for one in stores), f"the stores of partition {i} differ")
