"""The history of a crawl in columns: when each page was observed, and when it changed.

A log may be larger than memory.  The reader then samples pages by a hash of their URL: whatever
the order of the file, a page is kept with all its rows or not at all, and the sample does not
depend on how pages change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.urls import hash_urls, host_index

__all__ = ["PAGES_KEPT_MAX", "ROWS_KEPT_MAX", "History", "HistorySource", "history_of"]

PAGES_KEPT_MAX = 20_000
"""Largest number of pages to replay; of a larger history, a sample is replayed."""
ROWS_KEPT_MAX = 8_000_000
"""Largest number of fetches or changes kept in memory."""
_HASH_MAX = 2**64 - 1
_NOT_MODIFIED = 304
_FIRST_ERROR = 400


class HistorySource(Protocol):
    """A stream of fetches or changes, such as `recrawl.readers.Source`."""

    @property
    def kind(self) -> str:
        """Kind of the rows: "observed" for fetches, "changed" for changes."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        ...

    def windows(self) -> pa.Table:
        """Return when each page was observed; only if rows are changes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """Pages, when they were observed, and their fetches or changes.

    Instants are in milliseconds since 1970.  Rows are sorted by page and time.  If rows are
    fetches, the first one of a page only establishes its version; if they are changes, their
    instants are exact.
    """

    urls: pa.StringArray
    cluster: RowArray
    """Number of the host, or of the top folder, of each page."""
    importance: FloatArray
    from_ms: CountArray
    until_ms: CountArray
    page: RowArray
    at_ms: CountArray
    changed: FlagArray
    version: CountArray
    """Version of the page; equal numbers mean equal content, and have no other meaning."""
    is_exact: bool
    """Whether rows are changes, rather than fetches that may have found one."""
    n_rows_read: int
    n_errors: int
    """Number of failed fetches, which are ignored."""
    n_mute: int
    """Number of fetches that do not say whether they found a change."""
    kept_share: float
    """Share of the log's pages that were kept; 1 without sampling."""

    @property
    def n_pages(self) -> int:
        """Number of pages kept."""
        return int(self.importance.size)


class _Rows(NamedTuple):
    """Columns of rows; ``what`` is 1 for changed, 0 for not, -1 for unknown, -2 for an error."""

    hash: NDArray[np.uint64]
    at_ms: CountArray
    digest: NDArray[np.uint64]
    has_digest: FlagArray
    what: NDArray[np.int8]

    def select(self, rows: NDArray[np.bool_] | RowArray) -> "_Rows":
        return _Rows(
            self.hash[rows],
            self.at_ms[rows],
            self.digest[rows],
            self.has_digest[rows],
            self.what[rows],
        )

    @classmethod
    def concatenate(cls, parts: list["_Rows"]) -> "_Rows":
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class _Sample:
    """Keeps the rows of pages whose hash is below a limit; lowers the limit if there are too many.

    Parameters
    ----------
    n_pages_max, n_rows_max
        Largest numbers of pages and rows to keep.
    """

    def __init__(self, n_pages_max: int, n_rows_max: int) -> None:
        self._n_pages_max = n_pages_max
        self._n_rows_max = n_rows_max
        self._limit = _HASH_MAX
        self._rows: list[_Rows] = []
        self._n_rows = 0
        self.url: dict[int, str] = {}
        self.importance: dict[int, float] = {}
        self.n_read = 0

    @property
    def kept_share(self) -> float:
        return (self._limit + 1) / (_HASH_MAX + 1)

    def is_sampled(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.asarray(hashes <= np.uint64(self._limit))

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of sampled pages, and halve the sample if there are too many."""
        self.n_read += batch.num_rows
        url = batch.column("url")
        hashes = hash_urls(url, key=0)
        wanted = self.is_sampled(hashes)
        if not wanted.any():
            return
        batch = batch.filter(pa.array(wanted))
        hashes = hashes[wanted]
        self._add_pages(hashes, batch)
        self._rows.append(_rows_of(hashes, batch))
        self._n_rows += hashes.size
        while len(self.url) > self._n_pages_max or (
            self._n_rows > self._n_rows_max and len(self.url) > 1
        ):
            self.halve()

    def _add_pages(self, hashes: NDArray[np.uint64], batch: pa.RecordBatch) -> None:
        first, at = np.unique(hashes, return_index=True)
        new = [(int(h), int(i)) for h, i in zip(first, at, strict=True) if int(h) not in self.url]
        if new:
            names = batch.column("url").take(pa.array([i for _, i in new])).to_pylist()
            self.url.update(zip([h for h, _ in new], names, strict=True))
        if "importance" in batch.schema.names:
            column = batch.column("importance")
            is_given = np.asarray(pc.is_valid(column))
            if is_given.any():
                amounts = np.asarray(pc.fill_null(column, 0.0))[is_given]
                given = zip(hashes[is_given].tolist(), amounts.tolist(), strict=True)
                self.importance.update(given)

    def halve(self) -> None:
        """Drop about half of the pages."""
        self._limit //= 2
        if not self._rows:
            return
        rows = _Rows.concatenate(self._rows)
        rows = rows.select(self.is_sampled(rows.hash))
        self._rows = [rows]
        self._n_rows = rows.hash.size
        self.url = {h: name for h, name in self.url.items() if h <= self._limit}
        self.importance = {h: x for h, x in self.importance.items() if h <= self._limit}

    def rows(self) -> _Rows:
        """Return all rows by page and time; rows of equal time keep the order of the file."""
        if not self._rows:
            none = np.empty(0, np.uint64)
            no_times = np.empty(0, np.int64)
            return _Rows(none, no_times, none, np.empty(0, np.bool_), np.empty(0, np.int8))
        rows = _Rows.concatenate(self._rows)
        self._rows = [rows]
        return rows.select(np.lexsort((rows.at_ms, rows.hash)))


def _rows_of(hashes: NDArray[np.uint64], batch: pa.RecordBatch) -> _Rows:
    names = batch.schema.names
    n = hashes.size
    digest = batch.column("digest").cast(pa.binary())
    has_digest = np.asarray(pc.is_valid(digest))
    # A view does not check UTF-8, which a digest need not be.
    text = pc.fill_null(digest, b"").view(pa.string())
    what = np.full(n, -1, np.int8)
    if "changed" in names:
        changed = batch.column("changed")
        is_given = np.asarray(pc.is_valid(changed))
        what[is_given] = np.asarray(pc.fill_null(changed, False)).astype(np.int8)[is_given]
    if "status" in names:
        status = np.asarray(pc.fill_null(batch.column("status"), 200))
        what[status == _NOT_MODIFIED] = 0
        what[status >= _FIRST_ERROR] = -2
    at_ms = np.asarray(batch.column("at_ms"), np.int64)
    return _Rows(hashes, at_ms, hash_urls(text, key=0), has_digest, what)


def history_of(
    source: HistorySource, *, n_pages_max: int = PAGES_KEPT_MAX, n_rows_max: int = ROWS_KEPT_MAX
) -> History:
    """Read a source of fetches or changes into columns.

    Parameters
    ----------
    source
        Source of fetches or of changes.
    n_pages_max, n_rows_max
        Largest numbers of pages and rows; beyond them pages are sampled, each with all its rows.
    """
    sample = _Sample(n_pages_max, n_rows_max)
    for batch in source.batches():
        if batch.num_rows:
            sample.add(batch)
    if source.kind == "changed":
        return _history_of_changes(sample, source.windows(), n_pages_max)
    return _history_of_fetches(sample)


def _pages_of(
    sample: _Sample, hashes: NDArray[np.uint64]
) -> tuple[pa.StringArray, RowArray, FloatArray]:
    """Return the URLs, clusters and importance of pages, given by their hashes."""
    urls = pa.array([sample.url[int(h)] for h in hashes], pa.string())
    importance = np.array([sample.importance.get(int(h), np.nan) for h in hashes])
    is_given = np.isfinite(importance) & (importance >= 0)
    # Pages without a given importance get the mean of the others.
    importance[~is_given] = importance[is_given].mean() if is_given.any() else 1.0
    if not importance.sum() > 0:
        importance[:] = 1.0
    return urls, _clusters(urls), importance


def _clusters(urls: pa.StringArray) -> RowArray:
    if len(urls) == 0:
        return np.empty(0, np.int64)
    names, host = host_index(urls)
    is_path = host < 0
    if not is_path.any():
        return np.asarray(host, np.int64)
    # Paths without a host, such as files of a repository, are grouped by their top folder.
    keys = pc.replace_substring_regex(urls, r"(?s)^/*([^/]*)/.*$", r"\1")
    if not is_path.all():
        of_host = names.take(pa.array(host, mask=is_path))
        keys = pc.if_else(pa.array(is_path), keys, of_host)
    return np.asarray(keys.dictionary_encode().indices, np.int64)


def _newest_digest(rows: _Rows, is_first: FlagArray) -> RowArray:
    """Return for each row the row with the page's newest digest up to then; -1 without one.

    A "not modified" answer has no digest, so the previous digest stays valid.
    """
    at = np.arange(rows.hash.size)
    newest = np.maximum.accumulate(np.where(rows.has_digest, at, -1)) if at.size else at
    first = np.maximum.accumulate(np.where(is_first, at, 0)) if at.size else at
    return np.where(newest >= first, newest, -1)


def _history_of_fetches(sample: _Sample) -> History:
    rows = sample.rows()
    n_errors = int(np.count_nonzero(rows.what == -2))
    rows = rows.select(rows.what != -2)
    # Two rows of one page at one instant are a duplicate of the same fetch.
    is_duplicate = np.zeros(rows.hash.size, np.bool_)
    is_duplicate[1:] = (rows.hash[1:] == rows.hash[:-1]) & (rows.at_ms[1:] == rows.at_ms[:-1])
    rows = rows.select(~is_duplicate)
    is_first = np.ones(rows.hash.size, np.bool_)
    is_first[1:] = rows.hash[1:] != rows.hash[:-1]
    what = rows.what.copy()
    digest, newest = rows.digest, _newest_digest(rows, is_first)
    before = np.concatenate([[-1], newest[:-1]]) if newest.size else newest
    by_digest = (what < 0) & rows.has_digest & ~is_first & (before >= 0)
    what[by_digest] = (rows.digest != rows.digest[before])[by_digest]
    is_undecided = (what < 0) & ~is_first
    kept = ~is_undecided
    rows, what, is_first, newest = rows.select(kept), what[kept], is_first[kept], newest[kept]
    changed = (what == 1) & ~is_first
    hashes, page = np.unique(rows.hash, return_inverse=True)
    page = page.astype(np.int64)
    last = np.append(np.flatnonzero(is_first)[1:] - 1, is_first.size - 1) if is_first.size else page
    urls, cluster, importance = _pages_of(sample, hashes)
    # Without digests every change makes a new version, numbered by its row.
    version = np.maximum.accumulate(np.where(changed | is_first, np.arange(page.size), 0))
    if (newest >= 0).all():
        version = digest[newest].view(np.int64)
    return History(
        urls=urls,
        cluster=cluster,
        importance=importance,
        from_ms=rows.at_ms[is_first],
        until_ms=rows.at_ms[last],
        page=page,
        at_ms=rows.at_ms,
        changed=changed,
        version=version,
        is_exact=False,
        n_rows_read=sample.n_read,
        n_errors=n_errors,
        n_mute=int(np.count_nonzero(is_undecided)),
        kept_share=sample.kept_share,
    )


def _history_of_changes(sample: _Sample, windows: pa.Table, n_pages_max: int) -> History:
    (watched,) = windows.combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], windows.schema)
    ]
    url = watched.column("url")
    hashes = hash_urls(url, key=0)
    # Pages that never changed have no rows, but count towards the limit.
    while np.count_nonzero(sample.is_sampled(hashes)) > n_pages_max:
        sample.halve()
    rows = sample.rows()
    wanted = sample.is_sampled(hashes)
    names = url.filter(pa.array(wanted)).to_pylist()
    sample.url.update(zip(hashes[wanted].tolist(), names, strict=True))
    if "importance" in watched.schema.names:
        given = watched.column("importance").to_numpy(zero_copy_only=False)[wanted]
        sample.importance.update(zip(hashes[wanted].tolist(), given.tolist(), strict=True))
    known, at = np.unique(hashes[wanted], return_index=True)
    from_ms = watched.column("from_ms").to_numpy()[wanted][at]
    until_ms = watched.column("until_ms").to_numpy()[wanted][at]
    is_known = np.isin(rows.hash, known)
    rows = rows.select(is_known)
    page = np.searchsorted(known, rows.hash).astype(np.int64)
    urls, cluster, importance = _pages_of(sample, known)
    version = np.arange(page.size)
    if rows.has_digest.all():
        version = rows.digest.view(np.int64)
    return History(
        urls=urls,
        cluster=cluster,
        importance=importance,
        from_ms=from_ms.astype(np.int64),
        until_ms=until_ms.astype(np.int64),
        page=page,
        at_ms=rows.at_ms,
        changed=np.ones(page.size, np.bool_),
        version=version,
        is_exact=True,
        n_rows_read=sample.n_read,
        n_errors=0,
        n_mute=0,
        kept_share=sample.kept_share,
    )
