"""The URLs of pages by slot: blocks of 32 for consecutive new pages, single values otherwise.

Pages get consecutive numbers, so most are added in runs.  A run of 32 in slots that were never used
before is one value: a page then costs a 32nd of a key, and zstd compresses 32 URLs of one site
together.  Such a block is never written again.  All other pages have single values, which take
precedence over blocks: a page added alone, a page in a reused slot, and a slot that became empty.
"""

from itertools import compress
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.keys import (
    BLOCK,
    ROWS_FEW,
    SINGLE,
    PageArray,
    Writes,
    bytes_of_rows,
    generation_of,
    keys_of,
    page_keys,
    spans_of,
    strings_of,
)

__all__ = [
    "URL_TEXT_BYTES_MAX",
    "SingleUrls",
    "block_without",
    "put_urls",
    "scan_urls",
    "stored_urls",
    "urls_in_block",
]

BLOCK_PAGES = 32
URL_TEXT_BYTES_MAX = 0xFFFF
"""The longest URL, in bytes; lengths take two bytes."""

# Layout of a block: version, generation, low bytes of 32 lengths, high bytes, URLs.
_BLOCK_VERSION = 0
_LENGTHS = 2
_URLS = _LENGTHS + 2 * BLOCK_PAGES
# Layout of a single value: generation and URL; empty if the slot is empty.
_EMPTY = b""
# Stands for a block that does not exist.
_NO_BLOCK = bytes([0xFF]) * _URLS
# Number of blocks with single values that are looked for when a store is opened: a hundredth of a
# second.
_BLOCKS_FOUND_MAX = 1_024
_AFTER_SINGLE = bytes([SINGLE[0] + 1])


class SingleUrls:
    """Places of single values: those of other slots need not be looked up.

    Remembers for each 32 slots whether they may have single values, one byte for all of them.

    Parameters
    ----------
    may_have
        Whether the slots of each block may have single values.
    n_known
        Number of the first block for which this is not known; None if it is known for all.
    """

    def __init__(self, may_have: NDArray[np.bool_], n_known: int | None) -> None:
        self._may_have = may_have
        self._n_known = n_known

    @classmethod
    def find(cls, kv: KeyValues) -> Self:
        """Return the places of the single values of a store, as far as there are not too many."""
        blocks: list[int] = []
        block = 0
        while len(blocks) < _BLOCKS_FOUND_MAX:
            start = SINGLE + (block * BLOCK_PAGES).to_bytes(4, "big")
            found = next(kv.scan(start, _AFTER_SINGLE), None)
            if found is None:
                return cls(_flags_at(blocks), None)
            blocks.append(int.from_bytes(found[0][1:], "big") // BLOCK_PAGES)
            block = blocks[-1] + 1
            if block * BLOCK_PAGES >> 32:
                return cls(_flags_at(blocks), None)
        return cls(_flags_at(blocks), block)

    @classmethod
    def unknown(cls) -> Self:
        """Return what looks for single values everywhere."""
        return cls(np.zeros(0, np.bool_), 0)

    def at(self, slot: PageArray) -> NDArray[np.bool_]:
        """Return which slots may have single values."""
        block = slot // BLOCK_PAGES
        known = self._may_have
        is_there = np.zeros(slot.size, np.bool_)
        if known.size:
            is_there = known[np.minimum(block, known.size - 1)] & (block < known.size)
        return is_there if self._n_known is None else is_there | (block >= self._n_known)

    def add(self, slot: PageArray) -> None:
        """Remember that slots have single values, before these are written."""
        if slot.size == 0:
            return
        block = slot // BLOCK_PAGES
        n_blocks = int(block.max()) + 1
        known = self._may_have
        if n_blocks > known.size:
            known = np.zeros(max(n_blocks, 2 * known.size), np.bool_)
            known[: self._may_have.size] = self._may_have
        known[block] = True
        self._may_have = known


def _flags_at(places: list[int]) -> NDArray[np.bool_]:
    flags = np.zeros(places[-1] + 1 if places else 0, np.bool_)
    flags[places] = True
    return flags


def stored_urls(
    kv: KeyValues, page: PageArray, singles: SingleUrls | None = None
) -> list[bytes | None]:
    """Return the URLs of pages, None for pages that do not exist.

    Parameters
    ----------
    kv
        Keys and values of the store.
    page
        Pages, -1 for none.
    singles
        Places of single values, if known, which spares looking for others.
    """
    urls: list[bytes | None] = [None] * page.size
    rows, keys, generation = page_keys(SINGLE, page)
    in_blocks: list[int] = []
    if singles is not None and rows:
        may_be_single = singles.at(slot_of_page(page[rows]))
        in_blocks = list(compress(rows, (~may_be_single).tolist()))
        keys = list(compress(keys, may_be_single.tolist()))
        rows = list(compress(rows, may_be_single.tolist()))
    if rows:
        for row, value in zip(rows, kv.get_many(keys), strict=True):
            if value is None:
                in_blocks.append(row)
            elif value and value[0] == generation[row]:
                urls[row] = value[1:]
    if len(in_blocks) <= ROWS_FEW:
        _find_few_in_blocks(kv, page, in_blocks, urls)
    else:
        _find_in_blocks(kv, page, np.array(in_blocks, np.int64), urls)
    return urls


def _find_few_in_blocks(
    kv: KeyValues, page: PageArray, rows: list[int], urls: list[bytes | None]
) -> None:
    """Set the URLs of pages in blocks, as `_find_in_blocks` does for many."""
    pages = page[rows].tolist()
    numbers = list(dict.fromkeys((one & 0xFFFFFFFF) // BLOCK_PAGES for one in pages))
    if not numbers:
        return
    found = kv.get_many([BLOCK + number.to_bytes(4, "big") for number in sorted(numbers)])
    blocks = dict(zip(sorted(numbers), found, strict=True))
    for row, one in zip(rows, pages, strict=True):
        block, place = divmod(one & 0xFFFFFFFF, BLOCK_PAGES)
        value = blocks[block]
        if value is not None and value[1] == one >> 32:
            urls[row] = _url_in(value, place)


def _find_in_blocks(
    kv: KeyValues, page: PageArray, rows: NDArray[np.int64], urls: list[bytes | None]
) -> None:
    """Set the URLs of pages whose slots have no single value.

    Parameters
    ----------
    kv
        Keys and values of the store.
    page
        Pages of all rows.
    rows
        Rows to set.
    urls
        URLs of all rows.
    """
    slot = slot_of_page(page[rows])
    numbers, which = np.unique(slot // BLOCK_PAGES, return_inverse=True)
    blocks = [value or _NO_BLOCK for value in kv.get_many(keys_of(BLOCK, numbers, 4))]
    heads = np.frombuffer(b"".join([block[:_URLS] for block in blocks]), np.uint8)
    heads = heads.reshape(numbers.size, _URLS)
    lengths = heads[:, _LENGTHS : _LENGTHS + BLOCK_PAGES].astype(np.int32)
    lengths += heads[:, _LENGTHS + BLOCK_PAGES :].astype(np.int32) << 8
    places = which, slot % BLOCK_PAGES
    ends = _URLS + np.cumsum(lengths, axis=1, dtype=np.int32)[places]
    begins = ends - lengths[places]
    spans = zip(which.tolist(), begins.tolist(), ends.tolist(), strict=True)
    found = [blocks[block][begin:end] for block, begin, end in spans]
    is_there = (heads[which, 0] == _BLOCK_VERSION) & (heads[which, 1] == generation_of(page[rows]))
    if is_there.all():
        for row, url in zip(rows.tolist(), found, strict=True):
            urls[row] = url
        return
    for i in np.flatnonzero(is_there).tolist():
        urls[int(rows[i])] = found[i]


def _url_in(block: bytes, place: int) -> bytes:
    low = block[_LENGTHS : _LENGTHS + place + 1]
    high = block[_LENGTHS + BLOCK_PAGES : _LENGTHS + BLOCK_PAGES + place + 1]
    end = _URLS + sum(low) + (sum(high) << 8)
    return block[end - low[place] - (high[place] << 8) : end]


def urls_in_block(block: bytes) -> list[bytes]:
    """Return the URLs of the 32 places of a block."""
    return [_url_in(block, place) for place in range(BLOCK_PAGES)]


def block_without(block: bytes, is_erased: NDArray[np.bool_]) -> bytes:
    """Return a block with empty URLs at some places."""
    urls = [
        b"" if erased else url
        for url, erased in zip(urls_in_block(block), is_erased.tolist(), strict=True)
    ]
    lengths = [len(url) for url in urls]
    low, high = bytes(n & 0xFF for n in lengths), bytes(n >> 8 for n in lengths)
    return block[:_LENGTHS] + low + high + b"".join(urls)


def put_urls(
    writes: Writes,
    page: PageArray,
    urls: pa.StringArray,
    emptied: PageArray,
    n_slots: int,
    singles: SingleUrls,
) -> int:
    """Collect the writes of URLs and of empty slots; return the number of slots ever used.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    page, urls
        Pages in distinct slots, and their URLs.
    emptied
        Slots that became empty, none of them in ``page``.
    n_slots
        Number of slots ever used so far; slots from there on are new.
    singles
        Places of single values, which receives the new ones.
    """
    singles.add(emptied)
    writes.keys += keys_of(SINGLE, emptied, 4)
    writes.values += [_EMPTY] * emptied.size
    slot = slot_of_page(page)
    order = np.argsort(slot, kind="stable")
    if not np.array_equal(order, np.arange(order.size)):
        page, slot, urls = page[order], slot[order], urls.take(pa.array(order))
    data, span = spans_of(urls)
    in_block = _in_blocks(page, slot, n_slots)
    _put_blocks(writes, page, data, span, np.flatnonzero(in_block))
    alone = np.flatnonzero(~in_block)
    singles.add(slot[alone])
    writes.keys += keys_of(SINGLE, slot[alone], 4)
    generations = bytes_of_rows(generation_of(page[alone]).astype(np.uint8).reshape(-1, 1))
    begins, ends = span[alone].tolist(), span[alone + 1].tolist()
    writes.values += [
        generation + data[begin:end]
        for generation, begin, end in zip(generations, begins, ends, strict=True)
    ]
    return max(n_slots, int(slot.max(initial=-1)) + 1, int(emptied.max(initial=-1)) + 1)


def _in_blocks(page: PageArray, slot: PageArray, n_slots: int) -> NDArray[np.bool_]:
    """Return which pages, ordered by slot, belong to blocks of new slots only."""
    block = slot // BLOCK_PAGES
    _, first, which, n_pages = np.unique(
        block, return_index=True, return_inverse=True, return_counts=True
    )
    is_whole = n_pages == BLOCK_PAGES
    is_whole &= slot[first] >= n_slots
    if is_whole.any():
        # A block stores one generation; new slots normally have the same one.
        generation = generation_of(page)
        is_odd = generation != generation[first][which]
        is_whole[which[is_odd]] = False
    flags: NDArray[np.bool_] = is_whole[which]
    return flags


def _put_blocks(
    writes: Writes, page: PageArray, data: bytes, span: NDArray[np.int32], rows: NDArray[np.int64]
) -> None:
    """Collect the writes of blocks, from rows ordered by slot."""
    if rows.size == 0:
        return
    first = rows[::BLOCK_PAGES]
    lengths = (span[rows + 1] - span[rows]).astype("<u2").view(np.uint8)
    heads = np.empty((first.size, _URLS), np.uint8)
    heads[:, 0] = _BLOCK_VERSION
    heads[:, 1] = generation_of(page[first])
    planes = lengths.reshape(first.size, BLOCK_PAGES, 2).transpose(0, 2, 1)
    heads[:, _LENGTHS:] = planes.reshape(first.size, 2 * BLOCK_PAGES)
    begins, ends = span[first].tolist(), span[first + BLOCK_PAGES].tolist()
    writes.keys += keys_of(BLOCK, slot_of_page(page[first]) // BLOCK_PAGES, 4)
    writes.values += [
        head + data[begin:end]
        for head, begin, end in zip(bytes_of_rows(heads), begins, ends, strict=True)
    ]


def scan_urls(kv: KeyValues, slot: int, n_slots: int) -> tuple[PageArray, pa.StringArray]:
    """Return the pages in ``n_slots`` slots from ``slot`` on and their URLs, ordered by slot."""
    end = min(slot + n_slots, 1 << 32)
    if slot >= end:
        return np.empty(0, np.int64), pa.array([], pa.string())
    page, urls = _scan_blocks(kv, slot, end)
    singles = list(kv.scan(SINGLE + slot.to_bytes(4, "big"), _key_after(SINGLE, end - 1)))
    if not singles:
        return page, urls
    single_slot = np.array([int.from_bytes(key[1:], "big") for key, _ in singles], np.int64)
    kept = np.flatnonzero(~np.isin(slot_of_page(page), single_slot))
    full = [i for i, (_, value) in enumerate(singles) if value]
    alone = np.array([singles[i][1][0] for i in full], np.int64) << 32 | single_slot[full]
    texts = strings_of([singles[i][1][1:] for i in full])
    page = np.concatenate([page[kept], alone])
    order = np.argsort(slot_of_page(page), kind="stable")
    urls = pa.concat_arrays([urls.take(pa.array(kept)), texts])
    return page[order], urls.take(pa.array(order))


def _key_after(prefix: bytes, number: int) -> bytes:
    return prefix + number.to_bytes(4, "big") + b"\0"


def _scan_blocks(kv: KeyValues, slot: int, end: int) -> tuple[PageArray, pa.StringArray]:
    begin_key = BLOCK + (slot // BLOCK_PAGES).to_bytes(4, "big")
    blocks = list(kv.scan(begin_key, _key_after(BLOCK, (end - 1) // BLOCK_PAGES)))
    heads = np.frombuffer(b"".join([value[:_URLS] for _, value in blocks]), np.uint8)
    heads = heads.reshape(len(blocks), _URLS)
    first = np.array([int.from_bytes(key[1:], "big") for key, _ in blocks], np.int64)
    page = first[:, None] * BLOCK_PAGES + np.arange(BLOCK_PAGES)
    page |= heads[:, 1].astype(np.int64)[:, None] << 32
    planes = heads[:, _LENGTHS:].astype(np.int64)
    lengths = planes[:, :BLOCK_PAGES] + (planes[:, BLOCK_PAGES:] << 8)
    offsets = np.zeros(page.size + 1, np.int32)
    np.cumsum(lengths.ravel(), out=offsets[1:])
    data = b"".join([value[_URLS:] for _, value in blocks])
    urls = pa.StringArray.from_buffers(page.size, pa.py_buffer(offsets), pa.py_buffer(data))
    page = page.ravel()
    wanted = (slot_of_page(page) >= slot) & (slot_of_page(page) < end)
    return page[wanted], urls.filter(pa.array(wanted))
