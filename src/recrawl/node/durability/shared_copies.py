"""Copies of a partition's snapshots in shared storage: store them, and fetch the newest one.

The log is truncated by what is in shared storage, because another machine may have nothing else to
begin with.  Only a copy that this process has read back counts, and the log is kept from the second
newest of them on: a copy that turns out to be damaged costs only time.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from recrawl.errors import LedgerError, RecrawlError, SnapshotError
from recrawl.ledger import Ledger, SavedSnapshot, SnapshotFolder, SnapshotOrigin
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import SnapshotsConfig
from recrawl.node.config.values import PARTITIONS_MAX
from recrawl.node.durability.corpus_format import successor_id
from recrawl.node.durability.file_checks import check_snapshot
from recrawl.node.durability.store_repair import is_intact, replace_store
from recrawl.node.node import Node
from recrawl.shard.state.snapshot import restore_tables

if TYPE_CHECKING:
    from recrawl.ledger.shared_snapshots import SharedSnapshot, SharedSnapshots
    from recrawl.ledger.shared_storage import SharedStorage

__all__ = ["COPY_SECONDS_MAX", "SharedCopies", "SharedPartitions", "epoch_and_time", "fetch_newest"]

logger = logging.getLogger(__name__)

COPY_SECONDS_MAX = 1800.0
"""Longest time for storing one snapshot and reading it back; the next attempt continues."""
# Time until the next attempt after a failed one, which doubles up to the second number.
_RETRY_SECONDS = 5.0
_RETRY_SECONDS_MAX = 600.0
# The log from the second-newest copy on is kept, so two copies are the fewest to truncate by.
_COPIES_MIN = 2
# A snapshot here that is so many records behind the newest copy takes longer to bring up to date
# than the copy takes to fetch.
_RECORDS_BEHIND_MAX = 100_000


class SharedPartitions:
    """The shared storage of a corpus, if one is configured.

    Parameters
    ----------
    config
        Configuration of snapshots.

    Raises
    ------
    ConfigError
        If it names storage that is not known.
    """

    def __init__(self, config: SnapshotsConfig) -> None:
        self._storage: SharedStorage | None = None
        if config.shared is not None:
            # Imported here, because the file systems take long to load, and few corpora use them.
            from recrawl.ledger.shared_storage import open_storage  # noqa: PLC0415

            self._storage = open_storage(config.shared)

    def of(self, corpus_id: str | None, partition: int) -> "SharedSnapshots | None":
        """Return the shared snapshots of a partition; None without storage or id of the corpus."""
        if self._storage is None or corpus_id is None:
            return None
        from recrawl.ledger.shared_snapshots import SharedSnapshots  # noqa: PLC0415

        return SharedSnapshots(*self._storage, SnapshotOrigin(corpus_id, partition))


class SharedCopies:
    """The copies of one partition's snapshots that this process has stored and read back.

    Parameters
    ----------
    node
        Node of the partition.
    folder
        Snapshots of the partition on this machine.
    shared
        Snapshots of the partition in shared storage.
    config
        Configuration of snapshots.
    clock
        Time source.
    """

    def __init__(
        self,
        node: Node,
        folder: SnapshotFolder,
        shared: "SharedSnapshots",
        config: SnapshotsConfig,
        clock: Clock,
    ) -> None:
        self._node = node
        self._folder = folder
        self._shared = shared
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        # Position of the newest copy of any process; None until the storage was asked.
        self._position: int | None = None
        self._verified: set[str] = set()
        self._n_failures = 0
        self._retry_ms = clock.running_ms()
        self._stored_ms = clock.running_ms()

    def age_seconds(self) -> float:
        """Return the time since a snapshot was stored; since this object was made if none was."""
        return (self._clock.running_ms() - self._stored_ms) / 1000

    def is_due(self, position: int) -> bool:
        """Return whether to copy the newest snapshot now.

        Parameters
        ----------
        position
            Position of the newest snapshot on this machine, 0 if there is none.
        """
        return (
            position > (self._position or 0)
            and self._clock.running_ms() >= self._retry_ms
            and self._node.is_owner
        )

    def copy_newest(self, is_stopping: Callable[[], bool]) -> int | None:
        """Store the newest snapshot and read it back; return from where on the log is needed.

        A failure is logged, and the next attempt is due some time later.

        Parameters
        ----------
        is_stopping
            Function that returns whether to give up.

        Returns
        -------
        int or None
            Position of the second-newest copy that was read back; None if there are fewer.
        """
        with self._lock:
            try:
                self._copy(is_stopping)
                begin = self._oldest_needed()
            except (RecrawlError, OSError) as error:
                if not is_stopping():
                    self._note_failure(error)
                return None
            self._n_failures = 0
            return begin

    def copy_alone(self) -> int:
        """Store the newest snapshot, read all of it back, and remove all others from the storage.

        Returns the position of the snapshot.
        """
        with self._lock:
            saved = self._folder.list_saved()[0]
            stored = self._store(saved, self._deadline(lambda: False), reads_all=True)
            for other in self._shared.list_complete():
                if other.path != stored.path:
                    self._shared.remove(other)
            self._verified &= {stored.path}
            return saved.position

    def remove_old(self) -> None:
        """Remove copies beyond those to keep; a failure is logged."""
        with self._lock:
            try:
                self._shared.remove_old(
                    keep=self._config.shared_keep,
                    days=self._config.shared_days,
                    protect=self._verified,
                    now_ms=self._clock.wall_ms(),
                )
                if self._node.partition == 0:  # one process is enough for all partitions
                    self._remove_unused_chunks(self._clock.wall_ms())
            except RecrawlError as error:
                logger.warning("old snapshots are not removed yet: %s", error)

    def _remove_unused_chunks(self, now_ms: int) -> None:
        """Remove chunks of the corpus, and what attempts to change its partitions have left."""
        self._shared.remove_unused_chunks(now_ms)
        origin, generation = self._folder.origin, self._node.generation + 1
        if origin is None:
            return
        ids = {successor_id(origin.corpus_id, generation, n + 1) for n in range(PARTITIONS_MAX)}
        for other in self._shared.of_other_corpora(ids):
            other.remove_unused_chunks(now_ms)

    def _copy(self, is_stopping: Callable[[], bool]) -> None:
        saved = self._folder.list_saved()
        if self._position is None:
            listed = self._shared.list_complete()
            self._position = listed[0].position if listed else 0
        if saved and saved[0].position > self._position:
            self._store(saved[0], self._deadline(is_stopping))

    def _store(
        self, saved: SavedSnapshot, on_request: Callable[[], None], *, reads_all: bool = False
    ) -> "SharedSnapshot":
        for _ in check_snapshot(saved):
            on_request()
        epoch, at_ms = epoch_and_time(saved)
        stored = self._shared.publish(
            saved, epoch=epoch, now_ms=self._clock.wall_ms(), at_ms=at_ms, on_request=on_request
        )
        try:
            now_ms = None if reads_all else self._clock.running_ms()
            self._shared.verify(stored, now_ms=now_ms, on_request=on_request)
        except BaseException:
            # It might be whole, but counts as little as one that is not.
            with suppress(RecrawlError):
                self._shared.discard(stored)
            raise
        self._verified.add(stored.path)
        self._position = saved.position
        self._stored_ms = self._clock.running_ms()
        return stored

    def _oldest_needed(self) -> int | None:
        """Return the position of the second-newest copy that was read back and is still there."""
        there = [one for one in self._shared.list_complete() if one.path in self._verified]
        self._verified = {one.path for one in there[: self._config.shared_keep]}
        return there[_COPIES_MIN - 1].position if len(there) >= _COPIES_MIN else None

    def _deadline(self, is_stopping: Callable[[], bool]) -> Callable[[], None]:
        until_ms = self._clock.running_ms() + COPY_SECONDS_MAX * 1000

        def check() -> None:
            if is_stopping():
                raise LedgerError("the copy of a snapshot was stopped")
            if self._clock.running_ms() > until_ms:
                raise LedgerError(
                    f"the copy of a snapshot was stopped after {COPY_SECONDS_MAX:,.0f} s"
                )

        return check

    def _note_failure(self, error: Exception) -> None:
        seconds = min(_RETRY_SECONDS * 2.0**self._n_failures, _RETRY_SECONDS_MAX)
        self._n_failures = min(self._n_failures + 1, 100)
        self._retry_ms = self._clock.running_ms() + round(seconds * 1000)
        logger.warning(
            "the newest snapshot of partition %d is not in shared storage yet, and the log grows "
            "meanwhile; the next attempt follows in %.0f s: %s",
            self._node.partition,
            seconds,
            error,
        )


def epoch_and_time(saved: SavedSnapshot) -> tuple[int, int]:
    """Return the epoch of the owner in a snapshot, and the time in milliseconds since 1970."""
    registers = restore_tables(saved.manifest(), saved.columns(), check=False)[0].registers
    return int(registers.epoch[0]), int(registers.now[0])


def fetch_newest(
    snapshots: SnapshotFolder,
    copies: "Sequence[SharedSnapshot]",
    store_folder: Path,
    ledger: Ledger,
    *,
    is_forced: bool = False,
) -> bool:
    """Replace the files of a partition by the newest copy in shared storage, if they are too old.

    They are too old if no snapshot here is in the range of the log, or the newest one is far behind
    the newest copy.  The store and all snapshots here are removed together, after the copy has
    arrived and was checked, and before it becomes a snapshot of this machine: so a store is never
    used with a snapshot that came from elsewhere.

    Parameters
    ----------
    snapshots
        Snapshots of the partition.
    copies
        Snapshots in shared storage, newest first.
    store_folder
        Folder of its store.
    ledger
        Log of the partition.
    is_forced
        Whether the files here cannot be used, however old they are.

    Returns
    -------
    bool
        Whether the files were replaced.

    Raises
    ------
    LedgerError
        If the copy cannot be written here, and there is nothing else to begin with.
    """
    shared = snapshots.shared
    assert shared is not None
    first, end = ledger.first, ledger.end
    here = [one.position for one in snapshots.list_saved() if first <= one.position <= end]
    newest_here = None if is_forced else max(here, default=None)
    for copy in copies:
        if not first <= copy.position <= end:
            continue
        if newest_here is not None and copy.position - newest_here <= _RECORDS_BEHIND_MAX:
            return False
        try:
            shared.restore(
                copy, snapshots, before_adding=lambda one: _make_room(one, snapshots, store_folder)
            )
        except SnapshotError as error:
            logger.warning("the shared snapshot %s is not used: %s", copy.path, error)
            continue
        except LedgerError as error:
            if newest_here is None:
                raise
            logger.warning("the shared snapshot %s is not used: %s", copy.path, error)
            return False
        logger.info("partition continues from the shared snapshot %s", copy.path)
        return True
    return False


def _make_room(copy: SavedSnapshot, snapshots: SnapshotFolder, store_folder: Path) -> None:
    """Check a copy that has arrived, and remove the snapshots and the store of this machine."""
    if not is_intact(copy):
        raise SnapshotError("its checksums do not match")
    for old in snapshots.list_saved():
        snapshots.discard(old)
    replace_store(store_folder, None, keeps_old=False)
