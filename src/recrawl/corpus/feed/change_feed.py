"""The feed of changes: new, changed and gone pages after a cursor, in the order of the log."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from recrawl.corpus.inspect.kinds import kind_names
from recrawl.messages.views import PageChange
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.shard import Transition
from recrawl.store import Cursor, Names, metadata_object, unpack_passages

__all__ = [
    "CorpusCursor",
    "PageChange",
    "changes_after",
    "is_from_before",
    "latest_changes",
    "parse_cursor",
    "parse_old_cursor",
]

_GENERATION = re.compile(r"g\d{1,2}_")


@dataclass(frozen=True, slots=True)
class CorpusCursor:
    """Position in the feed of changes: one cursor for each partition.

    As text, it begins with the layout generation of the corpus unless that is 0: ``g1_``.
    """

    places: tuple[Cursor, ...]
    generation: int = 0
    """Layout generation of the corpus: number of changes of its division into partitions."""

    @classmethod
    def parse(cls, text: str | None, n_partitions: int, generation: int = 0) -> Self:
        """Return the cursor that a text encodes; None is the beginning of the feed.

        Raises
        ------
        ValueError
            If the text is not a cursor of a corpus with this many partitions, or comes from
            another layout generation; `parse_cursor` translates those of earlier ones.
        """
        if text is None:
            return cls((Cursor.parse(None),) * n_partitions, generation)
        found, places = _generation_and_places(text)
        if found != generation:
            raise ValueError(
                f"cursor {text!r} is from layout generation {found}, but the corpus has "
                f"generation {generation}: its division into partitions was changed. Begin with "
                "the oldest change, or with the newest"
            )
        if len(places) != n_partitions:
            raise ValueError(f"cursor must have {n_partitions} parts, got {text!r}")
        return cls(tuple(Cursor.parse(place) for place in places), generation)

    def advance(self, partition: int, place: Cursor) -> "CorpusCursor":
        """Return the cursor after a change of one partition."""
        return CorpusCursor(
            tuple(place if i == partition else old for i, old in enumerate(self.places)),
            self.generation,
        )

    def __str__(self) -> str:
        prefix = f"g{self.generation}_" if self.generation else ""
        return prefix + "_".join(str(place) for place in self.places)


def _generation_and_places(text: str) -> tuple[int, list[str]]:
    places = text.split("_")
    return int(places.pop(0)[1:]) if _GENERATION.match(text) else 0, places


def is_from_before(text: str | None, generation: int) -> bool:
    """Return whether a cursor is from before a change of the number of partitions."""
    return text is not None and _generation_and_places(text)[0] < generation


def parse_old_cursor(text: str) -> CorpusCursor:
    """Return the cursor that a text encodes, of whatever generation it is."""
    generation, places = _generation_and_places(text)
    return CorpusCursor.parse(text, len(places), generation)


def parse_cursor(text: str | None, nodes: OpenNodes) -> CorpusCursor:
    """Return the cursor that a text encodes, also one from before a change of partitions.

    Such a cursor leads to the first change that it has not read.  In partitions that are not open
    here it leads to the oldest change.

    Parameters
    ----------
    text
        Cursor as text; None is the beginning of the feed.
    nodes
        Nodes of the open partitions, none of which is closed meanwhile.

    Raises
    ------
    ValueError
        If the text is not a cursor of this corpus, or too old.
    """
    if text is None or not is_from_before(text, nodes.generation):
        return CorpusCursor.parse(text, nodes.n_partitions, nodes.generation)
    old = parse_old_cursor(text)
    places = [Cursor.parse(None)] * nodes.n_partitions
    for node in nodes:
        places[node.partition] = node.store.translate_places(old.generation, old.places)
    return CorpusCursor(tuple(places), nodes.generation)


def changes_after(nodes: Iterable[Node], cursor: CorpusCursor, limit: int) -> list[PageChange]:
    """Return at most ``limit`` changes after a cursor, oldest first.

    Nothing is returned only if there are no more changes.  The user's own data is that of now, not
    of the time of the change.
    """
    changes: list[PageChange] = []
    while not changes:
        found = []
        for node in nodes:
            rows = node.store.changes(cursor.places[node.partition], limit)
            found += [(row.at_ms, node.partition, row) for row in rows]
        if not found:
            break
        found.sort(key=lambda entry: entry[0])
        found = found[:limit]
        pages = [(i, row.page) for _, i, row in found]
        own, kinds = _user_data(nodes, pages), _kinds(nodes, pages)
        for (_, i, row), (doc_id, metadata), kind in zip(found, own, kinds, strict=True):
            cursor = cursor.advance(i, row.cursor)
            # A change whose URL was not stored only moves the cursor.
            if row.url is not None:
                what = Transition(row.transition)
                passages = None if row.passages is None else unpack_passages(row.passages)
                change = (str(cursor), row.url, what, row.at_ms, doc_id, metadata, row.key)
                sequence = _sequence(cursor.generation, row.cursor, i)
                changes.append(PageChange(*change, passages, kind, sequence))
    return changes


def latest_changes(nodes: OpenNodes, limit: int) -> list[PageChange]:
    """Return the last changes of open partitions, newest first, with the user's data of now.

    Their cursors are places in their own partitions only: do not go on reading from them.

    Parameters
    ----------
    nodes
        Open partitions of a corpus.
    limit
        Largest number of changes.
    """
    with nodes.use_all() as opened:
        found = [
            (row.at_ms, node.partition, row)
            for node in opened
            for row in node.store.newest_changes(limit)
            if row.url is not None
        ]
        found.sort(key=lambda entry: -entry[0])
        found = found[:limit]
        pages = [(i, row.page) for _, i, row in found]
        own, kinds = _user_data(opened, pages), _kinds(opened, pages)
        return [
            PageChange(
                str(row.cursor),
                row.url or "",
                Transition(row.transition),
                row.at_ms,
                doc_id,
                metadata,
                row.key,
                kind=kind,
                sequence=_sequence(nodes.generation, row.cursor, i),
            )
            for (_, i, row), (doc_id, metadata), kind in zip(found, own, kinds, strict=True)
        ]


def _sequence(generation: int, after: Cursor, partition: int) -> str:
    """Return the number of a change: its place in its partition, as text of a fixed length."""
    return f"{generation:02x}-{after.position:016x}-{after.row:08x}-{partition:04x}"


def _user_data(
    nodes: Iterable[Node], pages: list[tuple[int, int]]
) -> list[tuple[str | None, dict[str, Any] | None]]:
    """Return doc_id and metadata of pages, each given by its partition and number."""
    found: list[tuple[str | None, dict[str, Any] | None]] = [(None, None)] * len(pages)
    for node in nodes:
        rows = [row for row, (partition, _) in enumerate(pages) if partition == node.partition]
        own = node.store.user_data_of(np.array([pages[row][1] for row in rows], np.int64))
        for row, doc_id, text in zip(rows, *own, strict=True):
            found[row] = doc_id, metadata_object(text)
    return found


def _kinds(nodes: Iterable[Node], pages: list[tuple[int, int]]) -> list[str | None]:
    """Return the kinds of pages, each given by its partition and number."""
    found: list[str | None] = [None] * len(pages)
    for node in nodes:
        if not node.store.n_names(Names.KIND):
            continue
        rows = [row for row, (partition, _) in enumerate(pages) if partition == node.partition]
        page = np.array([pages[row][1] for row in rows], np.int64)
        table = node.shard.tables.pages
        slot = page & 0xFFFFFFFF
        is_known = slot < table.kind.size
        slot = np.where(is_known, slot, 0)
        # The slot of a page that is no longer tracked may belong to another one.
        is_known &= table.generation[slot] == page >> 32
        names = kind_names(node)
        for row, number in zip(rows, np.where(is_known, table.kind[slot], 0), strict=True):
            found[row] = names.get(int(number))
    return found
