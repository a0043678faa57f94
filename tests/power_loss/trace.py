"""Run a program under the shim, and read the trace of what it changed on disk."""

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

__all__ = ["Call", "Op", "compile_shim", "read_trace", "require_tool", "run_traced"]

ROOT = Path(__file__).parents[2]
_SHIM = Path(__file__).with_name("shim.c")
_HEADER = struct.Struct("=II4qIIQ")
_TABLE = re.search(r"CALLS\[\] = {(.*?)}", _SHIM.read_text(), re.DOTALL)
assert _TABLE is not None
_FUNCTIONS = re.findall(r'"(\w*)"', _TABLE[1])


class Op(IntEnum):
    """What a recorded call did; the numbers are those of shim.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    ALLOCATE = 4
    SYNC = 5
    SYNC_ALL = 6
    RENAME = 7
    LINK = 8
    UNLINK = 9
    RMDIR = 10
    NOTE = 11
    UNSUPPORTED = 12


class Call(NamedTuple):
    """One recorded call."""

    op: Op
    number: tuple[int, int, int, int]
    """Inodes, offsets and sizes, as shim.c gives them for each operation."""
    name: str
    second_name: str
    data: bytes
    function: int
    """Number of the C function in shim.c."""

    @property
    def function_name(self) -> str:
        """Name of the C function that the program called."""
        return _FUNCTIONS[self.function]


def require_tool(name: str) -> str:
    """Return the path of a program that the tests need; a missing one is an error, not a skip."""
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"these tests need {name}; .ci/run installs it (apt-get install {name})")
    return path


def compile_shim(folder: Path) -> Path:
    """Compile the shim into a folder; return the path of the library."""
    library = folder / "power-shim.so"
    compiler = require_tool("cc")
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        [compiler, *options, "-o", str(library), str(_SHIM), "-ldl", "-pthread"], check=True
    )
    return library


def run_traced(
    shim: Path,
    root: Path,
    trace: Path,
    arguments: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    strace: Path | None = None,
) -> None:
    """Run a Python program under the shim; raise if it fails.

    Parameters
    ----------
    shim
        The compiled library.
    root
        Folder whose changes are recorded.
    trace
        File for the trace, which must not exist.
    arguments
        Arguments of the Python interpreter.
    variables
        Further environment variables of the program.
    strace
        Where given, strace also watches the program, and writes one file per thread there.
    """
    preload = {
        "LD_PRELOAD": str(shim),
        "POWER_TRACE": str(trace),
        "POWER_ROOT": str(root),
        **(variables or {}),
    }
    command = [sys.executable, *arguments]
    environment = dict(os.environ)
    if strace is None:
        environment |= preload
    else:
        # strace sets the variables in the program only: it must not load the shim itself.
        given = [part for name, value in preload.items() for part in ("-E", f"{name}={value}")]
        tool = require_tool("strace")
        command = [tool, "-ff", "-yy", "-s0", "-o", str(strace), *given, *command]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the traced program failed:\n{done.stdout}\n{done.stderr[-8000:]}")


def read_trace(path: Path) -> Iterator[Call]:
    """Yield the calls of a trace, in order.

    Raises
    ------
    RuntimeError
        If the trace has a call that the shim cannot follow.
    """
    data = path.read_bytes()
    at = 0
    while at < len(data):
        op, function, *numbers, n_first, n_second, n_bytes = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        names = data[at : at + n_first + n_second]
        at += n_first + n_second
        call = Call(
            Op(op),
            (numbers[0], numbers[1], numbers[2], numbers[3]),
            names[:n_first].decode(),
            names[n_first:].decode(),
            data[at : at + n_bytes],
            function,
        )
        at += n_bytes
        if call.op == Op.UNSUPPORTED:
            raise RuntimeError(f"the shim cannot follow a call of the program: {call}")
        yield call
