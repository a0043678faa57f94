"""Small commands are interpreted, large ones compiled, and a first one says why it takes long."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import pytest

from recrawl import kernel_mode
from recrawl.cli.support import kernels
from recrawl.ledger import Record, RocksLog


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Begin as a new process does, on a machine that has compiled nothing; what would be noted."""
    noted: list[list[str]] = []

    def register(function: Callable[[list[str]], None], commands: list[str]) -> None:
        noted.append(commands)

    monkeypatch.setattr(kernel_mode, "_chosen", None)
    monkeypatch.setattr(kernel_mode, "_is_settled", False)
    monkeypatch.delenv(kernel_mode.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("recrawl.cli.support.kernels.atexit.register", register)
    return noted


def corpus_of(folder: Path, *, n_pages: int, ledger: str = "rocksdb") -> Path:
    """Return a folder with files as large as those of so many pages would be."""
    (folder / "log").mkdir(parents=True)
    (folder / "store" / "0").mkdir(parents=True)
    (folder / "FORMAT").write_text(json.dumps({"ledger": ledger}))
    for name, n_bytes in (("log/1.sst", 10), ("store/0/1.sst", 30), ("store/0/LOG", 10_000)):
        with (folder / name).open("wb") as file:
            file.truncate(n_bytes * n_pages)
    return folder


def test_a_small_corpus_is_interpreted_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: list[list[str]]
) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=1_000)
    for command in ("stats", "lease", "explain", "report"):
        assert kernels.choose_kernels(folder, command=command) == "interpreted"
    assert capsys.readouterr() == ("", "")
    assert alone == []


def test_a_large_corpus_is_compiled_with_a_word_the_first_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: list[list[str]]
) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=10_000_000)
    assert kernels.choose_kernels(folder, command="lease") == "compiled"
    assert "once per machine and version" in capsys.readouterr().err
    assert alone == [["lease"]]

    kernels._note_compiled(["lease"])
    assert kernels.is_compiled("lease")
    assert not kernels.is_compiled("add")
    assert not kernels.is_compiled()
    assert kernels.choose_kernels(folder, command="lease") == "compiled"
    assert capsys.readouterr().err == ""


def test_of_a_long_log_only_what_no_snapshot_holds_counts(
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


def test_a_file_that_is_gone_when_it_is_looked_at_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.sst").symlink_to("nowhere")
    assert kernels.interpreted_seconds(tmp_path, command="lease") == 0


def test_what_is_not_compiled_yet_may_be_interpreted_for_longer(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=1_000)
    n_bytes = 200_000
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "interpreted"
    kernels._note_compiled(["*"])
    assert kernels.is_compiled()
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "compiled"


def test_much_input_or_input_of_unknown_length_is_compiled(tmp_path: Path) -> None:
    folder = tmp_path / "none yet"
    assert kernels.choose_kernels(folder, command="add", n_bytes_input=40_000) == "interpreted"
    for n_bytes in (10_000_000, None):
        assert kernels.choose_kernels(folder, command="add", n_bytes_input=n_bytes) == "compiled"


def test_a_log_elsewhere_may_be_of_any_length(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path / "c", n_pages=10, ledger="kafka")
    assert kernels.choose_kernels(folder, command="stats") == "compiled"


def test_the_user_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel_mode.VARIABLE, "compiled")
    folder = corpus_of(tmp_path / "c", n_pages=10)
    assert kernels.choose_kernels(folder, command="stats") == "compiled"


def test_where_nothing_can_be_noted_it_works_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    kernels._note_compiled(["stats"])
    assert not kernels.is_compiled("stats")


def test_compiling_all_runs_what_commands_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # that it runs: compiling takes a minute
    kernels.compile_all()
    assert kernels.is_compiled()


def test_compiling_all_says_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recrawl.cli.support.kernels.sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match="kernels could not be compiled"):
        kernels.compile_all()
    assert not kernels.is_compiled()


def test_kernels_that_there_are_not_are_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECRAWL_KERNELS", "bad")
    with pytest.raises(click.UsageError, match="RECRAWL_KERNELS must be one of"):
        kernels.choose_kernels(tmp_path, command="stats")
    with pytest.raises(click.UsageError, match="RECRAWL_KERNELS must be one of"):
        kernels.require_compiled("backtest")
