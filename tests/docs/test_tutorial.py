"""The tutorial "Fresh in ten minutes" runs from end to end.

A shell runs the commands of the page with a terminal as their output; the test compares what they
print with what the page shows.  Some outputs depend on the time: there, the page and the output
must have certain phrases in common.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorial_shell import Shell, Step, longest_prefix, steps, words

pytestmark = pytest.mark.slow

TUTORIALS = Path(__file__).resolve().parents[2] / "docs/tutorials"
PAGE = (TUTORIALS / "fresh-in-ten-minutes.md").read_text(encoding="utf-8")
PORT = "8765"
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


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
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
    for each in steps(PAGE):
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
    shown = {
        page.name: set(re.findall(r"\{literalinclude\} scripts/(\S+)", page.read_text("utf-8")))
        for page in TUTORIALS.glob("*.md")
    }
    assert set().union(*shown.values()) == {path.name for path in TUTORIALS.glob("scripts/*.py")}
    scripts = set(re.findall(r"\{literalinclude\} scripts/(\S+)", PAGE))
    commands = " ".join(each.command for each in steps(PAGE))
    assert all(f"python {name}" in commands for name in scripts)
    assert commands.count(ROUNDS) == 1
