"""Named consumers of the change feed: each continues where it last committed.

Where the places are kept is a question of its own: in files of the folder
(`recrawl.corpus.feed.consumer_files`), or in the logs of the partitions
(`recrawl.corpus.feed.logged_consumers`), as the workers of a cluster do.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from recrawl.corpus.feed.change_feed import CorpusCursor, parse_cursor
from recrawl.errors import ChangesLost, StorageError
from recrawl.messages.views import Consumer
from recrawl.node.config.sections import ChangesConfig
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.store import Cursor

__all__ = [
    "CONSUMERS_MAX",
    "NEWEST",
    "NOWHERE",
    "OLDEST",
    "Committed",
    "Consumer",
    "FeedPlace",
    "KeptPlaces",
    "check_consumer_name",
    "check_number",
    "consumer_place",
    "is_ahead",
    "list_consumers",
    "n_missed_at",
    "parse_place",
    "place_at",
]

CONSUMERS_MAX = 1_000
"""Maximum number of consumers of a corpus."""
OLDEST = "oldest"
"""Cursor that stands for the oldest change in the feed."""
NEWEST = "newest"
"""Cursor that stands for the end of the feed."""

# Lower case only, because some file systems do not tell "Nightly" from "nightly".
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class FeedPlace(NamedTuple):
    """The committed place of a consumer in one partition."""

    cursor: Cursor
    n_read: int | None
    """Number of changes of the partition before the place; None if it was not known, and -1 if
    changes were missed before the number of partitions was changed."""
    last: tuple[int, int, int] | None
    """Page, transition and instant of the change before the place, which show whether a later
    feed is the same one."""


NOWHERE = FeedPlace(Cursor.parse(None), None, None)
"""The place of a new consumer in a partition that is not open here."""


class Committed(NamedTuple):
    """What is kept of a consumer."""

    places: tuple[FeedPlace, ...]
    committed_at_ms: int
    generation: int

    @property
    def cursor(self) -> CorpusCursor:
        """Its place in all partitions."""
        return CorpusCursor(tuple(place.cursor for place in self.places), self.generation)


class KeptPlaces(Protocol):
    """Where the places of the consumers of a corpus are kept."""

    def names(self) -> Iterable[str]:
        """Return the names of all consumers, in any order."""
        ...

    def read(self, name: str) -> Committed | None:
        """Return what is kept of a consumer; None if there is no such consumer.

        Raises
        ------
        StorageError
            If it cannot be read.
        """
        ...

    def commit(self, name: str, cursor: str, *, now_ms: int, rewind: bool = False) -> CorpusCursor:
        """Commit the place of a consumer durably, and return the place that holds now.

        Parameters
        ----------
        name
            Name of the consumer; it is created if it does not exist.
        cursor
            Cursor of the last change that the consumer has processed; `OLDEST` or `NEWEST`.
        now_ms
            Time of the commit, in milliseconds since 1970.
        rewind
            Whether the place may move back.  Otherwise a partition whose place is already further
            keeps it, so that a slow process does not undo the commit of a faster one.
        """
        ...

    def delete(self, name: str) -> bool:
        """Delete a consumer; return whether it existed."""
        ...


def check_consumer_name(name: str) -> None:
    """Raise ValueError if a consumer cannot have this name."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a consumer must be 1 to 64 lower-case letters, digits, '.', '_' and '-', "
            f"and begin with a letter or digit, got {name!r}"
        )


def check_number(n_consumers: int) -> None:
    """Raise ValueError if a corpus with so many consumers can have no other one."""
    if n_consumers >= CONSUMERS_MAX:
        raise ValueError(
            f"a corpus has at most {CONSUMERS_MAX} consumers; remove one that is not used"
        )


def consumer_place(kept: KeptPlaces, nodes: OpenNodes, name: str) -> CorpusCursor:
    """Return the place from which a consumer continues; a new one starts with the oldest change.

    Raises
    ------
    ChangesLost
        If the feed no longer has all changes after its place, or is not the feed it has read.
    """
    committed = kept.read(name)
    if committed is None:
        return _oldest(nodes)
    problem = _problem_of(name, nodes, committed)
    if problem is not None:
        raise ChangesLost(problem)
    return committed.cursor


def is_ahead(kept: KeptPlaces, nodes: OpenNodes, name: str) -> bool:
    """Return whether a consumer's place is after the end of the feed as the nodes see it."""
    committed = kept.read(name)
    return committed is not None and _is_any_ahead(nodes, committed.places)


def list_consumers(
    places: KeptPlaces, nodes: OpenNodes, *, kept: ChangesConfig, now_ms: int
) -> list[Consumer]:
    """Return all consumers, by name.

    Parameters
    ----------
    places
        Where the places are kept.
    nodes
        Nodes of the open partitions.
    kept
        How long changes are kept.
    now_ms
        Current time, in milliseconds since 1970.
    """
    consumers = []
    for name in sorted(places.names()):
        try:
            committed = places.read(name)
        except StorageError as error:
            consumers.append(Consumer(name, "", 0, 0, 0, str(error)))
            continue
        if committed is None:  # removed meanwhile
            continue
        here = _places_here(nodes, committed.places)
        counts = [_counts(*one) for one in here]
        consumers.append(
            Consumer(
                name,
                str(committed.cursor),
                committed.committed_at_ms,
                sum(n_behind for n_behind, _ in counts),
                sum(n_missed for _, n_missed in counts),
                _problem_of(name, nodes, committed),
                max((_share_of_kept(*one, kept, now_ms) for one in here), default=0.0),
            )
        )
    return consumers


# ---------------------------------------------------------------------- places


def _oldest(nodes: OpenNodes) -> CorpusCursor:
    return _cursor_of(nodes, {node.partition: node.store.first_change for node in nodes})


def _cursor_of(nodes: OpenNodes, places: Mapping[int, Cursor]) -> CorpusCursor:
    """Return a cursor that begins with the first change of partitions that are not open."""
    start = Cursor.parse(None)
    return CorpusCursor(
        tuple(places.get(i, start) for i in range(nodes.n_partitions)), nodes.generation
    )


def parse_place(text: str, nodes: OpenNodes) -> CorpusCursor:
    """Return the place that a cursor, `OLDEST` or `NEWEST` stands for; raise if it is invalid."""
    if text == OLDEST:
        return _oldest(nodes)
    if text == NEWEST:
        for node in nodes:
            if not node.is_reader:
                with node.lock:
                    # So that another process does not find the consumer ahead of the feed.
                    node.store.save_position()
        return _cursor_of(nodes, {node.partition: Cursor(node.store.position, 0) for node in nodes})
    cursor = parse_cursor(text, nodes)
    for node in nodes:
        if cursor.places[node.partition] > Cursor(node.store.position, 0):
            raise ValueError(f"cursor {text} is after the end of the change feed")
    return cursor


def place_at(node: Node, wanted: Cursor, before: FeedPlace | None, rewind: bool) -> FeedPlace:
    """Return the place to commit in one partition, with what is needed to check it later."""
    if before is not None:
        is_known = before.n_read is None or before.n_read >= 0
        if (wanted == before.cursor and is_known) or (wanted < before.cursor and not rewind):
            return before
    store = node.store
    if wanted == Cursor(0, 0):
        # Nothing was read from this partition: its first change is the oldest that is stored.
        return FeedPlace(wanted, store.n_trimmed_changes, None)
    found = store.change_at(Cursor(wanted.position, wanted.row - 1)) if wanted.row else None
    last = None if found is None else (found.page, found.transition, found.at_ms)
    return FeedPlace(wanted, store.n_changes_before(wanted), last)


def _places_here(nodes: OpenNodes, places: Sequence[FeedPlace]) -> list[tuple[Node, FeedPlace]]:
    """Return the open nodes, each with the committed place in its partition."""
    return [(node, places[node.partition]) for node in nodes]


def _is_any_ahead(nodes: OpenNodes, places: Sequence[FeedPlace]) -> bool:
    return any(_is_ahead(*one) for one in _places_here(nodes, places))


def _is_ahead(node: Node, place: FeedPlace) -> bool:
    return place.cursor > Cursor(node.store.position, 0)


def _counts(node: Node, place: FeedPlace) -> tuple[int, int]:
    """Return how many changes after a place the feed has, and how many it no longer has."""
    store = node.store
    n_trimmed = store.n_trimmed_changes
    if place.n_read is None:
        is_missed = place.cursor < store.first_change
        n_before = n_trimmed if is_missed else store.n_changes_before(place.cursor) or 0
        return store.n_changes - n_before, int(is_missed)
    return max(store.n_changes - max(place.n_read, n_trimmed), 0), max(n_trimmed - place.n_read, 0)


def n_missed_at(node: Node, place: FeedPlace) -> int:
    """Return how many changes after a place the feed no longer has."""
    return _counts(node, place)[1]


def _share_of_kept(node: Node, place: FeedPlace, kept: ChangesConfig, now_ms: int) -> float:
    """Return how much of the time and the number that changes are kept the next one has used."""
    following = node.store.changes(place.cursor, 1)
    n_behind, n_missed = _counts(node, place)
    if n_missed:
        return 1.0
    if not following:
        return 0.0
    age_seconds = max(now_ms - following[0].at_ms, 0) / 1000
    return min(max(age_seconds / kept.kept_for, n_behind / kept.kept_max), 1.0)


def _is_other_feed(node: Node, place: FeedPlace) -> bool:
    if place.last is None:
        return False
    found = node.store.change_at(Cursor(place.cursor.position, place.cursor.row - 1))
    return found is not None and (found.page, found.transition, found.at_ms) != place.last


def _problem_of(name: str, nodes: OpenNodes, committed: Committed) -> str | None:
    here = _places_here(nodes, committed.places)
    if any(_is_ahead(*one) or _is_other_feed(*one) for one in here):
        return (
            f"consumer {name} is at {committed.cursor}, which is not a place in this change feed: "
            "the corpus was restored or has lost its newest changes since.  Commit a new place "
            f"with rewind: {OLDEST!r} reads all stored changes again, {NEWEST!r} skips them"
        )
    n_missed = sum(_counts(*one)[1] for one in here)
    if n_missed:
        return (
            f"consumer {name} has missed {n_missed:,} changes or more: they were removed from the "
            "change feed before it read them (changes.kept_for, changes.kept_max).  Commit "
            f"{OLDEST!r} to continue with the oldest change that is left"
        )
    return None
