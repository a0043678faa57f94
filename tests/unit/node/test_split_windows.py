"""Parts of a split host never fetch together: messages are lost and late, owners change."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import recrawl
from recrawl.corpus import Corpus, CorpusConfig
from recrawl.node.clock import NodeTime
from recrawl.node.node import Node
from recrawl.node.routing import partition_of_key
from recrawl.node.split_hosts.homes import HomeHosts
from recrawl.node.split_hosts.parts import HostParts
from recrawl.node.split_hosts.windows import (
    HostGrants,
    HostRules,
    PartNeeds,
    TurnOrder,
    next_window,
    window_ms,
)
from recrawl.shard import LeasesReleased, Ordered, event_of
from recrawl.shard.due import LEASE_MS_MIN
from tests.manual_clock import ManualClock

HOST = "huge.example"
PARTITIONS = 3
DELAY_MS = 4_000
CONFIG = CorpusConfig.from_dict(
    {
        "corpus": {"partitions": PARTITIONS, "group_pages_max": 20},
        "ledger": {"durability": "os"},
        "politeness": {"delay": DELAY_MS / 1000, "in_flight_max": 1},
        "protection": {"new_pages_share": 1.0, "new_domain_share": 1.0},
    }
)


class Fetch(NamedTuple):
    """A fetch that has begun."""

    node: Node
    order: int
    begun_ms: int
    ends_ms: int


class Cluster:
    """Owners of parts that exchange messages over an unreliable network."""

    def __init__(self, corpus: Corpus, clock: ManualClock, seed: int) -> None:
        self.corpus, self.clock = corpus, clock
        self.random = np.random.default_rng(seed)
        self.flying: list[tuple[int, HostGrants | PartNeeds]] = []
        self.fetches: list[Fetch] = []
        self.n_taken_over = 0
        self.parts: dict[int, HostParts] = {}
        self.homes: dict[int, HomeHosts] = {}
        for node in corpus.nodes:
            self.begin(node)

    def begin(self, node: Node) -> None:
        """Begin to own a partition, without any memory of before."""
        self.parts[node.partition] = HostParts(node)
        self.homes[node.partition] = HomeHosts(node, PARTITIONS, ahead_ms=30_000)

    def send(self, message: HostGrants | PartNeeds) -> None:
        for _ in range(self.random.choice(3, p=[0.3, 0.5, 0.2])):  # lost, once, twice
            late_ms = round(self.random.exponential(8_000))
            self.flying.append((self.clock.wall + late_ms, message))

    def step(self, time: NodeTime) -> None:
        now_ms = self.clock.wall
        arrived = [one for at_ms, one in self.flying if at_ms <= now_ms]
        self.flying = [one for one in self.flying if one[0] > now_ms]
        for message in arrived:
            if isinstance(message, PartNeeds):
                self.homes[partition_of_key(HOST, PARTITIONS)].hear(message, now_ms)
            else:
                for part in self.parts.values():
                    part.hear(message)
        for node in self.corpus.nodes:
            if self.random.random() < 0.01:
                node.claim(int(self.random.integers(1, 1 << 60)), time)
                self.begin(node)
                self.n_taken_over += 1
            for needs in self.parts[node.partition].needs(now_ms):
                self.send(needs)
            for grants in self.homes[node.partition].step(now_ms):
                self.send(grants)
            self.parts[node.partition].step(now_ms)
            self.fetch(node, node.order(3, time))

    def fetch(self, node: Node, ordered: Ordered) -> None:
        for order, expires in zip(ordered.order, ordered.expires_at_ms, strict=True):
            took_ms = round(self.random.exponential(3_000))
            ends_ms = min(self.clock.wall + took_ms, int(expires))
            self.fetches.append(Fetch(node, int(order), self.clock.wall, ends_ms))

    def report(self) -> None:
        for node, order, _, ends_ms in self.fetches:
            if self.clock.wall - 1_000 < ends_ms <= self.clock.wall:
                released = event_of(LeasesReleased, order=order)
                node.finish(node.begin([released], at_ms=self.clock.wall))


@pytest.mark.parametrize("network_seed", [1, 2, 3])
def test_fetches_of_all_parts_keep_the_delay(
    tmp_path: Path, clock: ManualClock, network_seed: int
) -> None:
    with recrawl.open(tmp_path / "corpus", CONFIG, clock=clock) as corpus:
        pages = [f"https://{HOST}/{i}" for i in range(75)]
        corpus.add(pages[:21])
        corpus.add(pages[21:])
        assert min(node.shard.n_pages for node in corpus.nodes) > 10
        cluster = Cluster(corpus, clock, network_seed)
        for _ in range(1_000):
            cluster.report()
            cluster.step(corpus.time)
            clock.pass_seconds(1)
    fetches = sorted(cluster.fetches, key=lambda fetch: fetch.begun_ms)
    assert cluster.n_taken_over > 10
    assert len({fetch.node.partition for fetch in fetches}) == PARTITIONS
    assert len(fetches) > 30
    for before, after in pairwise(fetches):
        # Within one partition a report counts from the last time in the log.
        late_ms = 50 if before.node is after.node else 0
        assert after.begun_ms - before.ends_ms >= DELAY_MS - late_ms


def test_windows_follow_what_parts_need() -> None:
    turns = TurnOrder()
    chosen = [turns.next_part({0: 900, 1: 90, 2: 0}) for _ in range(1_000)]
    n = [chosen.count(part) for part in range(3)]
    assert n[0] > 8 * n[1] > 0
    assert n[2] >= 30  # every part gets some


def test_a_part_without_due_pages_gets_a_short_window() -> None:
    rules = HostRules(delay_ms=2_000, in_flight_max=1, burst=1)
    assert window_ms(rules, 0) == 2 * LEASE_MS_MIN
    assert window_ms(rules, 1_000) == 60_000
    slow = HostRules(delay_ms=300_000, in_flight_max=1, burst=1)
    assert window_ms(slow, 1_000) == 2 * LEASE_MS_MIN  # one fetch


def test_the_next_window_begins_after_delay_burst_and_rest() -> None:
    rules = HostRules(delay_ms=2_000, in_flight_max=4, burst=3)
    found = {"granted_until_ms": 50_000, "blocked_until_ms": 0, "ahead_ms": 30_000}
    assert next_window(rules, now_ms=30_000, **found) == 56_000
    assert next_window(rules, now_ms=90_000, **found) == 90_000
    assert next_window(rules, now_ms=20_000, **found) is None
    found["blocked_until_ms"] = 100_000
    assert next_window(rules, now_ms=80_000, **found) == 100_000


def test_a_withdrawn_window_is_not_used_again(tmp_path: Path, clock: ManualClock) -> None:
    with recrawl.open(tmp_path / "corpus", CONFIG, clock=clock) as corpus:
        corpus.add([f"https://{HOST}/{i}" for i in range(21)])
        corpus.add([f"https://{HOST}/{i}" for i in range(21, 100)])
        home = partition_of_key(HOST, PARTITIONS)
        clock.pass_seconds(100)
        now_ms = corpus.time.now_ms()
        homes = HomeHosts(corpus.nodes[home], PARTITIONS)
        part = next(node for node in corpus.nodes if node.partition != home)
        group = part.split_hosts()[HOST]
        parts = HostParts(part)
        for needs in parts.needs(now_ms):
            homes.hear(needs, now_ms)
        (granted,) = homes.step(now_ms)
        assert [window.part for window in granted.windows] == [part.partition]
        parts.hear(granted)
        parts.step(now_ms)
        groups = part.shard.tables.groups
        assert groups.window_at[group] == now_ms
        # Another part has found that the host must rest.
        other = granted._replace(number=granted.number + 1, void_until_ms=now_ms + 9_000)
        parts.hear(other)
        parts.step(now_ms + 500)
        parts.hear(granted)  # the first message again, late
        parts.step(now_ms + 1_000)
        assert groups.window_at[group] == groups.window_until[group]
        assert part.order(1, corpus.time).order.size == 0
