"""A corpus with its log on Kafka works like any other, and yields to a new owner."""

from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl import Outcome
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.errors import OwnershipLost
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.slow_without_jit
URLS = [f"https://h{i % 5}.example/page/{i}" for i in range(50)]


@pytest.fixture
def config(kafka_bootstrap: str, kafka_topic: str) -> CorpusConfig:
    return CorpusConfig.from_dict(
        {
            "corpus": {"partitions": 2},
            "ledger": {
                "kind": "kafka",
                "bootstrap": kafka_bootstrap,
                "topic": kafka_topic,
                "replication": 1,
            },
            "politeness": {"delay": 0, "in_flight_max": 100, "burst": 100},
        }
    )


def state_of(corpus: Corpus) -> list[Any]:
    return [
        (
            node.shard.digest(),
            contents_of(node.store, int(node.shard.tables.registers.n_slots[0])),
        )
        for node in corpus.nodes
    ]


def test_a_corpus_on_kafka_has_everything_when_opened_again(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.add(URLS).n_added == 50
        orders = corpus.lease(20)
        found = [Outcome(handle=order.handle, digest=b"a") for order in orders[:15]]
        assert corpus.report(found).counted.all()
        corpus.snapshot()
        corpus.signal(URLS[:5], source="feed")
        clock.pass_seconds(10)
    with recrawl.open(tmp_path, config, clock=clock) as corpus:
        assert corpus.stats().n_pages == 50
        assert corpus.stats().in_flight == 5
        assert len(corpus.changes()) == 15
        rest = [Outcome(handle=order.handle, digest=b"a") for order in orders[15:]]
        assert corpus.report(rest).counted.all()


def test_after_another_machine_takes_over_the_first_leases_nothing_more(
    tmp_path: Path, config: CorpusConfig, clock: ManualClock
) -> None:
    with recrawl.open(tmp_path / "a", config, clock=clock) as first:
        first.add(URLS)
        orders = first.lease(10)
        with recrawl.open(tmp_path / "b", config, clock=clock) as second:
            assert second.stats().n_pages == 50
            assert second.stats().in_flight == 10
            clock.pass_seconds(5)
            with pytest.raises(OwnershipLost):
                first.lease(10)
            with pytest.raises(OwnershipLost):
                first.add(["https://other.example/"])
            # An outcome that its fetchers reported still counts.
            reported = [Outcome(handle=order.handle, digest=b"a") for order in orders[:4]]
            assert first.report(reported).counted.all()
            clock.pass_seconds(5)
            handles = {order.handle for order in second.lease(100)}
            assert handles.isdisjoint(order.handle for order in orders)
            assert second.stats().n_outcomes == 4
            rest = [Outcome(handle=order.handle, digest=b"a") for order in orders[4:]]
            assert second.report(rest).counted.all()
            first.refresh()
            second.refresh()
            assert state_of(first) == state_of(second)
