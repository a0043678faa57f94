"""The log entry of a few outcomes: rows of plain values, in one short record.

An Arrow message with one row of fourteen columns takes a kilobyte and a fifth of the time of a
call; this record takes seventy bytes.  It has the same content as a `PagesReported` without texts,
and readers of the log get one.

    bytes                  content
    4                      number of outcomes
    4                      zero
    8 each                 page, order, fetched_at_ms, last_modified_at_ms: four columns
    4 each                 divergence, retry_after_seconds: two columns
    1 each                 verdict, status_class: two columns
    1 each                 which values an outcome has, a bit for each of `VALUES`
    2 and more for each    length and bytes of each value, outcome by outcome

All numbers are little-endian.
"""

import itertools
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from recrawl.errors import EventError
from recrawl.shard import Outcomes
from recrawl.store.fetch_records import Content

__all__ = ["VALUES", "FewPagesReported", "few_outcomes_entry", "pack_few", "unpack_few"]

VALUES = ("digest", "etag", "last_modified", "sketch", "profile", "moved_to")
"""Names of the values, in the order of their bits from the lowest on."""

_HEAD = struct.Struct("<II")
_LENGTH = struct.Struct("<H")
_LAYOUTS_MAX = 256
# Columns of `Outcomes` in the order of the record, which keeps each at a multiple of its size.
_COLUMNS = (
    ("page", "q"),
    ("order", "q"),
    ("fetched_at_ms", "q"),
    ("last_modified_at_ms", "q"),
    ("divergence", "f"),
    ("retry_after_seconds", "f"),
    ("verdict", "B"),
    ("status_class", "B"),
)
_DTYPES = [np.dtype(f"<{code}") for _, code in _COLUMNS]
_ROW_BYTES = sum(dtype.itemsize for dtype in _DTYPES)


class FewPagesReported(NamedTuple):
    """A few outcomes of fetches, and the values that the store keeps for the next fetches."""

    outcomes: Outcomes
    contents: list[Content]
    """Values of each outcome, None where it has none."""
    data: bytes
    """The entry as the bytes of a record."""


def few_outcomes_entry(contents: list[Content], **columns: Sequence[Any]) -> FewPagesReported:
    """Return an entry from the values and the columns of `Outcomes`, as lists."""
    data = pack_few(contents, columns)
    return FewPagesReported(_outcomes_in(data, len(contents)), contents, data)


def pack_few(contents: Sequence[Content], columns: dict[str, Sequence[Any]]) -> bytes:
    """Return outcomes and their values as bytes."""
    n_rows = len(contents)
    numbers = itertools.chain.from_iterable(columns[name] for name, _ in _COLUMNS)
    flags, values = bytearray(), list[bytes]()
    for content in contents:
        has = 0
        for bit, value in enumerate(content):
            if value is not None:
                has |= 1 << bit
                values += (_LENGTH.pack(len(value)), value)
        flags.append(has)
    return b"".join((_layout(n_rows).pack(n_rows, 0, *numbers), flags, *values))


@lru_cache(_LAYOUTS_MAX)
def _layout(n_rows: int) -> struct.Struct:
    """Return the layout of the head and the columns of a few rows."""
    return struct.Struct("<II" + "".join(f"{n_rows}{code}" for _, code in _COLUMNS))


def _outcomes_in(data: bytes, n_rows: int) -> Outcomes:
    columns: dict[str, Any] = {}
    offset = _HEAD.size
    for (name, _), dtype in zip(_COLUMNS, _DTYPES, strict=True):
        columns[name] = np.frombuffer(data, dtype, n_rows, offset)
        offset += n_rows * dtype.itemsize
    return Outcomes(**columns)


def unpack_few(data: bytes) -> FewPagesReported:
    """Return the entry in the bytes of a record.

    Raises
    ------
    EventError
        If the bytes are not such a record.
    """
    try:
        n_rows, zero = _HEAD.unpack_from(data)
        flags_at = _HEAD.size + n_rows * _ROW_BYTES
        place = flags_at + n_rows
        if zero or place > len(data):
            raise EventError(f"a record of {n_rows} outcomes must be longer than {len(data)} bytes")
        contents: list[Content] = []
        for flags in data[flags_at:place]:
            values: list[bytes | None] = []
            for bit in range(len(VALUES)):
                value = None
                if flags >> bit & 1:
                    (n_bytes,) = _LENGTH.unpack_from(data, place)
                    place += _LENGTH.size + n_bytes
                    value = data[place - n_bytes : place]
                values.append(value)
            contents.append(tuple(values))  # type: ignore[arg-type]
    except struct.error as error:
        raise EventError(f"the bytes are not a record of outcomes: {error}") from error
    if place != len(data):
        raise EventError(f"a record of outcomes must have {place} bytes, got {len(data)}")
    return FewPagesReported(_outcomes_in(data, n_rows), contents, data)
