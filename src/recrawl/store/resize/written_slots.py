"""The slots of a store whose pages were written since somebody looked last.

One byte per slot, so it needs no limit: a copy that is being made of the store is brought up to
date by reading these pages again.
"""

from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.shard.events import slot_of_page
from recrawl.store.batch import StoreBatch

__all__ = ["WrittenPages", "WrittenSlots"]

_VALUES: Final = np.uint8(1)
_NAMES: Final = np.uint8(2)


class WrittenPages(NamedTuple):
    """Flags of each slot; there are none for slots that were never used."""

    has_new_values: NDArray[np.bool_]
    """Whether fetch record, user data or memory of the page were written."""
    has_new_page: NDArray[np.bool_]
    """Whether a page was added or removed."""

    @classmethod
    def of_flags(cls, flags: NDArray[np.uint8], n_slots: int) -> Self:
        """Return the flags of the first slots."""
        whole = np.zeros(n_slots, np.uint8)
        n_known = min(n_slots, flags.size)
        whole[:n_known] = flags[:n_known]
        return cls((whole & _VALUES) > 0, (whole & _NAMES) > 0)


class WrittenSlots:
    """Remembers which slots were written."""

    def __init__(self) -> None:
        self._flags = np.zeros(0, np.uint8)

    def add(self, batch: StoreBatch) -> None:
        """Remember the slots of the pages that a batch writes."""
        for _, rows in batch.added:
            self._mark(rows.page, _NAMES)
        for _, page in batch.removed:
            self._mark(page, _NAMES)
        for page, _ in batch.contents:
            self._mark(page, _VALUES)
        for page, _, _ in batch.user_data:
            self._mark(page, _VALUES)
        if batch.content_rows:
            self._mark(np.array([row.page for row in batch.content_rows], np.int64), _VALUES)

    def take(self, n_slots: int) -> WrittenPages:
        """Return the flags of the first slots, and forget all."""
        flags, self._flags = self._flags, np.zeros(self._flags.size, np.uint8)
        return WrittenPages.of_flags(flags, n_slots)

    def _mark(self, page: NDArray[np.int64], flag: np.uint8) -> None:
        slot = slot_of_page(page[page >= 0])
        if slot.size == 0:
            return
        if (size := int(slot.max()) + 1) > self._flags.size:
            flags = np.zeros(max(size, 2 * self._flags.size), np.uint8)
            flags[: self._flags.size] = self._flags
            self._flags = flags
        self._flags[slot] |= flag
