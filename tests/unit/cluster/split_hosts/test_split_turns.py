"""Workers exchange messages about split hosts through the control topic."""

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import recrawl
from recrawl.cluster.budget.worker_quotas import WorkerQuotas
from recrawl.cluster.presence import heartbeat_of
from recrawl.cluster.rules import OperatorRules
from recrawl.cluster.split_hosts.messages import (
    grants_message,
    needs_message,
    read_grants,
    read_needs,
)
from recrawl.cluster.split_hosts.worker_hosts import WorkerHosts
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.corpus.leasing.quotas import PartitionQuotas
from recrawl.node.clock import NodeTime
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.node.routing import partition_of_key
from recrawl.node.split_hosts.exchange import SplitHosts, SplitMessages
from recrawl.node.split_hosts.windows import HostGrants, HostRules, PartNeeds, Window
from recrawl.shard import GroupsBlocked, LeasesReleased, event_of
from tests.manual_clock import ManualClock

HOST = "huge.example"
PARTITIONS = 4
DELAY_MS = 4_000
HOME = partition_of_key(HOST, PARTITIONS)
NEEDS = PartNeeds(HOST, 2, 7, 123, 1_700_000_000_000)
GRANTS = HostGrants(
    HOST,
    HOME,
    3,
    99,
    HostRules(2_000, 1, 1),
    0,
    (Window(1, 1_000, 61_000), Window(2, 63_000, 64_000)),
)
CONFIG = CorpusConfig.from_dict(
    {
        "corpus": {"partitions": PARTITIONS, "group_pages_max": 20},
        "ledger": {"durability": "os"},
        "politeness": {"delay": DELAY_MS / 1000, "in_flight_max": 1},
        "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
    }
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def add_pages(corpus: Corpus) -> None:
    pages = [f"https://{HOST}/{i}" for i in range(150)]
    corpus.add(pages[:21])
    corpus.add(pages[21:])


# ---------------------------------------------------------------------- bytes


def test_messages_are_read_as_they_were_written() -> None:
    key, message = needs_message(NEEDS)
    assert read_needs(key, message) == NEEDS
    key, message = grants_message(GRANTS)
    assert read_grants(key, message) == GRANTS
    closed = GRANTS._replace(void_until_ms=1 << 62, windows=())
    assert read_grants(*grants_message(closed)) == closed


def test_keys_are_short_and_differ_by_host_and_part() -> None:
    long = NEEDS._replace(host="h" * 3_000)
    other = NEEDS._replace(part=3)
    keys = {needs_message(one)[0] for one in (NEEDS, long, other)}
    keys |= {grants_message(GRANTS._replace(host=host))[0] for host in (HOST, "h" * 3_000)}
    assert len(keys) == 5
    assert max(map(len, keys)) < 100
    assert read_needs(*needs_message(long)) == long


@pytest.mark.parametrize(
    "changed",
    [
        {"host": ""},
        {"host": "h" * 3_001},
        {"part": -1},
        {"part": 1 << 20},
        {"epoch": -1},
        {"n_due": 1 << 70},
        {"n_due": 1.5},
        {"n_due": True},
        {"blocked_until_ms": None},
    ],
)
def test_broken_needs_are_ignored(changed: dict[str, Any]) -> None:
    broken = NEEDS._replace(**changed)
    assert read_needs(*needs_message(broken)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"rules": (1, 2)},
        {"rules": (-1, 1, 1)},
        {"rules": (1 << 40, 1, 1)},
        {"windows": [(1, 2_000, 2_000)]},
        {"windows": [(1, 2_000)]},
        {"windows": [(1, 2_000, 3_000)] * 100},
        {"windows": "abc"},
        {"void_until_ms": (1 << 62) + 1},
        {"number": "1"},
    ],
)
def test_broken_grants_are_ignored(changed: dict[str, Any]) -> None:
    broken = GRANTS._replace(**changed)
    assert read_grants(*grants_message(broken)) is None


def test_messages_under_a_wrong_key_and_no_messages_are_ignored() -> None:
    key, message = needs_message(NEEDS)
    assert read_needs(key + "1", message) is None
    for broken in (b"", b"\xff", b"[]", b"{}", b"[" * 9_999, b'{"format":2}', b" " * 40_000):
        assert read_needs(key, broken) is None
        assert read_grants(grants_message(GRANTS)[0], broken) is None


def test_workers_that_do_not_know_these_keys_ignore_them(tmp_path: Path) -> None:
    with recrawl.open(tmp_path / "corpus", CONFIG) as corpus:
        quotas: PartitionQuotas = corpus.quotas
        others = WorkerQuotas(quotas, PARTITIONS, lambda *_: None)
        for key, message in (needs_message(NEEDS), grants_message(GRANTS)):
            assert heartbeat_of(key, message) is None
            assert not OperatorRules().hear(key, message)
            assert not others.hear(key, message)


# ---------------------------------------------------------------------- what is sent


def test_what_is_not_new_is_repeated_once_a_second(tmp_path: Path, clock: ManualClock) -> None:
    with recrawl.open(tmp_path / "corpus", CONFIG, clock=clock) as corpus:
        add_pages(corpus)
        sent: list[SplitMessages] = []
        corpus.split_hosts.share(sent.append)
        for _ in range(8):
            corpus.split_hosts.step(corpus.now_ms())  # of leases: nothing to do
            corpus.split_hosts.exchange(corpus.now_ms())
            clock.pass_seconds(0.25)
        assert [len(one.needs) for one in sent] == [PARTITIONS, PARTITIONS]
        assert len(sent[0].grants) == 1

        # A rest is new at once.
        sent.clear()
        node = corpus.nodes[(HOME + 1) % PARTITIONS]
        until_ms = corpus.now_ms() + 90_000
        group = node.split_hosts()[HOST]
        blocked = event_of(GroupsBlocked, epoch=node.shard.epoch, group=group, until_ms=until_ms)
        clock.pass_seconds(0.25)
        corpus.split_hosts.exchange(corpus.now_ms())
        sent.clear()
        clock.pass_seconds(0.25)
        node.submit([blocked])
        corpus.split_hosts.exchange(corpus.now_ms())
        assert [(one.part, one.blocked_until_ms) for one in sent[0].needs] == [
            (node.partition, until_ms)
        ]
        assert [one.void_until_ms for one in sent[0].grants] == [until_ms]


# ---------------------------------------------------------------------- delays


class Fetch(NamedTuple):
    """A fetch that has begun, by the true time."""

    node: Node
    order: int
    begun_ms: int
    ends_ms: int


class Owner:
    """A worker with some of the partitions, and a clock of its own."""

    def __init__(self, cluster: "Cluster", skew_ms: int) -> None:
        self.clock = ManualClock(cluster.clock.wall + skew_ms)
        self.time = NodeTime(self.clock, 0)
        self.nodes = OpenNodes((), PARTITIONS)
        self.hosts = WorkerHosts(SplitHosts(self.nodes), self.time.now_ms, cluster.send)

    def claim(self, node: Node, number: int) -> None:
        if node.shard.now_ms > self.time.now_ms():
            self.time.restart(node.shard.now_ms)
        node.claim(number, self.time)
        self.nodes.put(node)


class Cluster:
    """Workers whose messages are lost, late or doubled, and that take partitions from others."""

    def __init__(self, corpus: Corpus, clock: ManualClock, seed: int) -> None:
        self.clock = clock
        self.random = np.random.default_rng(seed)
        self.flying: list[tuple[int, Owner, str, bytes]] = []
        self.owners: list[Owner] = []
        self.owners = [Owner(self, skew_ms) for skew_ms in (-500, 0, 500)]
        self.fetches: list[Fetch] = []
        self.n_moved = 0
        for node in corpus.nodes:
            self.move(node)

    def send(self, key: str, message: bytes) -> None:
        for owner in self.owners:
            for _ in range(self.random.choice(3, p=[0.3, 0.5, 0.2])):  # lost, once, twice
                late_ms = round(self.random.exponential(5_000))
                self.flying.append((self.clock.wall + late_ms, owner, key, message))

    def move(self, node: Node) -> None:
        """Let any worker claim a partition, without any memory of before."""
        for owner in self.owners:
            if node.partition in owner.nodes:
                owner.nodes.remove(node.partition)
        after = self.owners[self.random.integers(len(self.owners))]
        after.claim(node, int(self.random.integers(1, 1 << 60)))
        self.n_moved += 1

    def step(self) -> None:
        now_ms = self.clock.wall
        for at_ms, owner, key, message in self.flying:
            if at_ms <= now_ms:
                assert owner.hosts.hear(key, message)
        self.flying = [one for one in self.flying if one[0] > now_ms]
        for owner in self.owners:
            if self.random.random() < 0.9:  # it may be slow
                owner.hosts.step()
            for node in owner.nodes:
                self.fetch(owner, node)

    def fetch(self, owner: Owner, node: Node) -> None:
        ordered = node.order(3, owner.time)
        for order, expires in zip(ordered.order, ordered.expires_at_ms, strict=True):
            took_ms = min(round(self.random.exponential(3_000)), int(expires) - owner.time.now_ms())
            begun_ms = self.clock.wall
            self.fetches.append(Fetch(node, int(order), begun_ms, begun_ms + took_ms))

    def pass_second(self) -> None:
        for clock in (self.clock, *(owner.clock for owner in self.owners)):
            clock.pass_seconds(1)
        for node, order, _, ends_ms in self.fetches:
            if self.clock.wall - 1_000 < ends_ms <= self.clock.wall:
                node.submit([event_of(LeasesReleased, order=order)])


@pytest.mark.parametrize("network_seed", [1, 2])
def test_fetches_of_all_workers_keep_the_delay(
    tmp_path: Path, clock: ManualClock, network_seed: int
) -> None:
    with recrawl.open(tmp_path / "corpus", CONFIG, clock=clock) as corpus:
        add_pages(corpus)
        assert min(node.shard.n_pages for node in corpus.nodes) > 10
        cluster = Cluster(corpus, clock, network_seed)
        for _ in range(1_000):
            cluster.step()
            cluster.pass_second()
            for node in corpus.nodes:
                if cluster.random.random() < 0.003:
                    cluster.move(node)
    fetches = sorted(cluster.fetches, key=lambda fetch: fetch.begun_ms)
    assert cluster.n_moved > PARTITIONS + 5
    assert len({fetch.node.partition for fetch in fetches}) == PARTITIONS
    assert len(fetches) > 30
    for before, after in pairwise(fetches):
        # Within one partition a report counts from the last tick, which is up to a second old, and
        # the clock of the next owner may be ahead.
        late_ms = 2_000 if before.node is after.node else 0
        assert after.begun_ms - before.ends_ms >= DELAY_MS - late_ms
