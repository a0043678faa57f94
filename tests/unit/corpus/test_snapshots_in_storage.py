"""Another machine continues a corpus on Kafka from snapshots in shared storage."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, resize_corpus
from recrawl.corpus.doctor import CheckResult, Severity, check_corpus, repair_corpus
from recrawl.errors import ConfigError, LedgerError, LogDamagedError, RecoveryError, SnapshotError
from recrawl.kv.damage_marks import mark_damaged
from recrawl.ledger import SnapshotFolder
from recrawl.ledger.kafka import KafkaLedger
from recrawl.ledger.shared_snapshots import SharedSnapshots
from recrawl.node.durability import recovery, shared_copies, snapshotter
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit

DIGEST = bytes(16)
COLUMNS = ["url", "is_in_flight", "belief_shape", "fetched_at_ms"]


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take and copy snapshots only when a test says so."""
    monkeypatch.setattr(snapshotter, "_CHECK_SECONDS", 3600.0)


@pytest.fixture
def thread(no_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take and copy snapshots as time passes."""
    monkeypatch.setattr(snapshotter, "_CHECK_SECONDS", 0.05)


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str, tmp_path: Path) -> CorpusConfig:
    return config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"))


def config_of(bootstrap: str, topic: str, shared: str, n_partitions: int = 1) -> CorpusConfig:
    ledger = {"kind": "kafka", "bootstrap": bootstrap, "topic": topic, "replication": 1}
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": n_partitions},
            "ledger": ledger,
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
            "snapshots": {"shared": shared},
        }
    )


def work(corpus: Corpus, name: str, clock: ManualClock) -> None:
    """Add pages, fetch some, and take a snapshot."""
    corpus.add([f"https://h{i % 7}.example/{name}/{i}" for i in range(20)])
    clock.pass_seconds(60)
    orders = corpus.lease(10)
    corpus.report([Outcome(handle=order.handle, digest=DIGEST) for order in orders])
    corpus.snapshot()


def pages_of(corpus: Corpus) -> list[dict[str, Any]]:
    rows = [row for batch in corpus.pages(COLUMNS) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["url"]))


def first_of(corpus: Corpus, partition: int = 0) -> int:
    return corpus.nodes[partition].ledger.first


def copies_of(corpus: Corpus, partition: int = 0) -> list[int]:
    """Return the positions of the snapshots in shared storage, newest first."""
    shared = corpus.partitions[partition].snapshots.shared
    assert shared is not None
    return [one.position for one in shared.list_complete()]


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_machine_without_files_continues_from_shared_storage(
    tmp_path: Path, kafka_bootstrap: str, kafka_topic: str, clock: ManualClock
) -> None:
    config = config_of(kafka_bootstrap, kafka_topic, str(tmp_path / "shared"), n_partitions=2)
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
        expected, changes = pages_of(a), [change.url for change in a.changes()]
        assert [first_of(a, i) for i in (0, 1)] == [copies_of(a, i)[1] for i in (0, 1)]
    with recrawl.open(tmp_path / "b", config, clock=clock, partitions=[1]) as b:
        b.open_partition(0)
        assert pages_of(b) == expected
        assert len(expected) == 60
        assert [change.url for change in b.changes()] == changes
        work(b, "b", clock)
    with recrawl.open(tmp_path / "c", config, clock=clock, partitions=[0, 1]) as c:
        assert len(pages_of(c)) == 80


def test_without_shared_storage_another_machine_cannot_begin(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(RecoveryError, match="no snapshot can be used, and the log begins at"):
        recrawl.open(tmp_path / "b", config, clock=clock)


def test_the_log_is_truncated_only_by_copies_that_were_read_back(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise SnapshotError("a chunk has other bytes")

    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "first", clock)
        work(a, "second", clock)
        first = first_of(a)
        assert first == copies_of(a)[1] > 0
        with monkeypatch.context() as patches:
            patches.setattr(SharedSnapshots, "verify", fail)
            for name in ("away", "still-away", "away-again"):
                work(a, name, clock)
            assert "the log grows meanwhile" in caplog.text
            assert (first_of(a), len(copies_of(a))) == (first, 2)
            assert a.nodes[0].position > a.partitions[0].snapshots.list_saved()[-1].position > first
        work(a, "back", clock)
        assert copies_of(a)[1] == first_of(a) > first
        expected = pages_of(a)
    with recrawl.open(tmp_path / "b", config, clock=clock) as b:
        assert pages_of(b) == expected


def test_calls_go_on_while_brokers_do_not_truncate_the_log(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a partition is truncated without the lock that every call takes."""
    truncate, n_added = KafkaLedger.truncate, []
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:

        def truncate_late(ledger: KafkaLedger, position: int) -> None:
            call = threading.Thread(target=lambda: n_added.append(a.add([f"https://z{position}/"])))
            call.start()
            call.join(300.0)
            assert not call.is_alive()
            truncate(ledger, position)

        monkeypatch.setattr(KafkaLedger, "truncate", truncate_late)
        for name in "xyz":
            work(a, name, clock)
        assert n_added
        assert first_of(a) == copies_of(a)[1]


def check_that_it_can_be_restored(
    config: CorpusConfig, clock: ManualClock, folder: Path, expected: list[dict[str, Any]]
) -> None:
    """Check that a machine without any files gets all pages."""
    with recrawl.open(folder, config, clock=clock) as corpus:
        assert pages_of(corpus) == expected


def test_truncating_before_verification_is_found(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the other tests finds this bug, if it is planted."""
    real_publish = SharedSnapshots.publish

    def publish_damaged(self: SharedSnapshots, *args: Any, **options: Any) -> Any:
        stored = real_publish(self, *args, **options)
        for path in (tmp_path / "shared").rglob("chunks/*/*"):
            flip_byte(path)
        return stored

    monkeypatch.setattr(SharedSnapshots, "publish", publish_damaged)
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
        expected = pages_of(a)
    check_that_it_can_be_restored(config, clock, tmp_path / "b", expected)
    with monkeypatch.context() as patches:
        patches.setattr(SharedSnapshots, "verify", lambda *_, **__: 0)
        with recrawl.open(tmp_path / "a", config, clock=clock) as a:
            for name in "uvw":
                work(a, name, clock)
            expected = pages_of(a)
    with pytest.raises(RecoveryError):
        check_that_it_can_be_restored(config, clock, tmp_path / "c", expected)


@pytest.mark.parametrize("damage", ["chunk", "columns", "manifest"])
def test_a_damaged_copy_is_skipped_for_an_older_one(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    damage: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xy":
            work(a, name, clock)
        before = {*(tmp_path / "shared").rglob("*")}
        if damage == "columns":
            # Damaged on the disk of the first machine, before they were copied.
            monkeypatch.setattr(shared_copies, "check_snapshot", damage_columns)
        work(a, "z", clock)
        expected = pages_of(a)
    new = {*(tmp_path / "shared").rglob("*")} - before
    if damage == "chunk":
        for path in new:
            if path.is_file() and path.suffix != ".json":
                flip_byte(path)
    if damage == "manifest":
        (manifest,) = (path for path in new if path.suffix == ".json")
        manifest.write_bytes(manifest.read_bytes()[:-20])
    with recrawl.open(tmp_path / "b", config, clock=clock) as b:
        assert pages_of(b) == expected
    assert "is not used" in caplog.text
    (message,) = [one for one in caplog.messages if one.startswith("the shared snapshot")]
    assert ".json is not used: " in message


def damage_columns(saved: Any) -> list[int]:
    flip_byte(saved.folder / "columns")
    return []


def take_over_and_back(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> list[dict[str, Any]]:
    """Let one machine work a while ago, and another one since; return the pages."""
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "x", clock)
        work(a, "y", clock)
    with recrawl.open(tmp_path / "b", config, clock=clock) as b:
        b.remove([f"https://h{i % 7}.example/x/{i}" for i in range(20)])
        for name in "uvw":
            work(b, name, clock)
        return pages_of(b)


@pytest.mark.parametrize("is_in_log", [True, False])
def test_old_files_are_replaced_together(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    is_in_log: bool,
) -> None:
    if is_in_log:  # only far behind
        monkeypatch.setattr(shared_copies.SharedCopies, "copy_newest", copy_without_truncating)
        monkeypatch.setattr(shared_copies, "_RECORDS_BEHIND_MAX", 5)
    expected = take_over_and_back(tmp_path, config, clock)
    old = {*(tmp_path / "a" / "snapshots" / "0").iterdir()}
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert (first_of(a) == 0) == is_in_log
        assert pages_of(a) == expected
        assert a.nodes[0].store.position == a.nodes[0].position
        assert not old & {*(tmp_path / "a" / "snapshots" / "0").iterdir()}
        assert [path.name for path in (tmp_path / "a" / "store").iterdir()] == ["0"]
        work(a, "again", clock)


def copy_without_truncating(
    self: shared_copies.SharedCopies, is_stopping: Callable[[], bool]
) -> None:
    self._copy(is_stopping)


def test_recent_files_are_used_as_they_are(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
        expected = pages_of(a)
    monkeypatch.setattr(SharedSnapshots, "restore", None)
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert pages_of(a) == expected
    # Nor is the storage needed.
    monkeypatch.setattr(SharedSnapshots, "list_complete", fail_to_list)
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert pages_of(a) == expected


@pytest.mark.parametrize("damage", ["snapshots", "store"])
def test_damaged_files_are_replaced(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, damage: str
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for name in "xyz":
            work(a, name, clock)
        a.add(["https://later.example/"])
        expected = pages_of(a)
    for path in (tmp_path / "a" / "snapshots").rglob("columns"):
        flip_byte(path)
    if damage == "store":
        mark_damaged(tmp_path / "a" / "store" / "0", "a block has a wrong checksum")
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert pages_of(a) == expected


@pytest.mark.parametrize("step", ["_adopt", "discard", "replace_store", "_install_store"])
def test_files_may_be_replaced_again_after_an_interruption(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    expected = take_over_and_back(tmp_path, config, clock)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    owner: Any = {"replace_store": shared_copies, "_install_store": recovery}.get(
        step, SnapshotFolder
    )
    with monkeypatch.context() as patches:
        patches.setattr(owner, step, stop)
        with pytest.raises(KeyboardInterrupt):
            recrawl.open(tmp_path / "a", config, clock=clock)
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert pages_of(a) == expected


def test_a_full_disk_ends_an_opening_and_nothing_is_lost(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = take_over_and_back(tmp_path, config, clock)

    def fill_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    before = {path: path.stat().st_size for path in (tmp_path / "a").rglob("*/*/*")}
    with monkeypatch.context() as patches:
        patches.setattr(SharedSnapshots, "_copy_file", fill_disk)
        with pytest.raises(LedgerError, match="No space left on device"):
            recrawl.open(tmp_path / "a", config, clock=clock)
        after = {path: path.stat().st_size for path in (tmp_path / "a").rglob("*/*/*")}
        assert {p for p in before if p.name == "columns"} <= after.keys()
        assert not [*(tmp_path / "a" / "snapshots" / "0").glob("temporary-*")]
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        assert pages_of(a) == expected


def test_the_owner_may_truncate_the_log_meanwhile(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = recrawl.open(tmp_path / "a", config, clock=clock)
    work(owner, "x", clock)
    work(owner, "y", clock)
    real_fetch, left = shared_copies.fetch_newest, iter("uvw")

    def fetch_slowly(*args: Any, **options: Any) -> bool:
        found = real_fetch(*args, **options)
        for name in left:
            work(owner, name, clock)
        return found

    monkeypatch.setattr(recovery, "fetch_newest", fetch_slowly)
    with owner, recrawl.open(tmp_path / "b", config, clock=clock) as b:
        assert len(pages_of(b)) == 100


def test_a_topic_that_has_lost_records_is_recognised_by_the_copies(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "x", clock)
        work(a, "y", clock)
        expected = pages_of(a)
    for path in [*(tmp_path / "shared").rglob("*.json")]:
        position, _, rest = path.name.partition("-")
        shutil.copy(path, path.with_name(f"{int(position) + 1000:020d}-{rest}"))
    with pytest.raises(LogDamagedError, match="the topic has lost records"):
        recrawl.open(tmp_path / "b", config, clock=clock)
    results = [one.what for one in repair_corpus(tmp_path / "a", clock=clock)]
    assert "2 later snapshots removed from shared storage" in results
    for folder in "ab":
        with recrawl.open(tmp_path / folder, config, clock=clock) as corpus:
            assert pages_of(corpus) == expected


@pytest.mark.usefixtures("thread")
def test_the_thread_of_snapshots_copies_them_and_tries_again(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "shared").write_bytes(b"")  # where a folder should be
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        a.add(["https://a.example/"])
        clock.pass_seconds(901)
        wait_until(lambda: "the next attempt follows in 5 s" in caplog.text)
        clock.pass_seconds(6)
        wait_until(lambda: "the next attempt follows in 10 s" in caplog.text)
        (tmp_path / "shared").unlink()
        clock.pass_seconds(11)
        wait_until(lambda: len(copies_of(a)) == 1)
        a.add(["https://b.example/"])
        clock.pass_seconds(901)
        wait_until(lambda: first_of(a) > 0)
        assert first_of(a) == copies_of(a)[1]


def wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.usefixtures("thread")
def test_closing_does_not_wait_for_a_copy(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_copying, may_go_on = threading.Event(), threading.Event()
    real_write, n_written = SharedSnapshots._write, 0

    def write_slowly(self: SharedSnapshots, path: str, data: bytes) -> None:
        nonlocal n_written
        n_written += 1
        is_copying.set()
        assert may_go_on.wait(300)
        real_write(self, path, data)

    monkeypatch.setattr(SharedSnapshots, "_write", write_slowly)
    a = recrawl.open(tmp_path / "a", config, clock=clock)
    a.add(["https://a.example/"])
    clock.pass_seconds(901)
    assert is_copying.wait(300)
    a._snapshotter._stop.set()
    may_go_on.set()
    a.close()
    assert n_written == 1
    assert copies_of(a) == []


def test_a_copy_that_takes_too_long_is_given_up_and_continued(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real_write = SharedSnapshots._write

    def write_slowly(self: SharedSnapshots, path: str, data: bytes) -> None:
        real_write(self, path, data)
        clock.pass_seconds(shared_copies.COPY_SECONDS_MAX / 4)

    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        with monkeypatch.context() as patches:
            patches.setattr(SharedSnapshots, "_write", write_slowly)
            work(a, "x", clock)
            assert "was stopped after 1,800 s" in caplog.text
            assert copies_of(a) == []
            for _ in range(20):
                a.snapshot()
        assert len(copies_of(a)) == 1


def test_settings_of_shared_storage_are_checked(tmp_path: Path, config: CorpusConfig) -> None:
    with pytest.raises(ConfigError, match=r'unless ledger\.kind is "kafka"'):
        CorpusConfig.from_dict({"snapshots": {"shared": "/mnt/shared"}})
    with pytest.raises(ConfigError, match="shared_keep must be at least 2, got 1"):
        CorpusConfig.from_dict({"snapshots": {"shared_keep": 1}})
    tables = config.to_dict()
    tables["snapshots"]["shared"] = "ftp://host/folder"
    with pytest.raises(ConfigError, match="ftp://host/folder is not storage"):
        recrawl.open(tmp_path / "b", CorpusConfig.from_dict(tables))
    assert not (tmp_path / "b").exists()


def test_old_copies_are_removed(tmp_path: Path, config: CorpusConfig, clock: ManualClock) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        for i in range(6):
            work(a, f"x{i}", clock)
        assert len(copies_of(a)) == 4


def test_what_a_resize_has_sent_that_was_given_up_is_removed(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    """It has the pages, also those that are forgotten later."""

    def give_up(step: str) -> None:
        if step == "close 0":
            raise KeyboardInterrupt

    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "x", clock)
    with pytest.raises(KeyboardInterrupt):
        resize_corpus(tmp_path / "a", 3, on_step=give_up)
    unrelated = tmp_path / "shared" / ("0" * 32) / "chunks" / "00" / ("0" * 64)
    unrelated.parent.mkdir(parents=True)
    unrelated.write_bytes(b"of another corpus")
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        own = tmp_path / "shared" / str(a.format.corpus_id)

        def sent() -> list[Path]:
            found = (tmp_path / "shared").glob("*/chunks/*/*")
            return [one for one in found if own not in one.parents and one != unrelated]

        assert sent()
        for hours, is_kept in ((1, True), (30, False)):
            for path in (*sent(), unrelated):
                os.utime(path, (clock.wall_ms() / 1000 - hours * 3_600,) * 2)
            for i in range(2):
                work(a, f"{hours} {i}", clock)
            assert bool(sent()) == is_kept
    assert unrelated.exists()


def check_storage(folder: Path, clock: ManualClock) -> CheckResult:
    (found,) = (one for one in check_corpus(folder, clock=clock) if one.check == "shared snapshots")
    return found


def fail_to_list(_: SharedSnapshots) -> None:
    raise LedgerError("the storage is away")


def test_doctor_says_when_copies_are_late_or_the_storage_is_away(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "x", clock)
        a.add(["https://later.example/"])
    found = check_storage(tmp_path / "a", clock)
    assert (found.level, found.what) == (Severity.OK, "1 of 1 partition")
    clock.pass_seconds(7_200)
    found = check_storage(tmp_path / "a", clock)
    assert found.level == Severity.WARN
    assert found.what == "the newest one of 1 partition is up to 2 h old"
    shutil.move(tmp_path / "shared", tmp_path / "away")
    assert check_storage(tmp_path / "a", clock).level == Severity.OK  # the log is short
    monkeypatch.setattr(SharedSnapshots, "list_complete", fail_to_list)
    found = check_storage(tmp_path / "a", clock)
    assert (found.level, found.what) == (Severity.BAD, "the storage is away")
    assert "the log grows meanwhile" in found.todo


def test_forgetting_leaves_one_copy_without_the_pages(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LedgerError("the storage is away")

    with recrawl.open(tmp_path / "a", config, clock=clock) as a:
        work(a, "x", clock)
        work(a, "jane", clock)
        first = first_of(a)
        with monkeypatch.context() as patches:
            patches.setattr(SharedSnapshots, "publish", fail)
            with pytest.raises(LedgerError, match="the storage is away"):
                a.forget(pattern="/jane/*")
        assert (first_of(a), len(copies_of(a))) == (first, 2)
        (state,) = a.forget()
        assert [one.kind for one in state.remains] == ["kafka", "storage"]
        assert copies_of(a) == [first_of(a)]
        # Nothing in the log says which corpus it belongs to.
        with pytest.raises(RecoveryError, match="the log has no records any more"):
            recrawl.open(tmp_path / "b", config, clock=clock)
        a.add(["https://later.example/"])
        expected = pages_of(a)
    with recrawl.open(tmp_path / "b", config, clock=clock) as b:
        assert pages_of(b) == expected
        assert len(expected) == 21
