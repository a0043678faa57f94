"""The feed of changes: the most recent transitions of pages, in the order of the log.

The places of consumers in the feed are here only if they are in the log, as in a cluster; a corpus
in one process keeps them in files of its own.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.keys import CHANGE, CONSUMER, ROWS_FEW, PageArray, Writes, bytes_of_rows

__all__ = [
    "ConsumerPlace",
    "Cursor",
    "NewChanges",
    "StoredChange",
    "change_at",
    "changes_from",
    "changes_of_page",
    "consumer_places",
    "first_change_to_keep",
    "newest_changes",
    "number_from",
    "place_of",
    "put_changes",
    "put_consumer_places",
    "range_before",
    "stored_consumer_place",
    "url_of_change",
    "with_numbers",
    "without_url",
]

# Layout of a value: number among all changes, page, instant, transition; then the URL.  A change
# with passages has a flag in its transition; then follow the length of its URL, URL and passages.
_HEAD = struct.Struct(">QqqB")
_NUMBERS = struct.Struct(">Qq")
_HAS_PASSAGES = 0x80
_URL_BYTES = struct.Struct(">I")
_KEY = struct.Struct(">cQI")
_HEAD_COLUMNS = np.dtype(
    [("number", ">u8"), ("page", ">i8"), ("at_ms", ">i8"), ("transition", "u1")]
)
_KEY_COLUMNS = np.dtype([("letter", "u1"), ("position", ">u8"), ("row", ">u4")])
_END = bytes([CHANGE[0] + 1])
_AFTER_CONSUMERS = bytes([CONSUMER[0] + 1])


class Cursor(NamedTuple):
    """Place in the feed: position in the log and row of the change to read next."""

    position: int
    row: int

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the cursor in a text; None is the beginning of the feed.

        Raises
        ------
        ValueError
            If the text is not a cursor.

        Examples
        --------
        >>> Cursor.parse("7.2")
        Cursor(position=7, row=2)
        >>> str(Cursor.parse(None))
        '0.0'
        """
        if text is None:
            return cls(0, 0)
        position, dot, row = text.partition(".")
        is_number = dot and position.isdecimal() and row.isdecimal() and text.isascii()
        if not is_number or int(position) >= 1 << 63 or int(row) >= 1 << 32:
            raise ValueError(
                f"cursor must be two numbers separated by a dot, such as 7.2, got {text!r}"
            )
        return cls(int(position), int(row))

    def __str__(self) -> str:
        return f"{self.position}.{self.row}"


class StoredChange(NamedTuple):
    """One transition of a page, as the store holds it."""

    cursor: Cursor
    """Cursor to continue reading after this change."""
    page: int
    transition: int
    at_ms: int
    url: str | None
    """URL of the page, None if it was not known."""
    key: str | None = None
    """Key of the page, in a corpus grouped by key."""
    passages: bytes | None = None
    """Passages of the change, for `unpack_passages`; None if not known."""


def _key(position: int, row: int) -> bytes:
    return _KEY.pack(CHANGE, position, row)


class NewChanges(NamedTuple):
    """Changes of one record of the log, a row each."""

    first: Cursor
    """Place of the first one; the others follow."""
    page: PageArray
    transition: NDArray[np.integer[Any]]
    at_ms: NDArray[np.int64]
    url: list[bytes | None] | None
    """URLs of the pages; None, or a row of None, to take that of the store."""
    passages: list[bytes | None] | None


def put_changes(
    writes: Writes, changes: NewChanges, first_number: int, urls: Sequence[bytes | None]
) -> None:
    """Collect the writes of changes.

    Parameters
    ----------
    writes
        Collection that receives the writes.
    changes
        Changes in the order of the log.
    first_number
        Number of the first one; the others follow.
    urls
        URL of each, None if it is not known.
    """
    (position, row), page, transition, at_ms, _, passages = changes
    if passages is None and page.size > ROWS_FEW:
        _put_many(writes, changes, first_number, urls)
        return
    columns = (page.tolist(), transition.tolist(), at_ms.tolist(), urls)
    pieces = [None] * page.size if passages is None else passages
    for i, (number, code, instant, url, piece) in enumerate(zip(*columns, pieces, strict=True)):
        writes.keys.append(_KEY.pack(CHANGE, position, row + i))
        if piece is None:
            head = _HEAD.pack(first_number + i, number, instant, code)
            writes.values.append(head + (url or b""))
        else:
            head = _HEAD.pack(first_number + i, number, instant, code | _HAS_PASSAGES)
            text = url or b""
            writes.values.append(b"".join((head, _URL_BYTES.pack(len(text)), text, piece)))


def _put_many(
    writes: Writes, changes: NewChanges, first_number: int, urls: Sequence[bytes | None]
) -> None:
    """Collect the writes of changes without passages, as arrays."""
    (position, row), page, transition, at_ms, _, _ = changes
    key, head = np.zeros(page.size, _KEY_COLUMNS), np.empty(page.size, _HEAD_COLUMNS)
    key["letter"], key["position"] = CHANGE[0], position
    key["row"] = row + np.arange(page.size)
    head["number"] = first_number + np.arange(page.size)
    head["page"], head["at_ms"], head["transition"] = page, at_ms, transition
    writes.keys += bytes_of_rows(key.view(np.uint8).reshape(page.size, _KEY.size))
    heads = bytes_of_rows(head.view(np.uint8).reshape(page.size, _HEAD.size))
    writes.values += [one + (url or b"") for one, url in zip(heads, urls, strict=True)]


def _parts_of(value: bytes) -> tuple[int, int, int, bytes, bytes | None]:
    """Return the page, instant, transition, URL and passages in the stored bytes of a change."""
    _, page, at_ms, transition = _HEAD.unpack_from(value)
    if not transition & _HAS_PASSAGES:
        return page, at_ms, transition, value[_HEAD.size :], None
    (n_bytes,) = _URL_BYTES.unpack_from(value, _HEAD.size)
    begin = _HEAD.size + _URL_BYTES.size
    end = begin + n_bytes
    return page, at_ms, transition & ~_HAS_PASSAGES, value[begin:end], value[end:]


def url_of_change(value: bytes) -> bytes:
    """Return the URL in the stored bytes of a change, empty if there is none."""
    return _parts_of(value)[3]


def without_url(value: bytes) -> bytes:
    """Return the stored bytes of a change without URL and passages; it only moves cursors."""
    number, page, at_ms, transition = _HEAD.unpack_from(value)
    return _HEAD.pack(number, page, at_ms, transition & ~_HAS_PASSAGES)


def place_of(key: bytes, value: bytes) -> tuple[Cursor, int, int]:
    """Return the place, the page and the instant of a stored change."""
    _, position, row = _KEY.unpack(key)
    _, page, at_ms, _ = _HEAD.unpack_from(value)
    return Cursor(position, row), page, at_ms


def with_numbers(value: bytes, number: int, page: int) -> bytes:
    """Return the stored bytes of a change with other numbers: its own, and that of its page."""
    return _NUMBERS.pack(number, page) + value[_NUMBERS.size :]


def _change_in(value: bytes, cursor: Cursor) -> StoredChange:
    page, at_ms, transition, name, passages = _parts_of(value)
    # The name of the page: its URL, in a corpus grouped by key after the key and a tab.
    key, tab, url = name.decode().rpartition("\t")
    page_key = key if tab else None
    return StoredChange(cursor, page, transition, at_ms, url or None, page_key, passages)


def newest_changes(kv: KeyValues, limit: int) -> list[StoredChange]:
    """Return the last changes, newest first.

    Parameters
    ----------
    kv
        Keys and values of the store.
    limit
        Largest number of changes.
    """
    changes: list[StoredChange] = []
    for key, value in kv.scan(CHANGE, _END, reverse=True):
        if len(changes) == limit:
            break
        _, position, row = _KEY.unpack(key)
        changes.append(_change_in(value, Cursor(position, row + 1)))
    return changes


def changes_from(kv: KeyValues, after: Cursor, limit: int) -> list[StoredChange]:
    """Return up to ``limit`` changes from a place on."""
    changes: list[StoredChange] = []
    if limit <= 0:
        return changes
    for key, value in kv.scan(_key(*after), _END):
        _, position, row = _KEY.unpack(key)
        changes.append(_change_in(value, Cursor(position, row + 1)))
        if len(changes) == limit:
            break
    return changes


def changes_of_page(
    kv: KeyValues, page: int, place: Cursor, n_read_max: int, *, before: bool
) -> Iterator[StoredChange]:
    """Yield the changes of a page on one side of a place, the nearest to it first.

    Parameters
    ----------
    kv
        Keys and values of the store.
    page
        Number of the page.
    place
        Place in the feed.
    n_read_max
        Largest number of changes of all pages to read.
    before
        Whether to read the changes before the place, otherwise those from it on.
    """
    start, end = (CHANGE, _key(*place)) if before else (_key(*place), _END)
    for n, (key, value) in enumerate(kv.scan(start, end, reverse=before)):
        if n == n_read_max:
            return
        if _HEAD.unpack_from(value)[1] == page:
            _, position, row = _KEY.unpack(key)
            yield _change_in(value, Cursor(position, row + 1))


def change_at(kv: KeyValues, place: Cursor) -> StoredChange | None:
    """Return the change at a place; None if there is none, or it is no longer stored."""
    value = kv.get(_key(*place))
    return None if value is None else _change_in(value, Cursor(place.position, place.row + 1))


def number_from(kv: KeyValues, place: Cursor) -> int | None:
    """Return the number of the first stored change from a place on; None if there is none."""
    found = next(kv.scan(_key(*place), _END), None)
    return None if found is None else int(_HEAD.unpack_from(found[1])[0])


def first_change_to_keep(
    kv: KeyValues, begin: int, end: int, is_kept: Callable[[int, int], bool]
) -> tuple[Cursor, int] | None:
    """Return the place and the number of the first change to keep; None if none is kept.

    Parameters
    ----------
    begin, end
        Range of positions to search.
    is_kept
        Test of a change by its number and instant; true for all changes after the first match.
    """
    while begin < end:
        middle = (begin + end) // 2
        found = next(kv.scan(_key(middle, 0), _key(end, 0)), None)
        if found is None:
            end = middle
            continue
        number, _, at_ms, _ = _HEAD.unpack_from(found[1])
        if is_kept(number, at_ms):
            end = middle
        else:
            begin = _KEY.unpack(found[0])[1] + 1
    # At the position before, the last rows may be kept although the first ones are not.
    for key, value in kv.scan(_key(max(begin - 1, 0), 0), _END):
        number, _, at_ms, _ = _HEAD.unpack_from(value)
        if is_kept(number, at_ms):
            return Cursor(*_KEY.unpack(key)[1:]), number
    return None


def range_before(place: Cursor) -> tuple[bytes, bytes]:
    """Return the range of keys of all changes before a place."""
    return CHANGE, _key(*place)


class ConsumerPlace(NamedTuple):
    """The place of a consumer, as the corpus encodes it; None if the consumer is removed."""

    name: str
    place: bytes | None


def stored_consumer_place(kv: KeyValues, name: str) -> bytes | None:
    """Return the place of a consumer; None if it has none."""
    return kv.get(CONSUMER + name.encode())


def consumer_places(kv: KeyValues) -> dict[str, bytes]:
    """Return the places of all consumers, by name."""
    return {key[1:].decode(): value for key, value in kv.scan(CONSUMER, _AFTER_CONSUMERS)}


def put_consumer_places(writes: Writes, places: Sequence[ConsumerPlace]) -> None:
    """Collect the writes of places; the last one of a consumer counts."""
    for name, place in dict(places).items():
        if place is None:
            writes.deletes.append(CONSUMER + name.encode())
        else:
            writes.put(CONSUMER + name.encode(), place)
