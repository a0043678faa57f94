"""Tests of all commands together: help, exit codes, and real pipes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import recrawl.cli
from recrawl.cli import COMMANDS, CommandEntry, main
from recrawl.errors import RecrawlError
from tests.unit.cli.conftest import PAGES, Recrawl

FETCHER = """
import json, sys
for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps({"handle": order["handle"], "status": 200, "digest": "1"}), flush=True)
"""


def with_command(monkeypatch: pytest.MonkeyPatch, command: click.Command) -> None:
    """Add a command of the test to the list of commands."""
    monkeypatch.setattr(recrawl.cli, "own", command, raising=False)
    place = CommandEntry("recrawl.cli", "own", "A command of a test.")
    monkeypatch.setitem(COMMANDS, "Own", {"own": place})


def test_help_lists_every_command_with_its_summary() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    context = click.Context(main)
    for places in COMMANDS.values():
        for name, place in places.items():
            if main.get_command(context, name) is not None:
                assert f"  {name}" in shown
                assert place.summary in shown


def test_a_command_without_its_module_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = CommandEntry("recrawl.cli.no_such_module", "command", "Nothing.")
    monkeypatch.setitem(COMMANDS, "Own", {"nothing": place})
    assert "nothing" not in main.list_commands(click.Context(main))
    assert "Nothing." not in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, ["nothing"]).exit_code == 2


def test_a_recrawl_error_exits_with_1_and_a_message(
    monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl
) -> None:
    @click.command()
    def fails() -> None:
        raise RecrawlError("it is broken.\nMend it.")

    with_command(monkeypatch, fails)
    ran = recrawl("own")
    assert (ran.code, ran.err) == (1, "Error: it is broken.\nMend it.\n")


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    with_command(monkeypatch, interrupted)
    ran = recrawl("own")
    assert ran.code == 130
    assert ran.err == "Stopped.\n"


def test_a_broken_pipe_exits_silently(monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl) -> None:
    @click.command()
    def closed() -> None:
        raise BrokenPipeError

    with_command(monkeypatch, closed)
    ran = recrawl("own")
    assert (ran.code, ran.err) == (141, "")


# A background job ignores SIGINT, and its children inherit that; this resets it.
INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def python(*arguments: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.slow_without_jit
def test_lease_and_report_work_in_a_pipe(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "fetch.py").write_text(FETCHER)
    command = f"{sys.executable} -m recrawl"
    line = f"{command} lease 10 | {sys.executable} fetch.py | {command} report"
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_new"] == 3


@pytest.mark.slow_without_jit
def test_export_ends_silently_when_its_reader_ends(in_corpus: Recrawl, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("".join(f"https://a.example/{i}\n" for i in range(20_000)))
    in_corpus("add", "urls.txt")
    with python("-m", "recrawl", "export", folder=tmp_path) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        assert b"https://" in export.stdout.readline()
        export.stdout.close()
        assert export.stderr.read() == b""
        assert export.wait(timeout=300) == 141


@pytest.mark.slow_without_jit
def test_an_interrupted_report_keeps_reported_outcomes(in_corpus: Recrawl, tmp_path: Path) -> None:
    follow = python("-m", "recrawl", "changes", "--follow", folder=tmp_path)
    with python("-m", "recrawl", "report", folder=tmp_path) as report, follow:
        assert report.stdin is not None
        assert follow.stdout is not None
        told = {"url": PAGES[0], "status": 200, "digest": "1"}
        report.stdin.write(json.dumps(told).encode() + b"\n")
        report.stdin.flush()
        # Another process sees the outcome before the pipe ends.
        assert json.loads(follow.stdout.readline())["url"] == PAGES[0]
        for process in (report, follow):
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=300) == 130
    assert in_corpus("changes").row["what"] == "new"


def test_an_error_of_the_system_is_a_message(
    monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl
) -> None:
    @click.command()
    @click.argument("name", required=False)
    def refused(name: str | None) -> None:
        raise OSError(13, "Permission denied", *([name] if name else []))

    with_command(monkeypatch, refused)
    ran = recrawl("own", "x.txt")
    assert (ran.code, ran.err.splitlines()[0]) == (1, "Error: x.txt: Permission denied.")
    assert recrawl("own").err.startswith("Error: input or output failed: Permission denied.\n")


def test_help_that_cannot_be_printed_is_a_message(
    monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl
) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(main, "get_help", full)
    ran = recrawl("--help")
    assert ran.code == 1
    assert "No space left on device" in ran.err


@pytest.mark.slow_without_jit
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("add <&-", 1, "Bad file descriptor"),
        ("report <&-", 1, "Bad file descriptor"),
        ("stats >&-", 1, "Bad file descriptor"),
        ("stats <&-", 0, ""),
        ("export > /dev/full", 1, "No space left on device"),
    ],
)
def test_closed_or_full_streams_are_a_message(
    in_corpus: Recrawl, tmp_path: Path, command: str, code: int, said: str
) -> None:
    done = subprocess.run(
        f"{sys.executable} -m recrawl {command}",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"RECRAWL_KERNELS": "interpreted"},
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_corpus_option_is_accepted_before_the_command(recrawl: Recrawl) -> None:
    recrawl("init", "shop")
    assert recrawl("-C", "shop", "stats").row["n_pages"] == 0
    assert recrawl("--corpus", "shop", "stats").code == 0
    assert recrawl("-C", "shop").code == 2
    ran = recrawl("-C", "shop", "config", "show")
    assert (ran.code, "after show" in ran.err) == (2, True)


def test_a_mistyped_command_suggests_a_similar_one(recrawl: Recrawl) -> None:
    ran = recrawl("bcktest")
    assert ran.code == 2
    assert "Did you mean backtest?" in ran.err
    assert "Did you mean" not in recrawl("xyzzy").err
