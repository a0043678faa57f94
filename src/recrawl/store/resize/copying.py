"""Copy what the stores of old partitions keep into those of new ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.content.host_memories import stored_host_memories
from recrawl.store.keys import (
    FETCH,
    HOST_MEMORY,
    PAGE_MEMORY,
    RECORD,
    USER_DATA,
    PageArray,
    Writes,
    keys_of,
    stored_values,
)

if TYPE_CHECKING:
    from recrawl.store.store import Store

__all__ = ["PageMoves", "copy_host_memories", "copy_pages"]

_SLOTS_AT_ONCE: Final = 16_384
# URLs are stored in blocks of 32; a multiple of it leaves no page outside a block.
_PAGES_PER_WRITE: Final = 8_192
_MEMORIES_AT_ONCE: Final = 256
_PREFIXES: Final = (FETCH, RECORD, USER_DATA, PAGE_MEMORY)


class PageMoves(NamedTuple):
    """Where the pages of an old partition go, by slot."""

    partition: NDArray[np.int64]
    """New partition of each slot, -1 for an empty one."""
    slot: NDArray[np.int64]
    """New slot."""


class _Waiting:
    """Pages that wait to be written to one new store."""

    def __init__(self) -> None:
        self.slot: list[NDArray[np.int64]] = []
        self.name: list[pa.StringArray] = []
        self.n_pages = 0

    def add(self, slot: NDArray[np.int64], name: pa.StringArray) -> None:
        self.slot.append(slot)
        self.name.append(name)
        self.n_pages += slot.size

    def take(self, n_pages: int) -> tuple[NDArray[np.int64], pa.StringArray]:
        """Take the first pages out."""
        slot, name = np.concatenate(self.slot), pa.concat_arrays(self.name)
        self.slot, self.name = [slot[n_pages:]], [name.slice(n_pages)]
        self.n_pages -= min(n_pages, slot.size)
        return slot[:n_pages], name.slice(0, n_pages)


def copy_pages(
    olds: "Sequence[Store]", moves: Sequence[PageMoves], news: "Sequence[Store]"
) -> Iterator[int]:
    """Copy names, fetch records and data of all pages; yield the number of pages done so far.

    Parameters
    ----------
    olds
        Stores of the old partitions.
    moves
        Where the pages of each go; new slots follow each other in the order of the old ones.
    news
        Stores of the new partitions, without pages.
    """
    waiting = [_Waiting() for _ in news]
    n_done = 0
    for old, (partition, new_slot) in zip(olds, moves, strict=True):
        # Most corpora have only some of these, and looking for the others takes as long.
        prefixes = [one for one in _PREFIXES if _has_any(old.values, one)]
        for start in range(0, partition.size, _SLOTS_AT_ONCE):
            page, name = old.scan_names(start, _SLOTS_AT_ONCE)
            slot = page & 0xFFFFFFFF
            is_used = slot < partition.size
            is_used[is_used] = partition[slot[is_used]] >= 0
            if not is_used.all():
                page, slot, name = page[is_used], slot[is_used], name.filter(pa.array(is_used))
            for new in np.unique(partition[slot]).tolist():
                rows = np.flatnonzero(partition[slot] == new)
                here = new_slot[slot[rows]]
                waiting[new].add(here, name.take(pa.array(rows)))
                _copy_values(old.values, news[new].values, prefixes, page[rows], here)
                if waiting[new].n_pages >= _PAGES_PER_WRITE:
                    _write_pages(news[new], *waiting[new].take(_PAGES_PER_WRITE))
            n_done += page.size
            yield n_done
    for store, rest in zip(news, waiting, strict=True):
        if rest.n_pages:
            _write_pages(store, *rest.take(rest.n_pages))


def _write_pages(store: "Store", slot: NDArray[np.int64], name: pa.StringArray) -> None:
    batch = store.batch()
    batch.add_pages(slot, name)
    store.write(batch, store.position)


def _has_any(kv: KeyValues, prefix: bytes) -> bool:
    return next(kv.scan(prefix, bytes([prefix[0] + 1])), None) is not None


def _copy_values(
    source: KeyValues,
    target: KeyValues,
    prefixes: Sequence[bytes],
    page: PageArray,
    new_slot: NDArray[np.int64],
) -> None:
    """Copy the values of pages, which begin with the generation of the page; now that is 0."""
    writes = Writes()
    for prefix in prefixes:
        values = stored_values(source, prefix, page)
        keys = keys_of(prefix, new_slot, 4)
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                writes.put(key, b"\0" + value[1:])
    if writes.keys:
        target.write(writes.keys, writes.values)


def copy_host_memories(
    source: KeyValues,
    target: KeyValues,
    group: NDArray[np.int64],
    new_group: NDArray[np.int64],
) -> None:
    """Copy what is remembered of the common text of groups of pages."""
    for first in range(0, group.size, _MEMORIES_AT_ONCE):
        rows = slice(first, first + _MEMORIES_AT_ONCE)
        writes = Writes()
        memories = stored_host_memories(source, group[rows])
        for key, memory in zip(keys_of(HOST_MEMORY, new_group[rows], 4), memories, strict=True):
            if memory is not None:
                writes.put(key, memory)
        if writes.keys:
            target.write(writes.keys, writes.values)
