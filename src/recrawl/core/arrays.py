"""Array types, and helpers that turn the arguments of public functions into columns."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
CountArray: TypeAlias = NDArray[np.int64]
FlagArray: TypeAlias = NDArray[np.bool_]
RowArray: TypeAlias = NDArray[np.int64]
_N = TypeVar("_N", bound=np.integer)

__all__ = [
    "ArrayLike",
    "CountArray",
    "FlagArray",
    "FloatArray",
    "RowArray",
    "are_all",
    "as_columns",
    "as_floats",
    "by_rows",
    "repeat_value",
    "target_value",
]


def are_all(flags: FlagArray) -> bool:
    """Return whether all flags are set; for a few, ten times as fast as numpy's own."""
    return b"\0" not in flags.tobytes()


def repeat_value(n: int, value: int, kind: type[_N]) -> NDArray[_N]:
    """Return an array of equal values; a short one twice as fast as numpy's own."""
    array = np.empty(n, kind)
    array.fill(value)
    return array


def as_floats(quantity: ArrayLike) -> FloatArray:
    """Return a quantity as an array of float64, without a copy where it is one."""
    array = np.asarray(quantity)
    if array.dtype.kind in "mM":
        raise TypeError(f"times must be numbers of seconds, got {array.dtype}")
    return array.astype(np.float64, copy=False)


def as_columns(*quantities: ArrayLike) -> tuple[tuple[int, ...], list[FloatArray]]:
    """Broadcast quantities against each other; return their shape and flat columns.

    Kernels loop over flat float64 columns; callers may pass scalars, lists or arrays of any
    shape.  A result is ``out.reshape(shape)``.
    """
    arrays = [as_floats(quantity) for quantity in quantities]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    # Not np.broadcast_arrays: its results warn when a kernel asks whether they are writeable.
    return shape, [np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1) for a in arrays]


def by_rows(loop: Callable[..., None], *quantities: ArrayLike) -> FloatArray:
    """Run ``loop``, a kernel over flat columns, and return the column that it writes.

    The quantities are broadcast against each other and the result has their shape.  The kernel
    takes one column for each quantity, then the column to write.
    """
    shape, columns = as_columns(*quantities)
    out = np.empty(columns[0].size)
    loop(*columns, out)
    return out.reshape(shape)


def target_value(price: ArrayLike, importance: ArrayLike) -> FloatArray:
    """Return the value at which a page of importance 1 is due; inf where importance is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return as_floats(price) / as_floats(importance)
