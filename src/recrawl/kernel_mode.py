"""Whether kernels are compiled or interpreted: chosen once per process, before the first is made.

Compiled kernels are a hundred times faster, and take a second to load and a minute to compile on
a machine that has never run them.  Interpreted ones are the same functions as plain Python: they
make the same state of the same log, and begin at once.  A short command on a small corpus is done
before a compiler is loaded; a process that works for longer wants the compiler.
"""

import os
from typing import Literal, TypeAlias

__all__ = ["VARIABLE", "KernelMode", "kernel_mode", "use_kernels"]

KernelMode: TypeAlias = Literal["compiled", "interpreted"]

VARIABLE = "RECRAWL_KERNELS"
"""The environment variable by which a user chooses."""
_MODES: tuple[KernelMode, ...] = ("compiled", "interpreted")

# One per process, as modules are: a kernel is made when the module that it is in is imported.
_chosen: KernelMode | None = None
_is_settled = False


def use_kernels(mode: KernelMode) -> KernelMode:
    """Choose for this process, unless the user did by the environment; return what holds.

    Parameters
    ----------
    mode
        ``"compiled"`` or ``"interpreted"``.

    Raises
    ------
    RuntimeError
        If kernels have been made already in the other mode.
    """
    global _chosen  # noqa: PLW0603
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    held = _told() or mode
    if _is_settled and held != kernel_mode():
        raise RuntimeError(f"kernels are {kernel_mode()} already: choose before the first import")
    _chosen = held
    return held


def kernel_mode() -> KernelMode:
    """Return how kernels are made in this process; from the first call on, that is settled."""
    global _chosen, _is_settled  # noqa: PLW0603
    if _chosen is None:
        _chosen = _told() or "compiled"
    _is_settled = True
    return _chosen


def _told() -> KernelMode | None:
    """Return what the environment says."""
    told = os.environ.get(VARIABLE)
    if not told:
        return None
    if told not in _MODES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(_MODES)}, got {told!r}")
    return told
