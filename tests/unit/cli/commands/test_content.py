"""`recrawl content` shows what recrawl sees of a page, and what changed."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from recrawl.cli import main

PAGE = """<title>Tea</title><nav><a href=/>Home</a></nav><main><h1>Tea</h1><p>Green tea is made from
leaves that are steamed soon after they were picked, so that they keep their colour.</p><p>A bag of
100 grams costs {price} euros, and we ship it within two days to every address in the country, and
every bag is sealed by hand so that the leaves stay dry on their way to you.</p></main>
<footer>Created at {time}</footer>"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("old.html").write_text(PAGE.format(price=4, time="09:41"))
    Path("new.html").write_text(PAGE.format(price=5, time="12:03"))
    return tmp_path


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(main, ["content", *arguments], prog_name="recrawl")
    assert result.exit_code == exit_code, result.output
    return result.output


def row_of(*arguments: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return row


def test_it_shows_which_passages_count(folder: Path) -> None:
    row = row_of("new.html")
    assert row["kind"] == "html"
    assert row["title"] == "Tea"
    counts = {passage["text"]: passage["counts"] for passage in row["passages"]}
    assert counts["Tea"]
    assert not counts["Home"]
    text = run("new.html", "--no-json")
    assert "* Tea" in text
    assert "Home  (not main text)" in text


def test_it_shows_what_changed(folder: Path) -> None:
    row = row_of("new.html", "old.html")
    assert row["verdict"] == "changed"
    assert (row["n_added"], row["n_removed"], row["n_kept"]) == (1, 1, 2)
    counted = [change["text"] for change in row["changes"] if change["why_not"] is None]
    assert [text[:31] for text in counted] == [
        "A bag of 100 grams costs 4 euro",
        "A bag of 100 grams costs 5 euro",
    ]
    text = run("new.html", "old.html", "--no-json")
    assert "1 passage added, 1 removed, 2 kept" in text
    assert "+ Created at 12:03  (does not count: not main text)" in text


def test_equal_versions_are_unchanged(folder: Path) -> None:
    row = row_of("new.html", "new.html")
    assert row["verdict"] == "unchanged"
    assert row["changes"] == []


def test_settings_are_tried_out(folder: Path) -> None:
    row = row_of("new.html", "--ignore", "footer", "--ignore-pattern", "^Home$")
    ignored = [p["why_not"] for p in row["passages"] if p["why_not"] is not None]
    assert ignored == ["ignored by selector footer", "ignored by pattern ^Home$"]
    Path("recrawl.toml").write_text('[content]\nignore = ["footer"]\n')
    row = row_of("new.html", "--config", "recrawl.toml")
    assert row["passages"][-1]["why_not"] == "ignored by selector footer"


def test_a_wrong_pattern_is_wrong_usage(folder: Path) -> None:
    text = run("new.html", "--ignore-pattern", "(", exit_code=2)
    assert "ignore_patterns must be regular expressions of RE2" in text
    assert "got '('" in text
