"""Two nodes that write to one log, as on Kafka, tested without a broker."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from recrawl.corpus.budget_split import BudgetSplit
from recrawl.errors import OwnershipLost, PositionLost
from recrawl.ledger import AppendedSpan, Record, SnapshotFolder
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition, recover_node
from recrawl.node.durability.snapshotter import take_snapshot
from recrawl.node.node import Node
from recrawl.node.numbering import Namer
from recrawl.node.open_nodes import OpenNodes
from recrawl.store import Names
from tests.manual_clock import ManualClock


class ListLedger:
    """A log in memory that two nodes may write to."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.first = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[Record]) -> AppendedSpan:
        first = self.end
        self.records += records
        return AppendedSpan(first, self.end, True)

    def read(self, position: int, *, n_bytes_max: int = 1 << 24) -> list[tuple[int, Record]]:
        if not self.first <= position <= self.end:
            raise PositionLost(position)
        return [(i, self.records[i]) for i in range(position, self.end)]

    def truncate(self, position: int) -> None:
        self.first = max(self.first, position)

    def sync(self) -> None:
        pass


def node_of(ledger: ListLedger, folder: Path) -> Node:
    return recover_node(
        Partition(0, ledger, folder / "store", SnapshotFolder(folder / "snapshots"), is_shared=True)
    )


def two_nodes(tmp_path: Path, clock: ManualClock) -> tuple[ListLedger, Node, Node]:
    ledger = ListLedger()
    time = NodeTime(clock, 0)
    a = node_of(ledger, tmp_path / "a")
    a.claim(1, time)
    b = node_of(ledger, tmp_path / "b")
    b.claim(2, time)
    return ledger, a, b


def test_a_former_owner_cannot_name_numbers_of_the_new_owner(
    tmp_path: Path, clock: ManualClock
) -> None:
    _, a, b = two_nodes(tmp_path, clock)
    config = CorpusConfig()
    names_b = Namer(b, config)
    assert names_b.numbers(Names.GROUP, ["fast.example"])[0] == 0
    # a has not looked at the log since; its number comes out void, and must not be used.
    with pytest.raises(OwnershipLost):
        Namer(a, config).numbers(Names.GROUP, ["slow.example"])
    b.follow()
    assert b.store.numbers_of(Names.GROUP, ["slow.example"])[0] == -1


def test_a_former_owner_cannot_truncate_the_log_of_the_new_owner(
    tmp_path: Path, clock: ManualClock
) -> None:
    ledger, a, _ = two_nodes(tmp_path, clock)
    a.refresh()
    assert not a.is_owner
    take_snapshot(a, SnapshotFolder(tmp_path / "a" / "snapshots", keep=1))
    assert ledger.first == 0, "the new owner has no snapshot yet, and could not come back"


def test_a_former_owner_cannot_divide_the_budget_of_the_new_owner(
    tmp_path: Path, clock: ManualClock
) -> None:
    config = CorpusConfig.from_dict({"budget": {"rate": "3600/h", "burst": 60}})
    ledger = ListLedger()
    a = node_of(ledger, tmp_path / "a")
    a.claim(1, NodeTime(clock, 0))
    split = BudgetSplit(OpenNodes([a], n_partitions=2), config, clock)
    split.set_budget(config)
    b = node_of(ledger, tmp_path / "b")
    b.claim(2, NodeTime(clock, 0))
    registers = b.shard.tables.registers
    before = {name: column.tolist() for name, column in registers._asdict().items()}
    # a has not looked at the log since, and divides the budget because a partition was opened.
    split.follow_partitions(a)
    b.follow()
    after = {name: column.tolist() for name, column in registers._asdict().items()}
    assert after == before | {"n_void": [1]}
