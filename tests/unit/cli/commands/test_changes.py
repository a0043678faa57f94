"""Tests of ``recrawl changes``."""

import json
from pathlib import Path

import pytest

import recrawl as library
from recrawl.cli.commands import changes as following
from tests.unit.cli.conftest import PAGES, Recrawl


@pytest.fixture
def changed(in_corpus: Recrawl) -> Recrawl:
    told = [{"url": url, "status": 200, "digest": "1", "fetched_at_ms": 1} for url in PAGES]
    told += [{"url": PAGES[0], "status": 200, "digest": "2"}]
    assert in_corpus("report", stdin="\n".join(map(json.dumps, told))).row["n_counted"] == 6
    return in_corpus


def test_continues_after_a_cursor(changed: Recrawl) -> None:
    rows = changed("changes").rows
    assert [row["what"] for row in rows] == ["new"] * 5 + ["changed"]
    assert changed("changes", "--after", rows[3]["cursor"]).rows == rows[4:]
    assert changed("changes", "--after", rows[5]["cursor"]).rows == []
    assert changed("changes", "--limit", "2").rows == rows[:2]
    assert changed("changes", "--what", "changed", "--limit", "1").rows == rows[5:]


def test_reads_many_changes_in_batches(changed: Recrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CHANGES_PER_READ", 2)
    assert len(changed("changes").rows) == 6


def test_text_output_has_a_line_per_change(changed: Recrawl) -> None:
    ran = changed("changes", "--no-json", "--limit", "1")
    assert ran.out.endswith(f"new       {PAGES[0]}\n")


def test_an_invalid_cursor_is_a_usage_error(changed: Recrawl) -> None:
    assert changed("changes", "--after", "yesterday").code == 2


def test_follows_changes_of_another_process(
    changed: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library.open(tmp_path) as writer:

        def happen(_: float) -> None:
            writer.report(library.Outcome(url=PAGES[1], digest=b"2"))

        monkeypatch.setattr("recrawl.cli.commands.changes.time.sleep", happen)
        rows = changed("changes", "--follow", "--limit", "7").rows
    assert (rows[6]["what"], rows[6]["url"]) == ("changed", PAGES[1])


def test_no_changes_prints_a_sentence(in_corpus: Recrawl) -> None:
    assert in_corpus("changes", "--no-json").out.startswith("No changes yet.")
    assert in_corpus("changes").out == ""
    assert "of this kind (gone)" in in_corpus("changes", "--no-json", "--what", "gone").out
