"""Fetch records of many pages at once: their heads and digests as arrays.

Most pages have digests and nothing else, and most outcomes say nothing else either.  So a few array
operations answer what would otherwise take Python objects for each page.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.store.fetch_records import (
    DIGEST_BYTES,
    DIGESTS_MAX,
    HEAD_BYTES,
    HEAD_FIELDS,
    Content,
    record_after_fetch,
)
from recrawl.store.keys import RECORD, PageArray, Writes, bytes_of_rows, generation_of, keys_of

__all__ = [
    "DigestMatch",
    "DigestRows",
    "digest_contents",
    "digest_rows",
    "match_digests",
    "put_digests",
    "validators_in_columns",
]

_HEAD = np.dtype(HEAD_FIELDS)
_NO_RECORD = bytes(HEAD_BYTES)

DigestRows = NDArray[np.uint8]
"""Digests as a table, with one row of 16 bytes each."""


def digest_rows(column: pa.FixedSizeBinaryArray) -> DigestRows:
    """Return an Arrow array of digests as a table of bytes; the rows of nulls mean nothing."""
    begin = column.offset * DIGEST_BYTES
    data = np.frombuffer(column.buffers()[1], np.uint8)
    return data[begin : begin + len(column) * DIGEST_BYTES].reshape(-1, DIGEST_BYTES)


class DigestMatch(IntEnum):
    """How the digest of an answer compares with the stored ones of its page."""

    NONE_STORED = 0
    NEWEST = 1
    OLDER = 2
    OTHER = 3


class _Columns(NamedTuple):
    """Records, one after the other, and the fields of their heads."""

    data: NDArray[np.uint8]
    begin: NDArray[np.int64]
    """Place of each record in ``data``."""
    head: NDArray[np.void]
    """Heads of the records; zero for pages without one."""

    def digests(self, rows: NDArray[np.int64], place: int) -> DigestRows:
        """Return the digest at a place of the records of some rows, 0 for the newest."""
        first = self.begin[rows] + (HEAD_BYTES + place * DIGEST_BYTES)
        found: DigestRows = self.data[first[:, None] + np.arange(DIGEST_BYTES)]
        return found


def _columns_of(values: list[bytes | None]) -> _Columns:
    """Return the records in the bytes that `stored_records` returned."""
    records = [value or _NO_RECORD for value in values]
    data = np.frombuffer(b"".join(records), np.uint8)
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    begin = np.cumsum(lengths) - lengths
    head = data[begin[:, None] + np.arange(HEAD_BYTES)].view(_HEAD).ravel()
    return _Columns(data, begin, head)


def validators_in_columns(
    values: list[bytes | None],
) -> tuple[list[bytes | None], list[bytes | None]]:
    """Return etag and last_modified in the bytes that `stored_records` returned."""
    head = _columns_of(values).head
    etags: list[bytes | None] = [None] * len(values)
    modified: list[bytes | None] = [None] * len(values)
    for i in np.flatnonzero((head["n_etag"] > 0) | (head["n_modified"] > 0)).tolist():
        begin = HEAD_BYTES + int(head["n_digests"][i]) * DIGEST_BYTES
        end = begin + int(head["n_etag"][i])
        value = values[i] or _NO_RECORD
        etags[i] = value[begin:end] or None
        modified[i] = value[end : end + int(head["n_modified"][i])] or None
    return etags, modified


def match_digests(values: list[bytes | None], digest: DigestRows) -> NDArray[np.uint8]:
    """Return how each digest compares with those of its record, a `DigestMatch`.

    Parameters
    ----------
    values
        Bytes that `stored_records` returned.
    digest
        Digest for each of them.
    """
    columns = _columns_of(values)
    n_digests = columns.head["n_digests"]
    match = np.where(n_digests > 0, DigestMatch.OTHER, DigestMatch.NONE_STORED).astype(np.uint8)
    for place in range(min(int(n_digests.max(initial=0)), DIGESTS_MAX)):
        rows = np.flatnonzero((match == DigestMatch.OTHER) & (n_digests > place))
        is_same = (columns.digests(rows, place) == digest[rows]).all(axis=1)
        match[rows[is_same]] = DigestMatch.OLDER if place else DigestMatch.NEWEST
    return match


def digest_contents(digest: DigestRows) -> list[Content]:
    """Return the results of fetches that returned content and nothing else, as rows."""
    return [(one, None, None, None, None, None) for one in bytes_of_rows(digest)]


def put_digests(
    writes: Writes, page: PageArray, values: list[bytes | None], digest: DigestRows
) -> None:
    """Collect the writes that update records with the digests of fetches, as `put_contents` does.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    page, digest
        Pages, each once, and the digests of their contents.
    values
        Stored records of the pages, as `stored_records` returns them.
    """
    columns = _columns_of(values)
    head = columns.head
    is_new = np.array([value is None for value in values], np.bool_)
    rows = np.flatnonzero(head["n_digests"] > 0)
    is_same = np.zeros(page.size, np.bool_)
    is_same[rows] = (columns.digests(rows, 0) == digest[rows]).all(axis=1)
    # Content without validators clears stored ones.
    for name in ("n_etag", "n_modified", "n_sketch", "n_moved_to"):
        is_same &= head[name] == 0
    _put_new(writes, page[is_new], digest[is_new])
    others = np.flatnonzero(~(is_new | is_same))
    contents = digest_contents(digest[others])
    writes.keys += keys_of(RECORD, page[others] & 0xFFFFFFFF, 4)
    writes.values += [
        record_after_fetch(generation, values[i], content)
        for i, generation, content in zip(
            others.tolist(), generation_of(page[others]).tolist(), contents, strict=True
        )
    ]


def _put_new(writes: Writes, page: PageArray, digest: DigestRows) -> None:
    """Collect the writes of records of pages that had none."""
    head = np.zeros(page.size, _HEAD)
    head["generation"], head["n_digests"] = generation_of(page), 1
    rows = np.concatenate([head.view(np.uint8).reshape(-1, HEAD_BYTES), digest], axis=1)
    writes.keys += keys_of(RECORD, page & 0xFFFFFFFF, 4)
    writes.values += bytes_of_rows(rows)
