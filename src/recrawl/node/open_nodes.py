"""The nodes of the partitions that are open in this process, which need not be all of a corpus."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.errors import LedgerError, PartitionAway, RecrawlError
from recrawl.messages.results import RowStatus
from recrawl.node.clock import NodeTime
from recrawl.node.node import Node, SentGroup, Submission
from recrawl.node.records import LogEntry
from recrawl.node.routing import Urls, partitions_of, split_by_partition, split_partitions_of
from recrawl.urls import GroupBy, group_keys

__all__ = [
    "TOGETHER_MAX",
    "NodeBatch",
    "OpenNodes",
    "commit_together",
    "lock_nodes",
    "submit_each",
    "tick_each",
    "tick_together",
]

TOGETHER_MAX = 32
"""Largest number of nodes whose appends are under way together: enough to wait for the brokers a
few times only, and few enough that nobody waits long for the locks of all of them."""


@contextmanager
def lock_nodes(nodes: Iterable[Node]) -> Iterator[None]:
    """Hold the locks of nodes, taken in the order of their partitions.

    Whoever holds several takes them in this order, so that no two threads wait for each other.
    """
    with ExitStack() as locks:
        for node in sorted(nodes, key=lambda node: node.partition):
            locks.enter_context(node.lock)
        yield


def submit_each(submitted: Iterable[tuple[Node, Sequence[LogEntry]]]) -> None:
    """Append entries to the logs of nodes, as far as possible together, and apply them.

    Parameters
    ----------
    submitted
        Nodes, whose locks the caller holds, and the entries of each.
    """
    begun = [(node, node.begin(entries)) for node, entries in submitted]
    _send_all(node for node, _ in begun)
    errors: list[BaseException] = []
    for node, submission in begun:
        try:  # all of them, even if some fail
            node.finish(submission)
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


def tick_each(nodes: Iterable[Node], now_ms: int) -> dict[int, RecrawlError]:
    """Do what `Node.tick` does, for nodes whose locks the caller holds.

    Parameters
    ----------
    nodes
        Nodes.
    now_ms
        Current time, in milliseconds since 1970.

    Returns
    -------
    dict
        Errors of the nodes that failed, by partition.
    """
    begun: list[tuple[Node, Submission]] = []
    errors: dict[int, RecrawlError] = {}
    for node in nodes:
        try:
            submission = node.begin_tick(now_ms)
        except RecrawlError as error:
            errors[node.partition] = error
        else:
            if submission is not None:
                begun.append((node, submission))
    _send_all(node for node, _ in begun)
    for node, submission in begun:
        try:
            node.finish_tick(submission)
        except RecrawlError as error:
            errors[node.partition] = error
    return errors


def tick_together(nodes: Sequence[Node], time: NodeTime) -> None:
    """Do what `Node.tick` does for several nodes, if their appends can be under way together.

    Other nodes log their ticks one after the other, when they are used.  So do nodes that fail.
    """
    now_ms = time.now_ms()
    for group in _groups([node for node in nodes if node.is_tick_due(now_ms)]):
        with lock_nodes(group):
            tick_each(group, now_ms)


def commit_together(nodes: Sequence[Node]) -> None:
    """Commit what waits in several nodes, if their appends can be under way together.

    The callers of `Node.begin` must `Node.finish` it in any case, and get errors there.
    """
    for group in _groups(nodes):
        with lock_nodes(group):
            _send_all(group)


def _groups(nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
    nodes = [node for node in nodes if node.can_send]
    if len(nodes) > 1:
        for first in range(0, len(nodes), TOGETHER_MAX):
            yield nodes[first : first + TOGETHER_MAX]


def _send_all(nodes: Iterable[Node]) -> None:
    """Append what waits in nodes, together if their logs can do that."""
    sent: list[tuple[Node, SentGroup]] = []
    try:
        for node in nodes:
            group = node.send()
            if group is not None:
                sent.append((node, group))
    finally:
        for node, group in sent:
            node.complete(group)


class NodeBatch(NamedTuple):
    """Valid URLs of one open partition."""

    node: Node
    rows: NDArray[np.int64]
    """Row of each URL in what was given."""
    name: pa.StringArray
    """Names of the pages, see `recrawl.urls.page_names`."""
    given: pa.StringArray
    """URLs as they were given."""


class OpenNodes:
    """The nodes of the open partitions of a corpus, in the order of their partitions.

    Parameters
    ----------
    nodes
        Nodes to begin with.
    n_partitions
        Number of partitions of the whole corpus, open or not.
    generation
        Layout generation of the corpus.
    """

    def __init__(self, nodes: Iterable[Node], n_partitions: int, generation: int = 0) -> None:
        self.n_partitions = n_partitions
        self.generation = generation
        self.by_partition = {node.partition: node for node in nodes}
        """Nodes by partition, for fast look-ups."""
        self.all: tuple[Node, ...] = ()
        """The open nodes; a tuple that never changes, so that several loops see the same nodes."""
        self.leaves_out_stopped = False
        """Whether a call leaves out partitions whose log cannot be written, instead of failing."""
        self._idle = threading.Condition()
        self._n_users: Counter[int] = Counter()
        self._update()

    def _update(self) -> None:
        self.all = tuple(node for _, node in sorted(self.by_partition.items()))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.all)

    def __len__(self) -> int:
        """Return the number of open partitions."""
        return len(self.all)

    def __getitem__(self, partition: int) -> Node:
        """Return the node of a partition; raise `PartitionAway` if it is not open here."""
        node = self.by_partition.get(partition)
        if node is None:
            raise PartitionAway(partition)
        return node

    @property
    def are_all_elsewhere(self) -> bool:
        """Whether all partitions of the corpus were open here, and others have claimed them all.

        Then calls that need to own a partition raise `OwnershipLost`.  If this process has only
        some, those that others have claimed are left out of calls.
        """
        return len(self.all) == self.n_partitions and all(node.has_lost_claim for node in self.all)

    def __contains__(self, partition: int) -> bool:
        """Return whether a partition is open here."""
        return partition in self.by_partition

    def get(self, partition: int) -> Node | None:
        """Return the node of a partition; None if it is not open here."""
        return self.by_partition.get(partition)

    def split(
        self,
        urls: Urls,
        by: GroupBy,
        *,
        key: Any = None,
        n_bytes_beside: NDArray[np.int64] | None = None,
        row_status: NDArray[np.uint8] | None = None,
        in_parts: bool = False,
    ) -> Iterator[NodeBatch]:
        """Yield the valid URLs of open partitions, in batches of one partition each.

        A page of a split host is in its home partition if that has it, and otherwise in the
        partition that its hash says.

        Parameters
        ----------
        urls
            URLs as users give them.
        by
            Grouping of the corpus.
        key, n_bytes_beside
            Arguments of `recrawl.node.routing.split_by_partition`.
        row_status
            `RowStatus` of each row: becomes UNAVAILABLE where the partition is not open here, and
            ELSEWHERE where the home partition is.  Without it, such a row raises `PartitionAway`.
        in_parts
            Whether the home partitions of all pages have said already that they are elsewhere.
        """
        for i, rows, name, given in split_by_partition(
            urls, self.n_partitions, by, key=key, n_bytes_beside=n_bytes_beside
        ):
            for part, some in self._find_parts(i, name, by, in_parts=in_parts):
                node = self._enter_part(part, i, in_parts=in_parts)
                if node is not None:
                    try:
                        if some is None:
                            yield NodeBatch(node, rows, name, given)
                        else:
                            index = pa.array(some)
                            yield NodeBatch(node, rows[some], name.take(index), given.take(index))
                    finally:
                        self.leave(node)
                elif row_status is not None:
                    is_elsewhere = part != i and not in_parts
                    away = RowStatus.ELSEWHERE if is_elsewhere else RowStatus.UNAVAILABLE
                    row_status[rows if some is None else rows[some]] = away
                else:
                    raise PartitionAway(part)

    def _enter_part(self, part: int, home: int, *, in_parts: bool) -> Node | None:
        """Return what `enter` does; never the home partition for what is elsewhere."""
        return None if in_parts and part == home else self.enter(part)

    def find_partitions(
        self, name: pa.StringArray, by: GroupBy, *, in_parts: bool = False
    ) -> NDArray[np.int64]:
        """Return the partition of each page by its name, also on split hosts.

        Parameters
        ----------
        name
            Names of the pages.
        by
            Grouping of the corpus.
        in_parts
            See `split`.
        """
        partition = partitions_of(name, self.n_partitions, by)
        for i in np.unique(partition):
            rows = np.flatnonzero(partition == i)
            found = self._find_parts(int(i), name.take(pa.array(rows)), by, in_parts=in_parts)
            for part, some in found:
                if some is not None:
                    partition[rows[some]] = part
        return partition

    def _find_parts(
        self, home: int, name: pa.StringArray, by: GroupBy, *, in_parts: bool
    ) -> list[tuple[int, NDArray[np.int64] | None]]:
        """Return the partitions of pages with one home, each with its rows; None for all rows.

        A page of a split host is in its home partition if that has it, from before the split or
        by its hash, and otherwise in the partition that its hash says.
        """
        if in_parts:
            part = split_partitions_of(name, home, self.n_partitions)
            return [(i, np.flatnonzero(part == i)) for i in np.unique(part).tolist()]
        node = self.by_partition.get(home)
        hosts = None if node is None or not node.shard.split_groups.size else node.split_hosts()
        if node is None or not hosts:
            return [(home, None)]
        keys = pa.array([*hosts], pa.string())
        is_split = pc.is_in(group_keys(name, by), keys).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_split)
        part = np.full(len(name), home, np.int64)
        if rows.size:
            part[rows] = split_partitions_of(name.take(pa.array(rows)), home, self.n_partitions)
            rows = np.flatnonzero(part != home)
        if rows.size:
            is_known = node.store.pages_of(name.take(pa.array(rows))) >= 0
            part[rows[is_known]] = home
        parts = np.unique(part).tolist()
        if parts == [home]:
            return [(home, None)]
        return [(i, np.flatnonzero(part == i)) for i in parts]

    @contextmanager
    def leave_out_stopped(
        self, rows: NDArray[np.int64], row_status: NDArray[np.uint8]
    ) -> Iterator[None]:
        """Make rows UNAVAILABLE if the log of their partition cannot be written.

        Without `leaves_out_stopped` the error is that of the call.

        Parameters
        ----------
        rows
            Rows of one partition, about which the block is.
        row_status
            `RowStatus` of each row of the call.
        """
        try:
            yield
        except LedgerError as error:
            self.check_may_leave_out(error)
            row_status[rows] = RowStatus.UNAVAILABLE

    def check_may_leave_out(self, error: Exception) -> None:
        """Raise an error of a partition, unless the rows of that partition may be left out."""
        if not self.leaves_out_stopped or not isinstance(error, LedgerError):
            raise error

    def split_together(
        self,
        urls: Urls,
        by: GroupBy,
        *,
        key: Any = None,
        n_bytes_beside: NDArray[np.int64] | None = None,
        row_status: NDArray[np.uint8],
        in_parts: bool = False,
    ) -> Iterator[Sequence[NodeBatch]]:
        """Yield what `split` yields, batches of different nodes together if their logs allow it.

        Parameters
        ----------
        urls, by, key, n_bytes_beside, row_status, in_parts
            Arguments of `split`; unless pages are in parts, all are of their home partitions.
        """
        if in_parts:
            for batch in self.split(
                urls,
                by,
                key=key,
                n_bytes_beside=n_bytes_beside,
                row_status=row_status,
                in_parts=True,
            ):
                yield [batch]
            return
        held: list[NodeBatch] = []
        try:
            for i, rows, name, given in split_by_partition(
                urls, self.n_partitions, by, key=key, n_bytes_beside=n_bytes_beside
            ):
                is_full = len(held) == TOGETHER_MAX or any(i == one.node.partition for one in held)
                if held and (is_full or not held[0].node.can_send):
                    yield held
                    self._leave_all(held)
                node = self.enter(i)
                if node is None:
                    row_status[rows] = RowStatus.UNAVAILABLE
                else:
                    held.append(NodeBatch(node, rows, name, given))
            if held:
                yield held
        finally:
            self._leave_all(held)

    def _leave_all(self, held: list[NodeBatch]) -> None:
        while held:
            self.leave(held.pop().node)

    def split_rows(
        self, partition: NDArray[np.int64], is_unavailable: NDArray[np.bool_]
    ) -> Iterator[tuple[Node, NDArray[np.int64]]]:
        """Yield the open nodes of rows, each with its rows.

        Parameters
        ----------
        partition
            Number of each row's partition; rows with a number that no partition has are left out.
        is_unavailable
            Flag of each row, which becomes True where the partition is not open here.
        """
        for group in self.split_rows_together(partition, is_unavailable, n_together=1):
            yield from group

    def split_rows_together(
        self,
        partition: NDArray[np.int64],
        is_unavailable: NDArray[np.bool_],
        *,
        n_together: int = TOGETHER_MAX,
    ) -> Iterator[Sequence[tuple[Node, NDArray[np.int64]]]]:
        """Yield what `split_rows` yields, several nodes together.

        Parameters
        ----------
        partition, is_unavailable
            Arguments of `split_rows`.
        n_together
            Largest number of nodes at once.
        """
        row = np.flatnonzero((partition >= 0) & (partition < self.n_partitions))
        row = row[np.argsort(partition[row], kind="stable")]
        number, first = np.unique(partition[row], return_index=True)
        parts = [*zip(number.tolist(), np.split(row, first[1:]), strict=False)]
        for begin in range(0, len(parts), n_together):
            some = parts[begin : begin + n_together]
            with self.use_some(i for i, _ in some) as nodes:
                by_partition = {node.partition: node for node in nodes}
                for i, rows in some:
                    if i not in by_partition:
                        is_unavailable[rows] = True
                if nodes:
                    yield [(by_partition[i], rows) for i, rows in some if i in by_partition]

    def put(self, node: Node) -> None:
        """Add the node of a partition, or replace the one before."""
        with self._idle:
            self.by_partition[node.partition] = node
            self._update()

    # ------------------------------------------------------------------ removing a node in use

    def enter(self, partition: int) -> Node | None:
        """Return a node that stays usable until `leave`; None if the partition is not open."""
        with self._idle:
            node = self.by_partition.get(partition)
            if node is not None:
                self._n_users[id(node)] += 1
            return node

    def leave(self, node: Node) -> None:
        """End the use of a node that `enter` has returned."""
        with self._idle:
            self._n_users[id(node)] -= 1
            if not self._n_users[id(node)]:
                del self._n_users[id(node)]
                self._idle.notify_all()

    @contextmanager
    def use(self, partition: int) -> Iterator[Node]:
        """Use the node of a partition; raise `PartitionAway` if it is not open here."""
        node = self.enter(partition)
        if node is None:
            raise PartitionAway(partition)
        try:
            yield node
        finally:
            self.leave(node)

    @contextmanager
    def use_some(self, partitions: Iterable[int]) -> Iterator[list[Node]]:
        """Use the nodes of those partitions that are open here: none is closed meanwhile."""
        entered = [self.enter(partition) for partition in partitions]
        nodes = [node for node in entered if node is not None]
        try:
            yield nodes
        finally:
            for node in nodes:
                self.leave(node)

    @contextmanager
    def use_all(self) -> Iterator[tuple[Node, ...]]:
        """Use all open nodes: none of them is closed meanwhile."""
        with self._idle:
            nodes = self.all
            self._n_users.update(map(id, nodes))
        try:
            yield nodes
        finally:
            for node in nodes:
                self.leave(node)

    def remove(self, partition: int) -> Node:
        """Remove the node of a partition, which calls under way still use; see `wait_for_users`."""
        with self._idle:
            node = self[partition]
            del self.by_partition[partition]
            self._update()
            return node

    def wait_for_users(self, node: Node, seconds_max: float) -> bool:
        """Wait until no call uses a node any more; return False if that takes too long."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._n_users[id(node)], seconds_max)
