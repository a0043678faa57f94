"""The time of a node: the system clock, but never backwards.

The time of a shard is in the log and only increases, but a system clock may be set back.  So a node
uses the system clock while that is ahead of the logged time, and otherwise adds the time since it
started to the logged time.
"""

import threading
import time
from typing import Protocol

__all__ = ["Clock", "NodeTime", "SystemClock"]


# The end of 2056: page columns hold seconds since 1990 and overflow in 2058.
_WALL_MS_MAX = 2_745_000_000_000


class Clock(Protocol):
    """Time source of a node; tests and replays use their own."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 by the system clock, which may jump either way."""
        ...

    def running_ms(self) -> int:
        """Return milliseconds since an arbitrary moment, which never decrease."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def running_ms(self) -> int:
        """Return milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)


class NodeTime:
    """The time of a node: that of the system clock, but never backwards.

    If the clock is set back by an hour, the node is an hour ahead of it; its time advances at the
    pace of real time until the clock has caught up.

    Parameters
    ----------
    clock
        Time source.
    not_before_ms
        Earliest time to return: the time of the last record in the log.
    """

    def __init__(self, clock: Clock, not_before_ms: int) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._offset_ms = not_before_ms - clock.running_ms()
        self.now_ms()

    def now_ms(self) -> int:
        """Return milliseconds since 1970, which never decrease."""
        with self._lock:
            # In this order: a pause between the two readings makes the offset smaller, so pauses
            # cannot make the node's time run ahead.
            wall_ms = self._clock.wall_ms()
            if wall_ms > _WALL_MS_MAX:
                wall_ms = 0  # ignore a clock that is wrong by decades
            running_ms = self._clock.running_ms()
            self._offset_ms = max(self._offset_ms, wall_ms - running_ms)
            return running_ms + self._offset_ms

    @property
    def ahead_ms(self) -> int:
        """Milliseconds by which the node's time is ahead of the system clock."""
        return max(self.now_ms() - self._clock.wall_ms(), 0)
