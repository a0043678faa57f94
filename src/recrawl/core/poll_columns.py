"""Checked poll columns: kernels index by row without bounds checks."""

import numpy as np

from recrawl.core.arrays import ArrayLike, FlagArray, FloatArray, RowArray, as_floats

__all__ = ["as_poll_columns", "as_rows", "check_elapsed"]


def as_rows(rows: ArrayLike, n_pages: int) -> RowArray:
    """Return ``rows`` as a column of row numbers, all of them below ``n_pages``."""
    column = np.ascontiguousarray(rows, dtype=np.int64)
    if column.ndim != 1:
        raise ValueError(f"rows must be one column, got {column.ndim} dimensions")
    if column.size and not (column.min() >= 0 and column.max() < n_pages):
        raise ValueError(f"rows must be 0 to {n_pages - 1}, got {column.min()} to {column.max()}")
    return column


def as_poll_columns(
    rows: ArrayLike, elapsed: ArrayLike, changed: ArrayLike, n_pages: int
) -> tuple[RowArray, FloatArray, FlagArray]:
    """Return polls as checked columns of equal length; raise `ValueError` if they are invalid."""
    page = as_rows(rows, n_pages)
    seconds = np.ascontiguousarray(as_floats(elapsed))
    found = np.ascontiguousarray(changed, dtype=np.bool_)
    if not page.shape == seconds.shape == found.shape:
        raise ValueError(
            "rows, elapsed and changed must have equal lengths, "
            f"got shapes {page.shape}, {seconds.shape} and {found.shape}"
        )
    check_elapsed(seconds)
    return page, seconds, found


def check_elapsed(elapsed: FloatArray) -> None:
    """Raise `ValueError` unless all elapsed times are finite and not negative."""
    if not np.all((elapsed >= 0) & (elapsed < np.inf)):
        raise ValueError("elapsed must be finite and not negative")
