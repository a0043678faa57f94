"""Fetch records of pages: validators, recent digests, sketch, profile, target of a redirect.

All values come from the web, so each has a limit; longer values are not kept.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.keys import (
    RECORD,
    PageArray,
    Writes,
    bytes_of_rows,
    generation_of,
    keys_of,
    numbered_key,
    stored_values,
)

__all__ = [
    "DIGESTS_MAX",
    "DIGEST_BYTES",
    "ETAG_BYTES_MAX",
    "LAST_MODIFIED_BYTES_MAX",
    "MOVED_TO_BYTES_MAX",
    "PROFILE_BYTES_MAX",
    "SAME_CONTENT",
    "SKETCH_BYTES_MAX",
    "Content",
    "DigestMatch",
    "DigestRows",
    "Records",
    "digest_contents",
    "digest_rows",
    "digests_in",
    "match_digests",
    "put_contents",
    "put_digests",
    "record_after_fetch",
    "records_in",
    "stored_records",
    "validators_in",
    "validators_in_columns",
    "without_moved_to",
]

DIGEST_BYTES = 16
DIGESTS_MAX = 4
ETAG_BYTES_MAX = 1024
LAST_MODIFIED_BYTES_MAX = 64
SKETCH_BYTES_MAX = 4096
PROFILE_BYTES_MAX = 4096
MOVED_TO_BYTES_MAX = 0xFFFF

# Layout of a record: generation, number of digests, the lengths of etag, last_modified, sketch,
# profile and moved_to; then the digests and these five values.
_HEAD = struct.Struct("<BB5H")
_NO_FIELDS = (b"",) * 5
_DIGESTS_END = DIGESTS_MAX * DIGEST_BYTES

Content: TypeAlias = tuple[
    bytes | None, bytes | None, bytes | None, bytes | None, bytes | None, bytes | None
]
"""Digest, etag, last_modified, sketch, profile, moved_to of one fetch."""
SAME_CONTENT = b""
"""Digest of a fetch that returned the stored content: the digests and the sketch stay."""
_Fields: TypeAlias = tuple[bytes, ...]


class Records(NamedTuple):
    """Fetch records as columns, a row per page; None, or an empty list, for missing values."""

    digests: list[list[bytes]]
    """Digests of the latest distinct contents, newest first."""
    etag: list[bytes | None]
    last_modified: list[bytes | None]
    """Header as the server sent it."""
    sketch: list[bytes | None]
    profile: list[bytes | None]
    moved_to: list[str | None]


def _fields_in(value: bytes) -> tuple[bytes, _Fields]:
    """Return the concatenated digests of a record, and its five other fields."""
    _, n_digests, n_etag, n_modified, n_sketch, n_profile, _ = _HEAD.unpack_from(value)
    etag = _HEAD.size + n_digests * DIGEST_BYTES
    modified = etag + n_etag
    sketch = modified + n_modified
    profile = sketch + n_sketch
    moved_to = profile + n_profile
    fields = (
        value[etag:modified],
        value[modified:sketch],
        value[sketch:profile],
        value[profile:moved_to],
        value[moved_to:],
    )
    return value[_HEAD.size : etag], fields


def _split_digests(digests: bytes) -> list[bytes]:
    return [digests[i : i + DIGEST_BYTES] for i in range(0, len(digests), DIGEST_BYTES)]


def stored_records(kv: KeyValues, page: PageArray) -> list[bytes | None]:
    """Return the stored bytes of the records of pages, None for pages without one."""
    return stored_values(kv, RECORD, page)


def records_in(values: list[bytes | None]) -> Records:
    """Return the records in the bytes that `stored_records` returned."""
    rows: list[tuple[Any, ...]] = []
    for value in values:
        if value is None:
            rows.append(([], None, None, None, None, None))
            continue
        digests, (etag, last_modified, sketch, profile, moved_to) = _fields_in(value)
        rows.append(
            (
                _split_digests(digests),
                etag or None,
                last_modified or None,
                sketch or None,
                profile or None,
                moved_to.decode(errors="replace") or None,
            )
        )
    columns: Iterable[list[Any]] = map(list, zip(*rows, strict=True)) if rows else ([],) * 6
    return Records(*columns)


def validators_in(values: list[bytes | None]) -> tuple[list[bytes | None], list[bytes | None]]:
    """Return etag and last_modified in the bytes that `stored_records` returned."""
    etags: list[bytes | None] = [None] * len(values)
    modified: list[bytes | None] = [None] * len(values)
    for i, value in enumerate(values):
        if value is not None:
            _, n_digests, n_etag, n_modified, *_ = _HEAD.unpack_from(value)
            etag = _HEAD.size + n_digests * DIGEST_BYTES
            etags[i] = value[etag : etag + n_etag] or None
            modified[i] = value[etag + n_etag : etag + n_etag + n_modified] or None
    return etags, modified


def digests_in(values: list[bytes | None]) -> list[list[bytes]]:
    """Return the digests in the bytes that `stored_records` returned, newest first."""
    return [
        []
        if value is None
        else [
            value[begin : begin + DIGEST_BYTES]
            for begin in range(_HEAD.size, _HEAD.size + value[1] * DIGEST_BYTES, DIGEST_BYTES)
        ]
        for value in values
    ]


def without_moved_to(value: bytes) -> bytes:
    """Return the stored bytes of a record without the target of its redirect."""
    *head, n_moved_to = _HEAD.unpack_from(value)
    return _HEAD.pack(*head, 0) + value[_HEAD.size : len(value) - n_moved_to]


def put_contents(
    writes: Writes, page: PageArray, values: list[bytes | None], contents: Sequence[Content]
) -> None:
    """Collect the writes that update records with the results of fetches, in the given order.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    page, contents
        Pages and the results of their fetches.
    values
        Stored records of the pages, as `stored_records` returns them.
    """
    rows = page.tolist()
    if len(rows) == 1:
        value = record_after_fetch(rows[0] >> 32, values[0], contents[0])
        if value != values[0]:
            writes.put(numbered_key(RECORD, rows[0] & 0xFFFFFFFF, 4), value)
        return
    stored = dict(zip(rows, values, strict=True))
    known = dict(stored)
    for row, content in zip(rows, contents, strict=True):
        known[row] = record_after_fetch(row >> 32, known[row], content)
    changed = {row: value for row, value in known.items() if value != stored[row]}
    writes.keys += keys_of(RECORD, slot_of_page(np.array(list(changed), np.int64)), 4)
    writes.values += [value for value in changed.values() if value is not None]


def record_after_fetch(generation: int, value: bytes | None, content: Content) -> bytes:
    """Return the bytes of a record updated with one more fetch.

    Parameters
    ----------
    generation
        Generation of the page.
    value
        Stored bytes of the record, None if there is none.
    content
        Result of the fetch.
    """
    digest, etag, last_modified, sketch, profile, moved_to = content
    if value is None and digest and etag is last_modified is sketch is profile is moved_to is None:
        # Most first fetches.
        return _HEAD.pack(generation, 1, 0, 0, 0, 0, 0) + digest
    digests, old = (b"", _NO_FIELDS) if value is None else _fields_in(value)
    if digest is None:
        etag = old[0] if etag is None else etag
        last_modified = old[1] if last_modified is None else last_modified
        sketch = old[2] if sketch is None else sketch
        moved_to = old[4] if moved_to is None else moved_to
    else:
        # Content replaces all validators, also with absent ones.
        etag, last_modified, moved_to = etag or b"", last_modified or b"", moved_to or b""
        sketch = old[2] if digest == SAME_CONTENT else sketch or b""
        if digest == SAME_CONTENT:
            pass
        elif digest not in digests:
            digests = (digest + digests)[:_DIGESTS_END]
        elif not digests.startswith(digest):
            older = [old_digest for old_digest in _split_digests(digests) if old_digest != digest]
            digests = b"".join([digest, *older])[:_DIGESTS_END]
    profile = old[3] if profile is None else profile
    head = _HEAD.pack(
        generation,
        len(digests) // DIGEST_BYTES,
        len(etag),
        len(last_modified),
        len(sketch),
        len(profile),
        len(moved_to),
    )
    return b"".join((head, digests, etag, last_modified, sketch, profile, moved_to))


# ---------------------------------------------------------------------------- many records
#
# Most pages have digests and nothing else, and most outcomes say nothing else either.  So a few
# array operations answer what would otherwise take Python objects for each page.

_HEAD_COLUMNS = np.dtype(
    [
        ("generation", "u1"),
        ("n_digests", "u1"),
        *((f"n_{name}", "<u2") for name in ("etag", "modified", "sketch", "profile", "moved_to")),
    ]
)
_NO_RECORD = bytes(_HEAD.size)

DigestRows: TypeAlias = NDArray[np.uint8]
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
        first = self.begin[rows] + (_HEAD.size + place * DIGEST_BYTES)
        found: DigestRows = self.data[first[:, None] + np.arange(DIGEST_BYTES)]
        return found


def _columns_of(values: list[bytes | None]) -> _Columns:
    """Return the records in the bytes that `stored_records` returned."""
    records = [value or _NO_RECORD for value in values]
    data = np.frombuffer(b"".join(records), np.uint8)
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    begin = np.cumsum(lengths) - lengths
    head = data[begin[:, None] + np.arange(_HEAD.size)].view(_HEAD_COLUMNS).ravel()
    return _Columns(data, begin, head)


def validators_in_columns(
    values: list[bytes | None],
) -> tuple[list[bytes | None], list[bytes | None]]:
    """Return etag and last_modified in the bytes that `stored_records` returned."""
    head = _columns_of(values).head
    etags: list[bytes | None] = [None] * len(values)
    modified: list[bytes | None] = [None] * len(values)
    for i in np.flatnonzero((head["n_etag"] > 0) | (head["n_modified"] > 0)).tolist():
        begin = _HEAD.size + int(head["n_digests"][i]) * DIGEST_BYTES
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
    writes.keys += keys_of(RECORD, slot_of_page(page[others]), 4)
    writes.values += [
        record_after_fetch(generation, values[i], content)
        for i, generation, content in zip(
            others.tolist(), generation_of(page[others]).tolist(), contents, strict=True
        )
    ]


def _put_new(writes: Writes, page: PageArray, digest: DigestRows) -> None:
    """Collect the writes of records of pages that had none."""
    head = np.zeros(page.size, _HEAD_COLUMNS)
    head["generation"], head["n_digests"] = generation_of(page), 1
    rows = np.concatenate([head.view(np.uint8).reshape(-1, _HEAD.size), digest], axis=1)
    writes.keys += keys_of(RECORD, slot_of_page(page), 4)
    writes.values += bytes_of_rows(rows)
