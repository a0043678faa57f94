"""Check the machine: versions, compiled kernels, disk space, clock."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from recrawl.corpus.doctor.check_results import CheckResult, bad, ok, warn
from recrawl.kernel_mode import kernel_folder
from recrawl.node.clock import Clock
from recrawl.node.shipped_due_table import cache_folder
from recrawl.units import seconds_text

__all__ = ["clock_check", "disk_check", "kernels_check", "versions_check"]

_FREE_BYTES_MIN = 1 << 30
_FREE_BYTES_BAD = 64 << 20
_AHEAD_SECONDS_MAX = 60.0
_AHEAD_SECONDS_BAD = 86_400.0


def versions_check() -> Iterator[CheckResult]:
    """Check that all required packages are installed, and report their versions."""
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


def kernels_check() -> Iterator[CheckResult]:
    """Check that compiled kernels are cached, so that commands start fast."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield warn(
            "kernels",
            "compiling is switched off by NUMBA_DISABLE_JIT, so everything is slow",
            "Unset NUMBA_DISABLE_JIT.",
        )
        return
    folders = _kernel_folders()
    n_cached = sum(1 for folder in folders for _ in folder.rglob("*.nbi"))
    where = str(folders[0])
    if n_cached == 0 and kernel_folder() is None:
        yield warn(
            "kernels",
            "no folder for compiled code can be written to, so long commands compile again, for "
            "minutes",
            "Set NUMBA_CACHE_DIR to a folder that can be written to.",
        )
    elif n_cached == 0:
        yield warn(
            "kernels",
            "nothing is compiled yet, so the first commands take longer",
            "Run `recrawl doctor --compile` to do it now.",
        )
    else:
        yield ok("kernels", f"{n_cached} compiled functions in {where}")


def _kernel_folders() -> list[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    package = Path(__file__).parents[2]
    return [package / "core", package / "shard", package / "corpus"]


def _nearest_existing(folder: Path) -> Path:
    """Return a folder, or its nearest parent that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def disk_check(folder: Path) -> Iterator[CheckResult]:
    """Check that the disk has room for the log to grow and for the next snapshot."""
    free = shutil.disk_usage(folder).free
    used = sum(
        path.stat().st_size
        for path in folder.glob("snapshots/*/*/columns")
        if path.is_file() and not path.is_symlink()
    )
    needed = max(2 * used, _FREE_BYTES_MIN)
    what = f"{_size(free)} free"
    if free < _FREE_BYTES_BAD:
        yield bad("disk", f"{what}, too little for the log to grow", "Free space on the disk.")
    elif free < needed:
        yield warn("disk", f"{what}; {_size(needed)} are recommended", "Free space on the disk.")
    else:
        yield ok("disk", what)
    cache = cache_folder()
    if not os.access(_nearest_existing(cache), os.W_OK):
        yield warn(
            "cache",
            f"{cache} cannot be written to, so every command computes a table again",
            "Set XDG_CACHE_HOME to a folder that can be written to.",
        )


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            break
        n_bytes /= 1024
    return f"{n_bytes:.0f} {unit}" if n_bytes >= 10 else f"{n_bytes:.1f} {unit}"


def clock_check(clock: Clock, log_ms: int, gap_seconds_max: float) -> Iterator[CheckResult]:
    """Check that the system clock is neither behind the latest time in the log nor far ahead."""
    ahead = (log_ms - clock.wall_ms()) / 1000
    if log_ms > 0 and -ahead > gap_seconds_max:
        what = (
            f"the system clock is {seconds_text(-ahead)} ahead of the latest time in the log, more "
            f"than clock.gap_max ({seconds_text(gap_seconds_max)}), so the corpus cannot be changed"
        )
        todo = (
            "If the clock is wrong, correct it.  If nobody used the corpus for so long, run "
            "`recrawl doctor --accept-clock` once."
        )
        yield bad("clock", what, todo)
        return
    if ahead <= _AHEAD_SECONDS_MAX:
        yield ok("clock", "system clock OK")
        return
    what = f"the corpus is {seconds_text(ahead)} ahead of the system clock"
    todo = (
        "If the clock is wrong, correct it.  If it was wrong before, run `recrawl doctor "
        "--reset-clock`; otherwise recrawl counts on from the log's time until the clock has "
        "caught up."
    )
    yield (bad if ahead > _AHEAD_SECONDS_BAD else warn)("clock", what, todo)
