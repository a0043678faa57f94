"""Columns of a foreign table as columns of ours, and which cells say something else.

A column is an Arrow array of any type, as Parquet gives it, or a list of what JSON or CSV hold.
An empty cell is no mistake: it is null.
"""

import math
from collections.abc import Callable, Sequence
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
    "no_cells",
    "number_cells",
    "status_cells",
    "url_cells",
]

Column: TypeAlias = pa.Array | Sequence[object]

_DIGEST_BYTES_MAX = 1_024
_YES = frozenset({"true", "t", "yes", "y", "1", "changed", "modified"})
_NO = frozenset({"false", "f", "no", "n", "0", "unchanged", "notmodified", "not modified"})


class Cells(NamedTuple):
    """A column of ours."""

    values: pa.Array
    is_wrong: FlagArray
    """Where something is given that cannot be taken; null there."""


class _Wrong:
    """Stands for a cell that cannot be taken."""


_WRONG = _Wrong()


def no_cells(n: int, kind: pa.DataType) -> Cells:
    """Return a column that is not given."""
    return Cells(pa.nulls(n, kind), np.zeros(n, bool))


def url_cells(column: Column) -> Cells:
    """Return URLs, or other names of pages; numbers become text."""
    if not isinstance(column, pa.Array) and set(map(type, column)) == {str}:
        column = pc.utf8_trim_whitespace(as_strings(column))
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if isinstance(column, pa.Array) and _is_text_or_integer(column.type):
        texts = _plain(column).cast(pa.string(), safe=False)
        is_long = pc.fill_null(pc.greater(pc.binary_length(texts), URL_BYTES_MAX), False)
        is_long = is_long.to_numpy(zero_copy_only=False)
        if is_long.any():
            texts = pc.if_else(pa.array(is_long), pa.scalar(None, pa.string()), texts)
        return Cells(texts, is_long)
    return _one_by_one(column, _url, pa.string())


def _url(cell: object) -> object:
    if isinstance(cell, str):
        text = cell.strip()
        # Lone surrogates, which JSON can hold, are no text; a character is a byte at least.
        if len(text) > URL_BYTES_MAX:
            return _WRONG
        if not text.isascii() and len(text.encode("utf-8", "replace")) > URL_BYTES_MAX:
            return _WRONG
        return text or None
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 128:
        return str(cell)
    return _WRONG


def instant_cells(column: Column) -> Cells:
    """Return instants in milliseconds since 1970."""
    if not isinstance(column, pa.Array) and set(map(type, column)) == {int}:
        try:
            column = pa.array(column, pa.int64())
        except OverflowError:
            return _one_by_one(column, _instant, pa.int64())
    if isinstance(column, pa.Array):
        column = _plain(column)
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
    return _one_by_one(column, _instant, pa.int64())


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
    """Return finite numbers, not negative."""
    if isinstance(column, pa.Array) and (
        pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    ):
        numbers = pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0)
        values = numbers.to_numpy(zero_copy_only=False)
        is_wrong = ~(np.isfinite(values) & (values >= 0))
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return Cells(pa.array(values, mask=is_wrong | is_null), is_wrong)
    return _one_by_one(column, _number, pa.float64())


def _number(cell: object) -> object:
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return _WRONG
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return _WRONG
    return number if math.isfinite(number) and number >= 0 else _WRONG


def changed_cells(column: Column) -> Cells:
    """Return yes and no: booleans, 0 and 1, or words for them."""
    if not isinstance(column, pa.Array) and set(map(type, column)) <= {bool, type(None)}:
        column = pa.array(column, pa.bool_())
    if isinstance(column, pa.Array) and pa.types.is_boolean(column.type):
        return Cells(column, np.zeros(len(column), bool))
    return _one_by_one(column, _changed, pa.bool_())


def _changed(cell: object) -> object:
    if isinstance(cell, (bool, int, float)):
        return bool(cell) if cell in (0, 1) else _WRONG
    if isinstance(cell, str):
        word = cell.strip().lower()
        return True if word in _YES else False if word in _NO else _WRONG
    return _WRONG


def status_cells(column: Column) -> Cells:
    """Return HTTP statuses; 0 for what is below 100, as crawlers write where no answer came."""
    return _one_by_one(column, _status, pa.int16())


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
    """Return digests as bytes, text as its own; only whether two are equal means anything."""
    if isinstance(column, pa.Array):
        column = _plain(column)
        if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
            column = column.cast(pa.binary())
        elif _is_text_or_integer(column.type):
            column = column.cast(pa.string(), safe=False).cast(pa.binary())
        if pa.types.is_binary(column.type):
            is_long = pc.fill_null(pc.greater(pc.binary_length(column), _DIGEST_BYTES_MAX), False)
            if not pc.any(is_long).as_py():
                return Cells(column, np.zeros(len(column), bool))
    return _one_by_one(column, _digest, pa.binary())


def _digest(cell: object) -> object:
    if isinstance(cell, str):
        text = cell.strip()
        cell = None if text in {"", "-"} else text.encode("utf-8", "replace")
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 128:
        cell = str(cell).encode()
    if cell is None:
        return None
    return cell if isinstance(cell, bytes) and len(cell) <= _DIGEST_BYTES_MAX else _WRONG


def _one_by_one(column: Column, take: Callable[[Any], object], kind: pa.DataType) -> Cells:
    cells = column.to_pylist() if isinstance(column, pa.Array) else column
    if set(map(type, cells)) == {str}:
        # Mostly the same few over and over.
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
    """Return texts as an array; lone surrogates, which are no text, become question marks."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array(
            [None if text is None else text.encode("utf-8", "replace").decode() for text in texts],
            pa.string(),
        )


def _plain(column: pa.Array) -> pa.Array:
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
