"""A partition as it was: the nearest snapshot before, and the log from there, in memory.

Nothing on disk is touched, and no lock is needed: it works while another process writes.  What
was is the same shard, bit for bit, that the node had then, because the same log gives the same
shard.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from recrawl.corpus.corpus import Corpus
from recrawl.corpus.inspect.explanation import PageExplanation, page_explanation
from recrawl.errors import LedgerError, RecoveryError, SnapshotError, TimeLost
from recrawl.ledger import Ledger, SavedSnapshot
from recrawl.node.durability.recovery import Partition, _from_the_beginning, _restored
from recrawl.node.node import follow_price
from recrawl.node.records import Happening, Named, PagesNamed, PagesReported, happening_of
from recrawl.node.routing import routed
from recrawl.shard import Applied, Claimed, LeasesExpired, Ordered, Shard, Ticked
from recrawl.shard.state.snapshot import restored
from recrawl.units import instant_text

__all__ = [
    "LogTime",
    "OnStep",
    "Past",
    "Step",
    "Timed",
    "applied",
    "begun",
    "earliest_ms",
    "explained_at",
    "first_time",
    "place_of",
    "shard_at",
    "shard_of",
    "steps",
]

OnStep: TypeAlias = Callable[[int], None]

_NO_TRANSITION = np.zeros(0, np.uint8)
_BROKEN = (SnapshotError, LedgerError, OSError, ValueError)


class Past(NamedTuple):
    """A shard at a position of its log, to go on from."""

    shard: Shard
    position: int


class Timed(Protocol):
    """What tells whose decisions count and what time it is: a shard does."""

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        ...

    @property
    def now_ms(self) -> int:
        """The time."""
        ...


@dataclass(slots=True)
class LogTime:
    """Time and epoch of a log alone, for who reads records without applying them."""

    epoch: int
    now_ms: int

    def follow(self, step: "Step") -> None:
        """Move to the time after a step."""
        self.now_ms = step.at_ms
        if isinstance(step.happening, Claimed):
            self.epoch = max(self.epoch, int(step.happening.epoch.max()))


class Step(NamedTuple):
    """One record of the log, before it is applied."""

    position: int
    happening: Happening
    at_ms: int
    """The shard's time once it has been applied."""


def place_of(corpus: Corpus, url: str) -> tuple[int, int] | None:
    """Return the partition and the page of a URL; None if it is not kept."""
    config = corpus.config.corpus
    for i, _, canon, _ in routed([url], len(corpus.nodes), config.group_by):
        node = corpus.nodes[i]
        with node.lock:
            page = int(node.store.pages_of(canon)[0])
        return (i, page) if page >= 0 else None
    return None


def applied(shard: Shard, happening: Happening) -> Applied:
    """Apply what a record says to a shard alone, as a node does beside writing its store."""
    match happening:
        case PagesNamed(added, epoch):
            if not (epoch == shard.epoch).all():
                return Applied(np.zeros(epoch.size, np.bool_), _NO_TRANSITION)
            return shard.apply(added)
        case Named(epoch):
            return Applied(epoch == shard.epoch, _NO_TRANSITION)
        case PagesReported(outcomes):
            return shard.apply(outcomes)
    return shard.apply(happening)


def _time_after(time: Timed, happening: Happening) -> int:
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
    time: Timed,
    *,
    until: int | None = None,
    schemas: frozenset[int] | None = None,
    on_step: OnStep | None = None,
) -> Iterator[Step]:
    """Yield what the log holds from a position on; apply each step before asking for the next.

    Parameters
    ----------
    ledger
        Of the partition.
    position
        Where to begin.
    time
        Of the shard at that position; it moves as steps are applied.
    until
        A position to stop at; the log's end, as it is now, unless given.
    schemas
        Kinds of records to yield; all unless given.
    on_step
        Told of each record that is read: 1.
    """
    end = ledger.end if until is None else until
    while position < end:
        found = ledger.read(position)
        if not found:
            return
        for at, record in found:
            if at >= end:
                return
            if on_step is not None:
                on_step(1)
            if schemas is None or record.schema in schemas:
                happening = happening_of(record)
                yield Step(at, happening, _time_after(time, happening))
        position = found[-1][0] + 1


def _time_of(saved: SavedSnapshot) -> LogTime | None:
    """Return the time of a snapshot; None if it cannot be read."""
    try:
        registers = restored(saved.manifest(), saved.columns(), check=False)[0].registers
    except _BROKEN:
        return None
    return LogTime(int(registers.epoch[0]), int(registers.now[0]))


def shard_of(saved: SavedSnapshot) -> Shard | None:
    """Return the shard of a snapshot, None if it is broken or of a version not known."""
    try:
        return _restored(saved, is_reader=False)
    except RecoveryError:
        return None


def _usable(partition: Partition) -> list[tuple[LogTime, SavedSnapshot]]:
    """Return the snapshots that the log goes on from and their times, newest first."""
    first, end = partition.ledger.first, partition.ledger.end
    timed = [(_time_of(saved), saved) for saved in partition.snapshots.saved()]
    return [
        (time, saved)
        for time, saved in timed
        if time is not None and first <= saved.position <= end
    ]


def first_time(partition: Partition) -> LogTime:
    """Return the time at the first position of a log, 0 at the very beginning."""
    usable = _usable(partition)
    is_begun = partition.ledger.first == 0 or not usable
    return LogTime(0, 0) if is_begun else usable[-1][0]


def begun(partition: Partition, at_ms: int | None = None) -> Past:
    """Return the latest shard that is kept of a time no later than this.

    Parameters
    ----------
    partition
        Of the corpus.
    at_ms
        When; None for the oldest that there is.

    Raises
    ------
    TimeLost
        If all that is kept is of a later time.
    """
    usable = _usable(partition)
    if at_ms is None:
        if partition.ledger.first == 0:
            return Past(_from_the_beginning(partition.ledger), 0)
        usable.reverse()
    for time, saved in usable:
        if at_ms is not None and time.now_ms > at_ms:
            continue
        shard = shard_of(saved)
        if shard is not None:
            return Past(shard, saved.position)
    if partition.ledger.first == 0:
        return Past(_from_the_beginning(partition.ledger), 0)
    if not usable:
        raise TimeLost(f"partition {partition.number}: no snapshot can be used")
    earliest = instant_text(usable[-1][0].now_ms)
    raise TimeLost(
        f"the log no longer reaches so far back: the earliest that it knows is {earliest}"
    )


def earliest_ms(partition: Partition) -> int | None:
    """Return the earliest time that can be asked about; None if that is the beginning."""
    if partition.ledger.first == 0:
        return None
    usable = _usable(partition)
    return usable[-1][0].now_ms if usable else None


def shard_at(partition: Partition, at_ms: int, *, on_step: OnStep | None = None) -> Shard:
    """Return the shard as it was at a time: all that its log says happened until then.

    Parameters
    ----------
    partition
        Of the corpus.
    at_ms
        When; of a time to come, the shard as it is.
    on_step
        Told of each record that is read: 1.

    Raises
    ------
    TimeLost
        If the log no longer reaches so far back.
    """
    past = begun(partition, at_ms)
    for step in steps(partition.ledger, past.position, past.shard, on_step=on_step):
        if step.at_ms > at_ms:
            break
        applied(past.shard, step.happening)
    follow_price(past.shard)
    return past.shard


def explained_at(
    corpus: Corpus, url: str, at_ms: int, *, on_step: OnStep | None = None
) -> PageExplanation | None:
    """Return what was known of a page at a time; None if it was not kept then.

    Of a time to come: what will be, if nothing happens until then.

    Parameters
    ----------
    corpus
        As it is now; a page that has been removed since is not found.
    url
        Of the page.
    at_ms
        When.
    on_step
        Told of each record that is read: 1.

    Raises
    ------
    TimeLost
        If the log no longer reaches so far back.
    """
    place = place_of(corpus, url)
    if place is None:
        return None
    i, page = place
    node = corpus.nodes[i]
    shard = shard_at(corpus.partitions[i], at_ms, on_step=on_step)
    return page_explanation(shard, node.store, page, at_ms, is_past=True)
