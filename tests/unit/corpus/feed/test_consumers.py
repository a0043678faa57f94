"""Named consumers of the change feed continue where they committed, and notice what they missed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from recrawl.corpus import Corpus, Outcome, check_corpus, restore_corpus
from recrawl.corpus.feed import consumers
from recrawl.errors import ChangesLost, StorageError
from recrawl.store import Cursor
from recrawl.store.changes import NewChanges
from tests.manual_clock import ManualClock

Open: TypeAlias = Callable[..., Corpus]
URLS = [f"https://h{i % 7}.example/{i}" for i in range(20)]


def report(corpus: Corpus, digest: bytes, urls: list[str] = URLS) -> None:
    assert corpus.report([Outcome(url=url, digest=digest) for url in urls]).counted.all()


def read(corpus: Corpus, name: str = "nightly", limit: int = 1_000) -> list[str]:
    """Read and commit, like one run of a nightly script."""
    changes = corpus.changes(consumer=name, limit=limit)
    if changes:
        corpus.commit_changes(name, changes[-1].cursor)
    return [change.url for change in changes]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_consumer_reads_each_change_once(
    open_corpus: Open, clock: ManualClock, partitions: int
) -> None:
    corpus = open_corpus(corpus={"partitions": partitions})
    corpus.add(URLS)
    assert read(corpus) == []
    report(corpus, b"1")
    assert corpus.changes(consumer="nightly") == corpus.changes(consumer="nightly")
    assert sorted(read(corpus, limit=7) + read(corpus, limit=9) + read(corpus)) == sorted(URLS)
    clock.pass_seconds(60)
    report(corpus, b"2", URLS[:3])
    corpus.close()
    corpus = open_corpus(corpus={"partitions": partitions})
    assert corpus.consumers()[0].n_behind == 3
    assert sorted(read(corpus)) == sorted(URLS[:3])
    assert read(corpus) == []
    # Another consumer has a place of its own.
    assert len(read(corpus, "other")) == 23
    assert [(c.name, c.n_behind, c.n_missed, c.problem) for c in corpus.consumers()] == [
        ("nightly", 0, 0, None),
        ("other", 0, 0, None),
    ]


def test_a_reader_commits_while_another_process_writes(
    open_corpus: Open, clock: ManualClock
) -> None:
    writer = open_corpus()
    writer.add(URLS)
    report(writer, b"1")
    reader = open_corpus(read_only=True)
    assert len(read(reader)) == 20
    clock.pass_seconds(60)
    report(writer, b"2")
    assert len(read(writer, limit=5)) == 5
    # The reader has not seen these changes yet, and does not take the place for a wrong one.
    assert len(read(reader)) == 15
    assert read(writer) == []


def test_a_commit_moves_back_only_with_rewind(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    report(corpus, b"1")
    changes = corpus.changes()
    corpus.commit_changes("nightly", changes[9].cursor)
    assert corpus.commit_changes("nightly", changes[3].cursor) == changes[9].cursor
    assert corpus.changes(consumer="nightly") == changes[10:]
    corpus.commit_changes("nightly", changes[3].cursor, rewind=True)
    assert corpus.changes(consumer="nightly") == changes[4:]
    corpus.commit_changes("nightly", "newest")
    assert corpus.changes(consumer="nightly") == []
    corpus.commit_changes("nightly", "oldest", rewind=True)
    assert corpus.changes(consumer="nightly") == changes
    with pytest.raises(ValueError, match="after the end"):
        corpus.commit_changes("nightly", "999999.0")
    with pytest.raises(ValueError, match="cursor"):
        corpus.commit_changes("nightly", "nonsense")
    with pytest.raises(ValueError, match="either"):
        corpus.changes(changes[0].cursor, consumer="nightly")


def test_missed_changes_are_an_error_and_not_skipped(open_corpus: Open, clock: ManualClock) -> None:
    corpus = open_corpus(changes={"kept_for": "10d"})
    corpus.add(URLS)
    report(corpus, b"1")
    read(corpus, "slow", limit=5)
    read(corpus)
    clock.pass_seconds(86_400 * 9)
    report(corpus, b"2", URLS[:4])
    read(corpus)
    clock.pass_seconds(86_400 * 5)
    report(corpus, b"3", URLS[:2])
    corpus.snapshot()  # removes the first twenty changes
    with pytest.raises(ChangesLost, match="missed 15 changes"):
        corpus.changes(consumer="slow")
    slow = {consumer.name: consumer for consumer in corpus.consumers()}["slow"]
    assert (slow.n_missed, slow.n_behind) == (15, 6)
    corpus.commit_changes("slow", "oldest")
    assert len(read(corpus, "slow")) == 6
    # Who has read everything in time has missed nothing, also when nothing is left.
    assert len(read(corpus)) == 2
    clock.pass_seconds(86_400 * 40)
    corpus.add(["https://later.example/"])
    corpus.snapshot()
    assert corpus.changes() == []
    assert read(corpus) == read(corpus, "slow") == []
    report(corpus, b"4", URLS[:1])
    assert read(corpus) == URLS[:1]


def test_a_place_is_checked_where_its_count_is_unknown(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus(changes={"kept_for": "1d"})
    corpus.add(URLS)
    report(corpus, b"1")
    cursor = corpus.changes()[4].cursor
    clock.pass_seconds(86_400 * 5)
    report(corpus, b"2", URLS[:2])
    corpus.snapshot()
    corpus.commit_changes("late", cursor)  # its changes were removed before it committed
    with pytest.raises(ChangesLost, match="missed"):
        corpus.changes(consumer="late")
    assert corpus.consumers()[0].n_behind == 2


def test_a_corpus_that_went_back_is_noticed(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    report(corpus, b"1", URLS[:3])
    corpus.close()
    shutil.copytree(tmp_path / "corpus", tmp_path / "copy")
    corpus = open_corpus()
    clock.pass_seconds(60)
    report(corpus, b"2", URLS[:5])
    read(corpus)
    corpus.close()
    # An older copy of everything but the consumers.
    shutil.copytree(tmp_path / "corpus/consumers", tmp_path / "copy/consumers")
    corpus = open_corpus("copy")
    with pytest.raises(ChangesLost, match="not a place in this change feed"):
        corpus.changes(consumer="nightly")
    # It goes on as before, but with changes of other pages at the same places.
    clock.pass_seconds(60)
    report(corpus, b"2", URLS[5:10])
    place = Cursor.parse(corpus.consumers()[0].cursor)
    assert corpus.nodes[0].store.change_at(Cursor(place.position, place.row - 1)) is not None
    with pytest.raises(ChangesLost, match="not a place in this change feed"):
        corpus.changes(consumer="nightly")
    corpus.commit_changes("nightly", "oldest", rewind=True)
    assert len(read(corpus)) == 3 + 5


@pytest.mark.parametrize(
    "name", ["", "Nightly", "../x", ".x", "a/b", "a\0", "a\n", "a" * 65, "é", "a b"]
)
def test_a_name_is_safe_as_the_name_of_a_file(open_corpus: Open, name: str) -> None:
    corpus = open_corpus()
    for call in (
        lambda: corpus.changes(consumer=name),
        lambda: corpus.commit_changes(name, "oldest"),
        lambda: corpus.remove_consumer(name),
    ):
        with pytest.raises(ValueError, match="name of a consumer"):
            call()


def test_the_number_of_consumers_is_limited(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CONSUMERS_MAX", 2)
    corpus = open_corpus()
    assert not corpus.remove_consumer("a")
    for name in ("a", "b", "b"):
        corpus.commit_changes(name, "oldest")
    with pytest.raises(ValueError, match="at most 2 consumers"):
        corpus.commit_changes("c", "oldest")
    assert corpus.remove_consumer("a")
    assert not corpus.remove_consumer("a")
    corpus.commit_changes("c", "oldest")
    assert [consumer.name for consumer in corpus.consumers()] == ["b", "c"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"format": 1, "cursor": "x"}', b'{"format": 9}', b"null"],
)
def test_a_damaged_file_is_named(open_corpus: Open, tmp_path: Path, content: bytes) -> None:
    corpus = open_corpus()
    corpus.commit_changes("nightly", "oldest")
    path = tmp_path / "corpus/consumers/nightly.json"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"nightly\.json"):
        corpus.changes(consumer="nightly")
    assert "nightly.json" in (corpus.consumers()[0].problem or "")
    corpus.remove_consumer("nightly")
    assert corpus.changes(consumer="nightly") == []


COMMIT = """
import sys, recrawl
with recrawl.open(sys.argv[1], read_only=True) as corpus:
    for change in corpus.changes():
        corpus.commit_changes("nightly", change.cursor)
"""


def test_processes_that_commit_at_once_leave_the_furthest_place(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    report(corpus, b"1")
    arguments = [sys.executable, "-c", COMMIT, str(tmp_path / "corpus")]
    running = [subprocess.Popen(arguments) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert corpus.changes(consumer="nightly") == []
    assert corpus.consumers()[0].cursor == corpus.changes()[-1].cursor
    names = {path.name for path in (tmp_path / "corpus/consumers").iterdir()}
    assert names == {".lock", "nightly.json"}


def test_a_commit_is_synced_before_it_counts(
    open_corpus: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus()
    corpus.commit_changes("nightly", "oldest")
    path = tmp_path / "corpus/consumers/nightly.json"
    before = json.loads(path.read_bytes())

    def fail(_: int) -> None:
        raise OSError("the disk is gone")

    corpus.add(URLS)
    report(corpus, b"1")
    monkeypatch.setattr("recrawl.atomic_files.os.fsync", fail)
    with pytest.raises(OSError, match="gone"):
        corpus.commit_changes("nightly", "newest")
    assert json.loads(path.read_bytes()) == before


def test_changes_without_a_url_do_not_end_the_feed(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add(URLS)
    report(corpus, b"1", URLS[:9])
    store = corpus.nodes[0].store
    batch = store.batch()
    rows = store.changes(Cursor(0, 0), 8)
    for row in rows:  # written again at their places, without URLs
        batch.changes.append(
            NewChanges(
                first=Cursor(row.cursor.position, row.cursor.row - 1),
                page=np.array([row.page]),
                transition=np.array([row.transition]),
                at_ms=np.array([row.at_ms]),
                url=None,
                passages=None,
            )
        )
    corpus.remove(URLS[:8])
    store.write(batch, store.position)
    assert [change.url for change in corpus.changes(limit=2)] == [URLS[8]]


def test_a_restored_consumer_misses_nothing(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus(corpus={"partitions": 2})
    corpus.add(URLS)
    report(corpus, b"1", URLS[:5])
    assert len(read(corpus)) == 5
    clock.pass_seconds(60)
    report(corpus, b"2", URLS[:3])
    corpus.backup(tmp_path / "backups")
    assert len(read(corpus)) == 3  # after the backup
    corpus.close()
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    corpus = open_corpus("restored", corpus={"partitions": 2})
    clock.pass_seconds(60)
    report(corpus, b"3", URLS[10:12])
    assert sorted(read(corpus)) == sorted(URLS[:3] + URLS[10:12])


def test_the_doctor_names_consumers_that_missed_changes(
    open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    corpus = open_corpus(changes={"kept_for": "10d"})
    corpus.add(URLS)
    report(corpus, b"1")
    read(corpus, "slow", limit=5)
    clock.pass_seconds(86_400 * 20)
    report(corpus, b"2", URLS[:4])
    corpus.snapshot()
    corpus.commit_changes("nightly", "oldest")
    corpus.close()
    found = [
        (result.level.name, result.what)
        for result in check_corpus(tmp_path / "corpus", clock=clock)
        if result.check == "consumers"
    ]
    assert [level for level, _ in found] == ["WARN", "OK"]
    assert "slow has missed 15 changes" in found[0][1]
    assert found[1][1] == "nightly (4 to read)"
