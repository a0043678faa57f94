"""Compilation of kernels: the one place that decides how, and whether."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from recrawl.kernel_mode import accept_read_only_folders, kernel_mode

__all__ = ["IS_COMPILED", "extends_numba", "ignore_overflow", "kernel", "table_kernel"]

_F = TypeVar("_F", bound=Callable[..., object])
_FLAGS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "no_cfunc_wrapper": True,  # for callers in C, which do not exist
}

# Versions of numba with which the modules that use its internals were tried.
_VERSIONS_EXTENDED = {(0, minor) for minor in range(63, 69)}

IS_COMPILED = kernel_mode() == "compiled"
"""Whether kernels are compiled.  If not, they run as plain Python, and numba, which takes a
second to load, is not imported."""


def kernel(function: _F) -> _F:
    """Compile ``function`` with the project's numba flags, keeping its Python types.

    ``fastmath`` stays off: kernels meet inf and nan, and replaying a log must give the same
    bits every time.  Compiled code is cached beside the package (or in ``NUMBA_CACHE_DIR``), or
    only in memory if that cannot be written to, and runs without the interpreter's lock.
    """
    return _compile(function, _FLAGS)


def table_kernel(function: _F) -> _F:
    """Compile a kernel that takes whole tables, and neither makes nor returns arrays.

    Such a kernel only borrows its columns, so the flag turns reference counting off: counting the
    references to all columns at every call takes ten times as long as most kernels work on a
    row.  A kernel that does make an array fails to compile.
    """
    if IS_COMPILED and extends_numba():
        _pass_tables_by_pointer(function)
    return _compile(function, {**_FLAGS, "_nrt": False})  # an undocumented flag of numba


def ignore_overflow(kernel: _F) -> _F:
    """Return a kernel that computes with numbers that wrap, whether it is compiled or not.

    Compiled code wraps anyway.  Plain Python would warn, and setting this aside at every call takes
    as long as some kernels do.
    """
    if hasattr(kernel, "py_func"):
        return kernel

    @wraps(kernel)
    def run(*arguments: Any) -> object:
        with np.errstate(over="ignore"):
            return kernel(*arguments)

    return cast(_F, run)


def _compile(function: _F, flags: dict[str, Any]) -> _F:
    if not IS_COMPILED:
        return function
    compiled = _with_cache(function, flags)
    if compiled is not function:  # numba is not disabled
        _compile_once_per_kind(compiled, function, flags)
        _tolerate_broken_cache(compiled._cache)
    return cast(_F, compiled)


@cache
def extends_numba() -> bool:
    """Return whether the modules that extend numba know its version.

    They use what numba may change at any time.  With another version, kernels are compiled in
    numba's own way, which takes several times as long and gives the same results.
    """
    import numba  # noqa: PLC0415

    numbers = numba.__version__.split(".")[:2]
    return all(map(str.isdigit, numbers)) and tuple(map(int, numbers)) in _VERSIONS_EXTENDED


def _pass_tables_by_pointer(function: Callable[..., object]) -> None:
    from recrawl.core.table_type import pass_by_pointer  # noqa: PLC0415

    for parameter in signature(function).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            pass_by_pointer(kind)


def _with_cache(function: Callable[..., object], flags: dict[str, Any]) -> Any:
    """Return the compiled function, with the best cache that there is.

    numba raises RuntimeError if it finds no folder that can be written to.  A container with a
    read-only file system may still have a folder with code that was compiled before.
    """
    from numba import njit  # noqa: PLC0415

    if extends_numba():
        from recrawl.core.called_kernels import KernelCompiler  # noqa: PLC0415

        flags = {**flags, "pipeline_class": KernelCompiler}
    with suppress(RuntimeError):
        return njit(**flags)(function)
    with suppress(RuntimeError), accept_read_only_folders():
        return njit(**flags)(function)
    return njit(**{**flags, "cache": False})(function)


def _tolerate_broken_cache(cache: Any) -> None:
    """Compile again where the cache cannot be used, and go on where it cannot be written.

    numba reads the index of a cache before it compares the source, so an upgrade that renames a
    table would otherwise fail with an AttributeError or ImportError.  The folder may be read-only,
    or its disk full.
    """
    load, save = cache.load_overload, cache.save_overload

    def load_overload(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except (AttributeError, ImportError):
            with suppress(OSError):
                cache.flush()
            return None
        except OSError:
            return None

    def save_overload(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    cache.load_overload = load_overload
    cache.save_overload = save_overload


def _compile_once_per_kind(
    dispatcher: Any, function: Callable[..., object], flags: dict[str, Any]
) -> None:
    """Let calls from other kernels share one compiled version, which only they can call.

    numba compiles a kernel again for each literal that is passed to it, and for each width of an
    integer.  Here a literal counts as its type, and an integer that a parameter annotated ``int``
    holds without loss counts as 64 bits; the caller converts it.  Floats keep their width, since
    arithmetic in another one gives other bits.
    """
    import numba  # noqa: PLC0415

    types: Any = numba.types
    widened: set[int | str] = set()  # places and names of parameters
    for place, (name, parameter) in enumerate(signature(function).parameters.items()):
        if parameter.annotation is int:
            widened |= {place, name}

    @cache
    def for_callers() -> Any:
        from recrawl.core.called_kernels import compile_for_callers  # noqa: PLC0415

        return compile_for_callers(function, flags)

    own_template = dispatcher.get_call_template

    def resolve(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        if extends_numba():
            return for_callers().get_call_template(args, kws)
        return own_template(args, kws)

    def shared_kind(parameter: int | str, argument: Any) -> Any:
        plain = types.unliteral(argument)
        is_narrow = isinstance(plain, types.Integer) and plain.bitwidth < types.int64.bitwidth
        return types.int64 if is_narrow and parameter in widened else plain

    def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        by_place = tuple(shared_kind(place, kind) for place, kind in enumerate(args))
        return resolve(
            by_place, {name: shared_kind(name, kind) for name, kind in dict(kws).items()}
        )

    dispatcher.get_call_template = get_call_template
    if not extends_numba():
        return
    dispatcher.get_overload = lambda kinds: for_callers().get_overload(kinds)
    dispatcher.for_callers = for_callers
