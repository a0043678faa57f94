"""A partition on Kafka goes on by itself after an append has failed, and loses nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import LedgerError
from recrawl.ledger import Record
from recrawl.ledger.kafka import KafkaLedger
from recrawl.ledger.kafka_clients import Sender
from tests.manual_clock import ManualClock
from tests.unit.corpus.test_on_kafka import URLS, config, recreate_topic

__all__ = ["config"]

pytestmark = pytest.mark.slow_without_jit
DIGEST = bytes(16)
Breaking = Callable[[str], list[tuple[int, bytes]]]


@pytest.fixture
def break_appends(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    """Return a function that makes appends fail: before they are sent, after it, or no more."""
    send = KafkaLedger._send

    def start(how: str) -> list[tuple[int, bytes]]:
        held: list[tuple[int, bytes]] = []

        def broken(self: KafkaLedger, sender: Sender, schema: int, data: bytes, *rest: Any) -> None:
            if how == "before":
                held.append((schema, data))
                raise LedgerError("the cable was pulled")
            send(self, sender, schema, data, *rest)
            if how == "after":
                sender.producer.flush(10)
                raise LedgerError("the cable was pulled")

        monkeypatch.setattr(KafkaLedger, "_send", broken)
        return held

    return start


def open_it(folder: Path, config: CorpusConfig, clock: ManualClock) -> Corpus:
    return recrawl.open(folder, config, clock=clock)


def check_like_a_replay(
    folder: Path, other: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    """Compare what the corpus knows with what a new machine reads from the log."""
    columns = ["url", "is_in_flight", "belief_shape", "fetched_at_ms"]
    tables = []
    for one in (folder, other):
        with recrawl.open(one, config, clock=clock) as corpus:
            rows = [row for batch in corpus.pages(columns) for row in batch.to_pylist()]
            tables.append(sorted(rows, key=lambda row: str(row["url"])))
    assert tables[0] == tables[1]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_failed_append_stops_a_partition_for_a_second(
    how: str,
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    break_appends: Breaking,
) -> None:
    with open_it(tmp_path / "here", config, clock) as corpus:
        corpus.add(URLS[:20])
        epochs = [node.shard.epoch for node in corpus.nodes]
        break_appends(how)
        with pytest.raises(LedgerError, match="the cable was pulled"):
            corpus.add(URLS[20:])
        with pytest.raises(LedgerError, match="stopped after an error; it tries again by itself"):
            corpus.add(URLS[20:])
        break_appends("no more")
        clock.pass_seconds(2)
        added = corpus.add(URLS[20:])
        # What was in the log after all was read from it.
        assert added.n_added + added.n_known == 30
        assert (added.n_known > 0) == (how == "after")
        assert corpus.n_pages == 50
        assert any(
            node.shard.epoch == epoch + 1 for node, epoch in zip(corpus.nodes, epochs, strict=True)
        )
        orders = corpus.lease(50)
        assert len(orders) == 50
        corpus.report([Outcome(handle=order.handle, digest=DIGEST) for order in orders])
    check_like_a_replay(tmp_path / "here", tmp_path / "there", config, clock)


def test_orders_that_appear_in_the_log_later_are_void(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, break_appends: Breaking
) -> None:
    with open_it(tmp_path / "here", config, clock) as corpus:
        corpus.add(URLS)
        clock.pass_seconds(2)
        corpus.stats()
        corpus.lease(1)
        held = break_appends("before")
        with pytest.raises(LedgerError, match="the cable was pulled"):
            corpus.lease(10)
        break_appends("no more")
        clock.pass_seconds(2)
        first = corpus.lease(49)
        assert len(first) == 49
        assert held
        # The records that were given up come from the network now.
        partition = next(i for i, node in enumerate(corpus.nodes) if node.shard.epoch > 1)
        ledger = corpus.nodes[partition].ledger
        ledger.append([Record(*one) for one in held])
        clock.pass_seconds(2)
        handles = [order.handle for order in first]
        assert corpus.extend(handles, seconds=60) == 49
    check_like_a_replay(tmp_path / "here", tmp_path / "there", config, clock)


def test_attempts_become_rarer(
    tmp_path: Path,
    config: CorpusConfig,
    clock: ManualClock,
    break_appends: Breaking,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with open_it(tmp_path / "here", config, clock) as corpus:
        break_appends("before")
        for _ in range(40):
            with pytest.raises(LedgerError):
                corpus.add(URLS)
            clock.pass_seconds(1.5)
        said = [one for one in caplog.messages if "tries again after" in one]
        assert 4 <= len(said) <= 12
        assert any("32 s" in one for one in said)
        break_appends("no more")
        clock.pass_seconds(60)
        assert corpus.add(URLS).n_added == 50
    assert any("goes on after an error" in one for one in caplog.messages)


def test_a_topic_that_was_created_again_is_not_written_to(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, break_appends: Breaking
) -> None:
    corpus = open_it(tmp_path / "here", config, clock)
    try:
        corpus.add(URLS)
        break_appends("before")
        with pytest.raises(LedgerError):
            corpus.add([f"{url}/more" for url in URLS])
        break_appends("no more")
        recreate_topic(config)
        clock.pass_seconds(2)
        for _ in range(2):
            with pytest.raises(LedgerError, match="was created again"):
                corpus.add([f"{url}/more" for url in URLS])
            clock.pass_seconds(120)
    finally:
        corpus.close()
