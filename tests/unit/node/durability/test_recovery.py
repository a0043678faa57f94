"""After any damage on disk, a corpus recovers all acknowledged data or raises a clear error."""

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import CorpusError, FormatError, LedgerError, RecoveryError
from recrawl.kv import KeyValues
from recrawl.ledger import Record, SavedSnapshot, SnapshotDraft, SnapshotFolder
from recrawl.node.durability.log_opening.open_log import open_log
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.node import Node
from recrawl.node.records import record_of
from recrawl.shard import Applied, PagesAdded, PagesRemoved, event_of
from recrawl.shard.events import Event
from recrawl.shard.state.snapshot import ADDED_COLUMNS
from recrawl.shard.state.tables import RESULT_COLUMNS
from recrawl.testing.stores import contents_of
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]


def work(corpus: Corpus, clock: ManualClock, first: int, n_rounds: int = 5) -> None:
    """Add, fetch, signal and remove pages."""
    for i in range(first, first + n_rounds):
        corpus.add([f"https://h{k % 3}.example/{i}/{k}" for k in range(20)])
        clock.pass_seconds(600)
        orders = corpus.lease(15)
        outcomes = [
            Outcome(handle=order.handle, digest=b"%d" % (k % 4), etag=b'"%d"' % i)
            for k, order in enumerate(orders[:12])
        ]
        corpus.report(outcomes)
        corpus.signal([f"https://h1.example/{i}/{k}" for k in range(1, 20, 3)], source="feed")
        corpus.remove([f"https://h0.example/{i}/{k}" for k in range(0, 6, 3)])


class State:
    """The state of a corpus, for comparisons."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Node, *, with_counts: bool = True) -> None:
        self.digest = node.shard.digest() if with_counts else _digest_without_counts(node)
        n_slots = int(node.shard.tables.registers.n_slots[0])
        self.contents = contents_of(node.store, n_slots)
        self.position = node.position

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, State)
        return self.__dict__ == other.__dict__


def _digest_without_counts(node: Node) -> str:
    """Return a digest of the columns but those that count fetches by result and what they cost.

    Such counts of older versions are not known, so that a corpus of theirs begins them at 0.
    """
    found = hashlib.sha256()
    n_slots = int(node.shard.tables.registers.n_slots[0])
    for table in node.shard.tables:
        for name, column in table._asdict().items():
            if name not in (*RESULT_COLUMNS, "spent"):
                rows = column[:n_slots] if table is node.shard.tables.pages else column
                found.update(name.encode() + rows.tobytes())
    return found.hexdigest()


def crashed_copy(folder: Path, to: Path) -> Path:
    """Copy an open corpus at one moment, as a killed process would leave it."""
    while True:
        before = files_of(folder)
        with contextlib.suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(folder, to)
            if files_of(folder) == before:
                return to
        # A compaction has removed files meanwhile.
        shutil.rmtree(to, ignore_errors=True)


def files_of(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_ino) for path in folder.rglob("*"))


def state_after_recovery(
    folder: Path, config: CorpusConfig, *, is_synced: bool = True, with_counts: bool = True
) -> State:
    """Recover a corpus without claiming it, so that nothing is logged."""
    log = open_log(folder, config)
    try:
        partition = Partition(
            0,
            log.partition(0),
            folder / "store" / "0",
            SnapshotFolder(folder / "snapshots" / "0"),
            is_synced=is_synced,
        )
        node = recover_node(partition)
        state = State(node, with_counts=with_counts)
        node.store.close()
        return state
    finally:
        log.close()


@pytest.fixture
def config() -> CorpusConfig:
    politeness = {"delay": 0, "in_flight_max": 100, "burst": 100}
    return CorpusConfig.from_dict(
        {"politeness": politeness, "snapshots": {"keep": 3, "every": "52w"}}
    )


@pytest.fixture
def corpus(tmp_path: Path, clock: ManualClock, config: CorpusConfig) -> Any:
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        yield corpus


@pytest.fixture
def crash(corpus: Corpus, clock: ManualClock, tmp_path: Path) -> tuple[Path, State]:
    """A copy of a killed corpus with two snapshots and a longer log, and its state."""
    return crash_after_work(corpus, clock, tmp_path)


def crash_after_work(corpus: Corpus, clock: ManualClock, tmp_path: Path) -> tuple[Path, State]:
    """Make two snapshots and a longer log; return a copy as of a killed corpus, and its state."""
    work(corpus, clock, 0)
    corpus.snapshot()
    work(corpus, clock, 5)
    corpus.snapshot()
    work(corpus, clock, 10)
    return crashed_copy(corpus.folder, tmp_path / "crashed"), State(corpus.nodes[0])


def snapshots_of(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "snapshots" / "0").iterdir() if path.name[0] != ".")


def flip(file: Path, share: float) -> None:
    data = bytearray(file.read_bytes())
    first = int(len(data) * share)
    # As many as lie between two columns at most, where nothing is stored.
    for i in range(first, first + 64):
        data[i] ^= 0xFF
    file.write_bytes(data)


def test_a_killed_corpus_recovers_its_state(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, before = crash
    assert len(snapshots_of(folder)) == 2
    assert state_after_recovery(folder, config) == before


def test_a_replay_of_the_whole_log_gives_the_same_state(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, before = crash
    shutil.rmtree(folder / "snapshots")
    shutil.rmtree(folder / "store")
    assert state_after_recovery(folder, config) == before


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_a_corrupt_snapshot_is_skipped_for_an_older_one(
    crash: tuple[Path, State], config: CorpusConfig, share: float, caplog: Any
) -> None:
    folder, before = crash
    flip(snapshots_of(folder)[-1] / "columns", share)
    assert state_after_recovery(folder, config) == before
    assert "is not used" in caplog.text


def test_a_snapshot_with_a_corrupt_manifest_is_skipped(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, before = crash
    newest = snapshots_of(folder)[-1] / "manifest.json"
    newest.write_bytes(newest.read_bytes()[:-20])
    assert state_after_recovery(folder, config) == before


def test_a_snapshot_without_columns_is_skipped(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, before = crash
    (snapshots_of(folder)[-1] / "columns").unlink()
    assert state_after_recovery(folder, config) == before


def test_an_incomplete_snapshot_is_ignored(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, config: CorpusConfig
) -> None:
    work(corpus, clock, 0)
    corpus.snapshot()
    work(corpus, clock, 5)
    draft = SnapshotFolder(corpus.folder / "snapshots" / "0").begin(corpus.nodes[0].position)
    draft.write(0, b"some of the columns")
    folder = crashed_copy(corpus.folder, tmp_path / "crashed")
    draft.abandon()
    assert state_after_recovery(folder, config) == State(corpus.nodes[0])


def test_a_lost_store_is_restored_from_the_checkpoint(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, before = crash
    shutil.rmtree(folder / "store")
    assert state_after_recovery(folder, config) == before


def test_a_corrupt_store_is_renamed_and_restored_from_the_checkpoint(
    crash: tuple[Path, State], config: CorpusConfig, caplog: Any
) -> None:
    folder, before = crash
    for file in (folder / "store" / "0").glob("MANIFEST-*"):
        file.write_bytes(b"nothing of use")
    assert state_after_recovery(folder, config) == before
    assert (folder / "store" / "0.broken").exists()


def test_an_old_store_catches_up_with_the_log(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, config: CorpusConfig
) -> None:
    work(corpus, clock, 0)
    corpus.snapshot()
    old = crashed_copy(corpus.folder / "store", tmp_path / "old")
    work(corpus, clock, 5)
    corpus.snapshot()
    work(corpus, clock, 10)
    folder = crashed_copy(corpus.folder, tmp_path / "crashed")
    shutil.rmtree(folder / "store")
    old.rename(folder / "store")
    assert state_after_recovery(folder, config) == State(corpus.nodes[0])


def test_a_store_ahead_of_its_log_is_rebuilt(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, config: CorpusConfig
) -> None:
    """This happens after a power cut if the log was not synced."""
    work(corpus, clock, 0)
    corpus.snapshot()
    work(corpus, clock, 5)
    folder = crashed_copy(corpus.folder, tmp_path / "crashed")
    before = State(corpus.nodes[0])
    work(corpus, clock, 10)
    shutil.rmtree(folder / "store")
    crashed_copy(corpus.folder / "store", folder / "store")
    assert state_after_recovery(folder, config, is_synced=False) == before
    assert (folder / "store" / "0.broken").exists()


def test_a_store_of_a_newer_version_is_not_replaced(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, _ = crash
    with KeyValues.open(folder / "store" / "0") as values:
        (key, value), *_ = (row for row in values.scan(b"") if b'"format"' in row[1])
        values.write([key], [value.replace(b'"format": 1', b'"format": 99')])
    with pytest.raises(FormatError):
        state_after_recovery(folder, config)
    assert not (folder / "store" / "0.broken").exists()


def test_an_incomplete_last_record_loses_no_acknowledged_data(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, config: CorpusConfig
) -> None:
    work(corpus, clock, 0)
    acknowledged = corpus.nodes[0].position
    # The store does not apply a record before the log has it completely.
    store = crashed_copy(corpus.folder / "store", tmp_path / "store")
    corpus.add([f"https://torn.example/{k}" for k in range(200)])
    folder = crashed_copy(corpus.folder, tmp_path / "crashed")
    shutil.rmtree(folder / "store")
    store.rename(folder / "store")
    newest = max((folder / "log").glob("*.log"), key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-50])
    state = state_after_recovery(folder, config)
    assert state.position == acknowledged
    with recrawl.open(folder, config, clock=clock) as again:
        assert again.explain("https://torn.example/1") is None
        assert again.add(["https://torn.example/1"]).n_added == 1
        assert again.explain("https://h1.example/0/1") is not None


def test_without_snapshots_a_truncated_log_raises_recovery_error(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, config: CorpusConfig
) -> None:
    for i in range(4):
        work(corpus, clock, 5 * i)
        corpus.snapshot()
    assert corpus.nodes[0].ledger.first > 0
    folder = crashed_copy(corpus.folder, tmp_path / "crashed")
    shutil.rmtree(folder / "snapshots")
    with pytest.raises(RecoveryError, match="no snapshot can be used"):
        recrawl.open(folder, config, clock=clock)


def test_an_invalid_format_file_is_refused(crash: tuple[Path, State], config: CorpusConfig) -> None:
    folder, _ = crash
    (folder / "FORMAT").write_text("{")
    with pytest.raises(CorpusError, match="FORMAT cannot be read"):
        recrawl.open(folder, config)


def test_the_log_is_kept_from_the_oldest_snapshot_on(corpus: Corpus, clock: ManualClock) -> None:
    for i in range(4):
        work(corpus, clock, i, 1)
        corpus.snapshot()
    kept = [int(path.name[:20]) for path in snapshots_of(corpus.folder)]
    assert len(kept) == 3
    assert corpus.nodes[0].ledger.first == kept[0]


def test_a_snapshot_is_committed_after_the_log_was_synced(
    corpus: Corpus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut could take records from the log that the snapshot has applied."""
    work(corpus, clock, 0)
    calls: list[str] = []
    ledger = corpus.nodes[0].ledger
    commit = SnapshotDraft.commit

    def watched_commit(self: SnapshotDraft, manifest: str) -> SavedSnapshot:
        calls.append("commit")
        return commit(self, manifest)

    monkeypatch.setattr(ledger, "sync", lambda: calls.append("sync"))
    monkeypatch.setattr(SnapshotDraft, "commit", watched_commit)
    corpus.snapshot()
    assert calls == ["sync", "commit"]


def test_a_corrupt_snapshot_does_not_count_among_those_kept(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict({"snapshots": {"every": "52w"}, "politeness": IMPOLITE})
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        for i in range(2):
            work(corpus, clock, i * 5)
            corpus.snapshot()
    flip(snapshots_of(tmp_path)[-1] / "columns", 0.5)
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        work(corpus, clock, 10)
        corpus.snapshot()
    # The newest snapshot is corrupted again: recovery must use the older one.
    flip(snapshots_of(tmp_path)[-1] / "columns", 0.5)
    recrawl.open(tmp_path, config, clock=clock).close()


def test_a_node_that_failed_during_apply_refuses_a_snapshot(
    corpus: Corpus, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(corpus, clock, 0)
    shard = corpus.nodes[0].shard
    apply = shard.apply

    def interrupted(event: Event) -> Applied:
        if isinstance(event, PagesAdded):
            raise KeyboardInterrupt
        return apply(event)

    monkeypatch.setattr(shard, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        corpus.add(["https://new.example/"])
    with pytest.raises(LedgerError, match="open the corpus again"):
        corpus.snapshot()
    assert not (corpus.folder / "snapshots" / "0").exists() or not snapshots_of(corpus.folder)


def test_a_failed_read_leaves_no_gap_in_the_store(
    corpus: Corpus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Kafka other nodes append to the log too, and the node reads their records."""
    work(corpus, clock, 0)
    node = corpus.nodes[0]
    urls = [f"https://x.example/{i}" for i in range(3)]
    corpus.add(urls)
    page = node.store.pages_of(pa.array(urls))
    (added,) = (r for _, r in node.ledger.read(node.position - 1))
    assert added.schema == 101
    event = event_of(PagesRemoved, page=page)
    node.ledger.append([record_of(event)])
    read = node.ledger.read
    calls: list[int] = []

    def flaky(position: int, **how: Any) -> list[tuple[int, Record]]:
        calls.append(position)
        if len(calls) == 2:
            raise LedgerError("no records within 60 s")
        return read(position, **how)

    monkeypatch.setattr(node.ledger, "read", flaky)
    with pytest.raises(LedgerError):
        node.refresh()
    monkeypatch.setattr(node.ledger, "read", read)
    assert (node.store.pages_of(pa.array(urls)) == -1).all()
    assert corpus.add(urls).n_added == 3


def test_a_snapshot_of_an_older_format_is_read(
    tmp_path: Path, clock: ManualClock, config: CorpusConfig
) -> None:
    """Columns that were added to the format later have their initial values."""
    # Older formats do not know newcomers; without limits, no page is one.
    unlimited = {"new_pages_share": 1.0, "new_domain_share": 1.0}
    config = CorpusConfig.from_dict({**config.to_dict(), "protection": unlimited})
    with recrawl.open(tmp_path / "corpus", config, clock=clock) as corpus:
        folder, _ = crash_after_work(corpus, clock, tmp_path)
    before = state_after_recovery(folder, config, with_counts=False)
    for snapshot in snapshots_of(folder):
        manifest = snapshot / "manifest.json"
        body = json.loads(json.loads(manifest.read_text())["body"])
        body["format"] = 1
        for table, column in ADDED_COLUMNS:
            del body["tables"][table][column]
        text = json.dumps(body)
        manifest.write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "body": text}))
    assert state_after_recovery(folder, config, with_counts=False) == before


def test_a_snapshot_of_a_newer_format_is_refused_and_kept(
    crash: tuple[Path, State], config: CorpusConfig
) -> None:
    folder, _ = crash
    manifest = snapshots_of(folder)[-1] / "manifest.json"
    body = json.loads(json.loads(manifest.read_text())["body"])
    text = json.dumps(body | {"format": 99})
    manifest.write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "body": text}))
    with pytest.raises(RecoveryError, match="a newer version of recrawl wrote it"):
        state_after_recovery(folder, config)
    assert len(snapshots_of(folder)) == 2


FULL_DISK = """
import json, subprocess, sys
from pathlib import Path
import recrawl
from recrawl.errors import RecrawlError

def mount(*options):
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", sys.argv[1]]
    subprocess.run(command, check=True)

mount("size=24m")
folder = Path(sys.argv[1]) / "corpus"
corpus = recrawl.open(folder)
n_added, errors = 0, []
while len(errors) < 2:
    try:
        more = range(n_added, n_added + 500)
        corpus.add([f"https://h{i % 7}.example/{i}/{'x' * 200}" for i in more])
        assert not errors, "it went on after an error"
        n_added += 500
    except RecrawlError as error:
        errors.append(str(error))
    if n_added % 5000 == 0 and not errors:
        try:
            corpus.snapshot()
        except RecrawlError:
            pass  # the log goes on without
try:
    corpus.close()
except RecrawlError as error:
    errors.append(str(error))
mount("remount", "size=400m")
with recrawl.open(folder) as corpus:
    urls = [f"https://h{i % 7}.example/{i}/{'x' * 200}" for i in range(n_added)]
    n_there = corpus.add(urls).n_known
    n_new = corpus.add(["https://new.example/"]).n_added
print(json.dumps({"acknowledged": n_added, "there": n_there, "new": n_new, "errors": errors}))
"""


@pytest.mark.slow_without_jit
def test_a_full_disk_stops_a_corpus_and_loses_nothing(tmp_path: Path) -> None:
    """The script mounts a small file system in its own mount namespace."""
    script = tmp_path / "full_disk.py"
    script.write_text(FULL_DISK)
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, str(script), str(disk)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["acknowledged"] > 1000
    assert report["there"] == report["acknowledged"]
    assert report["new"] == 1
    # A store that cannot be read either says why itself.
    assert any(
        text in report["errors"][1] for text in ("open the corpus again", "No space left on device")
    )
