"""Rows of a foreign table as batches of ours: which columns mean what, and what is refused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from recrawl.readers.refused import Refused
from recrawl.readers.schemas import BATCH_ROWS_MAX, LISTED, OBSERVED
from recrawl.readers.tabular.cells import (
    Cells,
    Column,
    changed_cells,
    digest_cells,
    instant_cells,
    no_cells,
    number_cells,
    status_cells,
    url_cells,
)
from recrawl.readers.tabular.columns import Rows

__all__ = ["LISTED_FIELDS", "OBSERVED_FIELDS", "Field", "batches_of", "sliced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of ours, and how it is read."""

    name: str
    """By which users rename it."""
    column: str
    """In the schema."""
    cells: Callable[[Column], Cells]
    wrong: str
    """Why a row is refused where the cell cannot be taken."""
    missing: str | None = None
    """Why a row is refused where the cell is empty; None where it may be."""


_URL = Field(
    name="url",
    column="url",
    cells=url_cells,
    wrong="the URL is no text of at most 65,535 bytes",
    missing="no URL",
)
_IMPORTANCE = Field(
    name="importance",
    column="importance",
    cells=number_cells,
    wrong="the importance is no number from 0 on",
)

LISTED_FIELDS = (
    _URL,
    _IMPORTANCE,
    Field(name="cost", column="cost", cells=number_cells, wrong="the cost is no number from 0 on"),
    Field(
        name="last_modified",
        column="last_modified_at_ms",
        cells=instant_cells,
        wrong="the last modification is no instant from 1990 to 2100",
    ),
)

OBSERVED_FIELDS = (
    _URL,
    Field(
        name="at",
        column="at_ms",
        cells=instant_cells,
        wrong="the time is no instant from 1990 to 2100",
        missing="no time",
    ),
    Field(
        name="digest",
        column="digest",
        cells=digest_cells,
        wrong="the digest is no text of at most 1,024 bytes",
    ),
    Field(
        name="changed",
        column="changed",
        cells=changed_cells,
        wrong="changed is neither true nor false",
    ),
    Field(name="status", column="status", cells=status_cells, wrong="the status is none of HTTP's"),
    _IMPORTANCE,
)


def batches_of(
    rows: Rows, fields: Sequence[Field], schema: pa.Schema, refused: Refused
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that can be taken; the others are counted as refused."""
    is_taken = np.ones(len(rows), bool)
    arrays: list[pa.Array] = []
    for field in fields:
        given = rows.columns.get(field.name)
        kind = schema.field(field.column).type
        values, is_wrong = no_cells(len(rows), kind) if given is None else field.cells(given)
        reasons = [(is_wrong, field.wrong)]
        if field.missing is not None:
            is_null = values.is_null().to_numpy(zero_copy_only=False) & ~is_wrong
            reasons.append((is_null, field.missing))
        for is_bad, reason in reasons:
            bad = np.flatnonzero(is_bad & is_taken).tolist()
            if bad:
                refused.refuse_many(((rows.lines[row], _cell(given, row)) for row in bad), reason)
                is_taken[bad] = False
        arrays.append(values)
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not is_taken.all():
        batch = batch.filter(pa.array(is_taken))
    yield from sliced(batch)


def sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in batches of bounded length; none where it is empty."""
    for begin in range(0, batch.num_rows, BATCH_ROWS_MAX):
        yield batch.slice(begin, BATCH_ROWS_MAX)


def _cell(given: Column | None, row: int) -> object:
    if given is None:
        return ""
    cell = given[row]
    return cell.as_py() if isinstance(cell, pa.Scalar) else cell


assert [field.column for field in LISTED_FIELDS] == LISTED.names
assert [field.column for field in OBSERVED_FIELDS] == OBSERVED.names
