"""The tutorial "A spider that fetches less" runs from end to end.

The commands run as the page shows them, with the files and settings of the page.  What a crawl logs
depends on the time, so the page and the log must have certain phrases in common.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.tutorial_shell import Shell, Step, longest_prefix, steps, words

pytest.importorskip("scrapy")
pytestmark = pytest.mark.slow

TUTORIALS = Path(__file__).resolve().parents[2] / "docs/tutorials"
PAGE = (TUTORIALS / "a-spider-that-fetches-less.md").read_text(encoding="utf-8")
PORT = "8765"
SETTINGS = "shop/settings.py"

# Phrases of each crawl, in order; every other output is compared as a whole.
CRAWLS = (
    ("fetched 6 pages (6 new)", "dropped 0 requests", "0 % before"),
    ("fetched 0 pages", "dropped 6 requests", "(100 % saved)"),
    ("fetched 2 pages (1 changed, 1 new)", "dropped 5 requests", "(71 % saved)"),
    ("fetched 7 pages (1 changed, 6 unchanged)", "dropped 0 requests"),
)
EXPLANATIONS = (
    ("the first fetch.", "It is due in about 2.1 days at the current price."),
    (
        "changed. It changes about every 17 days",
        "It is due now because its copy may be at most 1 s old (max_age).",
    ),
)
PHRASES = {"python lamp_shop.py": ("5 lamps at",), "scrapy startproject": ("New Scrapy project",)}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, PORT)
    yield shell
    shell.close()


def parts_of_page() -> list[Step | tuple[str, str]]:
    """Return the commands of the page, and the files with their texts, in order."""
    parts: list[Step | tuple[str, str]] = []
    pattern = r"^```console\n.*?^```$|^```\{code-block\} python\n:caption: (\S+)\n\n(.*?)^```$"
    for found in re.finditer(pattern, PAGE, re.M | re.S):
        parts += [(found[1], found[2])] if found[1] else steps(found[0] + "\n")
    return parts


def write_file(shell: Shell, name: str, text: str) -> None:
    """Write a file of the page; a setting replaces the line that has it, or is added."""
    path = shell.folder / name
    text = text.replace(PORT, shell.port)
    if name == SETTINGS:
        setting = text.partition(" = ")[0]
        settings = path.read_text(encoding="utf-8")
        replaced, n = re.subn(rf"^{setting} = .*\n", lambda _: text, settings, flags=re.M)
        assert n == (setting == "ADDONS"), setting
        text = replaced if n else settings + text
        # The page waits a second between requests, as Scrapy's template says; the test does not.
        text = re.sub(r"^DOWNLOAD_DELAY = .*", "DOWNLOAD_DELAY = 0", text, flags=re.M)
    path.write_text(text, encoding="utf-8")


def check(step: Step, phrases: tuple[str, ...] | None, printed: str) -> None:
    shown, printed = words(step.shown), words(printed)
    if phrases is None:
        assert printed == shown, step.command
        return
    for phrase in phrases:
        assert phrase in shown, step.command
        assert phrase in printed, step.command


@pytest.mark.slow_without_jit
def test_the_tutorial_runs_as_written(shell: Shell) -> None:
    shutil.copy(TUTORIALS / "scripts/lamp_shop.py", shell.folder)
    crawls, explanations = iter(CRAWLS), iter(EXPLANATIONS)
    for part in parts_of_page():
        if not isinstance(part, Step):
            write_file(shell, *part)
            continue
        command = part.command
        if command.startswith("pip "):
            continue  # recrawl is installed, or this test would not run
        phrases: tuple[str, ...] | None = PHRASES.get(longest_prefix(command, PHRASES))
        if command.startswith("python lamp_shop.py"):
            check(part, phrases, shell.serve(command))
            continue
        code, printed, remarks = shell.run(command.replace(PORT, shell.port))
        assert code == 0, (command, printed, remarks)
        assert "Traceback" not in remarks, remarks
        if command.startswith("scrapy crawl"):
            assert " ERROR: " not in remarks, remarks
            assert " WARNING: " not in remarks, remarks
            printed, phrases = remarks, next(crawls)
        elif command.startswith("recrawl explain"):
            phrases = next(explanations)
        check(part, phrases, printed)
    assert not [*crawls, *explanations]
