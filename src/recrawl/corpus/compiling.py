"""Compile the kernels of all operations in advance, and remember which are compiled.

numba keeps compiled code in a folder, but cannot say in advance what is missing.  So a file beside
it lists the commands whose kernels were compiled with these source files.
"""

import hashlib
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from recrawl.atomic_files import replace_file
from recrawl.kernel_mode import MODE_VARIABLE, user_cache_folder

if TYPE_CHECKING:
    from recrawl.corpus import Outcome

__all__ = ["COMPILED_ABOUT", "COMPILE_TIME_TEXT", "compile_all", "is_compiled", "record_compiled"]

COMPILE_TIME_TEXT = "once per version, up to a minute, or longer if the machine is busy"
COMPILED_ABOUT = 312
"""Number of functions that `compile_all` compiles, for a progress bar; it need not be exact."""
_LOOK_SECONDS = 0.2


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


def record_compiled(commands: Sequence[str]) -> None:
    """Record that the kernels of these commands are compiled, if the file can be written."""
    path = _compiled_notes_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = sorted({*_compiled_commands(), *commands})
        with replace_file(path) as file:
            file.write("".join(f"{command}\n" for command in known).encode())
    except OSError:
        return


def compile_all(on_compiled: Callable[[int], None] = lambda _: None) -> None:
    """Compile the kernels of all commands, in another process, which Ctrl-C can stop.

    Parameters
    ----------
    on_compiled
        Function that is called several times a second, with the number of functions that were
        compiled since the last call.

    Raises
    ------
    RuntimeError
        If the process fails; the message ends with its error output.
    """
    command = f"from {__name__} import _exercise_kernels; _exercise_kernels()"
    with ExitStack() as stack:
        # A file, because a pipe that nobody reads would block the process.
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        # One process: most of what commands need is the same, so two would compile it twice.
        process = subprocess.Popen(
            [sys.executable, "-c", command],
            env={**os.environ, MODE_VARIABLE: "compiled"},
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        stack.callback(_end_process, process)
        if process.stdout is not None:
            _count_bytes(process.stdout, on_compiled)
        if process.wait() != 0:
            errors.seek(0)
            text = errors.read()[-2_000:].strip()
            raise RuntimeError(f"kernels could not be compiled: {text}")
    record_compiled(["*"])


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a process that is still running, as after Ctrl-C."""
    if process.poll() is None:
        process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _count_bytes(pipe: IO[bytes], on_bytes: Callable[[int], None]) -> None:
    """Read a pipe until it ends, and call a function with the number of new bytes."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            n_bytes = 0
            if selector.select(_LOOK_SECONDS):
                n_bytes = len(os.read(pipe.fileno(), 4096))
                if n_bytes == 0:
                    return
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


def _exercise_kernels() -> None:
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
                corpus.report([Outcome(url=url, digest=b"1") for url in urls[:3]])
                corpus.signal(urls[:3], source="sitemap")
                corpus.requests(urls[:3])
                corpus.set(urls[:3], importance=2.0)
                corpus.snapshot()
                corpus.remove(urls[3:4])
                orders = corpus.lease(20)
                corpus.lease_urls(urls[30:33])
                corpus.release([order.handle for order in orders])
                corpus.stats()
                corpus.sample()
                corpus.plan()
                corpus.explain(urls[1])
                corpus.pages_of_host("host-1.example.com")
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
