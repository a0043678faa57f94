"""A stratified sample of the pages of a large corpus.

The pages of each kind, in the order of their slots, are divided into equal ranges, and a hash
chooses one page from each range.  So small kinds are represented, too; pages added at about the
same time are represented in proportion; and the same corpus always gives the same sample.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Tables

__all__ = ["PageSample", "ReadTables", "is_fetched", "sample_in_steps", "sample_of", "sample_slots"]

_SALT = 0x5EED_5A3B
# Statuses of pages that are fetched from time to time.
_COUNTED = (PageStatus.NEW, PageStatus.ACTIVE, PageStatus.GONE, PageStatus.MOVED)
# Share of a sample reserved for kinds that would be too small otherwise.
_SHARE_OF_SMALL = 0.5
# Slots processed together.
_SLOTS_AT_ONCE = 1 << 17


ReadTables: TypeAlias = Callable[[], AbstractContextManager[Tables]]
"""A function that returns the tables of a shard, for a block in which nobody changes them."""


class PageSample(NamedTuple):
    """Slots of sampled pages, and the number of pages that each represents."""

    slot: RowArray
    n_pages: FloatArray

    @property
    def is_all(self) -> bool:
        """Whether the sample has every page."""
        return bool((self.n_pages == 1.0).all())


def _slots_by_kind(
    read: ReadTables, n_slots: int, n_kinds: int
) -> Iterator[tuple[RowArray, CountArray]]:
    """Yield slots of fetched pages in parts, sorted by kind, and the number of each kind."""
    is_counted = np.zeros(256, np.bool_)
    is_counted[list(_COUNTED)] = True
    for first in range(0, n_slots, _SLOTS_AT_ONCE):
        part = slice(first, min(first + _SLOTS_AT_ONCE, n_slots))
        with read() as tables:
            status = tables.pages.status[part].copy()
            all_kinds = tables.pages.kind[part].copy() if n_kinds > 1 else None
        slot = np.flatnonzero(is_counted[status])
        if all_kinds is None:
            yield first + slot, np.array([slot.size])
            continue
        kind = all_kinds[slot]
        is_new = kind >= n_kinds  # of pages that were added meanwhile
        if is_new.any():
            slot, kind = slot[~is_new], kind[~is_new]
        # A stable sort of 16-bit numbers is a radix sort, which is fast.
        yield first + slot[np.argsort(kind, kind="stable")], np.bincount(kind, minlength=n_kinds)


def _choices(kind: int, n_pages: int, n_wanted: int) -> RowArray:
    """Return the chosen pages, one from each of ``n_wanted`` ranges, as indices in the kind."""
    index = np.arange(n_wanted + 1)
    edge = index * n_pages // n_wanted
    share = _hash_to_unit(index[:-1].astype(np.uint64) + (np.uint64(_SALT + kind) << np.uint64(32)))
    chosen: RowArray = edge[:-1] + (share * np.diff(edge)).astype(np.int64)
    return chosen


def _hash_to_unit(number: NDArray[np.uint64]) -> FloatArray:
    """Return pseudo-random values from 0 to 1 that depend only on the numbers."""
    # The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    h = number * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    share: FloatArray = ((h ^ (h >> np.uint64(31))) >> np.uint64(11)).astype(np.float64)
    share *= 2.0**-53
    return share


def sample_of(tables: Tables, n_max: int) -> PageSample:
    """Return a sample of about ``n_max`` pages, or all pages if there are no more.

    Parameters
    ----------
    tables
        Tables of one shard.
    n_max
        Size of the sample.
    """
    return sample_in_steps(lambda: nullcontext(tables), n_max)


def sample_in_steps(read: ReadTables, n_max: int) -> PageSample:
    """Return the sample of `sample_of`, from tables that are read a part at a time.

    Between two parts pages may change.  The sample may then have pages that are no longer fetched
    (see `is_fetched`), and lack some that are new.

    Parameters
    ----------
    read
        Function that returns the tables of one shard; each time for less than a millisecond.
    n_max
        Size of the sample.
    """
    with read() as tables:
        n_slots = int(tables.registers.n_slots[0])
        n_kinds = tables.priors.shape.size
    n_pages = np.zeros(n_kinds, np.int64)
    for _, n_of_kind in _slots_by_kind(read, n_slots, n_kinds):
        n_pages += n_of_kind
    n_wanted = _sample_sizes(n_pages, n_max)
    choices = {
        int(kind): _choices(int(kind), int(n_pages[kind]), int(n_wanted[kind]))
        for kind in np.flatnonzero(n_wanted)
    }
    seen = np.zeros_like(n_pages)
    each = n_pages / np.maximum(n_wanted, 1)
    found, represented = [np.empty(0, np.int64)], [np.empty(0)]
    for slot, n_of_kind in _slots_by_kind(read, n_slots, n_kinds):
        begin = np.cumsum(n_of_kind) - n_of_kind
        for kind in np.flatnonzero(n_of_kind).tolist():
            if kind not in choices:
                continue  # all its pages were added meanwhile
            before = int(seen[kind])
            chosen = choices[kind]
            first, end = np.searchsorted(chosen, [before, before + n_of_kind[kind]])
            found.append(slot[begin[kind] - before + chosen[first:end]])
            represented.append(np.full(end - first, each[kind]))
        seen += n_of_kind
    slots = np.concatenate(found)
    order = np.argsort(slots)
    return PageSample(slots[order], np.concatenate(represented)[order])


def is_fetched(status: NDArray[np.uint8]) -> FlagArray:
    """Return which pages are fetched from time to time, so that a sample may have them."""
    return np.isin(status, _COUNTED)


def _sample_sizes(n_pages: CountArray, n_max: int) -> CountArray:
    """Return the number of pages of each kind in a sample."""
    total = int(n_pages.sum())
    if total <= n_max:
        return n_pages
    least = int(_SHARE_OF_SMALL * n_max / np.count_nonzero(n_pages))
    in_proportion = np.rint(n_pages * (n_max / total)).astype(np.int64)
    wanted: CountArray = np.minimum(n_pages, np.maximum(in_proportion, max(least, 1)))
    return wanted


def sample_slots(tables: Tables, n_max: int) -> PageSample:
    """Return a sample of the slots of all kinds together, in a time that depends on its size alone.

    Parameters
    ----------
    tables
        Tables of one shard.
    n_max
        Size of the sample; slots of pages that are no longer fetched are left out of it.
    """
    n_slots = int(tables.registers.n_slots[0])
    n_wanted = min(n_slots, n_max)
    slot = _choices(0, n_slots, n_wanted) if n_wanted else np.empty(0, np.int64)
    slot = slot[is_fetched(tables.pages.status[slot])]
    return PageSample(slot, np.full(slot.size, n_slots / max(n_wanted, 1)))
