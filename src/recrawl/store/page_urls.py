"""The URLs of pages by slot: blocks of 32 for consecutive new pages, single values otherwise.

Pages get consecutive numbers, so most are added in runs.  A run of 32 in slots that were never used
before is one value: a page then costs a 32nd of a key, and zstd compresses 32 URLs of one site
together.  Such a block is never written again.  All other pages have single values, which take
precedence over blocks: a page added alone, a page in a reused slot, and a slot that became empty.
"""

from collections.abc import Sequence

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


def stored_urls(kv: KeyValues, page: PageArray) -> list[bytes | None]:
    """Return the URLs of pages, None for pages that do not exist."""
    urls: list[bytes | None] = [None] * page.size
    rows, keys, generation = page_keys(SINGLE, page)
    in_blocks = []
    for row, value in zip(rows, kv.get_many(keys), strict=True):
        if value is None:
            in_blocks.append(row)
        elif value and value[0] == generation[row]:
            urls[row] = value[1:]
    if not in_blocks:
        return urls
    slots = slot_of_page(page[in_blocks]).tolist()
    # Rows come in the order of their slots, so each block is read once.
    numbers = list(dict.fromkeys(slot // BLOCK_PAGES for slot in slots))
    found = kv.get_many(keys_of(BLOCK, np.array(numbers, np.int64), 4))
    blocks = dict(zip(numbers, found, strict=True))
    wanted: list[tuple[int, bytes, int]] = []
    for row, slot in zip(in_blocks, slots, strict=True):
        value = blocks[slot // BLOCK_PAGES]
        if value is not None and value[1] == generation[row]:
            wanted.append((row, value, slot % BLOCK_PAGES))
    if len(wanted) <= ROWS_FEW:
        for row, value, place in wanted:
            urls[row] = _url_in(value, place)
        return urls
    of_rows, values, places = zip(*wanted, strict=True)
    for row, url in zip(of_rows, _urls_in(values, places), strict=True):
        urls[row] = url
    return urls


def _urls_in(blocks: Sequence[bytes], places: Sequence[int]) -> list[bytes]:
    """Return the URL at a place of each block, as `_url_in` does for one."""
    heads = b"".join([block[_LENGTHS:_URLS] for block in blocks])
    halves = np.frombuffer(heads, np.uint8).reshape(-1, 2, BLOCK_PAGES).astype(np.int64)
    lengths = halves[:, 0] + (halves[:, 1] << 8)
    row, place = np.arange(len(blocks)), np.array(places, np.int64)
    ends = _URLS + np.cumsum(lengths, axis=1)[row, place]
    begins = ends - lengths[row, place]
    spans = zip(blocks, begins.tolist(), ends.tolist(), strict=True)
    return [block[begin:end] for block, begin, end in spans]


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
    writes: Writes, page: PageArray, urls: pa.StringArray, emptied: PageArray, n_slots: int
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
    """
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
