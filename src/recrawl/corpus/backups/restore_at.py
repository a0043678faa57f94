"""Restore a corpus on Kafka as it was at a time, from shared storage and what the topic has.

The restored corpus has a log of its own, in its folder: the records of the topic from the snapshot
up to that time.  So nothing that it does reaches the topic, and the corpus that it is a copy of can
go on meanwhile.  Its stores are brought up to date, so that commands that only read can be used.
"""

import logging
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recrawl.atomic_files import create_folder, replace_json, sync_tree
from recrawl.corpus.backups.restore import check_is_empty, remove_contents
from recrawl.corpus.backups.restore_source import RestoreSource, open_restore_source
from recrawl.corpus.past.replay import LogTime, steps
from recrawl.errors import BackupError, SnapshotError
from recrawl.ledger import Ledger, RocksLog, SavedSnapshot, SnapshotFolder, SnapshotOrigin
from recrawl.node.durability.corpus_format import CorpusFormat, write_format
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.durability.shared_copies import SharedPartitions, epoch_and_time
from recrawl.node.durability.store_repair import CHECKPOINT, is_intact, replace_store
from recrawl.node.records import LogEntry
from recrawl.shard import Closed
from recrawl.units import exact_instant_text

if TYPE_CHECKING:
    from recrawl.ledger.shared_snapshots import SharedSnapshots

__all__ = ["RestoredAt", "restore_corpus_at"]

logger = logging.getLogger(__name__)


class RestoredAt(NamedTuple):
    """A corpus that was restored as of a time."""

    at_ms: int
    """Time that was asked for, in milliseconds since 1970."""
    reached_ms: int
    """Time as of which the partition is that is furthest behind: ``at_ms``, or earlier if the topic
    does not have all records up to then."""
    n_partitions: int
    n_snapshot_only: int
    """Number of partitions that are as of their snapshots, after which the topic has lost records.
    """
    n_records: int
    """Number of records of the topic that were copied."""


class _RestoredPartition(NamedTuple):
    reached_ms: int
    n_records: int
    has_log: bool


def restore_corpus_at(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], at_ms: int
) -> RestoredAt:
    """Restore a corpus on Kafka into an empty folder, as it was at a time.

    Each partition begins with its latest intact snapshot in shared storage from before that time,
    and continues with the records of the topic up to then, if the topic still has them.  The
    restored corpus has its log in its folder, and never writes to the topic.

    Parameters
    ----------
    source
        Folder of the corpus, or one with its ``recrawl.toml``.  It is only read, and other
        processes may use it.
    folder
        Folder of the restored corpus; it must be empty or not exist.
    at_ms
        Time in milliseconds since 1970.

    Raises
    ------
    BackupError
        If the folder is not empty, the corpus did not exist at that time, or a partition has
        neither a snapshot from before that time nor its whole log, also because the number of
        partitions has changed since; nothing is restored then.
    ConfigError
        If the corpus has no shared storage.
    """
    target = Path(folder).resolve()
    check_is_empty(target)
    with open_restore_source(Path(source).resolve(), at_ms) as found:
        is_new = not target.exists()
        try:
            return _restore(found, target, at_ms)
        except BaseException as error:
            remove_contents(target, is_new=is_new)
            if isinstance(error, OSError):
                raise BackupError(f"{target} cannot be written: {error}") from error
            raise


def _restore(source: RestoreSource, target: Path, at_ms: int) -> RestoredAt:
    """Restore all partitions; FORMAT comes last, because a folder without it is not a corpus."""
    shape = source.shape
    assert shape.corpus_id is not None
    began_ms = _begin_ms(source)
    if began_ms is not None and at_ms < began_ms:
        raise BackupError(
            f"the corpus did not exist at {exact_instant_text(at_ms)}: it began at "
            f"{exact_instant_text(began_ms)}. Nothing was restored."
        )
    shared = SharedPartitions(source.config.snapshots)
    create_folder(target / "store")
    restored = []
    with RocksLog.open(
        target / "log", shape.partitions, durability="os", corpus_id=shape.corpus_id
    ) as new_log:
        for i in range(shape.partitions):
            ledger = None if source.log is None else source.log.partition(i)
            copies = shared.of(shape.corpus_id, i)
            assert copies is not None
            saved = _fetch_before(copies, target, SnapshotOrigin(shape.corpus_id, i), at_ms)
            if saved is None and shape.logs_lack_pages:
                raise _before_resize_error(shape, i, at_ms)
            if saved is None and (ledger is None or ledger.first > 0):
                raise _no_start_error(copies, i, at_ms)
            restored.append(_restore_partition(i, saved, ledger, new_log, target, at_ms))
            _complete_store(source, i, new_log, target)
            new_log.partition(i).sync()
    tables = source.config.to_dict()
    del tables["ledger"], tables["snapshots"]["shared"]
    replace_json(target / "last-config.json", tables)
    sync_tree(target)
    write_format(target, replace(shape, ledger="rocksdb", topic=None))
    return RestoredAt(
        at_ms,
        min(one.reached_ms for one in restored),
        shape.partitions,
        sum(not one.has_log for one in restored),
        sum(one.n_records for one in restored),
    )


def _begin_ms(source: RestoreSource) -> int | None:
    """Return the first time in the logs of a corpus; None if they do not say when it began.

    Logs of partitions that came from others begin later than the corpus.
    """
    if source.log is None or source.shape.logs_lack_pages:
        return None
    found = []
    for i in range(source.shape.partitions):
        ledger = source.log.partition(i)
        if ledger.first > 0:
            return None
        found.append(_first_time_ms(ledger))
    return min((at_ms for at_ms in found if at_ms is not None), default=None)


def _first_time_ms(ledger: Ledger) -> int | None:
    time = LogTime(0, 0)
    for step in steps(ledger, 0, time):
        if step.at_ms > 0:
            return step.at_ms
        time.follow(step)
    return None


def _complete_store(source: RestoreSource, i: int, new_log: RocksLog, target: Path) -> None:
    """Apply the copied records to the store of a partition, as the first writer would do.

    Commands that only read cannot do that, and would not find what is in the log alone.
    """
    shape = source.shape
    assert shape.corpus_id is not None
    node = recover_node(
        Partition(
            i,
            new_log.partition(i),
            target / "store" / str(i),
            SnapshotFolder(
                target / "snapshots" / str(i), origin=SnapshotOrigin(shape.corpus_id, i)
            ),
            changes_max=source.config.changes.kept_max,
            corpus_id=shape.corpus_id,
            generation=shape.generation,
            n_partitions=shape.partitions,
        )
    )
    node.close()


def _fetch_before(
    copies: "SharedSnapshots", target: Path, origin: SnapshotOrigin, at_ms: int
) -> SavedSnapshot | None:
    """Fetch the latest intact snapshot from before a time; None if there is none."""
    folder = SnapshotFolder(target / "snapshots" / str(origin.partition), origin=origin)
    for one in copies.list_complete():
        try:
            if copies.time_of(one) <= at_ms:
                return copies.restore(one, folder, before_adding=_check_intact)
        except SnapshotError as error:
            logger.warning("the shared snapshot %s is not used: %s", one.path, error)
    return None


def _check_intact(copy: SavedSnapshot) -> None:
    if not is_intact(copy):
        raise SnapshotError("its checksums do not match")


def _before_resize_error(shape: CorpusFormat, partition: int, at_ms: int) -> BackupError:
    """Return the error for a time from which new partitions have nothing.

    Their log does not begin with their pages, which came from the old partitions.
    """
    return BackupError(
        f"partition {partition} cannot be restored: no intact snapshot is from before "
        f"{exact_instant_text(at_ms)}. The number of partitions was changed to {shape.partitions}, "
        "perhaps after that time. If the old topic still exists, make a folder with a "
        "recrawl.toml that names the old topic and the old number of partitions, and restore from "
        "that folder. Nothing was restored."
    )


def _no_start_error(copies: "SharedSnapshots", partition: int, at_ms: int) -> BackupError:
    """Return the error for a time of which neither the storage nor the topic has anything."""
    found = []
    for one in copies.list_complete():
        with suppress(SnapshotError):
            found.append(copies.time_of(one))
    oldest = f"; the oldest one is of {exact_instant_text(min(found))}" if found else ""
    return BackupError(
        f"partition {partition} cannot be restored: no intact snapshot is from before "
        f"{exact_instant_text(at_ms)}{oldest}, and the topic no longer has the records of that "
        "time. Nothing was restored."
    )


def _restore_partition(
    i: int,
    saved: SavedSnapshot | None,
    ledger: Ledger | None,
    new_log: RocksLog,
    target: Path,
    at_ms: int,
) -> _RestoredPartition:
    """Put a store and a log beside the snapshot of a partition."""
    position = 0 if saved is None else saved.position
    has_log = ledger is not None and ledger.first <= position <= ledger.end
    time = LogTime(0, 0) if saved is None else LogTime(*epoch_and_time(saved))
    if saved is not None:
        replace_store(target / "store" / str(i), saved.folder / CHECKPOINT)
        new_log.partition(i).begin_at(position)
    if ledger is None or not has_log:
        return _RestoredPartition(time.now_ms, 0, has_log=False)
    n_records, is_ended = _copy_records(ledger, position, time, new_log.partition(i), at_ms)
    return _RestoredPartition(time.now_ms if is_ended else at_ms, n_records, has_log=True)


def _copy_records(
    ledger: Ledger, begin: int, time: LogTime, new: Ledger, at_ms: int
) -> tuple[int, bool]:
    """Copy the records from a position up to a time; return their number, and if the log ends.

    A record that ends the log is not copied, nor what comes after it: the pages moved to other
    partitions then, and the restored corpus could never be written.
    """
    end = begin
    is_ended = False
    for step in steps(ledger, begin, time):
        is_ended = step.at_ms <= at_ms and _ends_log(step.happening, time)
        if step.at_ms > at_ms or is_ended:
            break
        time.follow(step)
        end = step.position + 1
    position = begin
    while position < end:
        found = [one for one in ledger.read(position) if one[0] < end]
        new.append([record for _, record in found])
        position = found[-1][0] + 1
    return end - begin, is_ended


def _ends_log(entry: LogEntry, time: LogTime) -> bool:
    """Return whether an entry ends the log of its partition; one of another epoch is void."""
    return isinstance(entry, Closed) and bool((entry.epoch == time.epoch).any())
