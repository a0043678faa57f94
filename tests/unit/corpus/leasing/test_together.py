"""Calls about many partitions on Kafka wait for the brokers a few times, not once for each."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig, RowStatus
from recrawl.corpus.leasing.shares import SharedOrders
from recrawl.corpus.leasing.together import first_share
from recrawl.errors import LedgerError
from recrawl.ledger.kafka import KafkaAppend, KafkaLedger
from recrawl.ledger.kafka_clients import Sender
from recrawl.node.node import Node
from recrawl.node.orders import OrderRows, partition_in
from tests.manual_clock import ManualClock

N_PARTITIONS = 20
URLS = [f"https://h{i}.example/page/{i}" for i in range(1000)]


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": N_PARTITIONS},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the beginnings and ends of appends, as they happen."""
    seen: list[str] = []
    begin, finish = KafkaLedger.begin_append, KafkaAppend.finish

    def begin_seen(self: KafkaLedger, records: Any) -> KafkaAppend:
        seen.append("begin")
        return begin(self, records)

    def finish_seen(self: KafkaAppend) -> Any:
        seen.append("finish")
        return finish(self)

    monkeypatch.setattr(KafkaLedger, "begin_append", begin_seen)
    monkeypatch.setattr(KafkaAppend, "finish", finish_seen)
    return seen


def rounds(appends: list[str]) -> int:
    """Return how many times an append was begun after another was finished."""
    return 1 + sum(pair == ("finish", "begin") for pair in pairwise(appends))


def counts_of(orders: Any) -> Counter[int]:
    return Counter(partition_in(order.handle) for order in orders)


def held(corpus: Corpus) -> list[str]:
    rows = [row for batch in corpus.pages(["url", "is_in_flight"]) for row in batch.to_pylist()]
    return sorted(row["url"] for row in rows if row["is_in_flight"])


def pages_of(corpus: Corpus) -> list[dict[str, Any]]:
    columns = ["url", "is_in_flight", "belief_shape", "fetched_at_ms"]
    rows = [row for batch in corpus.pages(columns) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["url"]))


@pytest.mark.parametrize(
    ("n", "n_partitions", "share"),
    [
        (1, 1, 1),
        (10, 4, 3),
        (100, 16, 7),
        (1, 256, 1),
        (16, 256, 1),
        (100, 256, 7),
        (1_000, 256, 63),
        (10_000, 256, 64),
        (20_000, 256, 79),
    ],
)
def test_a_small_lease_asks_a_few_partitions_for_more_orders(
    n: int, n_partitions: int, share: int
) -> None:
    assert first_share(n, n_partitions) == share


@pytest.mark.slow_without_jit
def test_a_lease_of_all_partitions_waits_twice(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, appends: list[str]
) -> None:
    urls = [f"https://h{i}.example/page/{i}" for i in range(3200)]
    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        corpus.add(urls)
        clock.pass_seconds(2)
        appends.clear()
        orders = corpus.lease(64 * N_PARTITIONS)
        assert counts_of(orders) == dict.fromkeys(range(N_PARTITIONS), 64)
        # Once for the ticks, once for the orders.
        assert len(appends) == 4 * N_PARTITIONS
        assert rounds(appends) == 2
        appends.clear()
        assert len(corpus.lease(64 * N_PARTITIONS)) == 64 * N_PARTITIONS
        assert rounds(appends) == 1
        # The last pages are unevenly spread.
        assert len(corpus.lease(64 * N_PARTITIONS)) == 640
        assert held(corpus) == sorted(urls)
    with recrawl.open(tmp_path / "there", config, clock=clock) as corpus:
        assert held(corpus) == sorted(urls)


@pytest.mark.slow_without_jit
def test_a_partition_that_gave_fewer_pages_than_asked_is_asked_once(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    begin = Node.begin_orders

    def begin_seen(self: Node, *arguments: Any, **more: Any) -> Any:
        asked.append(self.partition)
        return begin(self, *arguments, **more)

    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        corpus.add(URLS[:100])
        monkeypatch.setattr(Node, "begin_orders", begin_seen)
        assert len(corpus.lease(200)) == 100
        assert sorted(asked) == [*range(N_PARTITIONS)]
        asked.clear()
        assert not corpus.lease(1)
        assert sorted(asked) == [*range(N_PARTITIONS)]


@pytest.mark.slow_without_jit
def test_small_leases_ask_all_partitions_in_turn(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        corpus.add(URLS)
        first = [counts_of(corpus.lease(4)) for _ in range(5)]
        assert sum(first, Counter()) == dict.fromkeys(range(N_PARTITIONS), 1)
        ones = [counts_of(corpus.lease(1)) for _ in range(N_PARTITIONS)]
        assert sum(ones, Counter()) == dict.fromkeys(range(N_PARTITIONS), 1)
        many = [counts_of(corpus.lease(100)) for _ in range(4)]
        total = sum(many, Counter())
        assert max(total.values()) - min(total.values()) <= 7


@pytest.mark.slow_without_jit
def test_reports_and_releases_wait_once(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, appends: list[str]
) -> None:
    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        corpus.add(URLS)
        orders = list(corpus.lease(1000))
        few, many, others = orders[:100], orders[100:800], orders[800:]
        for some in (few, many):
            clock.pass_seconds(2)
            appends.clear()
            outcomes = [Outcome(handle=order.handle, digest=bytes(16)) for order in some]
            reported = corpus.report(outcomes)
            assert reported.counted.all()
            # Once for the ticks, once for the outcomes.
            assert rounds(appends) == 2
        clock.pass_seconds(2)
        appends.clear()
        assert corpus.release([order.handle for order in others]) == 200
        assert rounds(appends) == 2
        assert held(corpus) == []
        expected = pages_of(corpus)
    with recrawl.open(tmp_path / "there", config, clock=clock) as corpus:
        assert pages_of(corpus) == expected


@pytest.mark.slow_without_jit
def test_orders_of_other_partitions_are_handed_out_when_one_fails(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = KafkaLedger._send

    def broken(self: KafkaLedger, sender: Sender, schema: int, data: bytes, *rest: Any) -> None:
        if self._i == 7:
            raise LedgerError("the cable was pulled")
        send(self, sender, schema, data, *rest)

    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        corpus.add(URLS)
        corpus.lease(1)
        with monkeypatch.context() as patch:
            patch.setattr(KafkaLedger, "_send", broken)
            orders = corpus.lease(400)
        in_flight = held(corpus)
        assert len(orders) == 400
        assert len(in_flight) == 401
        clock.pass_seconds(2)
        assert len(corpus.lease(1000)) == 1000 - len(in_flight)
    with recrawl.open(tmp_path / "there", config, clock=clock) as corpus:
        assert held(corpus) == sorted(URLS)


def rows_of(*handles: int) -> OrderRows:
    n = len(handles)
    columns: dict[str, Any] = {}
    for name in ("url", "fetch_url", "etag", "last_modified", "doc_id", "metadata", "key"):
        columns[name] = [str(handle) for handle in handles]
    return OrderRows(
        handle=np.array(handles),
        reason=np.zeros(n, np.uint8),
        expires_at_ms=np.zeros(n, np.int64),
        **columns,
    )


def test_who_came_first_gets_the_first_orders() -> None:
    shared = SharedOrders([2, 0, 3])
    first = shared.reserve(0, 3)
    second = shared.reserve(1, 2)
    assert shared.n_left == 0
    shared.add(rows_of(1, 2, 3), [3], first)
    shared.add(rows_of(4), [1], second)  # one of them was void
    assert [[one.handle for one in orders] for orders in shared.orders()] == [[1, 2], [], [3, 4]]
    assert shared.n_left == 1
    shared.add(rows_of(5), [1], shared.reserve(2, 1))
    assert [len(orders) for orders in shared.orders()] == [2, 0, 3]


@pytest.mark.slow_without_jit
def test_adding_pages_to_all_partitions_waits_twice(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock, appends: list[str]
) -> None:
    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        clock.pass_seconds(2)
        appends.clear()
        added = corpus.add([*URLS, URLS[0], "not a URL"], doc_id=[str(i) for i in range(1002)])
        assert (added.n_added, added.n_known, added.n_refused) == (1000, 1, 1)
        # Once for the ticks, once for the pages.
        assert rounds(appends) == 2
        appends.clear()
        assert corpus.add(URLS).n_known == 1000
        assert appends == []
        appends.clear()
        more = [f"{url}/more" for url in URLS]
        assert corpus.add([*URLS, *more]).n_added == 1000
        assert rounds(appends) == 1
        found = pages_of(corpus)
        assert [row["url"] for row in found] == sorted([*URLS, *more])
    with recrawl.open(tmp_path / "there", config, clock=clock) as corpus:
        assert pages_of(corpus) == found


@pytest.mark.slow_without_jit
def test_a_partition_that_fails_keeps_no_other_from_adding_pages(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "here", config, clock=clock) as corpus:
        with recrawl.open(tmp_path / "there", config, clock=clock, partitions=[3, 4]):
            added = corpus.add(URLS)
            is_away = added.rows == RowStatus.UNAVAILABLE
            assert 0 < np.count_nonzero(is_away) < 500
            assert added.n_added == 1000 - np.count_nonzero(is_away)
        again = corpus.add(URLS)
        assert again.n_known == added.n_added
        assert (again.rows == RowStatus.UNAVAILABLE).tolist() == is_away.tolist()
