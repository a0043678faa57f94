"""Take snapshots in the background: copy pieces under the node's lock, write them without it.

A snapshot is the columns of the shard at one position and, taken a moment later, a checkpoint of
the store.  The log is kept from the oldest kept snapshot on, so that a corrupt snapshot costs only
time, and a little of it from before, which is the history of the pages of a small corpus.  If there
is shared storage, snapshots are copied there, and only the copies count.
"""

import logging
import math
import threading
from collections.abc import Iterable

from recrawl.errors import RecrawlError
from recrawl.kv import return_free_memory
from recrawl.ledger import Ledger, SavedSnapshot, SnapshotFolder
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig, SnapshotsConfig
from recrawl.node.durability.file_checks import check_database, check_snapshot
from recrawl.node.durability.recovery import CHECKPOINT
from recrawl.node.durability.shared_copies import SharedCopies
from recrawl.node.node import Node
from recrawl.shard.state.snapshot import reserve_room
from recrawl.shard.state.tables import Pages, bytes_per_row

__all__ = ["HISTORY_BYTES_MAX", "Snapshotter", "take_snapshot"]

HISTORY_BYTES_MAX = 4 << 20
"""Largest number of bytes of records that the log keeps before its oldest snapshot."""

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
_HISTORY_READ_BYTES = 1 << 20
# A log longer than this share of the columns, and than this minimum, triggers a snapshot before its
# time: this bounds both the length of a replay and the bytes written for snapshots.
_LOG_SHARE_MAX = 0.25
_LOG_BYTES_MIN = 128 << 20
_PAGE_BYTES = sum(bytes_per_row(Pages).values())


def take_snapshot(node: Node, snapshots: SnapshotFolder) -> int:
    """Take a snapshot of a node that keeps working; return the position of the snapshot.

    The log is truncated, unless snapshots are in shared storage, too.
    """
    room = reserve_room(node.shard.tables)
    with node.lock:
        node.raise_if_failed()
        position = node.position
        snapshot = node.shard.snapshot(str(position), room)
    draft = snapshots.begin(position)
    try:
        while True:
            with node.lock:
                copied = snapshot.copy_next()
            if copied is None:
                break
            for piece in snapshot.make_pieces(copied):
                draft.write(*piece)
        # The file must be as long as the manifest says; zeros between pieces take no space.
        draft.write(snapshot.n_bytes - 1, b"\0")
        with node.lock:
            node.store.save_position()
        # Its position may be later: a replay skips what the store has applied already.
        node.store.checkpoint(draft.folder / CHECKPOINT)
        # A power cut must not take records from the log that the snapshot has applied.
        node.ledger.sync()
        node.raise_if_failed()
        draft.commit(snapshot.manifest)
    except BaseException:
        draft.abandon()
        raise
    saved = snapshots.list_saved()
    if len(saved) >= snapshots.keep and node.is_owner and snapshots.shared is None:
        # Only the owner truncates: the snapshots of another owner may be older.
        oldest = saved[-1].position
        # A shared log is kept by its brokers, and reading it takes long.
        begin = oldest if node.is_shared else _history_begin(node.ledger, oldest)
        # Without the node's lock, because a disk is synced or a broker may be away meanwhile, and
        # calls use only later records.
        node.ledger.truncate(begin)
    return position


def _history_begin(ledger: Ledger, oldest: int) -> int:
    """Return the position from which on the log is kept as history, at most ``oldest``.

    If there is too much, half of what may be kept stays, so that this happens rarely.
    """
    begin, n_bytes = ledger.first, 0
    sizes: list[tuple[int, int]] = []
    while begin < oldest and n_bytes <= HISTORY_BYTES_MAX:
        for position, record in ledger.read(begin, n_bytes_max=_HISTORY_READ_BYTES):
            begin = position + 1
            if begin <= oldest:
                sizes.append((begin, len(record.data)))
                n_bytes += len(record.data)
    if n_bytes <= HISTORY_BYTES_MAX:
        return ledger.first
    if begin < oldest:
        return oldest  # far too much, which would take long to read
    for after, n in sizes:
        n_bytes -= n
        if n_bytes <= HISTORY_BYTES_MAX // 2:
            return after
    return oldest


def _age_ms(snapshot: SavedSnapshot, clock: Clock) -> int:
    """Return the time since a snapshot was written, by the dates of its folder."""
    try:
        written_ms = snapshot.folder.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0  # removed meanwhile, because there is a newer one
    return max(clock.wall_ms() - written_ms, 0)


class _NodeSnapshots:
    """The snapshots of one node.

    Parameters
    ----------
    node
        Node of the partition.
    folder
        Folder of its snapshots.
    config
        Configuration of snapshots.
    clock
        Time source.
    """

    def __init__(
        self, node: Node, folder: SnapshotFolder, config: SnapshotsConfig, clock: Clock
    ) -> None:
        self.node, self.folder = node, folder
        self.copies: SharedCopies | None = None
        if folder.shared is not None:
            self.copies = SharedCopies(node, folder, folder.shared, config, clock)
        saved = folder.list_saved()
        self.position = saved[0].position if saved else 0
        self.taken_ms = clock.running_ms()
        # When the newest snapshot was complete, by the running clock; None if there is none.
        self.saved_ms = clock.running_ms() - _age_ms(saved[0], clock) if saved else None
        self.log_bytes = 0

    @property
    def n_records(self) -> int:
        """Number of log records after the newest snapshot."""
        return self.node.position - self.position

    @property
    def n_bytes(self) -> int:
        """Bytes logged or replayed since the newest snapshot of this process."""
        return self.node.log_bytes - self.log_bytes


class Snapshotter:
    """A thread that takes snapshots when enough time has passed or enough has been logged.

    Parameters
    ----------
    nodes
        Nodes and the folders of their snapshots.
    config
        Configuration of snapshots and of the change feed.
    clock
        Time source.
    """

    def __init__(
        self, nodes: Iterable[tuple[Node, SnapshotFolder]], config: CorpusConfig, clock: Clock
    ) -> None:
        self._config = config.snapshots
        self._changes_kept_ms = config.changes.kept_for * 1000
        self._clock = clock
        self._stop = threading.Event()
        self._taking = threading.Lock()
        self._partitions = {
            node.partition: _NodeSnapshots(node, folder, config.snapshots, clock)
            for node, folder in nodes
        }
        self._thread = threading.Thread(target=self._run, name="recrawl-snapshots", daemon=True)

    def add(self, node: Node, folder: SnapshotFolder) -> None:
        """Take snapshots of another node from now on."""
        taken = _NodeSnapshots(node, folder, self._config, self._clock)
        self._partitions[node.partition] = taken

    def take(self, partition: int) -> None:
        """Take a snapshot of a partition now, if it has new records."""
        taken = self._partitions[partition]
        if taken.n_records > 0:
            self._take(taken)

    def remove(self, partition: int) -> None:
        """Take no more snapshots of a partition, after the one in progress, and close its node."""
        taken = self._partitions.pop(partition)
        with self._taking:
            taken.node.close()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, after the snapshot in progress."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def age_seconds(self) -> float | None:
        """Return the age of the oldest of the partitions' newest snapshots; None without one."""
        oldest_ms = self._clock.running_ms()
        for taken in self._all():
            if taken.saved_ms is None:
                return None
            oldest_ms = min(oldest_ms, taken.saved_ms)
        return (self._clock.running_ms() - oldest_ms) / 1000

    def age_seconds_of(self, partition: int) -> float | None:
        """Return the age of the newest snapshot of a partition; None if it has none."""
        taken = self._partitions.get(partition)
        if taken is None or taken.saved_ms is None:
            return None
        return (self._clock.running_ms() - taken.saved_ms) / 1000

    def shared_age_seconds(self) -> float | None:
        """Return the time since a copy was stored in shared storage; None without such storage.

        Of the partition that waits longest; since it was added if none has been stored.
        """
        copies = [taken.copies for taken in self._all() if taken.copies is not None]
        return max((one.age_seconds() for one in copies), default=None)

    def shared_folders(self) -> list[str]:
        """Return the folders of the partitions' snapshots in shared storage."""
        return [taken.folder.shared.folder for taken in self._all() if taken.folder.shared]

    def n_records_since(self) -> int:
        """Return the number of log records after the snapshots, which a restart replays."""
        return sum(max(taken.n_records, 0) for taken in self._all())

    def _all(self) -> list[_NodeSnapshots]:
        return [*self._partitions.values()]

    def _run(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            for taken in self._all():
                if self._is_due(taken):
                    self._try(taken)
                if taken.copies is not None and taken.copies.is_due(taken.position):
                    self._share(taken, taken.copies)

    def _is_due(self, taken: _NodeSnapshots) -> bool:
        node, n_records, n_bytes = taken.node, taken.n_records, taken.n_bytes
        seconds = (self._clock.running_ms() - taken.taken_ms) / 1000
        columns_bytes = _PAGE_BYTES * int(node.shard.tables.registers.n_slots[0])
        return n_records > 0 and (
            n_records >= self._config.every_records
            or seconds >= self._config.every
            or n_bytes >= max(_LOG_SHARE_MAX * columns_bytes, _LOG_BYTES_MIN)
        )

    def _try(self, taken: _NodeSnapshots) -> None:
        try:
            self._take(taken)
        except (RecrawlError, OSError):
            # The log still holds everything; the next attempt may succeed.
            logger.exception("the snapshot of partition %d failed", taken.node.partition)

    def _take(self, taken: _NodeSnapshots) -> None:
        node = taken.node
        log_bytes = node.log_bytes
        taken.taken_ms = self._clock.running_ms()
        with self._taking:
            if node.is_closed:
                return
            taken.position = take_snapshot(node, taken.folder)
        taken.saved_ms = self._clock.running_ms()
        taken.log_bytes = log_bytes
        self._trim_changes(node)
        # A snapshot flushes the store's buffers, so this is when most memory is free.
        return_free_memory()

    def _share(self, taken: _NodeSnapshots, copies: SharedCopies) -> None:
        """Copy the newest snapshot to shared storage, and truncate the log by the copies there."""
        node = taken.node
        begin = copies.copy_newest(lambda: self._stop.is_set() or node.is_closed)
        if begin is None:
            return
        try:
            with node.lock:
                if node.is_closed or not node.is_owner:
                    return
            # Without the lock: a broker may be away for long, and calls use only later records.
            # If another worker claims the partition now, it needs no record before these copies.
            node.ledger.truncate(begin)
        except RecrawlError:
            logger.exception("the log of partition %d is not truncated", node.partition)
        copies.remove_old()

    def take_alone(self, partition: int) -> int:
        """Take a snapshot of a partition now, remove all others, and truncate the log to it.

        Returns the position of the snapshot.
        """
        taken = self._partitions[partition]
        node, folder = taken.node, taken.folder
        with self._taking:
            log_bytes = node.log_bytes
            taken.taken_ms = self._clock.running_ms()
            position = taken.position = take_snapshot(node, folder)
            taken.saved_ms = self._clock.running_ms()
            taken.log_bytes = log_bytes
            newest, *older = folder.list_saved()
            # It will be the only one, so it is read back first.
            for _ in check_snapshot(newest):
                pass
            for _ in check_database(newest.folder / CHECKPOINT):
                pass
            for saved in older:
                folder.discard(saved)
            if taken.copies is not None:
                taken.copies.copy_alone()
            with node.lock:
                node.check_owner()  # the snapshots of another owner may be older
            node.ledger.truncate(position)
        return position

    def _trim_changes(self, node: Node) -> None:
        """Remove changes from the feed that are older than the configured time."""
        if math.isfinite(self._changes_kept_ms):
            with node.lock:
                if node.is_closed:
                    return
                node.store.trim_changes(before_ms=int(node.shard.now_ms - self._changes_kept_ms))

    def take_all(self) -> None:
        """Take a snapshot of each node with new records, now, and copy it to shared storage."""
        for taken in self._all():
            if taken.n_records > 0:
                self._take(taken)
            if taken.copies is not None and taken.node.is_owner:
                self._share(taken, taken.copies)

    def take_last(self) -> None:
        """Take a snapshot of each node whose log since the last one takes long to replay."""
        for taken in self._all():
            n_records, n_bytes = taken.n_records, taken.n_bytes
            # Interpreted kernels replay a hundred records in a moment, and for a large corpus a
            # snapshot takes longer than a replay of a few more records.
            n_pages = taken.node.shard.n_pages
            is_short = n_records < min(max(100, n_pages // 100), 1_000)
            is_short &= n_bytes < min(max(1 << 18, 8 * n_pages), 1 << 22)
            if n_records > 0 and not is_short:
                self._try(taken)
