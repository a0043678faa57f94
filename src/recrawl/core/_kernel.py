"""The one place that decides how kernels are compiled."""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile ``function`` with the project's numba flags, keeping its Python types.

    ``fastmath`` stays off: kernels meet inf and nan, and replaying a log must give the same
    bits every time.  Compiled code is cached beside the package (or in ``NUMBA_CACHE_DIR``) and
    runs without the interpreter's lock.
    """
    return cast(_F, njit(cache=True, nogil=True, error_model="numpy", fastmath=False)(function))
