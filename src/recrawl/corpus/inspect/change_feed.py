"""The feed of changes: what became of pages, in the order of the log, from a cursor on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from recrawl.node.node import Node
from recrawl.shard import Transition
from recrawl.store import Cursor

__all__ = ["Change", "CorpusCursor", "changes_after"]


@dataclass(frozen=True, slots=True)
class CorpusCursor:
    """How far somebody has read: a place in the log of each partition."""

    places: tuple[Cursor, ...]

    @classmethod
    def parse(cls, text: str | None, n_partitions: int) -> Self:
        """Return the cursor that a text stands for; None is before everything.

        Raises
        ------
        ValueError
            If the text is no cursor of a corpus with so many partitions.
        """
        if text is None:
            return cls((Cursor.parse(None),) * n_partitions)
        places = text.split("_")
        if len(places) != n_partitions:
            raise ValueError(f"cursor must have {n_partitions} parts, got {text!r}")
        return cls(tuple(Cursor.parse(place) for place in places))

    def moved(self, partition: int, place: Cursor) -> "CorpusCursor":
        """Return the cursor after a change of one partition."""
        return CorpusCursor(
            tuple(place if i == partition else old for i, old in enumerate(self.places))
        )

    def __str__(self) -> str:
        return "_".join(str(place) for place in self.places)


class Change(NamedTuple):
    """What became of a page."""

    cursor: str
    """To go on after this change."""
    url: str
    what: Transition
    at_ms: int
    """When it was known: the node's time, which only grows."""


def changes_after(nodes: Sequence[Node], cursor: CorpusCursor, limit: int) -> list[Change]:
    """Return the changes after a cursor, oldest first by their time."""
    found = []
    for i, node in enumerate(nodes):
        rows = node.store.changes(cursor.places[i], limit)
        found += [(row.at_ms, i, row) for row in rows]
    found.sort(key=lambda entry: entry[0])
    changes = []
    for _, i, row in found[:limit]:
        cursor = cursor.moved(i, row.cursor)
        if row.url is not None:
            changes.append(Change(str(cursor), row.url, Transition(row.transition), row.at_ms))
    return changes
