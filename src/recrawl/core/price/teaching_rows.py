"""A due table whose pages without signals come due by what a poll teaches, too.

In units of a page's mean period that due time depends on the shape of its belief, on the price
and on patience.  So neither pages nor the price need anything new, and as patience grows only
the rows of one class are written again: they take a quarter of a second.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core._arrays import FloatArray
from recrawl.core._kernel import kernel
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.teaching import teaching_due_elapsed_of

__all__ = ["TeachingRows", "own_copy", "teaching_rows", "write_teaching"]


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
    rows = teaching_rows(
        tuple(table.shapes.tolist()),
        table.log2_target_min,
        table.log2_target_step,
        table.due.shape[2],
        patience,
    )
    table.due[:, 0] = rows.due
    table.interval[:, 0] = rows.due
    table.limit[:, 0] = rows.limit


@lru_cache(maxsize=64)
def teaching_rows(
    shapes: tuple[float, ...],
    log2_target_min: float,
    log2_target_step: float,
    n_targets: int,
    patience: float,
) -> TeachingRows:
    """Return the rows for these shapes of belief; kept, since shards ask for the same few."""
    rows = TeachingRows(np.empty((len(shapes), n_targets), np.float32), np.empty(len(shapes)))
    _fill_rows(np.array(shapes), log2_target_min, log2_target_step, float(patience), rows)
    for column in rows:
        column.flags.writeable = False
    return rows


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
