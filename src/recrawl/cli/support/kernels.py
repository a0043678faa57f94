"""The choice between compiled and interpreted kernels, so that short commands start fast.

Loading numba takes a second, and compiling the kernels of a command up to two minutes, once per
version.  Interpreted kernels start at once and compute the same state, but take a hundred times as
long for each page.  So a command runs interpreted on a small corpus and compiled on a large one,
and prints a notice if it has to compile first.

A command calls `choose_kernels` before it imports anything of `recrawl.corpus`.
"""

import atexit
import hashlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from recrawl.atomic_files import replace_file
from recrawl.cli.support.output import Output, print_note
from recrawl.kernel_mode import (
    MODE_VARIABLE,
    KernelMode,
    kernel_folder,
    uncached_notice,
    use_kernels,
    user_cache_folder,
)

if TYPE_CHECKING:
    from recrawl.corpus import Outcome

__all__ = [
    "COMPILE_TIME_TEXT",
    "choose_kernels",
    "compile_all",
    "compile_and_show",
    "interpreted_seconds",
    "is_compiled",
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

COMPILE_TIME_TEXT = "once per version, up to two minutes"
_COMPILING = (
    f"First run of this command: compiling ({COMPILE_TIME_TEXT}) …\n"
    "`recrawl doctor --compile` compiles all commands at once."
)
COMPILED_ABOUT = 310
"""Number of functions that `compile_all` compiles, for a progress bar; it need not be exact."""
_LINE_SECONDS = 30.0
_LOOK_SECONDS = 0.2
# Two parts of `compile_all` that take about the same time, one for each process.
_Part = Literal["telling", "asking"]
_PARTS: tuple[_Part, ...] = ("telling", "asking")


def choose_kernels(
    folder: Path, *, command: str, n_bytes_input: int | None = 0, compiles_first: bool = False
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
    """
    seconds = interpreted_seconds(folder, command=command, n_bytes_input=n_bytes_input)
    is_short = seconds <= _INTERPRETED_SECONDS_MAX
    if not is_short and seconds <= _INTERPRETED_SECONDS_MAX_UNCACHED and kernel_folder() is None:
        is_short = not is_compiled(command)
    if not is_short and seconds <= _INTERPRETED_SECONDS_MAX_COLD:
        # Checked last, because it looks at every source file.
        is_short = not is_compiled(command)
    mode = _apply_mode("interpreted" if is_short else "compiled")
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
        atexit.register(_record_compiled, [command])


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


# ---------------------------------------------------------------------- compiled commands


def is_compiled(command: str | None = None) -> bool:
    """Return whether the kernels of a command (by default: of all) are compiled on this machine."""
    done = _compiled_commands()
    return "*" in done or (command is not None and command in done)


def _compiled_notes_path() -> Path:
    """Return the path of the file that lists the commands whose kernels are compiled.

    Its name depends on the source files, the interpreter and the folder for compiled code.
    """
    import recrawl  # noqa: PLC0415

    digest = hashlib.sha256(repr((sys.version, os.environ.get("NUMBA_CACHE_DIR"))).encode())
    package = Path(recrawl.__path__[0])
    for source in sorted(package.rglob("*.py")):
        at = source.stat()
        digest.update(repr((str(source), at.st_mtime_ns, at.st_size)).encode())
    return user_cache_folder() / "recrawl" / f"compiled-{digest.hexdigest()[:24]}"


def _compiled_commands() -> set[str]:
    try:
        return set(_compiled_notes_path().read_text().split())
    except (OSError, ValueError):
        return set()


def _record_compiled(commands: Sequence[str]) -> None:
    """Record that the kernels of these commands are compiled, if the file can be written."""
    path = _compiled_notes_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = sorted({*_compiled_commands(), *commands})
        with replace_file(path) as file:
            file.write("".join(f"{command}\n" for command in known).encode())
    except OSError:
        return


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


def compile_all(on_compiled: Callable[[int], None] = lambda _: None) -> None:
    """Compile the kernels of all commands, in two processes.

    Parameters
    ----------
    on_compiled
        Function that is called several times a second, with the number of functions that were
        compiled since the last call.

    Raises
    ------
    RuntimeError
        If a process fails; the message ends with its error output.
    """
    environment = {**os.environ, MODE_VARIABLE: "compiled"}
    with ExitStack() as stack:
        # Files, because a pipe that nobody reads would block its process.
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in _PARTS]
        processes = []
        for part, file in zip(_PARTS, errors, strict=True):
            command = f"from {__name__} import _exercise_kernels; _exercise_kernels({part!r})"
            process = subprocess.Popen(
                [sys.executable, "-c", command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=file,
            )
            stack.callback(_end_process, process)
            processes.append(process)
        _count_bytes([process.stdout for process in processes if process.stdout], on_compiled)
        for process, file in zip(processes, errors, strict=True):
            if process.wait() != 0:
                file.seek(0)
                text = file.read()[-2_000:].strip()
                raise RuntimeError(f"kernels could not be compiled: {text}")
    _record_compiled(["*"])


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process that is still running, as after Ctrl-C."""
    if process.poll() is None:
        process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _count_bytes(pipes: Sequence[IO[bytes]], on_bytes: Callable[[int], None]) -> None:
    """Read pipes until they end, and call a function with the number of new bytes."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            n_bytes = 0
            for key, _ in selector.select(_LOOK_SECONDS):
                got = os.read(key.fd, 4096)
                n_bytes += len(got)
                if not got:
                    selector.unregister(key.fileobj)
            on_bytes(n_bytes)


def _print_compiled_functions() -> None:
    """Print a byte for each function that this process compiles from now on."""
    from numba.core import event  # noqa: PLC0415

    class _Printer(event.Listener):
        def on_start(self, event: object) -> None:
            del event
            os.write(sys.stdout.fileno(), b".")

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:compile", _Printer())  # type: ignore[no-untyped-call]


def _exercise_kernels(part: _Part) -> None:
    """Run the operations of the commands on a small corpus, which compiles their kernels."""
    _print_compiled_functions()
    import recrawl  # noqa: PLC0415
    from recrawl.corpus import CorpusConfig, Outcome  # noqa: PLC0415

    urls = [f"https://host-{i % 5}.example.com/page/{i}" for i in range(50)]
    settings: dict[str, Any] = {
        "politeness": {"delay": "1s", "in_flight_max": 9},
        "budget": {"rate": "9/s"},
        # As `recrawl run` writes it.
        "pattern": [{"match": "*", "kind": "page", "min_age": "10m"}],
    }
    with tempfile.TemporaryDirectory() as folder:
        for picker in ("scan", "sweep"):
            config = CorpusConfig.from_dict(settings | {"picker": {"kind": picker}})
            with recrawl.open(Path(folder) / picker, config) as corpus:
                corpus.add(urls)
                if part == "telling":
                    orders = corpus.lease(0)
                    corpus.report([Outcome(url=url, digest=b"1") for url in urls[:3]])
                    corpus.signal(urls[:3], source="sitemap")
                    corpus.requests(urls[:3])
                    corpus.set(urls[:3], importance=2.0)
                    corpus.snapshot()
                    corpus.remove(urls[3:4])
                else:
                    orders = corpus.lease(20)
                    corpus.release([order.handle for order in orders])
                    corpus.stats()
                    corpus.plan()
                    corpus.explain(urls[1])
                    corpus.set(urls[:1], importance=0.0, max_age=3_600.0, kind="sitemap or feed")
                    for n_rows in (1, 3):
                        corpus.report([_outcome_with_body(url, n_rows) for url in urls[:3]])


def _outcome_with_body(url: str, n_rows: int) -> "Outcome":
    """Return an outcome with a small page, so that the kernels that compare pages are compiled."""
    from recrawl.corpus import Outcome  # noqa: PLC0415

    rows = "".join(
        f"<p>Paragraph {i} says what a page may say, in some words." for i in range(n_rows)
    )
    return Outcome(url=url, body=f"<h1>{url}</h1>{rows}".encode(), content_type="text/html")
