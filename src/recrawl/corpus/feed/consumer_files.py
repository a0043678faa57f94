"""Places of consumers in files of a corpus.

A consumer is a small file in the folder ``consumers`` of a corpus.  It is not in the log, so that
a process that only reads the corpus can commit while another one writes.  The file replaces the
one before it atomically and is synced, and a lock makes commits of several processes take turns.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recrawl.atomic_files import create_folder, hold_lock, replace_json, sync_to_disk
from recrawl.corpus.feed.change_feed import (
    CorpusCursor,
    is_from_before,
    parse_cursor,
    parse_old_cursor,
)
from recrawl.corpus.feed.consumers import (
    NOWHERE,
    Committed,
    FeedPlace,
    check_consumer_name,
    check_number,
    parse_place,
    place_at,
)
from recrawl.errors import StorageError
from recrawl.node.open_nodes import OpenNodes
from recrawl.store import Cursor
from recrawl.store.resize.moved_feed import UnreadChangesError

__all__ = ["ConsumerFiles"]

_FORMAT = 1
_FILE_BYTES_MAX = 4 << 20
_FOLDER = "consumers"
_SUFFIX = ".json"
_LOCK = ".lock"


class ConsumerFiles:
    """A `recrawl.corpus.feed.consumers.KeptPlaces` in the folder of a corpus.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of the open partitions.
    """

    def __init__(self, folder: Path, nodes: OpenNodes) -> None:
        self._folder = folder / _FOLDER
        self._nodes = nodes

    def names(self) -> Iterable[str]:
        """Return the names of all consumers, in any order."""
        for path in self._folder.glob(f"*{_SUFFIX}"):
            name = path.name.removesuffix(_SUFFIX)
            try:
                check_consumer_name(name)
            except ValueError:
                continue
            yield name

    def read(self, name: str) -> Committed | None:
        """Return what is kept of a consumer; None if there is no such consumer."""
        return _read(self._path(name), self._nodes)

    def commit(self, name: str, cursor: str, *, now_ms: int, rewind: bool = False) -> CorpusCursor:
        """Commit the place of a consumer durably, and return the place that holds now."""
        path, nodes = self._path(name), self._nodes
        wanted = parse_place(cursor, nodes)
        create_folder(path.parent)
        with hold_lock(path.parent / _LOCK):
            before = _read(path, nodes)
            if before is None:
                check_number(sum(1 for _ in self.names()))
            places = [NOWHERE] * nodes.n_partitions if before is None else [*before.places]
            for node in nodes:
                i = node.partition
                known = None if before is None else before.places[i]
                places[i] = place_at(node, wanted.places[i], known, rewind)
            committed = Committed(tuple(places), now_ms, nodes.generation)
            _write(path, name, committed)
        return committed.cursor

    def delete(self, name: str) -> bool:
        """Delete a consumer; return whether it existed."""
        path = self._path(name)
        if not path.parent.is_dir():
            return False
        with hold_lock(path.parent / _LOCK):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            sync_to_disk(path.parent)
        return True

    def _path(self, name: str) -> Path:
        check_consumer_name(name)
        return self._folder / f"{name}{_SUFFIX}"


def _read(path: Path, nodes: OpenNodes) -> Committed | None:
    generation = nodes.generation
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_FILE_BYTES_MAX))
        if int(content["format"]) > _FORMAT:
            raise StorageError(f"{path} was written by a newer version of recrawl")
        text = str(content["cursor"])
        if is_from_before(text, generation):
            places = _moved_places(parse_old_cursor(text), content["n_read"], nodes)
            return Committed(tuple(places), int(content["committed_at_ms"]), generation)
        cursors = parse_cursor(text, nodes).places
        places = [
            FeedPlace(cursor, _number_or_none(read), _last_of(last))
            for cursor, read, last in zip(cursors, content["n_read"], content["last"], strict=True)
        ]
        return Committed(tuple(places), int(content["committed_at_ms"]), generation)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}.  Remove the consumer; it then starts with the oldest "
            "change"
        ) from error


def _moved_places(
    old: CorpusCursor, n_read: Sequence[int | None], nodes: OpenNodes
) -> list[FeedPlace]:
    """Return the places of a cursor from before a change of the number of partitions.

    Parameters
    ----------
    old
        The cursor.
    n_read
        Number of changes before its place in each old partition; None if it was not known.
    nodes
        Nodes of the open partitions.
    """
    places = [NOWHERE] * nodes.n_partitions
    # Fewer than none were read: whoever asks is told that changes are missing.
    start = Cursor.parse(None)
    missed = FeedPlace(start, -1, None)
    for node in nodes:
        store = node.store
        try:
            cursor = store.translate_places(old.generation, old.places)
        except UnreadChangesError:
            places[node.partition] = missed
            continue
        feed = store.old_feed(old.generation)
        # A cursor without a place begins with the oldest change; a consumer has read none before.
        has_missed = feed is not None and any(
            place == start and first > start and n_before == 0
            for place, first, n_before in zip(old.places, feed.first, n_read, strict=True)
        )
        number = store.n_changes_read(old.generation, old.places)
        places[node.partition] = missed if has_missed else FeedPlace(cursor, number, None)
    return places


def _number_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _last_of(value: Any) -> tuple[int, int, int] | None:
    if value is None:
        return None
    page, transition, at_ms = value
    return int(page), int(transition), int(at_ms)


def _write(path: Path, name: str, committed: Committed) -> None:
    content = {
        "format": _FORMAT,
        "name": name,
        "cursor": str(committed.cursor),
        "committed_at_ms": committed.committed_at_ms,
        "n_read": [place.n_read for place in committed.places],
        "last": [place.last for place in committed.places],
    }
    replace_json(path, content)
