"""Two nodes that both think a partition is theirs: the log decides, and nobody acts on the void.

What is checked is read from the log alone, by a shard that has nothing to do with either node.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recrawl.errors import OwnershipLost
from recrawl.ledger import SnapshotFolder
from recrawl.ledger.kafka import KafkaLog
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition, recover_node, settings_event
from recrawl.node.few_reported import FewPagesReported
from recrawl.node.node import Node
from recrawl.node.numbering import Namer, PagesToAdd
from recrawl.node.orders import Outcome
from recrawl.node.records import (
    ConsumersPlaced,
    CorpusIdentified,
    CurvePriorSet,
    HandlesMoved,
    LayoutReplaced,
    NamesNumbered,
    PagesAddedWithUrls,
    PagesReported,
    StateSampled,
    UserDataSet,
    entry_of,
)
from recrawl.node.reporting.many import answers_of, report_answers
from recrawl.node.routing import split_by_partition
from recrawl.shard import Ordered, Shard
from recrawl.shard.state.status import LeaseStage
from recrawl.testing.stores import contents_of
from tests.manual_clock import ManualClock

N_INTERLEAVINGS = 100
CONFIG = CorpusConfig.from_dict(
    {"politeness": {"delay": 0, "in_flight_max": 100, "burst": 100}, "leases": {"length": 60}}
)

_NOT_OF_THE_SHARD = (
    NamesNumbered
    | CorpusIdentified
    | UserDataSet
    | CurvePriorSet
    | ConsumersPlaced
    | StateSampled
    | HandlesMoved
    | LayoutReplaced
)


class Rival:
    """One of two nodes with a connection, a store and a clock of its own."""

    def __init__(
        self, number: int, bootstrap: str, topic: str, partition: int, folder: Path
    ) -> None:
        self.log = KafkaLog.open(bootstrap, topic)
        self.clock = ManualClock()
        place = Partition(
            partition, self.log.partition(partition), folder / "store", SnapshotFolder(folder / "s")
        )
        self.number = number
        self.node: Node = recover_node(place)
        self.time = NodeTime(self.clock, self.node.shard.now_ms)
        self.namer = Namer(self.node, CONFIG)
        self.handed_out: list[tuple[int, int]] = []
        self.n_lost = 0

    def close(self) -> None:
        self.node.store.close()
        self.log.close()

    def claim(self) -> None:
        self.node.claim(self.number, self.time)

    def add(self, first: int) -> None:
        (batch,) = split_by_partition(
            [f"https://h{i}.example/{i}" for i in range(first, first + 6)], 1, "host"
        )
        no_numbers = np.full(6, np.nan, np.float32)
        fetch_url = pa.nulls(6, pa.string())
        self.namer.add(PagesToAdd(batch.name, fetch_url, no_numbers, no_numbers), self.time)

    def order(self, n: int) -> None:
        ordered = self.node.order(n, self.time)
        self.handed_out += zip(ordered.order.tolist(), ordered.page.tolist(), strict=True)

    def report(self, rng: random.Random) -> None:
        held = self.node.shard.tables.leases
        rows = np.flatnonzero(held.stage == LeaseStage.IN_FLIGHT)[:3]
        if rows.size:
            page = held.page[rows]
            answers = answers_of([Outcome(handle=1, digest=rng.randbytes(4)) for _ in rows])
            report_answers(self.node, page, np.zeros(rows.size, np.int64), answers, self.time)


@pytest.fixture(scope="module")
def topic(kafka_bootstrap: str) -> Iterator[str]:
    name = f"zombies-{random.randrange(1 << 60)}"
    with KafkaLog.open(
        kafka_bootstrap, name, n_partitions=N_INTERLEAVINGS, create=True, replication=1
    ):
        yield name


def valid_orders(log: KafkaLog, partition: int) -> tuple[set[tuple[int, int]], int, Shard]:
    """Return the valid orders of a log, the number of void ones, and the final state."""
    ledger = log.partition(partition)
    shard = Shard(CONFIG.shard_settings())
    valid: set[tuple[int, int]] = set()
    n_void, position = 0, 0
    while found := ledger.read(position):
        for place, record in found:
            position = place + 1
            event = entry_of(record)
            if isinstance(event, PagesAddedWithUrls):
                if (event.epoch == shard.epoch).all():
                    shard.apply(event.added)
            elif isinstance(event, Ordered):
                applied = shard.apply(event)
                pairs = list(zip(event.order.tolist(), event.page.tolist(), strict=True))
                valid |= {pair for pair, ok in zip(pairs, applied.valid, strict=True) if ok}
                n_void += int(np.count_nonzero(~applied.valid))
            elif isinstance(event, PagesReported | FewPagesReported):
                shard.apply(event.outcomes)
            elif not isinstance(event, _NOT_OF_THE_SHARD):
                shard.apply(event)
    return valid, n_void, shard


@pytest.mark.slow_without_jit
def test_a_zombies_orders_are_void_and_never_handed_out(
    kafka_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Over a hundred random interleavings of two nodes' claims, orders, reports and adds."""
    n_void = n_lost = n_handed_out = n_claims = 0
    with KafkaLog.open(kafka_bootstrap, topic) as log:
        for i in range(N_INTERLEAVINGS):
            rng = random.Random(i)
            rivals = [
                Rival(k + 1, kafka_bootstrap, topic, i, tmp_path / f"{i}-{k}") for k in range(2)
            ]
            rivals[0].node.submit([settings_event(CONFIG.shard_settings())])
            rivals[0].claim()
            rivals[0].add(0)
            for _ in range(30):
                rival = rng.choice(rivals)
                rival.clock.pass_seconds(rng.choice([0, 0, 0, 0, 30, 90]))
                try:
                    match rng.randrange(6):
                        case 0:
                            rival.claim()
                        case 1 | 2 | 3:
                            rival.order(rng.randrange(1, 4))
                        case 4:
                            rival.report(rng)
                        case 5:
                            rival.add(6 * rng.randrange(4))
                except OwnershipLost:
                    rival.n_lost += 1
            valid, void, shard = valid_orders(log, i)
            handed_out = [pair for rival in rivals for pair in rival.handed_out]
            assert len(set(handed_out)) == len(handed_out), "one order was handed out twice"
            assert set(handed_out) == valid, (
                "handed out is what the log made valid, no more, no less"
            )
            for rival in rivals:
                rival.node.follow()
                assert rival.node.shard.digest() == shard.digest()
                n_slots = int(shard.tables.registers.n_slots[0])
                found = contents_of(rival.node.store, n_slots)
                assert found == contents_of(rivals[0].node.store, n_slots)
            for rival in rivals:
                rival.close()
            n_void += void
            n_handed_out += len(handed_out)
            n_lost += sum(rival.n_lost for rival in rivals)
            n_claims += int(shard.epoch)
    # The test would prove nothing if there had been no zombies.
    assert n_void > 50
    assert n_lost > 50
    assert n_claims > 200
    assert n_handed_out > 500
