"""Workers that agree on quotas while messages and workers get lost, in virtual time.

The agreement is the one that workers use.  The control topic, the logs of partitions and the
workers around it are simulated: messages are late, overtake each other, are repeated or lost;
workers stand still, end and begin; partitions are claimed by anybody at any moment, while the owner
before still takes itself for the owner; appends fail without saying whether they are in the log,
or take long, and the owner waits for them and goes on; clocks run at different speeds.  A run
follows from its seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from recrawl.cluster.budget.price import Agreement, split_budget
from recrawl.messages.budgets import Budget, Demand, QuotaInUse

__all__ = ["OverspentError", "PriceWorld", "measure", "random_demand"]

# Messages this much older than a later one with the same key are not there for a new reader.
_COMPACTION_SECONDS: Final = 60.0
_ROUNDING: Final = 1e-9
# Shorter than in reality, so that more happens.
_SPLIT_SECONDS: Final = 3.0
_FAULTS: Final = (
    "kill",
    "stand",
    "claim",
    "claim first",
    "notice",
    "lose appends",
    "wait",
    "wait first",
    "demand",
    "repair",
    "repair",
)


class OverspentError(AssertionError):
    """The sum of all quotas exceeds the budget."""


def random_demand(rng: np.random.Generator) -> Demand:
    """Return the demand of a partition with some kind of pages."""
    n_pages = int(10 ** rng.uniform(1, 5))
    price = np.geomspace(1.0, 1e4, 33) * rng.uniform(0.5, 2.0)
    spent = n_pages * 1e-3 * rng.uniform(0.1, 10.0) / (1.0 + price / rng.uniform(3.0, 3e3))
    return Demand(n_pages, tuple(price.tolist()), tuple(spent.tolist()))


@dataclass(slots=True)
class _Log:
    """What the log of a partition says."""

    per_second: float
    epoch: int = 0


@dataclass(slots=True)
class _Worker:
    """A process."""

    agreement: Agreement
    clock_rate: float
    clock_ahead: float
    n_read: int = 0
    """Number of messages of the control topic that it has read."""
    owned: dict[int, QuotaInUse] = field(default_factory=dict)
    """Partitions that it takes for its own, and what it knows of their logs."""
    waiting: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Partitions whose last append has not ended: epoch, and the time at which it ends."""
    stands_until: float = 0.0


class PriceWorld:
    """A cluster whose workers agree on quotas.

    Parameters
    ----------
    seed
        Random seed.
    n_partitions, n_workers
        Size of the cluster.
    budget
        Budget per second.
    agreement
        Class of the agreement.
    """

    def __init__(
        self,
        seed: int,
        *,
        n_partitions: int = 6,
        n_workers: int = 3,
        budget: float = 100.0,
        agreement: type[Agreement] = Agreement,
    ) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.now = 0.0
        self.budget = Budget(budget, 1.0, 60.0)
        self._agreement = agreement
        self.demands = [random_demand(rng) for _ in range(n_partitions)]
        first = rng.dirichlet(np.ones(n_partitions)) * budget * rng.uniform(0, 1)
        self.logs = [_Log(float(amount)) for amount in first]
        self.topic: list[tuple[float, str, bytes]] = []
        self._late: list[tuple[float, str, bytes]] = []
        self._doubtful: list[tuple[int, int, float]] = []
        """Appends that may still come: partition, epoch, quota."""
        self.workers: list[_Worker | None] = [None] * n_workers
        self.allowed = budget
        """Largest sum of quotas that is no error."""
        self.loss, self.delay_max = 0.1, 3.0
        for i in range(n_workers):
            self.start_worker(i)
        self._repair()

    # ------------------------------------------------------------------ faults

    def start_worker(self, i: int) -> None:
        """Begin a worker again, which knows nothing."""
        rate, ahead = self.rng.uniform(0.9, 1.1), self.rng.uniform(0, 1e6)
        agreement = self._agreement(len(self.logs), self.budget, split_seconds=_SPLIT_SECONDS)
        self.workers[i] = _Worker(agreement, rate, ahead)
        self._compact()

    def _compact(self) -> None:
        """Remove what brokers may have removed: messages that have long had a successor."""
        old = [key for at, key, _ in self.topic if at < self.now - _COMPACTION_SECONDS]
        last = {key: i for i, key in enumerate(old)}
        for i, key in enumerate(old):
            if last[key] != i:
                self.topic[i] = self.topic[i][0], "", b""

    def claim(self, i: int, partition: int) -> None:
        """Let a worker claim a partition; the owner before does not notice."""
        worker, log = self.workers[i], self.logs[partition]
        if worker is not None:
            log.epoch += 1
            worker.owned[partition] = QuotaInUse(log.epoch, log.per_second)
            worker.waiting.pop(partition, None)

    def delay_append(self, partition: int) -> None:
        """Let the owner of a partition wait for an append that takes long."""
        for worker in self.workers:
            if worker is not None and partition in worker.owned:
                epoch = worker.owned.pop(partition).epoch
                worker.waiting[partition] = epoch, self.now + 10 ** self.rng.uniform(-1, 2)

    def _go_on(self, worker: _Worker) -> None:
        """Let a worker go on with what it has waited for, in the same epoch."""
        for partition, (epoch, until) in list(worker.waiting.items()):
            if until > self.now:
                continue
            del worker.waiting[partition]
            # It knows now which of its appends are in the log.
            ended = [one for one in self._doubtful if one[:2] == (partition, epoch)]
            self._doubtful = [one for one in self._doubtful if one not in ended]
            for one in ended:
                if self.rng.random() < 0.5:
                    self._append(*one)
            if self.logs[partition].epoch == epoch:
                worker.owned[partition] = QuotaInUse(epoch, self.logs[partition].per_second)

    def set_budget(self, per_second: float) -> None:
        """Let an operator set the budget at some worker."""
        workers = [one for one in self.workers if one is not None]
        self.budget = self.budget._replace(per_second=per_second)
        self.allowed = max(self.allowed, per_second)
        if workers:
            workers[int(self.rng.integers(len(workers)))].agreement.set_budget(self.budget)

    def make_fault(self) -> None:
        """Let something go wrong."""
        rng = self.rng
        i, partition = int(rng.integers(len(self.workers))), int(rng.integers(len(self.logs)))
        worker = self.workers[i]
        match rng.choice(_FAULTS):
            case "kill":
                self.workers[i] = None
            case "stand" if worker is not None:
                worker.stands_until = self.now + 10 ** rng.uniform(-1, 2)
            case "claim":
                self.claim(i, partition)
            case "claim first":
                self.claim(i, 0)
            case "notice" if worker is not None:
                self._notice(worker)
            case "lose appends":
                self._doubtful.clear()
            case "wait":
                self.delay_append(partition)
            case "wait first":
                self.delay_append(0)
            case "demand":
                self.demands[partition] = random_demand(rng)
            case "repair":
                self._repair()
            case _:
                self.start_worker(i)

    def _repair(self) -> None:
        """Let workers take over what nobody works on, as they do after some seconds."""
        living = [i for i, one in enumerate(self.workers) if one is not None]
        cared_for = {
            partition
            for one in self.workers
            if one is not None and one.stands_until <= self.now
            for partition, epoch in self._epochs_of(one).items()
            if epoch == self.logs[partition].epoch
        }
        for partition in set(range(len(self.logs))) - cared_for:
            if living:
                self.claim(living[int(self.rng.integers(len(living)))], partition)

    def _epochs_of(self, worker: _Worker) -> dict[int, int]:
        """Return the epochs of the partitions that a worker takes for its own, or waits for."""
        owned = {partition: quota.epoch for partition, quota in worker.owned.items()}
        return owned | {partition: epoch for partition, (epoch, _) in worker.waiting.items()}

    def _notice(self, worker: _Worker) -> None:
        """Let a worker read the logs of what it takes for its own."""
        for partition, quota in list(worker.owned.items()):
            if self.logs[partition].epoch != quota.epoch:
                del worker.owned[partition]

    # ------------------------------------------------------------------ what goes on

    def step(self) -> None:
        """Let some time pass and one worker do its work."""
        rng = self.rng
        self.now += float(rng.exponential(0.1))
        self._deliver()
        worker = self.workers[int(rng.integers(len(self.workers)))]
        if worker is not None and self.now >= worker.stands_until:
            self._work(worker)
        if self._doubtful and rng.random() < 0.1:
            self._append(*self._doubtful.pop(int(rng.integers(len(self._doubtful)))))
        total = sum(log.per_second for log in self.logs)
        if total > self.allowed * (1 + _ROUNDING):
            raise OverspentError(f"at {self.now:.1f} s quotas add up to {total} of {self.allowed}")

    def _deliver(self) -> None:
        arrived = [one for one in self._late if one[0] <= self.now]
        if arrived:
            self._late = [one for one in self._late if one[0] > self.now]
            self.topic += [(self.now, key, message) for _, key, message in sorted(arrived)]

    def _publish(self, key: str, message: bytes) -> None:
        while self.rng.random() >= self.loss:
            at = self.now + float(self.rng.uniform(0, self.delay_max)) ** 2 / self.delay_max
            self._late.append((at, key, message))
            if self.rng.random() >= self.loss:
                break

    def _append(self, partition: int, epoch: int, per_second: float) -> bool:
        log = self.logs[partition]
        if log.epoch == epoch:
            log.per_second = per_second
        return log.epoch == epoch

    def _work(self, worker: _Worker) -> None:
        rng, agreement = self.rng, worker.agreement
        self._go_on(worker)
        unread = self.topic[worker.n_read :]
        # A reader may be behind.
        if rng.random() < self.loss:
            unread = unread[: int(rng.integers(len(unread) + 1))]
        worker.n_read += len(unread)
        for _, key, message in unread:
            agreement.hear(key, message)
        for partition, (epoch, per_second) in agreement.quotas().items():
            known = worker.owned.get(partition)
            if known is None or known.epoch != epoch or known.per_second == per_second:
                continue
            if rng.random() < self.loss / 4:
                # Nobody knows whether it is in the log; the owner waits until it knows, or claims
                # the partition again.
                self._doubtful.append((partition, epoch, per_second))
                del worker.owned[partition]
                if rng.random() < 0.5:
                    worker.waiting[partition] = epoch, self.now + rng.uniform(0, 5)
            elif self._append(partition, epoch, per_second):
                worker.owned[partition] = QuotaInUse(epoch, per_second)
            else:
                del worker.owned[partition]
        if rng.random() < self.loss / 4:
            return  # killed, or stopped, before it says so
        now = worker.clock_ahead + worker.clock_rate * self.now
        for key, message in agreement.step(now, worker.owned, lambda: self._demands(worker)):
            self._publish(key, message)

    def _demands(self, worker: _Worker) -> Mapping[int, Demand]:
        return {partition: self.demands[partition] for partition in worker.owned}

    # ------------------------------------------------------------------ runs

    def run(self, n_steps: int, *, fault_share: float = 0.02) -> None:
        """Let things go wrong for some steps."""
        for _ in range(n_steps):
            if self.rng.random() < fault_share:
                self.make_fault()
            self.step()

    def calm_down(self, n_steps: int = 3_000) -> float:
        """Let all workers live and everything be owned; return how far quotas are from the split.

        It is the largest difference of a quota from that of the common price, as a share of the
        budget.
        """
        self.loss, self.delay_max = 0.0, 0.2
        for i, worker in enumerate(self.workers):
            if worker is None:
                self.start_worker(i)
        for worker in self.workers:
            assert worker is not None
            worker.stands_until = 0.0
            worker.waiting = {i: (epoch, 0.0) for i, (epoch, _) in worker.waiting.items()}
            self._notice(worker)
        self._repair()
        for _ in range(n_steps):
            self.step()
        budget = self.agreed_budget()
        wanted = split_budget(budget, self.demands).per_second
        found = np.array([log.per_second for log in self.logs])
        self.allowed = budget
        return float(np.abs(found - wanted).max() / budget)

    def agreed_budget(self) -> float:
        """Return the budget that all workers know."""
        budgets = {one.agreement.budget for one in self.workers if one is not None}
        assert len(budgets) == 1, budgets
        return budgets.pop().per_second


def measure(n_steps: int, seed: int = 0, steps_per_run: int = 4_000) -> dict[str, Any]:
    """Run clusters with faults until they have done some steps.

    Parameters
    ----------
    n_steps
        Number of steps of all runs together.
    seed
        Random seed of the first run; the others follow.
    steps_per_run
        Number of steps of a run before it calms down.
    """
    n_done, n_runs, off, n_messages = 0, 0, 0.0, 0
    while n_done < n_steps:
        world = PriceWorld(seed + n_runs)
        world.run(steps_per_run // 2)
        world.set_budget(float(world.rng.uniform(10, 300)))
        world.run(steps_per_run // 2)
        off = max(off, world.calm_down(steps_per_run // 4))
        n_done += steps_per_run + steps_per_run // 4
        n_messages += len(world.topic)
        n_runs += 1
    return {
        "n_steps": n_done,
        "n_runs": n_runs,
        "n_messages": n_messages,
        "overspent": 0,
        "largest_difference": off,
    }
