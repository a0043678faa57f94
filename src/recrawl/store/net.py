"""What remains of the pages that a batch adds and removes, in the end."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.batch import AddedPages, StoreBatch
from recrawl.store.keys import PageArray, slot_of, strings_of
from recrawl.store.texts import texts_of

__all__ = ["NetPages", "net_pages"]

_NOTHING = AddedPages(np.empty(0, np.int64), pa.nulls(0, pa.string()), pa.nulls(0, pa.string()))


class NetPages(NamedTuple):
    """The difference that a batch makes."""

    added: AddedPages
    """Pages that are there afterwards and were not before, in the order in which they came."""
    removed: PageArray
    """Pages of the store that are there no more."""
    removed_url: pa.StringArray
    emptied: PageArray
    """Slots that are empty afterwards."""


def net_pages(kv: KeyValues, batch: StoreBatch) -> NetPages:
    """Return the difference that a batch makes to the pages of a store."""
    added = _concatenated([rows for _, rows in batch.added])
    if not batch.removed and (len(batch.added) < 2 or _are_distinct(slot_of(added.page))):
        nothing = np.empty(0, np.int64)
        return NetPages(added, nothing, _NOTHING.url, nothing)
    removed = np.concatenate([np.empty(0, np.int64), *(page for _, page in batch.removed)])
    stored = texts_of(kv, removed)
    turn = np.concatenate(
        [np.full(rows.page.size, turn) for turn, rows in batch.added]
        + [np.full(page.size, turn) for turn, page in batch.removed]
    )
    slot = slot_of(np.concatenate([added.page, removed]))
    order = np.lexsort((turn, slot))
    is_kept, was_removed = _walked(added.page, removed, stored, slot[order], order)
    rows = np.flatnonzero(is_kept)
    gone = np.flatnonzero(was_removed)
    kept = AddedPages(
        added.page[rows], added.url.take(pa.array(rows)), added.fetch_url.take(pa.array(rows))
    )
    # Also those that were added and removed in this batch: a part of it may have been written.
    emptied = np.setdiff1d(slot, slot_of(kept.page))
    emptied = np.intersect1d(emptied, np.concatenate([slot_of(removed[gone]), slot_of(added.page)]))
    texts = strings_of([stored[i] for i in gone.tolist()])
    return NetPages(kept, removed[gone], texts, emptied)


def _walked(
    added: PageArray,
    removed: PageArray,
    stored: list[bytes | None],
    slots: PageArray,
    order: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Go through what happens to each slot in turn.

    Parameters
    ----------
    stored
        The URLs that the store has of removed pages, None where it has other pages or none.
    slots, order
        Sorted by slot and then turn; rows beyond those of ``added`` are of ``removed``.

    Returns
    -------
    is_kept
        Which of the added pages are there in the end.
    was_removed
        Which of the removed pages were in the store.
    """
    is_kept = np.zeros(added.size, np.bool_)
    was_removed = np.zeros(removed.size, np.bool_)
    slot_before, last = -1, -1
    is_stored = True
    for slot, row in zip(slots.tolist(), order.tolist(), strict=True):
        if slot != slot_before:
            # What is in the slot: the store's page, or the row that added one, or nothing (-1).
            slot_before, is_stored, last = slot, True, -1
        if row < added.size:
            if last >= 0:
                is_kept[last] = False
            is_stored, last = False, row
            is_kept[row] = True
            continue
        which = row - added.size
        if is_stored:
            if stored[which] is not None:
                was_removed[which] = True
                is_stored = False
        elif last >= 0 and added[last] == removed[which]:
            is_kept[last] = False
            last = -1
    return is_kept, was_removed


def _concatenated(parts: list[AddedPages]) -> AddedPages:
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    return AddedPages(
        np.concatenate([rows.page for rows in parts]),
        pa.concat_arrays([rows.url for rows in parts]),
        pa.concat_arrays([rows.fetch_url for rows in parts]),
    )


def _are_distinct(slots: PageArray) -> bool:
    return bool(np.unique(slots).size == slots.size)
