"""The store of a partition, derived from its log, with a position of its own.

Reading the log from the beginning, or from a checkpoint, rebuilds everything here.  So writes are
not synced: a crash of the process loses nothing, and after a power cut the node replays the part of
the log that the store has lost.
"""

import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import FormatError, IdentityError, StorageError
from recrawl.kv import KeyValues, KvOptions, Mode
from recrawl.shard.events import slot_of_page
from recrawl.store.batch import NetPages, StoreBatch, net_pages
from recrawl.store.changes import (
    Cursor,
    NewChanges,
    StoredChange,
    change_at,
    changes_from,
    changes_of_page,
    consumer_places,
    first_change_to_keep,
    newest_changes,
    number_from,
    place_of,
    put_changes,
    put_consumer_places,
    range_before,
    stored_consumer_place,
)
from recrawl.store.content.counts import ContentCounts
from recrawl.store.content.host_memories import (
    UpdateHostMemory,
    clear_host_memories,
    put_host_updates,
    stored_host_memories,
)
from recrawl.store.content.page_memories import (
    PageContents,
    page_contents_in,
    put_page_contents,
    stored_page_contents,
)
from recrawl.store.erasure import Erased, IsForgotten, erase_urls, find_urls
from recrawl.store.fetch_records import (
    Content,
    DigestRows,
    Records,
    digest_contents,
    digests_in,
    match_digests,
    put_contents,
    put_digests,
    records_in,
    stored_records,
    validators_in,
    validators_in_columns,
)
from recrawl.store.keys import (
    FETCH,
    META,
    PAGE_MEMORY,
    RECORD,
    ROWS_FEW,
    SAMPLE,
    USER_DATA,
    HashArray,
    PageArray,
    Writes,
    generation_of,
    keys_of,
    page_keys,
    strings_of,
)
from recrawl.store.names import Names, names_of, numbers_of, put_names
from recrawl.store.page_urls import SingleUrls, put_urls, scan_urls, stored_urls
from recrawl.store.request_keys import AcceptedRequest, find_request, put_requests
from recrawl.store.resize.moved_feed import (
    OldFeed,
    end_origins,
    n_changes_read,
    old_feed,
    translate_places,
)
from recrawl.store.resize.written_slots import WrittenSlots
from recrawl.store.state import State
from recrawl.store.url_index import look_up_pages, put_in_buckets
from recrawl.store.user_data import UserData, put_user_data, stored_user_data, user_data_in
from recrawl.urls import CANON_VERSION, hash_urls, split_page_names

__all__ = ["CHANGES_MAX", "FORMAT", "Store"]

FORMAT = 1
CHANGES_MAX = 10_000_000
"""Default limit of the changes that are kept."""

_IDENTITY = META + b"store"
_STATE = META + b"state"
# Exists in a store in which a page has, or had, a doc_id or metadata.
_HAS_USER_DATA = META + b"user-data"
# Place after the last change that was removed from the feed.
_KEPT_FROM = META + b"kept-from"
# What the pages have in common in how their content is replaced, as the node encodes it.
_CURVE_PRIOR = META + b"curve-prior"
# Exists in a store that was given bodies, texts or observations of pages.
_CONTENT_COUNTS = META + b"content"
_HASH_KEY_BITS = 64
_GRAPHIC = re.compile(rb"[!-~]+")
# A large batch is written in parts of this size; the position moves with the last part.
_KEYS_PER_WRITE = 200_000
# Number of names and of records of pages that are remembered after they were read, and the largest
# record: at most 5 MB of names and 13 MB of records.
_LATELY_READ_MAX = 32_768
_LATELY_READ_BYTES_MAX = 256
_UNREAD = b""
_AFTER_FETCH = bytes([FETCH[0] + 1])
# Small blocks: reading a URL decompresses one block, and URLs compress well even in small blocks.
_OPTIONS = KvOptions(compression="zstd", block_bytes=4 << 10, block_cache_bytes=128 << 20)

# Size of the write buffers of all stores together, and the smallest of one.  A buffer has a filter
# of a tenth of its size, which takes memory even while nothing is written.
_BUFFERS_BYTES = 4 * _OPTIONS.write_buffer_bytes
_BUFFER_BYTES_MIN = 8 << 20

_Read: TypeAlias = tuple[int, PageArray, list[bytes | None]]
HashUrls: TypeAlias = Callable[[pa.StringArray, int], HashArray]


class PageTexts(NamedTuple):
    """Texts of pages for orders, a row per page; None for pages that do not exist."""

    url: list[str | None]
    """Canonical URL."""
    fetch_url: list[str | None]
    """URL to request."""
    key: list[str | None]
    """Key of the page, None in a corpus whose pages have none."""


class Store:
    """Data of a partition's pages that is too big for memory.

    All methods read in batches, and see every earlier write.  A `StoreBatch` collects the changes
    of log records, and `write` applies them together with the new position.  Writing the same
    records again changes nothing.
    """

    def __init__(
        self,
        kv: KeyValues,
        hash_urls: HashUrls,
        hash_key: int,
        canon_version: int,
        changes_max: int,
        update_host: UpdateHostMemory | None = None,
    ) -> None:
        self._kv = kv
        self._hash_urls = hash_urls
        self._hash_key = hash_key
        self._canon_version = canon_version
        self._changes_max = changes_max
        self._state = State()
        self._is_position_saved = True
        # Most corpora have no data of users, and then pay nothing for them.
        self._has_user_data = False
        self._update_host = update_host
        self._content_counts: ContentCounts | None = None
        # Results of the latest look-ups, valid until the next write: a node looks up URLs just
        # before it adds them, and records just before it updates them.
        self._n_writes = 0
        self._absent: tuple[int, HashArray] = (0, np.empty(0, np.uint64))
        self._read: _Read = (0, np.empty(0, np.int64), [])
        self._names_read: dict[int, bytes | None] = {}
        self._records_read: dict[int, bytes | None] = {}
        self._has_fetch_urls = True
        self._singles = SingleUrls.unknown()
        self._written: WrittenSlots | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        mode: Mode = "writer",
        hash_urls: HashUrls = hash_urls,
        changes_max: int = CHANGES_MAX,
        options: KvOptions | None = None,
        corpus_id: str | None = None,
        partition: int = 0,
        n_partitions: int = 1,
        update_host: UpdateHostMemory | None = None,
    ) -> Self:
        """Open a store; a writer creates it if it does not exist.

        Parameters
        ----------
        folder
            Folder of the store.
        mode
            ``"writer"`` for one process; a ``"reader"`` sees the state at its last `catch_up`.
        hash_urls
            Function that hashes URLs with a key; it must never change for one store.
        changes_max
            Number of changes to keep.
        options
            Options of the storage engine; by default those of one of ``n_partitions`` stores.
        corpus_id, partition
            Corpus and partition, which must be those of the store; a writer records them in a
            store that has none.  Without an id any store is accepted.
        n_partitions
            Number of partitions of the corpus: more than four share the memory for writes of four.
        update_host
            Function that updates the memory of a group's common text; without it, updates are
            ignored.

        Raises
        ------
        LockedError
            If the store is already open.
        FormatError
            If a newer version created the store.
        IdentityError
            If the store belongs to another corpus or partition.
        StorageError
            If the folder cannot be read, or is not a store.
        """
        if changes_max < 1:
            raise ValueError(f"changes_max must be at least 1, got {changes_max}")
        kv = KeyValues.open(
            folder,
            mode=mode,
            options=options or _options_of(n_partitions),
            marks_damage=mode == "writer",
        )
        try:
            hash_key, canon_version = _identity_of(kv)
            if corpus_id is not None:
                _check_owner(kv, corpus_id, partition)
            store = cls(kv, hash_urls, hash_key, canon_version, changes_max, update_host)
            store._read_state()
            if mode == "writer":
                store._singles = SingleUrls.find(kv)
        except BaseException:
            kv.close()
            raise
        return store

    # ------------------------------------------------------------------ identity

    def check_process(self) -> None:
        """Raise `ForkedError` in a child of the process that opened the store."""
        self._kv.check_process()

    @property
    def folder(self) -> Path:
        """Folder of the store."""
        return self._kv.folder

    @property
    def position(self) -> int:
        """Position of the log up to which the store has applied the records."""
        return self._state.position

    @property
    def n_slots(self) -> int:
        """Number of slots that have ever been used."""
        return self._state.n_slots

    @property
    def canon_version(self) -> int:
        """Version of the canonical form of the store's URLs."""
        return self._canon_version

    @property
    def cached_bytes(self) -> int:
        """Memory of the block cache that all stores of this process share."""
        return self._kv.cached_bytes

    @property
    def n_bytes_on_disk(self) -> int:
        """Total size of the store's files in bytes."""
        n_bytes = 0
        for path in self._kv.folder.iterdir():
            try:
                n_bytes += path.stat().st_size
            except FileNotFoundError:
                continue  # merged into another file meanwhile
        return n_bytes

    # ------------------------------------------------------------------ pages

    def pages_of(self, names: pa.StringArray) -> PageArray:
        """Return the pages with these names, -1 for names without a page.

        The name of a page is its canonical URL, in a corpus grouped by key after the key and a tab:
        see `recrawl.urls.page_names`.
        """
        if len(names) == 0:
            return np.empty(0, np.int64)
        n_writes = self._n_writes
        page, absent = look_up_pages(self._kv, self._hash_urls(names, self._hash_key), names)
        self._absent = n_writes, absent
        return page

    def urls_of(self, page: PageArray) -> pa.StringArray:
        """Return the canonical URLs of pages, null for pages that do not exist."""
        return self.keys_and_urls_of(page)[1]

    def keys_and_urls_of(self, page: PageArray) -> tuple[pa.StringArray | None, pa.StringArray]:
        """Return the keys and the canonical URLs of pages; no keys if pages have none."""
        return split_page_names(strings_of(self.page_names_of(np.asarray(page, np.int64))))

    def read_urls_of(self, page: PageArray) -> pa.StringArray:
        """Return the canonical URLs of pages without remembering them, for looking at many."""
        return split_page_names(strings_of(stored_urls(self._kv, page, self._singles)))[1]

    def page_names_of(self, page: PageArray) -> list[bytes | None]:
        """Return the names of pages in UTF-8, None for pages that do not exist; see `pages_of`.

        Names that were read lately are remembered: a page is leased, and soon after reported.
        """
        rows = page.tolist()
        known = self._names_read
        names = list(map(known.get, rows))
        if None not in names:
            return names
        n_writes = self._n_writes
        unknown = [i for i, name in enumerate(names) if name is None]
        if len(unknown) == len(rows):
            names = stored_urls(self._kv, page, self._singles)
            read = dict(zip(rows, names, strict=True))
        else:
            found = stored_urls(self._kv, page[unknown], self._singles)
            for i, name in zip(unknown, found, strict=True):
                names[i] = name
            read = dict(zip(page[unknown].tolist(), found, strict=True))
        if None in names:
            read = {row: name for row, name in read.items() if name is not None}
        self._remember(known, n_writes, read)
        return names

    def _remember(
        self, known: dict[int, bytes | None], n_writes: int, read: dict[int, bytes | None]
    ) -> None:
        """Add what was read of pages to what is remembered, unless a write has changed it since.

        Parameters
        ----------
        known
            Dictionary to add to.
        n_writes
            Number of writes before the reading.
        read
            Values by page.
        """
        # An odd number stands for a write in progress, which may change one of the pages.
        if n_writes != self._n_writes or n_writes % 2 or len(read) > _LATELY_READ_MAX:
            return
        if len(known) + len(read) > _LATELY_READ_MAX:
            known.clear()
        known.update(read)

    def read_ahead(self, page: PageArray) -> None:
        """Remember the names and the records of pages, of which some will be asked for soon."""
        self.page_names_of(page)
        self._record_values(page)

    def expect_no_records(self, page: PageArray) -> None:
        """Remember that pages have no records, which spares looking for them.

        Only for pages without an outcome, and not while another thread writes.
        """
        self._remember(self._records_read, self._n_writes, dict.fromkeys(page.tolist()))

    def texts_of(self, page: PageArray) -> PageTexts:
        """Return the URLs of pages, the URLs to request and the keys, as texts for orders."""
        page = np.asarray(page, np.int64)
        in_bytes = self.page_names_of(page)
        names = [None if name is None else name.decode() for name in in_bytes]
        key: list[str | None] = [None] * len(names)
        url = names
        # In one go, because most corpora have no keys.
        if b"\t" in b"".join(filter(None, in_bytes)):
            parts = [(None, None) if name is None else name.split("\t", 1) for name in names]
            key, url = [part[0] for part in parts], [part[1] for part in parts]
        return PageTexts(url, self._fetch_urls(page, url), key)

    def fetch_urls_of(self, page: PageArray, urls: pa.StringArray | None = None) -> pa.StringArray:
        """Return the URLs to request for pages, null for pages that do not exist.

        Parameters
        ----------
        page
            Pages to fetch.
        urls
            URLs of the pages from `urls_of`, if known, which spares reading them again.
        """
        page = np.asarray(page, np.int64)
        urls = self.urls_of(page) if urls is None else urls
        if not self._has_fetch_urls:
            return urls
        return pa.array(self._fetch_urls(page, urls.to_pylist()), pa.string())

    def _fetch_urls(self, page: PageArray, urls: list[str | None]) -> list[str | None]:
        """Return the URLs to request for pages, from their canonical URLs."""
        if not self._has_fetch_urls:
            return urls
        texts = list(urls)
        rows, keys, generation = page_keys(FETCH, page)
        for row, value in zip(rows, self._kv.get_many(keys), strict=True):
            if value is None or value[0] != generation[row] or texts[row] is None:
                continue
            # Version 0.1.0 stored URLs that cannot be sent as they are: the canonical ones can.
            if _GRAPHIC.fullmatch(value, 1):
                texts[row] = value[1:].decode()
        return texts

    def scan_urls(self, start_slot: int, n: int) -> tuple[PageArray, pa.StringArray]:
        """Return the pages in ``n`` slots from ``start_slot`` on, and their URLs, by slot."""
        page, name = scan_urls(self._kv, start_slot, n)
        return page, split_page_names(name)[1]

    def scan_names(self, start_slot: int, n: int) -> tuple[PageArray, pa.StringArray]:
        """Return the pages in ``n`` slots from ``start_slot`` on, and their names, by slot."""
        return scan_urls(self._kv, start_slot, n)

    # ------------------------------------------------------------------ names

    def numbers_of(self, what: Names, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of names, -1 for unknown names."""
        return numbers_of(self._kv, what, keys)

    def names_of(self, what: Names, numbers: Sequence[int]) -> list[str | None]:
        """Return the names that numbers stand for, None for unknown numbers."""
        return names_of(self._kv, what, numbers)

    def n_names(self, what: Names) -> int:
        """Return the number of names in a namespace."""
        return self._state.n_names[what]

    # ------------------------------------------------------------------ fetch records

    def records_of(self, page: PageArray) -> Records:
        """Return the fetch records of pages."""
        return records_in(self._record_values(np.asarray(page, np.int64)))

    def _record_values(self, page: PageArray) -> list[bytes | None]:
        """Return the stored records of pages, from memory if they were read lately.

        A page is leased with its validators, and soon after reported with its digest.
        """
        n_writes = self._n_writes
        rows = page.tolist()
        known = self._records_read
        values = list(map(known.get, rows, repeat(_UNREAD)))
        if _UNREAD in values:
            unread = [i for i, value in enumerate(values) if value == _UNREAD]
            if len(unread) == len(rows):
                values = stored_records(self._kv, page)
                read = dict(zip(rows, values, strict=True))
            else:
                found = stored_records(self._kv, page[unread])
                for i, value in zip(unread, found, strict=True):
                    values[i] = value
                read = dict(zip(page[unread].tolist(), found, strict=True))
            small = {
                row: value
                for row, value in read.items()
                if value is None or len(value) <= _LATELY_READ_BYTES_MAX
            }
            self._remember(known, n_writes, small)
        self._read = n_writes, page, values
        return values

    def validators_of(self, page: PageArray) -> tuple[list[bytes | None], list[bytes | None]]:
        """Return etag and last_modified of pages, None where missing."""
        values = self._record_values(np.asarray(page, np.int64))
        return validators_in(values) if page.size <= ROWS_FEW else validators_in_columns(values)

    def digests_of(self, page: PageArray) -> list[list[bytes]]:
        """Return the digests of the latest contents of pages, newest first."""
        return digests_in(self._record_values(np.asarray(page, np.int64)))

    def match_digests(self, page: PageArray, digest: DigestRows) -> NDArray[np.uint8]:
        """Return how digests compare with the stored ones of their pages, a `DigestMatch` each.

        Parameters
        ----------
        page
            Pages.
        digest
            Digest of an answer for each page, as a table of bytes.
        """
        return match_digests(self._record_values(np.asarray(page, np.int64)), digest)

    def user_data_of(self, page: PageArray) -> UserData:
        """Return the user's own data of pages: doc_id and metadata, None where there is none."""
        page = np.asarray(page, np.int64)
        if not self._has_user_data:
            return UserData([None] * page.size, [None] * page.size)
        return user_data_in(stored_user_data(self._kv, page))

    @property
    def curve_prior(self) -> bytes | None:
        """What the pages have in common in how their content is replaced; None if unknown.

        The node that learned it encodes and decodes it.
        """
        return self._kv.get(_CURVE_PRIOR)

    # ------------------------------------------------------------------ content

    @property
    def content_counts(self) -> ContentCounts | None:
        """Counts of outcomes whose text was judged; None before the first of them."""
        return self._content_counts

    def page_contents_of(self, page: PageArray) -> PageContents:
        """Return what is remembered of the text of pages."""
        page = np.asarray(page, np.int64)
        if self._content_counts is None:
            return page_contents_in([None] * page.size)
        return page_contents_in(stored_page_contents(self._kv, page))

    def host_memories_of(self, group: NDArray[np.int64]) -> list[bytes | None]:
        """Return what is remembered of the common text of groups of pages."""
        if self._content_counts is None:
            return [None] * group.size
        return stored_host_memories(self._kv, group)

    def clear_host_memories(self, group: NDArray[np.int64]) -> None:
        """Forget the common text of groups of pages; recrawl learns it again."""
        if self._content_counts is not None and group.size:
            clear_host_memories(self._kv, group)

    # ------------------------------------------------------------------ requests

    def find_request(self, key: bytes, now_ms: int) -> AcceptedRequest | None:
        """Return the request that a client made with a key; None if it is not known any more.

        Parameters
        ----------
        key
            Key that the client gave with its request.
        now_ms
            Current time of the partition; older requests than a day are not returned.
        """
        return find_request(self._kv, key, now_ms)

    # ------------------------------------------------------------------ changes

    @property
    def first_change(self) -> Cursor:
        """Place of the first change in the feed; earlier cursors have missed changes."""
        return Cursor(*self._state.first_change)

    def changes(self, after: Cursor, limit: int) -> list[StoredChange]:
        """Return up to ``limit`` changes from a cursor on."""
        return changes_from(self._kv, after, limit)

    def changes_of_page(
        self, page: int, place: Cursor, *, n_read_max: int, before: bool
    ) -> Iterator[StoredChange]:
        """Yield the changes of a page on one side of a place, see `changes_of_page`."""
        return changes_of_page(self._kv, page, place, n_read_max, before=before)

    def newest_changes(self, limit: int) -> list[StoredChange]:
        """Return the last changes, newest first."""
        return newest_changes(self._kv, limit)

    @property
    def n_changes(self) -> int:
        """Number of all changes ever added to the feed."""
        return self._state.n_changes

    @property
    def n_trimmed_changes(self) -> int:
        """Number of changes that are no longer in the feed."""
        return self._state.n_trimmed

    @property
    def kept_from(self) -> Cursor:
        """Place from which on no change was removed; at most that of the first change."""
        if not self.n_trimmed_changes:
            return Cursor.parse(None)
        value = self._kv.get(_KEPT_FROM)
        # Earlier versions did not note it.
        return self.first_change if value is None else Cursor.parse(value.decode())

    def change_at(self, place: Cursor) -> StoredChange | None:
        """Return the change at a place; None if there is none, or it is no longer stored."""
        return change_at(self._kv, place)

    def n_changes_before(self, place: Cursor) -> int | None:
        """Return the number of changes before a place, also those no longer in the feed.

        None for a place before the first change in the feed, where the number is not known.
        """
        if place < self.first_change:
            return None
        number = number_from(self._kv, place)
        return self._state.n_changes if number is None else number

    def trim_changes(self, *, before_ms: int) -> None:
        """Remove changes from before an instant."""
        self._trim(lambda _, at_ms: at_ms >= before_ms)

    def consumer_place(self, name: str) -> bytes | None:
        """Return the place of a consumer of the feed that the log has; None if it has none.

        The corpus encodes and decodes it.
        """
        return stored_consumer_place(self._kv, name)

    def consumer_places(self) -> dict[str, bytes]:
        """Return the places of all consumers that the log has, by name."""
        return consumer_places(self._kv)

    def sample_value(self, key: bytes) -> bytes | None:
        """Return the value of a key of samples; None if it has none.

        `recrawl.node.sampling` encodes and decodes both.
        """
        return self._kv.get(SAMPLE + key)

    def sample_values(
        self, first: bytes, end: bytes, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return keys of samples from ``first`` on and before ``end``, and their values.

        Parameters
        ----------
        first, end
            Keys as in `sample_value`.
        limit
            Largest number of keys; all by default.
        """
        found = self._kv.scan(SAMPLE + first, SAMPLE + end)
        return [(key[1:], value) for key, value in islice(found, limit)]

    def translate_places(self, generation: int, places: Sequence[Cursor]) -> Cursor:
        """Return the place of the first change that a cursor of an old feed has not read.

        See `recrawl.store.resize.moved_feed.translate_places`.
        """
        return max(translate_places(self._kv, generation, places), self.first_change)

    def old_feed(self, generation: int) -> OldFeed | None:
        """Return what is known of the feeds of an earlier division; None for nothing."""
        return old_feed(self._kv, generation)

    def n_changes_read(self, generation: int, places: Sequence[Cursor]) -> int:
        """Return how many changes a cursor of an old feed has read, as far as that is known.

        They include those before the first change that it has not read.
        """
        return n_changes_read(self._kv, generation, places)

    def _trim(self, is_kept: Callable[[int, int], bool]) -> None:
        state = self._state
        end = state.position
        found = first_change_to_keep(self._kv, state.first_change[0], end, is_kept)
        place, n_trimmed = found or (Cursor(end, 0), state.n_changes)
        state = state._replace(first_change=(place.position, place.row), n_trimmed=n_trimmed)
        removed = range_before(place)
        writes = Writes()
        writes.put(_STATE, state.encode())
        for key, value in self._kv.scan(*removed, reverse=True):
            position, row = place_of(key, value)[0]
            writes.put(_KEPT_FROM, str(Cursor(position, row + 1)).encode())
            break
        self._kv.write(writes.keys, writes.values, delete_range=removed)
        if place.position > 0:
            end_origins(self._kv)
        self._state = state
        self._is_position_saved = True

    # ------------------------------------------------------------------ writing

    def batch(self) -> StoreBatch:
        """Return an empty batch."""
        return StoreBatch()

    def write(self, batch: StoreBatch, position: int) -> None:
        """Apply a batch and move to a position, atomically.

        Parts of a large batch may be written before the rest.  After a crash in between the
        position has not moved, and applying the same records again completes the write.
        """
        if position < self.position:
            raise ValueError(f"position must be at least {self.position}, got {position}")
        # Copied first, because look-ups of other threads may replace them meanwhile.
        (looked_up_at, hashes), last_read = self._absent, self._read
        absent = hashes if looked_up_at == self._n_writes else np.empty(0, np.uint64)
        read = last_read if last_read[0] == self._n_writes else None
        # Incremented before and after, so that a concurrent look-up is not valid afterwards.
        self._n_writes += 1
        if self._written is not None:
            self._written.add(batch)
        net = net_pages(self._kv, batch)
        pages, rest = Writes(), Writes()
        state = self._state._replace(position=position)
        if batch.added or batch.removed:
            state = state._replace(n_slots=self._put_pages(pages, net, absent, state.n_slots))
        if batch.changes:
            state = self._put_changes(rest, batch, state)
        if batch.names:
            state = self._put_names(rest, batch, state)
        if batch.contents:
            self._put_contents(rest, batch, read)
        if batch.requests:
            put_requests(self._kv, rest, batch.requests)
        if batch.user_data:
            self._put_user_data(rest, batch)
        if batch.curve_prior is not None:
            rest.put(_CURVE_PRIOR, batch.curve_prior)
        if batch.consumers:
            put_consumer_places(rest, batch.consumers)
        for key, value in batch.samples.items():
            if value is None:
                rest.deletes.append(SAMPLE + key)
            else:
                rest.put(SAMPLE + key, value)
        if batch.content_counts.n_observed:
            self._put_content(rest, batch)
        rest.put(_STATE, state.encode())
        self._write(pages, rest, is_divisible=net.removed.size == 0)
        self._forget_read(batch)
        self._n_writes += 1
        self._state = state
        self._is_position_saved = True
        if state.n_changes - state.n_trimmed > self._changes_max * 1.1:
            n_before = state.n_changes - self._changes_max
            self._trim(lambda number, _: number >= n_before)

    def _forget_read(self, batch: StoreBatch) -> None:
        """Forget what was read of pages that a batch has changed."""
        for page, _ in batch.contents:
            deque(map(self._records_read.pop, page.tolist(), repeat(None)), maxlen=0)
        for _, removed in batch.removed:
            for row in removed.tolist():
                self._names_read.pop(row, None)
                self._records_read.pop(row, None)

    def skip_to(self, position: int) -> None:
        """Move to a position, after records that change nothing in the store.

        Only in memory, because most calls of `Corpus.lease` would otherwise write nothing but
        this.  The next `write` or `save_position` saves it; after a crash before that, the records
        are read again, and still change nothing.
        """
        if position < self.position:
            raise ValueError(f"position must be at least {self.position}, got {position}")
        self._state = self._state._replace(position=position)
        self._is_position_saved = False

    def save_position(self) -> None:
        """Write the position that `skip_to` has moved to; not while another thread writes."""
        if not self._is_position_saved:
            self._kv.write([_STATE], [self._state.encode()])
            self._is_position_saved = True

    def _write(self, pages: Writes, rest: Writes, *, is_divisible: bool) -> None:
        """Write everything at once; a batch that only adds pages may be written in parts."""
        keys, values, begin = pages.keys, pages.values, 0
        while is_divisible and len(keys) - begin > _KEYS_PER_WRITE:
            end = begin + _KEYS_PER_WRITE
            self._kv.write(keys[begin:end], values[begin:end])
            begin = end
        if begin:
            keys, values = keys[begin:], values[begin:]
        if not keys and not pages.deletes:
            self._kv.write(rest.keys, rest.values, deletes=rest.deletes)
            return
        deletes = pages.deletes + rest.deletes
        self._kv.write(keys + rest.keys, values + rest.values, deletes=deletes)

    def _put_pages(self, writes: Writes, net: NetPages, absent: HashArray, n_slots: int) -> int:
        """Collect the writes of added and removed pages; return the number of slots ever used."""
        page, urls, fetch_urls = net.added
        put_in_buckets(
            self._kv,
            writes,
            page=page,
            hashes=self._hashes_of(urls),
            removed=net.removed,
            removed_hashes=self._hashes_of(net.removed_url),
            absent=absent,
        )
        cleared = np.union1d(net.emptied, slot_of_page(net.removed))
        writes.deletes += keys_of(FETCH, cleared, 4) + keys_of(RECORD, cleared, 4)
        if self._has_user_data:
            writes.deletes += keys_of(USER_DATA, cleared, 4)
        if self._content_counts is not None:
            writes.deletes += keys_of(PAGE_MEMORY, cleared, 4)
        rows = np.flatnonzero(fetch_urls.is_valid().to_numpy(zero_copy_only=False))
        # Set before the write, so that no look-up after it misses a URL.
        self._has_fetch_urls |= rows.size > 0
        writes.keys += keys_of(FETCH, slot_of_page(page[rows]), 4)
        writes.values += [
            bytes([generation]) + text.encode()
            for generation, text in zip(
                generation_of(page[rows]).tolist(),
                fetch_urls.take(pa.array(rows)).to_pylist(),
                strict=True,
            )
        ]
        return put_urls(writes, page, urls, net.emptied, n_slots, self._singles)

    def _put_names(self, writes: Writes, batch: StoreBatch, state: State) -> State:
        what, numbers, keys = zip(*batch.names, strict=True)
        n_new = put_names(
            self._kv, writes, np.concatenate(what), np.concatenate(numbers), pa.concat_arrays(keys)
        )
        counts = [n + int(more) for n, more in zip(state.n_names, n_new, strict=True)]
        return state._replace(n_names=tuple(counts))

    def _hashes_of(self, urls: pa.StringArray) -> HashArray:
        return self._hash_urls(urls, self._hash_key) if len(urls) else np.empty(0, np.uint64)

    def _put_contents(self, writes: Writes, batch: StoreBatch, read: _Read | None) -> None:
        if len(batch.contents) == 1 and not batch.removed:
            page, is_all = batch.contents[0][0], True
        else:
            page = np.concatenate([page for page, _ in batch.contents])
            remaining = _not_removed(batch, page)
            is_all = remaining.size == page.size
            page = page if is_all else page[remaining]
        if read is not None and read[1].tobytes() == page.tobytes():
            values = read[2]
        else:
            values = self._record_values(page)
        first = batch.contents[0][1]
        if is_all and len(batch.contents) == 1 and isinstance(first, np.ndarray):
            put_digests(writes, page, values, first)
            return
        contents: list[Content] = []
        for _, rows in batch.contents:
            contents += digest_contents(rows) if isinstance(rows, np.ndarray) else rows
        if not is_all:
            contents = [contents[i] for i in remaining.tolist()]
        put_contents(writes, page, values, contents)

    def _put_user_data(self, writes: Writes, batch: StoreBatch) -> None:
        page = np.concatenate([page for page, _, _ in batch.user_data])
        doc_id = [row for _, rows, _ in batch.user_data for row in rows]
        metadata = [row for _, _, rows in batch.user_data for row in rows]
        remaining = _not_removed(batch, page)
        distinct = np.unique(page[remaining])
        put_user_data(
            writes,
            distinct,
            stored_user_data(self._kv, distinct),
            ((int(page[i]), doc_id[i], metadata[i]) for i in remaining.tolist()),
        )
        if not self._has_user_data:
            writes.put(_HAS_USER_DATA, b"1")
            # Set before the write, so that no look-up after it misses the data.
            self._has_user_data = True

    def _put_content(self, writes: Writes, batch: StoreBatch) -> None:
        """Collect the writes of what bodies showed."""
        page = np.array([row.page for row in batch.content_rows], np.int64)
        remaining = _not_removed(batch, page)
        distinct = np.unique(page[remaining])
        put_page_contents(
            writes,
            distinct,
            stored_page_contents(self._kv, distinct),
            [batch.content_rows[i] for i in remaining.tolist()],
        )
        if batch.host_updates and self._update_host is not None:
            put_host_updates(self._kv, writes, batch.host_updates, self._update_host)
        # Set before the write, so that no look-up after it misses a memory.
        self._content_counts = batch.content_counts.plus(self._content_counts)
        writes.put(_CONTENT_COUNTS, self._content_counts.encode())

    def _put_changes(self, writes: Writes, batch: StoreBatch, state: State) -> State:
        n_changes = state.n_changes
        for changes in batch.changes:
            put_changes(writes, changes, n_changes, self._urls_of_changes(batch, changes))
            n_changes += changes.page.size
        return state._replace(n_changes=n_changes)

    def _urls_of_changes(self, batch: StoreBatch, changes: NewChanges) -> list[bytes | None]:
        """Return the URLs of changes; those that were added without one, from store or batch."""
        urls = changes.url
        if urls is not None and all(urls):
            return urls
        found = self.page_names_of(np.asarray(changes.page, np.int64))
        for _, (page, url, _) in batch.added:
            rows = np.flatnonzero(np.isin(changes.page, page)).tolist()
            if rows:
                order = np.argsort(page)
                places = order[np.searchsorted(page[order], changes.page[rows])]
                for row, place in zip(rows, places.tolist(), strict=True):
                    found[row] = url[place].as_py().encode()
        return found if urls is None else [u or f for u, f in zip(urls, found, strict=True)]

    def find_urls(self, is_forgotten: IsForgotten) -> set[bytes]:
        """Return the forgotten URLs that are in the change feed, in redirects, or in old blocks."""
        return find_urls(self._kv, is_forgotten)

    def erase_urls(self, is_forgotten: IsForgotten, lock: AbstractContextManager[object]) -> Erased:
        """Erase URLs of removed pages from the change feed, from redirects, and from old blocks.

        Changes without their URL only move cursors.  `compact` then removes the old values from
        disk.

        Parameters
        ----------
        is_forgotten
            Function that recognizes the URLs.
        lock
            Lock that keeps others from writing; it is held for one batch of values at a time.
        """
        erased = erase_urls(self._kv, is_forgotten, lock)
        with lock:
            self._n_writes += 2  # records that were read before are no longer valid
            self._names_read.clear()
            self._records_read.clear()
            # Written again, so that there is something to flush: the write-ahead log ends then.
            self._kv.write([_STATE], [self._state.encode()])
        return erased

    # ------------------------------------------------------------------ dividing anew

    @property
    def values(self) -> KeyValues:
        """Keys and values of the store, for `recrawl.store.resize`."""
        return self._kv

    def watch_writes(self) -> WrittenSlots:
        """Return an object that remembers which slots are written from now on."""
        self._written = WrittenSlots()
        return self._written

    def read_names_of(self, page: PageArray) -> list[bytes | None]:
        """Return the names of pages as `page_names_of`, without remembering them."""
        return stored_urls(self._kv, page, self._singles)

    def complete(
        self,
        batch: StoreBatch,
        position: int,
        *,
        n_changes: int,
        counts: ContentCounts | None,
        curve_prior: bytes | None,
    ) -> None:
        """Write the last part of a new store that was filled from others, and save it to disk.

        Parameters
        ----------
        batch
            Names of groups, kinds and sources.
        position
            Position of the log that the store is at.
        n_changes
            Number of changes in its feed.
        counts
            Counts of outcomes whose text was judged; None for none.
        curve_prior
            Common properties of pages in how their content is replaced; None if unknown.
        """
        self._state = self._state._replace(n_changes=n_changes)
        writes = Writes()
        if next(self._kv.scan(USER_DATA, bytes([USER_DATA[0] + 1])), None) is not None:
            writes.put(_HAS_USER_DATA, b"1")
        if counts is not None:
            writes.put(_CONTENT_COUNTS, counts.encode())
        if curve_prior is not None:
            writes.put(_CURVE_PRIOR, curve_prior)
        if writes.keys:
            self._kv.write(writes.keys, writes.values)
        self.write(batch, position)
        self._kv.flush()
        self._read_state()

    # ------------------------------------------------------------------ files

    def checkpoint(self, folder: Path) -> None:
        """Copy the store into a new folder by hard links; the copy can be opened as a store."""
        self._kv.checkpoint(folder)

    def catch_up(self) -> None:
        """Make a reader see the current state; does nothing for a writer."""
        self._kv.catch_up()
        self._names_read.clear()  # the writer may have removed pages
        self._records_read.clear()
        self._read_state()

    def flush(self) -> None:
        """Write everything in memory to files on disk."""
        self._kv.flush()

    def compact(self) -> None:
        """Merge the files to their smallest size, which rewrites all of them."""
        self._kv.compact()

    def close(self) -> None:
        """Close the store; a second call does nothing."""
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
            raise StorageError(f"{self._kv.folder} is a store without its state: it is corrupt")
        self._state = State.decode(value)
        self._has_user_data = self._kv.get(_HAS_USER_DATA) is not None
        self._has_fetch_urls = next(self._kv.scan(FETCH, _AFTER_FETCH), None) is not None
        counts = self._kv.get(_CONTENT_COUNTS)
        self._content_counts = None if counts is None else ContentCounts.decode(counts)


def _not_removed(batch: StoreBatch, page: PageArray) -> NDArray[np.int64]:
    """Return the rows whose page the same batch does not remove."""
    removed = [removed_page for _, removed_page in batch.removed]
    if not removed:
        return np.arange(page.size)
    return np.flatnonzero(~np.isin(page, np.concatenate(removed)))


def _options_of(n_partitions: int) -> KvOptions:
    """Return the options of one of several stores."""
    share = max(_BUFFERS_BYTES // max(n_partitions, 1), _BUFFER_BYTES_MIN)
    return replace(_OPTIONS, write_buffer_bytes=min(share, _OPTIONS.write_buffer_bytes))


def _identity_of(kv: KeyValues) -> tuple[int, int]:
    """Return the hash key and the URL version of a store; write them if the folder is new."""
    value = kv.get(_IDENTITY)
    if value is None:
        if kv.mode == "reader" or next(kv.scan(b""), None) is not None:
            raise StorageError(f"{kv.folder} is not a store")
        identity = {
            "format": FORMAT,
            "canon_version": CANON_VERSION,
            "hash_key": f"{secrets.randbits(_HASH_KEY_BITS):x}",
        }
        value = json.dumps(identity).encode()
        kv.write([_IDENTITY, _STATE], [value, State().encode()])
    identity = json.loads(value)
    for name, known in (("format", FORMAT), ("canon_version", CANON_VERSION)):
        if identity[name] > known:
            raise FormatError(
                f"{kv.folder} has {name} {identity[name]}, and this version reads up to {known}; "
                "update recrawl"
            )
    return int(identity["hash_key"], 16), int(identity["canon_version"])


def _check_owner(kv: KeyValues, corpus_id: str, partition: int) -> None:
    """Check that a store belongs to a partition of a corpus; record it if nothing is recorded."""
    identity = json.loads(kv.get(_IDENTITY) or b"{}")
    found = identity.get("corpus_id"), identity.get("partition")
    if found == (corpus_id, partition):
        return
    if found[0] is not None:
        raise IdentityError(
            f"{kv.folder} is the store of corpus {found[0]}, partition {found[1]}, but its folder "
            f"belongs to corpus {corpus_id}, partition {partition}. Nothing was changed. Put back "
            "the store of this corpus; if it is lost, move this one away, and recrawl rebuilds it."
        )
    if kv.mode == "writer":
        identity |= {"corpus_id": corpus_id, "partition": partition}
        kv.write([_IDENTITY], [json.dumps(identity).encode()])
