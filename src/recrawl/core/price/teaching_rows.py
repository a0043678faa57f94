"""A due table whose pages without signals come due by what a poll teaches, too.

In units of a page's mean period that due time depends on the shape of its belief, on the price
and on patience.  So neither pages nor the price need anything new, and as patience grows only
the rows of one class are written again: they take a quarter of a second.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.teaching import teaching_due_elapsed_of

__all__ = ["RowsAsked", "TeachingRows", "know_rows", "own_copy", "rows_of", "write_teaching"]

RowsAsked: TypeAlias = tuple[tuple[float, ...], float, float, int, float]
"""Shapes of belief, least target, step between targets, number of them, patience."""


class TeachingRows(NamedTuple):
    """The rows of class 0, as in `DueTable`: 19 kB at the default codes."""

    due: NDArray[np.float32]
    limit: FloatArray


def own_copy(table: DueTable) -> DueTable:
    """Return a copy of a table in which rows may be written."""
    return table._replace(
        due=table.due.copy(), interval=table.interval.copy(), limit=table.limit.copy()
    )


def write_teaching(table: DueTable, patience: float) -> None:
    """Write the rows of pages without signals for what polls teach, in place.

    Whoever reads the table from then on goes by them.

    Parameters
    ----------
    table
        One that nobody else relies on; see `own_copy`.
    patience
        As in `recrawl.core.price.teaching_due_elapsed`; 0 for the value alone.
    """
    rows = rows_of(table, patience)
    table.due[:, 0] = rows.due
    table.interval[:, 0] = rows.due
    table.limit[:, 0] = rows.limit


def rows_of(table: DueTable, patience: float) -> TeachingRows:
    """Return the rows that `write_teaching` writes."""
    return _teaching_rows(
        tuple(table.shapes.tolist()),
        table.log2_target_min,
        table.log2_target_step,
        table.due.shape[2],
        patience,
    )


_ROWS_KEPT_MAX = 64
_rows_kept: dict[RowsAsked, TeachingRows] = {}


def _teaching_rows(
    shapes: tuple[float, ...],
    log2_target_min: float,
    log2_target_step: float,
    n_targets: int,
    patience: float,
) -> TeachingRows:
    """Return the rows for these shapes of belief; kept, since shards ask for the same few."""
    asked = (shapes, log2_target_min, log2_target_step, n_targets, patience)
    rows = _rows_kept.get(asked)
    if rows is None:
        rows = TeachingRows(np.empty((len(shapes), n_targets), np.float32), np.empty(len(shapes)))
        _fill_rows(np.array(shapes), log2_target_min, log2_target_step, float(patience), rows)
        know_rows({asked: rows})
    return rows


def know_rows(rows: Mapping[RowsAsked, TeachingRows]) -> None:
    """Keep rows for whoever asks, as `rows_of` returned them, now or earlier."""
    for asked, found in rows.items():
        while len(_rows_kept) >= _ROWS_KEPT_MAX:
            del _rows_kept[next(iter(_rows_kept))]
        for column in found:
            column.flags.writeable = False
        _rows_kept[asked] = found


@kernel
def _fill_rows(
    shapes: FloatArray,
    log2_target_min: float,
    log2_target_step: float,
    patience: float,
    rows: TeachingRows,
) -> None:
    for s in range(shapes.size):
        shape = shapes[s]
        rows.limit[s] = shape / (shape - 1.0) if shape > 1.0 else math.inf
        latest = -math.inf
        for k in range(rows.due.shape[1]):
            target = math.exp2(log2_target_min + k * log2_target_step)
            age = teaching_due_elapsed_of(shape, shape, target, patience)
            # Teaching is worth most around the price at which a page is given up, where the age
            # may fall as the price rises.  Rows are read backwards, too, so they must not.
            latest = max(latest, min(math.log2(age), LOG2_NEVER))
            rows.due[s, k] = latest
            if latest < LOG2_NEVER and target >= rows.limit[s]:
                # Taught beyond the limit of the value, which then says nothing of what follows.
                rows.limit[s] = math.inf
