"""Convert columns of a table to the types of our schemas, and find invalid cells.

A column is an Arrow array of any type, from Parquet, or a list of values from JSON or CSV.  An
empty cell is valid and becomes null.
"""

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recrawl.core.arrays import FlagArray
from recrawl.readers.instants import instant_ms, instants_ms_of_numbers
from recrawl.readers.schemas import URL_BYTES_MAX

__all__ = [
    "Cells",
    "Column",
    "as_strings",
    "changed_cells",
    "digest_cells",
    "instant_cells",
    "metadata_cells",
    "no_cells",
    "number_cells",
    "status_cells",
    "text_cells",
    "url_cells",
    "with_extra_fields",
]

Column: TypeAlias = pa.Array | Sequence[object]

_DIGEST_BYTES_MAX = 1_024
_YES = frozenset({"true", "t", "yes", "y", "1", "changed", "modified"})
_NO = frozenset({"false", "f", "no", "n", "0", "unchanged", "notmodified", "not modified"})


class Cells(NamedTuple):
    """A converted column."""

    values: pa.Array
    is_wrong: FlagArray
    """Where a cell is invalid; its value is null."""


class _Wrong:
    """Marks an invalid cell."""


_WRONG = _Wrong()


def no_cells(n: int, kind: pa.DataType) -> Cells:
    """Return a column of nulls, for one that the file does not have."""
    return Cells(pa.nulls(n, kind), np.zeros(n, bool))


def url_cells(column: Column) -> Cells:
    """Convert URLs or other names of pages to text."""
    if not isinstance(column, pa.Array) and set(map(type, column)) == {str}:
        column = pc.utf8_trim_whitespace(as_strings(column))
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if isinstance(column, pa.Array) and _is_text_or_integer(column.type):
        texts = _without_dictionary(column).cast(pa.string(), safe=False)
        is_long = pc.fill_null(pc.greater(pc.binary_length(texts), URL_BYTES_MAX), False)
        is_long = is_long.to_numpy(zero_copy_only=False)
        if is_long.any():
            texts = pc.if_else(pa.array(is_long), pa.scalar(None, pa.string()), texts)
        return Cells(texts, is_long)
    return _convert_each(column, _url, pa.string())


def _url(cell: object) -> object:
    if isinstance(cell, str):
        text = cell.strip()
        # Every character takes at least one byte; lone surrogates, allowed in JSON, are replaced.
        if len(text) > URL_BYTES_MAX:
            return _WRONG
        if not text.isascii() and len(text.encode("utf-8", "replace")) > URL_BYTES_MAX:
            return _WRONG
        return text or None
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 128:
        return str(cell)
    return _WRONG


def text_cells(column: Column) -> Cells:
    """Convert texts and whole numbers to text; they are kept as they are."""
    return _convert_each(column, _text, pa.string())


def _text(cell: object) -> object:
    if isinstance(cell, float):
        # Other programs store whole numbers with gaps as floats; NaN is a gap.
        cell = None if math.isnan(cell) else int(cell) if cell.is_integer() else cell
        if cell is None:
            return None
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 128:
        return str(cell)
    return cell if isinstance(cell, str) else _WRONG


def metadata_cells(column: Column) -> Cells:
    """Convert JSON objects to text."""
    cells = column.to_pylist() if isinstance(column, pa.Array) else column
    # One by one, because objects cannot be told apart by their hash.
    taken = [None if cell is None or cell == "" else _metadata(cell) for cell in cells]
    is_wrong = np.fromiter((cell is _WRONG for cell in taken), bool, len(taken))
    texts = [None if cell is _WRONG else cell for cell in taken]
    return Cells(as_strings(texts), is_wrong)


def _metadata(cell: object) -> object:
    try:
        value = json.loads(cell) if isinstance(cell, str) else cell
        if not isinstance(value, dict):
            return _WRONG
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    except (ValueError, TypeError, RecursionError):
        return _WRONG


def _plain(value: object) -> object:
    """Return a value that JSON does not have as text."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def with_extra_fields(
    metadata: Column | None, extra: Mapping[str, Column], n_rows: int
) -> list[object]:
    """Return metadata with further fields of each row; empty fields are left out.

    A field of the metadata stays if a further field has the same name.
    """
    names = list(extra)
    columns = [c.to_pylist() if isinstance(c, pa.Array) else c for c in extra.values()]
    given: Sequence[object] = [None] * n_rows
    if metadata is not None:
        given = metadata.to_pylist() if isinstance(metadata, pa.Array) else metadata
    rows: list[object] = []
    for cell, *values in zip(given, *columns, strict=True):
        fields = {
            name: value
            for name, value in zip(names, values, strict=True)
            if not (value is None or value == "" or value != value)  # noqa: PLR0124 - NaN
        }
        own = _metadata(cell) if cell is not None and cell != "" else "{}"
        rows.append(cell if not isinstance(own, str) else {**fields, **json.loads(own)} or None)
    return rows


def instant_cells(column: Column) -> Cells:
    """Convert instants to milliseconds since 1970."""
    if not isinstance(column, pa.Array) and set(map(type, column)) == {int}:
        try:
            column = pa.array(column, pa.int64())
        except OverflowError:
            return _convert_each(column, _instant, pa.int64())
    if isinstance(column, pa.Array):
        column = _without_dictionary(column)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            # Without a zone it is UTC; Arrow keeps both as UTC.
            ms = pc.cast(
                pc.cast(column, pa.timestamp("ms"), safe=False)
                if pa.types.is_date(column.type)
                else column.cast(pa.timestamp("ms", column.type.tz), safe=False),
                pa.int64(),
            )
            return _instants_of_numbers(ms)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            return _instants_of_numbers(column)
    return _convert_each(column, _instant, pa.int64())


def _instants_of_numbers(column: pa.Array) -> Cells:
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    kind = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
    numbers = pc.fill_null(pc.cast(column, kind, safe=False), 0).to_numpy(zero_copy_only=False)
    ms, is_instant = instants_ms_of_numbers(numbers)
    return Cells(pa.array(ms, mask=~is_instant), ~is_instant & ~is_null)


def _instant(cell: object) -> object:
    ms = instant_ms(cell)
    return _WRONG if ms is None else ms


def number_cells(column: Column) -> Cells:
    """Convert finite, non-negative numbers."""
    if isinstance(column, pa.Array) and (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        numbers = pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0)
        values = numbers.to_numpy(zero_copy_only=False)
        is_wrong = ~(np.isfinite(values) & (values >= 0))
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return Cells(pa.array(values, mask=is_wrong | is_null), is_wrong)
    return _convert_each(column, _number, pa.float64())


def _number(cell: object) -> object:
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return _WRONG
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return _WRONG
    return number if math.isfinite(number) and number >= 0 else _WRONG


def changed_cells(column: Column) -> Cells:
    """Convert flags: booleans, 0 and 1, or words for them."""
    if not isinstance(column, pa.Array) and set(map(type, column)) <= {bool, type(None)}:
        column = pa.array(column, pa.bool_())
    if isinstance(column, pa.Array) and pa.types.is_boolean(column.type):
        return Cells(column, np.zeros(len(column), bool))
    return _convert_each(column, _flag, pa.bool_())


def _flag(cell: object) -> object:
    if isinstance(cell, (bool, int, float)):
        return bool(cell) if cell in (0, 1) else _WRONG
    if isinstance(cell, str):
        word = cell.strip().lower()
        return True if word in _YES else False if word in _NO else _WRONG
    return _WRONG


def status_cells(column: Column) -> Cells:
    """Convert HTTP statuses; codes below 100, which crawlers use for no answer, become 0."""
    return _convert_each(column, _status, pa.int16())


def _status(cell: object) -> object:
    if isinstance(cell, str):
        text = cell.strip()
        if text in {"-", ""}:
            return None
        cell = int(text) if text.lstrip("-").isdecimal() and len(text) <= 5 else _WRONG
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, bool) or not isinstance(cell, int) or not -32_768 <= cell <= 999:
        return _WRONG
    return cell if cell >= 100 else 0


def digest_cells(column: Column) -> Cells:
    """Convert digests to bytes; they are only compared for equality."""
    if isinstance(column, pa.Array):
        column = _without_dictionary(column)
        if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
            column = column.cast(pa.binary())
        elif _is_text_or_integer(column.type):
            column = column.cast(pa.string(), safe=False).cast(pa.binary())
        if pa.types.is_binary(column.type):
            is_long = pc.fill_null(pc.greater(pc.binary_length(column), _DIGEST_BYTES_MAX), False)
            if not pc.any(is_long).as_py():
                return Cells(column, np.zeros(len(column), bool))
    return _convert_each(column, _digest, pa.binary())


def _digest(cell: object) -> object:
    if isinstance(cell, str):
        text = cell.strip()
        cell = None if text in {"", "-"} else text.encode("utf-8", "replace")
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 128:
        cell = str(cell).encode()
    if cell is None:
        return None
    return cell if isinstance(cell, bytes) and len(cell) <= _DIGEST_BYTES_MAX else _WRONG


def _convert_each(column: Column, take: Callable[[Any], object], kind: pa.DataType) -> Cells:
    cells = column.to_pylist() if isinstance(column, pa.Array) else column
    if set(map(type, cells)) == {str}:
        # Few distinct values repeat many times, so each is converted once.
        known = {cell: None if cell == "" else take(cell) for cell in set(cells)}
        taken = [known[cell] for cell in cells]
    else:
        taken = [None if cell is None or cell == "" else take(cell) for cell in cells]
    is_wrong = np.fromiter((cell is _WRONG for cell in taken), bool, len(taken))
    if is_wrong.any():
        taken = [None if cell is _WRONG else cell for cell in taken]
    if pa.types.is_string(kind):
        return Cells(as_strings(taken), is_wrong)
    return Cells(pa.array(taken, kind), is_wrong)


def as_strings(texts: Sequence[Any]) -> pa.StringArray:
    """Return texts as an array; lone surrogates, which UTF-8 cannot encode, become ``?``."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array(
            [None if text is None else text.encode("utf-8", "replace").decode() for text in texts],
            pa.string(),
        )


def _without_dictionary(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _is_text_or_integer(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
    )
