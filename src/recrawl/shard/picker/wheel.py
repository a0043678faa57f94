"""A timing wheel of pages that are due soon: buckets of linked entries, 8 bytes an entry.

Bucket n holds the pages due from n * width to (n + 1) * width seconds.  Entries are never removed
from the middle of a bucket, so a page may be in the wheel twice, or with an outdated due time; the
caller checks every page that it takes out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = [
    "N_BUCKETS",
    "W_DRAINED",
    "W_FREE",
    "W_SIZE",
    "W_TOUCHED",
    "Wheel",
    "empty_wheel",
    "grow_wheel",
    "take_ahead",
    "take_due",
    "wheel_add",
    "wheel_pages",
]

N_BUCKETS = 2_048
# Indices in `Wheel.gauge`.
W_FREE = 0
"""First free entry; -1 for none."""
W_SIZE = 1
"""Number of entries in use."""
W_DRAINED = 2
"""Number of the latest bucket that `take_due` has reached."""
W_TOUCHED = 3
"""Number of entries ever added or taken."""


class Wheel(NamedTuple):
    """Pages by due time, in buckets of ``width`` seconds."""

    head: NDArray[np.int32]
    """First entry of each bucket; -1 for none."""
    slot: NDArray[np.uint32]
    """Slot of the page of each entry."""
    following: NDArray[np.int32]
    """Next entry of the same bucket, or next free entry; -1 for none."""
    gauge: NDArray[np.int64]
    """Counters; see the ``W_`` constants."""
    width: float


def empty_wheel(width: float, now: float, n_entries: int = 1_024) -> Wheel:
    """Return an empty wheel that starts at ``now``."""
    following = np.arange(1, n_entries + 1, dtype=np.int32)
    following[-1] = -1
    gauge = np.array([0, 0, int(now / width), 0], np.int64)
    head = np.full(N_BUCKETS, -1, np.int32)
    return Wheel(head, np.zeros(n_entries, np.uint32), following, gauge, width)


def grow_wheel(wheel: Wheel) -> Wheel:
    """Return the wheel with room for twice as many entries."""
    size = wheel.slot.size
    following = np.arange(1, 2 * size + 1, dtype=np.int32)
    following[:size] = wheel.following
    following[-1] = wheel.gauge[W_FREE]
    wheel.gauge[W_FREE] = size
    slot = np.zeros(2 * size, np.uint32)
    slot[:size] = wheel.slot
    return wheel._replace(slot=slot, following=following)


@table_kernel
def wheel_add(wheel: Wheel, slot: int, due: float) -> None:
    """Add a page due at an instant, unless that is too far ahead; there must be a free entry.

    A page already due goes into the next bucket that `take_due` will reach.
    """
    drained = wheel.gauge[W_DRAINED]
    bucket = drained + 1
    if due > bucket * wheel.width:
        if due >= (drained + N_BUCKETS) * wheel.width:
            return
        bucket = int(due / wheel.width)
    e = wheel.gauge[W_FREE]
    wheel.gauge[W_FREE] = wheel.following[e]
    wheel.gauge[W_SIZE] += 1
    wheel.gauge[W_TOUCHED] += 1
    wheel.slot[e] = slot
    wheel.following[e] = wheel.head[bucket % N_BUCKETS]
    wheel.head[bucket % N_BUCKETS] = e


@table_kernel
def _take(wheel: Wheel, bucket: int) -> int:
    """Take an entry out of a bucket and return its page; -1 if the bucket is empty."""
    e = int(wheel.head[bucket % N_BUCKETS])
    if e < 0:
        return -1
    wheel.head[bucket % N_BUCKETS] = wheel.following[e]
    wheel.following[e] = wheel.gauge[W_FREE]
    wheel.gauge[W_FREE] = e
    wheel.gauge[W_SIZE] -= 1
    wheel.gauge[W_TOUCHED] += 1
    return int(wheel.slot[e])


@table_kernel
def take_due(wheel: Wheel, now: float, out: NDArray[np.int64]) -> int:
    """Take out due pages and return their number; if ``out`` is full, there may be more."""
    n = 0
    present = int(now / wheel.width)
    bucket = max(int(wheel.gauge[W_DRAINED]), present - N_BUCKETS)
    while True:
        wheel.gauge[W_DRAINED] = bucket
        while n < out.size and wheel.head[bucket % N_BUCKETS] >= 0:
            out[n] = _take(wheel, bucket)
            n += 1
        if n == out.size or bucket >= present:
            return n
        bucket += 1


@table_kernel
def take_ahead(wheel: Wheel, bucket: int, n_wanted: int, out: NDArray[np.int64]) -> tuple[int, int]:
    """Take out the next pages, from a bucket on, until at least ``n_wanted`` are found.

    Takes whole buckets as far as ``out`` has room.  Returns the bucket to continue with, and the
    number of pages.
    """
    n = 0
    last = wheel.gauge[W_DRAINED] + N_BUCKETS
    while bucket < last and n < n_wanted and wheel.gauge[W_SIZE] > 0:
        while n < out.size and wheel.head[bucket % N_BUCKETS] >= 0:
            out[n] = _take(wheel, bucket)
            n += 1
        bucket += 1
    return bucket, n


@table_kernel
def wheel_pages(wheel: Wheel, out: NDArray[np.int64]) -> int:
    """Write the pages of a wheel into ``out``, in no order; return their number."""
    n = 0
    for bucket in range(N_BUCKETS):
        e = wheel.head[bucket]
        while e >= 0:
            out[n] = wheel.slot[e]
            n += 1
            e = wheel.following[e]
    return n
