"""Backups are independent, incremental and verified copies, complete or absent at any moment."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, back_up_corpus, check_backups, restore_corpus
from recrawl.corpus.backups import backup_folder
from recrawl.errors import BackupError, LockedError
from recrawl.testing.stores import contents_of
from tests.corpus_fixtures import extract_older_corpora
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(60)]


def state_of(corpus: Corpus) -> list[Any]:
    return [
        (
            node.shard.digest(),
            contents_of(node.store, int(node.shard.tables.registers.n_slots[0])),
        )
        for node in corpus.nodes
    ]


def fill(corpus: Corpus) -> None:
    corpus.add(URLS)
    corpus.report([Outcome(url=url, digest=b"1") for url in URLS[:20]])


def flip_byte(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 0xFF]))


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_restored_corpus_equals_the_one_that_was_backed_up(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    fill(corpus)
    made = corpus.backup(tmp_path / "backups")
    assert made.n_backups == 1
    assert made.log_in == "rocksdb"
    before, changes = state_of(corpus), corpus.changes()
    corpus.close()
    assert restore_corpus(tmp_path / "backups", tmp_path / "restored").name == made.name
    restored = open_corpus("restored", read_only=True, corpus={"partitions": 2})
    assert state_of(restored) == before
    restored.close()
    restored = open_corpus("restored", corpus={"partitions": 2})
    assert restored.changes() == changes
    assert restored.add(["https://h1.example/new"]).n_added == 1


def test_a_restored_corpus_can_be_read_before_it_is_written(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.snapshot()
    corpus.add(["https://h0.example/after-the-snapshot"])
    expected = state_of(corpus)
    back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert state_of(open_corpus("restored", read_only=True)) == expected


def test_a_damaged_store_is_replaced_by_the_copy_in_the_snapshot(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.snapshot()
    corpus.close()
    own_file = max(
        (tmp_path / "corpus/store/0").glob("*.sst"), key=lambda path: path.stat().st_size
    )
    content = own_file.read_bytes()
    own_file.unlink()  # no longer a link to the file in the snapshot
    own_file.write_bytes(content)
    flip_byte(own_file, 200)
    back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert open_corpus("restored").add(URLS).n_known == len(URLS)


def test_a_corpus_without_a_snapshot_is_restored_from_its_log(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    # The function copies files only, so no snapshot is taken.
    back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert not (tmp_path / "restored" / "snapshots").exists()
    assert state_of(open_corpus("restored", read_only=True)) == state_of(corpus)
    assert open_corpus("restored").n_pages == 60


def test_a_backup_shares_no_file_with_the_corpus(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "backups")
    own = {path.stat().st_ino for path in files_below(tmp_path / "corpus")}
    assert not own & {path.stat().st_ino for path in files_below(tmp_path / "backups")}


def test_files_that_the_folder_has_are_not_copied_again(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus()
    fill(corpus)
    first = corpus.backup(tmp_path / "backups")
    again = corpus.backup(tmp_path / "backups")
    assert first.n_files_copied > 5
    assert again.n_files_copied == 0
    corpus.add(["https://h0.example/one-more"])
    third = back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    assert 0 < third.n_bytes_copied < first.n_bytes_copied
    assert third.n_files_copied <= 2  # the write-ahead log and the manifest


def test_old_backups_are_removed_with_files_that_no_other_needs(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    for i in range(4):
        corpus.add([f"https://h.example/{i}/{j}" for j in range(40)])
        made = corpus.backup(tmp_path / "backups", keep=2)
    assert made.n_backups == 2
    checks = check_backups(tmp_path / "backups")
    assert [check.name for check in checks] == ["000004", "000003"]
    assert not any(check.problems for check in checks)
    folder = backup_folder.BackupFolder(tmp_path / "backups")
    needed = {file.sha256 for n in folder.numbers() for file in folder.read_list(n).files}
    assert {path.name for path in (tmp_path / "backups/files").glob("*/*")} == needed
    restore_corpus(tmp_path / "backups", tmp_path / "earlier", name="000003")
    assert open_corpus("earlier", read_only=True).n_pages == 120


WRITER = """
import sys, recrawl
from recrawl.corpus import CorpusConfig
config = CorpusConfig.from_dict({"snapshots": {"every_records": 20, "keep": 1}})
with recrawl.open(sys.argv[1], config) as corpus:
    for i in range(100_000):
        corpus.add([f"https://h{i % 7}.example/{i}/{j}" for j in range(10)])
        if i % 10 == 9:
            corpus.snapshot()
        print((i + 1) * 10, flush=True)
"""


@pytest.mark.slow_without_jit
def test_a_backup_made_while_another_process_writes_has_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    folder, backups = tmp_path / "corpus", tmp_path / "backups"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    acknowledged = []
    try:
        for _ in range(3):
            for _ in range(25):
                n_pages = int(writer.stdout.readline())
            acknowledged.append(n_pages)
            back_up_corpus(folder, backups)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert not any(check.problems for check in check_backups(backups))
    for name, n_pages in zip(("000001", "000002", "000003"), acknowledged, strict=True):
        restore_corpus(backups, tmp_path / name, name=name)
        with recrawl.open(tmp_path / name) as corpus:
            assert corpus.n_pages >= n_pages
            urls = [f"https://h{i % 7}.example/{i}/9" for i in range(n_pages // 10)]
            assert corpus.add(urls).n_known == len(urls)


class PowerCut(BaseException):
    """Raised by the tests in the middle of a backup."""


def test_a_backup_interrupted_at_any_step_leaves_the_earlier_one_usable(
    open_corpus: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "original")
    corpus.add(["https://h0.example/one-more"])
    corpus.snapshot()
    n_left = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal n_left
            n_left -= 1
            if n_left < 0:
                raise PowerCut
            return function(*arguments, **named)

        return call

    n_steps = 0
    while True:
        backups = tmp_path / f"backups-{n_steps}"
        shutil.copytree(tmp_path / "original", backups)
        n_left = n_steps
        with monkeypatch.context() as patched:
            for module, name in (
                (os, "fsync"),
                (Path, "replace"),
                (Path, "unlink"),
                (backup_folder, "sync_to_disk"),
            ):
                patched.setattr(module, name, counted(getattr(module, name)))
            try:
                back_up_corpus(tmp_path / "corpus", backups, keep=1)
                is_cut = False
            except PowerCut:
                is_cut = True
        checks = check_backups(backups)
        assert checks
        assert not checks[0].problems, n_steps
        if n_steps % 8 == 0:
            # The next backup works, and leaves nothing behind.
            back_up_corpus(tmp_path / "corpus", backups, keep=1)
            assert not list(backups.glob("temporary-*"))
            assert not check_backups(backups)[0].problems
        shutil.rmtree(backups)
        if not is_cut:
            break
        n_steps += 1
    assert n_steps > 10


def test_damage_of_the_corpus_is_found_and_earlier_backups_stay(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "backups")
    corpus.close()
    (snapshot,) = (tmp_path / "corpus/snapshots/0").iterdir()
    (sorted_file,) = (snapshot / "store").glob("*.sst")
    flip_byte(sorted_file, 200)
    with pytest.raises(BackupError, match=r"no snapshot is intact.*recrawl doctor"):
        back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    flip_byte(sorted_file, 200)
    flip_byte(snapshot / "columns", 10)
    with pytest.raises(BackupError, match="no snapshot is intact"):
        back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    flip_byte(snapshot / "columns", 10)
    log_file = max((tmp_path / "corpus/log").glob("*.sst"), key=lambda path: path.stat().st_size)
    flip_byte(log_file, 300)
    with pytest.raises(BackupError, match=r"the log .* is damaged"):
        back_up_corpus(tmp_path / "corpus", tmp_path / "backups")
    (check,) = check_backups(tmp_path / "backups")
    assert not check.problems
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert open_corpus("restored").n_pages == 60


def test_a_log_that_lost_records_is_not_backed_up(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus()
    corpus.close()
    shutil.copytree(tmp_path / "corpus/log", tmp_path / "short")
    corpus = open_corpus()
    fill(corpus)
    corpus.snapshot()
    corpus.close()
    shutil.rmtree(tmp_path / "corpus/log")
    shutil.move(tmp_path / "short", tmp_path / "corpus/log")
    with pytest.raises(BackupError, match="it has lost records"):
        back_up_corpus(tmp_path / "corpus", tmp_path / "backups")


def test_a_damaged_file_in_the_folder_of_backups_is_copied_again(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "backups")
    largest = max((tmp_path / "backups/files").glob("*/*"), key=lambda path: path.stat().st_size)
    flip_byte(largest, 100)
    assert check_backups(tmp_path / "backups")[0].problems
    assert corpus.backup(tmp_path / "backups").n_files_copied == 1
    assert not any(check.problems for check in check_backups(tmp_path / "backups"))


def test_a_damaged_backup_is_refused_and_nothing_is_restored(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "backups")
    contents = sorted((tmp_path / "backups/files").glob("*/*"))
    for path in [path for path in contents if path.stat().st_size]:
        flip_byte(path, 0)
        (check,) = check_backups(tmp_path / "backups")
        assert path.name in check.problems[0]
        with pytest.raises(BackupError, match=path.name):
            restore_corpus(tmp_path / "backups", tmp_path / "restored")
        assert not (tmp_path / "restored").exists()
        flip_byte(path, 0)
    path.unlink()
    with pytest.raises(BackupError, match="is missing"):
        restore_corpus(tmp_path / "backups", tmp_path / "restored")
    flip_byte(tmp_path / "backups/backups/000001.json", 100)
    with pytest.raises(BackupError, match=r"000001\.json"):
        restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert check_backups(tmp_path / "backups")[0].made_at_ms is None


def test_a_restore_that_fails_leaves_an_empty_folder(
    open_corpus: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    fill(corpus)
    corpus.backup(tmp_path / "backups")
    (tmp_path / "restored").mkdir()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(BackupError, match="No space left"):
            restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert not list((tmp_path / "restored").iterdir())
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    with pytest.raises(BackupError, match="is not empty"):
        restore_corpus(tmp_path / "backups", tmp_path / "restored")


def test_a_list_cannot_name_files_outside_the_folder(open_corpus: Open, tmp_path: Path) -> None:
    open_corpus().backup(tmp_path / "backups")
    folder = backup_folder.BackupFolder(tmp_path / "backups")
    listed = folder.read_list(1)
    for path in ("../evil", "/evil", "log/../../evil"):
        folder.write_list(listed._replace(files=[listed.files[0]._replace(path=path)]))
        with pytest.raises(BackupError, match="invalid entry"):
            restore_corpus(tmp_path / "backups", tmp_path / "restored")


def test_wrong_folders_are_refused(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus()
    with pytest.raises(BackupError, match="outside the folder of the corpus"):
        corpus.backup(tmp_path / "corpus/backups")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_bytes(b"1")
    with pytest.raises(BackupError, match="is not empty and holds no backups"):
        corpus.backup(tmp_path / "photos")
    with pytest.raises(BackupError, match="holds no backups"):
        restore_corpus(tmp_path / "photos", tmp_path / "restored")
    with pytest.raises(BackupError, match="is not a corpus"):
        back_up_corpus(tmp_path / "photos", tmp_path / "backups")
    corpus.backup(tmp_path / "backups")
    with pytest.raises(BackupError, match="no backup 000007"):
        restore_corpus(tmp_path / "backups", tmp_path / "restored", name="7")
    with pytest.raises(BackupError, match="the number of a backup"):
        restore_corpus(tmp_path / "backups", tmp_path / "restored", name="newest")
    with pytest.raises(ValueError, match="keep must be at least 1"):
        corpus.backup(tmp_path / "backups", keep=0)
    (tmp_path / "backups/RECRAWL-BACKUP").write_text(json.dumps({"format": 99}))
    with pytest.raises(BackupError, match="update recrawl"):
        corpus.backup(tmp_path / "backups")


def test_a_folder_holds_the_backups_of_one_corpus(open_corpus: Open, tmp_path: Path) -> None:
    open_corpus().backup(tmp_path / "backups")
    with pytest.raises(BackupError, match="of another corpus"):
        open_corpus("other").backup(tmp_path / "backups")


def test_a_corpus_of_0_1_0_is_backed_up_as_it_is(tmp_path: Path) -> None:
    extract_older_corpora(tmp_path / "old")
    for number, found in enumerate(sorted((tmp_path / "old").rglob("FORMAT"))):
        if json.loads(found.read_text())["ledger"] != "rocksdb":
            continue
        folder, backups = found.parent, tmp_path / f"backups-{number}"
        back_up_corpus(folder, backups)
        restore_corpus(backups, tmp_path / f"restored-{number}")
        with recrawl.open(folder, read_only=True) as old:
            expected = state_of(old)
        with recrawl.open(tmp_path / f"restored-{number}", read_only=True) as restored:
            assert state_of(restored) == expected
        # It gets its id when it is opened for writing; backups go on in the same folder.
        with recrawl.open(folder, accept_clock=True) as corpus:
            assert corpus.backup(backups).n_backups == 2


def test_two_backups_to_one_folder_do_not_run_at_once(open_corpus: Open, tmp_path: Path) -> None:
    corpus = open_corpus()
    corpus.backup(tmp_path / "backups")
    with (
        backup_folder.BackupFolder(tmp_path / "backups").lock(),
        pytest.raises(LockedError, match="another backup"),
    ):
        corpus.backup(tmp_path / "backups")


def test_making_a_backup_keeps_the_lock_of_the_writer(open_corpus: Open, tmp_path: Path) -> None:
    open_corpus().backup(tmp_path / "backups")
    program = f"import recrawl; recrawl.open({str(tmp_path / 'corpus')!r})"
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert b"LockedError" in ran.stderr


def test_the_time_of_a_backup_is_that_of_the_clock(
    open_corpus: Open, tmp_path: Path, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.backup(tmp_path / "backups")
    clock.set_back(3_600)
    corpus.backup(tmp_path / "backups")
    second, first = check_backups(tmp_path / "backups")
    assert second.name > first.name
    assert second.made_at_ms == clock.wall_ms()


@pytest.mark.slow_without_jit
def test_a_corpus_on_kafka_continues_from_its_topic(
    kafka_bootstrap: str, kafka_topic: str, open_corpus: Open, tmp_path: Path
) -> None:
    sections: dict[str, Any] = {
        "ledger": {
            "kind": "kafka",
            "bootstrap": kafka_bootstrap,
            "topic": kafka_topic,
            "replication": 1,
        }
    }
    corpus = open_corpus(**sections)
    fill(corpus)
    assert corpus.backup(tmp_path / "backups").log_in == "kafka"
    corpus.add(["https://h0.example/after-the-backup"])
    corpus.close()
    shutil.rmtree(tmp_path / "corpus")
    assert restore_corpus(tmp_path / "backups", tmp_path / "restored").log_in == "kafka"
    assert open_corpus("restored", **sections).n_pages == 61
