"""A worker: one process of a cluster, with the partitions that it owns and those that it follows.

Several things go on at the same time, so that none waits for another: heartbeats, a look every
tenth of a second at what to do next, the moves themselves (restoring a partition takes minutes),
ticks of the partitions, and reading the logs of the standbys.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Protocol

from recrawl.cluster.budget.worker_quotas import OwnedQuotas, WorkerQuotas
from recrawl.cluster.control_topic import BEGINS_ANEW, ControlLog
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.key_agreement import has_other_keys
from recrawl.cluster.members.membership import Members
from recrawl.cluster.members.versions import UPGRADE_SECONDS, VersionToWrite
from recrawl.cluster.placement import Place, PlacementRules, page_weight, place_partitions
from recrawl.cluster.presence import Presence
from recrawl.cluster.roles import (
    LostClaims,
    MoveKind,
    OwnershipNews,
    PartitionMove,
    UnownedPartitions,
    WorkerState,
    next_moves,
)
from recrawl.cluster.rules import OperatorRules
from recrawl.cluster.split_hosts.worker_hosts import OwnedHosts, WorkerHosts
from recrawl.errors import (
    IdentityError,
    OwnershipLost,
    PartitionAway,
    PartitionClosed,
    PositionLost,
    RecrawlError,
    UnknownEvent,
)
from recrawl.messages.cluster_metrics import MOVE_RESULTS, MoveCount
from recrawl.messages.partitions import OwnedPartition
from recrawl.units import seconds_text

__all__ = ["LEAVE_SECONDS_MAX", "OwnedCorpus", "Worker"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.1
_FOLLOW_SECONDS: Final = 0.2
_TICK_SECONDS: Final = 0.5
_QUOTA_SECONDS: Final = 0.25
_HOSTS_SECONDS: Final = 0.5
# Time in which operators, or other workers, may say what a control topic has lost.
_REPEAT_SECONDS: Final = 2.0
_N_RESTORES_MAX: Final = 2
_N_CLAIMS_MAX: Final = 8
_N_TICKS_MAX: Final = 8
LEAVE_SECONDS_MAX: Final = 15.0
"""Longest time for which a worker that ends waits until others have its partitions."""


class OwnedCorpus(Protocol):
    """What a worker needs of a `recrawl.corpus.Corpus`."""

    def open_partition(self, partition: int) -> None:
        """Claim a partition."""
        ...

    def stand_by(self, partition: int) -> None:
        """Restore a copy of a partition, or make an open partition one."""
        ...

    def follow_standby(self, partition: int) -> float:
        """Bring a copy up to date."""
        ...

    def close_standby(self, partition: int) -> None:
        """Give up a copy."""
        ...

    def close_partition(self, partition: int, *, snapshot: bool = True) -> None:
        """Close an open partition."""
        ...

    def open_partitions(self) -> list[int]:
        """Return the numbers of the open partitions."""
        ...

    def owned_partitions(self) -> dict[int, OwnedPartition]:
        """Return the open partitions that this process owns."""
        ...

    def standby_lags(self) -> dict[int, float]:
        """Return the seconds by which each copy is behind."""
        ...

    def follow_clock(self) -> None:
        """Follow the system clock as it is now, even if that is earlier than before."""
        ...

    def tick(self, partition: int) -> None:
        """Read claims of others, among other things."""
        ...

    def set_records_version(self, version: int) -> None:
        """Append only records that processes with this version of records can read."""
        ...


class Worker:
    """One worker of a cluster.

    Parameters
    ----------
    corpus
        Corpus whose partitions it opens and closes.
    log
        Control topic, which the worker closes in the end.
    n_partitions
        Number of partitions of the corpus.
    identity
        Heartbeat with what never changes while the worker runs: names, address and version.
    quotas
        Quotas of the corpus's partitions, if the workers share one budget.
    hosts
        Hosts that are split over partitions, of this worker and others.
    now_ms
        Function that returns the time of the corpus, in milliseconds since 1970.
    can_own
        Function that returns whether this machine can own partitions now.
    key_ids
        Function that returns the names of the cluster keys that this worker accepts.
    on_members
        Function that gets the workers that take part, at every look.
    on_replaced
        Function that is called once if a worker with the same name was started later: this one
        should end.
    monotonic
        Clock that never jumps, in seconds.
    wall_ms
        Clock of the machine, in milliseconds since 1970.
    upgrade_seconds
        Time for which all workers must have read a newer version of records before this one writes
        it.
    restores, claims, ticks
        Executors of long moves, of short ones, and of ticks; threads by default.
    """

    def __init__(  # noqa: PLR0913 (most are keywords)
        self,
        corpus: OwnedCorpus,
        log: ControlLog,
        n_partitions: int,
        identity: Heartbeat,
        *,
        quotas: OwnedQuotas | None = None,
        hosts: OwnedHosts | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        can_own: Callable[[], bool] = lambda: True,
        key_ids: Callable[[], tuple[str, ...]] = tuple,
        on_members: Callable[[Members], None] = lambda _: None,
        on_replaced: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        upgrade_seconds: float = UPGRADE_SECONDS,
        restores: Executor | None = None,
        claims: Executor | None = None,
        ticks: Executor | None = None,
    ) -> None:
        self._corpus = corpus
        self._n_partitions = n_partitions
        self._identity = identity
        self._can_own = can_own
        self._key_ids = key_ids
        self._has_other_keys = False
        self._on_members = on_members
        self._on_replaced: Callable[[], None] | None = on_replaced
        self._monotonic = monotonic
        self._restores = restores or ThreadPoolExecutor(_N_RESTORES_MAX, "recrawl-restore")
        self._claims = claims or ThreadPoolExecutor(_N_CLAIMS_MAX, "recrawl-claim")
        self._ticks = ticks or ThreadPoolExecutor(_N_TICKS_MAX, "recrawl-tick")
        self._publish = log.publish
        self._rules = OperatorRules()
        self._repeat_rules_at: float | None = None
        self._lost = LostClaims()
        self._n_moves: Counter[tuple[MoveKind, str]] = Counter()
        self._unowned = UnownedPartitions()
        self._news = OwnershipNews()
        self._busy: set[int] = set()
        self._ticking: set[int] = set()
        self._lock = threading.Lock()
        self._is_leaving = False
        self._is_able = True
        self._clock_ahead_seconds = 0.0
        self._had_wrong_clock = False
        self._reads_log = True
        self._version = VersionToWrite(upgrade_seconds)
        corpus.set_records_version(self._version.number)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._places: list[Place] = [Place(None, None)] * n_partitions
        self._placed_for: tuple[object, ...] | None = None
        self.quotas: WorkerQuotas | None = None
        """This worker's part in the common budget; None if there is none."""
        if quotas is not None:
            self.quotas = WorkerQuotas(quotas, n_partitions, log.publish, monotonic=monotonic)
        self.hosts = None if hosts is None else WorkerHosts(hosts, now_ms, log.publish)
        """This worker's part in the turns of split hosts; None if there are none."""
        self.presence = Presence(
            log, self._describe, self._hear, monotonic=monotonic, wall_ms=wall_ms
        )

    # ------------------------------------------------------------------ what others are told

    def _describe(self) -> Heartbeat:
        return replace(
            self._identity,
            owned=self._corpus.owned_partitions(),
            standby_seconds=self._corpus.standby_lags(),
            can_own=self._is_able,
            is_leaving=self._is_leaving,
            writes_version=self._version.number,
            reads_log=self._reads_log,
            clock_ahead_seconds=self._clock_ahead_seconds,
            key_ids=self._key_ids(),
            has_other_keys=self._has_other_keys,
        )

    def _hear(self, key: str, message: bytes) -> None:
        if key == BEGINS_ANEW:
            self._rules.begin_anew()
            self._repeat_rules_at = self._monotonic() + _REPEAT_SECONDS
        is_heard = self._rules.hear(key, message)
        for others in (self.quotas, self.hosts):
            is_heard = is_heard or (others is not None and others.hear(key, message))

    @property
    def name(self) -> str:
        """Name of the worker."""
        return self._identity.worker

    @property
    def reads_log(self) -> bool:
        """Whether it has met no record that a newer version wrote."""
        return self._reads_log

    @property
    def places(self) -> list[Place]:
        """Place of each partition, as of the last look."""
        return self._places

    def count_moves(self) -> tuple[MoveCount, ...]:
        """Return how many moves of each kind have ended in each way, since the start."""
        with self._lock:
            n_moves = dict(self._n_moves)
        return tuple(
            MoveCount(kind.value.replace(" ", "_"), result, n_moves.get((kind, result), 0))
            for kind in MoveKind
            for result in MOVE_RESULTS
        )

    @property
    def is_replaced(self) -> bool:
        """Whether a worker with the same name was started later; this one should end."""
        return self.presence.replaced_by is not None

    # ------------------------------------------------------------------ moves

    def step(self) -> None:
        """Look at what there is to do, and begin it."""
        members = self.presence.members
        self._on_members(members)
        if self.is_replaced and self._on_replaced is not None:
            on_replaced, self._on_replaced = self._on_replaced, None
            logger.error("another worker named %s was started, so this one ends", self.name)
            on_replaced()
        now = self._monotonic()
        self._compare_clocks()
        self._compare_keys(members)
        self._is_able = self._reads_log and self._agrees_with_others and self._can_own()
        self._choose_version(members, now)
        self._repeat_rules(members, now)
        self._place(members)
        with self._lock:
            owned = self._corpus.owned_partitions()
            state = WorkerState(
                worker=self.name,
                open_partitions=self._corpus.open_partitions(),
                owned=owned,
                standby_seconds=self._corpus.standby_lags(),
                busy=frozenset(self._busy),
                waiting=self._lost.partitions_that_wait(now),
                unowned_seconds=self._unowned.update(self._n_partitions, owned, members, now),
            )
            moves = next_moves(state, self._places, members)
            self._busy.update(move.partition for move in moves)
        self._tell_news()
        for move in moves:
            executor = self._restores if move.kind is MoveKind.FOLLOW else self._claims
            executor.submit(self._make, move)

    def _tell_news(self, *, ends: bool = False) -> None:
        """Log which partitions this worker has taken or given away."""
        # A command shows warnings by default, and an operator looks for these lines.
        owned = self._corpus.owned_partitions()
        if news := self._news.update(owned, self._monotonic(), ends=ends):
            logger.warning("%s", news)

    @property
    def _agrees_with_others(self) -> bool:
        """Whether this worker has the clock and a cluster key of most others."""
        return not (self._clock_ahead_seconds or self._has_other_keys)

    def _compare_clocks(self) -> None:
        """Give partitions to others while the clock of this machine differs from most of them."""
        before, ahead = self._clock_ahead_seconds, self.presence.clock_ahead_seconds
        self._clock_ahead_seconds = ahead
        if ahead:
            self._had_wrong_clock = True
            if not before:
                logger.error(
                    "the clock of this machine is %s %s those of most workers: until it is set, "
                    "this one gives its partitions to workers whose clocks agree, if there are any",
                    seconds_text(abs(ahead)),
                    "ahead of" if ahead > 0 else "behind",
                )
        elif self._had_wrong_clock and self.presence.clock_agrees:
            # Otherwise it would log the time of the wrong clock with its next claim.  If the others
            # are only gone, the clock may still be wrong.
            self._had_wrong_clock = False
            self._corpus.follow_clock()
            logger.warning("the clock of this machine agrees with those of the other workers now")

    def _compare_keys(self, members: Members) -> None:
        """Give partitions to others while most of them refuse what this worker forwards."""
        before = self._has_other_keys
        others = [one for one in members.present if one.worker != self.name]
        owns_any = bool(self._corpus.owned_partitions())
        self._has_other_keys = has_other_keys(self._key_ids(), others, owns_any=owns_any)
        if self._has_other_keys and not before:
            logger.error(
                "most workers have none of the cluster keys of this one, and refuse what it "
                "forwards: until it has their file of keys (--keys), this one gives its partitions "
                "to workers that agree, if there are any"
            )
        elif before and not self._has_other_keys:
            logger.warning("other workers have the cluster keys of this one now")

    def _choose_version(self, members: Members, now: float) -> None:
        """Write the newest version of records that all workers read."""
        before = self._version.number
        if (version := self._version.update(members, now)) != before:
            logger.warning("this worker now writes version %d of the log's records", version)
            self._corpus.set_records_version(version)

    def _repeat_rules(self, members: Members, now: float) -> None:
        """Say again what operators have decided, if the control topic has lost it."""
        if self._repeat_rules_at is None or members.is_frozen:
            return  # it may not have read yet what operators have decided since
        if now >= self._repeat_rules_at:
            self._repeat_rules_at = None
            for key, message in self._rules.take_lost():
                self._publish(key, message)

    def _note_unknown(self, partition: int, error: UnknownEvent) -> None:
        """Own no partitions any more, because a newer version has written to a log."""
        if self._reads_log:
            self._reads_log = False
            logger.error(
                "partition %d: this worker cannot read the log, so it gives its partitions to "
                "others; upgrade it: %s",
                partition,
                error,
            )

    def _place(self, members: Members) -> None:
        """Compute the places again, if what they follow from has changed."""
        weights = [page_weight(self.presence.n_pages_of(i)) for i in range(self._n_partitions)]
        unable = {one.worker for one in members.present if not one.can_own}
        if not self._agrees_with_others:
            unable.add(self.name)  # before the others know
        decided = self._rules.placement
        rules = PlacementRules(decided.pins, frozenset({*decided.drained, *unable}))
        given = weights, members.names, rules
        if given != self._placed_for:  # hundreds of partitions take tens of milliseconds
            self._places = place_partitions(weights, members.names, rules)
            self._placed_for = given

    def _make(self, move: PartitionMove) -> None:
        """Make a move; an error is logged, and the move tried again later."""
        i = move.partition
        result = "failed"
        try:
            self._make_move(move)
            result = "done"
        except PartitionClosed as error:
            self._wait_after(move, str(error))
        except PartitionAway:
            result = "lost"  # it was moved meanwhile
        except OwnershipLost:
            result = "lost"
            self._wait_after(move, "another worker claimed it at the same moment")
        except (RecrawlError, OSError) as error:
            if isinstance(error, UnknownEvent):
                self._note_unknown(i, error)
            self._wait_after(move, str(error))
        finally:
            with self._lock:
                self._n_moves[move.kind, result] += 1
                self._busy.discard(i)

    def _wait_after(self, move: PartitionMove, problem: str) -> None:
        with self._lock:
            seconds = self._lost.note_failure(move.partition, self._monotonic())
        logger.warning(
            "partition %d: the attempt to %s it failed, and the next one follows in %.0f s: %s",
            move.partition,
            move.kind,
            seconds,
            problem,
        )

    def _make_move(self, move: PartitionMove) -> None:
        corpus, i = self._corpus, move.partition
        match move.kind:
            case MoveKind.FOLLOW:
                corpus.stand_by(i)
            case MoveKind.CLAIM:
                corpus.open_partition(i)
                logger.info("partition %d: this worker owns it now", i)
                self.presence.beat_soon()
            case MoveKind.STEP_DOWN:
                if self._places[i].owner == self.name:
                    with self._lock:
                        self._lost.note_failure(i, self._monotonic())
                try:
                    corpus.stand_by(i)
                except RecrawlError:
                    # It has stopped after an error: another copy is restored from files.
                    corpus.close_partition(i, snapshot=False)
                logger.info("partition %d: this worker no longer owns it", i)
                self.presence.beat_soon()
            case MoveKind.GIVE_UP:
                corpus.close_standby(i)

    def tick_partitions(self) -> None:
        """Begin the ticks of all open partitions: one whose broker is away delays no other."""
        for i in self._corpus.open_partitions():
            with self._lock:
                if i in self._ticking:
                    continue
                self._ticking.add(i)
            self._ticks.submit(self._tick, i)

    def _tick(self, partition: int) -> None:
        try:
            self._corpus.tick(partition)
        except PartitionAway:
            pass  # it was moved meanwhile
        except (RecrawlError, OSError) as error:
            text, name = str(error), f"partition {partition}"
            logger.warning("%s", text if text.startswith(f"{name} ") else f"{name}: {text}")
        finally:
            with self._lock:
                self._ticking.discard(partition)

    def follow_standbys(self) -> None:
        """Bring all standbys up to date."""
        for i in self._corpus.standby_lags():
            if self._stopping.is_set():
                return
            try:
                self._corpus.follow_standby(i)
            except PartitionAway:
                continue  # it was moved meanwhile
            except (PositionLost, IdentityError) as error:
                logger.warning("partition %d: the copy is restored again: %s", i, error)
                self._corpus.close_standby(i)
            except UnknownEvent as error:
                self._note_unknown(i, error)
                self._corpus.close_standby(i)
                with self._lock:
                    self._lost.note_failure(i, self._monotonic())
            except (RecrawlError, OSError) as error:
                logger.warning("partition %d: its log cannot be followed: %s", i, error)

    # ------------------------------------------------------------------ threads

    def start(self) -> None:
        """Take part, in threads, until `stop`."""
        self.presence.start()
        repeated = [
            ("recrawl-worker", self.step, _LOOK_SECONDS),
            ("recrawl-ticks", self.tick_partitions, _TICK_SECONDS),
            ("recrawl-standbys", self.follow_standbys, _FOLLOW_SECONDS),
        ]
        if self.quotas is not None:
            repeated.append(("recrawl-quotas", self.quotas.step, _QUOTA_SECONDS))
        if self.hosts is not None:
            repeated.append(("recrawl-hosts", self.hosts.step, _HOSTS_SECONDS))
        for name, do, seconds in repeated:
            thread = threading.Thread(
                target=self._repeat, args=(do, seconds), name=name, daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def _repeat(self, do: Callable[[], None], seconds: float) -> None:
        while not self._stopping.wait(seconds):
            try:
                do()
            except Exception:  # the thread must live as long as the worker
                logger.exception("a step of this worker failed, and is tried again")
                self._stopping.wait(1.0)

    def leave(self, seconds_max: float = LEAVE_SECONDS_MAX) -> bool:
        """Tell the others to claim the partitions of this worker, and wait until they have.

        Parameters
        ----------
        seconds_max
            Longest time to wait.

        Returns
        -------
        bool
            Whether another worker owns each partition now; False without another worker.
        """
        if self.is_replaced:
            return False  # it has no voice any more; the other one claims what it should own
        self._is_leaving = True
        self.presence.beat_soon()
        give_up_at = self._monotonic() + seconds_max
        while self._corpus.open_partitions() and self._monotonic() < give_up_at:
            members = self.presence.members
            if not members.is_frozen and not members.present:
                return False  # nobody is there to take them
            self._stopping.wait(_LOOK_SECONDS)
        return not self._corpus.open_partitions()

    def stop(self, *, says_goodbye: bool = True) -> None:
        """End the threads, after the moves under way; the corpus stays open.

        Parameters
        ----------
        says_goodbye
            Whether to tell the others, so that they need not wait until it counts as gone.
        """
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for executor in (self._restores, self._claims, self._ticks):
            executor.shutdown(cancel_futures=True)
        self._tell_news(ends=True)
        self.presence.stop(says_goodbye=says_goodbye)
