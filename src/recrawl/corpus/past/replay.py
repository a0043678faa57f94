"""Rebuild a partition as of an earlier time: the nearest earlier snapshot, then the log.

This happens in memory.  It changes nothing on disk and needs no lock, so it works while another
process writes.  The result is bit for bit the shard that the node had then, because the same log
always gives the same shard.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from recrawl.corpus.inspect.explanation import PageExplanation, page_explanation
from recrawl.corpus.view import CorpusView
from recrawl.errors import (
    LedgerError,
    PageElsewhere,
    PartitionAway,
    RecoveryError,
    SnapshotError,
    TimeLost,
)
from recrawl.giving_way import give_way
from recrawl.ledger import Ledger, SavedSnapshot
from recrawl.messages.results import RowStatus
from recrawl.node.durability.recovery import Partition, initial_shard, restore_shard
from recrawl.node.node import apply_entry, use_logged_price
from recrawl.node.records import LogEntry, entry_of, without_key
from recrawl.node.routing import split_by_partition
from recrawl.shard import Claimed, LeasesExpired, Ordered, Shard, Ticked
from recrawl.shard.state.snapshot import restore_tables
from recrawl.units import instant_text

__all__ = [
    "HasTime",
    "LogTime",
    "OnRecord",
    "ReplayStart",
    "Step",
    "earliest_ms",
    "explain_page_at",
    "locate_page",
    "log_start_time",
    "nearest_start",
    "shard_at",
    "shard_of",
    "steps",
]

OnRecord: TypeAlias = Callable[[int], None]

_BROKEN = (SnapshotError, LedgerError, OSError, ValueError)


class ReplayStart(NamedTuple):
    """A shard and the position of the log from which replay continues."""

    shard: Shard
    position: int


class HasTime(Protocol):
    """Something with an epoch and a time, such as a shard."""

    @property
    def epoch(self) -> int:
        """The epoch of the partition's owner; decisions of other epochs do not count."""
        ...

    @property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        ...


@dataclass(slots=True)
class LogTime:
    """Time and epoch at a position of a log, for reading records without applying them."""

    epoch: int
    now_ms: int

    def follow(self, step: "Step") -> None:
        """Advance to the time after a step."""
        self.now_ms = step.at_ms
        if isinstance(step.happening, Claimed):
            self.epoch = max(self.epoch, int(step.happening.epoch.max()))


class Step(NamedTuple):
    """One record of the log, before it is applied."""

    position: int
    happening: LogEntry
    at_ms: int
    """Time of the shard after the entry has been applied."""


def locate_page(corpus: CorpusView, url: str, key: str | None = None) -> tuple[int, int] | None:
    """Return the partition and the number of a page; None if it is not tracked."""
    by = corpus.config.corpus.group_by
    row_status = np.zeros(1, np.uint8)
    for node, _, name, _ in corpus.nodes.split(
        [url], by, key=key, row_status=row_status, in_parts=corpus.is_for_parts
    ):
        with node.lock:
            page = int(node.store.pages_of(name)[0])
        return (node.partition, page) if page >= 0 else None
    if row_status[0] == RowStatus.ELSEWHERE:
        raise PageElsewhere("the partition that may have the page is not open here")
    for partition, *_ in split_by_partition([url], corpus.nodes.n_partitions, by, key=key):
        raise PartitionAway(partition)
    return None


def _time_after(time: HasTime, happening: LogEntry) -> int:
    """Return the time once a happening has been applied."""
    match happening:
        case Ticked() | Ordered() | LeasesExpired():
            own = happening.at_ms[happening.epoch == time.epoch]
        case Claimed():
            own = happening.at_ms[happening.epoch > time.epoch]
        case _:
            return time.now_ms
    return max(int(own.max(initial=0)), time.now_ms)


def steps(
    ledger: Ledger,
    position: int,
    time: HasTime,
    *,
    until: int | None = None,
    schemas: frozenset[int] | None = None,
    on_record: OnRecord | None = None,
) -> Iterator[Step]:
    """Yield the entries of a log from a position on; apply each step before taking the next.

    Parameters
    ----------
    ledger
        Log of the partition.
    position
        Position of the first entry.
    time
        Shard at that position, or its time; it advances as steps are applied.
    until
        Position to stop at; the current end of the log by default.
    schemas
        Kinds of records to yield; all by default.
    on_record
        Called with 1 for each record that is read.
    """
    end = ledger.end if until is None else until
    while position < end:
        found = ledger.read(position)
        if not found:
            return
        for at, record in found:
            if at >= end:
                return
            if on_record is not None:
                on_record(1)
            give_way()
            inner = without_key(record)
            if schemas is None or inner.schema in schemas:
                happening = entry_of(inner)
                yield Step(at, happening, _time_after(time, happening))
        position = found[-1][0] + 1


def _time_of(saved: SavedSnapshot) -> LogTime | None:
    """Return the time and epoch of a snapshot; None if it cannot be read."""
    try:
        registers = restore_tables(saved.manifest(), saved.columns(), check=False)[0].registers
    except _BROKEN:
        return None
    return LogTime(int(registers.epoch[0]), int(registers.now[0]))


def shard_of(saved: SavedSnapshot) -> Shard | None:
    """Return the shard of a snapshot; None if it is broken or of an unknown version."""
    try:
        return restore_shard(saved, is_reader=False)
    except RecoveryError:
        return None


def _usable_snapshots(partition: Partition) -> list[tuple[LogTime, SavedSnapshot]]:
    """Return the snapshots at which the log continues, with their times, newest first."""
    first, end = partition.ledger.first, partition.ledger.end
    timed = [(_time_of(saved), saved) for saved in partition.snapshots.list_saved()]
    return [
        (time, saved)
        for time, saved in timed
        if time is not None and first <= saved.position <= end
    ]


def log_start_time(partition: Partition) -> LogTime:
    """Return the time at the first position of a log; 0 if nothing of the log was deleted."""
    usable = _usable_snapshots(partition)
    is_begun = partition.ledger.first == 0 or not usable
    return LogTime(0, 0) if is_begun else usable[-1][0]


def _is_whole(partition: Partition) -> bool:
    """Return whether replay can start with nothing: the log has its beginning, and all pages."""
    return partition.ledger.first == 0 and not partition.begins_with_snapshot


def nearest_start(partition: Partition, at_ms: int | None = None) -> ReplayStart:
    """Return the nearest shard at or before a time from which replay can start.

    Parameters
    ----------
    partition
        Partition to replay.
    at_ms
        Time in milliseconds since 1970; None for the earliest possible start.

    Raises
    ------
    TimeLost
        If every usable snapshot is later, and the beginning of the log has been deleted, or does
        not have the pages that came from other partitions.
    """
    usable = _usable_snapshots(partition)
    if at_ms is None:
        if _is_whole(partition):
            return ReplayStart(initial_shard(partition.ledger), 0)
        usable.reverse()
    for time, saved in usable:
        if at_ms is not None and time.now_ms > at_ms:
            continue
        shard = shard_of(saved)
        if shard is not None:
            return ReplayStart(shard, saved.position)
    if _is_whole(partition):
        return ReplayStart(initial_shard(partition.ledger), 0)
    if not usable:
        raise TimeLost(f"partition {partition.number} has no usable snapshot")
    earliest = instant_text(usable[-1][0].now_ms)
    raise TimeLost(
        f"the log no longer reaches back to {instant_text(at_ms or 0)}: it begins at {earliest}"
    )


def earliest_ms(partition: Partition) -> int | None:
    """Return the earliest time that replay can reach; None if the log has everything."""
    if _is_whole(partition):
        return None
    usable = _usable_snapshots(partition)
    return usable[-1][0].now_ms if usable else None


def shard_at(partition: Partition, at_ms: int, *, on_record: OnRecord | None = None) -> Shard:
    """Return the shard as of a time, by replaying its log up to then.

    Parameters
    ----------
    partition
        Partition to replay.
    at_ms
        Time in milliseconds since 1970; for a later time than now, the current shard.
    on_record
        Called with 1 for each record that is read.

    Raises
    ------
    TimeLost
        If the log no longer reaches back to ``at_ms``.
    """
    past = nearest_start(partition, at_ms)
    for step in steps(partition.ledger, past.position, past.shard, on_record=on_record):
        if step.at_ms > at_ms:
            break
        apply_entry(past.shard, step.happening)
    use_logged_price(past.shard)
    return past.shard


def explain_page_at(
    corpus: CorpusView,
    url: str,
    at_ms: int,
    *,
    on_record: OnRecord | None = None,
    key: str | None = None,
) -> PageExplanation | None:
    """Return the explanation of a page as of a time; None if it was not tracked then.

    For a later time than now, the explanation assumes that nothing happens until then.

    Parameters
    ----------
    corpus
        Open corpus.  A page that has been removed since is not found.
    url
        URL of the page.
    at_ms
        Time in milliseconds since 1970.
    on_record
        Called with 1 for each record that is read.
    key
        Key of the page, in a corpus grouped by key.

    Raises
    ------
    TimeLost
        If the log no longer reaches back to ``at_ms``.
    """
    place = locate_page(corpus, url, key)
    if place is None:
        return None
    i, page = place
    node = corpus.nodes[i]
    shard = shard_at(corpus.partitions[i], at_ms, on_record=on_record)
    return page_explanation(shard, node.store, page, at_ms, is_past=True)
