"""Order pages of several partitions at once: their appends to the log are under way together.

An append to a log on Kafka waits for the brokers.  One after the other, a lease of a hundred
partitions would wait a hundred times.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from recrawl.corpus.leasing.shares import Reserved, SharedOrders
from recrawl.corpus.leasing.small_calls import Wanted
from recrawl.errors import LedgerError, OwnershipLost, RecrawlError
from recrawl.node.clock import NodeTime
from recrawl.node.node import BegunOrders, Node
from recrawl.node.open_nodes import TOGETHER_MAX, lock_nodes, tick_each
from recrawl.node.orders import OrderRows, orders_of
from recrawl.node.records import RequestKey
from recrawl.shard import Ordered

__all__ = ["NodeAnswers", "first_share", "order_in_turn", "order_rows_of"]

logger = logging.getLogger(__name__)

# A lease asks at least this many partitions, if there are as many, so that its pages are those of
# many hosts and of the greatest value.
_PARTITIONS_MIN = 16
# Beyond these, it asks another partition only for this many orders.  To ask one costs as much as
# some twenty orders.
_ORDERS_MIN = 64


def first_share(n: int, n_partitions: int) -> int:
    """Return how many orders a lease first asks of each partition.

    Parameters
    ----------
    n
        Number of orders that are wanted.
    n_partitions
        Number of open partitions.
    """
    few = min(_ORDERS_MIN, -(-n // _PARTITIONS_MIN))
    return max(-(-n // n_partitions), few)


class _Asked(NamedTuple):
    """Orders of one node that are decided."""

    node: Node
    n_asked: int
    reserved: Reserved | None
    begun: BegunOrders

    @property
    def has_more(self) -> bool:
        """Whether the node may have more pages than it was asked for."""
        return bool(self.begun.proposal.order.size >= self.n_asked)


@dataclass(slots=True)
class NodeAnswers:
    """How the nodes that a lease has asked answered.

    A partition that has stopped, or that another process has claimed, affects no other: its pages
    are missing, and a lease returns what there is.
    """

    n_answers: int = 0
    warns_of_stopped: bool = True
    """Whether to log that a partition has stopped; each node does so once, where others go on."""
    errors: dict[int, RecrawlError] = field(default_factory=dict)
    exhausted: set[int] = field(default_factory=set)
    """Partitions that gave fewer pages than they were asked for, and so have no more now."""

    def can_ask(self, partition: int) -> bool:
        """Return whether it is of use to ask the node of a partition."""
        return partition not in self.errors and partition not in self.exhausted

    def note_error(self, partition: int, error: RecrawlError) -> None:
        """Take note that a node failed, which is not asked again."""
        if isinstance(error, OwnershipLost):
            logger.info("partition %d has moved to another worker or process", partition)
        elif self.warns_of_stopped or not isinstance(error, LedgerError):
            logger.warning("partition %d gave no orders: %s", partition, error)
        self.errors[partition] = error

    def raise_if_all_failed(self) -> None:
        """Raise the first error if no node has answered."""
        if self.errors and not self.n_answers:
            raise next(iter(self.errors.values()))


def order_in_turn(
    turn: Sequence[Node],
    share: int,
    wanted: Wanted,
    shared: SharedOrders,
    time: NodeTime,
    answers: NodeAnswers,
) -> None:
    """Order up to ``share`` pages of each node, until as many are found as are wanted.

    Parameters
    ----------
    turn
        Nodes to ask, in this order.
    share
        Largest number of orders of each.
    wanted
        Run, length and exactness of the leases.
    shared
        Orders of the callers, to which those found are added.
    time
        Time of the corpus.
    answers
        Answers of the nodes so far; one that has failed, or has no more, is not asked again.
    """
    n_together = -(-shared.n_left // share)
    usable = [node for node in turn if answers.can_ask(node.partition)]
    first = 0
    while first < len(usable) and shared.n_left > 0:
        n_together = min(n_together, TOGETHER_MAX) if usable[first].can_send else 1
        nodes = usable[first : first + n_together]
        _order_together(nodes, share, wanted, shared, time, answers)
        first += n_together
        # Those had too few, and others may have none: ask more of them at once.
        n_together *= 2


def _order_together(
    nodes: Sequence[Node],
    share: int,
    wanted: Wanted,
    shared: SharedOrders,
    time: NodeTime,
    answers: NodeAnswers,
) -> None:
    found: list[tuple[Node, Ordered, list[int], Reserved]] = []
    with lock_nodes(nodes):
        now_ms = time.now_ms()
        for partition, error in tick_each(nodes, now_ms).items():
            answers.note_error(partition, error)
        asked: list[_Asked] = []
        for node in nodes:
            if node.partition in answers.errors or shared.n_left <= 0:
                continue
            try:
                asked.append(_begin(node, min(share, shared.n_left), wanted, shared, now_ms))
            except RecrawlError as error:
                answers.note_error(node.partition, error)
        for one in asked:
            node, _, reserved, begun = one
            if not one.has_more:
                answers.exhausted.add(node.partition)
            # All of them, also after an error, because they may be in the log.
            try:
                ordered, counts = node.finish_orders(begun)
            except RecrawlError as error:
                answers.note_error(node.partition, error)
                if reserved is not None:
                    shared.add(OrderRows.none(), [0] * len(reserved.owners), reserved)
                continue
            answers.n_answers += 1
            if reserved is not None:
                found.append((node, ordered, counts, reserved))
    for node, ordered, counts, reserved in found:
        shared.add(order_rows_of(node, ordered), counts, reserved)


def _begin(node: Node, n: int, wanted: Wanted, shared: SharedOrders, now_ms: int) -> _Asked:
    reserved: Reserved | None = None

    def split(n_rows: int) -> list[tuple[int, RequestKey | None]]:
        nonlocal reserved
        reserved = shared.reserve(node.partition, n_rows)
        return reserved.pieces

    _, seconds, exact = wanted
    begun = node.begin_orders(
        n, now_ms, lease_seconds=seconds, exact=exact, split=split, sends=True
    )
    return _Asked(node, n, reserved, begun)


def order_rows_of(node: Node, ordered: Ordered) -> OrderRows:
    """Return orders of a node for fetchers."""
    is_announced = node.find_announced(ordered.page)
    return orders_of(node.store, node.partition, ordered, is_announced, node.generation)
