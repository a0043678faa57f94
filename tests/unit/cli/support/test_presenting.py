"""What is written for people and for programs."""

import doctest
import io
import json
import sys
from enum import IntEnum, StrEnum

import click
import numpy as np
import pytest
from click.testing import CliRunner

from recrawl.cli.support import presenting
from recrawl.cli.support.presenting import (
    Output,
    drop_output,
    json_line,
    output_option,
    prepare_streams,
)


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    DUE = "it is due"


def test_its_examples_hold() -> None:
    assert doctest.testmod(presenting).failed == 0


def test_a_row_has_no_number_that_json_has_not() -> None:
    row = json.loads(json_line({"a": float("nan"), "b": float("inf"), "c": 1.5, "d": None}))
    assert row == {"a": None, "b": None, "c": 1.5, "d": None}


def test_a_row_takes_arrays_enums_bytes_and_what_is_within() -> None:
    row = json_line(
        {
            "array": np.array([1.0, np.nan]),
            "scalar": np.float32(2),
            "enums": (Number.ONE, Word.DUE),
            "bytes": b"caf\xe9",
            "inner": {1: {2.5}},
        }
    )
    assert json.loads(row) == {
        "array": [1.0, None],
        "scalar": 2.0,
        "enums": ["one", "it is due"],
        "bytes": "caf�",
        "inner": {"1": [2.5]},
    }


@click.command()
@output_option
def both(out: Output) -> None:
    out.say("words [not markup]")
    out.row({"n": 1})
    out.table(("name", "n"), [("a", 1), ("b", 22_000.5), ("c", None)], title="A table")
    out.facts([("fact", 12_345), ("other", "text")])
    out.note("a note")
    with out.progress("working", 10) as advance:
        advance(10)


def test_in_a_pipe_there_are_rows_and_nothing_else() -> None:
    result = CliRunner().invoke(both)
    assert result.stdout == '{"n": 1}\n'
    assert result.stderr == "a note\n"


def test_words_are_words_and_no_markup() -> None:
    result = CliRunner().invoke(both, ["--no-json"])
    assert "words [not markup]" in result.stdout
    assert '{"n": 1}' not in result.stdout
    assert "22,000" in result.stdout.replace(" ", " ")
    assert "12,345" in result.stdout
    assert "–" in result.stdout


def test_on_a_terminal_there_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert not Output().is_json
    assert Output(is_json=True).is_json


def test_progress_is_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(presenting, "PROGRESS_AFTER_SECONDS", -1.0)
    with Output(is_json=True).progress("reading", 3, unit="rows") as advance:
        advance(3)
    assert "reading" in capsys.readouterr().err
    with Output(is_json=True).progress("counting", unit="rows") as advance:
        advance(2)
    assert "2 rows" in capsys.readouterr().err


def test_streams_that_are_closed_or_of_few_letters_are_made_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    for name, stream in (("stdin", None), ("stdout", few), ("stderr", None)):
        monkeypatch.setattr(sys, name, stream)
    prepare_streams()
    few.write("…é")
    few.flush()
    assert few.buffer.getvalue() == b"?\xe9"
    assert json_line({"url": "…"}) == '{"url": "\\u2026"}'
    with sys.stdin as stdin, pytest.raises(OSError, match="Bad file descriptor"):
        stdin.read()
    with sys.stderr as stderr:
        stderr.write("nobody reads this")
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    with pytest.raises(OSError, match="Bad file descriptor"):
        click.echo("x")
    drop_output()
    sys.stdout.close()


def test_shares_are_shown_in_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(presenting, "PROGRESS_AFTER_SECONDS", -1.0)
    with Output(is_json=True).progress("replaying", 1.0, unit="%") as advance:
        advance(0.25)
    assert "25 %" in terminal.getvalue()
    assert " of " not in terminal.getvalue()
