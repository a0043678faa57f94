"""What a worker does next with each partition: follow it, claim it, or give it up.

A worker that should own a partition first follows its log as a standby, and claims it when it is
less than a second behind.  The worker that owned it before goes on until it reads that claim.  So
there is no moment without an owner when a partition moves, and when an owner dies, its standby only
has to claim.  If an owner dies and is started again at once, its standby claims, too, until the
owner has restored its copy.

A decision is a function of what the worker knows.  If it knows wrong things, or two workers decide
differently, claims in the log still give each partition one owner; only time is lost.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from recrawl.cluster.members.membership import Members
from recrawl.cluster.placement import Place

__all__ = [
    "CLAIM_LAG_SECONDS_MAX",
    "LostClaims",
    "MoveKind",
    "OwnershipNews",
    "PartitionMove",
    "UnownedPartitions",
    "WorkerState",
    "next_moves",
    "partitions_text",
]

CLAIM_LAG_SECONDS_MAX: Final = 1.0
"""Seconds that a standby may be behind its log when it claims the partition."""
# A standby that is further behind does not count as one.
_READY_SECONDS_MAX: Final = 10.0
# Time without an owner after which the standby claims a partition, although another worker should
# own it: at first if that has no copy of it yet, and then in any case.
_UNOWNED_SECONDS_MAX: Final = 1.0
_UNCLAIMED_SECONDS_MAX: Final = 6.0
_WAIT_SECONDS_MIN: Final = 2.0
_WAIT_SECONDS_MAX: Final = 60.0
_NEWS_SECONDS: Final = 1.0
_SHOWN_MAX: Final = 20
# A claim that has held for this long was no mistake.
_HELD_SECONDS: Final = 60.0


class MoveKind(StrEnum):
    """What a worker can do with a partition."""

    FOLLOW = "follow"
    """Restore a copy of it, and follow its log."""
    CLAIM = "claim"
    """Make the standby the owner."""
    STEP_DOWN = "step down"
    """Make the partition a standby, because another worker has claimed it."""
    GIVE_UP = "give up"
    """Close the standby."""


class PartitionMove(NamedTuple):
    """What a worker should do with one partition."""

    kind: MoveKind
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker has at a moment.

    Parameters
    ----------
    worker
        Name of the worker.
    open_partitions
        Partitions that are open for all calls.
    owned
        Partitions among these that it still owns by what it has read.
    standby_seconds
        Seconds by which its standbys are behind, by partition.
    busy
        Partitions with which a move is under way.
    waiting
        Partitions that it must not claim or follow yet.
    unowned_seconds
        Seconds for which no worker has told that it owns a partition, by partition.
    """

    worker: str
    open_partitions: Collection[int]
    owned: Collection[int]
    standby_seconds: Mapping[int, float]
    busy: Collection[int] = ()
    waiting: Collection[int] = ()
    unowned_seconds: Mapping[int, float] = field(default_factory=dict)


def next_moves(
    state: WorkerState, places: Sequence[Place], members: Members
) -> list[PartitionMove]:
    """Return what a worker should do now, at most one move for each partition.

    Parameters
    ----------
    state
        State of the worker.
    places
        Place of each partition.
    members
        Workers that take part, as this one sees it.  If that is frozen, it claims nothing and gives
        nothing up.
    """
    moves = []
    ready = _ready_standbys(members, state.worker)
    owned_elsewhere = {
        i for one in members.present if one.worker != state.worker for i in one.owned
    }
    # One that is leaving, or has no space, has no places, and must not claim either.
    is_able = all(
        one.can_own and not one.is_leaving for one in members.present if one.worker == state.worker
    )
    for i, place in enumerate(places):
        if i in state.busy:
            continue
        is_placed = state.worker in place
        kind = None
        if i in state.open_partitions:
            if i not in state.owned:
                kind = MoveKind.STEP_DOWN
        elif members.is_frozen:
            pass
        elif i in state.standby_seconds:
            is_near = state.standby_seconds[i] <= CLAIM_LAG_SECONDS_MAX
            is_mine = place.owner == state.worker or (
                _stands_in(state, i, place, ready) and (is_placed or is_able)
            )
            if is_mine and is_near and i not in state.waiting:
                kind = MoveKind.CLAIM
            elif not is_placed and i in owned_elsewhere:
                # Until another worker is ready, this copy is the one that would take over.
                is_ready = place.standby is None or place.standby in ready.get(i, ())
                kind = MoveKind.GIVE_UP if is_ready else None
        elif is_placed and i not in state.waiting:
            kind = MoveKind.FOLLOW
        if kind is not None:
            moves.append(PartitionMove(kind, i))
    return moves


def _stands_in(
    state: WorkerState, partition: int, place: Place, ready: Mapping[int, set[str]]
) -> bool:
    """Return whether a standby should claim a partition until its owner can.

    A worker that was started again takes part at once, and owns nothing before it has restored its
    copies; nobody else would claim its partitions meanwhile.  If an owner dies after others have
    joined, the only copies may be where the partition has no place any more.
    """
    others = ready.get(partition, set())
    is_ready = place.owner in others
    seconds = state.unowned_seconds.get(partition, 0.0)
    if state.worker not in place:
        has_place = is_ready or place.standby in others
        is_first = all(state.worker < one for one in others)
        return not has_place and is_first and seconds >= _UNOWNED_SECONDS_MAX
    seconds_max = _UNCLAIMED_SECONDS_MAX if is_ready else _UNOWNED_SECONDS_MAX
    return place.standby == state.worker and seconds >= seconds_max


def _ready_standbys(members: Members, worker: str) -> dict[int, set[str]]:
    """Return the other workers that could take over each partition at once."""
    ready: dict[int, set[str]] = {}
    for one in members.present:
        for i, seconds in one.standby_seconds.items():
            if one.worker != worker and seconds <= _READY_SECONDS_MAX:
                ready.setdefault(i, set()).add(one.worker)
    return ready


@dataclass(slots=True)
class UnownedPartitions:
    """For how long no worker has owned each partition, as far as a worker knows."""

    _since: dict[int, float] = field(default_factory=dict)

    def update(
        self, n_partitions: int, owned: Collection[int], members: Members, now: float
    ) -> dict[int, float]:
        """Take note of what workers own now; return the seconds for which nobody owned a partition.

        Parameters
        ----------
        n_partitions
            Number of partitions.
        owned
            Partitions that this worker owns.
        members
            Workers that take part, as this one sees it; if that is frozen, it knows nothing.
        now
            Time of a clock that never jumps, in seconds.
        """
        if members.is_frozen:
            self._since.clear()
            return {}
        told = {i for one in (*members.present, *members.leaving) for i in one.owned}
        told.update(owned)
        self._since = {i: self._since.get(i, now) for i in range(n_partitions) if i not in told}
        return {i: now - since for i, since in self._since.items()}


class OwnershipNews:
    """What a worker says about the partitions that it has taken or given away.

    Moves of one second are said together: a worker that begins takes dozens.
    """

    def __init__(self) -> None:
        self._told: set[int] = set()
        self._changed_at: float | None = None

    def update(self, owned: Iterable[int], now: float, *, ends: bool = False) -> str | None:
        """Return a sentence if the owned partitions have changed a second ago.

        Parameters
        ----------
        owned
            Partitions that the worker owns.
        now
            Time of a clock that never jumps, in seconds.
        ends
            Whether this is the last call, so that a change is said at once.
        """
        present = set(owned)
        if present == self._told:
            self._changed_at = None
            return None
        if self._changed_at is None:
            self._changed_at = now
        if now - self._changed_at < _NEWS_SECONDS and not ends:
            return None
        taken, given = sorted(present - self._told), sorted(self._told - present)
        self._told, self._changed_at = present, None
        what = [f"took {partitions_text(taken)}"] if taken else []
        what += [f"gave away {partitions_text(given)}"] if given else []
        return f"this worker {' and '.join(what)}; it now owns {partitions_text(sorted(present))}"


def partitions_text(partitions: Sequence[int]) -> str:
    """Return the numbers of partitions in words, at most twenty of them.

    Parameters
    ----------
    partitions
        Numbers, in order.
    """
    if not partitions:
        return "no partition"
    shown = ", ".join(map(str, partitions[:_SHOWN_MAX]))
    rest = f" and {len(partitions) - _SHOWN_MAX} more" if len(partitions) > _SHOWN_MAX else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{rest}"


@dataclass(slots=True)
class LostClaims:
    """When a worker may try again after it has failed to own or follow a partition.

    The time doubles with each failure, so that two workers that both think that they should own a
    partition do not claim it in turn for ever.
    """

    _n_failures: dict[int, int] = field(default_factory=dict)
    _until: dict[int, float] = field(default_factory=dict)

    def note_failure(self, partition: int, now: float) -> float:
        """Take note of a failure; return the seconds until the next attempt.

        Parameters
        ----------
        partition
            Number of the partition.
        now
            Time of a clock that never jumps, in seconds.
        """
        if now > self._until.get(partition, now) + _HELD_SECONDS:
            self._n_failures.pop(partition, None)
        n = self._n_failures.get(partition, 0)
        self._n_failures[partition] = n + 1
        seconds = min(_WAIT_SECONDS_MIN * 2.0 ** min(n, 10), _WAIT_SECONDS_MAX)
        self._until[partition] = now + seconds
        return seconds

    def partitions_that_wait(self, now: float) -> set[int]:
        """Return the partitions whose next attempt is later than now."""
        return {i for i, until in self._until.items() if now < until}
