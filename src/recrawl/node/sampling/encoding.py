"""Samples as tables of numbers, and tables as bytes.

A table has a row for each group, kind or source, and a column for each figure.  It is written by
columns, as 8-byte numbers whose bytes of the same significance are beside each other, and
compressed if it is large: most bytes of counts are 0.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.errors import EventError
from recrawl.messages.samples import COUNTS, DURATION_EDGES_SECONDS, HISTOGRAMS, STATES
from recrawl.node.sampling.present import FIGURES, SOURCE_FIGURES, NumberedRows, PartitionState

__all__ = [
    "COLUMNS",
    "COUNTED",
    "PARTS",
    "TOTAL_FIGURES",
    "SampleRows",
    "find_row",
    "pack_rows",
    "pack_sample",
    "tables_of",
    "unpack_rows",
    "unpack_sample",
]

PARTS: Final = ("total", "histograms", "hosts", "kinds", "sources")
"""Tables of a sample, in the order of their numbers on disk."""
TOTAL_FIGURES: Final = (
    *FIGURES,
    *("price_pages", "price_weight", "budget_per_second", "in_flight", "n_hosts", "n_sources"),
    "n_signals",
)
"""Columns of the totals of a partition.  The price is a sum over pages, and their number."""
_N_BINS = len(DURATION_EDGES_SECONDS) - 1
COLUMNS: Final = {
    "total": len(TOTAL_FIGURES),
    "histograms": len(HISTOGRAMS) * _N_BINS,
    "hosts": len(FIGURES),
    "kinds": len(FIGURES),
    "sources": len(SOURCE_FIGURES),
}
"""Number of columns of each table."""


def _find_counts(names: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([name in COUNTS or name == "n_signals" for name in names])


COUNTED: Final = {
    "total": _find_counts(TOTAL_FIGURES),
    "histograms": np.zeros(COLUMNS["histograms"], np.bool_),
    "hosts": _find_counts(FIGURES),
    "kinds": _find_counts(FIGURES),
    "sources": _find_counts(SOURCE_FIGURES),
}
"""Which columns of a table are counts, which only grow; the others describe one moment."""

_VERSION = 1
# Version, whether it is compressed, number of columns and of rows.
_HEAD = struct.Struct("<BBHI")
_LENGTH = struct.Struct("<I")
# Smaller tables are not compressed: they are read often, and all at once.
_BYTES_COMPRESSED_MIN = 1_024
# A third of the time of zlib's default, for 8 % more bytes: most bytes are 0 at any level.
_LEVEL = 1
# Tables of a larger size are never written, so one that claims it is damaged.
_ROWS_MAX = 1 << 16
# Bits of figures of a moment that are kept: an error of 4e-6.
_BITS_KEPT = 17


class SampleRows(NamedTuple):
    """A table of a sample, or of several samples added up."""

    number: NDArray[np.int64]
    """Number of the group, kind or source, ascending; 0 for the whole partition."""
    n_samples: FloatArray
    """Number of samples that the row is a sum of."""
    values: FloatArray
    """Counts, and sums of figures that describe one moment; one column for each figure."""


def _round_bits(values: FloatArray) -> FloatArray:
    """Return numbers with fewer bits, which need less space; integers below 2^17 stay the same."""
    fraction, exponent = np.frexp(values)
    scale = 2.0**_BITS_KEPT
    rounded: FloatArray = np.ldexp(np.rint(fraction * scale) / scale, exponent)
    return rounded


def _rows_of(part: str, rows: NumberedRows) -> SampleRows:
    order = np.argsort(rows.number, kind="stable")
    values = np.nan_to_num(rows.figures[order], nan=-1.0, posinf=np.inf)
    if part != "sources":
        # Numbers of pages that a sample of the pages stands for are not whole.
        for name in ("n_pages", "n_modelled", "n_due"):
            values[:, STATES.index(name)] = np.rint(values[:, STATES.index(name)])
    rounds = ~COUNTED[part]
    if part != "sources":
        rounds[STATES.index("n_pages")] = False
    values[:, rounds] = _round_bits(values[:, rounds])
    return SampleRows(rows.number[order], np.ones(order.size), values)


def tables_of(state: PartitionState) -> dict[str, SampleRows]:
    """Return the state of a partition as tables, by `PARTS`."""
    n_pages = max(float(state.total[FIGURES.index("n_pages")]), 1.0)
    more = [
        *(state.price * n_pages, n_pages, state.budget_per_second, state.in_flight),
        *(state.n_hosts, state.n_sources, state.n_signals),
    ]
    total = np.concatenate([state.total, np.array(more, np.float64)])
    zero = np.zeros(1, np.int64)
    return {
        "total": SampleRows(zero, np.ones(1), total[np.newaxis]),
        "histograms": SampleRows(zero, np.ones(1), np.rint(state.histograms).reshape(1, -1)),
        "hosts": _rows_of("hosts", state.hosts),
        "kinds": _rows_of("kinds", state.kinds),
        "sources": _rows_of("sources", state.sources),
    }


def pack_rows(rows: SampleRows) -> bytes:
    """Return a table as bytes."""
    matrix = np.vstack([rows.number.astype(np.float64), rows.n_samples, rows.values.T])
    data = np.ascontiguousarray(matrix, "<f8").tobytes()
    is_compressed = len(data) >= _BYTES_COMPRESSED_MIN
    if is_compressed:
        planes = np.frombuffer(data, np.uint8).reshape(-1, 8).T
        data = zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)
    return _HEAD.pack(_VERSION, is_compressed, *rows.values.T.shape) + data


def unpack_rows(data: bytes, part: str) -> SampleRows:
    """Return the table that `pack_rows` has written.

    Columns that a later version has added are ignored, and those that an earlier one lacks are 0.

    Raises
    ------
    EventError
        If the bytes are damaged, or of a version that cannot be read.
    """
    try:
        version, is_compressed, n_columns, n_rows = _HEAD.unpack_from(data)
        if version != _VERSION or n_rows > _ROWS_MAX:
            raise EventError(f"a sample has version {version}, which this version cannot read")
        n_bytes = 8 * (n_columns + 2) * n_rows
        body = data[_HEAD.size :]
        if is_compressed:
            body = zlib.decompressobj().decompress(body, n_bytes + 1)
            planes = np.frombuffer(body, np.uint8).reshape(8, -1).T
            body = np.ascontiguousarray(planes).tobytes()
        matrix = np.frombuffer(body, "<f8").reshape(n_columns + 2, n_rows)
    except (struct.error, zlib.error, ValueError) as error:
        raise EventError(f"a sample cannot be read: {error}") from error
    values = np.zeros((n_rows, COLUMNS[part]))
    n_known = min(n_columns, COLUMNS[part])
    values[:, :n_known] = matrix[2 : 2 + n_known].T
    return SampleRows(matrix[0].astype(np.int64), matrix[1].copy(), values)


def find_row(
    tables: Sequence[bytes], part: str, number: int
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Return the row of one group, kind or source in each of many packed tables.

    Tables of the same size that are not compressed are read together: a day has thousands.

    Parameters
    ----------
    tables
        Tables as bytes.
    part
        Name of the tables.
    number
        Number of the group, kind or source.

    Returns
    -------
    tuple
        Indices of the tables that have the row, ascending, its numbers of samples, and its values.
    """
    alike: dict[tuple[bytes, int], list[int]] = {}
    for i, data in enumerate(tables):
        alike.setdefault((data[: _HEAD.size], len(data)), []).append(i)
    parts = [(np.empty(0, np.int64), np.empty(0), np.empty((0, COLUMNS[part])))]
    for (head, n_bytes), places in alike.items():
        some = [tables[i] for i in places]
        if _is_plain(head, n_bytes):
            which, n_samples, values = _find_in_plain(head, some, part, number)
            parts.append((np.array(places, np.int64)[which], n_samples, values))
            continue
        for i, data in zip(places, some, strict=True):
            rows = unpack_rows(data, part)
            row = np.flatnonzero(rows.number == number)
            parts.append((np.full(row.size, i, np.int64), rows.n_samples[row], rows.values[row]))
    index, n_samples, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(index, kind="stable")
    return index[order], n_samples[order], values[order]


def _find_in_plain(
    head: bytes, tables: Sequence[bytes], part: str, number: int
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Do what `find_row` does, for tables with the same head that are not compressed."""
    _, _, n_columns, n_rows = _HEAD.unpack(head)
    joined = np.frombuffer(b"".join(tables), np.uint8).reshape(len(tables), -1)
    body = np.ascontiguousarray(joined[:, _HEAD.size :])
    matrix = body.view("<f8").reshape(-1, n_columns + 2, n_rows)
    which, row = np.nonzero(matrix[:, 0] == number)
    found = matrix[which, :, row]
    values = np.zeros((which.size, COLUMNS[part]))
    n_known = min(n_columns, COLUMNS[part])
    values[:, :n_known] = found[:, 2 : 2 + n_known]
    return which, found[:, 1], values


def _is_plain(head: bytes, n_bytes: int) -> bool:
    """Return whether a table of this length is not compressed, and complete."""
    if len(head) < _HEAD.size:
        return False
    version, is_compressed, n_columns, n_rows = _HEAD.unpack(head)
    n_expected = _HEAD.size + 8 * (n_columns + 2) * n_rows
    return version == _VERSION and not is_compressed and n_rows > 0 and n_bytes == n_expected


def pack_sample(tables: Mapping[str, SampleRows]) -> bytes:
    """Return all tables of a sample as bytes."""
    packed = [pack_rows(tables[part]) for part in PARTS]
    return b"".join(_LENGTH.pack(len(data)) + data for data in packed)


def unpack_sample(data: bytes) -> dict[str, SampleRows]:
    """Return the tables that `pack_sample` has written."""
    tables, first = {}, 0
    for part in PARTS:
        if first + _LENGTH.size > len(data):
            raise EventError("a sample cannot be read: it ends too early")
        (length,) = _LENGTH.unpack_from(data, first)
        first += _LENGTH.size
        tables[part] = unpack_rows(data[first : first + length], part)
        first += length
    return tables
