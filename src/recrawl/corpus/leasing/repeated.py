"""Recognise a request that a client repeats because it got no answer.

The key of a request is in the log records of its effect.  A request may have several: one for each
partition, and for each batch of rows in it.  So each record has the key of a part, and a repeated
request does only the parts that the log does not have.
"""

from hashlib import blake2b

import numpy as np

from recrawl.errors import PositionLost, RequestKeyReused
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.orders import OrderRows, orders_of
from recrawl.node.records import RequestKey, entry_of
from recrawl.shard import Ordered
from recrawl.shard.events import select_rows
from recrawl.shard.state.status import LeaseStage

__all__ = ["RequestParts", "held_orders", "held_rows", "is_repeated"]


class RequestParts:
    """The keys of the parts of a request, numbered by partition.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    request
        Key of the whole request; None if it has none.

    Raises
    ------
    RequestKeyReused
        If a partition has seen another request with the same key.
    """

    def __init__(self, nodes: OpenNodes, request: RequestKey | None) -> None:
        self._request = request
        self._n_taken = [0] * nodes.n_partitions
        if request is not None:
            if not request.key:
                raise ValueError("the key of a request must not be empty")
            for node in nodes:
                is_repeated(node, _part_of(request, 0))

    def take(self, partition: int) -> RequestKey | None:
        """Return the key of the next part in a partition; None if the request has no key."""
        if self._request is None:
            return None
        number = self._n_taken[partition]
        self._n_taken[partition] += 1
        return _part_of(self._request, number)


def _part_of(request: RequestKey, number: int) -> RequestKey:
    name = blake2b(request.key, digest_size=24).digest() + number.to_bytes(4, "big")
    return RequestKey(name, blake2b(request.digest, digest_size=16).digest())


def is_repeated(node: Node, request: RequestKey) -> bool:
    """Return whether the log of a node has a request already; raise if it has another one."""
    found = node.find_request(request.key)
    if found is None:
        return False
    if found.digest != request.digest:
        raise RequestKeyReused(
            "the idempotency key was used for another request within the last day; "
            "use a new key for each request"
        )
    return True


def held_orders(nodes: OpenNodes, request: RequestKey, now_ms: int) -> OrderRows | None:
    """Return the orders of a repeated lease that are still held; None if it is the first.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    request
        Key of the lease.
    now_ms
        Current time, in milliseconds since 1970.
    """
    found: OrderRows | None = None
    for node in nodes:
        with node.lock:
            number = 0
            while is_repeated(node, part := _part_of(request, number)):
                number += 1
                rows = held_rows(node, part, now_ms)
                is_announced = node.find_announced(rows.page)
                orders = orders_of(node.store, node.partition, rows, is_announced, node.generation)
                found = orders if found is None else found + orders
    return found


def held_rows(node: Node, request: RequestKey, now_ms: int) -> Ordered:
    """Return the orders in the log record of a request that are still held.

    Parameters
    ----------
    node
        Node with the record.
    request
        Key of the part of the request.
    now_ms
        Current time, in milliseconds since 1970.
    """
    accepted = node.find_request(request.key)
    ordered = None if accepted is None else _orders_at(node, accepted.position)
    if ordered is None:
        none = np.zeros(0, np.int64)
        return Ordered(none, none, none, none, none, np.zeros(0, np.uint8))
    leases = node.shard.tables.leases
    row = ordered.order & (leases.page.size - 1)
    is_held = (
        (node.pages_of_orders(ordered.order) == ordered.page)
        & (leases.stage[row] == LeaseStage.IN_FLIGHT)
        & (leases.expires_at[row] > now_ms)
    )
    held = ordered._replace(expires_at_ms=leases.expires_at[row])
    return select_rows(held, is_held)


def _orders_at(node: Node, position: int) -> Ordered | None:
    """Return the orders at a position of the log; None if the log no longer has it."""
    try:
        found = node.ledger.read(position, n_bytes_max=1)
    except PositionLost:
        return None
    if not found or found[0][0] != position:
        return None
    entry = entry_of(found[0][1])
    return entry if isinstance(entry, Ordered) else None
