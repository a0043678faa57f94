"""Which corpus, and errors in words."""

from pathlib import Path

import click
import pytest

import recrawl as library
from recrawl.cli.support import corpora
from recrawl.cli.support.corpora import checked_arguments, failure_of
from recrawl.errors import ConfigError, LockedError, RecrawlError, TimeLost, WebFileError
from tests.unit.cli.conftest import Recrawl


def test_a_folder_without_a_corpus_says_what_to_do(recrawl: Recrawl) -> None:
    ran = recrawl("stats")
    assert ran.code == 1
    assert ran.err.startswith("Error: this folder is no corpus.\n")
    assert "recrawl init" in ran.err
    assert "recrawl init shop" in recrawl("stats", "-C", "shop").err


def test_the_corpus_is_named_by_option_or_variable(
    recrawl: Recrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recrawl("init", "shop").code == 0
    assert recrawl("stats", "-C", "shop").row["n_pages"] == 0
    assert recrawl("stats", "--corpus", "shop").code == 0
    monkeypatch.setenv("RECRAWL_CORPUS", "shop")
    assert recrawl("stats").code == 0
    assert recrawl("stats", "-C", ".").code == 1


def test_a_corpus_that_another_holds_can_be_read_and_not_changed(
    kept: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "LOCK_SECONDS_MAX", 0.0)
    with library.open(tmp_path):
        for command in ("stats", "changes", "export", "config"):
            assert kept(command).code == 0, command
        ran = kept("add", "https://d.example/")
    assert ran.code == 1
    assert "Another process works with this corpus" in ran.err
    assert "Traceback" not in ran.err


def test_waits_for_another_command_that_is_just_ending(
    kept: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = library.open(tmp_path)
    monkeypatch.setattr("recrawl.cli.support.corpora.time.sleep", lambda _: holder.close())
    assert kept("add", "https://d.example/").row["n_added"] == 1


def test_an_error_is_what_is_wrong_and_what_to_do() -> None:
    shown = failure_of(LockedError("it is open")).message
    assert shown.startswith("it is open\nAnother process")
    assert failure_of(RecrawlError("what\nto do")).message == "what\nto do"
    assert failure_of(RecrawlError()).message == "RecrawlError"


def test_a_wrong_argument_is_one_of_usage_and_our_errors_are_not() -> None:
    with pytest.raises(click.UsageError, match="must be more"), checked_arguments():
        raise ValueError("must be more")
    with pytest.raises(ConfigError), checked_arguments():
        raise ConfigError("wrong")


def test_the_hint_is_of_the_most_particular_kind() -> None:
    assert "config explain" in failure_of(ConfigError("wrong")).message
    assert failure_of(WebFileError("wrong")).message == "wrong"
    assert "snapshots.keep" in failure_of(TimeLost("too long ago")).message


def test_a_format_that_is_no_text_is_said(kept: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_bytes(b"\xff\xfe")
    ran = kept("stats")
    assert ran.code == 1
    assert "FORMAT is not that of a corpus" in ran.err


def test_whoever_waits_for_another_process_is_told_so(
    kept: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "LOCK_SECONDS_MAX", 0.05)
    monkeypatch.setattr(corpora, "_LOCK_SILENT_SECONDS", 0.0)
    with library.open(tmp_path):
        ran = kept("add", "https://d.example/")
    assert ran.code == 1
    assert ran.err.count("waiting for it") == 1


def test_a_file_of_no_format_is_met_with_the_options_that_name_one(
    kept: Recrawl, tmp_path: Path
) -> None:
    (tmp_path / "odd.csv").write_text("name,size\na,1\n")
    ran = kept("add", "odd.csv")
    assert ran.code == 1
    assert "--format NAME" in ran.err
    assert "--column NAME=FIELD" in ran.err
