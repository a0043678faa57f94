"""Windows of time in which fetches of a simulated web fail, per page and per group."""

from dataclasses import dataclass

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.draws import Stream, exponential_of, key_of, uniform_of
from recrawl.sim.web.times import Windows

__all__ = ["Failures", "fails_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Working and failing spans that alternate, both of exponential length.

    Parameters
    ----------
    share
        Share of time in which fetches fail.
    seconds
        Mean length of a failure.
    """

    share: float = 0.03
    seconds: float = 3_600.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share must be at least 0 and below 1, got {self.share!r}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds!r}")

    def of_pages(self, seed: int, n_pages: int, horizon: float) -> Windows:
        """Return the failures of single pages."""
        return self._windows(seed, Stream.ERRORS, n_pages, horizon)

    def of_groups(self, seed: int, n_groups: int, horizon: float) -> Windows:
        """Return the failures of whole groups."""
        return self._windows(seed, Stream.OUTAGES, n_groups, horizon)

    def _windows(self, seed: int, stream: int, n_entities: int, horizon: float) -> Windows:
        if self.share == 0.0:
            return Windows.none(n_entities)
        return Windows(
            *_alternate(seed, stream, n_entities, self.share, self.seconds, float(horizon))
        )


@kernel
def _alternate(
    seed: int, stream: int, n_entities: int, share: float, seconds: float, horizon: float
) -> tuple[CountArray, FloatArray, FloatArray]:
    working_seconds = seconds * (1.0 - share) / share
    offsets = np.zeros(n_entities + 1, np.int64)
    n_expected = n_entities * (1.0 + horizon / (seconds + working_seconds))
    start = np.empty(int(1.2 * n_expected) + 1024)
    end = np.empty(start.size)
    used = 0
    for entity in range(n_entities):
        key = key_of(seed, stream, entity)
        # Exponential spans are memoryless, so only the state at the start must be drawn.
        instant = 0.0
        if uniform_of(key, 0) >= share:
            instant = working_seconds * exponential_of(key, 1)
        counter = 2
        while instant < horizon:
            if used == start.size:
                start = np.concatenate((start, np.empty(used)))
                end = np.concatenate((end, np.empty(used)))
            start[used] = instant
            end[used] = instant + seconds * exponential_of(key, counter)
            instant = end[used] + working_seconds * exponential_of(key, counter + 1)
            counter += 2
            used += 1
        offsets[entity + 1] = used
    return offsets, start[:used].copy(), end[:used].copy()


@kernel
def fails_at(windows: Windows, entity: int, at: float) -> bool:
    """Return whether the entity fails at an instant."""
    low = windows.offsets[entity]
    high = windows.offsets[entity + 1]
    while low < high:  # the first window that ends after the instant
        middle = (low + high) // 2
        if windows.end[middle] > at:
            high = middle
        else:
            low = middle + 1
    return bool(low < windows.offsets[entity + 1] and windows.start[low] <= at)
