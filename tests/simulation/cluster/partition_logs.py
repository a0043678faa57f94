"""The logs of all partitions in memory, and the faults of appending to them and reading them."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from recrawl.errors import LedgerError, PositionLost
from recrawl.ledger import AppendedSpan, Record
from recrawl.ledger.contract import READ_BYTES_MAX, check_records
from recrawl.node.records import record_of
from recrawl.shard import Claimed, event_of
from tests.simulation.cluster.world import Actor, Killed, World

__all__ = ["CLAIM_SCHEMA", "ArchivedLog", "LogWriter", "WorkerLog", "Written"]

# Probability per append or read.
_INTERLEAVED: Final = 0.04
_CLAIM_INTERLEAVED: Final = 0.5
_PAUSED: Final = 0.0006
_FAILED: Final = 0.002
_FAILED_IN_TROUBLE: Final = 0.3
_KILLED: Final = 0.0003
_READ_FAILED: Final = 0.0004
_PAUSE_MS: Final = (1_000, 20_000)
_LATE_MS_MAX: Final = 6_000
# Heartbeats have a thread of their own, so a slow broker of one partition does not stop them.
_GO_ON: Final = ("presence",)
CLAIM_SCHEMA: Final = record_of(event_of(Claimed, owner=0, epoch=0, at_ms=0)).schema


class Written(NamedTuple):
    """A record, and what the workers do not know about it."""

    record: Record
    writer: int
    """Number of the process that wrote it."""
    at_ms: int
    """True time."""


class LogWriter(Actor, Protocol):
    """A process that appends to logs."""

    number: int
    name: str

    def note_trouble(self) -> None:
        """Take note that something went wrong here, so that nothing is expected for a while."""
        ...


class ArchivedLog:
    """The log of one partition, with the records that were removed.

    Parameters
    ----------
    world
        Time and chance.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: list[Written] = []
        self.first = 0
        self.is_in_trouble = False
        """Whether many appends fail."""
        self.troubled_ms = -(1 << 40)
        """When an append failed last."""
        self.n_failed = 0
        self.on_truncate: Callable[[int], None] = lambda _: None

    @property
    def end(self) -> int:
        return len(self.records)

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        """Return records as `recrawl.ledger.Ledger.read` does, also removed ones."""
        found: list[tuple[int, Record]] = []
        n_bytes = 0
        for i in range(position, self.end):
            record = self.records[i].record
            n_bytes += len(record.data)
            if found and n_bytes > n_bytes_max:
                break
            found.append((i, record))
        return found

    def put(self, records: Sequence[Record], writer: int) -> range:
        first = self.end
        self.records += [Written(record, writer, self.world.now_ms) for record in records]
        return range(first, self.end)


class WorkerLedger:
    """The log of a partition as one process has it."""

    def __init__(self, log: ArchivedLog, worker: LogWriter) -> None:
        self._log = log
        self._world = log.world
        self._worker = worker
        self._has_failed = False

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def end(self) -> int:
        return self._log.end

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        check_records(records)
        if self._has_failed:
            raise LedgerError("an append has failed before; open the log again")
        self._let_time_pass()
        is_claim = any(record.schema == CLAIM_SCHEMA for record in records)
        if is_claim and self._world.happens(_CLAIM_INTERLEAVED):
            # Another worker may claim the partition at the same moment.
            self._world.interleave(self._worker, self._world.rng.randrange(300), _GO_ON)
        if self._world.fault(_FAILED_IN_TROUBLE if self._log.is_in_trouble else _FAILED):
            self._fail(records)
        if self._world.fault(_KILLED):
            if self._world.happens(0.5):
                self._log.put(records, self._worker.number)
            raise Killed
        positions: list[int] = []
        if len(records) > 1 and self._world.happens(_INTERLEAVED):
            for record in records:
                positions += self._log.put([record], self._worker.number)
                self._world.interleave(self._worker, self._world.rng.randrange(100), _GO_ON)
        else:
            positions += self._log.put(records, self._worker.number)
        self._let_time_pass()
        if not positions:
            return AppendedSpan(self._log.end, self._log.end, True)
        first, end = positions[0], positions[-1] + 1
        if end - first == len(positions):
            return AppendedSpan(first, end, True)
        return AppendedSpan(first, end, False, tuple(positions))

    def _fail(self, records: Sequence[Record]) -> None:
        """Fail, although the records may be in the log, in part, or later."""
        rng, number = self._world.rng, self._worker.number
        n_written = rng.choice([0, 0, len(records), len(records), rng.randrange(len(records) + 1)])
        self._log.put(records[:n_written], number)
        late = records[n_written:]
        if late and self._world.happens(0.4):
            self._world.after(rng.randrange(_LATE_MS_MAX), lambda: self._put_late(late))
        self._has_failed = True
        self._log.troubled_ms = self._world.now_ms
        self._log.n_failed += 1
        raise LedgerError("the append failed")

    def _put_late(self, records: Sequence[Record]) -> None:
        self._log.put(records, self._worker.number)

    def _let_time_pass(self) -> None:
        world = self._world
        if world.happens(_INTERLEAVED):
            world.interleave(self._worker, world.rng.randrange(150), _GO_ON)
        elif world.fault(_PAUSED):
            self._worker.note_trouble()
            world.interleave(self._worker, world.rng.randrange(*_PAUSE_MS))
            self._worker.note_trouble()

    def read(self, position: int, *, n_bytes_max: int = READ_BYTES_MAX) -> list[tuple[int, Record]]:
        if self._world.fault(_READ_FAILED):
            self._log.troubled_ms = self._world.now_ms
            raise LedgerError("the log cannot be read")
        if not self._log.first <= position <= self._log.end:
            raise PositionLost(f"{position} is not from {self._log.first} to {self._log.end}")
        rows = self._log.read(position, n_bytes_max=n_bytes_max)
        if self._world.happens(_INTERLEAVED / 8):
            self._world.interleave(self._worker, self._world.rng.randrange(150), _GO_ON)
        return rows

    def sync(self) -> None:
        pass

    def truncate(self, position: int) -> None:
        if position > self._log.end:
            raise ValueError(f"position must be at most {self._log.end}, got {position}")
        if position > self._log.first:
            self._log.on_truncate(position)
            self._log.first = position


class WorkerLog:
    """The logs of all partitions as one process has them.

    Parameters
    ----------
    logs
        The logs.
    worker
        Process that uses them.
    corpus_id
        Id of the corpus.
    """

    def __init__(self, logs: Sequence[ArchivedLog], worker: LogWriter, corpus_id: str) -> None:
        self._logs = logs
        self._worker = worker
        self._corpus_id = corpus_id
        self._ledgers = [WorkerLedger(log, worker) for log in logs]

    @property
    def n_partitions(self) -> int:
        return len(self._logs)

    @property
    def corpus_id(self) -> str | None:
        return self._corpus_id

    def identify(self, corpus_id: str) -> None:
        assert corpus_id == self._corpus_id

    def partition(self, i: int) -> WorkerLedger:
        return self._ledgers[i]

    def reopen_partition(self, i: int) -> WorkerLedger:
        self._ledgers[i] = WorkerLedger(self._logs[i], self._worker)
        return self._ledgers[i]

    def close(self) -> None:
        pass
