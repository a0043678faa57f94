"""A corpus on Kafka is restored as it was at a time, and never writes to the topic."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import recrawl
from recrawl.cli import main
from recrawl.corpus import CorpusConfig, restore_corpus_at
from recrawl.errors import BackupError, ConfigError, LedgerError
from recrawl.ledger.kafka import KafkaLog
from recrawl.ledger.shared_snapshots import SharedSnapshots
from tests.manual_clock import ManualClock
from tests.unit.corpus.test_snapshots_in_storage import (
    config_of,
    fail_to_list,
    flip_byte,
    no_thread,
    pages_of,
    work,
)

__all__ = ["no_thread"]

pytestmark = pytest.mark.slow_without_jit


class Worked:
    """A corpus that has worked a while, and its pages after each step."""

    def __init__(self, config: CorpusConfig, folder: Path, clock: ManualClock) -> None:
        self.config, self.folder = config, folder
        self.at_ms: dict[str, int] = {}
        self.pages: dict[str, list[dict[str, Any]]] = {}
        with recrawl.open(folder, config, clock=clock) as corpus:
            for name in "uvwxyz":
                work(corpus, name, clock)
                self._note(name, corpus, clock)
                corpus.add([f"https://h{i}.example/{name}/later" for i in range(7)])
                clock.pass_seconds(60)
                corpus.lease(1)  # writes the time to the log
                self._note(name * 2, corpus, clock)
            self.ends = [node.ledger.end for node in corpus.nodes]

    def _note(self, name: str, corpus: recrawl.Corpus, clock: ManualClock) -> None:
        self.at_ms[name], self.pages[name] = clock.wall_ms(), pages_of(corpus)
        clock.pass_seconds(60)

    def ends_now(self) -> list[int]:
        ledger = self.config.ledger
        with KafkaLog.open(str(ledger.bootstrap), str(ledger.topic), create=False) as log:
            return [log.partition(i).end for i in range(log.n_partitions)]


@pytest.fixture
def worked(kafka_bootstrap: str, kafka_topic: str, tmp_path: Path, clock: ManualClock) -> Worked:
    config = config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"), n_partitions=2)
    return Worked(config, tmp_path / "a", clock)


def test_a_time_is_restored_from_a_snapshot_and_the_log(
    worked: Worked, tmp_path: Path, clock: ManualClock
) -> None:
    # The log begins between x and y, so earlier times are restored as of a snapshot.
    for name, expected, n_snapshot_only in [
        ("zz", "zz", 0),
        ("z", "z", 0),
        ("yy", "yy", 0),
        ("xx", "x", 2),
        ("w", "w", 2),
    ]:
        target = tmp_path / f"restored-{name}"
        restored = restore_corpus_at(worked.folder, target, worked.at_ms[name])
        assert restored.n_snapshot_only == n_snapshot_only
        assert restored.reached_ms <= worked.at_ms[expected]
        if n_snapshot_only == 0:
            assert restored.reached_ms == restored.at_ms
        ends = worked.ends_now()
        # A command that only reads sees the same.
        with recrawl.open(target, clock=clock, read_only=True) as corpus:
            found = pages_of(corpus)
            assert [row["url"] for row in found] == [row["url"] for row in worked.pages[expected]]
        with recrawl.open(target, clock=clock) as corpus:
            found = pages_of(corpus)
            assert [row["url"] for row in found] == [row["url"] for row in worked.pages[expected]]
            for row in (*found, *worked.pages[expected]):
                del row["is_in_flight"]  # leases have expired meanwhile
            assert found == worked.pages[expected]
            assert not [*(target / "store").glob("*.broken")]
            # It works on, and the topic stays as it is.
            work(corpus, "more", clock)
        assert worked.ends_now() == ends == worked.ends
    with recrawl.open(worked.folder, worked.config, clock=clock) as corpus:
        assert len(pages_of(corpus)) == len(worked.pages["zz"])


@pytest.fixture
def young(kafka_bootstrap: str, kafka_topic: str, tmp_path: Path, clock: ManualClock) -> Path:
    """Folder of a corpus that has no snapshot yet."""
    config = config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"), n_partitions=2)
    with recrawl.open(tmp_path / "a", config, clock=clock) as corpus:
        for name in "uv":
            clock.pass_seconds(60)
            corpus.add([f"https://h{i}.example/{name}" for i in range(7)])
    assert not [*(tmp_path / "shared").glob("*/[01]/*")]
    return tmp_path / "a"


def test_what_the_log_alone_has_is_restored_and_can_be_exported(
    young: Path, clock: ManualClock
) -> None:
    target = young.with_name("restored")
    restored = restore_corpus_at(young, target, clock.wall_ms())
    assert (restored.n_snapshot_only, restored.reached_ms) == (0, clock.wall_ms())
    result = CliRunner().invoke(main, ["export", "-C", str(target)])
    assert result.exit_code == 0, result.output
    urls = {json.loads(line)["url"] for line in result.stdout.splitlines()}
    assert urls == {f"https://h{i}.example/{name}" for i in range(7) for name in "uv"}
    with recrawl.open(young, clock=clock) as corpus:
        assert len(pages_of(corpus)) == 14


def test_a_time_before_the_corpus_existed_is_refused_with_when_it_began(
    young: Path, clock: ManualClock
) -> None:
    target = young.with_name("restored")
    began_ms = clock.wall_ms() - 120_000
    for at_ms in (began_ms - 1, began_ms - 5 * 86_400_000):
        with pytest.raises(BackupError, match=r"did not exist at .*: it began at 2023-11-14 22:13"):
            restore_corpus_at(young, target, at_ms)
        assert not target.exists()
    assert restore_corpus_at(young, target, began_ms).reached_ms == began_ms
    with recrawl.open(target, clock=clock, read_only=True) as corpus:
        assert pages_of(corpus) == []


def test_a_restored_corpus_cannot_be_put_on_the_topic(
    worked: Worked, tmp_path: Path, clock: ManualClock
) -> None:
    target = tmp_path / "restored"
    restore_corpus_at(worked.folder, target, worked.at_ms["z"])
    with pytest.raises(ConfigError, match=r"ledger\.kind is 'rocksdb' and cannot be changed"):
        recrawl.open(target, worked.config, clock=clock)
    assert worked.ends_now() == worked.ends


def test_only_the_configuration_is_needed(
    worked: Worked, tmp_path: Path, clock: ManualClock
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with pytest.raises(ConfigError, match=r"has no recrawl\.toml"):
        restore_corpus_at(source, tmp_path / "restored", worked.at_ms["z"])
    shutil.copy(worked.folder / "last-config.json", source)
    restore_corpus_at(source, tmp_path / "restored", worked.at_ms["z"])
    with recrawl.open(tmp_path / "restored", clock=clock) as corpus:
        assert len(pages_of(corpus)) == len(worked.pages["z"])
    assert [path.name for path in source.iterdir()] == ["last-config.json"]


def test_damaged_snapshots_are_skipped_and_nothing_is_left_after_an_error(
    worked: Worked, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "restored"
    for folder in (tmp_path / "shared").glob("*/[01]"):
        newest = max(folder.iterdir())
        newest.write_bytes(newest.read_bytes()[:-9])
    restored = restore_corpus_at(worked.folder, target, worked.at_ms["zz"])
    assert (restored.n_snapshot_only, restored.n_records > 10) == (0, True)
    with recrawl.open(target, clock=clock) as corpus:
        assert len(pages_of(corpus)) == len(worked.pages["zz"])
    with pytest.raises(BackupError, match="is not empty"):
        restore_corpus_at(worked.folder, target, worked.at_ms["zz"])
    with pytest.raises(BackupError, match=r"no intact snapshot is from before .*oldest .* is of"):
        restore_corpus_at(worked.folder, tmp_path / "early", worked.at_ms["u"])
    for path in (tmp_path / "shared").rglob("chunks/*/*"):
        flip_byte(path)
    with pytest.raises(BackupError, match="no intact snapshot is from before"):
        restore_corpus_at(worked.folder, tmp_path / "early", worked.at_ms["zz"])
    assert not (tmp_path / "early").exists()
    monkeypatch.setattr(SharedSnapshots, "list_complete", fail_to_list)
    with pytest.raises(LedgerError, match="the storage is away"):
        restore_corpus_at(worked.folder, tmp_path / "early", worked.at_ms["zz"])
    assert not (tmp_path / "early").exists()


def test_without_brokers_snapshots_are_restored(
    worked: Worked, tmp_path: Path, clock: ManualClock
) -> None:
    tables = json.loads((worked.folder / "last-config.json").read_text())
    tables["ledger"] |= {"bootstrap": "127.0.0.1:1", "give_up_after": 1.0}
    (worked.folder / "last-config.json").write_text(json.dumps(tables))
    restored = restore_corpus_at(worked.folder, tmp_path / "restored", worked.at_ms["zz"])
    assert (restored.n_snapshot_only, restored.n_records) == (2, 0)
    with recrawl.open(tmp_path / "restored", clock=clock) as corpus:
        assert len(pages_of(corpus)) == len(worked.pages["z"])


def test_the_command_says_what_was_restored(worked: Worked, tmp_path: Path) -> None:
    def restore(at: str, name: str) -> str:
        arguments = ["restore", str(worked.folder), str(tmp_path / name), "--at", at, "--no-json"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    def time_of(name: str) -> str:
        return datetime.fromtimestamp(worked.at_ms[name] / 1000, UTC).isoformat()

    said = restore(time_of("zz"), "whole")
    assert (
        f"2 partitions restored as they were at {time_of('zz')[:19].replace('T', ' ')} UTC" in said
    )
    assert "nothing you do there reaches the topic" in said
    assert "snapshot" not in said
    said = restore(time_of("xx"), "older")
    assert "2 partitions restored as they were at their last snapshots before" in said
    assert "the oldest is of 2023-11-14" in said
    arguments = ["restore", str(worked.folder), str(tmp_path / "both"), "--at", "now"]
    result = CliRunner().invoke(main, [*arguments, "--name", "000001"])
    assert "give either --name or --at" in result.output
