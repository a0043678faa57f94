"""Places of consumers in the logs of the partitions, as the workers of a cluster keep them.

The place of a consumer in the feed of a partition is in the log of that partition.  So it is as
durable as the changes themselves, moves with the partition to its next owner, and is in snapshots.
An owner compares places while it holds the lock of its node: none goes back unless that is wanted.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from recrawl.corpus.feed.change_feed import CorpusCursor
from recrawl.corpus.feed.consumers import (
    NEWEST,
    NOWHERE,
    OLDEST,
    Committed,
    FeedPlace,
    check_consumer_name,
    check_number,
    n_missed_at,
    parse_place,
    place_at,
)
from recrawl.errors import StorageError
from recrawl.node.node import Node
from recrawl.node.open_nodes import TOGETHER_MAX, OpenNodes, lock_nodes, submit_each
from recrawl.node.records import ConsumersPlaced
from recrawl.store import Cursor, Store

__all__ = ["LoggedConsumers", "moved_places", "pack_place", "unpack_place"]


class LoggedConsumers:
    """A `recrawl.corpus.feed.consumers.KeptPlaces` in the logs of the open partitions.

    Parameters
    ----------
    nodes
        Nodes of the open partitions, none of which is closed during a call.
    """

    def __init__(self, nodes: OpenNodes) -> None:
        self._nodes = nodes

    def names(self) -> Iterable[str]:
        """Return the names of all consumers, in any order."""
        return {name for node in self._nodes for name in node.store.consumer_places()}

    def read(self, name: str) -> Committed | None:
        """Return what is kept of a consumer; None if there is no such consumer."""
        check_consumer_name(name)
        found = {
            node.partition: unpack_place(name, value)
            for node in self._nodes
            if (value := node.store.consumer_place(name)) is not None
        }
        if not found:
            return None
        places = [NOWHERE] * self._nodes.n_partitions
        for node in self._nodes:
            # A commit that did not reach this partition: it begins with the oldest change here.
            oldest = FeedPlace(node.store.first_change, node.store.n_trimmed_changes, None)
            places[node.partition] = found.get(node.partition, (oldest, 0))[0]
        at_ms = max(committed_at_ms for _, committed_at_ms in found.values())
        return Committed(tuple(places), at_ms, self._nodes.generation)

    def commit(self, name: str, cursor: str, *, now_ms: int, rewind: bool = False) -> CorpusCursor:
        """Commit the place of a consumer durably, and return the place that holds now."""
        check_consumer_name(name)
        nodes = [*self._nodes]
        given = None if cursor in (OLDEST, NEWEST) else parse_place(cursor, self._nodes)
        places = [NOWHERE.cursor] * self._nodes.n_partitions
        for some in _together(nodes):
            new: list[tuple[Node, bytes]] = []
            with lock_nodes(some):
                for node in some:
                    node.check_owner()
                    before = _known_place(node, name)
                    wanted = _wanted_place(node, cursor, given)
                    place = place_at(node, wanted, before, rewind)
                    places[node.partition] = place.cursor
                    if place != before:
                        new.append((node, pack_place(place, now_ms)))
                _log_places(name, new)
        return CorpusCursor(tuple(places), self._nodes.generation)

    def delete(self, name: str) -> bool:
        """Delete a consumer; return whether it existed."""
        check_consumer_name(name)
        is_found = False
        for some in _together([*self._nodes]):
            with lock_nodes(some):
                found = [node for node in some if node.store.consumer_place(name) is not None]
                for node in found:
                    node.check_owner()
                _log_places(name, [(node, None) for node in found])
            is_found |= bool(found)
        return is_found


def _together(nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
    """Yield some of the nodes at a time, so that nobody waits long for the locks of all."""
    for first in range(0, len(nodes), TOGETHER_MAX):
        yield nodes[first : first + TOGETHER_MAX]


def _known_place(node: Node, name: str) -> FeedPlace | None:
    """Return the place of a consumer in a partition; None if it has none, and may have one."""
    value = node.store.consumer_place(name)
    if value is None:
        check_number(len(node.store.consumer_places()))
        return None
    return unpack_place(name, value)[0]


def _wanted_place(node: Node, cursor: str, given: CorpusCursor | None) -> Cursor:
    """Return the place in a partition that a cursor, `OLDEST` or `NEWEST` stands for."""
    if given is not None:
        return given.places[node.partition]
    return Cursor(node.store.position, 0) if cursor == NEWEST else node.store.first_change


def _log_places(name: str, places: "list[tuple[Node, bytes]] | list[tuple[Node, None]]") -> None:
    """Log the place of a consumer in each partition, or its removal."""
    submit_each(
        (
            node,
            [
                ConsumersPlaced(
                    np.array([node.shard.epoch], np.int64),
                    pa.array([name], pa.string()),
                    pa.array([place], pa.binary()),
                )
            ],
        )
        for node, place in places
    )
    for node, _ in places:
        node.check_owner()  # another one may have claimed the partition just before


def moved_places(
    olds: Sequence[Node], generation: int, store: Store, n_changes: int
) -> tuple[list[str], list[bytes | None]]:
    """Return the consumers of old partitions, and the place of each in a new partition.

    Parameters
    ----------
    olds
        Nodes of all old partitions, in the order of their numbers.
    generation
        Layout generation of the old partitions.
    store
        Store of the new partition, which has the old changes already.
    n_changes
        Number of changes in its feed.
    """
    found = [node.store.consumer_places() for node in olds]
    names = sorted({name for places in found for name in places})
    values: list[bytes | None] = []
    for name in names:
        old = [
            (NOWHERE, 0) if name not in places else unpack_place(name, places[name])
            for places in found
        ]
        rows = zip(olds, found, old, strict=True)
        has_missed = any(
            name in places and n_missed_at(node, one) for node, places, (one, _) in rows
        )
        if has_missed:
            # Fewer than none were read: whoever asks is told that changes are missing.
            place = FeedPlace(Cursor.parse(None), -1, None)
        else:
            cursors = [
                max(one.cursor, node.store.first_change)
                for node, (one, _) in zip(olds, old, strict=True)
            ]
            cursor = store.translate_places(generation, cursors)
            is_end = store.change_at(cursor) is None
            place = FeedPlace(cursor, n_changes if is_end else store.n_changes_before(cursor), None)
        values.append(pack_place(place, max(committed_at_ms for _, committed_at_ms in old)))
    return names, values


def pack_place(place: FeedPlace, committed_at_ms: int) -> bytes:
    """Return the place of a consumer in one partition as bytes."""
    content = {
        "cursor": str(place.cursor),
        "n_read": place.n_read,
        "last": place.last,
        "committed_at_ms": committed_at_ms,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def unpack_place(name: str, value: bytes) -> tuple[FeedPlace, int]:
    """Return a place, and when it was committed, from the bytes of `pack_place`."""
    try:
        content = json.loads(value)
        n_read, last = content["n_read"], content["last"]
        place = FeedPlace(
            Cursor.parse(content["cursor"]),
            None if n_read is None else int(n_read),
            None if last is None else (int(last[0]), int(last[1]), int(last[2])),
        )
        return place, int(content["committed_at_ms"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StorageError(
            f"the place of consumer {name} cannot be read: {error}.  Remove the consumer; it then "
            "starts with the oldest change"
        ) from error
