"""The user's own data of pages: a doc_id and metadata, only for pages that have any.

A doc_id is the name of the page's document in the user's own system.  Metadata is a JSON object,
stored as text.  recrawl returns both with orders and changes, and does not interpret them.
"""

import json
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from recrawl.kv import KeyValues
from recrawl.shard.events import slot_of_page
from recrawl.store.keys import USER_DATA, PageArray, Writes, keys_of, stored_values

__all__ = [
    "DOC_ID_BYTES_MAX",
    "METADATA_BYTES_MAX",
    "UserData",
    "metadata_object",
    "put_user_data",
    "stored_user_data",
    "user_data_in",
]

DOC_ID_BYTES_MAX = 256
"""Limit of a doc_id, in bytes of UTF-8."""
METADATA_BYTES_MAX = 8_192
"""Limit of the metadata of a page, in bytes of compact JSON."""

# Layout of a value: generation, length of the doc_id; then the doc_id and the metadata.
_HEAD = struct.Struct(">BH")
_NOTHING = (b"", b"")


class UserData(NamedTuple):
    """The user's own data of pages as columns, a row per page; None where a page has none."""

    doc_id: list[str | None]
    metadata: list[str | None]
    """JSON objects as compact text."""


def stored_user_data(kv: KeyValues, page: PageArray) -> list[bytes | None]:
    """Return the stored bytes of the user's data of pages, None for pages without any."""
    return stored_values(kv, USER_DATA, page)


def _parts_of(value: bytes | None) -> tuple[bytes, bytes]:
    if value is None:
        return _NOTHING
    _, length = _HEAD.unpack_from(value)
    end = _HEAD.size + length
    return value[_HEAD.size : end], value[end:]


def user_data_in(values: list[bytes | None]) -> UserData:
    """Return the data in the bytes that `stored_user_data` returned."""
    parts = [_parts_of(value) for value in values]
    return UserData(
        [doc_id.decode() or None for doc_id, _ in parts],
        [metadata.decode() or None for _, metadata in parts],
    )


def metadata_object(text: str | None) -> dict[str, Any] | None:
    """Return metadata, stored as text, as a dictionary."""
    return None if text is None else json.loads(text)


def put_user_data(
    writes: Writes,
    page: PageArray,
    values: list[bytes | None],
    rows: Iterable[tuple[int, bytes | None, bytes | None]],
) -> None:
    """Collect the writes that set the data of pages, in the given order.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    page, values
        All pages of ``rows``, and their stored data as `stored_user_data` returns it.
    rows
        Page, doc_id and metadata; None leaves a value, empty bytes remove it.
    """
    known = {row: _parts_of(value) for row, value in zip(page.tolist(), values, strict=True)}
    for row, doc_id, metadata in rows:
        old = known[row]
        known[row] = (
            old[0] if doc_id is None else doc_id,
            old[1] if metadata is None else metadata,
        )
    for row, key in zip(known, keys_of(USER_DATA, slot_of_page(page), 4), strict=True):
        doc_id, metadata = known[row]
        if doc_id or metadata:
            writes.put(key, _HEAD.pack(row >> 32, len(doc_id)) + doc_id + metadata)
        else:
            writes.deletes.append(key)
