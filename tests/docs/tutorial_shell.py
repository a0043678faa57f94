"""Run the commands of a tutorial in a shell, with a terminal for their output."""

import contextlib
import os
import pty
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Shell", "Step", "longest_prefix", "steps", "words"]

_COLUMNS = 80


class Step(NamedTuple):
    """A command of the tutorial and the output that the page shows."""

    command: str
    shown: str


def steps(page: str) -> list[Step]:
    """Return all commands of a page in order.

    Parameters
    ----------
    page
        Text of the page.
    """
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            found.append(Step(command, shown))
    return found


def longest_prefix(text: str, prefixes: Iterable[str]) -> str:
    """Return the longest of the prefixes that a text begins with, or an empty text."""
    return max(filter(text.startswith, prefixes), key=len, default="")


def words(text: str) -> str:
    """Return a text without colours and line breaks of a terminal."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


class Shell:
    """Runs commands in a folder, with a terminal for their output.

    Parameters
    ----------
    folder
        Folder in which commands run.
    port
        Port of the site on the page; the site is started at a free one.
    """

    def __init__(self, folder: Path, port: str) -> None:
        self.folder = folder
        self.port = self.port_of_page = port
        self.processes: list[subprocess.Popen[str]] = []
        scripts = os.pathsep.join((str(Path(sys.executable).parent), sysconfig.get_path("scripts")))
        # Python writes bytecode, as it does for readers; beside the folder, which must be empty.
        bytecode = os.environ.get("PYTHONPYCACHEPREFIX", f"{folder}.bytecode")
        self.environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": bytecode,
            "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
            "COLUMNS": str(_COLUMNS),
            "TERM": "dumb",
            "NO_COLOR": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, command: str) -> tuple[int, str, str]:
        """Return the exit code of a command, its output and its messages on standard error."""
        reader, terminal = pty.openpty()
        try:
            process = subprocess.Popen(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(terminal)
        printed = bytearray()
        with contextlib.suppress(OSError):  # raised at the end of a terminal
            while chunk := os.read(reader, 65_536):
                printed += chunk
        os.close(reader)
        assert process.stderr is not None
        remarks = process.stderr.read().decode()
        process.stderr.close()
        return process.wait(), printed.decode(), remarks

    def serve(self, command: str) -> str:
        """Start the site at a free port, and return what it prints up to its URL."""
        command = command.replace(self.port_of_page, "0")
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        printed = ""
        while not (ports := re.findall(r":(\d+)/", printed)):
            line = process.stdout.readline()
            assert line, f"{command} ended: {printed}"
            printed += line
        (self.port,) = ports
        return printed

    def close(self) -> None:
        """Stop the site."""
        for process in self.processes:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
