"""Tests of ``recrawl changes``."""

import json
import os
import subprocess
import sys
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


# ---------------------------------------------------------------------- consumers


def test_a_consumer_prints_each_change_once(changed: Recrawl) -> None:
    rows = changed("changes").rows
    peek = changed("changes", "--consumer", "nightly", "--no-commit").rows
    assert peek == rows
    assert changed("changes", "--consumer", "nightly", "--limit", "2").rows == rows[:2]
    # Changes that --what leaves out are done as well.
    assert changed("changes", "--consumer", "nightly", "--what", "changed").rows == rows[5:]
    assert changed("changes", "--consumer", "nightly").rows == []
    text = changed("changes", "--consumer", "nightly", "--no-json").out
    assert text.startswith("No changes that the consumer nightly has not read.")


def test_a_consumer_is_committed_explicitly(changed: Recrawl) -> None:
    rows = changed("changes", "--consumer", "nightly", "--no-commit").rows
    done = changed("changes", "--consumer", "nightly", "--commit", rows[3]["cursor"]).row
    assert done == {"consumer": "nightly", "cursor": rows[3]["cursor"]}
    assert changed("changes", "--consumer", "nightly", "--no-commit").rows == rows[4:]
    back = ("changes", "--consumer", "nightly", "--commit", rows[0]["cursor"])
    ran = changed(*back)
    assert "--rewind" in ran.err
    assert ran.row["cursor"] == rows[3]["cursor"]
    assert changed(*back, "--rewind").err == ""
    assert changed("changes", "--consumer", "nightly").rows == rows[1:]
    changed("changes", "--consumer", "nightly", "--commit", "oldest", "--rewind")
    (listed,) = changed("changes", "--consumers").rows
    assert (listed["name"], listed["n_behind"], listed["problem"]) == ("nightly", 6, None)
    assert "nightly" in changed("changes", "--consumers", "--no-json").out
    assert changed("changes", "--consumer", "nightly", "--remove").row["removed"]
    assert not changed("changes", "--consumer", "nightly", "--remove").row["removed"]
    assert "No consumers yet" in changed("changes", "--consumers", "--no-json").out


@pytest.mark.parametrize(
    "options",
    [
        ("--commit", "7.2"),
        ("--no-commit",),
        ("--remove",),
        ("--consumer", "a", "--after", "7.2"),
        ("--consumer", "a", "--commit", ""),
        ("--consumer", "a", "--commit", "yesterday"),
        ("--consumer", "a", "--rewind"),
        ("--consumer", "../a"),
    ],
)
def test_wrong_options_of_a_consumer_are_usage_errors(
    changed: Recrawl, options: tuple[str, ...]
) -> None:
    assert changed("changes", *options).code == 2
    assert changed("changes", "--consumers").rows == []


def test_a_consumer_that_missed_changes_is_told_what_to_do(
    changed: Recrawl, tmp_path: Path
) -> None:
    changed("changes", "--consumer", "nightly", "--limit", "1")
    with library.open(tmp_path) as corpus:
        corpus.nodes[0].store.trim_changes(before_ms=corpus.now_ms() + 10_000)
    ran = changed("changes", "--consumer", "nightly")
    assert ran.code == 1
    assert "missed 5 changes" in ran.err
    assert "--commit oldest" in ran.err
    assert "missed 5 changes" in changed("changes", "--consumers").err
    changed("changes", "--consumer", "nightly", "--commit", "oldest")
    assert changed("changes", "--consumer", "nightly").code == 0


def test_nothing_is_committed_if_the_output_cannot_be_written(
    changed: Recrawl, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-m", "recrawl", "changes", "--consumer", "nightly", "--json"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    broken = subprocess.run(arguments, cwd=tmp_path, stdout=write_end, check=False, timeout=120)
    os.close(write_end)
    assert broken.returncode == 141
    assert changed("changes", "--consumers").rows == []
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            failed = subprocess.run(arguments, cwd=tmp_path, stdout=full, check=False, timeout=120)
        assert failed.returncode == 1
        assert changed("changes", "--consumers").rows == []
    with open(tmp_path / "changes.txt", "wb") as file:
        subprocess.run(arguments, cwd=tmp_path, stdout=file, check=True, timeout=120)
    assert len((tmp_path / "changes.txt").read_bytes().splitlines()) == 6
    assert changed("changes", "--consumer", "nightly").rows == []


def test_a_consumer_that_follows_commits_what_it_has_printed(
    changed: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recrawl.cli.commands.changes.time.sleep", stop)
    ran = changed("changes", "--consumer", "nightly", "--follow")
    assert (ran.code, len(ran.rows)) == (130, 6)
    assert changed("changes", "--consumer", "nightly").rows == []


def test_an_interrupted_command_commits_nothing(
    changed: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_CHANGES_PER_READ", 2)
    n_reads = 0
    read = following._Feed.read

    def read_twice(feed: following._Feed) -> object:
        nonlocal n_reads
        n_reads += 1
        if n_reads == 3:
            raise KeyboardInterrupt
        return read(feed)

    with monkeypatch.context() as patch:
        patch.setattr(following._Feed, "read", read_twice)
        ran = changed("changes", "--consumer", "nightly")
    assert (ran.code, len(ran.rows)) == (130, 4)
    assert len(changed("changes", "--consumer", "nightly").rows) == 6


def test_passages_are_printed_on_request(in_corpus: Recrawl, tmp_path: Path) -> None:
    with (tmp_path / "recrawl.toml").open("a") as file:
        file.write("\n[content]\nkeep_text = true\n")
    old = "The harbour opens at six in the morning.\nThe ferry leaves three times a day."
    new = "The harbour opens at six in the morning.\nThe ferry leaves four times a day."
    times = (1_700_000_000_000, 1_700_000_100_000)
    for text, at_ms in zip((old, new), times, strict=True):
        row = {"url": PAGES[0], "status": 200, "text": text, "fetched_at_ms": at_ms}
        assert in_corpus("report", stdin=json.dumps(row)).row["n_counted"] == 1
    first, second = in_corpus("changes", "--passages").rows
    assert first["added_text"] == old.split("\n")
    assert second["added_text"] == new.split("\n")[1:]
    assert second["kept"] == first["added"][:1]
    assert second["removed"] == first["added"][1:]
    (row,) = in_corpus("changes", "--limit", "1").rows
    assert "added" not in row
    assert [row[f"n_passages_{name}"] for name in ("kept", "added", "removed")] == [0, 2, 0]
    text = in_corpus("changes", "--passages", "--no-json").out
    assert "    + The ferry leaves four times a day.\n    - " + second["removed"][0] in text
