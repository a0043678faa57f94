"""Changes to a store, collected from records of the log in their order."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.changes import ConsumerPlace, Cursor, NewChanges
from recrawl.store.content.counts import WRONG_ANSWER_KINDS_MAX, ContentCounts
from recrawl.store.content.page_memories import ContentRow
from recrawl.store.fetch_records import (
    DIGEST_BYTES,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    PROFILE_BYTES_MAX,
    SAME_CONTENT,
    SKETCH_BYTES_MAX,
    Content,
    DigestRows,
    digest_rows,
)
from recrawl.store.keys import PageArray, bytes_of_rows, spans_of, strings_of
from recrawl.store.names import NAME_BYTES_MAX, Names
from recrawl.store.page_urls import URL_TEXT_BYTES_MAX, stored_urls
from recrawl.store.request_keys import NewRequest
from recrawl.store.user_data import DOC_ID_BYTES_MAX, METADATA_BYTES_MAX

__all__ = ["AddedPages", "NetPages", "StoreBatch", "list_of_bytes", "net_pages"]

_DIGEST = pa.binary(DIGEST_BYTES)
_NOTHING_COUNTED = ContentCounts()
# Limits of etag, last_modified, sketch, profile, moved_to, in this order.
_LIMITS = (
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    SKETCH_BYTES_MAX,
    PROFILE_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
)


class AddedPages(NamedTuple):
    """Pages to add, with their URLs."""

    page: PageArray
    url: pa.StringArray
    fetch_url: pa.StringArray
    """URL to request, null where it equals ``url``."""


class StoreBatch:
    """Changes of one or several records of the log, in their order, for `Store.write`.

    The order of the calls counts: one batch may add a page, update its content, log its changes,
    remove it and use its slot again.  The store writes the final state, and all changes of the
    feed.  Within one call each page may occur only once.

    The batch does not compare URLs: if it adds a URL that another page has already, two pages have
    it, and `Store.pages_of` returns the one that was added first for as long as it exists.
    """

    def __init__(self) -> None:
        self.added: list[tuple[int, AddedPages]] = []
        self.removed: list[tuple[int, PageArray]] = []
        self.contents: list[tuple[PageArray, list[Content] | DigestRows]] = []
        self.user_data: list[tuple[PageArray, list[bytes | None], list[bytes | None]]] = []
        self.names: list[tuple[NDArray[np.uint8], NDArray[np.int64], pa.StringArray]] = []
        self.changes: list[NewChanges] = []
        self.content_rows: list[ContentRow] = []
        self.host_updates: list[tuple[int, bytes]] = []
        self.content_counts = _NOTHING_COUNTED
        self.requests: list[NewRequest] = []
        self.curve_prior: bytes | None = None
        self.consumers: list[ConsumerPlace] = []
        self.samples: dict[bytes, bytes | None] = {}
        """Samples to put by their keys, or to remove, as `recrawl.node.sampling` encodes them."""
        self._n_calls = 0
        self._n_changes: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the batch changes nothing in the store."""
        return not (
            self.contents
            or self.changes
            or self.added
            or self.removed
            or self.user_data
            or self.names
            or self.content_rows
            or self.host_updates
            or self.requests
            or self.content_counts.n_observed
            or self.curve_prior is not None
            or self.consumers
            or self.samples
        )

    def add_pages(
        self, page: PageArray, urls: pa.StringArray, fetch_urls: pa.StringArray | None = None
    ) -> None:
        """Add pages.

        Parameters
        ----------
        page
            Pages whose slots are free.
        urls
            Canonical URLs of the pages, without nulls.
        fetch_urls
            URLs to request, null where they equal ``urls``.
        """
        _check_rows(page, urls=urls, fetch_urls=fetch_urls)
        _check_lengths(URL_TEXT_BYTES_MAX, urls=urls, fetch_urls=fetch_urls)
        if urls.null_count:
            raise ValueError(f"urls must have no nulls, got {urls.null_count}")
        if fetch_urls is None:
            fetch_urls = pa.nulls(len(urls), pa.string())
        self.added.append((self._turn(), AddedPages(_pages(page), urls, fetch_urls)))

    def remove_pages(self, page: PageArray) -> None:
        """Remove pages and their fetch records; pages that do not exist are ignored."""
        self.removed.append((self._turn(), _pages(page)))

    def set_user_data(
        self, page: PageArray, doc_id: pa.StringArray, metadata: pa.StringArray
    ) -> None:
        """Set the user's own data of pages; a null leaves a value, an empty text removes it.

        Parameters
        ----------
        page
            Pages that exist.
        doc_id
            Names that the user gives the pages.
        metadata
            JSON objects as text.
        """
        _check_rows(page, doc_id=doc_id, metadata=metadata)
        _check_lengths(DOC_ID_BYTES_MAX, doc_id=doc_id)
        _check_lengths(METADATA_BYTES_MAX, metadata=metadata)
        self.user_data.append((_pages(page), list_of_bytes(doc_id), list_of_bytes(metadata)))

    def add_request(self, key: bytes, digest: bytes, position: int, at_ms: int) -> None:
        """Remember that the record at a position completes the request with a key."""
        self.requests.append(NewRequest(key, digest, position, at_ms))

    def set_curve_prior(self, value: bytes) -> None:
        """Set what the pages have in common in how their content is replaced."""
        self.curve_prior = value

    def set_consumers(self, names: list[str], places: list[bytes | None]) -> None:
        """Set the places of consumers in the change feed; None removes a consumer."""
        self.consumers += map(ConsumerPlace, names, places)

    def add_names(self, what: ArrayLike, numbers: ArrayLike, keys: pa.StringArray) -> None:
        """Add names and their numbers.

        Parameters
        ----------
        what
            Namespace of the names: one of `Names`, or one for each row.
        numbers, keys
            Numbers and the names that they stand for.
        """
        kinds = np.broadcast_to(np.asarray(what, np.uint8), (len(keys),))
        if kinds.size and kinds.max() > max(Names):
            raise ValueError(f"what must be one of {list(Names)}, got {kinds.max()}")
        _check_rows(np.asarray(numbers), keys=keys)
        _check_lengths(NAME_BYTES_MAX, keys=keys)
        self.names.append((kinds, np.asarray(numbers, np.int64), keys))

    def add_content(
        self,
        page: PageArray,
        digest: pa.Array,
        etag: pa.Array,
        last_modified: pa.Array,
        sketch: pa.Array,
        profile: pa.Array,
        moved_to: pa.Array,
        *,
        is_same: NDArray[np.bool_] | None = None,
    ) -> None:
        """Update the fetch records of pages; null where a fetch returned no value.

        A fetch with a digest returned content: its etag, last_modified, sketch and moved_to replace
        the stored values, nulls included.  Otherwise a null leaves the stored value; a null profile
        always does.  Digests have 16 bytes; the latest distinct ones are kept.  Values longer than
        their limit are not kept.  A fetch with ``is_same`` returned the stored content: digest and
        sketch stay, whatever the columns have, and the other values are replaced.
        """
        columns = (digest, etag, last_modified, sketch, profile, moved_to)
        for column in columns:
            _check_rows(page, content=column)
        if (
            is_same is None
            and digest.type == _DIGEST
            and digest.null_count == 0
            and all(column.null_count == page.size for column in columns[1:])
        ):
            self.contents.append((_pages(page), digest_rows(digest)))
            return
        texts = [list_of_bytes(column) for column in columns]
        if digest.type != _DIGEST and any(text and len(text) != DIGEST_BYTES for text in texts[0]):
            raise ValueError(f"digests must have {DIGEST_BYTES} bytes")
        for i, limit in enumerate(_LIMITS, start=1):
            if _longest(columns[i]) > limit:
                # Dropped, not cut: a part of a validator is a wrong validator.
                texts[i] = [b"" if text and len(text) > limit else text for text in texts[i]]
        if is_same is not None:
            for i in np.flatnonzero(is_same).tolist():
                texts[0][i] = SAME_CONTENT
        rows: list[Content] = list(zip(*texts, strict=True))
        self.contents.append((_pages(page), rows))

    def add_contents(self, page: PageArray, contents: list[Content]) -> None:
        """Update the fetch records of pages, given as rows; see `add_content`.

        Parameters
        ----------
        page
            Pages, each once.
        contents
            Values of each fetch, within their limits.
        """
        self.contents.append((page, contents))

    def add_page_content(
        self,
        page: PageArray,
        memory: list[bytes | None],
        wrong_answer: NDArray[np.integer[Any]],
        at_ms: int,
        is_difference: NDArray[np.bool_] | None = None,
    ) -> None:
        """Update what is remembered of the text of pages.

        Parameters
        ----------
        page
            Pages that exist.
        memory
            New memories of the pages, None to leave the old one.
        wrong_answer
            Kinds of wrong answers, 0 for an answer that was the page.
        at_ms
            Time of the outcomes.
        is_difference
            Whether each memory is a difference from the old one, as `pack_difference` writes it; by
            default none is.
        """
        differs = [False] * page.size if is_difference is None else is_difference.tolist()
        rows = zip(page.tolist(), memory, differs, wrong_answer.tolist(), strict=True)
        self.content_rows += [
            ContentRow(number, one, is_change, wrong, at_ms)
            for number, one, is_change, wrong in rows
            if one is not None or wrong
        ]

    def add_host_updates(self, updates: list[tuple[int, bytes]]) -> None:
        """Update what is remembered of the common text of groups of pages, in the given order."""
        self.host_updates += updates

    def count_content(
        self,
        wrong_answer: NDArray[np.integer[Any]],
        n_baselines: int,
        n_template_changes: int,
    ) -> None:
        """Count outcomes whose text was judged; ``wrong_answer`` has a row for each of them."""
        kinds = np.clip(wrong_answer, 0, WRONG_ANSWER_KINDS_MAX - 1)
        n_wrong = np.bincount(kinds, minlength=WRONG_ANSWER_KINDS_MAX)
        n_wrong[0] = 0
        more = ContentCounts(
            wrong_answer.size, n_baselines, n_template_changes, tuple(n_wrong.tolist())
        )
        self.content_counts = more.plus(self.content_counts)

    def add_changes(
        self,
        position: int,
        page: PageArray,
        transition: NDArray[np.integer[Any]],
        at_ms: NDArray[np.int64],
        urls: pa.StringArray | None = None,
        passages: list[bytes | None] | None = None,
    ) -> None:
        """Add transitions of pages to the change feed.

        Parameters
        ----------
        position
            Position of the record in the log.
        page, transition, at_ms
            Pages, their transitions and the instants of these.
        urls
            URLs of the pages; by default those of the store or of this batch.
        passages
            Passages of the changes as `pack_passages` returns them, None where not known.
        """
        texts = None if urls is None else list_of_bytes(urls)
        first = self._n_changes.get(position, 0)
        self._n_changes[position] = first + page.size
        place = Cursor(position, first)
        self.changes.append(NewChanges(place, page, transition, at_ms, texts, passages))

    def _turn(self) -> int:
        self._n_calls += 1
        return self._n_calls


def _check_rows(page: NDArray[Any], **columns: Any) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != page.size:
            raise ValueError(f"{name} must have {page.size} rows, got {len(column)}")


def _check_lengths(n_bytes_max: int, **columns: pa.StringArray | None) -> None:
    for name, column in columns.items():
        if column is not None and (longest := _longest(column)) > n_bytes_max:
            raise ValueError(f"{name} must have at most {n_bytes_max} bytes, got {longest}")


def _longest(column: pa.Array) -> int:
    if column.null_count == len(column):
        return 0
    return int(pc.max(pc.binary_length(column)).as_py())


def _pages(page: PageArray) -> PageArray:
    pages = np.asarray(page, np.int64)
    slots = slot_of_page(pages)
    if not (slots[1:] > slots[:-1]).all() and not _are_distinct(slots):
        raise ValueError("page must contain each slot only once")
    return pages


def list_of_bytes(column: pa.Array) -> list[bytes | None]:
    """Return the values of an Arrow array of texts or bytes, texts in UTF-8."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and column.type == _DIGEST:
        return list(bytes_of_rows(digest_rows(column)))
    is_text = pa.types.is_string(column.type)
    if column.null_count == 0 and (is_text or pa.types.is_binary(column.type)):
        # Three times as fast as `to_pylist`.
        data, span = spans_of(column)
        return [data[begin:end] for begin, end in pairwise(span.tolist())]
    texts: list[bytes | None] = (column.cast(pa.binary()) if is_text else column).to_pylist()
    return texts


_NOTHING = AddedPages(np.empty(0, np.int64), pa.nulls(0, pa.string()), pa.nulls(0, pa.string()))


class NetPages(NamedTuple):
    """The net effect of a batch on the pages of a store."""

    added: AddedPages
    """New pages that exist afterwards, in the order of their addition."""
    removed: PageArray
    """Pages of the store that no longer exist."""
    removed_url: pa.StringArray
    emptied: PageArray
    """Slots that are empty afterwards."""


_NO_PAGES = NetPages(_NOTHING, np.empty(0, np.int64), _NOTHING.url, np.empty(0, np.int64))


def net_pages(kv: KeyValues, batch: StoreBatch) -> NetPages:
    """Return the net effect of a batch on the pages of a store."""
    if not batch.added and not batch.removed:
        return _NO_PAGES
    added = _concatenate([rows for _, rows in batch.added])
    if not batch.removed and (len(batch.added) < 2 or _are_distinct(slot_of_page(added.page))):
        nothing = np.empty(0, np.int64)
        return NetPages(added, nothing, _NOTHING.url, nothing)
    removed = np.concatenate([np.empty(0, np.int64), *(page for _, page in batch.removed)])
    stored = stored_urls(kv, removed)
    turn = np.concatenate(
        [np.full(rows.page.size, turn) for turn, rows in batch.added]
        + [np.full(page.size, turn) for turn, page in batch.removed]
    )
    slot = slot_of_page(np.concatenate([added.page, removed]))
    order = np.lexsort((turn, slot))
    is_kept, was_removed = _walk_slots(added.page, removed, stored, slot[order], order)
    rows = np.flatnonzero(is_kept)
    removed_rows = np.flatnonzero(was_removed)
    remaining = AddedPages(
        added.page[rows], added.url.take(pa.array(rows)), added.fetch_url.take(pa.array(rows))
    )
    # Include pages added and removed in this batch: an interrupted write may have stored them.
    emptied = np.setdiff1d(slot, slot_of_page(remaining.page))
    emptied = np.intersect1d(
        emptied, np.concatenate([slot_of_page(removed[removed_rows]), slot_of_page(added.page)])
    )
    texts = strings_of([stored[i] for i in removed_rows.tolist()])
    return NetPages(remaining, removed[removed_rows], texts, emptied)


def _walk_slots(
    added: PageArray,
    removed: PageArray,
    stored: list[bytes | None],
    slots: PageArray,
    order: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Go through the additions and removals of each slot in turn.

    Parameters
    ----------
    added, removed
        Pages that the batch adds and removes.
    stored
        URLs in the store of the removed pages, None for pages that the store does not have.
    slots, order
        Slots and rows sorted by slot and then turn; rows after those of ``added`` are of
        ``removed``.

    Returns
    -------
    is_kept
        Which of the added pages exist at the end.
    was_removed
        Which of the removed pages were in the store.
    """
    is_kept = np.zeros(added.size, np.bool_)
    was_removed = np.zeros(removed.size, np.bool_)
    slot_before, last = -1, -1
    is_stored = True
    for slot, row in zip(slots.tolist(), order.tolist(), strict=True):
        if slot != slot_before:
            # The slot holds the store's page, the page of row `last`, or nothing (-1).
            slot_before, is_stored, last = slot, True, -1
        if row < added.size:
            if last >= 0:
                is_kept[last] = False
            is_stored, last = False, row
            is_kept[row] = True
            continue
        which = row - added.size
        if is_stored:
            if stored[which] is not None:
                was_removed[which] = True
                is_stored = False
        elif last >= 0 and added[last] == removed[which]:
            is_kept[last] = False
            last = -1
    return is_kept, was_removed


def _concatenate(parts: list[AddedPages]) -> AddedPages:
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    return AddedPages(
        np.concatenate([rows.page for rows in parts]),
        pa.concat_arrays([rows.url for rows in parts]),
        pa.concat_arrays([rows.fetch_url for rows in parts]),
    )


def _are_distinct(slots: PageArray) -> bool:
    # A tenth of the time of `np.unique`.
    in_order = np.sort(slots)
    return bool((in_order[1:] != in_order[:-1]).all())
