"""A clock that advances with every reading, so that no test depends on the machine's speed."""

import itertools
import time

import pytest


class ReadingClock:
    """A clock that advances by one millisecond at every reading, and by every sleep."""

    def __init__(self) -> None:
        self._started_ms = time.time_ns() // 1_000_000
        self._readings = itertools.count(1)
        self._slept_ms = 0

    def wall_ms(self) -> int:
        return self._started_ms + self.running_ms()

    def running_ms(self) -> int:
        return next(self._readings) + self._slept_ms

    def sleep(self, seconds: float) -> None:
        self._slept_ms += round(seconds * 1000)


@pytest.fixture(autouse=True)
def reading_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a `ReadingClock` wherever a test of this folder opens a corpus without a clock.

    A node learns priors and earns budget as time passes: with the system clock, results would
    depend on how long the calls take.
    """
    clock = ReadingClock()
    monkeypatch.setattr("recrawl.corpus.opening.SystemClock", lambda: clock)
