"""What some records of the log mean for a store, gathered in their order."""

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from recrawl.store.changes import Cursor
from recrawl.store.keys import PageArray, bytes_of_rows, slot_of, spans_of
from recrawl.store.names import NAME_BYTES_MAX, Names
from recrawl.store.records import (
    DIGEST_BYTES,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
    PROFILE_BYTES_MAX,
    SKETCH_BYTES_MAX,
    Content,
)
from recrawl.store.texts import URL_TEXT_BYTES_MAX

__all__ = ["AddedPages", "StoreBatch"]

_DIGEST = pa.binary(DIGEST_BYTES)
# Of etag, last_modified, sketch, profile, moved_to.
_LIMITS = (
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    SKETCH_BYTES_MAX,
    PROFILE_BYTES_MAX,
    MOVED_TO_BYTES_MAX,
)


class AddedPages(NamedTuple):
    """Pages with their URLs."""

    page: PageArray
    url: pa.StringArray
    fetch_url: pa.StringArray
    """Null where it is the same."""


class StoreBatch:
    """What one or several records of the log mean, in their order, for `Store.write`.

    The batch is what takes care of its own order: a page may be added and removed in it, its slot
    used again, its content seen and its changes told in between; what is written is what remains
    in the end, and the changes.  Within one call each page stands once.

    It does not look at URLs: who adds a URL that another page has already, there are two pages
    with it, and `Store.pages_of` tells the one that came first for as long as it is there.
    """

    def __init__(self) -> None:
        self.added: list[tuple[int, AddedPages]] = []
        self.removed: list[tuple[int, PageArray]] = []
        self.contents: list[tuple[PageArray, list[Content]]] = []
        self.names: list[tuple[NDArray[np.uint8], NDArray[np.int64], pa.StringArray]] = []
        self.changes: list[tuple[Cursor, int, int, int, bytes | None]] = []
        self._n_calls = 0
        self._n_changes: Counter[int] = Counter()

    def add_pages(
        self, page: PageArray, urls: pa.StringArray, fetch_urls: pa.StringArray | None = None
    ) -> None:
        """Add pages.

        Parameters
        ----------
        page
            Whose slots are free.
        urls
            Canonical, none null.
        fetch_urls
            What to ask for, null where that is the same.
        """
        _check_rows(page, urls=urls, fetch_urls=fetch_urls)
        _check_lengths(URL_TEXT_BYTES_MAX, urls=urls, fetch_urls=fetch_urls)
        if urls.null_count:
            raise ValueError(f"urls must have no nulls, got {urls.null_count}")
        if fetch_urls is None:
            fetch_urls = pa.nulls(len(urls), pa.string())
        self.added.append((self._turn(), AddedPages(_pages(page), urls, fetch_urls)))

    def remove_pages(self, page: PageArray) -> None:
        """Remove pages and what fetches of them left; those that are not there do not matter."""
        self.removed.append((self._turn(), _pages(page)))

    def name(self, what: ArrayLike, numbers: ArrayLike, keys: pa.StringArray) -> None:
        """Give numbers names.

        Parameters
        ----------
        what
            One of `Names`, or one for each row.
        """
        kinds = np.broadcast_to(np.asarray(what, np.uint8), (len(keys),))
        if kinds.size and kinds.max() > max(Names):
            raise ValueError(f"what must be of {list(Names)}, got {kinds.max()}")
        _check_rows(np.asarray(numbers), keys=keys)
        _check_lengths(NAME_BYTES_MAX, keys=keys)
        self.names.append((kinds, np.asarray(numbers, np.int64), keys))

    def see_content(
        self,
        page: PageArray,
        digest: pa.Array,
        etag: pa.Array,
        last_modified: pa.Array,
        sketch: pa.Array,
        profile: pa.Array,
        moved_to: pa.Array,
    ) -> None:
        """Keep what fetches left; null where a fetch said nothing.

        A fetch with a digest saw content: etag, last_modified, sketch and moved_to are its own,
        and go if it has none.  Otherwise what is null stays as it was, as profile always does.
        Digests are of 16 bytes; the latest are kept, each once.  What is longer than its limit is
        not kept.
        """
        columns = (digest, etag, last_modified, sketch, profile, moved_to)
        for column in columns:
            _check_rows(page, content=column)
        texts = [_bytes_of(column) for column in columns]
        if digest.type != _DIGEST and any(one and len(one) != DIGEST_BYTES for one in texts[0]):
            raise ValueError(f"digest must be of {DIGEST_BYTES} bytes")
        for i, limit in enumerate(_LIMITS, start=1):
            if _longest(columns[i]) > limit:
                # Not even a part of it: half a validator is a wrong one.
                texts[i] = [b"" if one and len(one) > limit else one for one in texts[i]]
        rows: list[Content] = list(zip(*texts, strict=True))
        self.contents.append((_pages(page), rows))

    def add_changes(
        self,
        position: int,
        page: PageArray,
        transition: NDArray[np.integer[Any]],
        at_ms: NDArray[np.int64],
        urls: pa.StringArray | None = None,
    ) -> None:
        """Tell what became of pages, at a position of the log.

        Parameters
        ----------
        urls
            Of the pages; if not given, what they are when the batch is written, or were in it.
        """
        texts = [None] * page.size if urls is None else _bytes_of(urls)
        first = self._n_changes[position]
        self._n_changes[position] += page.size
        rows = zip(page.tolist(), transition.tolist(), at_ms.tolist(), texts, strict=True)
        self.changes += [(Cursor(position, first + i), *row) for i, row in enumerate(rows)]

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
            raise ValueError(f"{name} must be of at most {n_bytes_max} bytes, got {longest}")


def _longest(column: pa.Array) -> int:
    if column.null_count == len(column):
        return 0
    return int(pc.max(pc.binary_length(column)).as_py())


def _pages(page: PageArray) -> PageArray:
    pages = np.asarray(page, np.int64)
    slots = slot_of(pages)
    if not (slots[1:] > slots[:-1]).all() and np.unique(slots).size != slots.size:
        raise ValueError("page must name each slot once")
    return pages


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and column.type == _DIGEST:
        rows = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, DIGEST_BYTES)
        return list(bytes_of_rows(rows[column.offset : column.offset + len(column)]))
    is_text = pa.types.is_string(column.type)
    if column.null_count == 0 and (is_text or pa.types.is_binary(column.type)):
        # Three times as quick as Arrow's own way.
        data, span = spans_of(column)
        return [data[begin:end] for begin, end in pairwise(span.tolist())]
    texts: list[bytes | None] = (column.cast(pa.binary()) if is_text else column).to_pylist()
    return texts
