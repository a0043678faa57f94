"""Coming back: the newest snapshot that is whole, then the log from there on.

A snapshot is believed only if its checksums are right; otherwise the one before it and more of the
log take over.  Who only reads goes by those of the manifest and of the small tables: to read all
pages would take longer than most of what is asked.

The store has a position of its own and may be ahead of the snapshot (what it holds already is not
written again) or behind it; it is never behind the snapshot whose checkpoint it is, so a store that
is lost or broken is replaced by that checkpoint.
"""

import logging
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from recrawl.errors import (
    LedgerError,
    PositionLost,
    RecoveryError,
    SnapshotError,
    SnapshotFormatError,
    StorageError,
)
from recrawl.ledger import Ledger, SavedSnapshot, SnapshotFolder
from recrawl.node.node import Node, follow_price
from recrawl.node.records import happening_of
from recrawl.node.shipped_due_table import kept_due_table
from recrawl.shard import SettingsSet, Shard, ShardSettings, event_of
from recrawl.store import CHANGES_MAX, Store

__all__ = ["Partition", "recovered", "settings_event"]

logger = logging.getLogger(__name__)

CHECKPOINT = "store"
_READER_ATTEMPTS = 5


class Partition(NamedTuple):
    """Where the parts of one partition are."""

    number: int
    ledger: Ledger
    store_folder: Path
    snapshots: SnapshotFolder
    is_shared: bool = False
    """Whether others may append to the log."""
    changes_max: int = CHANGES_MAX
    """Changes to keep."""


def settings_event(settings: ShardSettings) -> SettingsSet:
    """Return settings as an event."""
    return event_of(SettingsSet, settings=[settings.to_json()])


def _restored(saved: SavedSnapshot, *, is_reader: bool) -> Shard | None:
    """Return the shard of a snapshot, or None if it is broken."""
    try:
        shard, position = Shard.restore(
            saved.manifest(),
            saved.columns(),
            check="small" if is_reader else True,
            due_table=kept_due_table(),
        )
        if int(position) != saved.position:
            raise SnapshotError(f"it is of position {position}")
    except SnapshotFormatError as error:
        raise RecoveryError(f"snapshot {saved.folder} cannot be read: {error}") from error
    except (SnapshotError, LedgerError, OSError, ValueError) as error:
        logger.warning("snapshot %s is not used: %s", saved.folder, error)
        return None
    return shard


def _from_the_beginning(ledger: Ledger) -> Shard:
    """Return a shard to which nothing has happened, made with the settings of the first record."""
    found = ledger.read(0, n_bytes_max=1)
    if found:
        first = happening_of(found[0][1])
        if isinstance(first, SettingsSet):
            settings = ShardSettings.from_json(str(first.settings[0]))
            return Shard(settings, due_table=kept_due_table())
    return Shard(due_table=kept_due_table())


def _newest(
    partition: Partition, first: int, end: int, *, is_reader: bool
) -> tuple[Shard, SavedSnapshot] | None:
    """Return the newest shard from which the log goes on, and its snapshot; None if there is none.

    Parameters
    ----------
    partition
        Whose snapshots are looked at.
    first, end
        Positions between which it has to be.
    is_reader
        Leaves broken snapshots where they are.
    """
    broken: list[SavedSnapshot] = []
    for saved in partition.snapshots.saved():
        if not first <= saved.position <= end:
            continue
        shard = _restored(saved, is_reader=is_reader)
        if shard is not None:
            for other in [] if is_reader else broken:
                # Or it would count among those kept, and the log would rely on it.
                partition.snapshots.discard(other)
            return shard, saved
        broken.append(saved)
    return None


def _open_store(partition: Partition, end: int) -> Store | None:
    """Return the store, or None if it cannot be used."""
    try:
        store = Store.open(partition.store_folder, changes_max=partition.changes_max)
    except StorageError as error:
        if type(error) is not StorageError:
            raise  # open elsewhere, or of a newer version: nothing is broken
        logger.warning("store %s is not used: %s", partition.store_folder, error)
        return None
    if store.position > end:
        # The log has lost what the store was told: it was not synced, and the power went.
        logger.warning(
            "store %s is at %d, the log ends at %d: it is made anew",
            partition.store_folder,
            store.position,
            end,
        )
        store.close()
        return None
    return store


def _install(partition: Partition, checkpoint: Path | None) -> Store:
    """Return a store made from a checkpoint, or an empty one; what was there is put aside."""
    folder = partition.store_folder
    if folder.exists():
        aside = folder.with_name(folder.name + ".broken")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    if checkpoint is not None:
        shutil.copytree(checkpoint, folder)
    return Store.open(folder, changes_max=partition.changes_max)


def _forget_the_future(partition: Partition, end: int) -> None:
    """Remove snapshots of what the log has lost: other records will stand at their positions."""
    for saved in partition.snapshots.saved():
        if saved.position <= end:
            break
        if partition.is_shared:
            raise RecoveryError(
                f"{saved.folder} is of position {saved.position}, and the log ends at {end}: it "
                "is not the log of this corpus"
            )
        logger.warning("snapshot %s is removed: the log ends at %d", saved.folder, end)
        partition.snapshots.discard(saved)


def recovered(partition: Partition, *, is_reader: bool = False) -> Node:
    """Return the node of a partition, at the end of its log.

    Raises
    ------
    RecoveryError
        If neither a snapshot nor the beginning of the log is there.
    """
    if not is_reader:
        return _recovered_to_write(partition)
    for _ in range(_READER_ATTEMPTS - 1):
        # The writer may forget some of the log, or a snapshot, while it is read.
        with suppress(PositionLost, RecoveryError):
            return _recovered_to_read(partition)
    return _recovered_to_read(partition)


def _recovered_to_read(partition: Partition) -> Node:
    ledger = partition.ledger
    with ExitStack() as closing:
        store = Store.open(partition.store_folder, mode="reader")
        closing.callback(store.close)
        first = ledger.first
        start = _start(partition, first, ledger.end, is_reader=True)
        if start is None:
            raise _nothing_to_go_on_from(partition, first)
        node = _node(partition, start, store, is_reader=True)
        closing.pop_all()
    return node


def _recovered_to_write(partition: Partition) -> Node:
    ledger = partition.ledger
    first, end = ledger.first, ledger.end
    _forget_the_future(partition, end)
    with ExitStack() as closing:
        store = _open_store(partition, end)
        start = None
        if store is not None:
            closing.callback(store.close)
            # Not behind the shard: it could not be told what is missing.
            start = _start(partition, first, store.position, is_reader=False)
        if start is None:
            closing.close()
            start = _start(partition, first, end, is_reader=False)
            if start is None:
                raise _nothing_to_go_on_from(partition, first)
            saved = start[1]
            store = _install(partition, None if saved is None else saved.folder / CHECKPOINT)
            closing.callback(store.close)
        assert store is not None
        node = _node(partition, start, store, is_reader=False)
        closing.pop_all()
    return node


def _start(
    partition: Partition, first: int, end: int, *, is_reader: bool
) -> tuple[Shard, SavedSnapshot | None] | None:
    """Return a shard from which the log goes on: of a snapshot, or that of its beginning."""
    found = _newest(partition, first, end, is_reader=is_reader)
    if found is None and first == 0:
        return _from_the_beginning(partition.ledger), None
    return found


def _node(
    partition: Partition,
    start: tuple[Shard, SavedSnapshot | None],
    store: Store,
    *,
    is_reader: bool,
) -> Node:
    shard, saved = start
    node = Node(
        shard=shard,
        ledger=partition.ledger,
        store=store,
        position=0 if saved is None else saved.position,
        partition=partition.number,
        is_reader=is_reader,
        is_shared=partition.is_shared,
    )
    node.follow()
    if is_reader or float(shard.tables.registers.price[0]) > 0:
        follow_price(shard)
    return node


def _nothing_to_go_on_from(partition: Partition, first: int) -> RecoveryError:
    return RecoveryError(
        f"partition {partition.number}: no snapshot can be used and the log begins at {first}"
    )
