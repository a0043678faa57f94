"""The choice between compiled and interpreted kernels, so that short commands start fast.

Loading numba takes a second, and compiling the kernels of a command up to half a minute, once per
version.  Interpreted kernels start at once and compute the same state, but take a hundred times as
long for each page.  So a command runs interpreted on a small corpus and compiled on a large one,
and prints a notice if it has to compile first.

A command calls `choose_kernels` before it imports anything of `recrawl.corpus`.
"""

import atexit
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from recrawl.cli.support.output import Output, print_note
from recrawl.corpus import (
    COMPILE_TIME_TEXT,
    COMPILED_ABOUT,
    compile_all,
    is_compiled,
    record_compiled,
)
from recrawl.kernel_mode import KernelMode, kernel_folder, uncached_notice, use_kernels

__all__ = [
    "choose_kernels",
    "compile_and_show",
    "interpreted_seconds",
    "kernels_exist",
    "require_compiled",
]

# Minimum bytes on disk of a page in the store, and of an added page in the log.
_STORE_BYTES_PER_PAGE = 30.0
_LOG_BYTES_PER_PAGE = 20.0
# Bytes of a row in a log record; outcomes are the shortest rows.
_RECORD_BYTES_PER_PAGE = 12.0
# Only for larger logs it is worth opening the log to measure the part that is not in a snapshot.
_LOGGED_PAGES_MAX = 5_000
# Bytes of one line of input, such as a URL.
_INPUT_BYTES_PER_ROW = 40.0
# Times of interpreted kernels; docs/explanation/start-up.md has the measurements.
_REPLAY_MICROSECONDS_PER_PAGE = 45.0
_MICROSECONDS_PER_ROW = 400.0
_MICROSECONDS_PER_PAGE = {
    "add": 0.0,
    "changes": 0.0,
    "explain": 0.0,
    "plan": 0.01,
    "report": 0.0,
    "signal": 0.0,
    "stats": 0.03,
}
_MICROSECONDS_PER_PAGE_OTHERWISE = 40.0
# Maximum time that a command may run interpreted: the time to load compiled kernels if there are
# any, and a part of the time to compile them otherwise.
_INTERPRETED_SECONDS_MAX = 1.0
_INTERPRETED_SECONDS_MAX_COLD = 4.0
# The same if every process has to compile again.
_INTERPRETED_SECONDS_MAX_UNCACHED = 60.0

_COMPILING = (
    f"First run of this command: compiling ({COMPILE_TIME_TEXT}) …\n"
    "`recrawl doctor --compile` compiles all commands at once."
)
_LINE_SECONDS = 30.0


def choose_kernels(
    folder: Path,
    *,
    command: str,
    n_bytes_input: int | None = 0,
    compiles_first: bool = False,
    before_compiling: Callable[[], None] = lambda: None,
) -> KernelMode:
    """Choose how this process runs its kernels, and print a notice if it has to compile them.

    The environment variable ``RECRAWL_KERNELS`` overrides the choice.

    Parameters
    ----------
    folder
        Folder of the corpus; it may not exist yet.
    command
        Name of the command.
    n_bytes_input
        Size of the input in bytes; None if it is unknown and may be large.
    compiles_first
        Whether everything is compiled now, in other processes and with a progress bar, because
        the command cannot be stopped, nor show anything, while it compiles.
    before_compiling
        Function that is called between the choice and compiling.
    """
    seconds = interpreted_seconds(folder, command=command, n_bytes_input=n_bytes_input)
    is_short = seconds <= _INTERPRETED_SECONDS_MAX
    if not is_short and seconds <= _INTERPRETED_SECONDS_MAX_UNCACHED and kernel_folder() is None:
        is_short = not is_compiled(command)
    if not is_short and seconds <= _INTERPRETED_SECONDS_MAX_COLD:
        # Checked last, because it looks at every source file.
        is_short = not is_compiled(command)
    mode = _apply_mode("interpreted" if is_short else "compiled")
    before_compiling()
    if mode == "compiled":
        if compiles_first and kernel_folder() is not None and not is_compiled(command):
            compile_and_show(Output())
        else:
            _announce_compiling(command)
    return mode


def require_compiled(command: str) -> None:
    """Choose compiled kernels for a long command, and print a notice if it has to compile them."""
    if _apply_mode("compiled") == "compiled":
        _announce_compiling(command)


def kernels_exist() -> bool:
    """Return whether this process has created its kernels already, so that the mode is fixed."""
    return "recrawl.core.kernel" in sys.modules


def _apply_mode(mode: KernelMode) -> KernelMode:
    """Set the mode of kernels and return the one in effect, which the environment may override."""
    try:
        return use_kernels(mode)
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error


def _announce_compiling(command: str) -> None:
    if not is_compiled(command):
        if notice := uncached_notice():
            print_note(notice)
            return
        print_note(_COMPILING)
        atexit.register(record_compiled, [command])


def interpreted_seconds(folder: Path, *, command: str, n_bytes_input: int | None = 0) -> float:
    """Estimate the time of a command on interpreted kernels, from sizes on disk.

    The estimate is rather too long than too short: infinite for a log on another machine.
    """
    # Of the package only this module, which loads no kernels, may be imported here.
    from recrawl.corpus import bytes_to_replay, data_bytes, is_log_remote  # noqa: PLC0415

    if n_bytes_input is None or is_log_remote(folder):
        return float("inf")
    n_pages = data_bytes(folder / "store") / _STORE_BYTES_PER_PAGE
    n_logged = data_bytes(folder / "log") / _LOG_BYTES_PER_PAGE
    if n_logged > _LOGGED_PAGES_MAX:
        n_logged = bytes_to_replay(folder) / _RECORD_BYTES_PER_PAGE
    each = _MICROSECONDS_PER_PAGE.get(command, _MICROSECONDS_PER_PAGE_OTHERWISE)
    n_rows = n_bytes_input / _INPUT_BYTES_PER_ROW
    microseconds = (
        n_pages * each
        + n_logged * _REPLAY_MICROSECONDS_PER_PAGE
        + n_rows * (_MICROSECONDS_PER_ROW + each)
    )
    return microseconds * 1e-6


def compile_and_show(out: Output) -> None:
    """Compile the kernels of all commands, and show how far it is."""
    out.note(f"Compiling for this machine ({COMPILE_TIME_TEXT}); Ctrl-C stops it …")
    n_compiled, shown_at = 0, time.monotonic()
    with out.progress("compiling", COMPILED_ABOUT, unit="functions") as advance:

        def show(n: int) -> None:
            nonlocal n_compiled, shown_at
            n = min(n, COMPILED_ABOUT - n_compiled)
            n_compiled += n
            advance(n)
            if not sys.stderr.isatty() and time.monotonic() - shown_at > _LINE_SECONDS:
                shown_at = time.monotonic()
                out.note(f"Compiled {n_compiled} of about {COMPILED_ABOUT} functions …")

        compile_all(show)
