"""The feed of changes: new, changed and gone pages after a cursor, in the order of the log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from recrawl.node.node import Node
from recrawl.shard import Transition
from recrawl.store import Cursor

__all__ = ["CorpusCursor", "PageChange", "changes_after"]


@dataclass(frozen=True, slots=True)
class CorpusCursor:
    """Position in the feed of changes: one cursor for each partition."""

    places: tuple[Cursor, ...]

    @classmethod
    def parse(cls, text: str | None, n_partitions: int) -> Self:
        """Return the cursor that a text encodes; None is the beginning of the feed.

        Raises
        ------
        ValueError
            If the text is not a cursor of a corpus with this many partitions.
        """
        if text is None:
            return cls((Cursor.parse(None),) * n_partitions)
        places = text.split("_")
        if len(places) != n_partitions:
            raise ValueError(f"cursor must have {n_partitions} parts, got {text!r}")
        return cls(tuple(Cursor.parse(place) for place in places))

    def advance(self, partition: int, place: Cursor) -> "CorpusCursor":
        """Return the cursor after a change of one partition."""
        return CorpusCursor(
            tuple(place if i == partition else old for i, old in enumerate(self.places))
        )

    def __str__(self) -> str:
        return "_".join(str(place) for place in self.places)


class PageChange(NamedTuple):
    """One change of a page."""

    cursor: str
    """Cursor to continue after this change."""
    url: str
    what: Transition
    at_ms: int
    """Time at which recrawl learned of it, in milliseconds since 1970; it never decreases."""


def changes_after(nodes: Sequence[Node], cursor: CorpusCursor, limit: int) -> list[PageChange]:
    """Return at most ``limit`` changes after a cursor, oldest first.

    Nothing is returned only if there are no more changes.
    """
    changes: list[PageChange] = []
    while not changes:
        found = []
        for i, node in enumerate(nodes):
            rows = node.store.changes(cursor.places[i], limit)
            found += [(row.at_ms, i, row) for row in rows]
        if not found:
            break
        found.sort(key=lambda entry: entry[0])
        for _, i, row in found[:limit]:
            cursor = cursor.advance(i, row.cursor)
            # A change whose URL was not stored only moves the cursor.
            if row.url is not None:
                changes.append(
                    PageChange(str(cursor), row.url, Transition(row.transition), row.at_ms)
                )
    return changes
