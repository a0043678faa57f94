"""Some pages that stand for all: how a corpus too large to be looked at whole is looked at.

Each kind of page is divided into as many stretches as pages are wanted of it, and from each
stretch a hash chooses one.  So small kinds are seen as well as large ones, pages added at about
the same time are seen in proportion, and the same corpus gives the same sample.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Tables

__all__ = ["PageSample", "sample_of"]

_SALT = 0x5EED_5A3B
# Kept and fetched from time to time; not given up, nor closed to us.
_COUNTED = (PageStatus.NEW, PageStatus.ACTIVE, PageStatus.GONE, PageStatus.MOVED)
# Of a sample, kept for kinds too small to be seen otherwise.
_SHARE_OF_SMALL = 0.5
# Slots looked at together.
_SLOTS_AT_ONCE = 1 << 17


class PageSample(NamedTuple):
    """Slots of pages that are kept and fetched, and how many pages each stands for."""

    slot: RowArray
    n_pages: FloatArray

    @property
    def is_all(self) -> bool:
        """Whether every page is there."""
        return bool((self.n_pages == 1.0).all())


def _counted_by_kind(tables: Tables) -> Iterator[tuple[RowArray, CountArray]]:
    """Yield some slots that count, those of a kind together, and how many there are of each."""
    pages, n_slots = tables.pages, int(tables.registers.n_slots[0])
    n_kinds = tables.priors.shape.size
    is_counted = np.zeros(256, np.bool_)
    is_counted[list(_COUNTED)] = True
    for first in range(0, n_slots, _SLOTS_AT_ONCE):
        part = slice(first, min(first + _SLOTS_AT_ONCE, n_slots))
        slot = np.flatnonzero(is_counted[pages.status[part]])
        if n_kinds == 1:
            yield first + slot, np.array([slot.size])
            continue
        kind = pages.kind[part][slot]
        # Of 16-bit numbers this is a radix sort.
        yield first + slot[np.argsort(kind, kind="stable")], np.bincount(kind, minlength=n_kinds)


def _choices(kind: int, n_pages: int, n_wanted: int) -> RowArray:
    """Return which pages of a kind are chosen: one from each of so many stretches."""
    stretch = np.arange(n_wanted + 1)
    edge = stretch * n_pages // n_wanted
    share = _hashed(stretch[:-1].astype(np.uint64) + (np.uint64(_SALT + kind) << np.uint64(32)))
    chosen: RowArray = edge[:-1] + (share * np.diff(edge)).astype(np.int64)
    return chosen


def _hashed(number: NDArray[np.uint64]) -> FloatArray:
    """Return shares from 0 to 1 that look random and depend on the numbers only."""
    # The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    h = number * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    share: FloatArray = ((h ^ (h >> np.uint64(31))) >> np.uint64(11)).astype(np.float64)
    share *= 2.0**-53
    return share


def sample_of(tables: Tables, n_max: int) -> PageSample:
    """Return about ``n_max`` pages that stand for all, or all of them if they are no more.

    Parameters
    ----------
    tables
        Of one shard.
    n_max
        Pages wanted.
    """
    n_pages = np.zeros(tables.priors.shape.size, np.int64)
    for _, n_of_kind in _counted_by_kind(tables):
        n_pages += n_of_kind
    n_wanted = _wanted(n_pages, n_max)
    choices = {
        int(kind): _choices(int(kind), int(n_pages[kind]), int(n_wanted[kind]))
        for kind in np.flatnonzero(n_wanted)
    }
    seen = np.zeros_like(n_pages)
    found = [np.empty(0, np.int64)]
    for slot, n_of_kind in _counted_by_kind(tables):
        begin = np.cumsum(n_of_kind) - n_of_kind
        for kind in np.flatnonzero(n_of_kind).tolist():
            before = int(seen[kind])
            chosen = choices[kind]
            first, end = np.searchsorted(chosen, [before, before + n_of_kind[kind]])
            found.append(slot[begin[kind] - before + chosen[first:end]])
        seen += n_of_kind
    slots = np.sort(np.concatenate(found))
    each = n_pages / np.maximum(n_wanted, 1)
    return PageSample(slots, each[tables.pages.kind[slots]])


def _wanted(n_pages: CountArray, n_max: int) -> CountArray:
    """Return how many pages of each kind to look at."""
    total = int(n_pages.sum())
    if total <= n_max:
        return n_pages
    least = int(_SHARE_OF_SMALL * n_max / np.count_nonzero(n_pages))
    in_proportion = np.rint(n_pages * (n_max / total)).astype(np.int64)
    wanted: CountArray = np.minimum(n_pages, np.maximum(in_proportion, max(least, 1)))
    return wanted
