"""The commands of the guide to comparing recrawl with another crawler run as written."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from recrawl.backtest import support
from recrawl.cli import main
from recrawl.shadow import ShadowSettings
from recrawl.shadow.estimates import IMPUTATIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/compare-before-you-switch.md").read_text(encoding="utf-8")
FILES = ROOT / "tests/docs/example_files"


def recrawl(line: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, line.split()[1:], prog_name="recrawl", env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.slow_without_jit
def test_the_shadow_prints_what_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(FILES / "crawl-log.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^\$ (recrawl shadow .*--once.*)$", PAGE, re.M)
    (shown,) = re.findall(r"^```text\n(Week .*?)^```", PAGE, re.M | re.S)
    code, printed = recrawl(line)
    assert code == 0
    assert max(map(len, printed.splitlines())) <= 80
    assert " ".join(shown.split()) in " ".join(printed.split())
    assert (tmp_path / "shadow" / "2025-W08.html").is_file()
    assert (tmp_path / "shadow" / "shadow.json").is_file()


def test_a_hold_out_is_planned_and_shown_as_in_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, holdout = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
    assert recrawl("recrawl init .")[0] == 0
    (tmp_path / "recrawl.toml").write_text(settings, encoding="utf-8")
    urls = [f"https://site{host}.example/{page}\n" for host in range(300) for page in range(3)]
    (tmp_path / "urls.txt").write_text("".join(urls), encoding="utf-8")
    assert recrawl("recrawl add urls.txt")[0] == 0
    ((line, shown),) = re.findall(
        r"^\$ (recrawl holdout plan [^\n]*)\n(.*?)^```", PAGE, re.M | re.S
    )
    code, printed = recrawl(line)
    assert code == 0
    assert " ".join(printed.split()) == " ".join(shown.split())
    (tmp_path / "recrawl.toml").write_text(f"{settings}\n{holdout}", encoding="utf-8")
    assert recrawl("recrawl add urls.txt")[0] == 0
    (line,) = re.findall(r"^\$ (recrawl holdout status .*)$", PAGE, re.M)
    code, printed = recrawl(line)
    assert code == 0
    assert re.search(r"held out +\d+ ", printed)
    assert "too few audited hosts" in printed


def test_the_guide_names_the_limits() -> None:
    assert f"fewer than {support.PAGES_MIN} pages, fewer than {support.CHANGES_MIN} changes" in PAGE
    settings = ShadowSettings()
    assert f"more than {settings.n_pages_max:,} pages" in PAGE
    assert settings.n_rows_max == 4_000_000
    assert (settings.n_weeks, IMPUTATIONS) == (8, 5)
