"""Read histories of exact changes: a row per page with the times of its changes.

The reader keeps each page's name and window in memory.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.core.arrays import FlagArray
from recrawl.readers.head import Head
from recrawl.readers.reading import Format, Reading
from recrawl.readers.refused import Refused
from recrawl.readers.schemas import CHANGED, URL_BYTES_MAX, WINDOWS
from recrawl.readers.tabular.cells import Column, digest_cells, instant_cells, no_cells, url_cells
from recrawl.readers.tabular.columns import Names, Rows
from recrawl.readers.tabular.fields import slice_batch
from recrawl.readers.tabular.tables import table_rows

__all__ = ["CHANGE_TIMES"]

_NAMES: Names = {
    "change_times": ("change_times", "change_ts", "changes", "changed_at"),
    "url": ("url", "uri", "page"),
    "path": ("path",),
    "source": ("source", "repo", "site", "host"),
    "observed_from": ("observed_from", "obs_start", "from", "from_ms", "created"),
    "observed_until": ("observed_until", "obs_end", "until", "until_ms"),
    "digests": ("digests", "versions", "version"),
}
_REQUIRED = ("change_times", "observed_from", "observed_until")
# Rows are large, because each one has many changes.
_PARQUET_ROWS = 2_048
_TOO_LONG = f"the URL is not text of at most {URL_BYTES_MAX:,} bytes"


def _suits(head: Head) -> bool:
    columns = head.columns
    has_page = not columns.isdisjoint(_NAMES["url"] + _NAMES["path"])
    has_window = not (
        columns.isdisjoint(_NAMES["observed_from"]) or columns.isdisjoint(_NAMES["observed_until"])
    )
    return has_page and has_window and not columns.isdisjoint(_NAMES["change_times"])


def _read(reading: Reading) -> Iterator[pa.RecordBatch]:
    for rows in table_rows(reading, _NAMES, required=_REQUIRED, parquet_rows=_PARQUET_ROWS):
        yield from _batches(rows, reading)


def _batches(rows: Rows, reading: Reading) -> Iterator[pa.RecordBatch]:
    refused = reading.refused
    url, is_wrong_url = _urls(rows.columns, len(rows))
    is_taken = np.ones(len(rows), bool)
    _refuse(refused, rows, is_taken, is_wrong_url, _TOO_LONG)
    _refuse(refused, rows, is_taken, _nulls(url), "no URL")
    bounds = []
    for name in ("observed_from", "observed_until"):
        values, is_wrong = instant_cells(rows.columns.get(name, [None] * len(rows)))
        _refuse(refused, rows, is_taken, is_wrong | _nulls(values), f"{name} is not a valid time")
        bounds.append(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))
    begin, end = bounds
    _refuse(refused, rows, is_taken, end < begin, "observed_until is before observed_from")

    given = rows.columns.get("change_times", [None] * len(rows))
    _refuse(refused, rows, is_taken, _nulls_of_column(given), "no change_times")
    page, times, lengths = _flat(given, len(rows))
    at_ms, is_wrong = instant_cells(times)
    _refuse(
        refused,
        rows,
        is_taken,
        np.bincount(page[is_wrong | _nulls(at_ms)], minlength=len(rows)) > 0,
        "the time of a change is invalid or outside 1990 to 2100",
    )
    digest = _digests(rows.columns.get("digests"), lengths, len(rows))

    taken = np.flatnonzero(is_taken)
    reading.windows.append(
        pa.RecordBatch.from_arrays(
            [url.take(pa.array(taken)), pa.array(begin[taken]), pa.array(end[taken])],
            schema=WINDOWS,
        )
    )
    at = pc.fill_null(at_ms, 0).to_numpy(zero_copy_only=False)
    is_inside = is_taken[page] & (at >= begin[page]) & (at <= end[page])
    n_outside = int((is_taken[page] & ~is_inside).sum())
    if n_outside:
        refused.note("changes outside their page's window were ignored")
    # By page, then time.
    kept = np.flatnonzero(is_inside)
    kept = kept[np.lexsort((at[kept], page[kept]))]
    batch = pa.RecordBatch.from_arrays(
        [
            url.take(pa.array(page[kept])),
            pa.array(at[kept]),
            pa.nulls(kept.size, pa.binary()) if digest is None else digest.take(pa.array(kept)),
        ],
        schema=CHANGED,
    )
    yield from slice_batch(batch)


def _urls(columns: Mapping[str, Column], n: int) -> tuple[pa.StringArray, FlagArray]:
    """Return names of pages: the URL, or source and path joined by a slash."""
    if "url" in columns:
        return url_cells(columns["url"])
    if "path" not in columns:
        return no_cells(n, pa.string())
    path, is_wrong = url_cells(columns["path"])
    if "source" not in columns:
        return path, is_wrong
    source, is_wrong_too = url_cells(columns["source"])
    joined = url_cells(pc.binary_join_element_wise(source, path, "/"))
    return joined.values, is_wrong | is_wrong_too | joined.is_wrong


def _flat(column: Column, n: int) -> tuple[np.ndarray, Column, np.ndarray]:
    """Return the row of each list element, all elements in one column, and the list lengths."""
    if isinstance(column, pa.Array) and (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    ):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return np.repeat(np.arange(n), lengths), column.flatten(), lengths
    cells = column.to_pylist() if isinstance(column, pa.Array) else column
    lists = [_as_list(cell) for cell in cells]
    lengths = np.fromiter(map(len, lists), np.int64, n)
    return np.repeat(np.arange(n), lengths), [cell for cells in lists for cell in cells], lengths


def _nulls_of_column(column: Column) -> FlagArray:
    if isinstance(column, pa.Array):
        return _nulls(column)
    return np.fromiter((cell is None for cell in column), bool, len(column))


def _as_list(cell: object) -> Sequence[object]:
    """Return a list; in CSV its elements are separated by blanks, ``;`` or ``|``."""
    if cell is None:
        return ()
    if isinstance(cell, str):
        return cell.replace(";", " ").replace("|", " ").split()
    return cell if isinstance(cell, list) else (cell,)


def _digests(column: Column | None, lengths: np.ndarray, n: int) -> pa.Array | None:
    """Return the digest of each change; None if not every change has one."""
    if column is None:
        return None
    _, flat, n_digests = _flat(column, n)
    if not np.array_equal(lengths, n_digests):
        return None
    return digest_cells(flat).values


def _refuse(
    refused: Refused, rows: Rows, is_taken: FlagArray, is_bad: FlagArray, reason: str
) -> None:
    bad = np.flatnonzero(is_bad & is_taken).tolist()
    if bad:
        refused.refuse_many(((rows.lines[row], "") for row in bad), reason)
        is_taken[bad] = False


def _nulls(values: pa.Array) -> FlagArray:
    is_null: FlagArray = values.is_null().to_numpy(zero_copy_only=False)
    return is_null


CHANGE_TIMES = Format(
    name="change-times",
    kind="changed",
    about="a row per page: url, observed_from, observed_until, change_times; JSON lines or a table",
    suits=_suits,
    read=_read,
)
