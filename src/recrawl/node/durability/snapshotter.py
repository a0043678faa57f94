"""Snapshots in the background: pieces are copied under the node's lock and written without it.

A snapshot is the shard's columns at one position and, taken a moment later, a checkpoint of the
store.  The log is kept from the oldest snapshot on that is kept, so that a broken snapshot costs
time and nothing else.
"""

import logging
import math
import threading
from collections.abc import Sequence

from recrawl.errors import RecrawlError
from recrawl.ledger import SnapshotFolder
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import CHECKPOINT
from recrawl.node.node import Node
from recrawl.shard.state.tables import Pages, bytes_per_row

__all__ = ["Snapshotter", "take_snapshot"]

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
# However little time has passed, a log as long as this share of the columns, and this long at
# least, is time for a snapshot: it bounds what has to be replayed, and what is written for it.
_LOG_SHARE_MAX = 0.25
_LOG_BYTES_MIN = 128 << 20
_PAGE_BYTES = sum(bytes_per_row(Pages).values())


def take_snapshot(node: Node, snapshots: SnapshotFolder) -> int:
    """Take a snapshot of a node while it goes on; return its position."""
    with node.lock:
        node.check_sound()
        position = node.position
        snapshot = node.shard.snapshot(str(position))
    draft = snapshots.begin(position)
    try:
        while True:
            with node.lock:
                piece = next(snapshot, None)
            if piece is None:
                break
            draft.write(*piece)
        # Columns are padded, the last one too: the file is as long as the manifest says.
        draft.write(snapshot.n_bytes - 1, b"\0")
        # Of a later position, which does no harm: what it holds already is not written again.
        node.store.checkpoint(draft.folder / CHECKPOINT)
        # A snapshot must never be of what the log could still lose.
        node.ledger.sync()
        node.check_sound()
        draft.commit(snapshot.manifest)
    except BaseException:
        draft.abandon()
        raise
    kept = snapshots.saved()
    if len(kept) >= snapshots.keep and node.is_owner:
        # Not the log of somebody else, whose snapshots may not reach as far.
        with node.lock:
            node.ledger.truncate(kept[-1].position)
    return position


class Snapshotter:
    """A thread that takes snapshots when enough time has passed or enough has been logged.

    Parameters
    ----------
    nodes
        With the folders of their snapshots.
    config
        When to take one, and how long changes are kept.
    clock
        To wait by.
    """

    def __init__(
        self, nodes: Sequence[tuple[Node, SnapshotFolder]], config: CorpusConfig, clock: Clock
    ) -> None:
        self._nodes = nodes
        self._config = config.snapshots
        self._changes_kept_ms = config.changes.kept_for * 1000
        self._clock = clock
        self._stop = threading.Event()
        self._taking = threading.Lock()
        saved = [folder.saved() for _, folder in nodes]
        self._positions = [kept[0].position if kept else 0 for kept in saved]
        self._taken_ms = [clock.running_ms()] * len(nodes)
        self._log_bytes = [0] * len(nodes)
        self._thread = threading.Thread(target=self._run, name="recrawl-snapshots", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the snapshot that is being taken."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            for i in range(len(self._nodes)):
                if self._is_due(i):
                    self._try(i)

    def _is_due(self, i: int) -> bool:
        node = self._nodes[i][0]
        n_records = node.position - self._positions[i]
        seconds = (self._clock.running_ms() - self._taken_ms[i]) / 1000
        n_bytes = node.log_bytes - self._log_bytes[i]
        columns_bytes = _PAGE_BYTES * int(node.shard.tables.registers.n_slots[0])
        return n_records > 0 and (
            n_records >= self._config.every_records
            or seconds >= self._config.every
            or n_bytes >= max(_LOG_SHARE_MAX * columns_bytes, _LOG_BYTES_MIN)
        )

    def _try(self, i: int) -> None:
        try:
            self._take(i)
        except (RecrawlError, OSError):
            # The log still holds everything; there will be another time.
            logger.exception("no snapshot of partition %d", self._nodes[i][0].partition)

    def _take(self, i: int) -> None:
        node, folder = self._nodes[i]
        log_bytes = node.log_bytes
        self._taken_ms[i] = self._clock.running_ms()
        with self._taking:
            self._positions[i] = take_snapshot(node, folder)
        self._log_bytes[i] = log_bytes
        self._trim_changes(node)

    def _trim_changes(self, node: Node) -> None:
        """Forget changes that are older than anybody was promised."""
        if math.isfinite(self._changes_kept_ms):
            with node.lock:
                node.store.trim_changes(before_ms=int(node.shard.now_ms - self._changes_kept_ms))

    def take_all(self) -> None:
        """Take a snapshot of each node that has moved, now."""
        for i, (node, _) in enumerate(self._nodes):
            if node.position > self._positions[i]:
                self._take(i)

    def take_last(self) -> None:
        """Take a snapshot of each node whose log since the last one is not read in a moment."""
        for i, (node, _) in enumerate(self._nodes):
            n_records = node.position - self._positions[i]
            n_bytes = node.log_bytes - self._log_bytes[i]
            # The next command, on interpreted kernels, reads a hundred records in a moment; a
            # large corpus takes longer to write than to read a few more.
            n_pages = node.shard.n_pages
            is_short = n_records < min(max(100, n_pages // 100), 1_000)
            is_short &= n_bytes < min(max(1 << 18, 8 * n_pages), 1 << 22)
            if n_records > 0 and not is_short:
                self._try(i)
