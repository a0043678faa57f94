"""The examples of the backtest guide run, and print what the page shows."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from recrawl.backtest import support, web_file, web_of_toml
from recrawl.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/backtest.md").read_text(encoding="utf-8")
FILES = ROOT / "tests/docs/example_files"
SCRIPTS = ROOT / "docs/how-to/scripts"


def recrawl(line: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, line.split()[1:], prog_name="recrawl", env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.slow_without_jit
def test_the_policy_of_the_guide_runs_in_a_backtest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(FILES / "crawl-log.jsonl", tmp_path)
    shutil.copy(SCRIPTS / "recently_changed.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (line,) = re.findall(r"^\$ (recrawl backtest .*--policy .*)$", PAGE, re.M)
    code, printed = recrawl(f"{line} --no-json")
    assert code == 0
    assert re.search(r"^ recently_changed:RecentlyChanged +\d", printed, re.M)


def test_the_policy_of_the_guide_has_at_most_thirty_lines() -> None:
    text = (SCRIPTS / "recently_changed.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30


def test_a_log_is_refused_as_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FILES)
    (shown,) = re.findall(
        r"^\$ recrawl backtest crawl\.jsonl --no-json\n(.*?)^```", PAGE, re.M | re.S
    )
    code, printed = recrawl("recrawl backtest crawl.jsonl --no-json")
    assert code == 3
    assert " ".join(printed.split()).startswith(" ".join(shown.split()))
    assert f"fewer than {support.PAGES_MIN} pages" in PAGE
    assert f"fewer than {support.CHANGES_MIN} changes" in PAGE


def test_the_guide_shows_the_web_of_the_example_file() -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    simulated = (FILES / "web.toml").read_text(encoding="utf-8")
    assert tomllib.loads(shown) == tomllib.loads(simulated)
    assert web_of_toml(shown).web.n_pages == 120


@pytest.mark.parametrize("key", sorted((web_file._TOP | web_file._KIND) - {"kind"}))
def test_the_guide_lists_every_key_of_a_web_file(key: str) -> None:
    _, _, simulating = PAGE.partition("## Without a log")
    assert re.search(rf"^\| (`\w+`, )*`{key}`", simulating, re.M)
