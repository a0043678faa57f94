"""Tests of output as text and as JSON lines."""

import doctest
import io
import json
import sys
from enum import IntEnum, StrEnum

import click
import numpy as np
import pytest
from click.testing import CliRunner

from recrawl.cli.support import output
from recrawl.cli.support.output import (
    Output,
    discard_output,
    json_line,
    output_option,
    prepare_streams,
    wrap_for_stderr,
)


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    DUE = "it is due"


def test_the_doctests_pass() -> None:
    assert doctest.testmod(output).failed == 0


def test_nan_and_infinity_become_null() -> None:
    row = json.loads(json_line({"a": float("nan"), "b": float("inf"), "c": 1.5, "d": None}))
    assert row == {"a": None, "b": None, "c": 1.5, "d": None}


def test_a_row_accepts_arrays_enums_bytes_and_nested_values() -> None:
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


def test_a_pipe_gets_json_rows_only() -> None:
    result = CliRunner().invoke(both)
    assert result.stdout == '{"n": 1}\n'
    assert result.stderr == "a note\n"


def test_text_is_printed_without_markup() -> None:
    result = CliRunner().invoke(both, ["--no-json"])
    assert "words [not markup]" in result.stdout
    assert '{"n": 1}' not in result.stdout
    assert "22,000" in result.stdout.replace(" ", " ")
    assert "12,345" in result.stdout
    assert "–" in result.stdout


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert not Output().is_json
    assert Output(is_json=True).is_json


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(output, "PROGRESS_AFTER_SECONDS", -1.0)
    with Output(is_json=True).progress("reading", 3, unit="rows") as advance:
        advance(3)
    assert "reading" in capsys.readouterr().err
    with Output(is_json=True).progress("counting", unit="rows") as advance:
        advance(2)
    assert "2 rows" in capsys.readouterr().err


def test_closed_streams_and_narrow_encodings_are_made_usable(
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
    discard_output()
    sys.stdout.close()


def test_progress_in_shares_is_shown_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(output, "PROGRESS_AFTER_SECONDS", -1.0)
    with Output(is_json=True).progress("replaying", 1.0, unit="%") as advance:
        advance(0.25)
    assert "25 %" in terminal.getvalue()
    assert " of " not in terminal.getvalue()


def test_notes_are_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "see recrawl.toml, which\n  has the rest"
    assert wrap_for_stderr(text) == text
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "22")
    wrapped = wrap_for_stderr(text, prefix="Error: ")
    assert wrapped == "see\nrecrawl.toml, which\n  has the rest"
