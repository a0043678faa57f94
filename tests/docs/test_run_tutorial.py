"""The tutorial "Keep a site fresh in five minutes" runs from end to end.

The commands run as the page shows them, for seconds instead of minutes.  Outputs depend on the
time, so the page and the output must have certain phrases in common.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorial_shell import Shell, longest_prefix, steps, words

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs/tutorials/keep-a-site-fresh.md").read_text(
    encoding="utf-8"
)
PORT = "8765"
# The page lets the site run for minutes, the test for seconds, in which nothing is fetched twice.
LONG, SHORT = "--for 1m", "--for 15s"
ONLY_CHANGED = "--what changed "
# The first fetch of the second run comes at once, if it is not the first to compile something.
RUN_SECONDS_MAX = 300.0

PHRASES = {
    "python -m recrawl.testing.web": (f"http://127.0.0.1:{PORT}/", '"n_pages": 40'),
    "recrawl run http": ("The time is over", "Found 40 pages by itself", "recrawl explain URL"),
    "recrawl run": ("Stopped, after",),
    "find pages": ("pages/", ".md"),
    "recrawl changes": (f"http://127.0.0.1:{PORT}/",),
    "recrawl explain": ("status", "belief", "price"),
}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
    yield shell
    shell.close()


def run_until_interrupted(shell: Shell, command: str) -> tuple[int, str, str]:
    """Start a command, press Ctrl-C after its first version of a page, and return its output."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=shell.folder,
        # So that Ctrl-C does not come while it compiles, which takes minutes on a busy machine.
        env=shell.environment | {"RECRAWL_KERNELS": "interpreted"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    n_before = len(list(shell.folder.glob("pages/**/*.md")))
    ends_at = time.monotonic() + RUN_SECONDS_MAX
    while time.monotonic() < ends_at and process.poll() is None:
        if len(list(shell.folder.glob("pages/**/*.md"))) > n_before:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, remarks = process.communicate(timeout=RUN_SECONDS_MAX)
    return process.returncode, printed + remarks, remarks


@pytest.mark.slow_without_jit
def test_the_tutorial_runs_as_written(shell: Shell) -> None:
    for step in steps(PAGE):
        if step.command.startswith("pip "):
            continue  # recrawl is installed, or this test would not run
        command = step.command.replace(PORT, shell.port).replace(LONG, SHORT)
        command = command.replace(ONLY_CHANGED, "")
        if command.startswith("python -m recrawl.testing.web"):
            code, remarks = 0, ""
            printed = shell.serve(step.command)
        elif command == "recrawl run":
            code, printed, remarks = run_until_interrupted(shell, command)
        else:
            code, printed, remarks = shell.run(command)
        assert code == 0, (step.command, printed, remarks)
        assert "Traceback" not in remarks, remarks
        printed = words(printed).replace(f":{shell.port}", f":{PORT}")
        for phrase in PHRASES[longest_prefix(step.command, PHRASES)]:
            assert phrase in words(step.shown), (step.command, phrase)
            assert phrase in printed, (step.command, phrase)


def test_the_page_has_every_command_that_the_test_knows() -> None:
    commands = [step.command for step in steps(PAGE)]
    found = {longest_prefix(command, PHRASES) for command in commands} - {""}
    assert found == set(PHRASES)
    assert sum(LONG in command for command in commands) == 1
    assert sum(ONLY_CHANGED in command for command in commands) == 1
