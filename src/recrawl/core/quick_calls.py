"""Call a kernel from Python without finding out the types of its arguments at every call.

numba looks at every column of every table before it enters the code that it compiled for their
types.  For a kernel that works on one row, this takes ten times as long as the work.  The columns
of a table do not change their types, so it is enough to recognise the table.
"""

from collections.abc import Callable
from functools import update_wrapper
from operator import attrgetter
from typing import Any, TypeVar, cast
from weakref import ref

import numpy as np

from recrawl.core.kernel import extends_numba

__all__ = ["quick_call"]

_F = TypeVar("_F", bound=Callable[..., object])
# Whether an array is contiguous, aligned and writeable; numba compiles other code if not.
_FLAGS = 0x001 | 0x100 | 0x400
# Such flags of columns, together with those that do not matter: also contiguous by columns, and
# owner of its memory.
_READ_ONLY = {0x001 | 0x100 | more for more in (0, 2, 4, 6)}
_WRITEABLE = {flags | 0x400 for flags in _READ_ONLY}
_ONLY_ARRAYS = {np.ndarray}
_dtype_of, _ndim_of, _flags_of = attrgetter("dtype"), attrgetter("ndim"), attrgetter("flags.num")
_NUMBERS = frozenset((int, float, bool, np.int64, np.float64, np.uint64, np.bool_))
# Number of tables that are recognised, a few hundred bytes each: those of 256 partitions and more.
_TABLES_MAX = 16_384
# Number of attempts to find the code of a kernel.
_ATTEMPTS_MAX = 16

# By the place in memory of a table's first column: that column, and the kind of the table.
_tables: dict[int, tuple[Callable[[], Any], tuple[type, list[object]]]] = {}
# The latest kind of each class of tables.
_kinds: dict[type, tuple[type, list[object]]] = {}


def quick_call(kernel: _F) -> _F:
    """Return a function that calls a kernel, for calls with a few rows; it takes no keywords.

    Arguments that it does not recognise go numba's own way, and are recognised the next time.
    """
    if not hasattr(kernel, "overloads") or not extends_numba():
        return kernel
    return cast(_F, _QuickCall(kernel))


class _QuickCall:
    """A kernel, and the code that numba compiled for the kinds of arguments seen last."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        # In one object, because several threads call a kernel.
        self._known: tuple[list[object], Callable[..., object]] = ([], kernel)
        self._n_attempts = 0
        update_wrapper(self, kernel.py_func)

    def __call__(self, *arguments: Any) -> object:
        kinds, code = self._known
        if list(map(_kind_of, arguments)) == kinds:
            return code(*arguments)
        found = self._kernel(*arguments)
        if self._n_attempts < _ATTEMPTS_MAX:
            self._n_attempts += 1
            self._learn(arguments)
        return found

    def _learn(self, arguments: tuple[Any, ...]) -> None:
        kinds = [_kind_of(argument) for argument in arguments]
        if None in kinds:
            return
        compiled = self._kernel.overloads.get(tuple(map(self._kernel.typeof_pyval, arguments)))
        if compiled is not None:
            self._known = (kinds, compiled.entry_point)


def _kind_of(argument: Any) -> object:
    """Return what stands for the type of an argument; None if it is of no known kind."""
    kind = type(argument)
    if kind is np.ndarray:
        return argument.dtype, argument.ndim, argument.flags.num & _FLAGS
    if kind in _NUMBERS:
        return kind
    if not (isinstance(argument, tuple) and argument):
        return None
    first = argument[0]
    if type(first) is np.ndarray:
        # A table of columns is known by the first of them: a table that has grown has other ones,
        # and what was forgotten here must not keep them in memory.
        known = _tables.get(id(first))
        if known is not None and known[0]() is first and known[1][0] is kind:
            return known[1]
    types = [*map(type, argument)]
    distinct = {*types}
    if distinct <= _NUMBERS:
        return kind, types
    if distinct != _ONLY_ARRAYS:
        others = [_kind_of(one) for one in argument if type(one) not in _NUMBERS]
        return None if None in others else (kind, types, others)
    # Without loops in Python: a batch of events has other columns the next time.
    found = (kind, [*map(_dtype_of, argument), *map(_ndim_of, argument)])
    flags = {*map(_flags_of, argument)}
    if flags <= _READ_ONLY:
        return found
    return _remember(first, found) if flags <= _WRITEABLE else None


def _remember(first: Any, kind: tuple[type, list[object]]) -> object:
    """Return the kind of a table, after noting by which column it is known."""
    if len(_tables) >= _TABLES_MAX:
        _tables.clear()
    # Equal ones become the same one, which is compared faster.
    latest = _kinds.setdefault(kind[0], kind)
    if latest == kind:
        kind = latest
    else:
        _kinds[kind[0]] = kind
    key = id(first)
    _tables[key] = (ref(first, lambda _: _tables.pop(key, None)), kind)
    return kind
