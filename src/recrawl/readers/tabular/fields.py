"""Convert rows of a table to batches of our schemas, and refuse invalid rows."""

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
    metadata_cells,
    no_cells,
    number_cells,
    status_cells,
    text_cells,
    url_cells,
    with_extra_fields,
)
from recrawl.readers.tabular.columns import Rows

__all__ = ["LISTED_FIELDS", "OBSERVED_FIELDS", "Field", "batches_of", "slice_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of our schemas, and how it is converted."""

    name: str
    """Name that users know it by."""
    column: str
    """Name in the schema."""
    cells: Callable[[Column], Cells]
    wrong: str
    """Reason to refuse a row with an invalid cell."""
    missing: str | None = None
    """Reason to refuse a row with an empty cell; None if it may be empty."""


_URL = Field(
    name="url",
    column="url",
    cells=url_cells,
    wrong="the URL is not text of at most 65,535 bytes",
    missing="no URL",
)
_IMPORTANCE = Field(
    name="importance",
    column="importance",
    cells=number_cells,
    wrong="the importance is not a number of 0 or more",
)

_OWN = (
    Field(
        name="doc_id", column="doc_id", cells=text_cells, wrong="the doc_id is not text or a number"
    ),
    Field(
        name="metadata",
        column="metadata",
        cells=metadata_cells,
        wrong="the metadata is not a JSON object",
    ),
    Field(name="key", column="key", cells=text_cells, wrong="the key is not text or a number"),
)

LISTED_FIELDS = (
    _URL,
    _IMPORTANCE,
    Field(
        name="cost",
        column="cost",
        cells=number_cells,
        wrong="the cost is not a number of 0 or more",
    ),
    Field(
        name="last_modified",
        column="last_modified_at_ms",
        cells=instant_cells,
        wrong="the last modification is invalid or outside 1990 to 2100",
    ),
    *_OWN,
)

OBSERVED_FIELDS = (
    _URL,
    Field(
        name="at",
        column="at_ms",
        cells=instant_cells,
        wrong="the time is invalid or outside 1990 to 2100",
        missing="no time",
    ),
    Field(
        name="digest",
        column="digest",
        cells=digest_cells,
        wrong="the digest is not text of at most 1,024 bytes",
    ),
    Field(
        name="changed",
        column="changed",
        cells=changed_cells,
        wrong="changed is neither true nor false",
    ),
    Field(
        name="status", column="status", cells=status_cells, wrong="the status is not an HTTP status"
    ),
    _IMPORTANCE,
    *_OWN,
)


def batches_of(
    rows: Rows, fields: Sequence[Field], schema: pa.Schema, refused: Refused
) -> Iterator[pa.RecordBatch]:
    """Yield the valid rows; count the others as refused."""
    is_taken = np.ones(len(rows), bool)
    arrays: list[pa.Array] = []
    for field in fields:
        given = rows.columns.get(field.name)
        if field.name == "metadata" and rows.extra:
            given = with_extra_fields(given, rows.extra, len(rows))
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
    yield from slice_batch(batch)


def slice_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of bounded length; nothing if it is empty."""
    for begin in range(0, batch.num_rows, BATCH_ROWS_MAX):
        yield batch.slice(begin, BATCH_ROWS_MAX)


def _cell(given: Column | None, row: int) -> object:
    if given is None:
        return ""
    cell = given[row]
    return cell.as_py() if isinstance(cell, pa.Scalar) else cell


assert [field.column for field in LISTED_FIELDS] == LISTED.names
assert [field.column for field in OBSERVED_FIELDS] == OBSERVED.names
