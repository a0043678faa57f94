"""The table that shards find due times in, as it comes with the package.

Building it takes seconds, and half a minute where its kernels must be compiled first.  It depends
on nothing but the mathematics, so whoever changes these builds it once (``scripts/due_table.py``)
and it is packed into a file of the package: 36 MB of smooth curves in 2 MB.

Ages are rounded to 1/512 of an octave, so by 0.07 % at most.  Freshness is flat around the best
age, and loses about the square of that.

Unpacking takes a quarter of a second.  So the table is left unpacked in the user's cache, from
where it is mapped rather than read.  If it cannot be read or written there, it is unpacked again.
"""

import contextlib
import hashlib
import io
import logging
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.teaching_rows import TeachingRows, know_rows

__all__ = ["cache_folder", "kept_due_table", "packed", "unpacked"]

logger = logging.getLogger(__name__)

FILE = "due_table.npz"
_STEPS_PER_OCTAVE = np.float32(512.0)


def cache_folder() -> Path:
    """Return where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recrawl"


@cache
def kept_due_table() -> DueTable:
    """Return the table, which is not to be written to.

    The rows for what polls teach come with it: `recrawl.core.price.teaching_rows` knows them from
    then on.
    """
    data = resources.files(__package__).joinpath(FILE).read_bytes()
    path = cache_folder() / f"due-table-{hashlib.sha256(data).hexdigest()[:24]}.npy"
    with np.load(io.BytesIO(data)) as parts:
        table = _of_parts(parts)
        _know_taught(parts)
        columns = _mapped(path, table)
        if columns is None:
            columns = _columns(parts)
            with contextlib.suppress(OSError):
                _write(path, columns)
    return table._replace(due=columns[0], interval=columns[1])


def packed(table: DueTable, taught: Mapping[float, TeachingRows]) -> bytes:
    """Return a table as the bytes of a file, its ages rounded to 1/512 of an octave.

    Curves are kept as differences from target to target, and these as differences from shape to
    shape: nearly all are small.  From the first target on at which a page is never due they are 0.

    Parameters
    ----------
    table
        To pack.
    taught
        Its rows for what polls teach, by patience.
    """
    is_due = table.due < LOG2_NEVER
    n_due = np.count_nonzero(is_due, axis=2)
    if not np.array_equal(is_due, np.arange(is_due.shape[2]) < n_due[..., None]):
        raise ValueError("table must not have a page that is due at a price and not at a lower one")
    due, interval = (_steps(column, n_due) for column in (table.due, table.interval))
    parts: dict[str, Any] = {
        "due": _differences(due),
        "longer": _differences(interval - due),
        "n_due": n_due.astype(np.uint8),
        "limit": table.limit,
        "shapes": table.shapes,
        "log2_targets": np.array([table.log2_target_min, table.log2_target_step]),
        "patience": np.array(list(taught)),
        "taught_due": np.stack([rows.due for rows in taught.values()]),
        "taught_limit": np.stack([rows.limit for rows in taught.values()]),
    }
    file = io.BytesIO()
    np.savez_compressed(file, **parts)
    return file.getvalue()


def unpacked(data: bytes) -> DueTable:
    """Return the table that was packed."""
    with np.load(io.BytesIO(data)) as parts:
        columns = _columns(parts)
        return _of_parts(parts)._replace(due=columns[0], interval=columns[1])


def _steps(column: NDArray[np.float32], n_due: NDArray[np.int64]) -> NDArray[np.int16]:
    """Return ages in steps, each curve level from where its page is never due."""
    last = np.maximum(n_due[..., None] - 1, 0)
    level = np.minimum(np.arange(column.shape[2]), last)
    steps = np.rint(np.take_along_axis(column, level, axis=2) * _STEPS_PER_OCTAVE)
    return np.where(n_due[..., None] > 0, steps, 0).astype(np.int16)


def _differences(steps: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Return second differences, all low bytes before all high ones; they may wrap around."""
    zero = np.int16(0)
    differences = np.diff(np.diff(steps, axis=2, prepend=zero), axis=0, prepend=zero)
    return np.stack([differences & 0xFF, differences >> 8 & 0xFF]).astype(np.uint8)


def _summed(differences: NDArray[np.uint8]) -> NDArray[np.int16]:
    steps: NDArray[np.int16] = (differences[1].astype(np.uint16) << 8 | differences[0]).view(
        np.int16
    )
    for axis in (0, 2):
        np.cumsum(steps, axis=axis, dtype=np.int16, out=steps)
    return steps


def _columns(parts: Any) -> NDArray[np.float32]:
    """Return due times and intervals, one after the other."""
    n_due = parts["n_due"].astype(np.int64)
    steps = _summed(parts["due"])
    columns = np.empty((2, *steps.shape), np.float32)
    never = np.arange(steps.shape[2]) >= n_due[..., None]
    for i in range(2):
        if i == 1:
            steps += _summed(parts["longer"])
        np.divide(steps, _STEPS_PER_OCTAVE, out=columns[i])
        columns[i][never] = LOG2_NEVER
    return columns


def _of_parts(parts: Any) -> DueTable:
    """Return the table without its large columns."""
    none = np.empty((0, 0, 0), np.float32)
    target_min, target_step = parts["log2_targets"].tolist()
    return DueTable(none, none, parts["limit"], parts["shapes"], target_min, target_step)


def _know_taught(parts: Any) -> None:
    table = (tuple(parts["shapes"].tolist()), *parts["log2_targets"].tolist())
    rows = zip(parts["taught_due"], parts["taught_limit"], strict=True)
    know_rows(
        {
            (*table, due.shape[1], patience): TeachingRows(due, limit)
            for patience, (due, limit) in zip(parts["patience"].tolist(), rows, strict=True)
        }
    )


def _mapped(path: Path, table: DueTable) -> NDArray[np.float32] | None:
    """Return the columns as they lie in a file, or None; what is written to them stays here."""
    try:
        columns = np.asarray(np.load(path, mmap_mode="c"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        logger.warning("%s is not used: %s", path, error)
        return None
    shape = (2, *table.limit.shape)
    if columns.dtype != np.float32 or columns.ndim != 4 or columns.shape[:3] != shape:
        logger.warning("%s is not used: it is something else", path)
        return None
    return columns


def _write(path: Path, columns: NDArray[np.float32]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        try:
            np.save(draft, columns)
            draft.close()
            Path(draft.name).rename(path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
