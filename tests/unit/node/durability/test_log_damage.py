"""A log that has lost records is recognised; the corpus does not open, and every file stays."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import CorpusConfig, Outcome
from recrawl.errors import LogDamagedError
from recrawl.node.durability.log_damage import (
    LOG_ENDS_FILE,
    check_log,
    read_log_ends,
    read_partition_ends,
)
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock
from tests.unit.node.durability.test_recovery import crashed_copy

pytestmark = pytest.mark.filterwarnings("error")
CONFIG: dict[str, Any] = {"politeness": IMPOLITE, "snapshots": {"every": "52w"}}


def urls(name: str, n: int = 5) -> list[str]:
    return [f"https://{name}.example/{i}" for i in range(n)]


def config_of(**ledger: str) -> CorpusConfig:
    return CorpusConfig.from_dict({**CONFIG, "ledger": {"kind": "rocksdb", **ledger}})


@pytest.fixture
def folder(tmp_path: Path, clock: ManualClock) -> Path:
    """Return a corpus that was closed, with a snapshot and a few records after it."""
    folder = tmp_path / "corpus"
    with recrawl.open(folder, config_of(), clock=clock) as corpus:
        corpus.add(urls("a"))
        orders = corpus.lease(3)
        corpus.report([Outcome(handle=order.handle, digest=b"1") for order in orders])
        corpus.snapshot()
        corpus.add(urls("b"))
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    """Return all files except the engine's own text logs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("LOG")
    }


def remove_log(folder: Path) -> None:
    shutil.rmtree(folder / "log")


def empty_log(folder: Path) -> None:
    remove_log(folder)
    (folder / "log").mkdir()


def remove_write_ahead_logs(folder: Path) -> None:
    """Remove what a backup misses that leaves out files by the pattern ``*.log``."""
    for path in folder.rglob("*.log"):
        path.unlink()


def remove_write_ahead_log_of_log(folder: Path) -> None:
    for path in (folder / "log").glob("*.log"):
        path.unlink()


def truncate_write_ahead_log(folder: Path) -> None:
    for path in (folder / "log").glob("*.log"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])


@pytest.mark.parametrize(
    ("damage", "is_killed"),
    [
        (remove_log, False),
        (empty_log, False),
        (remove_log, True),
        (empty_log, True),
        (remove_write_ahead_logs, True),
        (remove_write_ahead_log_of_log, True),
        (truncate_write_ahead_log, True),
    ],
)
def test_a_damaged_log_is_refused_and_every_file_stays(
    folder: Path,
    tmp_path: Path,
    clock: ManualClock,
    damage: Callable[[Path], None],
    is_killed: bool,
) -> None:
    if is_killed:
        with recrawl.open(folder, config_of(), clock=clock) as corpus:
            corpus.add(urls("c"))
            folder = crashed_copy(folder, tmp_path / "killed")
    damage(folder)
    before = files_in(folder)
    for _ in range(2):
        with pytest.raises(LogDamagedError) as refused:
            recrawl.open(folder, config_of(), clock=clock)
    assert f"recrawl doctor --repair -C {folder}" in str(refused.value)
    assert "Nothing was changed" in str(refused.value)
    assert files_in(folder) == before


@pytest.fixture
def killed(folder: Path, tmp_path: Path, clock: ManualClock) -> Path:
    """Return a copy of the corpus as a killed process leaves it."""
    with recrawl.open(folder, config_of(), clock=clock) as corpus:
        corpus.snapshot()
        corpus.add(urls("c"))
        return crashed_copy(folder, tmp_path / "killed")


def test_a_corpus_that_was_closed_needs_no_write_ahead_log(
    folder: Path, clock: ManualClock
) -> None:
    remove_write_ahead_logs(folder)
    with recrawl.open(folder, config_of(), clock=clock) as corpus:
        assert corpus.stats().n_pages == 10


def test_the_message_has_the_positions(killed: Path, clock: ManualClock) -> None:
    folder = killed
    (found,) = read_partition_ends(folder, config_of())
    assert not found.has_lost_records
    truncate_write_ahead_log(folder)
    (lost,) = read_partition_ends(folder, config_of())
    assert lost.end < found.end == found.store
    with pytest.raises(LogDamagedError) as refused:
        recrawl.open(folder, config_of(), clock=clock)
    message = str(refused.value)
    assert f"the log of partition 0 ends at {lost.end:,}" in message
    assert f"the store is at {found.end:,}" in message


@pytest.mark.parametrize("damage", [remove_log, empty_log, truncate_write_ahead_log])
def test_a_reader_refuses_a_damaged_log_too(
    killed: Path, clock: ManualClock, damage: Callable[[Path], None]
) -> None:
    folder = killed
    damage(folder)
    with pytest.raises(LogDamagedError):
        recrawl.open(folder, config_of(), read_only=True, clock=clock)


def test_without_syncs_a_shortened_log_is_accepted_and_the_store_is_kept_aside(
    folder: Path, tmp_path: Path, clock: ManualClock
) -> None:
    """A power cut may take the last seconds from such a log."""
    config = config_of(durability="os")
    with recrawl.open(folder, config, clock=clock) as corpus:
        corpus.snapshot()
        corpus.add(urls("c", 500))
        copy = crashed_copy(folder, tmp_path / "killed")
    for path in (copy / "log").glob("*.log"):
        path.write_bytes(path.read_bytes()[:-50])
    with recrawl.open(copy, config, clock=clock) as corpus:
        assert corpus.stats().n_pages == 10
        corpus.add(urls("d"))
    assert (copy / "store" / "0.broken").exists()
    remove_log(copy)
    with pytest.raises(LogDamagedError):
        recrawl.open(copy, config, clock=clock)


def test_a_snapshot_ahead_of_a_log_without_syncs_is_refused(
    killed: Path, clock: ManualClock
) -> None:
    """A snapshot waits until its records are on disk, so no power cut explains it."""
    config, folder = config_of(durability="os"), killed
    remove_write_ahead_log_of_log(folder)
    snapshots = sorted((folder / "snapshots" / "0").iterdir())
    with pytest.raises(LogDamagedError, match="a snapshot is at"):
        recrawl.open(folder, config, clock=clock)
    assert sorted((folder / "snapshots" / "0").iterdir()) == snapshots


def test_the_ends_of_the_logs_are_recorded_and_a_broken_file_is_ignored(
    folder: Path, clock: ManualClock
) -> None:
    recorded = read_log_ends(folder, 1)
    assert recorded is not None
    assert recorded.is_closed
    with recrawl.open(folder, config_of(), clock=clock) as corpus:
        during = read_log_ends(folder, 1)
        assert during is not None
        assert not during.is_closed
        assert during.ends == (corpus.nodes[0].ledger.end,)
        assert during.ends > recorded.ends
    for content in (b"{", b"[]", b'{"ends": 7}', b'{"ends": ["x"], "is_closed": true}', b"\xff"):
        (folder / LOG_ENDS_FILE).write_bytes(content)
        assert read_log_ends(folder, 1) is None
        check_log(folder, config_of())
    assert read_log_ends(folder, 2) is None


def test_a_new_corpus_is_not_taken_for_a_damaged_one(tmp_path: Path, clock: ManualClock) -> None:
    """A process that died while it created the log left a FORMAT file and parts of a log."""
    folder = tmp_path / "corpus"
    recrawl.open(folder, config_of(), clock=clock).close()
    shutil.rmtree(folder / "store")
    remove_log(folder)
    for name in (LOG_ENDS_FILE, "last-config.json"):
        (folder / name).unlink()
    with recrawl.open(folder, config_of(), clock=clock) as corpus:
        assert corpus.add(urls("a")).n_added == 5
