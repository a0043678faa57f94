"""Carry messages between the parts of split hosts and their homes, as far as they are here."""

import logging
import threading
from collections.abc import Sequence
from typing import NamedTuple

from recrawl.errors import RecrawlError
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.routing import partition_of_key
from recrawl.node.split_hosts.homes import HomeHosts
from recrawl.node.split_hosts.parts import HostParts
from recrawl.node.split_hosts.windows import HostGrants, PartNeeds

__all__ = ["SplitHosts", "SplitMessages"]

logger = logging.getLogger(__name__)

# Windows are granted, and begin, this much late at most.
_STEP_MS = 250


class _Both(NamedTuple):
    node: Node
    home: HomeHosts
    parts: HostParts


class SplitMessages(NamedTuple):
    """Messages for partitions that are open elsewhere."""

    needs: Sequence[PartNeeds]
    grants: Sequence[HostGrants]


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
        self.ahead_ms = 0
        """How long before its begin a window is granted, so that its message arrives in time."""
        self.margin_ms = 0
        """Time by which the clocks of the owners of parts may differ."""

    def _both(self, node: Node) -> _Both:
        found = self._by_partition.get(node.partition)
        if found is None or found.node is not node:
            home = HomeHosts(
                node,
                self._nodes.n_partitions,
                ahead_ms=self.ahead_ms,
                margin_ms=self.margin_ms,
            )
            found = self._by_partition[node.partition] = _Both(node, home, HostParts(node))
        return found

    def step(self, now_ms: int) -> SplitMessages:
        """Grant windows and begin those whose time has come; return what others must hear.

        Does nothing if that was done a moment ago, or if no host is split.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        nothing = SplitMessages((), ())
        if self._nodes.n_partitions == 1 or abs(now_ms - self._stepped_ms) < _STEP_MS:
            return nothing
        nodes = [node for node in self._nodes.all if node.shard.split_groups.size]
        # Whoever holds the locks of nodes must not wait here: another thread may wait for those.
        if not nodes or not self._lock.acquire(blocking=False):
            return nothing
        try:
            self._stepped_ms = now_ms
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
        node = self._nodes.get(partition_of_key(needs.host, self._nodes.n_partitions))
        if node is not None:
            with self._lock:
                self._both(node).home.hear(needs, now_ms)

    def hear_grants(self, grants: HostGrants) -> None:
        """Tell the parts of a host that are open here what its home partition says."""
        with self._lock:
            for node in self._nodes.all:
                if grants.host in node.split_hosts():
                    try:
                        self._both(node).parts.hear(grants)
                    except RecrawlError as error:
                        partition = node.partition
                        logger.warning("partition %d keeps old rules: %s", partition, error)
