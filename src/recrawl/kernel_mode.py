"""Choose once per process whether kernels are compiled or interpreted.

Compiled kernels are a hundred times faster, but take a second to load, and a minute to compile on
a machine that has never run them.  Interpreted kernels are the same functions as plain Python: they
compute the same state from the same log, and start at once.  A short command on a small corpus ends
before the compiler would be loaded; a process that runs for longer should use compiled kernels.
"""

import os
from typing import Literal, TypeAlias

__all__ = ["MODE_VARIABLE", "KernelMode", "kernel_mode", "use_kernels"]

KernelMode: TypeAlias = Literal["compiled", "interpreted"]

MODE_VARIABLE = "RECRAWL_KERNELS"
"""The environment variable by which users choose the mode."""
_MODES: tuple[KernelMode, ...] = ("compiled", "interpreted")

# The mode is global because a kernel is created once, when its module is imported.
_chosen: KernelMode | None = None
_is_final = False


def use_kernels(mode: KernelMode) -> KernelMode:
    """Set the mode of this process, unless the environment sets it; return the mode in effect.

    Parameters
    ----------
    mode
        ``"compiled"`` or ``"interpreted"``.

    Raises
    ------
    RuntimeError
        If kernels exist already in the other mode.
    """
    global _chosen  # noqa: PLW0603
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    effective = _mode_from_environment() or mode
    if _is_final and effective != kernel_mode():
        raise RuntimeError(
            f"kernels are {kernel_mode()} already; call use_kernels before importing any kernel"
        )
    _chosen = effective
    return effective


def kernel_mode() -> KernelMode:
    """Return the mode of this process; the first call makes it final."""
    global _chosen, _is_final  # noqa: PLW0603
    if _chosen is None:
        _chosen = _mode_from_environment() or "compiled"
    _is_final = True
    return _chosen


def _mode_from_environment() -> KernelMode | None:
    """Return the mode that the environment variable sets, None if it is not set."""
    mode = os.environ.get(MODE_VARIABLE)
    if not mode:
        return None
    if mode not in _MODES:
        raise ValueError(f"{MODE_VARIABLE} must be one of {', '.join(_MODES)}, got {mode!r}")
    return mode
