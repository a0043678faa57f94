"""Objects that work only in the process that opened them: calls in a forked child raise.

A storage engine and a Kafka client have threads, which do not exist in a child, and buffers, which
the child would write a second time.  So every use in a child must raise, before it takes a lock
that another thread held at the moment of the fork.  The destructors of such objects would wait for
threads or write files, too, so a child keeps the objects until it ends, without destroying them.
"""

import ctypes
import gc
import os
import weakref
from collections.abc import Iterable
from typing import Any

from recrawl.errors import ForkedError

__all__ = ["OneProcess", "ProcessLock", "forked_error"]

# By id, because a set of weak references cannot be copied safely in the middle of a change.
_OPEN: "dict[int, weakref.ref[OneProcess]]" = {}


class OneProcess:
    """Base class of objects that are open in one process.

    A subclass calls `remember_process` when it has been opened, and `check_process` first in every
    method, before it takes a lock.
    """

    _process = 0

    def remember_process(self) -> None:
        """Bind the object to this process."""
        self._process = os.getpid()
        key = id(self)
        _OPEN[key] = weakref.ref(self, lambda _: _OPEN.pop(key, None))

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that opened the object."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        """Raise `ForkedError` in a child of the process that opened the object."""
        if self._process != os.getpid():
            raise forked_error(self._process)

    def native_handles(self) -> Iterable[object]:
        """Return the objects that must not be destroyed in a child."""
        return ()

    def enter_child(self) -> None:
        """Prepare the object for being in a child; called right after the fork."""
        for handle in self.native_handles():
            if handle is not None:
                # One reference too many: not even the end of the child destroys it.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def forked_error(process: int) -> ForkedError:
    """Return the error for a use in a child."""
    return ForkedError(
        f"this corpus was opened in process {process}, and process {os.getpid()} is a child of it "
        "(fork). Only the process that opened a corpus can use it: pass URLs and outcomes to that "
        "process. This one may open the corpus with read_only=True."
    )


class ProcessLock:
    """A reentrant lock of an object; in a child it raises instead of waiting for ever.

    Parameters
    ----------
    lock
        Lock to hold.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that created the lock."""
        return self._process != os.getpid()

    def __enter__(self) -> bool:
        if self._process != os.getpid():
            raise forked_error(self._process)
        return bool(self._lock.__enter__())

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)


def _enter_child() -> None:
    if _OPEN:
        # Garbage of the parent may still contain such objects; the child must not collect it.
        gc.freeze()
    for reference in list(_OPEN.values()):
        opened = reference()
        if opened is not None:
            opened.enter_child()


os.register_at_fork(after_in_child=_enter_child)
