"""Read tables in CSV, JSON lines or Parquet as columns under our names.

JSON lines and CSV are read a block of lines at a time, Parquet a piece of a row group.
"""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recrawl.errors import ReadError
from recrawl.readers.head import Head
from recrawl.readers.lines import LineBlock, line_blocks
from recrawl.readers.reading import Reading
from recrawl.readers.refused import Refused
from recrawl.readers.tabular.cells import Column
from recrawl.readers.tabular.columns import (
    Names,
    Rows,
    candidates,
    check_ambiguous,
    check_columns,
    choose_columns,
    choose_extra,
)
from recrawl.readers.tabular.csv_rows import csv_rows

__all__ = ["PARQUET_ROWS", "json_objects", "table_rows"]

PARQUET_ROWS = 16_384
"""Default number of rows of a Parquet file that are read at a time."""


def table_rows(
    reading: Reading,
    names: Names,
    *,
    required: tuple[str, ...] = ("url",),
    headless: tuple[str, ...] = (),
    with_extra: bool = False,
    parquet_rows: int = PARQUET_ROWS,
) -> Iterator[Rows]:
    """Yield the rows of a table in CSV, JSON lines or Parquet.

    Parameters
    ----------
    names
        Names of the columns to read.
    required
        Columns that a table must have; for JSON lines, the caller checks each object.
    headless
        Our names of the columns of a CSV file without a header.
    with_extra
        Whether further fields may be kept as metadata, and two fields that may be one of ours are
        an error.
    parquet_rows
        Number of rows of a Parquet file that are read at a time.
    """
    check_columns(reading.options.columns, names)
    head = Head(reading.source)
    if head.is_parquet:
        return _parquet_rows(reading, names, required, parquet_rows, with_extra)
    if head.first.lstrip().startswith(("{", "[")):
        return _json_rows(reading, names, with_extra)
    return csv_rows(reading, names, required, headless, with_extra=with_extra)


# ------------------------------------------------------------------------------ JSON lines


def json_objects(block: LineBlock, refused: Refused) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the JSON objects of lines and their line numbers; count the rest as refused.

    The brackets and commas of an array with one object per line are skipped.
    """
    lines: list[int] = []
    objects: list[dict[str, Any]] = []
    for line, text in enumerate(block.texts(refused), block.first_line):
        if not text or text.isspace():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = _in_array(text)
            if found is None:
                continue
        refused.n_rows += 1
        if isinstance(found, dict):
            lines.append(line)
            objects.append(found)
        elif isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
            refused.n_rows += len(found) - 1
            lines += [line] * len(found)
            objects += found
        else:
            refused.refuse(line, "not a JSON object", text)
    return lines, objects


def _in_array(text: str) -> object:
    """Return the value on one line of a JSON array; None for a line of brackets only."""
    inner = text.strip().removeprefix("[").strip().rstrip(",").strip()
    if inner in {"", "]"}:
        return None
    for candidate in (inner, inner.removesuffix("]")):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return text


def _json_rows(reading: Reading, names: Names, with_extra: bool) -> Iterator[Rows]:
    given = reading.options.columns
    is_first = True
    for block in line_blocks(reading.source, reading.refused):
        lines, objects = json_objects(block, reading.refused)
        if not objects:
            continue
        keys = list(dict.fromkeys(chain.from_iterable(objects)))
        columns: dict[str, Column] = {}
        used: list[str] = []
        for ours, known in names.items():
            # Rows may spell a field differently, so each takes the best name that it has.
            if ours in given:
                present = candidates(given[ours], (), keys)
            else:
                present = candidates(ours, known, keys)
                if with_extra and is_first and len(present) > 1:
                    for found in objects:
                        both = [name for name in present if found.get(name) is not None]
                        check_ambiguous(reading, ours, both)
            used += present
            if present:
                columns[ours] = _values(objects, present)
                reading.fields.setdefault(ours, present[0])
        extra = choose_extra(reading, keys, used, is_whole=False) if with_extra else []
        yield Rows(
            lines=lines, columns=columns, extra={name: _values(objects, [name]) for name in extra}
        )
        is_first = False


def _values(objects: list[dict[str, Any]], names: list[str]) -> list[object]:
    if len(names) == 1:
        name = names[0]
        return [found.get(name) for found in objects]
    return [
        next((found[name] for name in names if found.get(name) is not None), None)
        for found in objects
    ]


# --------------------------------------------------------------------------------- Parquet


def _parquet_rows(
    reading: Reading,
    names: Names,
    required: tuple[str, ...],
    n_at_a_time: int,
    with_extra: bool,
) -> Iterator[Rows]:
    row = 1
    with reading.source.open_seekable() as file:
        try:
            table = pq.ParquetFile(file, pre_buffer=False)
            theirs = table.schema_arrow.names
            n_rows = table.metadata.num_rows
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ReadError(
                f"{reading.source.name} is not a complete Parquet file: {str(error)[:200]}; "
                "download or create it again"
            ) from error
        chosen = choose_columns(reading, names, required, theirs, is_strict=with_extra)
        used = [theirs[n] for n in dict.fromkeys(chosen.values())]
        extra = choose_extra(reading, theirs, used) if with_extra else []
        wanted = [*used, *(name for name in extra if name not in used)]
        try:
            for batch in table.iter_batches(n_at_a_time, columns=wanted):
                batch.validate(full=True)
                reading.refused.n_rows += batch.num_rows
                columns = {ours: batch.column(theirs[n]) for ours, n in chosen.items()}
                kept = {name: batch.column(name) for name in extra}
                lines = range(row, row + batch.num_rows)
                yield Rows(lines=lines, columns=columns, extra=kept)
                row += batch.num_rows
                # Parquet is not read in order, so progress is estimated from the rows.
                n_bytes = reading.source.n_bytes or 0
                reading.source.n_bytes_read = n_bytes * (row - 1) // max(n_rows, 1)
        except (OSError, ValueError, KeyError, MemoryError, pa.ArrowException) as error:
            reading.refused.cut_short(
                f"the file is damaged after {row - 1:,} of {n_rows:,} rows: {str(error)[:200]}"
            )
