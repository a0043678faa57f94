"""Forget pages: remove them, erase what is stored of them, and replace every file that held it.

The steps, of which an interruption may repeat any:

1. Record hashes of the URLs, and the files that exist now.
2. Remove the pages, and erase their URLs from the change feed and from redirects.
3. Rewrite the store, take a snapshot of it, remove all others, and truncate the log to it.
4. Rewrite the log; replace the backups by a new one.
5. Look which of the files from before still exist.
"""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.corpus.backups.backup import back_up_corpus
from recrawl.corpus.backups.backup_folder import BackupFolder
from recrawl.corpus.forgetting.pending import (
    PendingForget,
    hash_texts,
    new_key,
    read_forgets,
    write_forgets,
)
from recrawl.corpus.forgetting.remains import (
    Remainder,
    data_files,
    files_left,
    folders_aside,
    is_left,
    open_elsewhere,
)
from recrawl.errors import BackupError, LockedError
from recrawl.ledger import Log, RocksLog
from recrawl.node.durability.layout_switch import NEXT_LAYOUT
from recrawl.node.durability.snapshotter import Snapshotter
from recrawl.node.node import Node
from recrawl.shard import PagesRemoved, event_of
from recrawl.shard.events import slot_of_page
from recrawl.store import IsForgotten
from recrawl.urls import PatternSet, canonical

if TYPE_CHECKING:
    from recrawl.node.clock import Clock

__all__ = ["FORGOTTEN_URLS_MAX", "Forgetting", "Forgotten", "forget_states"]

FORGOTTEN_URLS_MAX = 1_000_000
"""Number of URLs that one forget can erase."""
# The engine deletes files a moment after it has replaced them.
_LOOKS_MAX = 50
_LOOK_SECONDS = 0.1
# A broker keeps the segment that it writes to for up to a week by default, and deletes its file
# some minutes after it is closed.
_KAFKA_SEGMENT_MS = (7 * 24 + 1) * 3_600_000
# Unused chunks in shared storage are removed after a day, with the next snapshot that is copied.
_SHARED_CHUNK_MS = 26 * 3_600_000


class Forgotten(NamedTuple):
    """The state of one forget."""

    number: int
    began_at_ms: int
    n_pages: int
    """Number of tracked pages that were removed."""
    is_complete: bool
    completed_at_ms: int | None
    remains: Sequence[Remainder]
    """What may still hold the pages."""


class Forgetting:
    """Erases pages from one corpus that is open for writing.

    Parameters
    ----------
    folder
        Folder of the corpus.
    nodes
        Nodes of the corpus.
    log
        Log of the corpus.
    snapshotter
        Taker of snapshots.
    clock
        Time source.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Node],
        log: Log,
        snapshotter: Snapshotter,
        clock: "Clock",
    ) -> None:
        self._folder = folder
        self._nodes = nodes
        self._log = log
        self._snapshotter = snapshotter
        self._clock = clock

    def forget_urls(self, urls: pa.StringArray, backups: Sequence[Path]) -> Forgotten:
        """Forget the pages with some canonical URLs, tracked or not."""
        if len(urls) > FORGOTTEN_URLS_MAX:
            raise ValueError(f"at most {FORGOTTEN_URLS_MAX} URLs can be forgotten at once")
        texts = {url.encode() for url in urls.to_pylist()}

        def is_forgotten(found: pa.StringArray) -> np.ndarray:
            flags = pc.is_in(found, value_set=urls)
            return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)

        return self._forget(texts, _or_canonical(is_forgotten), backups)

    def forget_pattern(self, pattern: str, backups: Sequence[Path]) -> Forgotten:
        """Forget the pages whose URLs match a pattern, in all partitions."""
        patterns = PatternSet([pattern])

        def is_match(found: pa.StringArray) -> np.ndarray:
            return np.asarray(patterns.first_match(found) >= 0, np.bool_)

        is_forgotten = _or_canonical(is_match)
        texts: set[bytes] = set()
        for node in self._nodes:
            texts |= node.store.find_urls(is_forgotten)
            for _, url in node.scan_urls():
                flags = pa.array(is_forgotten(url))
                texts.update(text.encode() for text in url.filter(flags).to_pylist())
            if len(texts) > FORGOTTEN_URLS_MAX:
                raise ValueError(
                    f"{pattern!r} matches more than {FORGOTTEN_URLS_MAX} URLs; give a narrower one"
                )
        return self._forget(texts, is_forgotten, backups)

    def finish(self, backups: Sequence[Path]) -> list[Forgotten]:
        """Complete all forgets that were interrupted, or of which something is left."""
        open_ones = [one for one in read_forgets(self._folder) if one.completed_at_ms is None]
        states = []
        for one in open_ones:
            # Those named when it began, too: it may have been interrupted before their turn.
            named = [Path(left.where) for left in one.remains if left.kind == "backup"]
            dests = list(dict.fromkeys(path.resolve() for path in (*backups, *named)))
            states.append(self._erase(one, _or_canonical(one.matcher()), dests))
        return states

    def _forget(
        self, texts: set[bytes], is_forgotten: IsForgotten, backups: Sequence[Path]
    ) -> Forgotten:
        forgets = read_forgets(self._folder)
        key = new_key()
        began = PendingForget(
            number=max((one.number for one in forgets), default=0) + 1,
            began_at_ms=self._clock.wall_ms(),
            n_pages=0,
            is_erased=False,
            completed_at_ms=None,
            remains=[_backup_left(dest, "not replaced yet") for dest in backups],
            key=key,
            hashes=hash_texts(sorted(texts), key),
        )
        write_forgets(self._folder, [*forgets, began])
        return self._erase(began, is_forgotten, backups)

    def _erase(
        self, forget: PendingForget, is_forgotten: IsForgotten, backups: Sequence[Path]
    ) -> Forgotten:
        # What a `recrawl resize` has left that was interrupted; while this runs, none does.
        shutil.rmtree(self._folder / NEXT_LAYOUT, ignore_errors=True)
        before = data_files(self._folder)
        if not forget.n_pages:
            # Recorded first: after an interruption there may be nothing left to count.
            n_pages = sum(self._count_in_node(node, is_forgotten) for node in self._nodes)
            counted = forget._replace(n_pages=n_pages)
            forget = _record(self._folder, counted, self._clock.wall_ms())
        for node in self._nodes:
            self._erase_from_node(node, is_forgotten)
        positions = []
        for node in self._nodes:
            node.store.compact()
            positions.append(self._snapshotter.take_alone(node.partition))
        remains = [*self._rewrite_log(positions), *self._shared_chunks_left()]
        for _ in range(_LOOKS_MAX):
            left = list(files_left(self._folder, before))
            if not left:
                break
            time.sleep(_LOOK_SECONDS)
        remains += [*left, *folders_aside(self._folder), *open_elsewhere(self._folder)]
        remains += self._replace_backups(backups)
        # Backups that earlier attempts could not replace; what this one says of them counts.
        remains = [one for one in forget.remains if one.kind == "backup"] + remains
        forget = forget._replace(is_erased=True, remains=_still_left(self._folder, remains, 0))
        return _state_of(_record(self._folder, forget, self._clock.wall_ms()))

    def _count_in_node(self, node: Node, is_forgotten: IsForgotten) -> int:
        """Return the number of tracked pages of a node that are forgotten."""
        return sum(int(np.count_nonzero(is_forgotten(url))) for _, url in node.scan_urls())

    def _erase_from_node(self, node: Node, is_forgotten: IsForgotten) -> None:
        """Remove the forgotten pages of a node and erase their URLs."""
        for page, url in node.scan_urls():
            forgotten = page[np.asarray(is_forgotten(url), np.bool_)]
            if forgotten.size:
                # What the pages of a host share may come from these pages alone.
                group = node.shard.tables.pages.group[slot_of_page(forgotten)]
                with node.lock:
                    node.store.clear_host_memories(group.astype(np.int64))
                node.submit([event_of(PagesRemoved, page=forgotten)])
        node.store.erase_urls(is_forgotten, node.lock)

    def _rewrite_log(self, positions: Sequence[int]) -> Iterator[Remainder]:
        if isinstance(self._log, RocksLog):
            self._log.compact()
            return
        until_ms = self._clock.wall_ms() + _KAFKA_SEGMENT_MS
        for node, position in zip(self._nodes, positions, strict=True):
            yield Remainder(
                "kafka",
                f"partition {node.partition}",
                "nobody can read the records any more, but a broker keeps the file that it writes "
                "to until it begins the next one (segment.ms, by default a week)",
                position,
                until_ms,
            )

    def _shared_chunks_left(self) -> Iterator[Remainder]:
        for folder in self._snapshotter.shared_folders():
            yield Remainder(
                "storage",
                folder,
                "no snapshot has the pages any more, but their chunks are kept for another day",
                until_ms=self._clock.wall_ms() + _SHARED_CHUNK_MS,
            )

    def _replace_backups(self, backups: Sequence[Path]) -> Iterator[Remainder]:
        for dest in backups:
            left = _backup_left(dest, "")
            try:
                back_up_corpus(self._folder, dest, keep=1, clock=self._clock)
            except (BackupError, LockedError) as error:
                yield left._replace(why=str(error))


def _backup_left(dest: Path, why: str) -> Remainder:
    """Return the backups in a folder as something that may still hold the pages."""
    newest = max(BackupFolder(dest).numbers(), default=0)
    return Remainder("backup", os.fspath(dest.resolve()), why, newest)


def _or_canonical(is_forgotten: IsForgotten) -> IsForgotten:
    """Return a function that also recognizes other spellings of the URLs."""

    def is_either(urls: pa.StringArray) -> np.ndarray:
        flags = is_forgotten(urls)
        # Targets of redirects are stored as the server sent them.
        return flags | is_forgotten(pc.fill_null(canonical(urls).url, ""))

    return is_either


def _still_left(folder: Path, remains: Sequence[Remainder], now_ms: int) -> list[Remainder]:
    """Return what is left of earlier remainders, each once."""
    left: dict[tuple[str, str], Remainder] = {}
    for one in remains:
        if one.kind == "file":
            is_there = is_left(folder, one)
        elif one.kind == "process":
            is_there = one.where in {other.where for other in open_elsewhere(folder)}
        elif one.kind in ("kafka", "storage"):
            is_there = now_ms < one.until_ms
        else:
            # The number of a backup only grows.
            is_there = any(
                number <= one.number for number in BackupFolder(Path(one.where)).numbers()
            )
        if is_there:
            left[one.kind, one.where] = one
    return list(left.values())


def _record(folder: Path, forget: PendingForget, now_ms: int) -> PendingForget:
    """Record the state of a forget; without hashes if it is complete."""
    if forget.is_erased and not forget.remains:
        forget = forget._replace(completed_at_ms=now_ms, key="", hashes=[])
    others = [one for one in read_forgets(folder) if one.number != forget.number]
    write_forgets(folder, sorted([*others, forget], key=lambda one: one.number))
    return forget


def _state_of(forget: PendingForget) -> Forgotten:
    remains = list(forget.remains)
    if not forget.is_erased:
        why = "interrupted; run `recrawl forget --finish`"
        remains.append(Remainder("file", "the corpus itself", why))
    is_complete = forget.completed_at_ms is not None
    return Forgotten(
        forget.number,
        forget.began_at_ms,
        forget.n_pages,
        is_complete,
        forget.completed_at_ms,
        remains,
    )


def forget_states(folder: Path, now_ms: int) -> list[Forgotten]:
    """Return the state of every forget of a corpus, as of now; record those that are complete."""
    states = []
    for forget in read_forgets(folder):
        if forget.completed_at_ms is None and forget.is_erased:
            remains = _still_left(folder, forget.remains, now_ms)
            if not remains:
                forget = _record(folder, forget._replace(remains=[]), now_ms)  # noqa: PLW2901
            else:
                forget = forget._replace(remains=remains)  # noqa: PLW2901
        states.append(_state_of(forget))
    return states
