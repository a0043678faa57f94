"""An old crawl, told to a corpus as if it had been there: all fetches of a page in order of time.

Files are in any order, often by URL.  So rows are first put aside, by page, in so many bundles
that one of them fits into memory; then each bundle is sorted, judged and reported.  What is put
aside takes 40 bytes a fetch, in memory or, beyond `ROWS_IN_MEMORY_MAX`, in a temporary folder
beside the corpus.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.corpus import Corpus
from recrawl.node.node import Node
from recrawl.node.records import Happening, PagesReported
from recrawl.node.routing import routed
from recrawl.node.verdicts import digest_of, is_success, verdicts
from recrawl.shard import CostsSet, ImportanceSet, Outcomes, Transition, Verdict, event_of
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.store import DIGEST_BYTES, DIGESTS_MAX
from recrawl.store.keys import slot_of

__all__ = ["BUNDLES", "ROWS_IN_MEMORY_MAX", "History", "Learned", "set_costs", "set_importances"]

ROWS_IN_MEMORY_MAX = 4_000_000
"""Fetches that are put aside in memory, 160 MB; beyond, they go to disk."""

BUNDLES = 64
"""Into which the pages of a partition are divided: one is in memory at a time, so that half a
billion fetches need some 700 MB."""

_ROWS_PER_REPORT = 16_384
_NOT_SAID = -1
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
_Rows: TypeAlias = NDArray[Any]
_Flags: TypeAlias = NDArray[np.bool_]


class Learned(NamedTuple):
    """What became of an old crawl."""

    n_pages: int
    """Pages that it told of."""
    n_added: int
    """Of those, not kept before."""
    n_fetches: int
    """Fetches that were learned from."""
    n_changed: int
    """Of those, that found the page changed since the fetch before."""
    n_failed: int
    """Fetches that failed, which teach nothing."""
    n_silent: int
    """Fetches that brought content and do not say whether it had changed."""
    n_void: int
    """Fetches no later than one that is known of the page, or twice in one second."""
    n_refused: int
    """Fetches of what is no URL that can be kept."""
    from_ms: int | None
    until_ms: int | None


class History:
    """Fetches on their way into a corpus; ``with`` it, `take` batches, then `learn`.

    Parameters
    ----------
    corpus
        That is to learn.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._aside: dict[tuple[int, int], list[_Rows]] = {}
        self._n_aside = 0
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
        self._aside.clear()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def n_rows(self) -> int:
        """Fetches put aside so far."""
        return self._n_rows

    # ------------------------------------------------------------------ taking

    def take(self, batch: pa.RecordBatch) -> None:
        """Add the pages of a batch of `recrawl.readers.OBSERVED`, and put its fetches aside."""
        status = batch.column("status").fill_null(200).to_numpy().astype(np.int16)
        changed = batch.column("changed").cast(pa.int8()).fill_null(_NOT_SAID).to_numpy()
        digest, has_digest = _digests(batch.column("digest"))
        is_content = is_success(status)
        is_failed = ~(is_content | np.isin(status, (301, 304, 308, 404, 410)))
        is_silent = is_content & (changed == _NOT_SAID) & ~has_digest
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
        self._put_aside(rows, partition[found])

    def _pages_of(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the page and partition of each row, added if need be; -1 of what is no URL."""
        codes = batch.column("url").dictionary_encode()
        url, row = codes.dictionary, codes.indices.to_numpy()
        importance = np.full(len(url), np.nan)
        importance[row] = batch.column("importance").to_numpy(zero_copy_only=False)
        is_told = (importance >= 0) & (importance <= 1e12)
        for told in (False, True):
            some = np.flatnonzero(is_told == told)
            if some.size:
                given = importance[some] if told else None
                added = self._corpus.add(url.take(pa.array(some)), importance=given)
                self._n_added += added.n_added
        page, partition = np.full(len(url), -1), np.zeros(len(url), np.int64)
        nodes = self._corpus.nodes
        for i, rows, canonical_url, _ in routed(
            url, len(nodes), self._corpus.config.corpus.group_by
        ):
            page[rows] = nodes[i].store.pages_of(canonical_url)
            partition[rows] = i
        return page[row], partition[row]

    def _put_aside(self, rows: _Rows, partition: NDArray[np.int64]) -> None:
        bundle = partition * BUNDLES + slot_of(rows["page"]) % BUNDLES
        order = np.argsort(bundle, kind="stable")
        numbers, first = np.unique(bundle[order], return_index=True)
        for number, part in zip(numbers, np.split(rows[order], first[1:]), strict=False):
            self._aside.setdefault(divmod(int(number), BUNDLES), []).append(part)
        self._n_aside += rows.size
        self._n_rows += rows.size
        if self._n_aside > ROWS_IN_MEMORY_MAX:
            self._to_disk()

    def _to_disk(self) -> None:
        for name, parts in self._aside.items():
            with self._file(name).open("ab") as file:
                for part in parts:
                    file.write(part.tobytes())
            self._on_disk.add(name)
        self._aside.clear()
        self._n_aside = 0

    def _file(self, name: tuple[int, int]) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix=".import-", dir=self._corpus.folder, ignore_cleanup_errors=True
            )
        return Path(self._folder.name) / f"{name[0]}-{name[1]}"

    # ------------------------------------------------------------------ learning

    def learn(self) -> Iterator[Learned]:
        """Report what was put aside, bundle by bundle; yield what became of all so far."""
        n_pages = n_void = n_fetches = n_changed = 0
        from_ms = until_ms = None
        for name in sorted({*self._aside, *self._on_disk}):
            parts = self._aside.pop(name, [])
            if name in self._on_disk:
                parts.insert(0, np.fromfile(self._file(name), _ROW))
                self._file(name).unlink()
            rows = np.concatenate(parts)
            n_read = rows.size
            node = self._corpus.nodes[name[0]]
            rows = _in_turn(rows)
            n_pages += int(np.unique(rows["page"]).size)
            low, high = int(rows["at_ms"].min()), int(rows["at_ms"].max())
            from_ms = low if from_ms is None else min(from_ms, low)
            until_ms = high if until_ms is None else max(until_ms, high)
            counted, changed = self._report(node, _news(node, rows))
            n_fetches += counted
            n_changed += changed
            n_void += n_read - counted
            yield Learned(
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
            yield Learned(
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
        """Report fetches in turn; return how many counted, and of those found a change."""
        if rows.size == 0:
            return 0, 0
        content, digest = _by_content(node, rows)
        verdict = verdicts(rows["status"].astype(np.int64), np.zeros(rows.size, np.bool_), content)
        is_last = np.append(rows["page"][1:] != rows["page"][:-1], True)
        node.tick(self._corpus.time)
        n_counted = n_changed = 0
        for first in range(0, rows.size, _ROWS_PER_REPORT):
            some = np.arange(first, min(first + _ROWS_PER_REPORT, rows.size))
            # Only the last content of a page is kept to compare with.
            happenings: list[Happening] = []
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


def _digests(column: pa.BinaryArray) -> tuple[NDArray[np.uint64], _Flags]:
    """Return digests in the length in which they are kept, and where there are any."""
    codes = column.dictionary_encode()
    kept = b"".join(digest_of(digest) for digest in codes.dictionary.to_pylist())
    known = np.frombuffer(kept or bytes(DIGEST_BYTES), np.uint64).reshape(-1, 2)
    row = codes.indices.fill_null(0).to_numpy()
    return known[row], column.is_valid().to_numpy(zero_copy_only=False)


def _in_turn(rows: _Rows) -> _Rows:
    """Return fetches by page and time, the last of each second."""
    rows = rows[np.lexsort((rows["at_ms"], rows["page"]))]
    second = rows["at_ms"] // 1000
    is_last = (rows["page"][1:] != rows["page"][:-1]) | (second[1:] != second[:-1])
    kept: _Rows = rows[np.append(is_last, True)]
    return kept


def _news(node: Node, rows: _Rows) -> _Rows:
    """Return the fetches that are later than what is known of their pages."""
    known = node.shard.tables.pages.fetched_at[slot_of(rows["page"])].astype(np.int64)
    later: _Rows = rows[rows["at_ms"] // 1000 - EPOCH_SECONDS > known]
    return later


class _Digests(NamedTuple):
    """The last digest known of a page after each row."""

    value: NDArray[np.uint64]
    is_known: _Flags


def _by_content(node: Node, rows: _Rows) -> tuple[NDArray[np.uint8], _Digests]:
    """Return what the content of each fetch says of its page, and the digests so far."""
    n = rows.size
    page, digest = rows["page"], rows["digest"]
    is_first = np.append(True, page[1:] != page[:-1])
    start = np.maximum.accumulate(np.where(is_first, np.arange(n), 0))
    # The last row with a digest, up to each row; of the same page, or it does not count.
    last = np.maximum.accumulate(np.where(rows["has_digest"], np.arange(n), -1))
    before = np.append(-1, last[:-1])
    is_known = before >= start
    is_other = ~is_known | (digest != digest[np.maximum(before, 0)]).any(axis=1)
    verdict = np.where(rows["changed"] == 0, Verdict.UNCHANGED, Verdict.CHANGED).astype(np.uint8)
    asked = (rows["changed"] == _NOT_SAID) & rows["has_digest"]
    verdict[asked & ~is_other] = Verdict.UNCHANGED
    _find_reverted(rows, verdict, np.flatnonzero(asked & is_other), start)
    _compare_with_kept(node, rows, verdict, np.flatnonzero(asked & ~is_known))
    return verdict, _Digests(digest[np.maximum(last, 0)], last >= start)


def _find_reverted(
    rows: _Rows,
    verdict: NDArray[np.uint8],
    moved: NDArray[np.int64],
    start: NDArray[np.int64],
) -> None:
    """Mark those that went back to one of the latest contents, as a corpus would."""
    for k in range(2, DIGESTS_MAX + 1):
        now, then = moved[k:], moved[:-k]
        is_back = (then >= start[now]) & (rows["digest"][now] == rows["digest"][then]).all(axis=1)
        verdict[now[is_back]] = Verdict.REVERTED


def _compare_with_kept(
    node: Node, rows: _Rows, verdict: NDArray[np.uint8], firsts: NDArray[np.int64]
) -> None:
    """Compare the first content of each page with what the corpus keeps of it."""
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


def _with_digests(outcomes: Outcomes, digest: _Digests, some: NDArray[np.int64]) -> Happening:
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


def set_importances(corpus: Corpus, urls: pa.Array, importance: NDArray[np.float64]) -> int:
    """Set the importance of pages, one by one; return how many of them are kept."""
    return _set_each(
        corpus, urls, importance, lambda page, x: event_of(ImportanceSet, page=page, importance=x)
    )


def set_costs(corpus: Corpus, urls: pa.Array, cost: NDArray[np.float64]) -> int:
    """Set what a fetch of each page costs; return how many of them are kept."""
    return _set_each(corpus, urls, cost, lambda page, x: event_of(CostsSet, page=page, cost=x))


def _set_each(
    corpus: Corpus,
    urls: pa.Array,
    amount: NDArray[np.float64],
    told: Callable[[NDArray[np.int64], NDArray[np.float64]], Happening],
) -> int:
    n_set = 0
    for i, rows, url, _ in routed(urls, len(corpus.nodes), corpus.config.corpus.group_by):
        node = corpus.nodes[i]
        with node.lock:
            page = node.store.pages_of(url)
            known = np.flatnonzero(page >= 0)
            if known.size:
                (applied,) = node.submit([told(page[known], amount[rows[known]])])
                n_set += int(np.count_nonzero(applied.valid))
    return n_set
