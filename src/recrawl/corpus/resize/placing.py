"""Choose the slots of pages in new partitions, also while the old ones still change.

New slots have no gaps: a page that goes away makes room for one that comes, and otherwise for the
last one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.store.resize.copying import PageMoves

__all__ = ["PlaceChanges", "PlacedPages"]

I64 = NDArray[np.int64]


class PlaceChanges(NamedTuple):
    """What has changed in the places of pages."""

    added: list[I64]
    """Slots of each old partition whose pages have a new place, in ascending order."""
    vacated: list[I64]
    """Slots of each new partition that pages have left, in ascending order."""
    moved_to: list[I64]
    """Where the page of each of these slots is now, -1 if it is in no slot."""


class PlacedPages:
    """The places of all pages.

    Parameters
    ----------
    n_olds, n_news
        Numbers of old and of new partitions.
    """

    def __init__(self, n_olds: int, n_news: int) -> None:
        self.moves = [PageMoves(np.empty(0, np.int64), np.empty(0, np.int64))] * n_olds
        """Places of the pages of each old partition."""
        self._n_slots = np.zeros(n_news, np.int64)

    def update(
        self, wanted: Sequence[I64], is_new: Sequence[NDArray[np.bool_]] | None = None
    ) -> PlaceChanges:
        """Choose places for pages without one, and forget those of pages that went away.

        Parameters
        ----------
        wanted
            New partition of each slot of each old partition, -1 for an empty slot.
        is_new
            Whether a slot has another page than before; by default none has.
        """
        moves = [
            PageMoves(_extend(one.partition, slots.size), _extend(one.slot, slots.size))
            for one, slots in zip(self.moves, wanted, strict=True)
        ]
        left = [
            (one.slot >= 0) & (one.partition != slots)
            for one, slots in zip(moves, wanted, strict=True)
        ]
        if is_new is not None:
            left = [
                gone | (other & (one.slot >= 0))
                for gone, other, one in zip(left, is_new, moves, strict=True)
            ]
        n_news = self._n_slots.size
        n_slots = sum(np.bincount(slots[slots >= 0], minlength=n_news) for slots in wanted)
        n_slots = np.zeros(n_news, np.int64) + n_slots
        # The last pages move into gaps.
        is_after = [
            (one.slot >= 0) & (one.slot >= n_slots[np.maximum(one.partition, 0)]) & ~gone
            for one, gone in zip(moves, left, strict=True)
        ]
        vacated: list[list[I64]] = [[] for _ in range(n_news)]
        for one, gone, after in zip(moves, left, is_after, strict=True):
            rows = np.flatnonzero(gone | after)
            for new in range(n_news):
                vacated[new].append(one.slot[rows[one.partition[rows] == new]])
        old_slots = [one.slot.copy() for one in moves]
        for one, gone, after in zip(moves, left, is_after, strict=True):
            one.slot[gone | after] = one.partition[gone | after] = -1
        added = [
            np.flatnonzero((slots >= 0) & (one.slot < 0))
            for one, slots in zip(moves, wanted, strict=True)
        ]
        empty = [np.sort(np.concatenate(parts)) for parts in vacated]
        free = [
            np.append(slots[slots < n_slots[new]], np.arange(self._n_slots[new], n_slots[new]))
            for new, slots in enumerate(empty)
        ]
        taken = np.zeros(n_news, np.int64)
        for one, slots, rows in zip(moves, wanted, added, strict=True):
            one.partition[rows] = slots[rows]
            for new in range(n_news):
                here = rows[slots[rows] == new]
                one.slot[here] = free[new][taken[new] : taken[new] + here.size]
                taken[new] += here.size
        moved_to = [np.full(slots.size, -1, np.int64) for slots in empty]
        for one, before, after in zip(moves, old_slots, is_after, strict=True):
            rows = np.flatnonzero(after)
            for new in range(n_news):
                here = rows[one.partition[rows] == new]
                moved_to[new][np.searchsorted(empty[new], before[here])] = one.slot[here]
        self.moves, self._n_slots = moves, n_slots
        return PlaceChanges(added, empty, moved_to)


def _extend(column: I64, n: int) -> I64:
    """Return a copy with ``n`` rows, where new rows are -1."""
    longer = np.full(n, -1, np.int64)
    longer[: min(n, column.size)] = column[:n]
    return longer
