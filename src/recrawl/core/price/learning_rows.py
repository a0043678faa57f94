"""Rows of a due table by which pages without signals come due for a poll's information, too.

In units of a page's mean period the due time of `recrawl.core.price.knowledge_gradient` depends on
the shape of its belief, on the price and on the learning horizon.  So neither pages nor the price
need anything new: as the horizon grows only the rows of one class are written again, in a quarter
of a second.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.knowledge_gradient import learning_due_elapsed_of

__all__ = [
    "LearningRows",
    "RowsKey",
    "cache_rows",
    "learning_rows_for",
    "writable_copy",
    "write_learning_rows",
]

RowsKey: TypeAlias = tuple[tuple[float, ...], float, float, int, float]
"""Shapes of belief, least target, step between targets, number of targets, learning horizon."""


class LearningRows(NamedTuple):
    """The rows of class 0, as in `DueTable`: 19 kB at the default codes."""

    due: NDArray[np.float32]
    limit: FloatArray


def writable_copy(table: DueTable) -> DueTable:
    """Return a copy of a table in which rows may be written."""
    return table._replace(
        due=table.due.copy(), interval=table.interval.copy(), limit=table.limit.copy()
    )


def write_learning_rows(table: DueTable, learning_horizon: float) -> None:
    """Write the rows of pages without signals for a learning horizon, in place.

    Parameters
    ----------
    table
        Table that nobody else uses; see `writable_copy`.
    learning_horizon
        Horizon as in `recrawl.core.price.learning_due_elapsed`; 0 for the value alone.
    """
    rows = learning_rows_for(table, learning_horizon)
    table.due[:, 0] = rows.due
    table.interval[:, 0] = rows.due
    table.limit[:, 0] = rows.limit


def learning_rows_for(table: DueTable, learning_horizon: float) -> LearningRows:
    """Return the rows that `write_learning_rows` writes."""
    return _learning_rows(
        tuple(table.shapes.tolist()),
        table.log2_target_min,
        table.log2_target_step,
        table.due.shape[2],
        learning_horizon,
    )


_CACHED_ROWS_MAX = 64
_cached_rows: dict[RowsKey, LearningRows] = {}


def _learning_rows(
    shapes: tuple[float, ...],
    log2_target_min: float,
    log2_target_step: float,
    n_targets: int,
    learning_horizon: float,
) -> LearningRows:
    """Return the rows for these shapes of belief; cached, since shards need the same few."""
    key = (shapes, log2_target_min, log2_target_step, n_targets, learning_horizon)
    rows = _cached_rows.get(key)
    if rows is None:
        rows = LearningRows(np.empty((len(shapes), n_targets), np.float32), np.empty(len(shapes)))
        _fill_rows(
            np.array(shapes), log2_target_min, log2_target_step, float(learning_horizon), rows
        )
        cache_rows({key: rows})
    return rows


def cache_rows(rows: Mapping[RowsKey, LearningRows]) -> None:
    """Add rows that `learning_rows_for` returned, now or in an earlier process, to its cache."""
    for key, value in rows.items():
        while len(_cached_rows) >= _CACHED_ROWS_MAX:
            del _cached_rows[next(iter(_cached_rows))]
        for column in value:
            column.flags.writeable = False
        _cached_rows[key] = value


@kernel
def _fill_rows(
    shapes: FloatArray,
    log2_target_min: float,
    log2_target_step: float,
    learning_horizon: float,
    rows: LearningRows,
) -> None:
    for s in range(shapes.size):
        shape = shapes[s]
        rows.limit[s] = shape / (shape - 1.0) if shape > 1.0 else math.inf
        latest = -math.inf
        for k in range(rows.due.shape[1]):
            target = math.exp2(log2_target_min + k * log2_target_step)
            age = learning_due_elapsed_of(shape, shape, target, learning_horizon)
            # Information is worth most around the price at which a page is given up, where the
            # age may fall as the price rises.  Look-ups by age need ages that never fall.
            latest = max(latest, min(math.log2(age), LOG2_NEVER))
            rows.due[s, k] = latest
            if latest < LOG2_NEVER and target >= rows.limit[s]:
                # Due beyond the limit of the value, which then says nothing about later targets.
                rows.limit[s] = math.inf
