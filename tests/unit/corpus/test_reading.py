"""A reader gets the same answers as the writer at the same position of the log."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus
from recrawl.errors import RecoveryError
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
DAY = 86_400.0
URLS = [f"https://h{i % 5}.example/{i}" for i in range(60)]
# Of a picker, which only deciding has: a reader knows the price as it was logged.
VOLATILE = {"backlog", "price"}


def some_days(corpus: Corpus, clock: ManualClock, n_days: int = 6) -> None:
    rng = np.random.default_rng(1)
    for _ in range(n_days):
        orders = corpus.lease(25)
        digests = rng.integers(3, size=len(orders))
        corpus.report(
            [
                Outcome(handle=order.handle, digest=bytes([digest]))
                for order, digest in zip(orders[3:], digests.tolist(), strict=False)
            ]
        )
        corpus.signal(URLS[10:20], source="feed")
        clock.pass_seconds(DAY)


@pytest.fixture
def writer(open_corpus: Open, clock: ManualClock) -> Corpus:
    corpus = open_corpus(budget={"rate": "20/d"})
    corpus.add(URLS)
    some_days(corpus, clock)
    return corpus


def assert_same_answers(reader: Corpus, writer: Corpus, clock: ManualClock) -> None:
    clock.pass_seconds(5)
    for node in writer.nodes:
        node.tick(writer.time)  # which puts the price on record
    reader.refresh()
    read, expected = reader.stats().as_dict(), writer.stats().as_dict()
    assert {k: v for k, v in read.items() if k not in VOLATILE} == {
        k: v for k, v in expected.items() if k not in VOLATILE
    }
    assert read["price"] == pytest.approx(expected["price"])
    for url in URLS[::7]:
        assert reader.explain(url) == writer.explain(url)
    of_reader, of_writer = reader.plan().curve, writer.plan().curve
    np.testing.assert_array_equal(of_reader.weighted_freshness, of_writer.weighted_freshness)
    np.testing.assert_array_equal(of_reader.fetches_per_hour, of_writer.fetches_per_hour)
    read, written = (pa.Table.from_batches(corpus.pages()) for corpus in (reader, writer))
    assert read.equals(written)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_reader_gives_the_same_answers_as_the_writer(
    writer: Corpus, open_corpus: Open, clock: ManualClock, has_snapshot: bool
) -> None:
    if has_snapshot:
        writer.snapshot()
    some_days(writer, clock, 2)  # after the snapshot
    reader = open_corpus(read_only=True)
    assert_same_answers(reader, writer, clock)
    some_days(writer, clock, 2)
    assert_same_answers(reader, writer, clock)


def flipped(writer: Corpus, table: str, column: str) -> None:
    """Break a byte of one column of the newest snapshot."""
    newest = max((writer.folder / "snapshots" / "0").iterdir())
    body = json.loads(json.loads((newest / "manifest.json").read_text())["body"])
    # In place, because a thread may read the file by a mapping, which must not become shorter.
    with (newest / "columns").open("r+b") as columns:
        columns.seek(body["tables"][table][column]["offset"])
        (byte,) = columns.read(1)
        columns.seek(-1, os.SEEK_CUR)
        columns.write(bytes([byte ^ 0x01]))


def test_a_reader_uses_the_snapshot_before_a_broken_one(
    writer: Corpus, open_corpus: Open, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    writer.snapshot()
    some_days(writer, clock, 1)
    writer.snapshot()
    flipped(writer, "registers", "n_pages")
    reader = open_corpus(read_only=True)
    assert "the checksum of column registers.n_pages does not match" in caplog.text
    assert reader.nodes[0].shard.digest() == writer.nodes[0].shard.digest()


def test_a_reader_leaves_the_checksums_of_pages_to_writers(
    writer: Corpus, open_corpus: Open, caplog: pytest.LogCaptureFixture
) -> None:
    writer.snapshot()
    flipped(writer, "pages", "heard_at")
    reader = open_corpus(read_only=True)
    assert reader.stats().n_pages == len(URLS)
    assert caplog.text == ""
    writer.close()
    again = open_corpus()
    assert "the checksum of column pages.heard_at does not match" in caplog.text
    assert again.stats().n_pages == len(URLS)


def test_a_reader_of_a_cut_off_snapshot_says_so(writer: Corpus, open_corpus: Open) -> None:
    writer.snapshot()
    writer.snapshot()
    folder: Path = writer.folder
    some_position = writer.nodes[0].position
    writer.nodes[0].ledger.truncate(some_position)
    for snapshot in (folder / "snapshots" / "0").iterdir():
        columns = snapshot / "columns"
        rest = columns.read_bytes()[:-100]
        columns.unlink()  # a thread may read the old file by a mapping
        columns.write_bytes(rest)
    with pytest.raises(RecoveryError, match="no snapshot can be used"):
        open_corpus(read_only=True)
