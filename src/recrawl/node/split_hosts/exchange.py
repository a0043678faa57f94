"""Carry messages between the parts of split hosts and their homes, here and in other processes."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from recrawl.errors import RecrawlError
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.routing import partition_of_key, partitions_of_host
from recrawl.node.split_hosts.homes import HomeHosts
from recrawl.node.split_hosts.parts import HostParts
from recrawl.node.split_hosts.windows import AHEAD_MS, CLOCKS_MS_MAX, HostGrants, PartNeeds

__all__ = ["SplitHosts", "SplitMessages"]

logger = logging.getLogger(__name__)

# Windows are granted, and begin, this much late at most.
_STEP_MS = 250
# Messages that say nothing new are sent again after this time, because they may be lost.
_REPEAT_MS = 1_000
# With many split hosts they are repeated less often: at most so many in a second.
_REPEATS_PER_SECOND_MAX = 200


class _Both(NamedTuple):
    node: Node
    epoch: int
    home: HomeHosts
    parts: HostParts


class SplitMessages(NamedTuple):
    """Messages for partitions that are open elsewhere."""

    needs: Sequence[PartNeeds]
    grants: Sequence[HostGrants]


class _NewMessages:
    """Finds the messages that say something new, or must be repeated."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, int], tuple[int, object]] = {}

    def choose(self, found: SplitMessages, now_ms: int) -> SplitMessages:
        """Return those among messages that must be sent now."""
        n_found = len(found.needs) + len(found.grants)
        repeat_ms = max(_REPEAT_MS, n_found * 1_000 // _REPEATS_PER_SECOND_MAX)
        before, self._sent = self._sent, {}

        def is_due(key: tuple[str, int], news: object) -> bool:
            at_ms, known = before.get(key, (0, None))
            is_new = news != known or not 0 <= now_ms - at_ms < repeat_ms
            self._sent[key] = (now_ms, news) if is_new else (at_ms, known)
            return is_new

        return SplitMessages(
            # Not for the number of due pages, which always changes and is not urgent.
            [one for one in found.needs if is_due((one.host, one.part), one._replace(n_due=0))],
            [one for one in found.grants if is_due((one.host, -1), one._replace(number=0))],
        )


class SplitHosts:
    """The split hosts of all open partitions of a corpus.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    """

    def __init__(self, nodes: OpenNodes) -> None:
        self._nodes = nodes
        self._by_partition: dict[int, _Both] = {}
        self._stepped_ms = 0
        self._lock = threading.RLock()
        self._publish: Callable[[SplitMessages], None] | None = None
        self._new_messages = _NewMessages()
        self._ahead_ms = 0
        self._margin_ms = 0

    def share(
        self,
        publish: Callable[[SplitMessages], None],
        *,
        ahead_ms: int = AHEAD_MS,
        margin_ms: int = CLOCKS_MS_MAX,
    ) -> None:
        """Exchange messages with other processes from now on, with every `exchange`.

        Parameters
        ----------
        publish
            Function that sends messages to all processes that have partitions of the corpus.
        ahead_ms
            How long before its begin a window is granted, so that its message arrives in time.
        margin_ms
            Time by which the clocks of the owners of parts may differ.
        """
        with self._lock:
            self._publish = publish
            self._ahead_ms, self._margin_ms = ahead_ms, margin_ms
            self._by_partition.clear()

    @property
    def reaches_all_parts(self) -> bool:
        """Whether grants reach all partitions of the corpus, here or in other processes."""
        return self._publish is not None or len(self._nodes) == self._nodes.n_partitions

    def _both(self, node: Node) -> _Both:
        found = self._by_partition.get(node.partition)
        # What an owner knows of its messages ends with its claim: another may have been between.
        if found is None or found.node is not node or found.epoch != node.shard.epoch:
            home = HomeHosts(
                node,
                self._nodes.n_partitions,
                ahead_ms=self._ahead_ms,
                margin_ms=self._margin_ms,
            )
            found = _Both(node, node.shard.epoch, home, HostParts(node))
            self._by_partition[node.partition] = found
        return found

    def step(self, now_ms: int) -> None:
        """Grant windows and begin those whose time has come, if this process has all parts.

        Does nothing if that was done a moment ago, if no host is split, or if messages go to other
        processes: then windows are granted long before they begin, and `exchange` is in time.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        if self._publish is None and self._nodes.n_partitions > 1:
            self._step_soon(now_ms)

    def exchange(self, now_ms: int) -> None:
        """Grant windows, begin those whose time has come, and tell other processes.

        Must be called about once a second after `share`, by whoever may wait for a log.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        found = self._step_soon(now_ms)
        if self._publish is not None and found is not None:
            new = self._new_messages.choose(found, now_ms)
            if new.needs or new.grants:
                self._publish(new)

    def _step_soon(self, now_ms: int) -> SplitMessages | None:
        """Do what `step` does; return all that other processes must hear, None for nothing done."""
        if abs(now_ms - self._stepped_ms) < _STEP_MS:
            return None
        nodes = [node for node in self._nodes.all if node.shard.split_groups.size]
        # Whoever holds the locks of nodes must not wait here: another thread may wait for those.
        if not (nodes or self._by_partition) or not self._lock.acquire(blocking=False):
            return None
        try:
            self._stepped_ms = now_ms
            open_nodes = self._nodes.by_partition
            for partition in [*self._by_partition]:
                if partition not in open_nodes:
                    del self._by_partition[partition]  # its node needs memory
            return self._step(nodes, now_ms)
        finally:
            self._lock.release()

    def _step(self, nodes: Sequence[Node], now_ms: int) -> SplitMessages:
        needs: list[PartNeeds] = []
        grants: list[HostGrants] = []
        each = [self._both(node) for node in nodes]
        for own in each:
            found = own.parts.needs(now_ms)
            needs += found
            for one in found:
                self.hear_needs(one, now_ms)
        for own in each:
            # A log that cannot be written stops its own partition only.
            try:
                granted = own.home.step(now_ms)
            except RecrawlError as error:
                logger.warning("partition %d grants no windows: %s", own.node.partition, error)
                continue
            grants += granted
            for message in granted:
                self.hear_grants(message)
        for own in each:
            try:
                own.parts.step(now_ms)
            except RecrawlError as error:
                logger.warning("partition %d begins no window: %s", own.node.partition, error)
        return SplitMessages(needs, grants)

    def hear_needs(self, needs: PartNeeds, now_ms: int) -> None:
        """Tell the home partition of a host, if it is open here, what a part needs.

        Parameters
        ----------
        needs
            Message of the part.
        now_ms
            Time in milliseconds since 1970.
        """
        n_partitions = self._nodes.n_partitions
        node = self._nodes.get(partition_of_key(needs.host, n_partitions))
        if node is None or needs.host not in node.split_hosts():
            return
        if needs.part in partitions_of_host(needs.host, n_partitions):
            with self._lock:
                self._both(node).home.hear(needs, now_ms)

    def hear_grants(self, grants: HostGrants) -> None:
        """Tell the parts of a host that are open here what its home partition says."""
        if grants.home != partition_of_key(grants.host, self._nodes.n_partitions):
            return
        with self._lock:
            for node in self._nodes.all:
                if grants.host in node.split_hosts():
                    try:
                        self._both(node).parts.hear(grants)
                    except RecrawlError as error:
                        partition = node.partition
                        logger.warning("partition %d keeps old rules: %s", partition, error)
