"""What can be seen of a cluster from outside, for the benchmarks that disturb one.

A probe asks which partitions answer, and a listener reads what the workers tell each other.  Both
take note of what changes, so that the cause of a long time without an owner can be found later.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.cluster_processes import Workers
from recrawl.client import Client
from recrawl.cluster.budget.quotas import KEEP, QUOTAS_KEY, QuotaMessage
from recrawl.cluster.control_topic import ControlTopic
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.presence import heartbeat_of
from recrawl.corpus import CorpusConfig, RowStatus
from recrawl.errors import RecrawlError
from recrawl.node.routing import as_array, partitions_of

__all__ = ["AvailabilityProbe", "ClusterListener", "LeaderWatch", "Timeline", "first_urls"]

_PROBE_SECONDS: Final = 0.1
# Age of the last heartbeat of a worker that lives, and how far behind a standby may be.
_LIVE_SECONDS: Final = 2.5
_STANDBY_SECONDS_MAX: Final = 2.0
_SLOW_ANSWER_SECONDS: Final = 1.0
_EVENTS_MAX: Final = 20_000
_LINES_MAX: Final = 120
_LINE_LENGTH_MAX: Final = 300
# Clients of Kafka print the same for each partition, ten times a second.
_BEGINNING_LENGTH: Final = 32
_REPEATED_SECONDS: Final = 1.0


def first_urls(config: CorpusConfig, urls: Sequence[str]) -> list[str]:
    """Return the first URL of each partition, in the order of the partitions.

    Parameters
    ----------
    config
        Configuration of the corpus.
    urls
        URLs of all partitions.
    """
    partition = partitions_of(as_array(urls), config.corpus.partitions, config.corpus.group_by)
    first = {int(p): url for url, p in zip(reversed(urls), partition[::-1].tolist(), strict=True)}
    return [first[i] for i in range(config.corpus.partitions)]


class Timeline:
    """What has happened lately, from several threads.

    Parameters
    ----------
    log_folder
        Folder with what the workers print, of which new lines become events; None for no such
        folder.
    """

    def __init__(self, log_folder: Path | None = None) -> None:
        self._events: deque[tuple[float, int | None, str]] = deque(maxlen=_EVENTS_MAX)
        self._log_folder = log_folder
        self._read_bytes: dict[Path, int] = {}
        self._printed_at: dict[str, float] = {}

    def note(self, text: str, partition: int | None = None, *, at: float | None = None) -> None:
        """Take note of an event.

        Parameters
        ----------
        text
            What has happened.
        partition
            Number of the partition to which it happened; None if it matters to all.
        at
            Time in seconds since 1970; the present by default.
        """
        self._events.append((time.time() if at is None else at, partition, text))

    def read_logs(self) -> None:
        """Take note of what the workers have printed since the last call."""
        for path in [] if self._log_folder is None else sorted(self._log_folder.glob("*.log")):
            with path.open("rb") as file:
                file.seek(self._read_bytes.get(path, 0))
                text = file.read()
            lines, newline, _ = text.rpartition(b"\n")
            self._read_bytes[path] = self._read_bytes.get(path, 0) + len(lines) + len(newline)
            for line in lines.decode("utf-8", "replace").splitlines():
                self._note_line(f"{path.stem} prints: {line}")

    def _note_line(self, line: str) -> None:
        """Take note of a line, unless one that begins the same way came a moment ago."""
        beginning, now = line[:_BEGINNING_LENGTH], time.monotonic()
        if now - self._printed_at.get(beginning, -math.inf) >= _REPEATED_SECONDS:
            self._printed_at[beginning] = now
            self.note(line)

    def lines(self, since: float, partitions: Sequence[int]) -> list[str]:
        """Return the events after a moment that matter to some partitions, a line for each.

        Parameters
        ----------
        since
            Time in seconds since 1970.
        partitions
            Numbers of the partitions.
        """
        found = sorted(
            (at, partition, text)
            for at, partition, text in [*self._events]
            if at >= since - 2.0 and (partition is None or partition in partitions)
        )
        lines = [
            f"{at - since:+7.2f} s  {'' if partition is None else f'partition {partition}: '}{text}"
            for at, partition, text in found
        ]
        left_out = [f"({len(lines) - _LINES_MAX} more)"] if len(lines) > _LINES_MAX else []
        return [line[:_LINE_LENGTH_MAX] for line in lines[:_LINES_MAX]] + left_out


class AvailabilityProbe:
    """Asks a worker that lives, several times a second, which partitions are available.

    Parameters
    ----------
    workers
        Workers of the cluster.
    urls
        A URL of each partition.
    listener
        Listener that knows the quotas of the partitions.
    timeline
        Where changes are noted.
    """

    def __init__(
        self, workers: Workers, urls: list[str], listener: "ClusterListener", timeline: Timeline
    ) -> None:
        self._workers = workers
        self._urls = urls
        self._listener = listener
        self._timeline = timeline
        self.target = ""
        self.last_seen = np.full(len(urls), time.monotonic())
        """When each partition last answered."""
        self.longest = np.zeros(len(urls))
        """Longest time without an answer since `begin`."""
        self.away_seconds = 0.0
        """Seconds during which partitions were unavailable, of all times together, each weighted
        by the share of the budget that it had when it became unavailable."""
        self._away_since = np.full(len(urls), np.nan)
        self._away_share = np.zeros(len(urls))
        self._problem = ""
        self._asking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, target: str) -> None:
        """Measure from now on, and ask another worker.

        It waits for the question under way: if the worker before is stopped, that has no answer
        until it goes on, and all partitions would seem to be away for so long.

        Parameters
        ----------
        target
            Name of the worker.
        """
        with self._asking:
            self.target = target
            self.last_seen[:] = time.monotonic()
            self.longest[:] = 0

    def _run(self) -> None:
        with ExitStack() as closing:
            clients: dict[str, Client] = {}
            while not self._stopping.wait(_PROBE_SECONDS):
                with self._asking:
                    url = self._workers.url(self.target) if self.target else ""
                    if url and url not in clients:
                        clients[url] = closing.enter_context(Client(url, retry_seconds=0.0))
                    if url:
                        self._ask(clients[url])

    def _ask(self, client: Client) -> None:
        asked = time.monotonic()
        try:
            rows = client.add(self._urls).rows
        except RecrawlError as error:
            self._note_problem(f"no answer from {self.target}: {error}")
            return
        now = time.monotonic()
        if now - asked > _SLOW_ANSWER_SECONDS:
            self._timeline.note(f"an answer of {self.target} has taken {now - asked:.2f} s")
        self._note_problem("")
        answered = rows != RowStatus.UNAVAILABLE
        self.longest[answered] = np.maximum(self.longest[answered], now - self.last_seen[answered])
        was_away = ~np.isnan(self._away_since)
        back = answered & was_away
        self.away_seconds += float(
            ((asked - self._away_since[back]) * self._away_share[back]).sum()
        )
        self._away_since[back] = np.nan
        away = ~answered & ~was_away
        self._away_since[away] = asked
        self._away_share[away] = self._listener.budget_shares()[away]
        self.last_seen[answered] = now
        for i in np.flatnonzero(back).tolist():
            self._timeline.note("available again", i)
        for i in np.flatnonzero(away).tolist():
            self._timeline.note("unavailable", i)

    def _note_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._timeline.note(problem or f"{self.target} answers again")

    @property
    def is_all_there(self) -> bool:
        """Whether all partitions have answered within the last second."""
        return bool((time.monotonic() - self.last_seen < 1.0).all())

    def wait_until_all_there(self, seconds_max: float) -> float:
        """Wait until all partitions answer; return the seconds that this took.

        Parameters
        ----------
        seconds_max
            Time after which it raises `RuntimeError`.
        """
        begun = time.monotonic()
        while not self.is_all_there:
            if time.monotonic() - begun > seconds_max:
                raise RuntimeError(f"some partitions have no owner after {seconds_max:g} s")
            time.sleep(_PROBE_SECONDS)
        return time.monotonic() - begun

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()


class LeaderWatch:
    """Asks the brokers, several times a second, which of them lead and have each partition.

    Parameters
    ----------
    bootstrap
        Addresses of the brokers.
    topic
        Name of the topic of the log.
    n_partitions
        Number of partitions.
    timeline
        Where changes are noted.
    """

    def __init__(self, bootstrap: str, topic: str, n_partitions: int, timeline: Timeline) -> None:
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None}
        # A killed broker must not hold up the question to another one.
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 250, **quiet}
        )
        self._topic = topic
        self._timeline = timeline
        self._known: list[tuple[int, tuple[int, ...]]] = [(-1, ())] * n_partitions
        self._killed: int | None = None
        self._killed_at = 0.0
        self._without_at: dict[int, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, killed: int) -> None:
        """Measure from now on how long the brokers need to go on without one of them.

        Parameters
        ----------
        killed
            Id of the broker that is killed.
        """
        self._without_at = {}
        self._killed, self._killed_at = killed, time.monotonic()

    @property
    def seconds(self) -> float | None:
        """Time from `begin` until the others went on with all partitions; None if they have not."""
        ends = self._without_at
        return max(ends.values()) - self._killed_at if len(ends) == len(self._known) else None

    def _run(self) -> None:
        while not self._stopping.wait(_PROBE_SECONDS):
            try:
                found = self._admin.list_topics(self._topic, timeout=1.0)
            except KafkaException:
                continue
            for i, one in found.topics[self._topic].partitions.items():
                self._hear(i, one.leader, tuple(sorted(one.isrs)))

    def _hear(self, i: int, leader: int, in_sync: tuple[int, ...]) -> None:
        if self._known[i] != (leader, in_sync):
            self._known[i] = leader, in_sync
            brokers = ", ".join(map(str, in_sync))
            self._timeline.note(f"broker {leader} leads it; {brokers} are in sync", i)
        killed = self._killed
        if killed is not None and leader >= 0 and killed not in (leader, *in_sync):
            self._without_at.setdefault(i, time.monotonic())

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()


class ClusterListener:
    """Listens to the workers: who lives, who owns and follows which partition, and the quotas.

    Parameters
    ----------
    bootstrap
        Addresses of the brokers.
    topic
        Name of the control topic.
    n_partitions
        Number of partitions.
    timeline
        Where changes are noted.
    """

    def __init__(self, bootstrap: str, topic: str, n_partitions: int, timeline: Timeline) -> None:
        self._log = ControlTopic.open(bootstrap, topic)
        self._n_partitions = n_partitions
        self._timeline = timeline
        self._heard: dict[str, tuple[Heartbeat, float]] = {}
        self._silent: set[str] = set()
        self._quotas = np.zeros(n_partitions)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(_PROBE_SECONDS):
            self._timeline.read_logs()
            try:
                found = self._log.read()
            except RecrawlError as error:
                self._timeline.note(f"the control topic cannot be read: {error}")
                continue
            for key, message in found:
                heartbeat = heartbeat_of(key, message)
                if heartbeat is not None:
                    self._hear(heartbeat)
                elif key == QUOTAS_KEY and (quotas := QuotaMessage.from_bytes(message)):
                    self._hear_quotas(quotas)
            now = time.monotonic()
            for name, (_, at) in [*self._heard.items()]:
                if now - at > _LIVE_SECONDS and name not in self._silent:
                    self._silent.add(name)
                    self._timeline.note(f"no heartbeat of {name} for {_LIVE_SECONDS:g} s")

    def _hear(self, one: Heartbeat) -> None:
        now, name = time.monotonic(), one.worker
        before, at = self._heard.get(name, (None, now))
        self._heard[name] = one, now
        if name in self._silent:
            self._silent.discard(name)
            self._timeline.note(f"first heartbeat of {name} after {now - at:.2f} s")
        if before is None or before.instance != one.instance:
            self._timeline.note(f"first heartbeat of {name} since its start")
        owned = {} if before is None else before.owned
        ready = set() if before is None else _ready_standbys(before)
        for i in sorted(one.owned.keys() - owned.keys()):
            self._timeline.note(f"{name} says that it owns it, epoch {one.owned[i].epoch}", i)
        for i in sorted(owned.keys() - one.owned.keys()):
            self._timeline.note(f"{name} says no longer that it owns it", i)
        for i in sorted(_ready_standbys(one) - ready):
            self._timeline.note(f"{name} has a standby that is up to date", i)
        for i in sorted(ready - _ready_standbys(one)):
            seconds = one.standby_seconds.get(i)
            is_behind = "has no standby" if seconds is None else f"is {seconds:.1f} s behind"
            self._timeline.note(f"{name} {is_behind}", i)

    def _hear_quotas(self, message: QuotaMessage) -> None:
        quotas = np.array(message.per_second[: self._n_partitions])
        if quotas.size == self._n_partitions:
            self._quotas = np.where(quotas == KEEP, self._quotas, quotas)

    def budget_shares(self) -> np.ndarray:
        """Return the share of the budget that each partition may spend by the last quotas."""
        quotas = self._quotas
        total = float(quotas.sum())
        if not 0 < total < np.inf:  # none were told yet
            return np.full(self._n_partitions, 1 / self._n_partitions)
        return quotas / total

    def _live(self) -> list[Heartbeat]:
        now = time.monotonic()
        return [one for one, at in [*self._heard.values()] if now - at < _LIVE_SECONDS]

    def last_heard_at(self, worker: str) -> float:
        """Return when the last heartbeat of a worker came, on the monotonic clock."""
        return self._heard[worker][1]

    def owners(self) -> dict[int, str]:
        """Return the worker that owns each partition, by heartbeats of the last seconds."""
        owned = [(one.owned[i].epoch, i, one.worker) for one in self._live() for i in one.owned]
        return {i: worker for _, i, worker in sorted(owned)}

    def copies_of(self, worker: str) -> set[int]:
        """Return the partitions that a worker owns or follows."""
        one, _ = self._heard[worker]
        return {*one.owned, *one.standby_seconds}

    def find_without_standby(self, worker: str) -> set[int]:
        """Return the partitions of a worker that no other worker could take over at once.

        Parameters
        ----------
        worker
            Name of the worker.
        """
        live = self._live()
        owned = {i for one in live if one.worker == worker for i in one.owned}
        ready = {i for one in live if one.worker != worker for i in _ready_standbys(one)}
        return owned - ready

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()
        self._log.close()


def _ready_standbys(one: Heartbeat) -> set[int]:
    return {i for i, seconds in one.standby_seconds.items() if seconds < _STANDBY_SECONDS_MAX}
