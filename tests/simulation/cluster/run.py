"""Run real workers in one thread, with simulated time, messages, logs and faults.

`recrawl.cluster.worker.Worker`, `recrawl.corpus.Corpus` and everything below them are those of the
product, with stores on disk; the control topic, the partitions' logs, the clocks and the network
are simulated.  Messages are delayed, lost and repeated, clocks differ, appends fail although their
records are in the log or appear later, storage keeps damaged bytes, and workers are killed, stand
still and start again.  `tests.simulation.cluster.checks` has the properties that must hold.
"""

import gc
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from recrawl.node.config.corpus_config import CorpusConfig
from tests.simulation.cluster.checks import SeenState, check_run
from tests.simulation.cluster.clients import Clients
from tests.simulation.cluster.faults import NAMES, Cluster
from tests.simulation.cluster.messages import ControlMessages
from tests.simulation.cluster.partition_logs import ArchivedLog
from tests.simulation.cluster.storage import intact_positions
from tests.simulation.cluster.workers import Machines
from tests.simulation.cluster.world import PropertyViolatedError, World

__all__ = ["CONFIG", "N_PARTITIONS", "ClusterReport", "new_folder", "run_cluster", "run_clusters"]

N_PARTITIONS: Final = 4
DELAY_SECONDS: Final = 2
RATE_PER_SECOND: Final = 2
BURST_SECONDS: Final = 10
CONFIG: Final = CorpusConfig.from_dict(
    {
        "corpus": {"partitions": N_PARTITIONS},
        "ledger": {"kind": "kafka", "bootstrap": "simulated:1", "topic": "simulated"},
        "politeness": {"delay": DELAY_SECONDS, "in_flight_max": 1},
        "leases": {"length": 30},
        "budget": {"rate": f"{3600 * RATE_PER_SECOND}/h", "burst": BURST_SECONDS},
        "learning": {"prior_period": 20},
    }
)
_FAULTS_MS: Final = (60_000, 150_000)
# Mean time between two faults: from one at a time to many at once.
_FAULT_MS: Final = (2_000, 6_000, 20_000, 30_000)
_SETTLE_MS: Final = 30_000
_SETTLE_STEP_MS: Final = 250
_CALM_MS: Final = 5_000
_LOOK_AT_STATES_MS: Final = 4_000


@dataclass(slots=True)
class ClusterReport:
    """Summary of one run or several."""

    n_runs: int = 0
    n_steps: int = 0
    simulated_seconds: float = 0.0
    n_records: int = 0
    n_claims: int = 0
    n_handed_out: int = 0
    n_void_orders: int = 0
    n_counted: int = 0
    n_failed_appends: int = 0
    n_truncated: int = 0
    n_starts: int = 0
    n_compared_states: int = 0
    n_unavailable: int = 0
    n_errors: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    ownerless_ms: list[int] = field(default_factory=list)

    def add(self, other: "ClusterReport") -> None:
        """Add the counts of another run."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def run_cluster(seed: int, folder: Path) -> ClusterReport:
    """Simulate one cluster for some minutes, and check it.

    Parameters
    ----------
    seed
        Seed of all choices.
    folder
        Empty folder for the files of the workers.

    Raises
    ------
    PropertyViolatedError
        If a property does not hold; the message has the seed.
    """
    try:
        return _Run(seed, folder).run()
    except PropertyViolatedError as error:
        raise PropertyViolatedError(f"seed {seed}: {error}") from error


class _Run:
    def __init__(self, seed: int, folder: Path) -> None:
        self.world = world = World(seed)
        logs = [ArchivedLog(world) for _ in range(N_PARTITIONS)]
        self.machines = Machines(world, folder, logs, ControlMessages(world), CONFIG)
        for i, log in enumerate(logs):
            log.on_truncate = self._truncation_check(i)
        self.cluster = Cluster(
            self.machines, world.rng.randint(2, len(NAMES)), world.rng.choice(_FAULT_MS)
        )
        self.clients = Clients(world, self.cluster.able)
        self.seen: list[SeenState] = []
        self.n_truncated = 0
        world.after(_LOOK_AT_STATES_MS, self._look_at_states, kind="check")

    def run(self) -> ClusterReport:
        world, cluster = self.world, self.cluster
        try:
            self._run_for(world.rng.uniform(*_FAULTS_MS))
            cluster.end_faults()
            # Pauses that have begun end by themselves.
            while any(world.is_held(one) for one in cluster.living()):
                self._run_for(1_000)
            self._settle()
            self._run_for(_CALM_MS)
            logs = check_run(
                self.machines,
                cluster.living(),
                self.clients,
                self.seen,
                delay_ms=1000 * DELAY_SECONDS,
                rate=RATE_PER_SECOND,
                burst=RATE_PER_SECOND * BURST_SECONDS,
            )
        finally:
            for worker in cluster.living():
                worker.die()
        return ClusterReport(
            n_runs=1,
            n_steps=world.n_steps,
            simulated_seconds=world.now_ms / 1000,
            n_records=sum(log.end for log in self.machines.logs),
            n_claims=sum(log.n_claims for log in logs),
            n_handed_out=len(self.clients.handed_out),
            n_void_orders=sum(log.n_void_orders for log in logs),
            n_counted=len(self.clients.counted),
            n_failed_appends=sum(log.n_failed for log in self.machines.logs),
            n_truncated=self.n_truncated,
            n_starts=self.machines.n_started,
            n_compared_states=len(self.seen),
            n_unavailable=self.clients.n_unavailable,
            n_errors=self.clients.n_errors,
            faults=Counter(cluster.n_faults),
            ownerless_ms=cluster.ownerless_ms,
        )

    def _run_for(self, ms: float) -> None:
        self.world.run(ms)
        if self.world.violation is not None:
            raise self.world.violation

    def _look_at_states(self) -> None:
        """Take note of the state of a node, which the replay has to have as well."""
        able = self.cluster.able()
        nodes = [(one.name, node) for one in able for node in one.nodes() if node.can_decide]
        if nodes:
            name, node = self.world.rng.choice(nodes)
            self.seen.append(SeenState(node.partition, node.position, node.shard.digest(), name))
        self.world.after(_LOOK_AT_STATES_MS, self._look_at_states, kind="check")

    def _truncation_check(self, i: int) -> Callable[[int], None]:
        def check(position: int) -> None:
            """The log is needed from the second-newest intact snapshot on, at least."""
            self.n_truncated += 1
            there = intact_positions(self.machines.shared, self.machines.origin(i))
            self.world.check(
                len([one for one in there if one >= position]) >= 2,
                f"partition {i} was truncated to {position}, and intact snapshots are at {there}",
            )

        return check

    def _settle(self) -> None:
        """Let the workers find their places, for which they have half a minute."""
        until_ms = self.world.now_ms + _SETTLE_MS
        while (problem := self._misplaced()) is not None:
            if self.world.now_ms >= until_ms:
                seconds = _SETTLE_MS // 1000
                raise PropertyViolatedError(f"{problem} {seconds} s after the last fault")
            self._run_for(_SETTLE_STEP_MS)

    def _misplaced(self) -> str | None:
        """Return which partition does not have one owner and its standby; None if all have."""
        living = self.cluster.living()
        for i in range(N_PARTITIONS):
            owners = [one for one in living if i in one.corpus.owned_partitions()]
            standbys = {one.name for one in living if i in one.corpus.standby_lags()}
            if len(owners) != 1:
                return f"partition {i} has the owners {[one.name for one in owners]}"
            place = owners[0].worker.places[i]
            if place.owner != owners[0].name or place.standby not in standbys:
                found = f"the owner {owners[0].name} and the standbys {sorted(standbys)}"
                return f"partition {i} has {found} instead of {place}"
        return None


@contextmanager
def new_folder() -> Iterator[Path]:
    """Create a folder in memory, if possible: syncs of a disk would take most of the time."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_clusters(
    n_steps: int, seed: int, on_run: Callable[[int, ClusterReport], None] = lambda *_: None
) -> ClusterReport:
    """Simulate clusters of consecutive seeds, until there are enough steps.

    Parameters
    ----------
    n_steps
        Smallest number of steps of all runs together.
    seed
        First seed.
    on_run
        Function to call with each seed and its run.
    """
    report = ClusterReport()
    logging.disable(logging.CRITICAL)  # each fault logs a warning
    try:
        while report.n_steps < n_steps:
            with new_folder() as folder:
                one = run_cluster(seed, folder)
            # Workers are in reference cycles, which are few and hold much memory.
            gc.collect()
            on_run(seed, one)
            report.add(one)
            seed += 1
    finally:
        logging.disable(logging.NOTSET)
    return report
