"""Import the fetch log of an earlier crawl.

A corpus learns from the fetches of a page in the order of their times, but files are in any order,
often by URL.  So the import first collects all rows, in bundles of pages small enough for memory;
then it sorts each bundle, compares contents and reports the outcomes.  The collected rows take 40
bytes per fetch, in memory or, beyond `ROWS_IN_MEMORY_MAX`, in a temporary folder in the corpus.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.view import CorpusView, CountedRows, RowStatus
from recrawl.node.node import Node
from recrawl.node.orders import is_failed_fetch, is_success
from recrawl.node.records import LogEntry, PagesReported
from recrawl.node.reporting.many import stored_digest, verdicts
from recrawl.node.user_data import UserColumns, set_user_data
from recrawl.shard import CostsSet, ImportanceSet, Outcomes, Transition, Verdict, event_of
from recrawl.shard.events import slot_of_page
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.store import DIGEST_BYTES, DIGESTS_MAX
from recrawl.urls import page_names, split_page_names

__all__ = ["BUNDLES", "ROWS_IN_MEMORY_MAX", "CrawlImport", "ImportCounts", "set_each"]

ROWS_IN_MEMORY_MAX = 4_000_000
"""Number of fetches collected in memory, which take 160 MB; more go to disk."""

BUNDLES = 64
"""Number of bundles per partition.  One is in memory at a time, so that half a billion fetches
need about 700 MB."""

_ROWS_PER_REPORT = 16_384
_UNKNOWN = -1
_CHANGES = (Transition.CHANGED, Transition.GONE, Transition.MOVED, Transition.RETURNED)
_ROW = np.dtype(
    [
        ("page", np.int64),
        ("at_ms", np.int64),
        ("digest", np.uint64, (2,)),
        ("status", np.int16),
        ("changed", np.int8),
        ("has_digest", np.bool_),
    ],
    align=True,
)
_OWN_COLUMNS = ("doc_id", "metadata")
_Rows: TypeAlias = NDArray[Any]
_Flags: TypeAlias = NDArray[np.bool_]


class ImportCounts(NamedTuple):
    """Counts of what an import has learned so far."""

    n_pages: int
    """Pages in the log."""
    n_added: int
    """Pages that were not tracked before."""
    n_fetches: int
    """Fetches that the corpus learned from."""
    n_changed: int
    """Fetches among those that found a change since the previous fetch."""
    n_failed: int
    """Failed fetches, which are left out."""
    n_silent: int
    """Fetches with content that neither a digest nor a flag compares with the previous one."""
    n_void: int
    """Fetches not later than the last known one of their page, or a second one in one second."""
    n_refused: int
    """Fetches whose URL is not valid."""
    from_ms: int | None
    until_ms: int | None


class CrawlImport:
    """An import in progress: use it with ``with``, `add_batch` all batches, then `learn`.

    Parameters
    ----------
    corpus
        Corpus that learns from the fetches.
    """

    def __init__(self, corpus: CorpusView) -> None:
        self._corpus = corpus
        self._collected: dict[tuple[int, int], list[_Rows]] = {}
        self._n_in_memory = 0
        self._on_disk: set[tuple[int, int]] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._n_added = self._n_failed = self._n_silent = self._n_refused = 0
        self._n_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._collected.clear()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def n_rows(self) -> int:
        """The number of fetches collected so far."""
        return self._n_rows

    # ------------------------------------------------------------------ collecting

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the pages of a batch of `recrawl.readers.OBSERVED`, and collect its fetches."""
        status = batch.column("status").fill_null(200).to_numpy().astype(np.int16)
        changed = batch.column("changed").cast(pa.int8()).fill_null(_UNKNOWN).to_numpy()
        digest, has_digest = _stored_digests(batch.column("digest"))
        is_content = is_success(status)
        is_failed = is_failed_fetch(status)
        is_silent = is_content & (changed == _UNKNOWN) & ~has_digest
        page, partition = self._pages_of(batch)
        is_kept = page >= 0
        self._n_refused += int(np.count_nonzero(~is_kept))
        self._n_failed += int(np.count_nonzero(is_kept & is_failed))
        self._n_silent += int(np.count_nonzero(is_kept & is_silent))
        found = np.flatnonzero(is_kept & ~is_failed & ~is_silent)
        rows = np.empty(found.size, _ROW)
        rows["page"], rows["at_ms"] = page[found], batch.column("at_ms").to_numpy()[found]
        rows["digest"], rows["has_digest"] = digest[found], has_digest[found]
        rows["status"], rows["changed"] = status[found], changed[found]
        self._collect(rows, partition[found])

    def _pages_of(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Add new pages; return the page and partition of each row, -1 where the URL is invalid."""
        by = self._corpus.config.corpus.group_by
        key = batch.column("key").fill_null("") if by == "key" else None
        codes = page_names(key, batch.column("url")).dictionary_encode()
        name, row = codes.dictionary, codes.indices.to_numpy()
        keys, url = split_page_names(name)
        importance = np.full(len(url), np.nan)
        importance[row] = batch.column("importance").to_numpy(zero_copy_only=False)
        has_importance = (importance >= 0) & (importance <= 1e12)
        own = {
            name: _last_values(batch.column(name), row, len(url))
            for name in _OWN_COLUMNS
            if name in batch.schema.names
        }
        for is_given in (False, True):
            some = np.flatnonzero(has_importance == is_given)
            if some.size:
                given = importance[some] if is_given else None
                values = {
                    name: column.take(pa.array(some))
                    for name, column in own.items()
                    if column is not None
                }
                if keys is not None:
                    values["key"] = keys.take(pa.array(some))
                added = self._corpus.add(url.take(pa.array(some)), importance=given, **values)
                self._n_added += added.n_added
        page, partition = np.full(len(url), -1), np.zeros(len(url), np.int64)
        for node, rows, page_name, _ in self._corpus.nodes.split(url, by, key=keys):
            page[rows] = node.store.pages_of(page_name)
            partition[rows] = node.partition
        return page[row], partition[row]

    def _collect(self, rows: _Rows, partition: NDArray[np.int64]) -> None:
        bundle = partition * BUNDLES + slot_of_page(rows["page"]) % BUNDLES
        order = np.argsort(bundle, kind="stable")
        numbers, first = np.unique(bundle[order], return_index=True)
        for number, part in zip(numbers, np.split(rows[order], first[1:]), strict=False):
            self._collected.setdefault(divmod(int(number), BUNDLES), []).append(part)
        self._n_in_memory += rows.size
        self._n_rows += rows.size
        if self._n_in_memory > ROWS_IN_MEMORY_MAX:
            self._to_disk()

    def _to_disk(self) -> None:
        for name, parts in self._collected.items():
            with self._file(name).open("ab") as file:
                for part in parts:
                    file.write(part.tobytes())
            self._on_disk.add(name)
        self._collected.clear()
        self._n_in_memory = 0

    def _file(self, name: tuple[int, int]) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix=".import-", dir=self._corpus.folder, ignore_cleanup_errors=True
            )
        return Path(self._folder.name) / f"{name[0]}-{name[1]}"

    # ------------------------------------------------------------------ learning

    def learn(self) -> Iterator[ImportCounts]:
        """Report the collected fetches, bundle by bundle; yield the counts after each bundle."""
        n_pages = n_void = n_fetches = n_changed = 0
        from_ms = until_ms = None
        for name in sorted({*self._collected, *self._on_disk}):
            parts = self._collected.pop(name, [])
            if name in self._on_disk:
                parts.insert(0, np.fromfile(self._file(name), _ROW))
                self._file(name).unlink()
            rows = np.concatenate(parts)
            n_read = rows.size
            node = self._corpus.nodes[name[0]]
            rows = _sort_by_page_and_time(rows)
            n_pages += int(np.unique(rows["page"]).size)
            low, high = int(rows["at_ms"].min()), int(rows["at_ms"].max())
            from_ms = low if from_ms is None else min(from_ms, low)
            until_ms = high if until_ms is None else max(until_ms, high)
            counted, changed = self._report(node, _rows_after_last_fetch(node, rows))
            n_fetches += counted
            n_changed += changed
            n_void += n_read - counted
            yield ImportCounts(
                n_pages,
                self._n_added,
                n_fetches,
                n_changed,
                self._n_failed,
                self._n_silent,
                n_void,
                self._n_refused,
                from_ms,
                until_ms,
            )
        if from_ms is None:
            yield ImportCounts(
                0,
                self._n_added,
                0,
                0,
                self._n_failed,
                self._n_silent,
                0,
                self._n_refused,
                None,
                None,
            )

    def _report(self, node: Node, rows: _Rows) -> tuple[int, int]:
        """Report fetches in order; return the number that counted and that found a change."""
        if rows.size == 0:
            return 0, 0
        content, digest = _content_verdicts(node, rows)
        verdict = verdicts(rows["status"].astype(np.int64), np.zeros(rows.size, np.bool_), content)
        is_last = np.append(rows["page"][1:] != rows["page"][:-1], True)
        node.tick(self._corpus.time)
        n_counted = n_changed = 0
        for first in range(0, rows.size, _ROWS_PER_REPORT):
            some = np.arange(first, min(first + _ROWS_PER_REPORT, rows.size))
            # The store needs only the last content of a page, to compare the next fetch with.
            happenings: list[LogEntry] = []
            parts = [some[~is_last[some]], some[is_last[some]]]
            if parts[0].size:
                happenings.append(_outcomes(rows[parts[0]], verdict[parts[0]]))
            if parts[1].size:
                outcomes = _outcomes(rows[parts[1]], verdict[parts[1]])
                happenings.append(_with_digests(outcomes, digest, parts[1]))
            for applied in node.submit(happenings):
                n_counted += int(np.count_nonzero(applied.valid))
                is_change = applied.valid & np.isin(applied.transition, _CHANGES)
                n_changed += int(np.count_nonzero(is_change))
        return n_counted, n_changed


def _last_values(column: pa.Array, row: NDArray[np.int64], n_urls: int) -> pa.Array | None:
    """Return the last value that the fetches of each URL have; None if no fetch has one."""
    given = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if given.size == 0:
        return None
    last = np.full(n_urls, -1)
    last[row[given]] = given
    return column.take(pa.array(last, mask=last < 0))


def _stored_digests(column: pa.BinaryArray) -> tuple[NDArray[np.uint64], _Flags]:
    """Return digests in the length in which the store has them, and which rows have one."""
    codes = column.dictionary_encode()
    stored = b"".join(stored_digest(digest) for digest in codes.dictionary.to_pylist())
    known = np.frombuffer(stored or bytes(DIGEST_BYTES), np.uint64).reshape(-1, 2)
    row = codes.indices.fill_null(0).to_numpy()
    return known[row], column.is_valid().to_numpy(zero_copy_only=False)


def _sort_by_page_and_time(rows: _Rows) -> _Rows:
    """Return fetches sorted by page and time, only the last of each second."""
    rows = rows[np.lexsort((rows["at_ms"], rows["page"]))]
    second = rows["at_ms"] // 1000
    is_last = (rows["page"][1:] != rows["page"][:-1]) | (second[1:] != second[:-1])
    last_rows: _Rows = rows[np.append(is_last, True)]
    return last_rows


def _rows_after_last_fetch(node: Node, rows: _Rows) -> _Rows:
    """Return the fetches that are later than the last known fetch of their page."""
    known = node.shard.tables.pages.fetched_at[slot_of_page(rows["page"])].astype(np.int64)
    later: _Rows = rows[rows["at_ms"] // 1000 - EPOCH_SECONDS > known]
    return later


class _Digests(NamedTuple):
    """The latest digest of a page after each row."""

    value: NDArray[np.uint64]
    is_known: _Flags


def _content_verdicts(node: Node, rows: _Rows) -> tuple[NDArray[np.uint8], _Digests]:
    """Return the verdict by the content of each fetch, and the latest digests."""
    n = rows.size
    page, digest = rows["page"], rows["digest"]
    is_first = np.append(True, page[1:] != page[:-1])
    start = np.maximum.accumulate(np.where(is_first, np.arange(n), 0))
    # The last row with a digest up to each row; it counts only if it is of the same page.
    last = np.maximum.accumulate(np.where(rows["has_digest"], np.arange(n), -1))
    before = np.append(-1, last[:-1])
    is_known = before >= start
    is_other = ~is_known | (digest != digest[np.maximum(before, 0)]).any(axis=1)
    verdict = np.where(rows["changed"] == 0, Verdict.UNCHANGED, Verdict.CHANGED).astype(np.uint8)
    asked = (rows["changed"] == _UNKNOWN) & rows["has_digest"]
    verdict[asked & ~is_other] = Verdict.UNCHANGED
    _find_reverted(rows, verdict, np.flatnonzero(asked & is_other), start)
    _compare_with_stored(node, rows, verdict, np.flatnonzero(asked & ~is_known))
    return verdict, _Digests(digest[np.maximum(last, 0)], last >= start)


def _find_reverted(
    rows: _Rows,
    verdict: NDArray[np.uint8],
    moved: NDArray[np.int64],
    start: NDArray[np.int64],
) -> None:
    """Mark rows that went back to one of the latest contents, as reporting to a corpus does."""
    for k in range(2, DIGESTS_MAX + 1):
        now, then = moved[k:], moved[:-k]
        is_back = (then >= start[now]) & (rows["digest"][now] == rows["digest"][then]).all(axis=1)
        verdict[now[is_back]] = Verdict.REVERTED


def _compare_with_stored(
    node: Node, rows: _Rows, verdict: NDArray[np.uint8], firsts: NDArray[np.int64]
) -> None:
    """Compare the first content of each page with the digests in the store."""
    for start in range(0, firsts.size, _ROWS_PER_REPORT):
        some = firsts[start : start + _ROWS_PER_REPORT]
        recent = node.store.digests_of(rows["page"][some])
        for row, known in zip(some, recent, strict=True):
            if known:
                new = rows["digest"][row].tobytes()
                if known[0] == new:
                    verdict[row] = Verdict.UNCHANGED
                elif new in known:
                    verdict[row] = Verdict.REVERTED


def _outcomes(rows: _Rows, verdict: NDArray[np.uint8]) -> Outcomes:
    return event_of(
        Outcomes,
        page=rows["page"],
        order=0,
        fetched_at_ms=rows["at_ms"],
        verdict=verdict,
        divergence=np.nan,
        last_modified_at_ms=0,
        status_class=np.clip(rows["status"] // 100, 0, 9),
        retry_after_seconds=0.0,
    )


def _with_digests(outcomes: Outcomes, digest: _Digests, some: NDArray[np.int64]) -> LogEntry:
    if not digest.is_known[some].any():
        return outcomes
    n = some.size
    values = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(DIGEST_BYTES),
        n,
        [
            pa.py_buffer(np.packbits(digest.is_known[some], bitorder="little").tobytes()),
            pa.py_buffer(np.ascontiguousarray(digest.value[some]).tobytes()),
        ],
    )
    nothing = pa.nulls(n, pa.binary())
    return PagesReported(
        outcomes, values, nothing, nothing, nothing, nothing, pa.nulls(n, pa.string())
    )


def set_each(
    corpus: CorpusView,
    urls: pa.Array,
    *,
    importance: NDArray[np.float64] | None = None,
    cost: NDArray[np.float64] | None = None,
    own: UserColumns | None = None,
    key: Any = None,
) -> CountedRows:
    """Set values of each page; return the number of pages that are tracked.

    Parameters
    ----------
    corpus
        Corpus to change.
    urls
        URLs of the pages; those not tracked are left out.
    importance, cost
        New values, one per URL; None leaves what is set.
    own
        The user's own data, a row per URL; None leaves what is set.
    key
        Key of the pages, one or one per URL, in a corpus grouped by key.
    """
    n_set = 0
    row_status = np.full(len(urls), RowStatus.REFUSED, np.uint8)
    for node, rows, name, _ in corpus.nodes.split(
        urls,
        corpus.config.corpus.group_by,
        key=key,
        n_bytes_beside=own and own.n_bytes,
        row_status=row_status,
        in_parts=corpus.is_for_parts,
    ):
        with corpus.nodes.leave_out_stopped(rows, row_status), node.lock:
            page = node.store.pages_of(name)
            known = np.flatnonzero(page >= 0)
            row_status[rows] = np.where(page >= 0, RowStatus.DONE, RowStatus.UNKNOWN)
            if known.size == 0:
                continue
            events: list[LogEntry] = []
            if importance is not None:
                amount = importance[rows[known]]
                events.append(event_of(ImportanceSet, page=page[known], importance=amount))
            if cost is not None:
                events.append(event_of(CostsSet, page=page[known], cost=cost[rows[known]]))
            node.submit(events)
            if own is not None:
                set_user_data(node, page[known], own.take(rows[known]))
            if events or own is not None:
                n_set += int(np.count_nonzero(node.shard.has_pages(page[known])))
    return CountedRows(n_set, rows=row_status)
