"""Tests of the choice between interpreted and compiled kernels."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import pytest

from recrawl import kernel_mode
from recrawl.cli.support import kernels
from recrawl.corpus import compiling
from recrawl.ledger import Record, RocksLog


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Start like a new process without compiled kernels; return the commands to record."""
    noted: list[list[str]] = []

    def register(function: Callable[[list[str]], None], commands: list[str]) -> None:
        noted.append(commands)

    monkeypatch.setattr(kernel_mode, "_chosen", None)
    monkeypatch.setattr(kernel_mode, "_is_final", False)
    monkeypatch.delenv(kernel_mode.MODE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("recrawl.cli.support.kernels.atexit.register", register)
    return noted


def corpus_of(folder: Path, *, n_pages: int, ledger: str = "rocksdb") -> Path:
    """Return a folder with files as large as those of a corpus of ``n_pages``."""
    (folder / "log").mkdir(parents=True)
    (folder / "store" / "0").mkdir(parents=True)
    (folder / "FORMAT").write_text(json.dumps({"ledger": ledger}))
    for name, n_bytes in (("log/1.sst", 10), ("store/0/1.sst", 30), ("store/0/LOG", 10_000)):
        with (folder / name).open("wb") as file:
            file.truncate(n_bytes * n_pages)
    return folder


def test_a_small_corpus_runs_interpreted_without_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: list[list[str]]
) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=1_000)
    for command in ("stats", "lease", "explain", "report"):
        assert kernels.choose_kernels(folder, command=command) == "interpreted"
    assert capsys.readouterr() == ("", "")
    assert alone == []


def test_a_large_corpus_prints_a_notice_before_the_first_compilation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: list[list[str]]
) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=10_000_000)
    assert kernels.choose_kernels(folder, command="lease") == "compiled"
    assert "First run of this command: compiling (once per version" in capsys.readouterr().err
    assert alone == [["lease"]]

    compiling.record_compiled(["lease"])
    assert compiling.is_compiled("lease")
    assert not compiling.is_compiled("add")
    assert not compiling.is_compiled()
    assert kernels.choose_kernels(folder, command="lease") == "compiled"
    assert capsys.readouterr().err == ""


def test_only_the_log_after_the_newest_snapshot_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=100_000)
    assert kernels.interpreted_seconds(folder, command="explain") == float("inf")  # no log at all

    (folder / "log" / "1.sst").unlink()
    (folder / "FORMAT").write_text(json.dumps({"ledger": "rocksdb", "partitions": 1}))
    with closing(RocksLog.open(folder / "log", 1)) as log:
        log.partition(0).append([Record(1, bytes(600_000)), Record(1, bytes(600))])
    monkeypatch.setattr(kernels, "_LOGGED_PAGES_MAX", -1)
    whole = kernels.interpreted_seconds(folder, command="explain")
    manifest = folder / "snapshots" / "0" / f"{1:020}" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    rest = kernels.interpreted_seconds(folder, command="explain")
    assert rest == pytest.approx(whole / 1_001)
    assert kernels.interpreted_seconds(folder, command="lease") > 100 * rest


def test_a_file_that_disappears_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.sst").symlink_to("nowhere")
    assert kernels.interpreted_seconds(tmp_path, command="lease") == 0


def test_commands_not_compiled_yet_run_interpreted_for_longer(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=1_000)
    n_bytes = 200_000
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "interpreted"
    compiling.record_compiled(["*"])
    assert compiling.is_compiled()
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "compiled"


def test_large_or_unknown_input_runs_compiled(tmp_path: Path) -> None:
    folder = tmp_path / "none yet"
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=40_000) == "interpreted"
    for n_bytes in (10_000_000, None):
        assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "compiled"


def test_a_corpus_with_a_remote_log_runs_compiled(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=10, ledger="kafka")
    assert kernels.choose_kernels(folder, command="stats") == "compiled"


def test_the_environment_variable_overrides_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kernel_mode.MODE_VARIABLE, "compiled")
    folder = corpus_of(tmp_path / "c", n_pages=10)
    assert kernels.choose_kernels(folder, command="stats") == "compiled"


def test_an_unwritable_cache_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    compiling.record_compiled(["stats"])
    assert not compiling.is_compiled("stats")


def test_compile_all_exercises_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # that it runs: compiling takes a minute
    compiling.compile_all()
    assert compiling.is_compiled()


def test_a_command_that_compiles_first_shows_progress_and_then_has_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte of a process counts as a function; the bar never shows more than all."""
    script = tmp_path / "compile"
    script.write_text("#!/bin/sh\nhead -c 1000 /dev/zero\n")
    script.chmod(0o755)
    monkeypatch.setattr("recrawl.cli.support.kernels.sys.executable", str(script))
    monkeypatch.setattr("recrawl.cli.support.kernels._LINE_SECONDS", 0.0)
    mode = kernels.choose_kernels(
        tmp_path / "new", command="run", n_bytes_input=None, compiles_first=True
    )
    assert mode == "compiled"
    assert compiling.is_compiled("run")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Compiling for this machine (once per version")
    n = compiling.COMPILED_ABOUT
    assert f"Compiled {n} of about {n} functions …" in lines
    kernels.choose_kernels(tmp_path / "new", command="run", n_bytes_input=None, compiles_first=True)
    assert capsys.readouterr().err == ""


def test_processes_that_compile_end_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "compile"
    script.write_text("#!/bin/sh\necho $$ >&2\necho .\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr("recrawl.cli.support.kernels.sys.executable", str(script))

    def press_ctrl_c(n: int) -> None:
        if n:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiling.compile_all(press_ctrl_c)
    assert not compiling.is_compiled()


def test_compile_all_reports_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recrawl.cli.support.kernels.sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match="kernels could not be compiled"):
        compiling.compile_all()
    assert not compiling.is_compiled()


def test_an_unknown_kernel_mode_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECRAWL_KERNELS", "bad")
    with pytest.raises(click.UsageError, match="RECRAWL_KERNELS must be one of"):
        kernels.choose_kernels(tmp_path, command="stats")
    with pytest.raises(click.UsageError, match="RECRAWL_KERNELS must be one of"):
        kernels.require_compiled("backtest")
