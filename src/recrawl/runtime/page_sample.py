"""Some pages that stand for all: how a corpus too large to be looked at whole is looked at.

Each kind of page is divided into as many stretches as pages are wanted of it, and from each
stretch a hash chooses one.  So small kinds are seen as well as large ones, pages added at about
the same time are seen in proportion, and the same corpus gives the same sample.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core._arrays import CountArray, FloatArray, RowArray
from recrawl.core._kernel import table_kernel
from recrawl.core.belief.codes import dither_of
from recrawl.shard.status import PageStatus
from recrawl.shard.tables import Tables
from recrawl.shard.words import number_of

__all__ = ["PageSample", "sample_of"]

_SALT = 0x5EED_5A3B
# Kept and fetched from time to time; not given up, nor closed to us.
_NEW, _ACTIVE, _GONE, _MOVED = (
    int(PageStatus.NEW),
    int(PageStatus.ACTIVE),
    int(PageStatus.GONE),
    int(PageStatus.MOVED),
)
# Of a sample, kept for kinds too small to be seen otherwise.
_SHARE_OF_SMALL = 0.5


class PageSample(NamedTuple):
    """Slots of pages that are kept and fetched, and how many pages each stands for."""

    slot: RowArray
    n_pages: FloatArray

    @property
    def is_all(self) -> bool:
        """Whether every page is there."""
        return bool((self.n_pages == 1.0).all())


@table_kernel
def _is_counted(status: int) -> bool:
    return status in (_NEW, _ACTIVE, _GONE, _MOVED)


@table_kernel
def _count_kinds(
    status: NDArray[np.uint8], kind: NDArray[np.uint16], n_slots: int, out: CountArray
) -> None:
    for slot in range(n_slots):
        if _is_counted(status[slot]):
            out[kind[slot]] += 1


@table_kernel
def _choice_of(kind: int, stretch: int, n_pages: int, n_wanted: int) -> int:
    """Return which page of its kind is chosen from a stretch."""
    first = stretch * n_pages // n_wanted
    end = (stretch + 1) * n_pages // n_wanted
    return first + int(dither_of(_SALT + kind, stretch) * (end - first))


@table_kernel
def _choose(
    status: NDArray[np.uint8],
    kind: NDArray[np.uint16],
    n_slots: int,
    n_pages: CountArray,
    n_wanted: CountArray,
    seen: CountArray,
    chosen: CountArray,
    n_chosen: CountArray,
    out: RowArray,
) -> None:
    for k in range(n_pages.size):
        if n_wanted[k] > 0:
            chosen[k] = _choice_of(k, 0, n_pages[k], n_wanted[k])
    n = 0
    for slot in range(n_slots):
        if not _is_counted(status[slot]):
            continue
        k = number_of(kind[slot])
        if seen[k] == chosen[k] and n_chosen[k] < n_wanted[k]:
            out[n] = slot
            n += 1
            n_chosen[k] += 1
            if n_chosen[k] < n_wanted[k]:
                chosen[k] = _choice_of(k, n_chosen[k], n_pages[k], n_wanted[k])
        seen[k] += 1


def sample_of(tables: Tables, n_max: int) -> PageSample:
    """Return about ``n_max`` pages that stand for all, or all of them if they are no more.

    Parameters
    ----------
    tables
        Of one shard.
    n_max
        Pages wanted.
    """
    pages, n_slots = tables.pages, int(tables.registers.n_slots[0])
    n_pages = np.zeros(tables.priors.shape.size, np.int64)
    _count_kinds(pages.status, pages.kind, n_slots, n_pages)
    n_wanted = _wanted(n_pages, n_max)
    slot = np.empty(int(n_wanted.sum()), np.int64)
    seen, chosen, n_chosen = (np.zeros_like(n_pages) for _ in range(3))
    _choose(pages.status, pages.kind, n_slots, n_pages, n_wanted, seen, chosen, n_chosen, slot)
    each = n_pages / np.maximum(n_wanted, 1)
    return PageSample(slot, each[pages.kind[slot]])


def _wanted(n_pages: CountArray, n_max: int) -> CountArray:
    """Return how many pages of each kind to look at."""
    total = int(n_pages.sum())
    if total <= n_max:
        return n_pages
    least = int(_SHARE_OF_SMALL * n_max / np.count_nonzero(n_pages))
    in_proportion = np.rint(n_pages * (n_max / total)).astype(np.int64)
    wanted: CountArray = np.minimum(n_pages, np.maximum(in_proportion, max(least, 1)))
    return wanted
