"""Keep the rows of a log on disk: a sample of its pages, in a few files.

Pages are sampled by a hash of their URL, as in a backtest, so that a page is kept with all its rows
or not at all.  A file is never changed once written; the shadow's state names the files that count.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recrawl.atomic_files import replace_file
from recrawl.urls import hash_urls

__all__ = ["FILES_MAX", "KeptRows"]

FILES_MAX = 32
"""Number of files beyond which they are merged into one."""
_HASH_MAX = 2**64 - 1
_COLUMNS = ("url", "at_ms", "digest", "changed", "status", "importance")
_PREFIX, _SUFFIX = "rows-", ".parquet"


class KeptRows:
    """The rows that a shadow keeps.

    Parameters
    ----------
    folder
        Folder for the files.
    n_pages_max, n_rows_max
        Largest numbers of pages and rows; beyond them half of the pages are dropped.
    state
        State to continue from, as `state` returned it; None for no rows.
    """

    def __init__(
        self,
        folder: Path,
        *,
        n_pages_max: int,
        n_rows_max: int,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        given = state or {}
        self._folder = folder
        self._n_pages_max = n_pages_max
        self._n_rows_max = n_rows_max
        self._limit = int(given.get("limit", _HASH_MAX))
        self._files: dict[str, list[int]] = {
            str(name): [int(x) for x in about] for name, about in given.get("files", {}).items()
        }
        """Rows, first and last instant of each file."""
        self._next = int(given.get("next", 0))
        self._new: list[pa.RecordBatch] = []
        self._n_new = 0
        self._pages: set[int] = set()
        self._oldest_ms: int | None = None
        self._has_old_rows = False
        """Whether files may have rows that `drop_before` was called for."""
        self._n_rows = sum(about[0] for about in self._files.values())
        self.remove_stray_files()
        for batch in self._read(self._files):
            self._pages.update(hash_urls(batch.column("url"), key=0).tolist())

    @property
    def n_rows(self) -> int:
        """Number of rows kept."""
        return self._n_rows

    @property
    def n_pages(self) -> int:
        """Number of pages kept."""
        return len(self._pages)

    @property
    def kept_share(self) -> float:
        """Share of the log's pages that are kept."""
        return (self._limit + 1) / (_HASH_MAX + 1)

    def state(self) -> dict[str, Any]:
        """Return the state as a JSON object; call `write` before."""
        assert not self._new
        return {"limit": self._limit, "files": dict(self._files), "next": self._next}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of sampled pages."""
        batch = self._without_old(
            batch.select([name for name in _COLUMNS if name in batch.schema.names])
        )
        hashes = hash_urls(batch.column("url"), key=0)
        wanted = hashes <= np.uint64(self._limit)
        if not wanted.any():
            return
        self._new.append(batch.filter(pa.array(wanted)))
        n = int(np.count_nonzero(wanted))
        self._n_new += n
        self._n_rows += n
        self._pages.update(np.unique(hashes[wanted]).tolist())
        while len(self._pages) > self._n_pages_max or (
            self._n_rows > self._n_rows_max and len(self._pages) > 1
        ):
            self._make_room()

    def write(self) -> None:
        """Write new rows to a file."""
        if self._n_new:
            self._write_file(pa.Table.from_batches(self._new))
        self._new, self._n_new = [], 0
        if len(self._files) > FILES_MAX:
            self._merge()

    def drop_before(self, at_ms: int) -> None:
        """Drop older rows: files that have no others at once, the rest with the next merge.

        The next `remove_stray_files` deletes the files.
        """
        self._oldest_ms, self._has_old_rows = at_ms, True
        self._files = {name: about for name, about in self._files.items() if about[2] >= at_ms}
        self._n_rows = self._n_new + sum(about[0] for about in self._files.values())

    def remove_stray_files(self) -> None:
        """Delete files that do not count: dropped ones, and those of a process that was killed."""
        for path in self._folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            if path.name not in self._files:
                path.unlink(missing_ok=True)

    def batches(self, *, from_ms: int, until_ms: int) -> Iterator[pa.RecordBatch]:
        """Yield the kept rows of a period, in the order in which they came."""
        chosen = [
            name
            for name, about in self._files.items()
            if about[2] >= from_ms and about[1] < until_ms
        ]
        for batch in (*self._read(chosen), *self._new):
            at_ms = batch.column("at_ms")
            inside = pc.and_(pc.greater_equal(at_ms, from_ms), pc.less(at_ms, until_ms))
            yield batch.filter(inside)

    def first_at(self, from_ms: int) -> int | None:
        """Return the instant of the first row that is not older; None without one."""
        first: int | None = None
        for about in self._files.values():
            if about[1] >= from_ms:
                first = about[1] if first is None else min(first, about[1])
        # Files with rows on both sides of the instant must be read.
        mixed = [n for n, about in self._files.items() if about[1] < from_ms <= about[2]]
        for batch in (*self._read(mixed), *self._new):
            at_ms = batch.column("at_ms")
            least = pc.min(at_ms.filter(pc.greater_equal(at_ms, from_ms))).as_py()
            if least is not None:
                first = least if first is None else min(first, least)
        return first

    def _read(self, names: Sequence[str] | Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for name in names:
            with pq.ParquetFile(self._folder / name) as file:
                yield from file.iter_batches()

    def _without_old(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._oldest_ms is None:
            return batch
        return batch.filter(pc.greater_equal(batch.column("at_ms"), self._oldest_ms))

    def _filter_sample(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(hash_urls(batch.column("url"), key=0) <= self._limit))

    def _write_file(self, table: pa.Table) -> None:
        name = f"{_PREFIX}{self._next:08d}{_SUFFIX}"
        self._next += 1
        with replace_file(self._folder / name, is_durable=True) as file:
            pq.write_table(table, file, compression="zstd")
        edges = pc.min_max(table.column("at_ms"))
        self._files[name] = [table.num_rows, edges["min"].as_py(), edges["max"].as_py()]

    def _merge(self) -> None:
        """Write the rows that are still needed into one file, and count their pages anew."""
        batches = [
            self._filter_sample(self._without_old(batch)) for batch in self._read(self._files)
        ]
        batches = [batch for batch in batches if batch.num_rows]
        self._files = {}
        if batches:
            self._write_file(pa.Table.from_batches(batches))
        self._n_rows = self._n_new + sum(about[0] for about in self._files.values())
        self._pages = set()
        for batch in (*batches, *self._new):
            self._pages.update(np.unique(hash_urls(batch.column("url"), key=0)).tolist())
        self._has_old_rows = False

    def _make_room(self) -> None:
        """Drop rows that are no longer needed; if there are none, half of the pages."""
        if not self._has_old_rows:
            self._limit //= 2
            self._new = [self._filter_sample(batch) for batch in self._new]
            self._n_new = sum(batch.num_rows for batch in self._new)
        self._merge()
