"""Compile kernels that other kernels call, without what only calls from Python need.

The code of such a kernel becomes part of the kernels that call it.  So it needs no function that
converts Python objects, no machine code of its own, and no file in the cache, which together take
longer than the rest.  A kernel that is also called from Python is compiled once more for that.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags

__all__ = ["KernelCompiler", "compile_for_callers"]


class _NoEnvironment:
    """Stands for the code generator where numba would enter a function that can be called."""

    def set_env(self, name: str, environment: object) -> None:
        """Enter nothing."""


class _LinkedLibrary(JITCodeLibrary):
    """Optimised code that is only linked into other code."""

    @property
    def codegen(self) -> _NoEnvironment:
        """Return what numba enters the environment of a function in."""
        return _NoEnvironment()

    def _optimize_final_module(self) -> None:
        # The kernels that call this code are optimised in full, with this code in them.
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False,
            slp_vectorize=False,
            opt=self._codegen._opt_level,
            cost="cheap",
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        del name
        self._ensure_finalized()
        return 0


class _QuickFlags(Flags):
    """Options of a compilation that are compared by what was set.

    numba looks at all options, also those with their default values, whenever it looks up how an
    operator is implemented.
    """

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _QuickFlags) and bool(self._values == other._values)


class KernelCompiler(Compiler):
    """The compiler of kernels that are called from Python."""

    def __init__(
        self,
        typing: Any,
        target: Any,
        library: Any,
        kinds: Any,
        returned: Any,
        flags: Any,
        local_kinds: Any,
    ) -> None:
        super().__init__(typing, target, library, kinds, returned, _QuickFlags(flags), local_kinds)


class _LinkedCompiler(KernelCompiler):
    """The compiler of kernels that are called from other kernels."""

    def __init__(self, typing: Any, target: Any, library: Any, *arguments: Any) -> None:
        super().__init__(
            typing, target, library or _LinkedLibrary(target.codegen(), "called kernel"), *arguments
        )


def compile_for_callers(function: Callable[..., object], flags: dict[str, Any]) -> Any:
    """Return a compiled kernel that only other kernels can call."""
    njit: Any = numba.njit  # its types lack some of its options
    return njit(
        **{**flags, "cache": False},
        no_cpython_wrapper=True,
        pipeline_class=_LinkedCompiler,
    )(function)
