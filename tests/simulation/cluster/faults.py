"""What goes wrong in a simulated cluster, and what operators do meanwhile."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from recrawl.cluster.rules import drain_message, pin_message
from recrawl.errors import RecrawlError
from tests.simulation.cluster.partition_logs import CLAIM_SCHEMA, ArchivedLog
from tests.simulation.cluster.workers import SKEW_MS_MAX, TROUBLE_MS, Machines, SimulatedWorker

__all__ = ["NAMES", "Cluster"]

NAMES: Final = ("a", "b", "c", "d")
OWNERLESS_MS_MAX: Final = 8_000
"""Longest time without an owner, if there is a standby."""


class Cluster:
    """The workers of a run, and the faults that happen to them.

    Parameters
    ----------
    machines
        What all workers share.
    n_workers
        Number of workers to begin with.
    fault_ms
        Mean time between two faults, in milliseconds.
    """

    def __init__(self, machines: Machines, n_workers: int, fault_ms: float) -> None:
        self.machines = machines
        self.world = machines.world
        self.workers: dict[str, SimulatedWorker] = {}
        self._topic_troubled_ms = -TROUBLE_MS
        self._changed_ms = 0
        self._drained: set[str] = set()
        self._pinned: set[int] = set()
        self.n_faults: dict[str, int] = {}
        self.ownerless_ms: list[int] = []
        """Time from the loss of an owner to the claim of its standby, where one is expected."""
        for name in NAMES[:n_workers]:
            self.world.after(self.world.rng.randrange(3_000), partial(self.start, name))
        self._fault_ms = fault_ms
        self._plan_fault()

    # ------------------------------------------------------------------ workers

    def living(self) -> list[SimulatedWorker]:
        """Return the workers whose processes have not ended."""
        return [one for one in self.workers.values() if not one.is_dead]

    def able(self) -> list[SimulatedWorker]:
        """Return the workers that do something now."""
        return [one for one in self.workers.values() if one.is_able]

    def start(self, name: str, *, is_empty: bool = False) -> None:
        """Start a worker, unless it runs."""
        before = self.workers.get(name)
        if before is not None and not before.is_dead:
            return
        worker = SimulatedWorker(name, self.machines, is_empty=is_empty)
        worker.on_presence = self._check_presence
        self.workers[name] = worker

    def _check_presence(self, reader: SimulatedWorker) -> None:
        """Nobody counts a worker as gone that lives and whose messages are not lost."""
        members = reader.worker.presence.members
        if members.is_frozen:
            return
        names = {one.worker for one in (*members.present, *members.leaving)}
        for one in self.workers.values():
            self.world.check(
                not one.is_calm or one.name in names,
                f"{reader.name} counts {one.name} as gone, which lives",
            )

    # ------------------------------------------------------------------ faults

    def _plan_fault(self) -> None:
        ms = self.world.rng.expovariate(1 / self._fault_ms)
        self.world.after(ms, self._do_fault, kind="fault")

    def _do_fault(self) -> None:
        if not self.world.has_faults:
            return
        faults: list[tuple[int, Callable[[], None]]] = [
            (5, self._kill),
            (5, self._pause),
            (2, self._lose_topic),
            (2, self._lose_messages),
            (1, self._read_late),
            (3, self._fail_appends),
            (1, self._drain),
            (1, self._pin),
            (2, self._claim_twice),
            (2, self._join),
            (1, self._leave),
            (1, self._fill_disk),
            (1, self._change_clock),
        ]
        (fault,) = self.world.rng.choices(
            [act for _, act in faults], weights=[weight for weight, _ in faults]
        )
        name = fault.__name__.strip("_")
        self.n_faults[name] = self.n_faults.get(name, 0) + 1
        fault()
        self._plan_fault()

    def _seconds(self, least: float, most: float) -> float:
        return 1000 * self.world.rng.uniform(least, most)

    def _choose(self) -> SimulatedWorker | None:
        able = self.able()
        return self.world.rng.choice(able) if able else None

    def _kill(self) -> None:
        worker = self._choose()
        if worker is None:
            return
        self._expect_takeover(worker)
        worker.die()
        is_empty = self.world.happens(0.3)
        self.world.after(self._seconds(0.5, 20), lambda: self.start(worker.name, is_empty=is_empty))

    def _pause(self) -> None:
        worker = self._choose()
        if worker is None:
            return
        self._expect_takeover(worker)
        self.world.hold(worker)
        worker.note_trouble()
        self.world.after(self._seconds(1, 20), lambda: self._resume(worker))

    def _resume(self, worker: SimulatedWorker) -> None:
        worker.note_trouble()
        self.world.release(worker)

    def _lose_topic(self) -> None:
        self.machines.topic.is_away = True
        self._topic_troubled_ms = 1 << 60

        def find_again() -> None:
            self.machines.topic.is_away = False
            self._topic_troubled_ms = self.world.now_ms

        self.world.after(self._seconds(0.5, 12), find_again)

    def _lose_messages(self) -> None:
        worker = self._choose()
        if worker is None:
            return
        worker.control.loses_messages = True

        def lose_no_more() -> None:
            worker.control.loses_messages = False
            worker.note_trouble()

        self.world.after(self._seconds(2, 8), lose_no_more)

    def _read_late(self) -> None:
        worker = self._choose()
        if worker is not None:
            worker.note_trouble()
            worker.control.lag_ms = self.world.rng.choice([20, 100, 400])

    def _fail_appends(self) -> None:
        log = self.world.rng.choice(self.machines.logs)
        log.is_in_trouble = True

        def work_again(log: ArchivedLog = log) -> None:
            log.is_in_trouble = False

        self.world.after(self._seconds(0.5, 6), work_again)

    def _drain(self) -> None:
        self._changed_ms = self.world.now_ms
        name = self.world.rng.choice(NAMES)
        self._drained ^= {name}
        self.machines.topic.add(*drain_message(name, is_drained=name in self._drained))

    def _pin(self) -> None:
        self._changed_ms = self.world.now_ms
        i = self.world.rng.randrange(len(self.machines.logs))
        name = None if i in self._pinned else self.world.rng.choice(NAMES)
        self._pinned ^= {i}
        self.machines.topic.add(*pin_message(i, name))

    def _claim_twice(self) -> None:
        """Let two workers that see different things claim a partition at the same moment."""
        able = self.able()
        if len(able) < 2:
            return
        self._changed_ms = self.world.now_ms
        i = self.world.rng.randrange(len(self.machines.logs))
        for worker in self.world.rng.sample(able, 2):
            ms = self.world.rng.randrange(50)
            self.world.after(ms, partial(self._claim, worker, i), worker, "move")

    @staticmethod
    def _claim(worker: SimulatedWorker, i: int) -> None:
        with suppress(RecrawlError):
            worker.corpus.open_partition(i)

    def _join(self) -> None:
        self._changed_ms = self.world.now_ms
        self.start(self.world.rng.choice(NAMES))

    def _leave(self) -> None:
        worker = self._choose()
        if worker is not None and len(self.able()) > 1:
            self._changed_ms = self.world.now_ms
            worker.leave()

    def _fill_disk(self) -> None:
        worker = self._choose()
        if worker is None:
            return
        self._changed_ms = self.world.now_ms
        worker.can_own = False

        def find_room() -> None:
            self._changed_ms = self.world.now_ms
            worker.can_own = True

        self.world.after(self._seconds(2, 10), find_room)

    def _change_clock(self) -> None:
        worker = self._choose()
        if worker is not None:
            worker.clock.skew_ms = self.world.rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)

    def end_faults(self) -> None:
        """End all faults, and start as many workers as a cluster needs."""
        self.world.has_faults = False
        topic = self.machines.topic
        topic.is_away = False
        for name in sorted(self._drained):
            topic.add(*drain_message(name, is_drained=False))
        for i in sorted(self._pinned):
            topic.add(*pin_message(i, None))
        for log in self.machines.logs:
            log.is_in_trouble = False
        for worker in self.living():
            worker.control.loses_messages = False
            worker.can_own = True
        for name in NAMES[:2]:
            self.start(name)

    # ------------------------------------------------------------------ taking over

    def _is_calm(self, i: int) -> bool:
        since_ms = self.world.now_ms - TROUBLE_MS
        log = self.machines.logs[i]
        return (
            max(self._topic_troubled_ms, self._changed_ms, log.troubled_ms) < since_ms
            and not log.is_in_trouble
            and not self.machines.topic.is_away
        )

    def _expect_takeover(self, worker: SimulatedWorker) -> None:
        """Expect the standbys of a worker that is about to be lost to claim its partitions."""
        if not all(one.is_calm for one in self.living()):
            return
        for i in worker.corpus.owned_partitions():
            standbys = [one for one in self.able() if one is not worker]
            places = [one.worker.places[i] for one in standbys]
            for standby in standbys:
                is_prepared = standby.corpus.standby_lags().get(i, 9.0) < 1.0
                is_placed = all(place == (worker.name, standby.name) for place in places)
                if is_prepared and is_placed and self._is_calm(i):
                    self._check_takeover(worker, standby, i)

    def _check_takeover(self, lost: SimulatedWorker, standby: SimulatedWorker, i: int) -> None:
        begun_ms = self.world.now_ms
        others = [one for one in self.living() if one is not lost]
        n_records = self.machines.logs[i].end

        def check() -> None:
            written = self.machines.logs[i].records[n_records:]
            # It may be in the middle of a call at this moment.
            is_back = self.workers[lost.name] is lost and (
                lost.is_able or any(one.writer == lost.number for one in written)
            )
            is_undisturbed = self._is_calm(i) and all(one.is_calm for one in others)
            if is_back or not is_undisturbed or not self.world.has_faults:
                return
            # It may be on its way to yet another owner at this moment.
            claimed = [
                one.at_ms
                for one in written
                if one.writer != lost.number and one.record.schema == CLAIM_SCHEMA
            ]
            self.world.check(
                bool(claimed),
                f"partition {i} of {lost.name}, lost at {begun_ms / 1000:.3f} s, was not claimed "
                f"although {standby.name} is its standby",
            )
            self.ownerless_ms.append(claimed[0] - begun_ms if claimed else OWNERLESS_MS_MAX)

        self.world.after(OWNERLESS_MS_MAX, check, kind="check")
