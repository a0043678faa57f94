"""The time of a node: the system clock, but never backwards, and not in jumps.

The time of a shard is in the log and only increases, but a system clock may be set back.  So a node
uses the system clock while that is ahead of the logged time, and otherwise adds the time since it
started to the logged time.

A system clock may also be wrong by years, and one such reading in the log would move the corpus
ahead for ever.  So a node compares it with the time since the machine started, which nobody sets.
It follows a clock that moves ahead of that only once it has stayed there for
`JUMP_BELIEVED_SECONDS`.  When a process starts there is nothing to compare with; `check_gap` then
limits the time since the last record.
"""

import logging
import threading
import time
from typing import Protocol

from recrawl.errors import ClockError
from recrawl.units import instant_text, seconds_text

__all__ = [
    "GAP_SECONDS_MAX",
    "JUMP_BELIEVED_SECONDS",
    "JUMP_SECONDS_MAX",
    "Clock",
    "NodeTime",
    "SystemClock",
    "check_gap",
    "true_time",
]

logger = logging.getLogger(__name__)

GAP_SECONDS_MAX = 30 * 86_400.0
"""Default limit of the time between the last record and the next opening of the corpus."""
JUMP_SECONDS_MAX = 60.0
"""Time by which the system clock may move ahead of the running clock without being held back."""
JUMP_BELIEVED_SECONDS = 3_600.0
"""Time after which a clock that has moved ahead is followed, if it is less than the gap ahead."""

# The end of 2056: page columns hold seconds since 1990 and overflow in 2058.
_WALL_MS_MAX = 2_745_000_000_000
# The end of 2019: a clock that says less was never set.
_WALL_MS_MIN = 1_577_836_800_000
# Two clocks of a machine differ by at most one part in this many.
_DRIFT_PARTS = 1_000


class Clock(Protocol):
    """Time source of a node; tests and replays use their own."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 by the system clock, which may jump either way."""
        ...

    def running_ms(self) -> int:
        """Return milliseconds since an arbitrary moment, which never decrease.

        They should go on while the machine sleeps.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


# Linux counts sleep only in CLOCK_BOOTTIME, macOS in CLOCK_MONOTONIC.
_RUNNING = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def _running_ns() -> int:
    """Return nanoseconds since the machine started, as far as the system counts while it sleeps."""
    return time.monotonic_ns() if _RUNNING is None else time.clock_gettime_ns(_RUNNING)


class SystemClock:
    """The clock of the operating system."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def running_ms(self) -> int:
        """Return milliseconds since the machine started, including those in which it slept."""
        return _running_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)


class NodeTime:
    """The time of a node: that of the system clock, but never backwards, and not in jumps.

    If the clock is set back by an hour, the node is an hour ahead of it; its time advances at the
    pace of real time until the clock has caught up.

    If the clock moves ahead of the running clock by more than `JUMP_SECONDS_MAX`, the node's time
    advances at the pace of real time as well.  It follows the clock once this has stayed there for
    `JUMP_BELIEVED_SECONDS`, and never if it is more than ``gap_seconds_max`` ahead.

    Parameters
    ----------
    clock
        Time source.
    not_before_ms
        Earliest time to return: the time of the last record in the log.
    gap_seconds_max
        Largest jump of the clock that is ever followed.
    """

    def __init__(
        self, clock: Clock, not_before_ms: int, *, gap_seconds_max: float = GAP_SECONDS_MAX
    ) -> None:
        self._clock = clock
        self._gap_ms_max = gap_seconds_max * 1000
        self._lock = threading.Lock()
        self.restart(not_before_ms)

    def restart(self, not_before_ms: int) -> None:
        """Follow the system clock as it is now, even if this is earlier than before."""
        with self._lock:
            wall_ms = self._read_wall()
            running_ms = self._clock.running_ms()
            self._offset_ms = max(wall_ms, not_before_ms) - running_ms
            self._anchor_ms, self._anchored_at = self._offset_ms, running_ms
            self._jump_ms: int | None = None  # the offset of a clock that is held back
            self._jumped_at = 0
            self._is_reported = False

    def now_ms(self) -> int:
        """Return milliseconds since 1970, which never decrease."""
        with self._lock:
            # In this order: a pause between the two readings makes the offset smaller, so pauses
            # cannot make the node's time run ahead.
            wall_ms = self._read_wall()
            running_ms = self._clock.running_ms()
            offset_ms = wall_ms - running_ms
            if self._jump_ms is None and offset_ms <= self._offset_ms:
                return running_ms + self._offset_ms  # nearly always, because the clock is right
            if self._is_believed(offset_ms, running_ms):
                self._offset_ms = max(self._offset_ms, offset_ms)
            return running_ms + self._offset_ms

    def _read_wall(self) -> int:
        wall_ms = self._clock.wall_ms()
        return 0 if wall_ms > _WALL_MS_MAX else wall_ms  # ignore a clock that is wrong by decades

    def _is_believed(self, offset_ms: int, running_ms: int) -> bool:
        """Return whether to follow a system clock that is this far from the running clock."""
        jump_ms = offset_ms - self._anchor_ms
        drift_ms = (running_ms - self._anchored_at) // _DRIFT_PARTS
        if jump_ms <= JUMP_SECONDS_MAX * 1000 + drift_ms:
            self._jump_ms = None
            return True
        if self._jump_ms is None or abs(offset_ms - self._jump_ms) > JUMP_SECONDS_MAX * 1000:
            self._jump_ms, self._jumped_at = offset_ms, running_ms
            self._report(jump_ms)
        has_stayed = running_ms - self._jumped_at >= JUMP_BELIEVED_SECONDS * 1000
        if not has_stayed or jump_ms > self._gap_ms_max:
            return False
        self._anchor_ms, self._anchored_at = offset_ms, running_ms
        self._jump_ms = None
        self._is_reported = False
        logger.warning(
            "the system clock has stayed %s ahead; the corpus follows it now",
            seconds_text(jump_ms / 1000),
        )
        return True

    def _report(self, jump_ms: int) -> None:
        if self._is_reported:
            return
        self._is_reported = True
        logger.warning(
            "the system clock moved ahead by %s within this process, while the time since the "
            "machine started did not; the corpus goes on at the pace of real time",
            seconds_text(jump_ms / 1000),
        )

    @property
    def ahead_ms(self) -> int:
        """Milliseconds by which the node's time is ahead of the system clock."""
        return max(self.now_ms() - self._clock.wall_ms(), 0)

    @property
    def held_back_ms(self) -> int:
        """Milliseconds by which the system clock is ahead of the node's time, which it jumped."""
        now_ms = self.now_ms()
        return 0 if self._jump_ms is None else max(self._clock.wall_ms() - now_ms, 0)


def check_gap(clock: Clock, last_ms: int, gap_seconds_max: float, command: str) -> None:
    """Raise `ClockError` if the system clock is too far ahead of the last record of the log.

    Parameters
    ----------
    clock
        Time source.
    last_ms
        Time of the last record; 0 if there is none.
    gap_seconds_max
        Longest time since the last record.
    command
        Command that accepts the time of the clock, for the message.
    """
    wall_ms = clock.wall_ms()
    gap_seconds = (wall_ms - last_ms) / 1000
    if last_ms <= 0 or gap_seconds <= gap_seconds_max:
        return
    raise ClockError(
        f"the system clock says {instant_text(wall_ms)} UTC, and the last change of the corpus was "
        f"at {instant_text(last_ms)} UTC: {seconds_text(gap_seconds)} earlier, more than "
        f"clock.gap_max ({seconds_text(gap_seconds_max)}).  Nothing was changed.\n"
        "If the clock is wrong, correct it.  If it is right and nobody used the corpus for so "
        f"long, run `{command}` once."
    )


def true_time(clock: Clock) -> int:
    """Return the time of the system clock, in milliseconds; raise `ClockError` if it was not set.

    The caller relies on it, even if the log has later times.
    """
    wall_ms = clock.wall_ms()
    if not _WALL_MS_MIN < wall_ms < _WALL_MS_MAX:
        raise ClockError(
            f"the system clock says {instant_text(wall_ms)} UTC, which cannot be true.  Nothing "
            "was changed.\nSet the clock first."
        )
    return wall_ms
