"""Erase URLs from what a store keeps of removed pages: old blocks, the change feed, redirects.

Removing a page does not rewrite the block of 32 URLs that it was added with, and the change feed
keeps its URL.  Erasing rewrites these values; compaction then removes the old ones from disk.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.changes import url_of_change, without_url
from recrawl.store.fetch_records import records_in, without_moved_to
from recrawl.store.keys import BLOCK, CHANGE, RECORD, SINGLE, Writes, keys_of, strings_of
from recrawl.store.page_urls import block_without, urls_in_block

__all__ = ["Erased", "IsForgotten", "erase_urls", "find_urls"]

IsForgotten: TypeAlias = Callable[[pa.StringArray], NDArray[np.bool_]]
"""Function that says of each URL whether it is to be erased."""

_VALUES_PER_WRITE = 10_000


class Erased(NamedTuple):
    """How many values held an erased URL."""

    n_blocks: int
    n_changes: int
    n_redirects: int


def erase_urls(
    kv: KeyValues, is_forgotten: IsForgotten, lock: AbstractContextManager[object]
) -> Erased:
    """Overwrite all values that hold forgotten URLs; their pages must have been removed.

    Parameters
    ----------
    kv
        Keys and values of the store.
    is_forgotten
        Function that recognizes the URLs.
    lock
        Lock that keeps others from writing; it is held for one batch of values at a time.
    """
    counts = [0, 0, 0]
    for i, (prefix, urls_of, without) in enumerate(_KINDS):
        start, end = prefix, bytes([prefix[0] + 1])
        while start:
            with lock:
                rows = list(islice(kv.scan(start, end), _VALUES_PER_WRITE))
                writes = Writes()
                flags = _flags([urls_of(value) for _, value in rows], is_forgotten)
                for (key, value), forgotten in zip(rows, flags, strict=True):
                    is_erased = _of_removed_pages(kv, key, forgotten)
                    if is_erased.any():
                        writes.put(key, without(value, is_erased))
                if writes.keys:
                    kv.write(writes.keys, writes.values)
                    counts[i] += len(writes.keys)
            start = rows[-1][0] + b"\0" if rows else b""
    return Erased(*counts)


def _of_removed_pages(kv: KeyValues, key: bytes, forgotten: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Leave out places of a block whose page exists: it was added again meanwhile."""
    if not key.startswith(BLOCK) or not forgotten.any():
        return forgotten
    first = int.from_bytes(key[1:], "big") * forgotten.size
    slots = first + np.arange(forgotten.size)
    overrides = kv.get_many(keys_of(SINGLE, slots, 4))
    return forgotten & np.array([value is not None for value in overrides], np.bool_)


def find_urls(kv: KeyValues, is_forgotten: IsForgotten) -> set[bytes]:
    """Return the forgotten URLs that a store holds outside its pages."""
    found: set[bytes] = set()
    for prefix, urls_of, _ in _KINDS:
        for rows in _batches(kv, prefix):
            texts = [urls_of(value) for _, value in rows]
            for urls, forgotten in zip(texts, _flags(texts, is_forgotten), strict=True):
                found.update(urls[place] for place in np.flatnonzero(forgotten).tolist())
    return found


def _batches(kv: KeyValues, prefix: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    values = kv.scan(prefix, bytes([prefix[0] + 1]))
    while rows := list(islice(values, _VALUES_PER_WRITE)):
        yield rows


def _flags(texts: list[list[bytes]], is_forgotten: IsForgotten) -> list[NDArray[np.bool_]]:
    """Return for each value which of its URLs are forgotten."""
    urls = [url for urls in texts for url in urls]
    flags = is_forgotten(strings_of(list(urls))) if urls else np.zeros(0, np.bool_)
    flags &= np.array([bool(url) for url in urls], np.bool_)
    ends = np.cumsum([len(urls) for urls in texts])
    return np.split(flags, ends[:-1]) if texts else []


def _without_key(name: bytes) -> bytes:
    """Return the URL in the name of a page, which may begin with a key and a tab."""
    return name.rpartition(b"\t")[2]


def _redirect_target(value: bytes) -> list[bytes]:
    (moved_to,) = records_in([value]).moved_to
    return [(moved_to or "").encode()]


_KINDS: tuple[
    tuple[
        bytes,
        Callable[[bytes], list[bytes]],
        Callable[[bytes, NDArray[np.bool_]], bytes],
    ],
    ...,
] = (
    (BLOCK, lambda value: [*map(_without_key, urls_in_block(value))], block_without),
    (
        CHANGE,
        lambda value: [_without_key(url_of_change(value))],
        lambda value, _: without_url(value),
    ),
    (RECORD, _redirect_target, lambda value, _: without_moved_to(value)),
)
