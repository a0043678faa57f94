"""A log that a power cut has torn is cut there; a log that is damaged elsewhere is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import recrawl
from recrawl.corpus import Corpus
from recrawl.errors import StorageError
from tests.corpus_fixtures import clock, open_corpus
from tests.manual_clock import ManualClock
from tests.unit.node.durability.test_recovery import crashed_copy

__all__ = ["clock", "open_corpus"]

URLS = [f"https://h{i}.example/" for i in range(40)]


def write_ahead_log(corpus: Path) -> Path:
    return max((corpus / "log").glob("*.log"))


@pytest.fixture
def torn(tmp_path: Path, open_corpus: Callable[..., Corpus]) -> Callable[[int], Path]:
    """Return a function that damages a copy of a corpus: records without a sync, or older ones."""
    corpus = open_corpus("original", corpus={"partitions": 2})
    corpus.add(URLS[:20])
    copy = crashed_copy(corpus.folder, tmp_path / "copy")
    n_synced = write_ahead_log(copy).stat().st_size
    # Two more records, which reach the write-ahead log of the copy and nothing else.
    corpus.add(URLS[20:30])
    corpus.add(URLS[30:])
    shutil.copyfile(write_ahead_log(corpus.folder), write_ahead_log(copy))

    def damage(offset: int) -> Path:
        path = write_ahead_log(copy)
        content = bytearray(path.read_bytes())
        at = n_synced + offset
        assert 0 < at < len(content) - 500, "valid records must follow the damage"
        content[at] ^= 0xFF
        path.write_bytes(content)
        return copy

    return damage


def test_records_that_were_never_synced_may_be_torn(
    torn: Callable[[int], Path], clock: ManualClock
) -> None:
    with recrawl.open(torn(100), clock=clock) as corpus:
        urls = [url for batch in corpus.pages(["url"]) for url in batch["url"].to_pylist()]
        assert set(URLS[:20]) <= set(urls)
        assert corpus.add(URLS).n_added == len(URLS) - len(urls)
    assert not list(corpus.folder.glob(".log-copy-*"))
    with recrawl.open(corpus.folder, clock=clock) as corpus:
        assert corpus.n_pages == len(URLS)


def test_an_acknowledged_record_may_not_be_torn(
    torn: Callable[[int], Path], clock: ManualClock
) -> None:
    copy = torn(-100)
    before = {path: path.read_bytes() for path in (copy / "log").glob("*.log")}
    with pytest.raises(StorageError, match="Corruption"):
        recrawl.open(copy, clock=clock)
    assert {path: path.read_bytes() for path in (copy / "log").glob("*.log")} == before
