"""The precomputed table of due times that is shipped with the package.

Building the table takes seconds, and half a minute if its kernels must be compiled first.  It
depends only on the mathematics: after a change of these, ``scripts/due_table.py`` builds it again,
and packs 36 MB of smooth curves into a file of 2 MB.

Ages are rounded to 1/512 of an octave, by at most 0.07 %.  Freshness is flat around the best age,
so the loss is about the square of that.

Unpacking takes a quarter of a second.  So the unpacked table is stored in the user's cache folder
and memory-mapped from there.  If the cache cannot be read or written, the table is unpacked again.
"""

import contextlib
import hashlib
import io
import logging
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.atomic_files import replace_file
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.learning_rows import LearningRows, cache_rows
from recrawl.kernel_mode import user_cache_folder

__all__ = ["cache_folder", "pack_due_table", "shipped_due_table", "unpack_due_table"]

logger = logging.getLogger(__name__)

FILE = "due_table.npz"
_STEPS_PER_OCTAVE = np.float32(512.0)


def cache_folder() -> Path:
    """Return the folder for files that can be computed again."""
    return user_cache_folder() / "recrawl"


@cache
def shipped_due_table() -> DueTable:
    """Return the shipped table, which callers must not change.

    The file also holds the rows for the value of learning from polls; this function adds them to
    the cache of `recrawl.core.price.learning_rows`.
    """
    data = resources.files(__package__).joinpath(FILE).read_bytes()
    path = cache_folder() / f"due-table-{hashlib.sha256(data).hexdigest()[:24]}.npy"
    with np.load(io.BytesIO(data)) as parts:
        table = _table_without_columns(parts)
        _cache_learning_rows(parts)
        columns = _map_columns(path, table)
        if columns is None:
            columns = _columns(parts)
            with contextlib.suppress(OSError):
                _write_columns(path, columns)
    return table._replace(due=columns[0], interval=columns[1])


def pack_due_table(table: DueTable, learning_rows: Mapping[float, LearningRows]) -> bytes:
    """Return the bytes of a file that holds a table, its ages rounded to 1/512 of an octave.

    Curves are stored as differences between targets, and these as differences between shapes,
    nearly all of which are small.  After the last target at which a page is due they are 0.

    Parameters
    ----------
    table
        Table to pack.
    learning_rows
        Rows of the table for the value of learning from polls, by learning horizon.
    """
    is_due = table.due < LOG2_NEVER
    n_due = np.count_nonzero(is_due, axis=2)
    if not np.array_equal(is_due, np.arange(is_due.shape[2]) < n_due[..., None]):
        raise ValueError("in a table, a page that is due at a price must be due at every lower one")
    due, interval = (_steps(column, n_due) for column in (table.due, table.interval))
    parts: dict[str, Any] = {
        "due": _differences(due),
        "longer": _differences(interval - due),
        "n_due": n_due.astype(np.uint8),
        "limit": table.limit,
        "shapes": table.shapes,
        "log2_targets": np.array([table.log2_target_min, table.log2_target_step]),
        "patience": np.array(list(learning_rows)),
        "taught_due": np.stack([rows.due for rows in learning_rows.values()]),
        "taught_limit": np.stack([rows.limit for rows in learning_rows.values()]),
    }
    file = io.BytesIO()
    np.savez_compressed(file, **parts)
    return file.getvalue()


def unpack_due_table(data: bytes) -> DueTable:
    """Return the table in the bytes of a file from `pack_due_table`."""
    with np.load(io.BytesIO(data)) as parts:
        columns = _columns(parts)
        return _table_without_columns(parts)._replace(due=columns[0], interval=columns[1])


def _steps(column: NDArray[np.float32], n_due: NDArray[np.int64]) -> NDArray[np.int16]:
    """Return ages in steps; each curve stays constant where its page is never due."""
    last = np.maximum(n_due[..., None] - 1, 0)
    level = np.minimum(np.arange(column.shape[2]), last)
    steps = np.rint(np.take_along_axis(column, level, axis=2) * _STEPS_PER_OCTAVE)
    return np.where(n_due[..., None] > 0, steps, 0).astype(np.int16)


def _differences(steps: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Return second differences, all low bytes before all high bytes; int16 may wrap around."""
    zero = np.int16(0)
    differences = np.diff(np.diff(steps, axis=2, prepend=zero), axis=0, prepend=zero)
    return np.stack([differences & 0xFF, differences >> 8 & 0xFF]).astype(np.uint8)


def _undo_differences(differences: NDArray[np.uint8]) -> NDArray[np.int16]:
    steps: NDArray[np.int16] = (differences[1].astype(np.uint16) << 8 | differences[0]).view(
        np.int16
    )
    for axis in (0, 2):
        np.cumsum(steps, axis=axis, dtype=np.int16, out=steps)
    return steps


def _columns(parts: Any) -> NDArray[np.float32]:
    """Return due times and intervals, stacked."""
    n_due = parts["n_due"].astype(np.int64)
    steps = _undo_differences(parts["due"])
    columns = np.empty((2, *steps.shape), np.float32)
    never = np.arange(steps.shape[2]) >= n_due[..., None]
    for i in range(2):
        if i == 1:
            steps += _undo_differences(parts["longer"])
        np.divide(steps, _STEPS_PER_OCTAVE, out=columns[i])
        columns[i][never] = LOG2_NEVER
    return columns


def _table_without_columns(parts: Any) -> DueTable:
    """Return the table without its large columns."""
    none = np.empty((0, 0, 0), np.float32)
    target_min, target_step = parts["log2_targets"].tolist()
    return DueTable(none, none, parts["limit"], parts["shapes"], target_min, target_step)


def _cache_learning_rows(parts: Any) -> None:
    table = (tuple(parts["shapes"].tolist()), *parts["log2_targets"].tolist())
    rows = zip(parts["taught_due"], parts["taught_limit"], strict=True)
    cache_rows(
        {
            (*table, due.shape[1], horizon): LearningRows(due, limit)
            for horizon, (due, limit) in zip(parts["patience"].tolist(), rows, strict=True)
        }
    )


def _map_columns(path: Path, table: DueTable) -> NDArray[np.float32] | None:
    """Return the columns memory-mapped from a file, None if the file is missing or invalid."""
    try:
        columns = np.asarray(np.load(path, mmap_mode="c"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError, EOFError) as error:
        logger.warning("%s is not used: %s", path, error)
        return None
    shape = (2, *table.limit.shape)
    if columns.dtype != np.float32 or columns.ndim != 4 or columns.shape[:3] != shape:
        logger.warning("%s is not used: it has an unexpected type or shape", path)
        return None
    return columns


def _write_columns(path: Path, columns: NDArray[np.float32]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        np.save(file, columns)
