"""Whether the clock of a worker agrees with those of most others.

Time in the log of a partition never goes back.  A worker whose clock is an hour ahead would end all
leases and all delays of hosts in the partitions that it claims, and in all others of the workers
that claim these after it.  And workers refuse what it forwards.  So it must not own partitions.

Every heartbeat has the time at which it was sent.  A worker compares those of others with its own
one that follows in the topic, so neither its pauses nor those of the topic matter.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from recrawl.cluster.members.heartbeats import Heartbeat

__all__ = ["CLOCK_SECONDS_MAX", "ClockComparison"]

CLOCK_SECONDS_MAX: Final = 60.0
"""Largest difference between two clocks that agree; signatures of requests are valid as long."""
# A clock that differed agrees again below this share of it.  Otherwise a worker whose clock is near
# the limit would take partitions and lose them in turn.
_AGREES_SHARE: Final = 0.5
# Own heartbeats after which another worker that is silent no longer counts.
_BEATS_MAX: Final = 5
# Comparisons in a row that must say the same: one heartbeat may have been sent late.
_COMPARISONS_MIN: Final = 2


class _Compared(NamedTuple):
    ahead_seconds: float
    """Time by which the own clock is ahead."""
    owns_any: bool
    beat: int
    """Number of the own heartbeat that it was compared with."""


class ClockComparison:
    """The clocks of other workers, compared with that of one worker."""

    def __init__(self) -> None:
        self._heard: dict[str, Heartbeat] = {}
        self._compared: dict[str, _Compared] = {}
        self._n_beats = 0
        self._n_wrong = 0
        self.ahead_seconds = 0.0
        """Time by which the own clock is ahead of most others; 0 if it agrees with enough."""
        self.agrees = False
        """Whether the own clock was compared just now, and agrees with enough others."""

    def hear(self, heartbeat: Heartbeat, *, is_own: bool) -> None:
        """Take note of a heartbeat, in the order of the topic.

        Parameters
        ----------
        heartbeat
            Heartbeat that was read; those of older versions do not say when they were sent.
        is_own
            Whether this worker has sent it, since its present start.
        """
        if not heartbeat.sent_at_ms:
            return
        if not is_own:
            self._heard[heartbeat.worker] = heartbeat
            return
        self._n_beats += 1
        for name, one in self._heard.items():
            seconds = (heartbeat.sent_at_ms - one.sent_at_ms) / 1000
            self._compared[name] = _Compared(seconds, bool(one.owned), self._n_beats)
        # The first time, the topic has heartbeats from before, also of workers that are gone.
        is_first = self._n_beats == 1
        self._compared = {
            name: one
            for name, one in self._compared.items()
            if not is_first and self._n_beats - one.beat < _BEATS_MAX
        }
        self._heard.clear()
        if self._compared:
            self._judge(self._compared, owns_any=bool(heartbeat.owned))
        else:  # the others are gone, and maybe it was them whose clocks were wrong
            self._n_wrong, self.ahead_seconds, self.agrees = 0, 0.0, False

    def _judge(self, others: Mapping[str, _Compared], *, owns_any: bool) -> None:
        seconds_max = CLOCK_SECONDS_MAX * (_AGREES_SHARE if self.ahead_seconds else 1.0)
        differing = [one for one in others.values() if abs(one.ahead_seconds) > seconds_max]
        n_agreeing = 1 + len(others) - len(differing)
        # Of two that differ, the one that has partitions goes on.
        has_less = not owns_any and any(one.owns_any for one in differing)
        is_wrong = len(differing) > n_agreeing or (len(differing) == n_agreeing and has_less)
        self.agrees = not is_wrong
        self._n_wrong = self._n_wrong + 1 if is_wrong else 0
        if not is_wrong:
            self.ahead_seconds = 0.0
        elif self._n_wrong >= _COMPARISONS_MIN:
            seconds = sorted(one.ahead_seconds for one in differing)
            self.ahead_seconds = seconds[len(seconds) // 2]
