"""The key space of a store: a letter for the kind of entry, then big-endian numbers.

    letter  then                         value
    !       a word                       identity of the store, and its state
    u       hash of a URL, 8 bytes       pages with such a URL, 5 bytes each
    p       slot / 32, 4 bytes           URLs of 32 pages
    q       slot, 4 bytes                URL of one page; empty if the slot is empty
    f       slot, 4 bytes                URL to request, where it differs
    r       slot, 4 bytes                fetch record of a page
    d       slot, 4 bytes                doc_id and metadata of a page that has any
    x       slot, 4 bytes                memory of the text of a page that was given bodies
    h       number of a group, 4 bytes   memory of the common text of its pages
    n       what, 1 byte, and a name     number of the name
    m       what and number, 1 + 4       name of the number
    c       position and row, 8 + 4      a change
    k       key of a request             record that completed the request
    s       number of a request, 8       its time, and its key
    o       an old place of a change     its row here: see `recrawl.store.resize.moved_feed`
    w       name of a consumer           its place in the change feed
    t       step, table and time, 8      figures of a minute, an hour or a day
    t       254                          time of the first sample, in milliseconds
    t       255                          latest counts, from which the next sample counts

Keys are built from arrays, many at a time.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page

__all__ = [
    "BLOCK",
    "CHANGE",
    "CONSUMER",
    "FETCH",
    "HASH",
    "HOST_MEMORY",
    "META",
    "NAME",
    "NUMBER",
    "PAGE_MEMORY",
    "RECORD",
    "REQUEST",
    "REQUEST_NUMBER",
    "ROWS_FEW",
    "SAMPLE",
    "SINGLE",
    "USER_DATA",
    "HashArray",
    "PageArray",
    "Writes",
    "bytes_of_rows",
    "generation_of",
    "keys_of",
    "numbered_key",
    "page_keys",
    "spans_of",
    "stored_values",
    "strings_of",
]

META = b"!"
HASH = b"u"
BLOCK = b"p"
SINGLE = b"q"
FETCH = b"f"
RECORD = b"r"
USER_DATA = b"d"
PAGE_MEMORY = b"x"
HOST_MEMORY = b"h"
NUMBER = b"n"
NAME = b"m"
CHANGE = b"c"
REQUEST = b"k"
REQUEST_NUMBER = b"s"
CONSUMER = b"w"
SAMPLE = b"t"

ROWS_FEW = 16
"""Up to so many rows, plain Python takes less time than arrays do."""

PageArray: TypeAlias = NDArray[np.int64]
HashArray: TypeAlias = NDArray[np.uint64]


class Writes:
    """Keys to put and to delete in one write."""

    __slots__ = ("deletes", "keys", "values")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.deletes: list[bytes] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Add a key and its value."""
        self.keys.append(key)
        self.values.append(value)


def numbered_key(prefix: bytes, number: int, n_bytes: int) -> bytes:
    """Return the key of one number, as `keys_of` does for many."""
    return prefix + number.to_bytes(n_bytes, "big")


def keys_of(prefix: bytes, numbers: NDArray[Any], n_bytes: int) -> list[bytes]:
    r"""Return a key for each number: the prefix, then the number in ``n_bytes`` big-endian bytes.

    Examples
    --------
    >>> keys_of(b"q", np.array([1, 258]), 4)
    [b'q\x00\x00\x00\x01', b'q\x00\x00\x01\x02']
    """
    if numbers.size <= ROWS_FEW:
        return [numbered_key(prefix, number, n_bytes) for number in numbers.tolist()]
    keys = np.empty((numbers.size, len(prefix) + n_bytes), np.uint8)
    keys[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    big_endian = numbers.astype(f">u{n_bytes}").view(np.uint8)
    keys[:, len(prefix) :] = big_endian.reshape(numbers.size, n_bytes)
    return bytes_of_rows(keys)


def bytes_of_rows(rows: NDArray[np.uint8]) -> list[bytes]:
    """Return each row of a table of bytes as a `bytes` object."""
    if rows.shape[0] == 0:
        return []
    # `tolist` converts void items of n bytes to `bytes` in C, which is the fastest way.
    whole: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return whole


def generation_of(page: PageArray) -> PageArray:
    """Return the generations of pages."""
    return page >> np.int64(32)


def stored_values(kv: KeyValues, prefix: bytes, page: PageArray) -> list[bytes | None]:
    """Return the values of pages under a prefix, None for pages without one.

    A value begins with the generation of its page: one of an earlier page of the slot is not
    returned.
    """
    values: list[bytes | None] = [None] * page.size
    rows, keys, generation = page_keys(prefix, page)
    for row, value in zip(rows, kv.get_many(keys), strict=True):
        if value is not None and value[0] == generation[row]:
            values[row] = value
    return values


def page_keys(prefix: bytes, page: PageArray) -> tuple[list[int], list[bytes], list[int]]:
    """Return the rows of pages in the order of their slots, their keys, and all generations.

    Rows without a page (-1) are left out.
    """
    if page.size <= ROWS_FEW:
        pages = page.tolist()
        rows = sorted((row for row, one in enumerate(pages) if one >= 0), key=pages.__getitem__)
        keys = [prefix + (pages[row] & 0xFFFFFFFF).to_bytes(4, "big") for row in rows]
        return rows, keys, [one >> 32 for one in pages]
    slot = slot_of_page(page)
    order = np.argsort(slot, kind="stable")
    order = order[page[order] >= 0]
    return order.tolist(), keys_of(prefix, slot[order], 4), generation_of(page).tolist()


def spans_of(texts: pa.StringArray) -> tuple[bytes, NDArray[np.int32]]:
    """Return all bytes of an Arrow array without nulls, and the offsets of its strings."""
    if len(texts) == 0:
        return b"", np.zeros(1, np.int32)
    _, offsets, data = texts.buffers()
    span = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, end = int(span[0]), int(span[-1])
    return b"" if data is None else data[first:end].to_pybytes(), span - span[0]


def strings_of(texts: list[bytes | None]) -> pa.StringArray:
    """Return UTF-8 texts as an Arrow array of strings."""
    if len(texts) <= ROWS_FEW:
        return pa.array([None if text is None else text.decode() for text in texts], pa.string())
    return pa.array(texts, pa.binary()).cast(pa.string())
