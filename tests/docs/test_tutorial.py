"""The tutorial "Fresh in ten minutes" runs from end to end.

A shell runs the commands of the page with a terminal as their output; the test compares what they
print with what the page shows.  Some outputs depend on the time: there, the page and the output
must have certain phrases in common.
"""

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

TUTORIALS = Path(__file__).resolve().parents[2] / "docs/tutorials"
PAGE = (TUTORIALS / "fresh-in-ten-minutes.md").read_text(encoding="utf-8")
PORT = "8765"
COLUMNS = 80
# The page lets the crawl run for two minutes, the test for a few seconds.
ROUNDS, FEWER_ROUNDS = "seq 30", "seq 2"

# Phrases that every run prints; the outputs of other commands are compared as a whole.
PHRASES = {
    "recrawl backtest": ("2,656 changes of 200 pages.", "Compared with the best rule in use"),
    "for round in 1 2 3 4": ("250 outcomes counted (250 new).", "249 new"),
    f"for round in $({ROUNDS})": ("outcomes counted",),
    "recrawl changes": ("changed", f"http://127.0.0.1:{PORT}/"),
    "recrawl stats": ("1,000 pages on 1 host;", "1,000 (1,000 active)", "of staleness"),
    "recrawl explain": ("likely still fresh", "status", "belief", "price"),
    f"recrawl explain http://127.0.0.1:{PORT}/news/3 --plot": ("likely still fresh",),
    "recrawl plan": ("10 fetches/s", "/news/*", "/product/*", "with 2 × budget"),
    "recrawl plan --target": ("90 % of /news/*: ",),
    "recrawl doctor": ("✓ configuration", "✓ pages", "Nothing is broken"),
}
EXIT_CODES = {"recrawl plan --target": {0, 3}}


class Step(NamedTuple):
    """A command of the tutorial and the output that the page shows."""

    command: str
    shown: str


def steps() -> list[Step]:
    """Return all commands of the page in order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S):
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
    """Runs commands in a folder, with a terminal for their output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = PORT
        self.processes: list[subprocess.Popen[str]] = []
        scripts = os.pathsep.join((str(Path(sys.executable).parent), sysconfig.get_path("scripts")))
        # Python writes bytecode, as it does for readers.
        bytecode = os.environ.get("PYTHONPYCACHEPREFIX", str(folder / ".bytecode"))
        self.environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": bytecode,
            "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
            "COLUMNS": str(COLUMNS),
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
        """Start the site at a free port, and return the line that it prints."""
        command = command.replace(PORT, "0")
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        (self.port,) = re.findall(r":(\d+)/", line)
        return line

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def check(step: Step, code: int, printed: str, remarks: str) -> None:
    """Compare the output of a command with the one that the page shows."""
    allowed = EXIT_CODES.get(longest_prefix(step.command, EXIT_CODES), {0})
    assert code in allowed, (step.command, printed, remarks)
    assert "Traceback" not in remarks, remarks
    phrases = PHRASES.get(longest_prefix(step.command, PHRASES))
    shown, printed = words(step.shown), words(printed)
    if phrases is None:
        assert printed == shown, step.command
        return
    for phrase in phrases:
        assert phrase in shown
        assert phrase in printed


@pytest.mark.slow_without_jit
def test_the_tutorial_runs_as_written(shell: Shell) -> None:
    for script in TUTORIALS.glob("scripts/*.py"):
        shutil.copy(script, shell.folder)
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    (shell.folder / "recrawl.toml").write_text(settings, encoding="utf-8")
    for each in steps():
        if each.command.startswith("pip "):
            continue  # recrawl is installed, or this test would not run
        command = each.command.replace(PORT, shell.port).replace(ROUNDS, FEWER_ROUNDS)
        if command.startswith("python site.py"):
            printed = shell.serve(command)
            check(each, 0, printed.replace(shell.port, PORT), "")
            continue
        code, printed, remarks = shell.run(command)
        check(each, code, printed.replace(f":{shell.port}", f":{PORT}"), remarks)
    for name in ("backtest.html", "page.html"):
        assert "<svg" in (shell.folder / name).read_text(encoding="utf-8")


def test_the_page_shows_its_scripts_and_the_test_runs_all_of_them() -> None:
    scripts = {path.name for path in TUTORIALS.glob("scripts/*.py")}
    assert set(re.findall(r"\{literalinclude\} scripts/(\S+)", PAGE)) == scripts
    commands = " ".join(each.command for each in steps())
    assert all(f"python {name}" in commands for name in scripts)
    assert commands.count(ROUNDS) == 1
