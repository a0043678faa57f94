"""Checks of what a corpus runs on: versions, compiled kernels, disk space, clock."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from recrawl.corpus.doctor.findings import Finding, bad, ok, warn
from recrawl.node.clock import Clock
from recrawl.node.shipped_due_table import cache_folder
from recrawl.units import seconds_text

__all__ = ["clock_check", "disk_check", "kernels_check", "versions_check"]

_FREE_BYTES_MIN = 1 << 30
_FREE_BYTES_BAD = 64 << 20
_AHEAD_SECONDS_MAX = 60.0
_AHEAD_SECONDS_BAD = 86_400.0


def versions_check() -> Iterator[Finding]:
    """Yield the versions of Python and of what recrawl needs."""
    names = [name for name in requires("recrawl") or () if "extra ==" not in name]
    found, missing = [], []
    for requirement in names:
        name = "".join(c for c in requirement.split(";")[0].partition(" ")[0] if c not in "<>=~!")
        name = name.rstrip("0123456789.,")
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    own = f"recrawl {version('recrawl')}, Python {platform.python_version()}"
    if missing:
        yield bad("versions", f"{own}; missing: {', '.join(missing)}", "Install recrawl again.")
    else:
        yield ok("versions", ", ".join([own, *found]))


def kernels_check() -> Iterator[Finding]:
    """Yield whether compiled kernels are kept, so that commands start fast."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield warn(
            "kernels",
            "compiling is switched off by NUMBA_DISABLE_JIT: everything is slow",
            "Unset NUMBA_DISABLE_JIT.",
        )
        return
    folders = _kernel_folders()
    n_kept = sum(1 for folder in folders for _ in folder.rglob("*.nbi"))
    is_writable = all(os.access(_existing(folder), os.W_OK) for folder in folders)
    where = str(folders[0])
    if n_kept == 0 and not is_writable:
        yield bad(
            "kernels",
            f"compiled code cannot be kept in {where}: every command compiles for minutes",
            "Set NUMBA_CACHE_DIR to a folder that can be written to.",
        )
    elif n_kept == 0:
        yield warn(
            "kernels",
            "nothing is compiled yet: the first commands take longer",
            "`recrawl doctor --compile` does it at once.",
        )
    else:
        yield ok("kernels", f"{n_kept} compiled, kept in {where}")


def _kernel_folders() -> list[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    package = Path(__file__).parents[2]
    return [package / "core", package / "shard", package / "runtime"]


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that there is."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def disk_check(folder: Path) -> Iterator[Finding]:
    """Yield whether there is room for the log to grow and for the next snapshot."""
    free = shutil.disk_usage(folder).free
    used = sum(
        path.stat().st_size
        for path in folder.glob("snapshots/*/*/columns")
        if path.is_file() and not path.is_symlink()
    )
    needed = max(2 * used, _FREE_BYTES_MIN)
    what = f"{_size(free)} free"
    if free < _FREE_BYTES_BAD:
        yield bad("disk", f"{what}: the log cannot grow", "Make room on the disk.")
    elif free < needed:
        yield warn("disk", f"{what}; {_size(needed)} would be better", "Make room on the disk.")
    else:
        yield ok("disk", what)
    cache = cache_folder()
    if not os.access(_existing(cache), os.W_OK):
        yield warn(
            "cache",
            f"{cache} cannot be written to: a table is made anew by every command",
            "Set XDG_CACHE_HOME to a folder that can be written to.",
        )


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.0f} {unit}" if n_bytes >= 10 else f"{n_bytes:.1f} {unit}"


def clock_check(clock: Clock, log_ms: int) -> Iterator[Finding]:
    """Yield whether the machine's clock is behind the time that the log has reached."""
    ahead = (log_ms - clock.wall_ms()) / 1000
    if ahead <= _AHEAD_SECONDS_MAX:
        yield ok("clock", "not behind the log")
        return
    what = f"the machine's clock is {seconds_text(ahead)} behind the log's time"
    todo = "Set the clock right; until it has caught up, time goes on from the log's."
    yield (bad if ahead > _AHEAD_SECONDS_BAD else warn)("clock", what, todo)
