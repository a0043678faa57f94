"""The benchmark of a cluster measures apart how long the brokers themselves need."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import cluster_watch
from benchmarks.cluster_watch import LeaderWatch, Timeline

WAIT_SECONDS = 60.0


class FakeBrokers:
    """What brokers say of two partitions; `say` waits until it was read."""

    def __init__(self) -> None:
        self.leaders = {0: (1, [1, 2, 3]), 1: (2, [1, 2, 3])}
        self._was_read = threading.Event()
        self._n_reads = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = {
            i: SimpleNamespace(leader=leader, isrs=isrs)
            for i, (leader, isrs) in self.leaders.items()
        }
        self._n_reads += 1
        if self._n_reads >= 3:
            self._was_read.set()
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def say(self, partition: int, leader: int, in_sync: list[int]) -> None:
        self.leaders[partition] = leader, in_sync
        self.wait_until_read()

    def wait_until_read(self) -> None:
        # The first read may have begun before; when the third begins, the second was heard.
        self._n_reads = 0
        self._was_read.clear()
        assert self._was_read.wait(WAIT_SECONDS)


def test_brokers_go_on_when_no_partition_needs_the_lost_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = FakeBrokers()
    monkeypatch.setattr(cluster_watch, "AdminClient", lambda _: brokers)
    timeline = Timeline()
    watch = LeaderWatch("nowhere:9092", "news", 2, timeline)
    try:
        brokers.wait_until_read()
        watch.begin(2)
        brokers.say(0, 1, [1, 3])
        found = [watch.seconds]
        brokers.say(1, -1, [2])
        brokers.say(1, 3, [1, 2, 3])  # it would wait for the lost one
        found.append(watch.seconds)
        brokers.say(1, 3, [1, 3])
        found.append(watch.seconds)
        brokers.say(1, 3, [1, 2, 3])  # it is back
        found.append(watch.seconds)
    finally:
        watch.close()
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[3] == found[2]
    assert any("partition 1: broker 3 leads it; 1, 3" in one for one in timeline.lines(0.0, [1]))
