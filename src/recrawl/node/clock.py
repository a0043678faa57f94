"""Time as a node sees it: the machine's clock, but never backwards.

Shard time only grows, and is in the log.  A machine's clock may be set back, and is when it was
wrong.  So a node goes by the machine's clock while that is ahead of what was logged, and
otherwise by how long it has been running.
"""

import threading
import time
from typing import Protocol

__all__ = ["Clock", "NodeTime", "SystemClock"]


# The year 2057: the seconds that pages are kept in end with 2058.
_WALL_MS_MAX = 2_745_000_000_000


class Clock(Protocol):
    """Where a node reads the time; tests and replays bring their own."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as the machine has them; may jump either way."""
        ...

    def running_ms(self) -> int:
        """Return milliseconds since some moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def running_ms(self) -> int:
        """Return milliseconds since the machine started."""
        return time.monotonic_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class NodeTime:
    """A node's time: that of the machine's clock, as long as that does not go back.

    A clock set back by an hour leaves a node an hour ahead; it goes on at the pace of real time
    until the clock has caught up.

    Parameters
    ----------
    clock
        Of the machine.
    not_before_ms
        The time that the log has reached already.
    """

    def __init__(self, clock: Clock, not_before_ms: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offset_ms = not_before_ms - clock.running_ms()
        self.now_ms()

    def now_ms(self) -> int:
        """Return milliseconds since 1970, no less than ever before."""
        with self._lock:
            # In this order: whatever happens between the two readings makes the offset smaller,
            # so that interruptions do not add up to a clock that runs ahead.
            wall_ms = self._clock.wall_ms()
            if wall_ms > _WALL_MS_MAX:
                wall_ms = 0  # a clock that is wrong by decades is not followed
            running_ms = self._clock.running_ms()
            self._offset_ms = max(self._offset_ms, wall_ms - running_ms)
            return running_ms + self._offset_ms

    @property
    def ahead_ms(self) -> int:
        """How far this is ahead of the machine's clock."""
        return max(self.now_ms() - self._clock.wall_ms(), 0)
