"""Choose once per process whether kernels are compiled or interpreted.

Compiled kernels are a hundred times faster, but take a second to load, and a minute to compile on
a machine that has never run them.  Interpreted kernels are the same functions as plain Python: they
compute the same state from the same log, and start at once.  A short command on a small corpus ends
before the compiler would be loaded; a process that runs for longer should use compiled kernels.

Compiled code is kept in a folder.  Where no folder can be written to, as in a container with a
read-only file system, kernels are compiled in memory, in every process again.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

__all__ = [
    "MODE_VARIABLE",
    "KernelMode",
    "accept_read_only_folders",
    "kernel_folder",
    "kernel_mode",
    "uncached_notice",
    "use_kernels",
    "user_cache_folder",
]

KernelMode: TypeAlias = Literal["compiled", "interpreted"]

MODE_VARIABLE = "RECRAWL_KERNELS"
"""The environment variable by which users choose the mode."""
_MODES: tuple[KernelMode, ...] = ("compiled", "interpreted")

_UNCACHED = (
    "No folder for compiled code can be written to.  What is not compiled yet is compiled in "
    "memory, which may take a minute in every process.\n"
    "Set NUMBA_CACHE_DIR to a folder that can be written to."
)

# The mode is global because a kernel is created once, when its module is imported.
_chosen: KernelMode | None = None
_is_final = False
_is_noticed = False


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


def user_cache_folder() -> Path:
    """Return the user's folder for files that can be made again; it need not exist.

    A user without a home, as some containers have, gets a path that nobody can create.
    """
    chosen = os.environ.get("XDG_CACHE_HOME")
    home = os.path.expanduser("~")  # unlike Path.home(), raises no error
    if not chosen and not os.path.isabs(home):
        return Path(os.devnull, "cache")
    return Path(chosen or Path(home, ".cache"))


@cache
def kernel_folder() -> Path | None:
    """Return the folder for compiled code, as numba chooses it; None if none can be written to."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parent / "core" / "__pycache__"
    places = [Path(chosen)] if chosen else []
    for folder in (*places, beside, user_cache_folder() / "numba"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


def uncached_notice() -> str | None:
    """Return a message for the user if compiled code cannot be kept; the second time None."""
    global _is_noticed  # noqa: PLW0603
    if _is_noticed or kernel_mode() != "compiled" or kernel_folder() is not None:
        return None
    _is_noticed = True
    return _UNCACHED


@contextmanager
def accept_read_only_folders() -> Iterator[None]:
    """Let numba use a folder with compiled code that exists and cannot be written to."""
    from numba.core.caching import _CacheLocator  # noqa: PLC0415

    locators: Any = _CacheLocator
    check = locators.ensure_cache_path

    def check_that_it_exists(locator: Any) -> None:
        if not Path(locator.get_cache_path()).is_dir():
            raise FileNotFoundError(locator.get_cache_path())

    locators.ensure_cache_path = check_that_it_exists
    try:
        yield
    finally:
        locators.ensure_cache_path = check
