"""Index from URLs to pages: find candidates by hash, then compare the URLs.

A value is a bucket: every page whose URL has that hash, 5 bytes each, in the order in which they
were added.  Pages in a bucket whose URL no longer exists are ignored.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.keys import (
    HASH,
    HashArray,
    PageArray,
    Writes,
    bytes_of_rows,
    generation_of,
    keys_of,
    strings_of,
)
from recrawl.store.page_urls import stored_urls

__all__ = ["look_up_pages", "put_in_buckets"]

_ENTRY_BYTES = 5


def look_up_pages(
    kv: KeyValues, hashes: HashArray, urls: pa.StringArray
) -> tuple[PageArray, HashArray]:
    """Return the page of each URL, -1 if it has none, and the sorted hashes without a bucket.

    If several pages have one URL, it returns the one that was added first.
    """
    page = np.full(hashes.size, -1, np.int64)
    order = np.argsort(hashes, kind="stable")
    buckets = kv.get_many(keys_of(HASH, hashes[order], 8))
    if buckets.count(None) == len(buckets):
        return page, hashes[order]
    is_there = np.array([bucket is not None for bucket in buckets], np.bool_)
    row, candidate = _candidates(order, buckets)
    texts = strings_of(stored_urls(kv, candidate))
    same = pc.equal(texts, urls.take(pa.array(row))).fill_null(False)
    is_it = same.to_numpy(zero_copy_only=False)
    # In reverse, so that the first page of a bucket is assigned last and remains.
    page[row[is_it][::-1]] = candidate[is_it][::-1]
    return page, hashes[order[~is_there]]


def _candidates(
    rows: NDArray[np.int64], buckets: list[bytes | None]
) -> tuple[NDArray[np.int64], PageArray]:
    """Return the row of each page in the buckets, and the pages."""
    n_entries = [0 if bucket is None else len(bucket) // _ENTRY_BYTES for bucket in buckets]
    whole = b"".join([bucket for bucket in buckets if bucket is not None])
    return np.repeat(rows, n_entries), _pages_in(whole)


def _pages_in(bucket: bytes) -> PageArray:
    entries = np.frombuffer(bucket, np.uint8).reshape(-1, _ENTRY_BYTES)
    slot = np.ascontiguousarray(entries[:, :4]).view(">u4").ravel().astype(np.int64)
    return slot | entries[:, 4].astype(np.int64) << 32


def _entries_of(page: PageArray) -> list[bytes]:
    entries = np.empty((page.size, _ENTRY_BYTES), np.uint8)
    entries[:, :4] = slot_of_page(page).astype(">u4").view(np.uint8).reshape(page.size, 4)
    entries[:, 4] = generation_of(page)
    return bytes_of_rows(entries)


def put_in_buckets(
    kv: KeyValues,
    writes: Writes,
    *,
    page: PageArray,
    hashes: HashArray,
    removed: PageArray,
    removed_hashes: HashArray,
    absent: HashArray,
) -> None:
    """Collect the writes that add pages to their buckets and remove others.

    Parameters
    ----------
    page, hashes
        Added pages and the hashes of their URLs, in the order of addition.
    removed, removed_hashes
        Removed pages and the hashes of their URLs.
    absent
        Sorted hashes that are known to have no bucket, which spares reading them.
    """
    order = np.argsort(hashes, kind="stable")
    page, hashes = page[order], hashes[order]
    is_plain = np.ones(hashes.size, np.bool_)
    is_plain[1:] &= hashes[1:] != hashes[:-1]
    is_plain[:-1] &= hashes[1:] != hashes[:-1]
    if removed.size:
        is_plain &= ~np.isin(hashes, removed_hashes)
    keys = keys_of(HASH, hashes, 8)
    unknown = np.flatnonzero(is_plain & ~_is_in(hashes, absent))
    if unknown.size:
        buckets = kv.get_many([keys[i] for i in unknown.tolist()])
        is_plain[unknown] = [bucket is None for bucket in buckets]
    entries = _entries_of(page)
    if is_plain.all():
        writes.keys += keys
        writes.values += entries
    else:
        plain = np.flatnonzero(is_plain).tolist()
        writes.keys += [keys[i] for i in plain]
        writes.values += [entries[i] for i in plain]
        _merge(kv, writes, page, hashes, np.flatnonzero(~is_plain), removed, removed_hashes)
        return
    if removed.size:
        _merge(kv, writes, page, hashes, np.empty(0, np.int64), removed, removed_hashes)


def _is_in(hashes: HashArray, others: HashArray) -> NDArray[np.bool_]:
    if others.size == 0:
        return np.zeros(hashes.size, np.bool_)
    place = np.minimum(np.searchsorted(others, hashes), others.size - 1)
    found: NDArray[np.bool_] = others[place] == hashes
    return found


def _merge(
    kv: KeyValues,
    writes: Writes,
    page: PageArray,
    hashes: HashArray,
    rows: NDArray[np.int64],
    removed: PageArray,
    removed_hashes: HashArray,
) -> None:
    """Collect the writes of buckets that must be read first; delete buckets that become empty."""
    touched = np.unique(np.concatenate([hashes[rows], removed_hashes]))
    keys = keys_of(HASH, touched, 8)
    before = kv.get_many(keys)
    buckets = [[] if value is None else _pages_in(value).tolist() for value in before]
    for place, old_page in zip(
        np.searchsorted(touched, removed_hashes), removed.tolist(), strict=True
    ):
        if old_page in buckets[place]:
            buckets[place].remove(old_page)
    for place, new_page in zip(
        np.searchsorted(touched, hashes[rows]), page[rows].tolist(), strict=True
    ):
        if new_page not in buckets[place]:
            buckets[place].append(new_page)
    for key, old, bucket in zip(keys, before, buckets, strict=True):
        if bucket:
            writes.put(key, b"".join(_entries_of(np.array(bucket, np.int64))))
        elif old is not None:
            writes.deletes.append(key)
