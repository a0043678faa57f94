"""Copies of partitions that other processes own, kept up to date from their logs.

A standby has applied everything that its log had a moment ago.  When the owner is gone, it only has
to claim the partition, which takes as long as one append, however large the partition is.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from recrawl.errors import PartitionAway, RecrawlError
from recrawl.node.clock import Clock
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.durability.snapshotter import Snapshotter
from recrawl.node.node import Node
from recrawl.node.records import WrittenVersion

__all__ = ["Standby", "Standbys"]


class Standby(NamedTuple):
    """A copy of a partition."""

    node: Node
    files: Partition


class Standbys:
    """The standbys of one process.

    Parameters
    ----------
    find_partition
        Function that returns log, store and snapshots of any partition.
    snapshotter
        Taker of snapshots, so that they need not read the whole log after a restart.
    clock
        Time source.
    written
        Version of the records that they append when they have become owners.
    """

    def __init__(
        self,
        find_partition: Callable[[int], Partition],
        snapshotter: Snapshotter,
        clock: Clock,
        written: WrittenVersion,
    ) -> None:
        self._find_partition = find_partition
        self._written = written
        self._snapshotter = snapshotter
        self._clock = clock
        self._lock = threading.Lock()
        self._standbys: dict[int, Standby] = {}
        # When each of them last had everything that was in its log, by the running clock.
        self._complete_ms: dict[int, int] = {}

    @property
    def partitions(self) -> list[int]:
        """Numbers of the partitions, in order."""
        with self._lock:
            return sorted(self._standbys)

    @property
    def nodes(self) -> list[Node]:
        """Nodes of the standbys."""
        with self._lock:
            return [standby.node for standby in self._standbys.values()]

    def __contains__(self, partition: int) -> bool:
        """Return whether there is a standby of a partition."""
        return partition in self._standbys

    def find(self, partition: int) -> Standby:
        """Return the standby of a partition; raise `PartitionAway` if there is none."""
        found = self._standbys.get(partition)
        if found is None:
            raise PartitionAway(partition)
        return found

    def recover(self, partition: int) -> Standby:
        """Return a copy of a partition that has read its log to the end; it is not kept yet."""
        files = self._find_partition(partition)
        if files.reopen_ledger is not None:
            # An append of the ledger before may have failed.
            files = files._replace(ledger=files.reopen_ledger())
        node = recover_node(files)
        node.written = self._written
        return Standby(node, files)

    def add(self, standby: Standby, *, has_snapshots: bool = False) -> None:
        """Keep a copy up to date from now on.

        Parameters
        ----------
        standby
            Copy of a partition, which has none yet.
        has_snapshots
            Whether snapshots of it are taken already, because the process owned it until now.
        """
        node = standby.node
        with self._lock:
            assert node.partition not in self._standbys
            self._standbys[node.partition] = standby
            self._complete_ms[node.partition] = self._clock.running_ms()
        if not has_snapshots:
            self._snapshotter.add(node, standby.files.snapshots)

    def follow(self, partition: int) -> float:
        """Apply what the log of a partition has now; return the seconds that this took."""
        node = self.find(partition).node
        begun_ms = self._clock.running_ms()
        node.resume(self._clock.wall_ms())  # its claim may have failed
        node.follow()
        with self._lock:
            if partition in self._complete_ms:
                self._complete_ms[partition] = begun_ms
        return (self._clock.running_ms() - begun_ms) / 1000

    def lag_seconds(self) -> dict[int, float]:
        """Return how long ago each partition had everything that was in its log then."""
        with self._lock:
            now_ms = self._clock.running_ms()
            return {i: (now_ms - at_ms) / 1000 for i, at_ms in sorted(self._complete_ms.items())}

    def take(self, partition: int) -> Standby | None:
        """Return a standby and keep it no longer; None if there is none of this partition."""
        with self._lock:
            self._complete_ms.pop(partition, None)
            return self._standbys.pop(partition, None)

    def close(self, partition: int) -> None:
        """Give up the copy of a partition; does nothing if there is none."""
        if self.take(partition) is not None:
            self._snapshotter.remove(partition)

    def close_all(self) -> None:
        """Give up all copies."""
        for partition in self.partitions:
            with suppress(RecrawlError):  # its store may be damaged; the log has everything
                self.close(partition)
