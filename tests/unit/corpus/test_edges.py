"""Edge cases of the interface that were bugs once."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import ConfigError, LedgerError, RecrawlError
from recrawl.ledger import AppendedSpan, Record
from recrawl.node.records import NamesNumbered
from tests.manual_clock import ManualClock

Open = Callable[..., Corpus]
PAGE = "http://a.example/"


def bad(*texts: bytes) -> pa.StringArray:
    """Return strings that are none: Arrow does not look at their bytes."""
    data = pa.array(texts, pa.binary())
    return pa.StringArray.from_buffers(len(texts), data.buffers()[1], data.buffers()[2])


def test_a_location_that_is_not_utf8_does_not_stop_the_corpus_from_opening(
    open_corpus: Open,
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    table = pa.table({"url": [PAGE], "status": [301], "moved_to": bad(b"http://b/\xff")})
    assert corpus.report(table).counted.all()
    corpus.close()
    open_corpus()


@pytest.mark.parametrize("as_strings", [True, False])
def test_urls_that_are_not_utf8_are_rejected_and_the_others_added(
    open_corpus: Open, as_strings: bool
) -> None:
    texts = (b"http://a.example/\xff", b"http://b.example/")
    urls = bad(*texts) if as_strings else pa.array(texts, pa.binary())
    assert open_corpus().add(urls) == (1, 0, 1)


def test_a_repeated_add_completes_one_that_was_interrupted(
    open_corpus: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka may cut it off: records are messages, each whole by itself."""
    sections: dict[str, Any] = {"pattern": [{"match": "/a/*", "max_age": "1d"}]}
    corpus = open_corpus(**sections)
    ledger = corpus.nodes[0].ledger
    append = ledger.append

    def cut_off(records: Sequence[Record]) -> AppendedSpan:
        append(records[:-1])
        raise LedgerError("the brokers did not answer")

    corpus.lease(1)
    monkeypatch.setattr(ledger, "append", cut_off)
    with pytest.raises(LedgerError):
        corpus.add(["http://x.example/a/1"])
    monkeypatch.undo()
    corpus.close()
    corpus = open_corpus(**sections)
    assert corpus.add(["http://x.example/a/1"]).n_known == 1
    explanation = corpus.explain("http://x.example/a/1")
    assert explanation is not None
    assert explanation.state.interval_seconds_max == 86_400


def test_a_clock_that_was_a_century_ahead_for_a_moment_does_not_end_the_corpus(
    open_corpus: Open, clock: ManualClock
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    century_ms = 100 * 365 * 86_400 * 1000
    clock.wall += century_ms
    corpus.report(Outcome(url=PAGE, changed=True))
    corpus.close()
    clock.wall -= century_ms
    corpus = open_corpus()
    clock.pass_seconds(86_400)
    assert corpus.report(Outcome(url=PAGE, changed=True)).counted.all()


def names_too_long_for_a_record() -> NamesNumbered:
    rng = np.random.default_rng(0)
    keys = pa.array([rng.bytes(1 << 20).hex() for _ in range(8)])
    numbers = np.arange(8)
    return NamesNumbered(
        numbers.astype(np.int64), numbers.astype(np.uint8), numbers.astype(np.uint32), keys
    )


def test_a_record_too_large_for_the_log_fails_only_its_caller(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE, "http://b.example/"])
    node = corpus.nodes[0]
    counted: list[int] = []
    other = threading.Thread(target=lambda: counted.append(corpus.requests([PAGE], 1)))
    corpus.lease(1)
    with node.lock:
        other.start()
        while not node._pending:
            threading.Event().wait(0.001)
        with pytest.raises(ValueError, match="a record must have at most"):
            node.submit([names_too_long_for_a_record()])
    other.join()
    assert counted == [1]
    assert corpus.add(["http://c.example/"]).n_added == 1


def test_paced_releases_orders_that_it_did_not_yield(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([f"http://a.example/{i}" for i in range(10)])
    orders: Any = corpus.paced()
    next(orders)
    orders.close()
    assert len(corpus.lease(10)) == 9


def test_more_partitions_than_handles_can_number_are_rejected() -> None:
    with pytest.raises(ConfigError, match="partitions must be at most 4096"):
        CorpusConfig.from_dict({"corpus": {"partitions": 5000}})


def test_a_failed_snapshot_raises_an_error_for_its_caller(
    open_corpus: Open, tmp_path: Path
) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    (tmp_path / "corpus" / "snapshots").write_text("in the way")
    with pytest.raises(RecrawlError):
        corpus.snapshot()


def test_a_closed_corpus_takes_no_snapshots(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.close()
    with pytest.raises(RecrawlError, match="closed"):
        corpus.snapshot()


@pytest.mark.parametrize("seconds", [-5.0, 0.0, float("nan"), float("inf")])
def test_leases_of_invalid_length_are_rejected(open_corpus: Open, seconds: float) -> None:
    corpus = open_corpus()
    with pytest.raises(ValueError, match="seconds must be above 0"):
        corpus.lease(1, seconds=seconds)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        corpus.extend([1], seconds=seconds)


def test_a_source_with_a_tab_in_its_name_is_rejected(open_corpus: Open) -> None:
    with pytest.raises(ValueError, match="control characters"):
        open_corpus().signal([PAGE], source="site\tmap")


def test_changes_of_removed_pages_can_still_be_read(open_corpus: Open) -> None:
    corpus = open_corpus()
    corpus.add([PAGE])
    corpus.report(Outcome(url=PAGE, changed=True))
    corpus.remove([PAGE])
    assert [change.url for change in corpus.changes()] == [PAGE]
