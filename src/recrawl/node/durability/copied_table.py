"""Copies of the table of due times that share the memory of all they do not change.

Each shard writes a few rows of a table of its own, 0.1 % of 36 MB.  The shipped table is mapped
from a file, so a copy is one more private mapping of that file: the system copies only the pages
of memory that a shard writes to.  Where this is not possible, a copy takes 36 MB.
"""

import ctypes
import mmap
import os
import weakref
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.price.due_table import DueTable
from recrawl.core.price.learning_rows import writable_copy

__all__ = ["copy_due_table"]

_FAILED = ctypes.c_void_p(-1).value


def copy_due_table(table: DueTable) -> DueTable:
    """Return a copy of a table in which rows may be written."""
    due, interval = _map_again(table.due), _map_again(table.interval)
    if due is None or interval is None:
        return writable_copy(table)
    return table._replace(due=due, interval=interval, limit=table.limit.copy())


def _map_again(column: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return a new private mapping of a column that is mapped from a file; None if it is not."""
    mapped: np.memmap[Any, Any] | None = None
    owner: Any = column
    while owner is not None:
        if isinstance(owner, np.memmap):
            mapped = owner  # the last one: a part of it has its offset, too, but begins elsewhere
        owner = getattr(owner, "base", None)
    if mapped is None or mapped.filename is None or not column.flags.c_contiguous:
        return None
    offset = mapped.offset + column.ctypes.data - mapped.ctypes.data
    try:
        with open(mapped.filename, "rb") as file:
            if os.fstat(file.fileno()).st_size < offset + column.nbytes:
                return None
            buffer = _private_mapping(file.fileno(), offset, column.nbytes)
    except OSError:
        return None
    if buffer is None:
        return None
    return np.frombuffer(buffer, column.dtype).reshape(column.shape)


def _private_mapping(file: int, offset: int, n_bytes: int) -> Any:
    """Return a part of a file as memory that can be written to without changing the file.

    Python's own mapping keeps a file descriptor open.
    """
    libc = _libc()
    if libc is None:
        return None
    begin = offset // mmap.PAGESIZE * mmap.PAGESIZE
    length = offset + n_bytes - begin
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, length, protection, mmap.MAP_PRIVATE, file, begin)
    if address in (None, _FAILED):
        return None
    buffer = (ctypes.c_char * n_bytes).from_address(address + offset - begin)
    # Not at the end of the process, when other threads may still read it.
    weakref.finalize(buffer, libc.munmap, address, length).atexit = False
    return buffer


@cache
def _libc() -> Any:
    if os.name != "posix":
        return None
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
