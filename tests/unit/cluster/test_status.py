"""What somebody sees of a cluster who only reads the control topic."""

from dataclasses import replace
from math import nan

from recrawl.cluster.budget.quotas import (
    BUDGET_KEY,
    QUOTAS_KEY,
    BudgetMessage,
    DemandMessage,
    QuotaMessage,
    RecordId,
)
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.rules import drain_message
from recrawl.cluster.status import ClusterStatus, observe_cluster
from recrawl.messages.budgets import Budget, Demand
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
    assert topic.observe().problems == ["No worker is running."]
    assert 10 <= topic.now < 11


def test_budget_price_and_quotas_are_what_the_workers_said_last() -> None:
    def record(number: int, price: float) -> tuple[str, bytes]:
        budget = Budget(per_second=10.0, period_seconds=1.0)
        message = QuotaMessage(
            id=RecordId(1, number), budget=budget, price=price, per_second=(4, 6), most=(4, 6)
        )
        return QUOTAS_KEY, message.to_bytes()

    def demand(per_second: float) -> tuple[str, bytes]:
        message = DemandMessage(
            partition=1,
            epoch=1,
            serial=1,
            per_second=per_second,
            heard=RecordId(1, 1),
            demand=Demand(5),
        )
        return message.key, message.to_bytes()

    beats = [heartbeat("a", 0, 1)]
    assert Topic([], beats).observe().budget_per_second is None
    kept = [record(1, nan), record(3, 0.5), record(2, 0.7), demand(7.0), demand(6.0)]
    status = Topic(kept, beats).observe()
    assert (status.budget_per_second, status.price) == (10.0, 0.5)
    assert [one.quota_per_second for one in status.partitions] == [None, 6.0]
    assert Topic([record(1, nan)], beats).observe().price is None


def test_a_budget_that_is_not_divided_is_a_problem() -> None:
    def set_budget(revision: int, per_second: float) -> tuple[str, bytes]:
        budget = Budget(per_second=per_second, period_seconds=1.0)
        return BUDGET_KEY, BudgetMessage(revision=revision, budget=budget).to_bytes()

    def is_pending(*kept: tuple[str, bytes]) -> bool:
        status = Topic([*kept], [heartbeat("a", 0, 1)]).observe()
        return any("is not in use yet" in problem for problem in status.problems)

    budget = Budget(per_second=10.0, period_seconds=1.0)
    record = QuotaMessage(id=RecordId(1, 1), budget=budget, price=1, per_second=(4, 6), most=(4, 6))
    divided = QUOTAS_KEY, record.to_bytes()
    assert not is_pending()
    assert not is_pending(divided)
    assert not is_pending(divided, set_budget(1, 10.0))
    assert is_pending(set_budget(1, 10.0))
    assert is_pending(set_budget(2, 20.0), divided, set_budget(1, 10.0))


def test_several_partitions_are_named_in_one_sentence() -> None:
    owners = [heartbeat("a", 1, 3), heartbeat("b")]
    assert Topic([], owners).observe(5).problems == [
        "No worker owns partitions 0, 2, 4.",
        "Partitions 1, 3 have no standby yet.",
    ]


def test_why_a_worker_cannot_own_partitions() -> None:
    key, _ = heartbeat("b")
    unable = Heartbeat(worker="b", instance="1", started_at_ms=1, can_own=False)
    for seconds, problem in (
        (0.0, "b cannot own partitions: its disk is full."),
        (7_200.0, "b cannot own partitions: its clock is 2 h ahead of most others."),
        (-7_200.0, "b cannot own partitions: its clock is 2 h behind most others."),
    ):
        beat = replace(unable, clock_ahead_seconds=seconds).to_bytes()
        topic = Topic([], [heartbeat("a", 0, 1), (key, beat)])
        assert topic.observe().problems == [problem]


def test_workers_whose_clocks_all_differ_are_not_said_to_own_nothing() -> None:
    one = Heartbeat(
        worker="a",
        instance="1",
        started_at_ms=1,
        can_own=False,
        clock_ahead_seconds=7_200.0,
        owned={0: OwnedPartition(1)},
        standby_seconds={1: 0.0},
    )
    other = replace(
        one,
        worker="b",
        clock_ahead_seconds=-7_200.0,
        owned={1: OwnedPartition(1)},
        standby_seconds={0: 0.0},
    )
    beats = [(f"worker/{each.worker}", each.to_bytes()) for each in (one, other)]
    status = Topic([], beats).observe()
    assert status.do_all_clocks_differ
    assert [each.owner for each in status.partitions] == ["a", "b"]
    assert status.problems == [
        "The clocks of all workers differ, so they keep their partitions, but most of what they "
        "forward to each other fails. Set the clocks."
    ]


def test_workers_whose_disks_are_all_full_are_not_said_to_own_nothing() -> None:
    full = Heartbeat(
        worker="a", instance="1", started_at_ms=1, can_own=False, owned={0: OwnedPartition(1)}
    )
    ahead = replace(full, worker="b", clock_ahead_seconds=7_200.0, owned={1: OwnedPartition(1)})
    new = replace(full, worker="c", owned={})
    beats = [(f"worker/{each.worker}", each.to_bytes()) for each in (full, ahead, new)]
    keeps = "keeps its partitions only because no worker can take them"
    assert Topic([], beats).observe().problems == [
        f"a {keeps}: its disk is full.",
        "c cannot own partitions: its disk is full.",
        f"b {keeps}: its clock is 2 h ahead of most others.",
    ]


def problems_with_keys(*key_ids: str, has_other_keys: str = "") -> list[str]:
    """Return the problems of workers a, b, …, each with a file of cluster keys."""
    beats = []
    for worker, keys in zip("abcd", key_ids, strict=False):
        differs = worker in has_other_keys
        one = Heartbeat(
            worker=worker,
            instance="1",
            started_at_ms=1,
            can_own=not differs,
            owned={ord(worker) - ord("a"): OwnedPartition(1)},
            key_ids=tuple(keys.split()),
            has_other_keys=differs,
        )
        beats.append((f"worker/{worker}", one.to_bytes()))
    found = Topic([], beats).observe().problems
    return [problem for problem in found if "cluster keys" in problem]


def test_workers_with_different_keys_are_named_also_if_none_of_them_gives_way() -> None:
    def said(groups: str) -> str:
        return (
            f"Workers have different files of cluster keys: {groups}. Copy the newest file to all "
            "of them: a worker refuses what is signed with a key that it does not have, and five "
            "minutes after a key was made it is used."
        )

    assert problems_with_keys("old", "old", "old") == []
    assert problems_with_keys("old", "old", "") == []  # an earlier version does not say
    # Half of them were forgotten when the keys were changed: they refuse the others soon.
    assert problems_with_keys("new mid", "mid old", "new mid", "mid old") == [said("a, c; b, d")]
    assert problems_with_keys("new", "new", "old", "old") == [said("a, b; c, d")]
    assert problems_with_keys("x", "y", "z", has_other_keys="abc") == [said("a; b; c")]
    assert problems_with_keys("old", "old", "x", has_other_keys="c") == [
        "c cannot own partitions: the others have none of its cluster keys. Give it their file of "
        "keys."
    ]
