"""Named consumers of the change feed: each continues where it last committed.

A consumer is a small file in the folder ``consumers`` of a corpus.  It is not in the log, so that
a process that only reads the corpus can commit while another one writes.  The file replaces the
one before it atomically and is synced, and a lock makes commits of several processes take turns.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recrawl.atomic_files import create_folder, hold_lock, replace_json, sync_to_disk
from recrawl.corpus.inspect.change_feed import CorpusCursor, parse_cursor
from recrawl.errors import ChangesLost, StorageError
from recrawl.messages.views import Consumer
from recrawl.node.config.sections import ChangesConfig
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.store import Cursor

__all__ = [
    "CONSUMERS_MAX",
    "NEWEST",
    "OLDEST",
    "Consumer",
    "commit_consumer",
    "consumer_place",
    "delete_consumer",
    "is_ahead",
    "list_consumers",
]

CONSUMERS_MAX = 1_000
"""Maximum number of consumers of a corpus."""
OLDEST = "oldest"
"""Cursor that stands for the oldest change in the feed."""
NEWEST = "newest"
"""Cursor that stands for the end of the feed."""

_FORMAT = 1
_FILE_BYTES_MAX = 4 << 20
_FOLDER = "consumers"
_SUFFIX = ".json"
_LOCK = ".lock"
# Lower case only, because some file systems do not tell "Nightly" from "nightly".
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class _Place(NamedTuple):
    """The committed place of a consumer in one partition."""

    cursor: Cursor
    n_read: int | None
    """Number of changes of the partition before the place; None if it was not known."""
    last: tuple[int, int, int] | None
    """Page, transition and instant of the change before the place, which show whether a later
    feed is the same one."""


# The place of a new consumer in a partition that is not open here.
_NOWHERE = _Place(Cursor.parse(None), None, None)


class _Committed(NamedTuple):
    """The content of a consumer's file."""

    places: tuple[_Place, ...]
    committed_at_ms: int
    generation: int

    @property
    def cursor(self) -> CorpusCursor:
        return CorpusCursor(tuple(place.cursor for place in self.places), self.generation)


def consumer_place(folder: Path, nodes: OpenNodes, name: str) -> CorpusCursor:
    """Return the place from which a consumer continues; a new one starts with the oldest change.

    Raises
    ------
    ChangesLost
        If the feed no longer has all changes after its place, or is not the feed it has read.
    """
    committed = _read(_path(folder, name), nodes)
    if committed is None:
        return _oldest(nodes)
    problem = _problem_of(name, nodes, committed)
    if problem is not None:
        raise ChangesLost(problem)
    return committed.cursor


def is_ahead(folder: Path, nodes: OpenNodes, name: str) -> bool:
    """Return whether a consumer's place is after the end of the feed as the nodes see it."""
    committed = _read(_path(folder, name), nodes)
    return committed is not None and _is_any_ahead(nodes, committed.places)


def commit_consumer(
    folder: Path,
    nodes: OpenNodes,
    name: str,
    cursor: str,
    *,
    now_ms: int,
    rewind: bool = False,
) -> CorpusCursor:
    """Commit the place of a consumer durably, and return the place that holds now.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of the open partitions.
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
    path = _path(folder, name)
    wanted = _parse(cursor, nodes)
    create_folder(path.parent)
    with hold_lock(path.parent / _LOCK):
        before = _read(path, nodes)
        if before is None and sum(1 for _ in _files(folder)) >= CONSUMERS_MAX:
            raise ValueError(
                f"a corpus has at most {CONSUMERS_MAX} consumers; remove one that is not used"
            )
        places = [_NOWHERE] * nodes.n_partitions if before is None else [*before.places]
        for node in nodes:
            i = node.partition
            known = None if before is None else before.places[i]
            places[i] = _place_at(node, wanted.places[i], known, rewind)
        committed = _Committed(tuple(places), now_ms, nodes.generation)
        _write(path, name, committed)
    return committed.cursor


def list_consumers(
    folder: Path, nodes: OpenNodes, *, kept: ChangesConfig, now_ms: int
) -> list[Consumer]:
    """Return all consumers, by name.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of the open partitions.
    kept
        How long changes are kept.
    now_ms
        Current time, in milliseconds since 1970.
    """
    consumers = []
    for path in sorted(_files(folder)):
        name = path.name.removesuffix(_SUFFIX)
        try:
            committed = _read(path, nodes)
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


def delete_consumer(folder: Path, name: str) -> bool:
    """Delete a consumer; return whether it existed."""
    path = _path(folder, name)
    if not path.parent.is_dir():
        return False
    with hold_lock(path.parent / _LOCK):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_to_disk(path.parent)
    return True


# ---------------------------------------------------------------------- places


def _oldest(nodes: OpenNodes) -> CorpusCursor:
    return _cursor_of(nodes, {node.partition: node.store.first_change for node in nodes})


def _cursor_of(nodes: OpenNodes, places: Mapping[int, Cursor]) -> CorpusCursor:
    """Return a cursor that begins with the first change of partitions that are not open."""
    start = Cursor.parse(None)
    return CorpusCursor(
        tuple(places.get(i, start) for i in range(nodes.n_partitions)), nodes.generation
    )


def _parse(text: str, nodes: OpenNodes) -> CorpusCursor:
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


def _place_at(node: Node, wanted: Cursor, before: _Place | None, rewind: bool) -> _Place:
    """Return the place to commit in one partition, with what is needed to check it later."""
    if before is not None and (wanted == before.cursor or (wanted < before.cursor and not rewind)):
        return before
    store = node.store
    if wanted == Cursor(0, 0):
        # Nothing was read from this partition: its first change is the oldest that is stored.
        return _Place(wanted, store.n_trimmed_changes, None)
    found = store.change_at(Cursor(wanted.position, wanted.row - 1)) if wanted.row else None
    last = None if found is None else (found.page, found.transition, found.at_ms)
    return _Place(wanted, store.n_changes_before(wanted), last)


def _places_here(nodes: OpenNodes, places: Sequence[_Place]) -> list[tuple[Node, _Place]]:
    """Return the open nodes, each with the committed place in its partition."""
    return [(node, places[node.partition]) for node in nodes]


def _is_any_ahead(nodes: OpenNodes, places: Sequence[_Place]) -> bool:
    return any(_is_ahead(*one) for one in _places_here(nodes, places))


def _is_ahead(node: Node, place: _Place) -> bool:
    return place.cursor > Cursor(node.store.position, 0)


def _counts(node: Node, place: _Place) -> tuple[int, int]:
    """Return how many changes after a place the feed has, and how many it no longer has."""
    store = node.store
    n_trimmed = store.n_trimmed_changes
    if place.n_read is None:
        is_missed = place.cursor < store.first_change
        n_before = n_trimmed if is_missed else store.n_changes_before(place.cursor) or 0
        return store.n_changes - n_before, int(is_missed)
    return max(store.n_changes - max(place.n_read, n_trimmed), 0), max(n_trimmed - place.n_read, 0)


def _share_of_kept(node: Node, place: _Place, kept: ChangesConfig, now_ms: int) -> float:
    """Return how much of the time and the number that changes are kept the next one has used."""
    following = node.store.changes(place.cursor, 1)
    n_behind, n_missed = _counts(node, place)
    if n_missed:
        return 1.0
    if not following:
        return 0.0
    age_seconds = max(now_ms - following[0].at_ms, 0) / 1000
    return min(max(age_seconds / kept.kept_for, n_behind / kept.kept_max), 1.0)


def _is_other_feed(node: Node, place: _Place) -> bool:
    if place.last is None:
        return False
    found = node.store.change_at(Cursor(place.cursor.position, place.cursor.row - 1))
    return found is not None and (found.page, found.transition, found.at_ms) != place.last


def _problem_of(name: str, nodes: OpenNodes, committed: _Committed) -> str | None:
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


# ---------------------------------------------------------------------- files


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a consumer must be 1 to 64 lower-case letters, digits, '.', '_' and '-', "
            f"and begin with a letter or digit, got {name!r}"
        )
    return folder / _FOLDER / f"{name}{_SUFFIX}"


def _files(folder: Path) -> Iterator[Path]:
    for path in (folder / _FOLDER).glob(f"*{_SUFFIX}"):
        if _NAME.fullmatch(path.name.removesuffix(_SUFFIX)):
            yield path


def _read(path: Path, nodes: OpenNodes) -> _Committed | None:
    generation = nodes.generation
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_FILE_BYTES_MAX))
        if int(content["format"]) > _FORMAT:
            raise StorageError(f"{path} was written by a newer version of recrawl")
        text = str(content["cursor"])
        cursors = parse_cursor(text, nodes).places
        if len(content["n_read"]) != len(cursors) or not text.startswith(_prefix(generation)):
            # From before the number of partitions was changed.
            n_read = {node.partition: node.store.n_changes_before for node in nodes}
            places = [
                _Place(cursor, n_read[i](cursor) if i in n_read else None, None)
                for i, cursor in enumerate(cursors)
            ]
            return _Committed(tuple(places), int(content["committed_at_ms"]), generation)
        places = [
            _Place(cursor, _number_or_none(read), _last_of(last))
            for cursor, read, last in zip(cursors, content["n_read"], content["last"], strict=True)
        ]
        return _Committed(tuple(places), int(content["committed_at_ms"]), generation)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}.  Remove the consumer; it then starts with the oldest "
            "change"
        ) from error


def _prefix(generation: int) -> str:
    return f"g{generation}_" if generation else ""


def _number_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _last_of(value: Any) -> tuple[int, int, int] | None:
    if value is None:
        return None
    page, transition, at_ms = value
    return int(page), int(transition), int(at_ms)


def _write(path: Path, name: str, committed: _Committed) -> None:
    content = {
        "format": _FORMAT,
        "name": name,
        "cursor": str(committed.cursor),
        "committed_at_ms": committed.committed_at_ms,
        "n_read": [place.n_read for place in committed.places],
        "last": [place.last for place in committed.places],
    }
    replace_json(path, content)
