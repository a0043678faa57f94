"""A corpus has an id, and refuses the log, the store and the snapshots of another corpus."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Corpus, CorpusConfig
from recrawl.errors import CorpusError, IdentityError, RecrawlError
from recrawl.ledger import RocksLog, SnapshotFolder
from recrawl.node.durability.corpus_format import FORMAT, read_format
from recrawl.node.records import CorpusIdentified, entry_of
from tests.corpus_fixtures import IMPOLITE
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
CONFIG = CorpusConfig.from_dict({"corpus": {"partitions": 2}, "politeness": IMPOLITE})
# Hosts of both partitions.
URLS = [f"https://h{i}.example/" for i in range(20)]


def make(folder: Path, clock: ManualClock) -> str:
    """Create a corpus with two partitions and a snapshot of each; return its id."""
    with recrawl.open(folder, CONFIG, clock=clock) as corpus:
        corpus.add(URLS)
        corpus.snapshot()
        corpus_id = corpus.format.corpus_id
    assert corpus_id is not None
    return corpus_id


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of all files except the engine's own logs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("LOG")
    }


def test_the_id_is_in_every_part(tmp_path: Path, clock: ManualClock) -> None:
    folder = tmp_path / "a"
    corpus_id = make(folder, clock)
    assert len(bytes.fromhex(corpus_id)) == 16
    found = read_format(folder)
    assert found is not None
    assert (found.corpus_id, found.generation) == (corpus_id, 0)
    with RocksLog.open(folder / "log") as log:
        assert log.corpus_id == corpus_id
        for i in range(2):
            entry = entry_of(log.partition(i).read(0, n_bytes_max=1)[0][1])
            assert isinstance(entry, CorpusIdentified)
            numbers = [int(column[0]) for column in entry[:3]]
            assert [*numbers, str(entry.corpus_id[0])] == [i, 2, 0, corpus_id]
    for i in range(2):
        (saved,) = SnapshotFolder(folder / "snapshots" / str(i)).list_saved()
        assert saved.origin() == (corpus_id, i)
    assert make(tmp_path / "b", clock) != corpus_id


@pytest.mark.parametrize("part", ["log", "store", "snapshots"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_part_of_another_corpus_is_refused(
    tmp_path: Path, clock: ManualClock, part: str, read_only: bool
) -> None:
    ours, others = make(tmp_path / "a", clock), make(tmp_path / "b", clock)
    shutil.rmtree(tmp_path / "a" / part)
    shutil.copytree(tmp_path / "b" / part, tmp_path / "a" / part)
    with pytest.raises(IdentityError) as refused:
        recrawl.open(tmp_path / "a", CONFIG, read_only=read_only, clock=clock)
    for word in (ours, others, str(tmp_path / "a"), "Nothing was changed"):
        assert word in str(refused.value)


@pytest.mark.parametrize("part", ["store", "snapshots"])
def test_parts_of_two_partitions_cannot_be_swapped(
    tmp_path: Path, clock: ManualClock, part: str
) -> None:
    make(tmp_path, clock)
    folder = tmp_path / part
    (folder / "0").rename(folder / "aside")
    (folder / "1").rename(folder / "0")
    (folder / "aside").rename(folder / "1")
    with pytest.raises(IdentityError, match="partition 1"):
        recrawl.open(tmp_path, CONFIG, clock=clock)


def test_a_log_without_metadata_is_recognised_by_its_first_record(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a", clock)
    others = make(tmp_path / "b", clock)
    shutil.rmtree(tmp_path / "a" / "log")
    shutil.copytree(tmp_path / "b" / "log", tmp_path / "a" / "log")
    monkeypatch.setattr(RocksLog, "identify", lambda *_: None)
    with pytest.raises(IdentityError, match=f"the log belongs to corpus {others}"):
        recrawl.open(tmp_path / "a", CONFIG, clock=clock)


@pytest.mark.parametrize("part", ["log", "store", "snapshots"])
def test_without_its_format_file_nothing_is_created_over_a_corpus(
    tmp_path: Path, clock: ManualClock, part: str
) -> None:
    make(tmp_path, clock)
    for name in {"log", "store", "snapshots"} - {part}:
        shutil.rmtree(tmp_path / name)
    (tmp_path / "FORMAT").unlink()
    before = files_in(tmp_path)
    for read_only in (False, True):
        with pytest.raises(CorpusError, match=f"has no file FORMAT, but it has {part}/"):
            recrawl.open(tmp_path, CONFIG, read_only=read_only, clock=clock)
    assert files_in(tmp_path) == before


def test_a_folder_with_other_files_can_become_a_corpus(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "urls.txt").write_text("https://a.example/")
    (tmp_path / "log").mkdir()
    make(tmp_path, clock)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(
            ({key: None}, f"has no key '{key}'")
            for key in ("format", "id", "generation", "canonical_urls", "partitions", "group_by")
        ),
        ({"ledger": None}, "has no key 'ledger'"),
        ({"format": "2"}, "'format' must be an integer"),
        ({"format": True}, "'format' must be an integer"),
        ({"id": "abc"}, "'id' must be 32 hexadecimal digits, got 'abc'"),
        ({"id": 7}, "'id' must be 32 hexadecimal digits, got 7"),
        ({"generation": -1}, "'generation' must be an integer from 0"),
        ({"partitions": 2.5}, "'partitions' must be an integer"),
        ({"group_by": ["host"]}, "'group_by' must be a word"),
        ({"ledger": "paper"}, "'ledger' must be rocksdb or kafka"),
    ],
)
def test_an_incomplete_or_malformed_format_file_is_refused(
    tmp_path: Path, clock: ManualClock, changes: dict[str, Any], expected: str
) -> None:
    make(tmp_path, clock)
    path = tmp_path / "FORMAT"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: v for key, v in values.items() if v is not None}))
    before = files_in(tmp_path)
    with pytest.raises(CorpusError) as refused:
        recrawl.open(tmp_path, CONFIG, clock=clock)
    assert expected in str(refused.value)
    assert str(path) in str(refused.value)
    assert files_in(tmp_path) == before


def as_of_0_1_0(folder: Path) -> None:
    """Write the FORMAT file as 0.1.0 did."""
    values = json.loads((folder / "FORMAT").read_text())
    del values["id"], values["generation"]
    (folder / "FORMAT").write_text(json.dumps(values | {"format": 1}))


def test_a_reader_does_not_give_an_id_but_a_writer_does(tmp_path: Path, clock: ManualClock) -> None:
    """The fixture of 0.1.0 has logs, stores and snapshots without ids; only FORMAT differs here."""
    corpus_id = make(tmp_path, clock)
    as_of_0_1_0(tmp_path)
    with recrawl.open(tmp_path, CONFIG, read_only=True, clock=clock) as corpus:
        assert corpus.format.corpus_id is None
    # The writer keeps the id that the log has already.
    assert make(tmp_path, clock) == corpus_id
    assert json.loads((tmp_path / "FORMAT").read_text())["format"] == FORMAT


def test_a_failed_opening_leaves_an_id_that_the_next_one_uses(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the FORMAT file and the log."""
    with monkeypatch.context() as patch:
        patch.setattr(RocksLog, "open", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises((OSError, RecrawlError)):
            recrawl.open(tmp_path, CONFIG, clock=clock)
    found = read_format(tmp_path)
    assert found is not None
    assert make(tmp_path, clock) == found.corpus_id
