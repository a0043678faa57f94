"""Return memory that the engine has freed to the operating system."""

import ctypes
import sys
from functools import cache

__all__ = ["return_free_memory"]


@cache
def _trim() -> "ctypes._NamedFuncPointer | None":
    if not sys.platform.startswith("linux"):
        return None
    # Only the C library of GNU has it; others return free memory by themselves.
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def return_free_memory() -> bool:
    """Return free memory to the operating system, if the C library would keep it.

    The engine's buffers come and go in several threads, which leaves holes that the C library of
    GNU keeps: a process that runs for weeks would look as if it had a leak.  Takes milliseconds.

    Returns
    -------
    bool
        Whether the C library was asked.
    """
    trim = _trim()
    if trim is None:
        return False
    trim(0)
    return True
