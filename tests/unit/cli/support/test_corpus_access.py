"""Tests of opening a corpus for a command, and of error messages."""

from pathlib import Path

import click
import pytest

import recrawl as library
from recrawl.cli.support import corpus_access
from recrawl.cli.support.corpus_access import click_error, value_errors_as_usage
from recrawl.errors import ConfigError, LockedError, RecrawlError, TimeLost, WebFileError
from tests.unit.cli.conftest import Recrawl


def test_a_folder_without_a_corpus_suggests_init(recrawl: Recrawl) -> None:
    ran = recrawl("stats")
    assert ran.code == 1
    assert ran.err.startswith("Error: the current folder is not a corpus.\n")
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


def test_a_locked_corpus_can_be_read_but_not_changed(
    in_corpus: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_access, "LOCK_SECONDS_MAX", 0.0)
    with library.open(tmp_path):
        for command in ("stats", "changes", "export", "config"):
            assert in_corpus(command).code == 0, command
        ran = in_corpus("add", "https://d.example/")
    assert ran.code == 1
    assert "another process is using this corpus" in ran.err
    assert "Traceback" not in ran.err


def test_waits_for_another_command_that_is_just_ending(
    in_corpus: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = library.open(tmp_path)
    monkeypatch.setattr("recrawl.cli.support.corpus_access.time.sleep", lambda _: holder.close())
    assert in_corpus("add", "https://d.example/").row["n_added"] == 1


def test_an_error_message_says_what_is_wrong_and_what_to_do() -> None:
    shown = click_error(LockedError("it is open")).message
    assert shown.startswith("another process is using this corpus.\nWait until it ends.")
    assert click_error(RecrawlError("what\nto do")).message == "what\nto do"
    assert click_error(RecrawlError()).message == "RecrawlError"


def test_value_errors_become_usage_errors_and_recrawl_errors_do_not() -> None:
    with pytest.raises(click.UsageError, match="must be more"), value_errors_as_usage():
        raise ValueError("must be more")
    with pytest.raises(ConfigError), value_errors_as_usage():
        raise ConfigError("wrong")


def test_the_hint_is_that_of_the_most_specific_error() -> None:
    setting = click_error(ConfigError("budget.rate must be a rate")).message
    assert "recrawl config explain budget" in setting
    assert click_error(WebFileError("wrong")).message == "wrong"
    assert "snapshots.keep" in click_error(TimeLost("too long ago")).message


def test_a_broken_format_file_is_a_message(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_bytes(b"\xff\xfe")
    ran = in_corpus("stats")
    assert ran.code == 1
    assert "FORMAT cannot be read" in ran.err


def test_waiting_for_another_process_prints_a_note(
    in_corpus: Recrawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_access, "LOCK_SECONDS_MAX", 0.05)
    monkeypatch.setattr(corpus_access, "_LOCK_SILENT_SECONDS", 0.0)
    with library.open(tmp_path):
        ran = in_corpus("add", "https://d.example/")
    assert ran.code == 1
    assert ran.err.count("waiting for up to") == 1


def test_an_unknown_format_suggests_the_options_for_it(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("name,size\na,1\n")
    ran = in_corpus("add", "odd.csv")
    assert ran.code == 1
    assert "--format NAME" in ran.err
    assert "--column NAME=FIELD" in ran.err


def test_a_folder_in_which_a_worker_runs_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "FORMAT").write_text('{"ledger": "kafka"}')
    address = "http://127.0.0.1:8377/v1/corpora/news"
    monkeypatch.setattr(corpus_access, "address_of_user", lambda _: address)
    with pytest.raises(click.ClickException, match=rf"instead of the folder: -C {address}$"):
        corpus_access.open_to_change(tmp_path)
