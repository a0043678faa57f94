"""Forgotten pages are in no file of the corpus and of its backups, compressed or not."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus, back_up_corpus, restore_corpus
from recrawl.corpus.forgetting import forget as forget_module
from recrawl.corpus.forgetting.remains import Remainder, data_files, open_elsewhere
from recrawl.errors import BackupError, CorpusError
from recrawl.kv import KeyValues
from recrawl.node.durability.snapshotter import Snapshotter
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
# More than two blocks of 32 URLs per partition, so that forgotten pages are inside of blocks.
URLS = [f"https://h{i % 3}.example/page/{i}" for i in range(300)]
JANE = [f"https://h{i % 3}.example/user/jane-{i}-doe" for i in range(40)]
SECRET = b"jane-"


def databases(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("CURRENT"):
        yield path.parent


def traces(folder: Path, text: bytes = SECRET) -> list[str]:
    """Return where a text occurs: in raw files, or in values that RocksDB decompresses."""
    found = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        # Closing LOCK would give up the lock of a corpus that this process has open.
        if path.is_file() and path.name != "LOCK" and text in path.read_bytes()
    ]
    for database in databases(folder):
        with KeyValues.open(database, mode="reader") as values:
            for key, value in values.scan(b""):
                if text in key or text in value:
                    found.append(f"{database.relative_to(folder)}: {key!r}")
    return found


def fill(corpus: Corpus) -> None:
    corpus.add([*URLS[:150], *JANE, *URLS[150:]])
    everything = [*URLS, *JANE]
    corpus.report([Outcome(url=url, digest=b"1", etag=b"of " + url.encode()) for url in everything])
    corpus.report([Outcome(url=URLS[0], digest=b"2", moved_to=JANE[3])])
    # As servers send it: another spelling of the same URL.
    other = JANE[4].replace("https://h1.example/", "https://H1.example:443/./")
    corpus.report([Outcome(url=URLS[1], digest=b"2", moved_to=other)])
    corpus.snapshot()
    corpus.report([Outcome(url=url, digest=b"3") for url in everything])


@pytest.fixture
def corpus(open_corpus: Open) -> Corpus:
    corpus = open_corpus(corpus={"partitions": 2})
    fill(corpus)
    return corpus


def test_forgotten_pages_are_in_no_file(corpus: Corpus, tmp_path: Path, open_corpus: Open) -> None:
    assert traces(tmp_path / "corpus")  # the test can find them
    before = data_files(tmp_path / "corpus")
    (state,) = corpus.forget(JANE)
    assert state.n_pages == 40
    assert state.is_complete, state.remains
    assert traces(tmp_path / "corpus") == []
    # Deleted values in compressed blocks are not seen by a scan, but no file from before is left.
    assert not before.items() & data_files(tmp_path / "corpus").items()
    assert corpus.n_pages == 300
    assert {change.url for change in corpus.changes(limit=10_000)} == set(URLS)
    corpus.close()
    assert traces(tmp_path / "corpus") == []
    again = open_corpus(corpus={"partitions": 2})
    assert again.n_pages == 300
    assert again.add(URLS).n_known == 300
    assert again.explain(JANE[0]) is None
    assert again.forget_states()[0].is_complete
    # They can be added again, as new pages.
    assert again.add(JANE[:1]).n_added == 1


def test_pages_are_forgotten_by_pattern(corpus: Corpus, tmp_path: Path) -> None:
    (state,) = corpus.forget(pattern="/user/jane-*")
    assert state.n_pages == 40
    assert state.is_complete
    assert traces(tmp_path / "corpus") == []


def test_pages_that_were_removed_before_are_forgotten_too(corpus: Corpus, tmp_path: Path) -> None:
    corpus.remove(JANE)
    assert traces(tmp_path / "corpus")
    (state,) = corpus.forget(JANE)
    assert state.n_pages == 0
    assert state.is_complete
    assert traces(tmp_path / "corpus") == []


def test_the_users_own_data_of_a_page_goes_too(corpus: Corpus, tmp_path: Path) -> None:
    corpus.set(JANE[:1], doc_id="born-1970", metadata={"name": "born-1970"})
    corpus.snapshot()
    assert traces(tmp_path / "corpus", b"born-1970")
    assert corpus.forget(JANE)[0].is_complete
    assert traces(tmp_path / "corpus", b"born-1970") == []


def test_a_similar_url_is_kept(corpus: Corpus) -> None:
    longer = JANE[0] + "/more"
    corpus.add([longer])
    corpus.forget(JANE[:1])
    assert corpus.explain(longer) is not None
    assert corpus.n_pages == 340


def test_backups_are_replaced_by_one_without_the_pages(
    corpus: Corpus, tmp_path: Path, open_corpus: Open
) -> None:
    corpus.backup(tmp_path / "backups")
    corpus.backup(tmp_path / "backups")
    (state,) = corpus.forget(JANE, backups=[tmp_path / "backups"])
    assert state.is_complete, state.remains
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert traces(tmp_path / "restored") == []
    assert len(list((tmp_path / "backups/backups").iterdir())) == 1
    assert open_corpus("restored", corpus={"partitions": 2}).n_pages == 300


def test_what_cannot_be_erased_is_named_until_it_is_gone(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    corpus.backup(tmp_path / "backups")
    broken = tmp_path / "corpus/store/0.broken"
    shutil.copytree(tmp_path / "corpus/store/0", broken, ignore=shutil.ignore_patterns("LOCK"))

    def fail(*_: Any, **__: Any) -> None:
        raise BackupError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(forget_module, "back_up_corpus", fail)
        (state,) = corpus.forget(JANE, backups=[tmp_path / "backups"])
    assert not state.is_complete
    assert {one.kind for one in state.remains} == {"file", "backup"}
    assert "the disk is full" in str(state.remains)
    record = (tmp_path / "corpus/forgets.json").read_bytes()
    assert SECRET not in record
    shutil.rmtree(broken)
    (state,) = corpus.forget_states()
    assert [one.kind for one in state.remains] == ["backup"]
    back_up_corpus(tmp_path / "corpus", tmp_path / "backups", keep=1)
    clock.pass_seconds(60)
    (state,) = corpus.forget_states()
    assert state.is_complete
    assert state.completed_at_ms == clock.wall_ms()
    assert corpus.forget_states() == [state]


class KilledError(BaseException):
    """Raised by the test in the middle of a forget."""


@pytest.mark.parametrize(
    "step", ["_erase_from_node", "_rewrite_log", "_replace_backups", "take_alone"]
)
def test_an_interrupted_forget_is_finished_later(
    corpus: Corpus, open_corpus: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def stop(*_: Any) -> None:
        raise KilledError

    corpus.backup(tmp_path / "backups")
    with monkeypatch.context() as patched:
        owner = Snapshotter if step == "take_alone" else forget_module.Forgetting
        patched.setattr(owner, step, stop)
        with pytest.raises(KilledError):
            corpus.forget(JANE, backups=[tmp_path / "backups"])
    (state,) = corpus.forget_states()
    assert not state.is_complete
    assert [one.kind for one in state.remains] == ["backup", "file"]
    assert "recrawl forget --finish" in state.remains[1].why
    corpus.close()
    again = open_corpus(corpus={"partitions": 2})
    (state,) = again.forget()
    assert state.is_complete, state.remains
    assert again.n_pages == 300
    assert traces(tmp_path / "corpus") == []
    # Also from the backups that the interrupted call named.
    assert traces(tmp_path / "backups") == []
    restore_corpus(tmp_path / "backups", tmp_path / "restored")
    assert traces(tmp_path / "restored") == []


def test_a_process_that_reads_is_named(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remainder = Remainder("process", "4711", "it still has deleted files open")
    found = [remainder]
    monkeypatch.setattr(forget_module, "open_elsewhere", lambda _: iter(found))
    (state,) = corpus.forget(JANE)
    assert state.remains == [remainder]
    found.clear()
    assert corpus.forget_states()[0].is_complete


def test_a_process_that_has_a_deleted_file_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    path.write_bytes(b"1")
    program = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    reader = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    with reader.stdin, reader.stdout:
        reader.stdout.readline()
        assert not list(open_elsewhere(tmp_path))
        path.unlink()
        assert [one.where for one in open_elsewhere(tmp_path)] == [str(reader.pid)]
    reader.wait()
    assert not list(open_elsewhere(tmp_path))


def test_wrong_arguments_and_a_damaged_record_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either urls or a pattern"):
        corpus.forget(JANE, pattern="/user/*")
    (tmp_path / "corpus/forgets.json").write_text("{")
    with pytest.raises(CorpusError, match=r"forgets\.json"):
        corpus.forget(JANE)
    assert corpus.n_pages == 340


@pytest.mark.slow_without_jit
def test_on_kafka_the_records_are_deleted_and_segments_follow(
    kafka_bootstrap: str, kafka_topic: str, open_corpus: Open, clock: ManualClock, tmp_path: Path
) -> None:
    ledger = {
        "kind": "kafka",
        "bootstrap": kafka_bootstrap,
        "topic": kafka_topic,
        "replication": 1,
    }
    corpus = open_corpus(ledger=ledger)
    fill(corpus)
    (state,) = corpus.forget(JANE)
    assert [one.kind for one in state.remains] == ["kafka"]
    (node,) = corpus.nodes
    assert node.ledger.first == state.remains[0].number > 0
    assert traces(tmp_path / "corpus") == []
    clock.pass_seconds(8 * 86_400)
    assert corpus.forget_states()[0].is_complete
