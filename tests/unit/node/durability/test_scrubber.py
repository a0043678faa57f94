"""Scrubs find damaged blocks in log, store and snapshots; a damaged store is rebuilt."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import (
    Corpus,
    CorpusConfig,
    check_corpus,
    repair_from_backup,
    resize_corpus,
)
from recrawl.errors import BackupError, RecoveryError, StorageError
from recrawl.kv import damage_mark
from recrawl.kv.options import _shared_cache
from recrawl.ledger import SnapshotFolder
from recrawl.node.config.sections import ScrubConfig
from recrawl.node.durability.corpus_format import CorpusFormat, read_format
from recrawl.node.durability.scrubber import Scrubber, read_scrub_report, scrub_corpus
from recrawl.testing.stores import contents_of
from tests.corpus_fixtures import small_table_without_jit
from tests.manual_clock import ManualClock

__all__ = ["small_table_without_jit"]

URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(600)]
Scenario = tuple[Path, ManualClock]


def open_it(folder: Path, clock: ManualClock, **sections: Any) -> Corpus:
    return recrawl.open(folder, CorpusConfig.from_dict(sections), clock=clock)


def shape_of(folder: Path) -> CorpusFormat:
    shape = read_format(folder)
    assert shape is not None
    return shape


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a corpus with two snapshots, whose data is in sorted files."""
    folder = tmp_path_factory.mktemp("scrub") / "corpus"
    with open_it(folder, ManualClock()) as corpus:
        corpus.add(URLS)
        corpus.snapshot()
        corpus.report([Outcome(url=url, digest=b"1") for url in URLS])
        corpus.snapshot()
    # Opening again writes what the write-ahead log has into sorted files.  They are merged now, so
    # that the engine does not merge them right after the next snapshot.
    with open_it(folder, ManualClock(1_700_000_100_000)) as corpus:
        corpus.nodes[0].store.compact()
    return folder


@pytest.fixture
def scenario(made: Path, tmp_path: Path) -> Scenario:
    # Hard links among the files stay such, as in a real corpus.
    folder = tmp_path / "corpus"
    links: dict[int, Path] = {}

    def copy(source: str, target: str) -> None:
        inode = Path(source).stat().st_ino
        if inode in links:
            Path(target).hardlink_to(links[inode])
        else:
            shutil.copy2(source, target)
            links[inode] = Path(target)

    shutil.copytree(made, folder, copy_function=copy)
    return folder, ManualClock(1_700_001_000_000)


def damage(path: Path) -> None:
    """Change a byte in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x40]))


def largest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_size)


def test_an_intact_corpus_has_no_damage(scenario: Scenario) -> None:
    folder, clock = scenario
    report = scrub_corpus(folder, shape_of(folder), clock)
    assert report is not None
    assert not report.damage
    assert report.n_bytes > 10_000
    assert read_scrub_report(folder) == report


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("log/*.sst", "log"),
        ("store/0/*.sst", "store/0"),
        ("snapshots/0/*/columns", "snapshots/0/"),
        ("snapshots/0/*/manifest.json", "snapshots/0/"),
    ],
)
def test_a_changed_byte_is_found_wherever_it_is(
    scenario: Scenario, pattern: str, part: str
) -> None:
    folder, clock = scenario
    damage(largest(folder, pattern))
    report = scrub_corpus(folder, shape_of(folder), clock)
    assert report is not None
    assert any(one.part.startswith(part) for one in report.damage)
    found = [one for one in check_corpus(folder, clock=clock) if one.check == "scrub"]
    assert found
    assert all(one.level.value == "bad" for one in found)


def test_damage_is_found_while_the_corpus_is_open_for_writing(scenario: Scenario) -> None:
    folder, clock = scenario
    with open_it(folder, clock) as corpus:
        (node,) = corpus.nodes
        node.store.compact()  # or the store may drop the file while it is damaged
        list(corpus.pages())  # the blocks are in the cache of the writer
        damage(largest(folder, "store/0/*.sst"))
        report = scrub_corpus(folder, shape_of(folder), clock)
        assert report is not None
        assert "store/0" in {one.part for one in report.damage}
        scrub = corpus.last_scrub()
        assert scrub is not None
        assert scrub.damage
    assert damage_mark(folder / "store/0") is not None


def contents(corpus: Corpus) -> Any:
    (node,) = corpus.nodes
    stored = contents_of(node.store, int(node.shard.tables.registers.n_slots[0]))
    return {name: value for name, value in stored.items() if name != "position"}


def test_a_damaged_store_is_rebuilt_and_its_files_are_kept(scenario: Scenario) -> None:
    folder, clock = scenario
    with open_it(folder, clock) as corpus:
        corpus.add(["https://new.example/"])
        corpus.snapshot()
        expected = contents(corpus)
    bad = max(
        (path for path in folder.glob("store/0/*.sst") if path.stat().st_nlink > 1),
        key=lambda path: path.stat().st_size,
    )
    damage(bad)
    # The copies in snapshots are hard links: the block is bad there as well.
    assert len(scrub_corpus(folder, shape_of(folder), clock).damage) >= 2  # type: ignore[union-attr]
    with open_it(folder, clock) as corpus:
        assert contents(corpus) == expected
    assert (folder / "store/0.broken" / bad.name).exists()
    assert damage_mark(folder / "store/0") is None
    assert not [
        one
        for one in check_corpus(folder, clock=clock, is_scrub=True)
        if one.check == "scrub" and one.what.startswith("store/0 ")
    ]


def test_a_store_is_rebuilt_from_an_intact_copy(scenario: Scenario) -> None:
    folder, clock = scenario
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        corpus.add(["https://new.example/"])
        corpus.snapshot()
        expected = contents(corpus)
        assert corpus.nodes[0].ledger.first > 0
    # A copy that shares no file with the store.
    (saved,) = SnapshotFolder(folder / "snapshots/0").list_saved()
    copied = folder / "copied"
    shutil.copytree(saved.folder / "store", copied)
    shutil.rmtree(saved.folder / "store")
    copied.rename(saved.folder / "store")
    damage(largest(folder, "store/0/*.sst"))
    scrub_corpus(folder, shape_of(folder), clock)
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        assert contents(corpus) == expected


def test_a_store_that_nothing_can_rebuild_is_left_as_it_is(scenario: Scenario) -> None:
    folder, clock = scenario
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        corpus.add(["https://new.example/"])
        corpus.snapshot()
    files = sorted(path.name for path in (folder / "store/0").glob("*.sst"))
    for path in folder.glob("snapshots/0/*/store/*.sst"):
        damage(path)
    scrub_corpus(folder, shape_of(folder), clock)
    with pytest.raises(RecoveryError, match=r"doctor --repair --backup DEST"):
        open_it(folder, clock)
    assert sorted(path.name for path in (folder / "store/0").glob("*.sst")) == files


def test_a_store_with_pages_of_earlier_partitions_is_not_rebuilt_from_the_log(
    scenario: Scenario,
) -> None:
    """Their URLs are in no record of it, so it must not be put aside."""
    folder, clock = scenario
    for partitions in (2, 1):
        resize_corpus(folder, partitions)
    with open_it(folder, clock) as corpus:
        assert corpus.nodes[0].ledger.first == 0
    files = sorted(path.name for path in (folder / "store/0").glob("*.sst"))
    for path in folder.glob("snapshots/0/*/store/*.sst"):
        damage(path)
    scrub_corpus(folder, shape_of(folder), clock)
    with pytest.raises(RecoveryError, match=r"doctor --repair --backup DEST"):
        open_it(folder, clock)
    assert sorted(path.name for path in (folder / "store/0").glob("*.sst")) == files


def test_a_store_is_rebuilt_from_a_backup_and_the_log(scenario: Scenario, tmp_path: Path) -> None:
    folder, clock = scenario
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        corpus.add(["https://new.example/"])
        corpus.backup(tmp_path / "backups")
        corpus.add(["https://after-the-backup.example/"])
        expected = contents(corpus)
        assert corpus.nodes[0].ledger.first > 0
    for path in folder.glob("snapshots/0/*/store/*.sst"):
        damage(path)
    assert next(repair_from_backup(folder, tmp_path / "backups")).check == "repair"
    scrub_corpus(folder, shape_of(folder), clock)
    with pytest.raises(RecoveryError, match=r"doctor --repair --backup DEST"):
        open_it(folder, clock)
    largest_file = largest(tmp_path / "backups/files", "*/*")
    damage(largest_file)
    with pytest.raises(BackupError, match=r"no backup .* can be used"):
        list(repair_from_backup(folder, tmp_path / "backups"))
    damage(largest_file)
    (result,) = repair_from_backup(folder, tmp_path / "backups")
    assert "rebuilt from backup 000001" in result.what
    assert (folder / "store/0.broken").exists()
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        assert contents(corpus) == expected
        assert corpus.n_pages == len(URLS) + 2


def test_a_backup_of_another_corpus_repairs_nothing(scenario: Scenario, tmp_path: Path) -> None:
    folder, clock = scenario
    with open_it(tmp_path / "other", clock) as other:
        other.backup(tmp_path / "backups")
    with open_it(folder, clock, snapshots={"keep": 1}) as corpus:
        corpus.add(["https://new.example/"])
        corpus.snapshot()
    for path in folder.glob("snapshots/0/*/store/*.sst"):
        damage(path)
    scrub_corpus(folder, shape_of(folder), clock)
    with pytest.raises(BackupError, match="of another corpus"):
        list(repair_from_backup(folder, tmp_path / "backups"))


def read_all(folder: Path, clock: ManualClock) -> None:
    with open_it(folder, clock) as corpus:
        corpus.changes()
        for url in URLS:
            corpus.explain(url)


def test_the_first_read_error_marks_the_store(scenario: Scenario) -> None:
    folder, clock = scenario
    damage(largest(folder, "store/0/*.sst"))
    # As in a new process: this one has cached blocks of the original, whose files are the same.
    _shared_cache.cache_clear()
    with pytest.raises(StorageError, match="checksum mismatch"):
        read_all(folder, clock)
    assert damage_mark(folder / "store/0") is not None
    with open_it(folder, clock) as corpus:
        assert sum(batch.num_rows for batch in corpus.pages()) == len(URLS)
        assert corpus.n_pages == len(URLS)


def test_a_scrub_is_due_after_its_interval(scenario: Scenario) -> None:
    folder, clock = scenario
    scrubber = Scrubber(folder, shape_of(folder), ScrubConfig(), clock)
    assert not scrubber.is_due()  # short commands do not scrub
    clock.pass_seconds(120)
    assert scrubber.is_due()
    scrub_corpus(folder, shape_of(folder), clock)
    assert not scrubber.is_due()
    clock.pass_seconds(3 * 86_400 - 10)
    assert not scrubber.is_due()
    clock.pass_seconds(20)
    assert scrubber.is_due()
    clock.set_back(10 * 86_400)
    assert scrubber.is_due()
    (folder / "scrub.json").write_text("{")
    assert scrubber.is_due()


def test_a_scrub_reads_no_faster_than_allowed_and_can_be_stopped(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, clock = scenario
    scrubber = Scrubber(folder, shape_of(folder), ScrubConfig(bytes_per_second=1_000), clock)
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr(scrubber._stop, "wait", wait)
    report = scrub_corpus(folder, shape_of(folder), clock, after_bytes=scrubber.pause)
    assert report is not None
    assert sum(waited) == pytest.approx(report.n_bytes / 1_000)
    (folder / "scrub.json").unlink()
    assert scrub_corpus(folder, shape_of(folder), clock, after_bytes=lambda _: False) is None
    assert read_scrub_report(folder) is None


def test_the_thread_scrubs_and_stops(scenario: Scenario) -> None:
    folder, clock = scenario
    scrubber = Scrubber(folder, shape_of(folder), ScrubConfig(), clock)
    clock.pass_seconds(120)
    scrubber.start()
    while read_scrub_report(folder) is None:
        assert scrubber._thread.is_alive()
    scrubber.stop()
    assert not scrubber._thread.is_alive()
    never = Scrubber(folder, shape_of(folder), ScrubConfig(every="never"), clock)  # type: ignore[arg-type]
    never.start()
    assert not never._thread.is_alive()
    never.stop()


def test_a_snapshot_that_is_removed_meanwhile_is_not_damage(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, clock = scenario
    list_saved: Callable[[SnapshotFolder], Any] = SnapshotFolder.list_saved

    def remove_after(self: SnapshotFolder) -> Iterator[Any]:
        for saved in list_saved(self):
            shutil.rmtree(saved.folder)
            yield saved

    monkeypatch.setattr(SnapshotFolder, "list_saved", remove_after)
    report = scrub_corpus(folder, shape_of(folder), clock)
    assert report is not None
    assert not report.damage


def test_never_survives_being_saved(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_it(tmp_path / "corpus", clock, scrub={"every": "never"}):
        pass
    assert json.loads((tmp_path / "corpus/last-config.json").read_text())["scrub"]
    with recrawl.open(tmp_path / "corpus", clock=clock) as corpus:
        assert corpus.config.scrub.every == float("inf")
