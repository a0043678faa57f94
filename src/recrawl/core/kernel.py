"""The one place that decides how kernels are compiled, and whether they are."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from recrawl.kernel_mode import kernel_mode

__all__ = ["IS_COMPILED", "kernel", "table_kernel"]

_F = TypeVar("_F", bound=Callable[..., object])
_FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
}

IS_COMPILED = kernel_mode() == "compiled"
"""Otherwise kernels are plain Python, and numba, which takes a second to load, is not."""


def kernel(function: _F) -> _F:
    """Compile ``function`` with the project's numba flags, keeping its Python types.

    ``fastmath`` stays off: kernels meet inf and nan, and replaying a log must give the same
    bits every time.  Compiled code is cached beside the package (or in ``NUMBA_CACHE_DIR``) and
    runs without the interpreter's lock.
    """
    return _compiled(function, _FLAGS)


def table_kernel(function: _F) -> _F:
    """Compile a kernel that takes whole tables, and neither makes nor returns arrays.

    Such a kernel only borrows its columns, so numba is told not to count references to them:
    every call would count those of all columns up and down again, which takes ten times as long
    as what most kernels do with a row.  One that does make an array fails to compile.
    """
    return _compiled(function, {**_FLAGS, "_nrt": False})  # none of its documented flags


def _compiled(function: _F, flags: dict[str, Any]) -> _F:
    if not IS_COMPILED:
        return function
    from numba import njit  # noqa: PLC0415

    return cast(_F, njit(**flags)(function))
