"""Who takes part in a cluster, as one worker sees it.

A worker counts as gone after some seconds without a heartbeat, by the clock of the worker that
reads.  But a reader that gets no heartbeats may itself be cut off, have stood still, or read a
topic whose broker is away.  It would take the others for dead.  So it counts nobody as gone unless
it has read its *own* heartbeats all that time: then the way through the topic was open.  Otherwise
its view is frozen: nobody joins it or is gone, and owners go on with what they own.  What the
workers in it tell still counts, so that calls find partitions that moved just before.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.ledger.contract import N_PARTITIONS_MAX

__all__ = ["GAP_SECONDS_MAX", "SILENCE_SECONDS_MAX", "WORKERS_MAX", "Members", "Membership"]

SILENCE_SECONDS_MAX: Final = 5.0
"""Time without a heartbeat after which a worker counts as gone."""
GAP_SECONDS_MAX: Final = 2.0
"""Longest time between two of its own heartbeats for which a worker trusts what it reads."""
WORKERS_MAX: Final = 1_024
"""Largest number of workers; heartbeats of others are not read."""


class Members(NamedTuple):
    """The workers of a cluster at a moment."""

    present: tuple[Heartbeat, ...]
    """Last heartbeat of each worker that takes part, by name."""
    is_frozen: bool
    """Whether the reader cannot tell who is gone; then these are the workers it last knew, each
    with its last heartbeat."""
    leaving: tuple[Heartbeat, ...] = ()
    """Last heartbeat of each worker that is about to end, and may still own partitions."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers."""
        return tuple(one.worker for one in self.present)


class _Heard(NamedTuple):
    heartbeat: Heartbeat
    at: float


class Membership:
    """What one worker knows of all workers.

    Times are seconds of a clock that never jumps, such as `time.monotonic`.

    Parameters
    ----------
    worker
        Name of the worker that reads.
    start
        Present start of that worker, see `Heartbeat.start`, by its clock.
    """

    def __init__(self, worker: str, start: tuple[int, str]) -> None:
        self._worker = worker
        self._start = start
        self._heard: dict[str, _Heard] = {}
        self._own_at: deque[float] = deque(maxlen=64)
        self._members = Members((), True)
        self._replaced_by: Heartbeat | None = None
        self._n_pages: dict[int, int] = {}

    @property
    def start(self) -> tuple[int, str]:
        """The present start of this worker, later than those that the topic had before it."""
        return self._start

    @property
    def replaced_by(self) -> Heartbeat | None:
        """A later start of a worker with the same name, which takes the place of this one."""
        return self._replaced_by

    def hear(self, heartbeat: Heartbeat, now: float) -> None:
        """Take note of a heartbeat, in the order of the topic.

        Parameters
        ----------
        heartbeat
            Heartbeat that was read.
        now
            Time at which it was read.
        """
        is_own = heartbeat.worker == self._worker
        if is_own and not self._own_at and heartbeat.start > self._start:
            # What comes before the first heartbeat of its own is of an earlier start, whatever the
            # clock of that one said.
            self._start = (heartbeat.started_at_ms + 1, self._start[1])
        before = self._heard.get(heartbeat.worker)
        latest = self._start if is_own else heartbeat.start
        if before is not None:
            latest = max(latest, before.heartbeat.start)
        if heartbeat.start < latest:
            return  # of an earlier start, which has been replaced
        if before is None and len(self._heard) >= WORKERS_MAX:
            return
        self._heard[heartbeat.worker] = _Heard(heartbeat, now)
        for i, owned in heartbeat.owned.items():
            if 0 <= i < N_PARTITIONS_MAX:
                self._n_pages[i] = owned.n_pages
        if is_own and heartbeat.start == self._start:
            self._own_at.append(now)
        elif is_own:
            self._replaced_by = heartbeat

    def members(self, now: float) -> Members:
        """Return who takes part.

        Parameters
        ----------
        now
            Time at which everything before it has been read.
        """
        if not self._hears_itself(now):
            known = (*self._members.present, *self._members.leaving)
            self._members = _members_of(
                (self._heard[one.worker].heartbeat for one in known), is_frozen=True
            )
            return self._members
        for name, heard in list(self._heard.items()):
            if now - heard.at > SILENCE_SECONDS_MAX:
                del self._heard[name]
        self._members = _members_of(
            (heard.heartbeat for heard in self._heard.values()), is_frozen=False
        )
        return self._members

    def n_pages_of(self, partition: int) -> int:
        """Return the number of pages of a partition that an owner told last; 0 if none did.

        Also what a worker told that is gone: if weights changed when a worker dies, its partitions
        would not go to their standbys.
        """
        return self._n_pages.get(partition, 0)

    def _hears_itself(self, now: float) -> bool:
        """Return whether its own heartbeats have come without a gap for long enough."""
        later = now
        for at in reversed(self._own_at):
            if later - at > GAP_SECONDS_MAX:
                return False
            if now - at >= SILENCE_SECONDS_MAX:
                return True
            later = at
        return False


def _members_of(heartbeats: Iterable[Heartbeat], *, is_frozen: bool) -> Members:
    by_name = sorted(heartbeats, key=lambda one: one.worker)
    present = tuple(one for one in by_name if not one.is_leaving)
    leaving = tuple(one for one in by_name if one.is_leaving)
    return Members(present, is_frozen, leaving)
