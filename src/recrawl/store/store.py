"""A partition's store: derived from its log, with a position of its own.

Everything here can be made again by reading the log from the beginning, or from a checkpoint on.
So writes are not synced: a crash of the process loses nothing, and after a power cut the store is
behind and the log brings it forward.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import FormatError, StorageError
from recrawl.kv import KeyValues, KvOptions, Mode
from recrawl.store.batch import StoreBatch
from recrawl.store.changes import Change, Cursor, changes_from, first_kept, put_change, range_before
from recrawl.store.index import look_up, put_in_buckets
from recrawl.store.keys import (
    FETCH,
    META,
    RECORD,
    HashArray,
    PageArray,
    Writes,
    generation_of,
    keys_of,
    slot_of,
    strings_of,
)
from recrawl.store.names import Names, names_of, numbers_of, put_names
from recrawl.store.net import NetPages, net_pages
from recrawl.store.records import Records, put_contents, records_in, values_of
from recrawl.store.state import State
from recrawl.store.texts import put_texts, scan_texts, texts_of
from recrawl.urls import CANON_VERSION, hash_urls

__all__ = ["CHANGES_MAX", "FORMAT", "Store"]

FORMAT = 1
CHANGES_MAX = 10_000_000
"""Changes that are kept unless said otherwise."""

_IDENTITY = META + b"store"
_STATE = META + b"state"
_HASH_KEY_BITS = 64
# Of a large batch so many keys are written at a time; the position moves with the last of them.
_KEYS_PER_WRITE = 200_000
# Small blocks: a random URL costs the unpacking of one, and a block of URLs is packed well enough.
_OPTIONS = KvOptions(compression="zstd", block_bytes=4 << 10, block_cache_bytes=128 << 20)

_Read: TypeAlias = tuple[int, PageArray, list[bytes | None]]
HashUrls: TypeAlias = Callable[[pa.StringArray, int], HashArray]


class Store:
    """What a partition knows of its pages that is too big for memory.

    Reading is in batches throughout, and shows what has been written; a `StoreBatch` gathers what
    records of the log mean, and `write` makes it so together with the new position.  Writing the
    same again changes nothing.
    """

    def __init__(
        self,
        kv: KeyValues,
        hash_urls: HashUrls,
        hash_key: int,
        canon_version: int,
        changes_max: int,
    ) -> None:
        self._kv = kv
        self._hash_urls = hash_urls
        self._hash_key = hash_key
        self._canon_version = canon_version
        self._changes_max = changes_max
        self._state = State()
        # What the latest look-up found, believed while nothing has been written: whoever adds URLs
        # has just asked which are new, and whoever reports content what was there.
        self._n_writes = 0
        self._absent: tuple[int, HashArray] = (0, np.empty(0, np.uint64))
        self._read: _Read = (0, np.empty(0, np.int64), [])

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        mode: Mode = "writer",
        hash_urls: HashUrls = hash_urls,
        changes_max: int = CHANGES_MAX,
        options: KvOptions = _OPTIONS,
    ) -> Self:
        """Open a store, which a writer makes if there is none.

        Parameters
        ----------
        mode
            A reader sees what another process has written when it last caught up.
        hash_urls
            Hashes of URLs under a key; the same for as long as the store is there.
        changes_max
            Changes to keep.

        Raises
        ------
        LockedError
            If it is open already.
        FormatError
            If a newer version made it.
        StorageError
            If it cannot be read, or is no store.
        """
        if changes_max < 1:
            raise ValueError(f"changes_max must be at least 1, got {changes_max}")
        kv = KeyValues.open(folder, mode=mode, options=options)
        try:
            hash_key, canon_version = _identity_of(kv)
            store = cls(kv, hash_urls, hash_key, canon_version, changes_max)
            store._read_state()
        except BaseException:
            kv.close()
            raise
        return store

    # ------------------------------------------------------------------ what it is

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._kv.folder

    @property
    def position(self) -> int:
        """The position of the log from which on it knows nothing."""
        return self._state.position

    @property
    def canon_version(self) -> int:
        """The version of the canonical form that its URLs were made by."""
        return self._canon_version

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of its files."""
        n_bytes = 0
        for path in self._kv.folder.iterdir():
            try:
                n_bytes += path.stat().st_size
            except FileNotFoundError:
                continue  # merged into another meanwhile
        return n_bytes

    # ------------------------------------------------------------------ pages

    def pages_of(self, urls: pa.StringArray) -> PageArray:
        """Return the pages of canonical URLs, -1 where there is none."""
        if len(urls) == 0:
            return np.empty(0, np.int64)
        n_writes = self._n_writes
        page, absent = look_up(self._kv, self._hash_urls(urls, self._hash_key), urls)
        self._absent = n_writes, absent
        return page

    def urls_of(self, page: PageArray) -> pa.StringArray:
        """Return the canonical URLs of pages, null where a page is not there."""
        return strings_of(texts_of(self._kv, np.asarray(page, np.int64)))

    def fetch_urls_of(self, page: PageArray, urls: pa.StringArray | None = None) -> pa.StringArray:
        """Return what to ask for to fetch pages, null where a page is not there.

        Parameters
        ----------
        page
            To fetch.
        urls
            Of the pages, as `urls_of` gave them, which spares reading them again.
        """
        page = np.asarray(page, np.int64)
        urls = self.urls_of(page) if urls is None else urls
        there = np.flatnonzero(page >= 0)
        own = self._kv.get_many(keys_of(FETCH, slot_of(page[there]), 4))
        if own.count(None) == len(own):
            return urls
        generation = generation_of(page[there]).tolist()
        texts = urls.to_pylist()
        for row, wanted, value in zip(there.tolist(), generation, own, strict=True):
            if value is not None and value[0] == wanted and texts[row] is not None:
                texts[row] = value[1:].decode()
        return pa.array(texts, pa.string())

    def scan_urls(self, start_slot: int, n: int) -> tuple[PageArray, pa.StringArray]:
        """Return the pages in ``n`` slots from one on and their URLs, in the order of slots."""
        return scan_texts(self._kv, start_slot, n)

    # ------------------------------------------------------------------ names

    def numbers_of(self, what: Names, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of names, -1 where there is none."""
        return numbers_of(self._kv, what, keys)

    def names_of(self, what: Names, numbers: Sequence[int]) -> list[str | None]:
        """Return the names that numbers stand for, None where there is none."""
        return names_of(self._kv, what, numbers)

    def n_named(self, what: Names) -> int:
        """Return how many names there are."""
        return self._state.n_named[what]

    # ------------------------------------------------------------------ what fetches left

    def records_of(self, page: PageArray) -> Records:
        """Return what fetches of pages left."""
        page = np.asarray(page, np.int64)
        n_writes = self._n_writes
        values = values_of(self._kv, page)
        self._read = n_writes, page, values
        return records_in(values)

    def validators_of(self, page: PageArray) -> tuple[list[bytes | None], list[bytes | None]]:
        """Return etag and last_modified of pages, None where there is none."""
        records = self.records_of(page)
        return records.etag, records.last_modified

    def digests_of(self, page: PageArray) -> list[list[bytes]]:
        """Return the digests of the latest contents of pages, newest first."""
        return self.records_of(page).digests

    # ------------------------------------------------------------------ changes

    @property
    def first_change(self) -> Cursor:
        """Where the changes that are kept begin; who reads on from before it has missed some."""
        return Cursor(*self._state.first_change)

    def changes(self, after: Cursor, limit: int) -> list[Change]:
        """Return up to ``limit`` changes after those that a cursor has passed."""
        return changes_from(self._kv, after, limit)

    def trim_changes(self, *, before_ms: int) -> None:
        """Forget changes from before an instant."""
        self._trim(lambda _, at_ms: at_ms >= before_ms)

    def _trim(self, is_kept: Callable[[int, int], bool]) -> None:
        state = self._state
        end = state.position
        found = first_kept(self._kv, state.first_change[0], end, is_kept)
        place, n_trimmed = found or (Cursor(end, 0), state.n_changes)
        state = state._replace(first_change=(place.position, place.row), n_trimmed=n_trimmed)
        self._kv.write([_STATE], [state.encoded()], delete_range=range_before(place))
        self._state = state

    # ------------------------------------------------------------------ writing

    def batch(self) -> StoreBatch:
        """Return an empty batch."""
        return StoreBatch()

    def write(self, batch: StoreBatch, position: int) -> None:
        """Do what a batch says and move to a position, all or nothing.

        Of a large batch parts may be written before the rest; then the position has not moved, and
        doing the same records again makes it whole.
        """
        if position < self.position:
            raise ValueError(f"position must be at least {self.position}, got {position}")
        # What other threads look up meanwhile replaces these.
        (looked_up_at, hashes), last_read = self._absent, self._read
        absent = hashes if looked_up_at == self._n_writes else np.empty(0, np.uint64)
        read = last_read if last_read[0] == self._n_writes else None
        # Before and after: who looks something up meanwhile must not believe it later.
        self._n_writes += 1
        net = net_pages(self._kv, batch)
        pages, rest = Writes(), Writes()
        state = self._state._replace(position=position)
        state = state._replace(n_slots=self._put_pages(pages, net, absent, state.n_slots))
        state = self._put_changes(rest, batch, state)
        state = self._put_names(rest, batch, state)
        self._put_contents(rest, batch, read)
        rest.put(_STATE, state.encoded())
        self._write(pages, rest, is_divisible=net.removed.size == 0)
        self._n_writes += 1
        self._state = state
        if state.n_changes - state.n_trimmed > self._changes_max * 1.1:
            n_before = state.n_changes - self._changes_max
            self._trim(lambda number, _: number >= n_before)

    def _write(self, pages: Writes, rest: Writes, *, is_divisible: bool) -> None:
        """Write all at once, or if only pages are added, those in parts and then the rest."""
        keys, values, begin = pages.keys, pages.values, 0
        while is_divisible and len(keys) - begin > _KEYS_PER_WRITE:
            end = begin + _KEYS_PER_WRITE
            self._kv.write(keys[begin:end], values[begin:end])
            begin = end
        if begin:
            keys, values = keys[begin:], values[begin:]
        deletes = pages.deletes + rest.deletes
        self._kv.write(keys + rest.keys, values + rest.values, deletes=deletes)

    def _put_pages(self, writes: Writes, net: NetPages, absent: HashArray, n_slots: int) -> int:
        """Add what pages are there and no more; return how many slots have ever been used."""
        page, urls, fetch_urls = net.added
        if page.size == net.removed.size == net.emptied.size == 0:
            return n_slots
        put_in_buckets(
            self._kv,
            writes,
            page=page,
            hashes=self._hashes_of(urls),
            removed=net.removed,
            removed_hashes=self._hashes_of(net.removed_url),
            absent=absent,
        )
        left = np.union1d(net.emptied, slot_of(net.removed))
        writes.deletes += keys_of(FETCH, left, 4) + keys_of(RECORD, left, 4)
        rows = np.flatnonzero(fetch_urls.is_valid().to_numpy(zero_copy_only=False))
        writes.keys += keys_of(FETCH, slot_of(page[rows]), 4)
        writes.values += [
            bytes([generation]) + text.encode()
            for generation, text in zip(
                generation_of(page[rows]).tolist(),
                fetch_urls.take(pa.array(rows)).to_pylist(),
                strict=True,
            )
        ]
        return put_texts(writes, page, urls, net.emptied, n_slots)

    def _put_names(self, writes: Writes, batch: StoreBatch, state: State) -> State:
        if not batch.names:
            return state
        what, numbers, keys = zip(*batch.names, strict=True)
        n_new = put_names(
            self._kv, writes, np.concatenate(what), np.concatenate(numbers), pa.concat_arrays(keys)
        )
        counts = [n + int(more) for n, more in zip(state.n_named, n_new, strict=True)]
        return state._replace(n_named=tuple(counts))

    def _hashes_of(self, urls: pa.StringArray) -> HashArray:
        return self._hash_urls(urls, self._hash_key) if len(urls) else np.empty(0, np.uint64)

    def _put_contents(self, writes: Writes, batch: StoreBatch, read: _Read | None) -> None:
        if not batch.contents:
            return
        page = np.concatenate([page for page, _ in batch.contents])
        contents = [row for _, rows in batch.contents for row in rows]
        # Not what was seen of pages that are removed in the same batch.
        removed = [page for _, page in batch.removed]
        if removed:
            lives = np.flatnonzero(~np.isin(page, np.concatenate(removed)))
            page, contents = page[lives], [contents[i] for i in lives.tolist()]
        if read is not None and np.array_equal(read[1], page):
            values = read[2]
        else:
            values = values_of(self._kv, page)
        put_contents(writes, page, values, contents)

    def _put_changes(self, writes: Writes, batch: StoreBatch, state: State) -> State:
        if not batch.changes:
            return state
        urls = self._urls_in(batch)
        for i, (place, page, transition, at_ms, url) in enumerate(batch.changes):
            number = state.n_changes + i
            put_change(writes, place, number, (page, transition, at_ms), url or urls.get(page))
        return state._replace(n_changes=state.n_changes + len(batch.changes))

    def _urls_in(self, batch: StoreBatch) -> dict[int, bytes | None]:
        """Return the URLs of pages that have changes and come without: as stored, or added here."""
        wanted = np.unique([page for _, page, _, _, url in batch.changes if url is None])
        wanted = wanted.astype(np.int64)
        urls = dict(zip(wanted.tolist(), texts_of(self._kv, wanted), strict=True))
        for _, (page, url, _) in batch.added:
            for row in np.flatnonzero(np.isin(page, wanted)).tolist():
                urls[int(page[row])] = url[row].as_py().encode()
        return urls

    # ------------------------------------------------------------------ files

    def checkpoint(self, folder: Path) -> None:
        """Make a copy in a new folder by hard links, which can be opened as a store."""
        self._kv.checkpoint(folder)

    def catch_up(self) -> None:
        """As a reader, see what has been written until now; as a writer, nothing."""
        self._kv.catch_up()
        self._read_state()

    def flush(self) -> None:
        """Bring everything to disk."""
        self._kv.flush()

    def compact(self) -> None:
        """Make the files as small as they get; takes as long as writing them all."""
        self._kv.compact()

    def close(self) -> None:
        """Close; again does nothing."""
        self._kv.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({str(self._kv.folder)!r}, position={self.position})"

    def _read_state(self) -> None:
        value = self._kv.get(_STATE)
        if value is None:
            raise StorageError(f"{self._kv.folder} is a store without a state")
        self._state = State.decoded(value)


def _identity_of(kv: KeyValues) -> tuple[int, int]:
    """Return the key of hashes and the version of URLs of a store; make one if nothing is there."""
    value = kv.get(_IDENTITY)
    if value is None:
        if kv.mode == "reader" or next(kv.scan(b""), None) is not None:
            raise StorageError(f"{kv.folder} is no store")
        identity = {
            "format": FORMAT,
            "canon_version": CANON_VERSION,
            "hash_key": f"{secrets.randbits(_HASH_KEY_BITS):x}",
        }
        value = json.dumps(identity).encode()
        kv.write([_IDENTITY, _STATE], [value, State().encoded()])
    identity = json.loads(value)
    for name, known in (("format", FORMAT), ("canon_version", CANON_VERSION)):
        if identity[name] > known:
            raise FormatError(
                f"{kv.folder} has {name} {identity[name]}, and this version knows up to {known}"
            )
    return int(identity["hash_key"], 16), int(identity["canon_version"])
