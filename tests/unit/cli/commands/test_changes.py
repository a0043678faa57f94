"""The feed of changes."""

import json
from pathlib import Path

import pytest

import recrawl as library
from recrawl.cli.commands import changes as following
from tests.unit.cli.conftest import PAGES, Recrawl


@pytest.fixture
def changed(kept: Recrawl) -> Recrawl:
    told = [{"url": url, "status": 200, "digest": "1", "fetched_at_ms": 1} for url in PAGES]
    told += [{"url": PAGES[0], "status": 200, "digest": "2"}]
    assert kept("report", stdin="\n".join(map(json.dumps, told))).row["n_counted"] == 6
    return kept


def test_goes_on_after_a_cursor(changed: Recrawl) -> None:
    rows = changed("changes").rows
    assert [row["what"] for row in rows] == ["new"] * 5 + ["changed"]
    assert changed("changes", "--after", rows[3]["cursor"]).rows == rows[4:]
    assert changed("changes", "--after", rows[5]["cursor"]).rows == []
    assert changed("changes", "--limit", "2").rows == rows[:2]
    assert changed("changes", "--what", "changed", "--limit", "1").rows == rows[5:]


def test_reads_on_where_there_are_many(changed: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CHANGES_PER_READ", 2)
    assert len(changed("changes").rows) == 6


def test_people_see_lines(changed: Recrawl) -> None:
    ran = changed("changes", "--no-json", "--limit", "1")
    assert ran.out.endswith(f"new       {PAGES[0]}\n")


def test_a_wrong_cursor_is_wrong_usage(changed: Recrawl) -> None:
    assert changed("changes", "--after", "yesterday").code == 2


def test_follows_what_another_process_does(
    changed: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library.open(tmp_path) as writer:

        def happen(_: float) -> None:
            writer.report(library.Outcome(url=PAGES[1], digest=b"2"))

        monkeypatch.setattr("recrawl.cli.commands.changes.time.sleep", happen)
        rows = changed("changes", "--follow", "--limit", "7").rows
    assert (rows[6]["what"], rows[6]["url"]) == ("changed", PAGES[1])


def test_people_are_told_that_there_is_nothing(kept: Recrawl) -> None:
    assert kept("changes", "--no-json").out.startswith("No changes yet;")
    assert kept("changes").out == ""
    assert "of this kind (gone)" in kept("changes", "--no-json", "--what", "gone").out
