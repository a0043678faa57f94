"""Copy what the stores of old partitions keep into those of new ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
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
    strings_of,
)

if TYPE_CHECKING:
    from recrawl.store.store import Store

__all__ = [
    "PageMoves",
    "clear_slots",
    "copy_host_memories",
    "copy_pages",
    "copy_values_again",
]

_PAGES_AT_ONCE: Final = 16_384
# URLs are stored in blocks of 32; a multiple of it leaves no page outside a block.
_PAGES_PER_WRITE: Final = 8_192
_MEMORIES_AT_ONCE: Final = 256
_PREFIXES: Final = (FETCH, RECORD, USER_DATA, PAGE_MEMORY)


class PageMoves(NamedTuple):
    """Where the pages of an old partition go, by slot."""

    partition: NDArray[np.int64]
    """New partition of each slot, -1 for an empty one."""
    slot: NDArray[np.int64]
    """New slot, -1 for an empty one."""


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
    olds: "Sequence[Store]",
    pages: Sequence[PageArray],
    moves: Sequence[PageMoves],
    news: "Sequence[Store]",
) -> Iterator[int]:
    """Copy names, fetch records and data of pages; yield the number of pages done so far.

    Parameters
    ----------
    olds
        Stores of the old partitions.
    pages
        Pages of each of them, in the order of their slots.
    moves
        Where the pages of each go.
    news
        Stores of the new partitions, where the new slots are empty.
    """
    waiting = [_Waiting() for _ in news]
    n_done = 0
    for old, some, (partition, new_slot) in zip(olds, pages, moves, strict=True):
        prefixes = _prefixes_of([old.values])
        for begin in range(0, some.size, _PAGES_AT_ONCE):
            page = some[begin : begin + _PAGES_AT_ONCE]
            name = strings_of(old.read_names_of(page))
            # One that was removed after its place was chosen.
            is_there = name.is_valid().to_numpy(zero_copy_only=False)
            page, name = page[is_there], name.drop_null()
            for new, rows in _rows_by_partition(partition[slot_of_page(page)]):
                here = new_slot[slot_of_page(page[rows])]
                waiting[new].add(here, name.take(pa.array(rows)))
                _copy_values(old.values, news[new].values, prefixes, page[rows], here)
                if waiting[new].n_pages >= _PAGES_PER_WRITE:
                    _write_pages(news[new], *waiting[new].take(_PAGES_PER_WRITE))
            n_done += page.size
            yield n_done
    for store, rest in zip(news, waiting, strict=True):
        if rest.n_pages:
            _write_pages(store, *rest.take(rest.n_pages))


def copy_values_again(
    olds: "Sequence[Store]",
    pages: Sequence[PageArray],
    moves: Sequence[PageMoves],
    news: "Sequence[Store]",
) -> Iterator[int]:
    """Copy fetch records and data of pages that were copied before; yield the number so far.

    The parameters are those of `copy_pages`.
    """
    n_done = 0
    for old, some, (partition, new_slot) in zip(olds, pages, moves, strict=True):
        prefixes = _prefixes_of([old.values, *(new.values for new in news)]) if some.size else []
        for begin in range(0, some.size, _PAGES_AT_ONCE):
            page = some[begin : begin + _PAGES_AT_ONCE]
            for new, rows in _rows_by_partition(partition[slot_of_page(page)]):
                here = new_slot[slot_of_page(page[rows])]
                target = news[new].values
                _copy_values(old.values, target, prefixes, page[rows], here, deletes=True)
            n_done += page.size
            yield n_done


def clear_slots(new: "Store", slot: NDArray[np.int64]) -> None:
    """Remove the pages in some slots of a new store, with all that was copied of them."""
    for begin in range(0, slot.size, _PAGES_AT_ONCE):
        some = slot[begin : begin + _PAGES_AT_ONCE]
        batch = new.batch()
        batch.remove_pages(some)  # in a new store, the generation of all slots is 0
        new.write(batch, new.position)
        deletes = [key for prefix in _PREFIXES for key in keys_of(prefix, some, 4)]
        new.values.write([], [], deletes=deletes)


def _rows_by_partition(partition: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each partition that occurs, and its rows."""
    if partition.size == 0:
        return
    order = np.argsort(partition, kind="stable")
    found, begin = np.unique(partition[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, begin[1:]), strict=True)


def _prefixes_of(stores: Sequence[KeyValues]) -> list[bytes]:
    """Return the prefixes of values of pages that any of some stores has.

    Most corpora have only some of these, and looking for the others takes as long.
    """
    return [one for one in _PREFIXES if any(_has_any(kv, one) for kv in stores)]


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
    *,
    deletes: bool = False,
) -> None:
    """Copy the values of pages, which begin with the generation of the page; now that is 0.

    With ``deletes``, values are deleted that the pages do not have.
    """
    writes = Writes()
    for prefix in prefixes:
        values = stored_values(source, prefix, page)
        keys = keys_of(prefix, new_slot, 4)
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                writes.put(key, b"\0" + value[1:])
            elif deletes:
                writes.deletes.append(key)
    if writes.keys or writes.deletes:
        target.write(writes.keys, writes.values, deletes=writes.deletes)


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
