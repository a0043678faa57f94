"""What somebody sees of a cluster who only reads the control topic."""

from recrawl.cluster.heartbeats import Heartbeat
from recrawl.cluster.rules import drain_message
from recrawl.cluster.status import ClusterStatus, observe_cluster
from recrawl.messages.partitions import OwnedPartition

BEAT = 1.0


def heartbeat(worker: str, *owned: int, epoch: int = 1) -> tuple[str, bytes]:
    one = Heartbeat(
        worker=worker,
        instance="1",
        started_at_ms=1,
        owned={i: OwnedPartition(epoch, 10, None) for i in owned},
    )
    return f"worker/{worker}", one.to_bytes()


class Topic:
    """A control topic and its clock: what is kept comes first, then heartbeats every second."""

    def __init__(
        self,
        kept: list[tuple[str, bytes]],
        beats: list[tuple[str, bytes]],
        *,
        connect_seconds: float = 0.7,
    ) -> None:
        self.now = 0.0
        self._kept = kept
        self._beats = beats
        self._next_at = connect_seconds

    def read(self) -> list[tuple[str, bytes]]:
        if self.now < self._next_at:
            return []
        self._next_at += BEAT
        found, self._kept = self._kept, []
        return [*found, *self._beats]

    def publish(self, key: str, value: bytes) -> None:
        raise AssertionError("who only reads must not write")

    def close(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def observe(self, n_partitions: int = 2) -> ClusterStatus:
        return observe_cluster(self, n_partitions, monotonic=lambda: self.now, sleep=self.sleep)


def test_a_worker_that_was_killed_is_not_shown_though_the_topic_has_its_heartbeats() -> None:
    kept = [heartbeat("a", 0), heartbeat("b", 1), drain_message("c", is_drained=True)]
    status = Topic(kept * 50, [heartbeat("a", 0)]).observe()
    assert [one.worker for one in status.workers] == ["a"]
    assert [one.owner for one in status.partitions] == ["a", None]
    assert "No worker owns partition 1." in status.problems
    assert set(status.rules.drained) == {"c"}


def test_connecting_may_take_longer_than_listening() -> None:
    status = Topic(
        [], [heartbeat("b", 0, 1), heartbeat("a", 1, epoch=2)], connect_seconds=8
    ).observe()
    assert [one.worker for one in status.workers] == ["a", "b"]
    assert [(one.owner, one.epoch) for one in status.partitions] == [("b", 1), ("a", 2)]


def test_a_topic_without_workers_is_read_for_ten_seconds() -> None:
    topic = Topic([], [])
    assert topic.observe().problems == ["No worker lives."]
    assert 10 <= topic.now < 11
