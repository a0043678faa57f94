"""Which kernels a command runs on, so that a short one is not longer in starting than in working.

Loading numba takes a second, and compiling what a command needs up to half a minute, once per
machine and version.  Interpreted kernels begin at once and make the same state, but take a hundred
times as long for each page.  So a command on a small corpus is interpreted, and one on a large
corpus compiled; where it has to be compiled first, it says so.

A command calls `choose_kernels` before it imports anything of `recrawl.corpus`.
"""

import atexit
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from recrawl.kernel_mode import VARIABLE, KernelMode, use_kernels

__all__ = [
    "are_made",
    "choose_kernels",
    "compile_all",
    "interpreted_seconds",
    "is_compiled",
    "require_compiled",
]

_DATA = (".sst", ".log", ".blob")
# Bytes on disk of a page in the store, and of a page in the log when it was added, at the least.
_STORE_BYTES_PER_PAGE = 30.0
_LOG_BYTES_PER_PAGE = 20.0
# The same of a row in a record of the log, which RocksDB compresses: outcomes are shortest.
_RECORD_BYTES_PER_PAGE = 12.0
# A log of more pages than so many is opened to see how much of it no snapshot holds, up to a limit.
_LOGGED_PAGES_MAX = 5_000
_REPLAYED_BYTES_MAX = 10_000_000
# Of one line of input, such as a URL.
_INPUT_BYTES_PER_ROW = 40.0
# What interpreted kernels take, in microseconds; docs/explanation/start-up.md has the measurements.
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
# A command may be interpreted for so long: where its kernels are compiled, what loading them
# takes; otherwise a part of what compiling takes.
_INTERPRETED_SECONDS_MAX = 1.0
_INTERPRETED_SECONDS_MAX_COLD = 4.0

_COMPILING = (
    "Compiling what this needs, which takes up to half a minute, once per machine and version.  "
    "`recrawl doctor --compile` does it for all commands."
)
# What `compile_all` shares out between processes, of about the same length each.
_Part = Literal["telling", "asking"]
_PARTS: tuple[_Part, ...] = ("telling", "asking")


def choose_kernels(folder: Path, *, command: str, n_bytes_input: int | None = 0) -> KernelMode:
    """Choose how this process runs its kernels, and say so if they must be compiled first.

    The environment variable ``RECRAWL_KERNELS`` goes before.

    Parameters
    ----------
    folder
        Of the corpus; it may not exist yet.
    command
        Its name, as the user types it.
    n_bytes_input
        Of what the command will read; None if that is not known, and so may be much.
    """
    seconds = interpreted_seconds(folder, command=command, n_bytes_input=n_bytes_input)
    is_short = seconds <= _INTERPRETED_SECONDS_MAX
    if not is_short and seconds <= _INTERPRETED_SECONDS_MAX_COLD:
        # Only here it matters; finding out looks at every source file.
        is_short = not is_compiled(command)
    mode = _used("interpreted" if is_short else "compiled")
    if mode == "compiled":
        _tell(command)
    return mode


def require_compiled(command: str) -> None:
    """Have a command compiled that works for long in any case, and say so if it is not yet."""
    if _used("compiled") == "compiled":
        _tell(command)


def are_made() -> bool:
    """Return whether kernels are made already, and nothing is left to choose: not our process."""
    return "recrawl.core.kernel" in sys.modules


def _used(mode: KernelMode) -> KernelMode:
    """Return how kernels are made from now on; a name in the environment may be wrong usage."""
    try:
        return use_kernels(mode)
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context(silent=True)) from error


def _tell(command: str) -> None:
    if not is_compiled(command):
        click.echo(_COMPILING, err=True)
        atexit.register(_note_compiled, [command])


def interpreted_seconds(folder: Path, *, command: str, n_bytes_input: int | None = 0) -> float:
    """Return about how long a command takes on interpreted kernels, by sizes on disk.

    Rather too long than too short: inf for a log that is not on this machine.
    """
    if n_bytes_input is None or _is_on_kafka(folder):
        return float("inf")
    n_pages = _n_bytes(folder / "store") / _STORE_BYTES_PER_PAGE
    n_logged = _n_bytes(folder / "log") / _LOG_BYTES_PER_PAGE
    if n_logged > _LOGGED_PAGES_MAX:
        n_logged = _n_bytes_to_replay(folder) / _RECORD_BYTES_PER_PAGE
    each = _MICROSECONDS_PER_PAGE.get(command, _MICROSECONDS_PER_PAGE_OTHERWISE)
    n_rows = n_bytes_input / _INPUT_BYTES_PER_ROW
    microseconds = (
        n_pages * each
        + n_logged * _REPLAY_MICROSECONDS_PER_PAGE
        + n_rows * (_MICROSECONDS_PER_ROW + each)
    )
    return microseconds * 1e-6


def _n_bytes(folder: Path) -> int:
    """Return the size of all data of RocksDB below a folder."""
    return sum(_size(path) for path in folder.rglob("*") if path.suffix in _DATA)


def _size(path: Path) -> int:
    """Return a file's size; 0 if the process that works here has just removed it."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _n_bytes_to_replay(folder: Path) -> float:
    """Return the size of what the log says beyond each partition's newest snapshot, or inf."""
    from recrawl.errors import RecrawlError  # noqa: PLC0415
    from recrawl.ledger import RocksLog  # noqa: PLC0415

    n_bytes = 0
    try:
        n_partitions = int(json.loads((folder / "FORMAT").read_text())["partitions"])
        with contextlib.closing(RocksLog.open(folder / "log", n_partitions, mode="reader")) as log:
            for i in range(n_partitions):
                saved = (folder / "snapshots" / str(i)).glob("*/manifest.json")
                position = max((int(path.parent.name) for path in saved), default=0)
                records = log.partition(i).read(position, n_bytes_max=_REPLAYED_BYTES_MAX)
                n_bytes += sum(len(record.data) for _, record in records)
    except (OSError, ValueError, KeyError, TypeError, RecrawlError):
        return float("inf")  # whoever opens it will say what is wrong
    return n_bytes


def _is_on_kafka(folder: Path) -> bool:
    try:
        shape = json.loads((folder / "FORMAT").read_text())
        return bool(shape["ledger"] != "rocksdb")
    except (OSError, ValueError, KeyError, TypeError):
        return False  # no corpus yet, or opening it will tell


# ---------------------------------------------------------------------- what is compiled


def is_compiled(command: str | None = None) -> bool:
    """Return whether a command's kernels have been compiled here; of all commands unless given."""
    done = _compiled_commands()
    return "*" in done or (command is not None and command in done)


def _notes() -> Path:
    """Return where the names of commands are kept whose kernels were compiled.

    They hold for these sources, this interpreter and this place for compiled code.
    """
    import recrawl  # noqa: PLC0415

    digest = hashlib.sha256(repr((sys.version, os.environ.get("NUMBA_CACHE_DIR"))).encode())
    package = Path(recrawl.__path__[0])
    for source in sorted(package.rglob("*.py")):
        at = source.stat()
        digest.update(repr((str(source), at.st_mtime_ns, at.st_size)).encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "recrawl" / f"compiled-{digest.hexdigest()[:24]}"


def _compiled_commands() -> set[str]:
    try:
        return set(_notes().read_text().split())
    except (OSError, ValueError):
        return set()


def _note_compiled(commands: Sequence[str]) -> None:
    """Remember, if that can be written, that these commands' kernels are compiled."""
    path = _notes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write("".join(f"{command}\n" for command in commands))
    except OSError:
        return


def compile_all() -> None:
    """Compile the kernels of all commands, in two processes; takes a minute or so.

    Raises
    ------
    RuntimeError
        If one of them fails, with the end of what it said.
    """
    environment = {**os.environ, VARIABLE: "compiled"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import _work; _work({part!r})"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in _PARTS
    ]
    said = [process.communicate()[1] for process in processes]
    for process, text in zip(processes, said, strict=True):
        if process.returncode != 0:
            raise RuntimeError(f"kernels could not be compiled: {text[-2_000:].strip()}")
    _note_compiled(["*"])


def _work(part: _Part) -> None:
    """Have a small corpus do what commands do, on compiled kernels."""
    import recrawl  # noqa: PLC0415
    from recrawl.corpus import CorpusConfig, Outcome  # noqa: PLC0415

    urls = [f"https://host-{i % 5}.example.com/page/{i}" for i in range(50)]
    polite = {"delay": "1s", "in_flight_max": 9}
    with tempfile.TemporaryDirectory() as folder:
        for picker in ("scan", "sweep"):
            config = CorpusConfig.from_dict(
                {"picker": {"kind": picker}, "politeness": polite, "budget": {"rate": "9/s"}}
            )
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
