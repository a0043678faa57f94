"""A worker whose clock differs from most others knows it before it owns partitions."""

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import pytest

from recrawl.cluster.members.clocks import ClockComparison
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.presence import Presence
from recrawl.cluster.worker import Worker
from recrawl.messages.partitions import OwnedPartition
from tests.unit.cluster.test_presence import Wires

T = TypeVar("T")
HOUR = 3_600.0


class Workers:
    """Workers in one process, whose clocks may differ."""

    def __init__(self) -> None:
        self.wires, self.now = Wires(), 50.0
        self.ahead: dict[str, float] = {}
        self.owned: dict[str, dict[int, OwnedPartition]] = {}
        self.running: dict[str, Presence] = {}

    def join(self, name: str, *, ahead: float = 0.0, owns: int = 0) -> None:
        self.ahead[name] = ahead
        self.owned[name] = {i: OwnedPartition(1) for i in range(owns)}

        def describe() -> Heartbeat:
            return Heartbeat(worker=name, instance=name, started_at_ms=1, owned=self.owned[name])

        self.running[name] = Presence(
            self.wires.connect(),
            describe,
            monotonic=lambda: self.now,
            wall_ms=self._clock_of(name),
        )

    def _clock_of(self, name: str) -> Callable[[], int]:
        return lambda: round(1e12 + 1000 * (self.now + self.ahead[name]))

    def run(self, seconds: float, *names: str) -> dict[str, float]:
        """Let workers take part; return how far their clocks are ahead, as they know it."""
        for _ in range(round(10 * seconds)):
            self.now += 0.1
            for name in names or self.running:
                self.running[name].step()
        found = {name: one.clock_ahead_seconds for name, one in self.running.items()}
        return {name: round(seconds) for name, seconds in found.items()}


@pytest.fixture
def workers() -> Workers:
    """Return two workers with partitions, whose clocks agree nearly."""
    found = Workers()
    found.join("a", owns=3)
    found.join("b", ahead=40.0, owns=2)
    assert found.run(20) == {"a": 0, "b": 0}
    return found


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_worker_with_a_wrong_clock_knows_it_before_it_trusts_what_it_reads(
    workers: Workers, ahead: float
) -> None:
    workers.join("c", ahead=ahead)
    while workers.running["c"].members.is_frozen:
        found = workers.run(0.1)
    assert (found["a"], found["b"]) == (0, 0)
    assert abs(found["c"] - ahead) <= 41
    assert workers.run(20) == found
    workers.ahead["c"] = 1.0
    assert workers.run(5) == {"a": 0, "b": 0, "c": 0}


def test_of_two_the_one_with_partitions_is_right() -> None:
    workers = Workers()
    workers.join("a", owns=4)
    workers.run(10)
    workers.join("b", ahead=HOUR)
    assert workers.run(10) == {"a": 0, "b": HOUR}
    # When both have some, nobody knows.
    workers.owned["b"] = {7: OwnedPartition(1)}
    assert workers.run(5) == {"a": 0, "b": 0}


def test_a_worker_whose_others_are_gone_has_no_wrong_clock(workers: Workers) -> None:
    workers.join("c", ahead=HOUR)
    assert workers.run(20)["c"] == HOUR
    workers.run(10, "c")
    assert workers.run(0.1, "c")["c"] == 0
    # They come back, and are more.
    assert workers.run(20)["c"] > 0


def test_a_clock_near_the_limit_does_not_go_to_and_fro(workers: Workers) -> None:
    workers.join("c", ahead=105.0)  # 65 s ahead of b
    assert workers.run(20)["c"] > 0
    for seconds in (95.0, 105.0) * 3:
        workers.ahead["c"] = seconds
        assert workers.run(5)["c"] > 0
    workers.ahead["c"] = 65.0
    assert workers.run(5)["c"] == 0


def test_who_was_alone_for_a_while_has_no_wrong_clock(workers: Workers) -> None:
    workers.now += 500.0  # all of them stood still
    assert workers.run(0.1) == {"a": 0, "b": 0}
    workers.run(300, "a")
    assert workers.run(10) == {"a": 0, "b": 0}
    workers.run(300, "b")
    workers.join("c")
    for _ in range(100):
        assert workers.run(0.1) == {"a": 0, "b": 0, "c": 0}


def test_heartbeats_of_before_are_not_compared() -> None:
    workers = Workers()
    for name in ("a", "b"):
        workers.join(name, owns=2)
    workers.run(10)
    workers.now += HOUR  # they end, and the topic has their last heartbeats
    workers.join("c")
    for _ in range(100):
        assert workers.run(0.1, "c")["c"] == 0


def test_a_single_late_heartbeat_changes_nothing() -> None:
    clocks = ClockComparison()

    def hear(sent_at: float, *others: float) -> float:
        for i, at in enumerate(others):
            clocks.hear(beat(f"other-{i}", at), is_own=False)
        clocks.hear(beat("own", sent_at), is_own=True)
        return clocks.ahead_seconds

    for second in range(10):
        assert hear(1_000 + second, 1_000 + second, 1_000 + second) == 0
    # It stood still after it had looked at its clock.
    assert hear(1_010, 1_500, 1_500) == 0
    assert hear(1_501, 1_501, 1_501) == 0
    # Two in a row are no accident.
    assert hear(2_502, 1_502, 1_502) == 0
    assert hear(2_503, 1_503, 1_503) == 1_000


def test_older_versions_do_not_say_when_they_sent_a_heartbeat() -> None:
    fields = json.loads(beat("a", 1_000).to_bytes())
    del fields["sent_at_ms"], fields["clock_ahead_seconds"]
    old = Heartbeat.from_bytes(json.dumps(fields).encode())
    assert old is not None
    clocks = ClockComparison()
    for second in range(10):
        clocks.hear(old, is_own=False)
        clocks.hear(beat("own", 5_000 + second), is_own=True)
    assert clocks.ahead_seconds == 0


class OwnedByFew:
    """A corpus of 4 partitions, of which a worker opens some."""

    def __init__(self) -> None:
        self.owned: dict[int, OwnedPartition] = {}
        self.standby: dict[int, float] = {}
        self.n_followed = 0

    def open_partition(self, partition: int) -> None:
        del self.standby[partition]
        self.owned[partition] = OwnedPartition(1)

    def stand_by(self, partition: int) -> None:
        self.owned.pop(partition, None)
        self.standby[partition] = 0.0

    def follow_standby(self, partition: int) -> float:
        return self.standby[partition]

    def close_standby(self, partition: int) -> None:
        del self.standby[partition]

    def close_partition(self, partition: int, *, snapshot: bool = True) -> None:
        del self.owned[partition]

    def open_partitions(self) -> list[int]:
        return [*self.owned]

    def owned_partitions(self) -> dict[int, OwnedPartition]:
        return dict(self.owned)

    def standby_lags(self) -> dict[int, float]:
        return dict(self.standby)

    def set_records_version(self, version: int) -> None:
        pass

    def follow_clock(self) -> None:
        assert not self.owned
        self.n_followed += 1

    def tick(self, partition: int) -> None:
        pass


class AtOnce(Executor):
    """Makes moves in the thread that asks for them."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_a_worker_with_a_wrong_clock_owns_nothing_until_it_is_set(workers: Workers) -> None:
    corpus, ahead = OwnedByFew(), HOUR
    later = AtOnce()
    worker = Worker(
        corpus,
        workers.wires.connect(),
        4,
        Heartbeat(worker="c", instance="c", started_at_ms=1),
        monotonic=lambda: workers.now,
        wall_ms=lambda: round(1e12 + 1000 * (workers.now + ahead)),
        restores=later,
        claims=later,
        ticks=later,
    )

    def run(seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            workers.run(0.1)
            worker.presence.step()
            worker.step()
            assert not corpus.owned or ahead == 0

    run(30)
    (own,) = [one for one in workers.running["a"].members.present if one.worker == "c"]
    assert not own.can_own
    assert abs(own.clock_ahead_seconds - HOUR) <= 41
    assert corpus.n_followed == 0
    ahead = 0.0
    run(30)
    assert corpus.owned
    assert corpus.n_followed == 1
    # Its clock jumps, and then nobody is left: it does not follow a clock that may be wrong.
    ahead = HOUR
    for step in range(600):
        if step <= 300:
            workers.run(0.1)
        else:
            workers.now += 0.1
        worker.presence.step()
        worker.step()
        if step == 300:
            assert worker.presence.clock_ahead_seconds > 0
    assert worker.presence.clock_ahead_seconds == 0
    assert corpus.n_followed == 1


def test_workers_whose_clocks_all_differ_keep_their_partitions_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    workers = Workers()
    corpora, running, at_once = [OwnedByFew() for _ in range(3)], [], AtOnce()
    ahead = [0.0, 0.0, 0.0]

    def wall_clock(i: int) -> Callable[[], int]:
        return lambda: round(1e12 + 1000 * (workers.now + ahead[i]))

    for i, corpus in enumerate(corpora):
        worker = Worker(
            corpus,
            workers.wires.connect(),
            4,
            Heartbeat(worker="abc"[i], instance="abc"[i], started_at_ms=1),
            monotonic=lambda: workers.now,
            wall_ms=wall_clock(i),
            restores=at_once,
            claims=at_once,
            ticks=at_once,
        )
        running.append(worker)

    def run(seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            workers.now += 0.1
            for worker in running:
                worker.presence.step()
                worker.step()

    def owned() -> list[int]:
        return sorted(partition for corpus in corpora for partition in corpus.owned)

    run(60)
    assert owned() == [0, 1, 2, 3]
    ahead[1:] = HOUR, -HOUR
    run(60)
    assert all(worker.presence.clock_ahead_seconds for worker in running)
    assert owned() == [0, 1, 2, 3]
    assert "gives its partitions to workers whose clocks agree, if there are any" in caplog.text
    assert "owns no partitions" not in caplog.text


def beat(worker: str, sent_at: float) -> Heartbeat:
    return Heartbeat(
        worker=worker, instance=worker, started_at_ms=1, sent_at_ms=round(1000 * sent_at)
    )
