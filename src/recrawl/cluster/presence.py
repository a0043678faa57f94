"""Take part in a cluster: tell the others every second, and know who takes part."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from recrawl.cluster.control_topic import ControlLog
from recrawl.cluster.members.clocks import ClockComparison
from recrawl.cluster.members.heartbeats import Heartbeat
from recrawl.cluster.members.membership import Members, Membership
from recrawl.errors import LedgerError

__all__ = ["BEAT_SECONDS", "Presence", "heartbeat_of"]

logger = logging.getLogger(__name__)

BEAT_SECONDS: Final = 1.0
"""Time between two heartbeats."""
_LOOK_SECONDS: Final = 0.1
_KEY: Final = "worker/"


def heartbeat_of(key: str, message: bytes) -> Heartbeat | None:
    """Return the heartbeat in a message of the control topic; None if it is another one."""
    heartbeat = Heartbeat.from_bytes(message) if key.startswith(_KEY) else None
    return heartbeat if heartbeat is not None and key == _KEY + heartbeat.worker else None


class Presence:
    """One worker's part in a cluster.

    Parameters
    ----------
    log
        Where heartbeats are written and read.
    describe
        Function that returns the heartbeat to send now; its worker and instance never change.
    hear_other
        Function that gets the keys and messages that are no heartbeats, in the order of the log.
    monotonic
        Clock that never jumps, in seconds.
    wall_ms
        Clock of the machine, in milliseconds since 1970, which is compared with those of others.
    """

    def __init__(
        self,
        log: ControlLog,
        describe: Callable[[], Heartbeat],
        hear_other: Callable[[str, bytes], None] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._clocks = ClockComparison()
        self._log = log
        self._describe = describe
        self._hear_other = hear_other
        self._monotonic = monotonic
        own = describe()
        self._key = _KEY + own.worker
        self._membership = Membership(own.worker, own.start)
        self._beat_at = -1e9
        self._members = Members((), True)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def members(self) -> Members:
        """Who takes part, as of the last step."""
        return self._members

    @property
    def replaced_by(self) -> Heartbeat | None:
        """A later start of a worker with the same name; this one should end."""
        return self._membership.replaced_by

    @property
    def clock_ahead_seconds(self) -> float:
        """Seconds by which the clock is ahead of most others; 0 if it agrees with enough."""
        return self._clocks.ahead_seconds

    @property
    def clock_agrees(self) -> bool:
        """Whether the clock agrees with others; also False if there is nothing to compare with."""
        return self._clocks.agrees

    def n_pages_of(self, partition: int) -> int:
        """Return the number of pages of a partition; see `Membership.n_pages_of`."""
        return self._membership.n_pages_of(partition)

    def beat_soon(self) -> None:
        """Send a heartbeat with the next step, because something has changed."""
        self._beat_at = -1e9

    def step(self) -> Members:
        """Send a heartbeat if it is time, read what has come, and return who takes part."""
        now = self._monotonic()
        if now - self._beat_at >= BEAT_SECONDS and self.replaced_by is None:
            # Not the time at which it was due: after a pause no heartbeats are sent to catch up.
            self._beat_at = now
            own = replace(
                self._describe(),
                started_at_ms=self._membership.start[0],
                sent_at_ms=self._wall_ms(),
            )
            self._log.publish(self._key, own.to_bytes())
        for key, message in self._log.read():
            heartbeat = heartbeat_of(key, message)
            if heartbeat is not None:
                self._membership.hear(heartbeat, self._monotonic())
                if key != self._key:
                    self._clocks.hear(heartbeat, is_own=False)
                elif heartbeat.start == self._membership.start:
                    self._clocks.hear(heartbeat, is_own=True)
            elif self._hear_other is not None and not key.startswith(_KEY):
                self._hear_other(key, message)
        self._members = self._membership.members(self._monotonic())
        return self._members

    def start(self) -> None:
        """Do a step several times a second, in a thread, until `stop`."""
        self._thread = threading.Thread(target=self._run, name="recrawl-presence", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.step()
            except LedgerError as error:
                logger.warning("the cluster cannot be reached, and is tried again: %s", error)
                self._stopping.wait(BEAT_SECONDS)

    def stop(self, *, says_goodbye: bool = True) -> None:
        """End, and close the log.

        Parameters
        ----------
        says_goodbye
            Whether to tell the others, so that they need not wait until it counts as gone.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if says_goodbye and self.replaced_by is None:
            own = self._describe()
            last = Heartbeat(
                worker=own.worker,
                instance=own.instance,
                started_at_ms=self._membership.start[0],
                version=own.version,
                is_leaving=True,
                reads_version=own.reads_version,
                writes_version=own.writes_version,
            )
            self._log.publish(self._key, last.to_bytes())
        self._log.close()
