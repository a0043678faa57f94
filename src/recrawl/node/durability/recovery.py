"""Rebuild a node from its newest snapshot and the log.

A snapshot is used only if its checksums are right; otherwise recovery uses an older snapshot and
more of the log.  A reader checks only the manifest and the small tables: checking all pages would
take longer than most queries.

The store has a position of its own, which may be before or after that of the snapshot; records that
the store has applied already are not written to it again.  A lost or corrupt store is replaced by
the checkpoint inside the snapshot, which is never behind that snapshot.

If snapshots are in shared storage, too, and the files here are missing or too old, the newest copy
replaces them first.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from recrawl.errors import (
    IdentityError,
    LedgerError,
    LogDamagedError,
    PositionLost,
    RecoveryError,
    SnapshotError,
    SnapshotFormatError,
    StorageError,
)
from recrawl.ledger import Ledger, SavedSnapshot, SnapshotFolder, SnapshotOrigin
from recrawl.node.content.judging import update_host_memory
from recrawl.node.durability.copied_table import copy_due_table
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.log_damage import PartitionEnds, lost_records_error
from recrawl.node.durability.shared_copies import fetch_newest
from recrawl.node.durability.store_repair import (
    CHECKPOINT,
    rebuild_damaged_store,
    replace_store,
)
from recrawl.node.node import Node, use_logged_price
from recrawl.node.records import CorpusIdentified, entry_of
from recrawl.node.shipped_due_table import shipped_due_table
from recrawl.shard import SettingsSet, Shard, ShardSettings, event_of
from recrawl.store import CHANGES_MAX, Store

if TYPE_CHECKING:
    from recrawl.ledger.shared_snapshots import SharedSnapshot

__all__ = [
    "CHECKPOINT",
    "Partition",
    "identity_entry",
    "initial_shard",
    "recover_node",
    "restore_shard",
    "settings_event",
]

logger = logging.getLogger(__name__)

_READER_ATTEMPTS = 5
_WRITER_ATTEMPTS = 3
# A log begins with the id of the corpus and the settings; that of 0.1.0 with the settings.
_BEGINNING_RECORDS = 2


class Partition(NamedTuple):
    """Locations of the parts of one partition."""

    number: int
    ledger: Ledger
    store_folder: Path
    snapshots: SnapshotFolder
    is_shared: bool = False
    """Whether other nodes may append to the log."""
    changes_max: int = CHANGES_MAX
    """Number of changes to keep in the feed."""
    is_synced: bool = True
    """Whether records are on disk before the store applies them."""
    corpus_id: str | None = None
    """Id of the corpus, which its log, store and snapshots must have; None to accept any."""
    generation: int = 0
    """Layout generation of the corpus."""
    reopen_ledger: Callable[[], Ledger] | None = None
    """Function that returns a new ledger after a failed append; None if the log has none."""
    n_partitions: int = 1
    """Number of partitions of the corpus, by which their stores share memory."""
    begins_with_snapshot: bool = False
    """Whether the log alone is not the whole partition: its pages came from other partitions."""


def settings_event(settings: ShardSettings) -> SettingsSet:
    """Return the event that logs settings."""
    return event_of(SettingsSet, settings=[settings.to_json()])


def identity_entry(format: CorpusFormat, partition: int) -> CorpusIdentified:
    """Return the first entry of the log of a partition."""
    return CorpusIdentified(
        np.array([partition]),
        np.array([format.partitions]),
        np.array([format.generation]),
        pa.array([format.corpus_id], pa.string()),
    )


def restore_shard(saved: SavedSnapshot, *, is_reader: bool) -> Shard | None:
    """Return the shard in a snapshot, None if the snapshot is corrupt."""
    try:
        shard, position = Shard.restore(
            saved.manifest(),
            saved.columns(),
            check="small" if is_reader else True,
            due_table=shipped_due_table(),
            copy_table=copy_due_table,
        )
        if int(position) != saved.position:
            raise SnapshotError(f"its manifest has position {position}")
    except SnapshotFormatError as error:
        raise RecoveryError(f"snapshot {saved.folder} cannot be read: {error}") from error
    except (SnapshotError, LedgerError, OSError, ValueError) as error:
        logger.warning("snapshot %s is not used: %s", saved.folder, error)
        return None
    return shard


def initial_shard(ledger: Ledger) -> Shard:
    """Return an empty shard with the settings at the beginning of the log."""
    settings = None
    for position in range(min(ledger.end, _BEGINNING_RECORDS)):
        entry = entry_of(ledger.read(position, n_bytes_max=1)[0][1])
        if isinstance(entry, SettingsSet):
            settings = ShardSettings.from_json(str(entry.settings[0]))
            break
    return Shard(settings, due_table=shipped_due_table(), copy_table=copy_due_table)


def _check_origins(partition: Partition) -> None:
    """Raise `IdentityError` if the log or a snapshot belongs to another corpus or partition."""
    if partition.corpus_id is None:
        return
    wanted = SnapshotOrigin(partition.corpus_id, partition.number)
    found: list[tuple[str, SnapshotOrigin | None]] = []
    for saved in partition.snapshots.list_saved():
        with suppress(SnapshotError):  # a corrupt snapshot, which recovery leaves out
            found.append((f"snapshot {saved.folder}", saved.origin()))
    found.append(("the log", _origin_of_log(partition.ledger)))
    for what, origin in found:
        if origin is not None and origin != wanted:
            raise IdentityError(
                f"{what} belongs to corpus {origin.corpus_id}, partition {origin.partition}, but "
                f"{partition.store_folder.parent.parent} is corpus {wanted.corpus_id}, and this is "
                f"its partition {wanted.partition}. Nothing was changed. Put back the files of "
                "this corpus."
            )


def _origin_of_log(ledger: Ledger) -> SnapshotOrigin | None:
    """Return the corpus and partition in the first record; None if that says nothing about it."""
    first = ledger.first
    for _, record in ledger.read(first, n_bytes_max=1) if ledger.end > first else ():
        entry = entry_of(record)
        if isinstance(entry, CorpusIdentified):
            return SnapshotOrigin(str(entry.corpus_id[0]), int(entry.partition[0]))
    return None


def _newest_usable_snapshot(
    partition: Partition, first: int, end: int, *, is_reader: bool
) -> tuple[Shard, SavedSnapshot] | None:
    """Return the newest usable snapshot and its shard; None if there is none.

    Parameters
    ----------
    partition
        Partition of the snapshots.
    first, end
        Range of positions that the snapshot may have.
    is_reader
        Whether to leave corrupt snapshots in place.
    """
    corrupt: list[SavedSnapshot] = []
    for saved in partition.snapshots.list_saved():
        if not first <= saved.position <= end:
            continue
        shard = restore_shard(saved, is_reader=is_reader)
        if shard is not None:
            for other in [] if is_reader else corrupt:
                # Otherwise it would count among those kept, and the log be truncated too far.
                partition.snapshots.discard(other)
            return shard, saved
        corrupt.append(saved)
    return None


def _open_store(partition: Partition, end: int) -> Store | None:
    """Open the store; return None if it cannot be used."""
    try:
        store = _store_of(partition)
    except StorageError as error:
        if type(error) is not StorageError:
            raise  # locked, or of a newer version, but not corrupt
        logger.warning("store %s is not used: %s", partition.store_folder, error)
        if not _rebuild_store(partition):
            return None
        store = _store_of(partition)
    if store.position > end:
        with ExitStack() as closing:
            closing.callback(store.close)
            _check_log_end(partition, None, end, store.position)
        # After a power cut an unsynced log may have lost records that the store has applied.
        logger.warning(
            "store %s is at %d, but the log ends at %d: rebuilding the store",
            partition.store_folder,
            store.position,
            end,
        )
        return None
    return store


def _rebuild_store(partition: Partition) -> bool:
    """Rebuild the store if it is marked as damaged; return whether it was."""
    return rebuild_damaged_store(
        partition.store_folder,
        partition.ledger,
        partition.snapshots,
        begins_with_snapshot=partition.begins_with_snapshot,
    )


def _install_store(partition: Partition, checkpoint: Path | None) -> Store:
    """Replace the store by a checkpoint or an empty one; keep the old files as ``.broken``."""
    replace_store(partition.store_folder, checkpoint)
    return _store_of(partition)


def _store_of(partition: Partition) -> Store:
    return Store.open(
        partition.store_folder,
        changes_max=partition.changes_max,
        corpus_id=partition.corpus_id,
        partition=partition.number,
        n_partitions=partition.n_partitions,
        update_host=update_host_memory,
    )


def _check_log_end(
    partition: Partition, snapshot_position: int | None, end: int, store_position: int
) -> None:
    """Raise `LogDamagedError` if a snapshot or the store is ahead of the log.

    Without syncs a power cut may take records that the store has applied.  A snapshot waits in any
    case until its records are on disk.
    """
    found = PartitionEnds(
        partition.number,
        0,
        end,
        store_position if partition.is_synced else None,
        snapshot_position,
        None,
    )
    if not found.has_lost_records:
        return
    folder = partition.store_folder.parent.parent
    if partition.is_shared:
        raise LogDamagedError(
            f"{found}: the topic has lost records, or it is not the topic of the corpus in "
            f"{folder}. Nothing was changed. Check ledger.topic, and whether the brokers elect "
            "leaders that lack records (unclean.leader.election.enable). "
            f"`recrawl doctor --repair -C {folder}` continues from what the topic has, and keeps "
            "the store and the snapshots aside."
        )
    raise lost_records_error(folder, str(found))


def recover_node(partition: Partition, *, is_reader: bool = False) -> Node:
    """Rebuild the node of a partition, up to the end of its log.

    Raises
    ------
    RecoveryError
        If no snapshot is usable, and the log does not begin at 0.
    """
    if not is_reader:
        for _ in range(_WRITER_ATTEMPTS - 1):
            first = partition.ledger.first
            try:
                return _recover_writer(partition)
            except (PositionLost, RecoveryError):
                # The owner may truncate the log while the files here are brought up to date.
                if partition.ledger.first == first:
                    raise
        return _recover_writer(partition)
    for _ in range(_READER_ATTEMPTS - 1):
        # The writer may truncate the log or remove a snapshot meanwhile.
        with suppress(PositionLost, RecoveryError):
            return _recover_reader(partition)
    return _recover_reader(partition)


def _recover_reader(partition: Partition) -> Node:
    ledger = partition.ledger
    with ExitStack() as closing:
        _check_origins(partition)
        if not partition.store_folder.exists():
            raise RecoveryError(
                f"{partition.store_folder} is missing. The next command that changes the corpus "
                "rebuilds it from a snapshot and the log."
            )
        store = Store.open(
            partition.store_folder,
            mode="reader",
            corpus_id=partition.corpus_id,
            partition=partition.number,
        )
        closing.callback(store.close)
        newest = _newest_position(partition.snapshots.list_saved())
        first = ledger.first
        _check_log_end(partition, newest, ledger.end, store.position)
        start = _find_start(partition, first, ledger.end, is_reader=True)
        if start is None:
            raise _no_start_error(partition, first)
        node = _make_node(partition, start, store, is_reader=True)
        closing.pop_all()
    return node


def _recover_writer(partition: Partition) -> Node:
    ledger = partition.ledger
    _check_origins(partition)
    is_fetched = _fetch_shared_snapshot(partition)
    first, end = ledger.first, ledger.end
    _check_log_end(partition, _newest_position(partition.snapshots.list_saved()), end, 0)
    try:
        _rebuild_store(partition)
    except RecoveryError:
        is_fetched = _fetch_shared_snapshot(partition, is_forced=True)
        if not is_fetched:
            raise
    with ExitStack() as closing:
        store = None if is_fetched else _open_store(partition, end)
        start = None
        if store is not None:
            closing.callback(store.close)
            # The store must not be behind the shard, which could not provide the missing records.
            start = _find_start(partition, first, store.position, is_reader=False)
        if start is None:
            closing.close()
            start = _find_start(partition, first, end, is_reader=False)
            if start is None and _fetch_shared_snapshot(partition, is_forced=True):
                start = _find_start(partition, first, ledger.end, is_reader=False)
            if start is None:
                raise _no_start_error(partition, first)
            saved = start[1]
            store = _install_store(partition, None if saved is None else saved.folder / CHECKPOINT)
            closing.callback(store.close)
        assert store is not None
        node = _make_node(partition, start, store, is_reader=False)
        closing.pop_all()
    return node


def _newest_position(snapshots: "Sequence[SavedSnapshot | SharedSnapshot]") -> int | None:
    return max((one.position for one in snapshots), default=None)


def _fetch_shared_snapshot(partition: Partition, *, is_forced: bool = False) -> bool:
    """Fetch a snapshot from shared storage if the files here are missing or too old, or damaged.

    Returns whether the store here was removed for it.
    """
    shared = partition.snapshots.shared
    if shared is None:
        return False
    try:
        copies = shared.list_complete()
    except LedgerError as error:
        logger.warning("shared storage is not used: %s", error)
        return False
    # Nothing here may be removed if it, or a copy, shows that the log has lost records.
    newest = _newest_position([*partition.snapshots.list_saved(), *copies])
    _check_log_end(partition, newest, partition.ledger.end, _store_position(partition))
    return fetch_newest(
        partition.snapshots,
        copies,
        partition.store_folder,
        partition.ledger,
        is_forced=is_forced,
    )


def _store_position(partition: Partition) -> int:
    """Return the position of the store; 0 if there is none, or it cannot be read."""
    try:
        with Store.open(partition.store_folder, mode="reader") as store:
            return store.position
    except StorageError:
        return 0


def _find_start(
    partition: Partition, first: int, end: int, *, is_reader: bool
) -> tuple[Shard, SavedSnapshot | None] | None:
    """Return the shard to replay the log on: from a snapshot, or an empty one."""
    found = _newest_usable_snapshot(partition, first, end, is_reader=is_reader)
    if found is not None or first > 0:
        return found
    # Without any record it is the log of a new corpus, whatever the name of its topic.
    if partition.begins_with_snapshot and partition.ledger.end > 0:
        return None
    return initial_shard(partition.ledger), None


def _make_node(
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
        generation=partition.generation,
        reopen_ledger=partition.reopen_ledger,
    )
    node.follow()
    if is_reader or float(shard.tables.registers.price[0]) > 0:
        use_logged_price(shard)
    return node


def _no_start_error(partition: Partition, first: int) -> RecoveryError:
    if first == 0:
        return RecoveryError(
            f"partition {partition.number} cannot be recovered: no snapshot can be used, and the "
            "log does not have the pages from before the number of partitions was changed. Check "
            "whether the storage of snapshots.shared can be read, or restore the snapshots folder "
            "from a backup."
        )
    return RecoveryError(
        f"partition {partition.number} cannot be recovered: no snapshot can be used, and the log "
        f"begins at {first} instead of 0. Restore the snapshots folder from a backup."
    )
