"""A worker whose process is simulated: the real `Worker` and `Corpus`, with time of its own."""

import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.worker import LEAVE_SECONDS_MAX, Worker
from recrawl.corpus.corpus import Corpus
from recrawl.errors import RecrawlError
from recrawl.ledger import SnapshotFolder, SnapshotOrigin
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.corpus_format import CorpusFormat
from recrawl.node.durability.recovery import Partition
from recrawl.node.node import Node
from recrawl.urls import CANON_VERSION
from tests.simulation.cluster.messages import ControlMessages, WorkerControl
from tests.simulation.cluster.partition_logs import ArchivedLog, WorkerLog
from tests.simulation.cluster.storage import FaultyStorage
from tests.simulation.cluster.world import World

__all__ = ["CORPUS_ID", "SKEW_MS_MAX", "TROUBLE_MS", "Machines", "SimulatedWorker", "WorkerClock"]

CORPUS_ID: Final = "0123456789abcdef" * 2
SKEW_MS_MAX: Final = 200
TROUBLE_MS: Final = 9_000
"""Time after a fault of a worker for which nothing is expected of it."""
_BEGIN_MS: Final = 1_700_000_000_000
# Mean milliseconds between two events of a kind; see `recrawl.cluster.worker`.
_PRESENCE_MS: Final = 100
_LOOK_MS: Final = 100
_TICK_MS: Final = 500
_FOLLOW_MS: Final = 200
_QUOTAS_MS: Final = 250
_SNAPSHOT_MS: Final = 15_000
_JITTER: Final = (0.8, 1.5)


class WorkerClock:
    """The clock of one machine, which differs from that of the others."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew_ms = world.rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
        self._running_ms = world.rng.randrange(10**9)

    def wall_ms(self) -> int:
        return _BEGIN_MS + self._world.now_ms + self.skew_ms

    def running_ms(self) -> int:
        return self._running_ms + self._world.now_ms

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def monotonic(self) -> float:
        return self.running_ms() / 1000


class _LaterExecutor(Executor):
    """Does each call as an event of its own, some time later."""

    def __init__(self, worker: "SimulatedWorker", ms_max: int) -> None:
        self._worker = worker
        self._ms_max = ms_max

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        world = self._worker.world
        ms = world.rng.randrange(self._ms_max)
        world.after(ms, lambda: fn(*args, **kwargs), self._worker, "move")
        return Future()


class Machines:
    """What all workers share, and where their files are.

    Parameters
    ----------
    world
        Time and chance.
    folder
        Folder for all files.
    logs
        Logs of the partitions.
    topic
        Control topic.
    config
        Configuration of the corpus.
    """

    def __init__(
        self,
        world: World,
        folder: Path,
        logs: list[ArchivedLog],
        topic: ControlMessages,
        config: CorpusConfig,
    ) -> None:
        self.world = world
        self.folder = folder
        self.logs = logs
        self.topic = topic
        self.config = config
        self.shared = folder / "shared"
        self.n_started = 0
        self.name_of_number: dict[int, str] = {}

    def origin(self, partition: int) -> SnapshotOrigin:
        return SnapshotOrigin(CORPUS_ID, partition)


class SimulatedWorker:
    """One start of a worker.

    Parameters
    ----------
    name
        Name of the worker.
    machines
        What it shares with the others.
    is_empty
        Whether the files of its machine are gone.
    """

    def __init__(self, name: str, machines: Machines, *, is_empty: bool = False) -> None:
        self.name = name
        self.machines = machines
        self.world = machines.world
        machines.n_started += 1
        self.number = machines.n_started
        machines.name_of_number[self.number] = name
        self.is_dead = False
        self.is_leaving = False
        self.can_own = True
        self.on_presence: Callable[[SimulatedWorker], None] = lambda _: None
        self.troubled_ms = self.world.now_ms
        self.clock = WorkerClock(self.world)
        self.folder = machines.folder / name
        if is_empty:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.control = WorkerControl(machines.topic)
        self.corpus = self._open_corpus()
        identity = Heartbeat(
            worker=name, instance=f"{self.number}", started_at_ms=self.clock.wall_ms()
        )
        self.worker = Worker(
            self.corpus,
            self.control,
            len(machines.logs),
            identity,
            can_own=lambda: self.can_own,
            monotonic=self.clock.monotonic,
            wall_ms=self.clock.wall_ms,
            quotas=self.corpus.quotas,
            restores=_LaterExecutor(self, 1_500),
            claims=_LaterExecutor(self, 150),
            ticks=_LaterExecutor(self, 20),
        )
        assert self.worker.quotas is not None
        for kind, ms, act in (
            ("presence", _PRESENCE_MS, self._take_part),
            ("look", _LOOK_MS, self.worker.step),
            ("tick", _TICK_MS, self.worker.tick_partitions),
            ("quotas", _QUOTAS_MS, self.worker.quotas.step),
            ("follow", _FOLLOW_MS, self.worker.follow_standbys),
            ("snapshot", _SNAPSHOT_MS, self._take_snapshots),
        ):
            self._repeat(kind, ms, act)

    def _open_corpus(self) -> Corpus:
        machines, config = self.machines, self.machines.config
        log = WorkerLog(machines.logs, self, CORPUS_ID)
        shape = CorpusFormat(
            corpus_id=CORPUS_ID,
            canonical_urls=CANON_VERSION,
            partitions=len(machines.logs),
            group_by=config.corpus.group_by,
            ledger="kafka",
        )
        corpus = Corpus(
            self.folder,
            [],
            {},
            log,
            config,
            self.clock,
            shape,
            find_partition=lambda i: self._files_of(i, log),
        )
        # Claims carry the number of the process, which is random otherwise.
        corpus._owner = self.number
        corpus._begun_with = True, config
        corpus._budget_split.set_budget(config)
        return corpus

    def _files_of(self, i: int, log: WorkerLog) -> Partition:
        origin = self.machines.origin(i)
        return Partition(
            i,
            log.partition(i),
            self.folder / "store" / str(i),
            SnapshotFolder(
                self.folder / "snapshots" / str(i),
                keep=2,
                origin=origin,
                shared=FaultyStorage(self.machines.shared, origin, self.world),
            ),
            is_shared=True,
            corpus_id=CORPUS_ID,
            reopen_ledger=lambda: log.reopen_partition(i),
        )

    # ------------------------------------------------------------------ events

    def _repeat(self, kind: str, ms: float, act: Callable[[], None]) -> None:
        def again() -> None:
            try:
                act()
            finally:
                self.world.after(ms * self.world.rng.uniform(*_JITTER), again, self, kind)

        self.world.after(ms * self.world.rng.random(), again, self, kind)

    def _take_part(self) -> None:
        self.worker.presence.step()
        self.on_presence(self)
        if self.is_leaving:
            self._leave_if_free()

    def _take_snapshots(self) -> None:
        with suppress(RecrawlError, OSError):
            self.corpus.snapshot()

    # ------------------------------------------------------------------ beginning and ending

    @property
    def is_able(self) -> bool:
        """Whether it does something now: it lives, and does not stand still."""
        return not self.is_dead and not self.world.is_held(self)

    def note_trouble(self) -> None:
        self.troubled_ms = self.world.now_ms

    @property
    def is_calm(self) -> bool:
        """Whether it has worked without a fault for a while."""
        return (
            self.is_able
            and not self.is_leaving
            and not self.control.loses_messages
            and self.world.now_ms - self.troubled_ms > TROUBLE_MS
        )

    def nodes(self) -> list[Node]:
        """Return the nodes of all partitions that it has open or follows."""
        standbys = self.corpus._standbys
        return [*self.corpus.nodes, *(standbys.find(i).node for i in standbys.partitions)]

    def die(self) -> None:
        """End without any goodbye, as after SIGKILL."""
        self.is_dead = True
        for node in self.nodes():
            with suppress(RecrawlError):
                node.store.close()

    def leave(self) -> None:
        """Begin to end, as after SIGTERM."""
        self.is_leaving = True
        self._leave_until_ms = self.world.now_ms + LEAVE_SECONDS_MAX * 1000

    def _leave_if_free(self) -> None:
        if self.worker.leave(0) or self.world.now_ms > self._leave_until_ms:
            self.worker.presence.stop()
            self.die()
