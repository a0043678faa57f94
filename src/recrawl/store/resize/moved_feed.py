"""The change feeds of old partitions, merged into those of new ones.

A new log has no change at its first position, so the old changes are put there, a row each, in the
order of their time.  Beside each the store keeps its old place: so a cursor of the old feed leads
to the first change that it has not read.

::

    letter  then                                              value
    o       old partition, position and row, 2 + 8 + 4        row of the change here, 4
"""

import heapq
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.changes import Cursor, place_of, url_of_change, with_number, with_page
from recrawl.store.keys import CHANGE, META, PageArray, Writes

__all__ = [
    "MovedChange",
    "OldFeed",
    "end_origins",
    "merge_feeds",
    "moved_changes",
    "translate_places",
]

_ORIGIN = b"o"
_KEY = struct.Struct(">cHQI")
_ROW = struct.Struct(">I")
_ABOUT = META + b"old-feed"
_ROWS_AT_ONCE = 4_096
_END_OF_CHANGES = bytes([CHANGE[0] + 1])


class OldFeed(NamedTuple):
    """What is known of the feeds that were moved here."""

    generation: int
    """Layout generation of the old partitions."""
    first: tuple[Cursor, ...]
    """First change that each old partition still had."""


class MovedChange(NamedTuple):
    """A change in the feed of an old partition."""

    at_ms: int
    partition: int
    """Old partition."""
    place: Cursor
    new_partition: int
    value: bytes
    """Stored bytes, with the new number of the page."""


def moved_changes(
    kv: KeyValues,
    partition: int,
    partitions_of: Callable[[pa.StringArray], NDArray[np.int64]],
    new_pages: Callable[[PageArray], PageArray],
) -> Iterator[MovedChange]:
    """Yield the changes of an old partition; those without a URL only moved cursors.

    Parameters
    ----------
    kv
        Keys and values of the store.
    partition
        Number of the old partition.
    partitions_of
        Function that returns the new partitions of names of pages.
    new_pages
        Function that returns the new numbers of pages.
    """
    rows = kv.scan(CHANGE, _END_OF_CHANGES)
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        chunk = [row for row in chunk if url_of_change(row[1])]
        names = pa.array([url_of_change(value) for _, value in chunk], pa.binary())
        found = partitions_of(names.cast(pa.string())).tolist()
        places = [place_of(key, value) for key, value in chunk]
        pages = new_pages(np.array([page for _, page, _ in places], np.int64)).tolist()
        for (_, value), (place, _, at_ms), new, page in zip(
            chunk, places, found, pages, strict=True
        ):
            yield MovedChange(at_ms, partition, place, new, with_page(value, page))


def merge_feeds(
    feeds: Sequence[Iterator[MovedChange]], targets: Sequence[KeyValues], about: OldFeed
) -> list[int]:
    """Write the changes of all old partitions into the new stores; return how many each has.

    Parameters
    ----------
    feeds
        Changes of each old partition.
    targets
        Keys and values of each new store.
    about
        Generation and beginnings of the old feeds.
    """
    writes = [Writes() for _ in targets]
    n_rows = [0] * len(targets)
    # Changes of one instant stay in the order of their partitions and places.
    for change in heapq.merge(*feeds, key=lambda one: one[:3]):
        new = change.new_partition
        row, one = n_rows[new], writes[new]
        one.put(_change_key(row), with_number(change.value, row))
        one.put(_KEY.pack(_ORIGIN, change.partition, *change.place), _ROW.pack(row))
        n_rows[new] += 1
        if len(one.keys) >= 2 * _ROWS_AT_ONCE:
            targets[new].write(one.keys, one.values)
            writes[new] = Writes()
    text = json.dumps({"generation": about.generation, "first": about.first}).encode()
    for kv, one in zip(targets, writes, strict=True):
        one.put(_ABOUT, text)
        kv.write(one.keys, one.values)
    return n_rows


def _change_key(row: int) -> bytes:
    return struct.pack(">cQI", CHANGE, 0, row)


def _read_about(kv: KeyValues) -> OldFeed | None:
    value = kv.get(_ABOUT)
    if value is None:
        return None
    about = json.loads(value)
    return OldFeed(about["generation"], tuple(Cursor(*place) for place in about["first"]))


def translate_places(
    kv: KeyValues, generation: int, places: Sequence[Cursor], first_change: Cursor
) -> Cursor:
    """Return the place here of the first change that a cursor of the old feed has not read.

    Changes after it that the cursor has read already are read again; there are none if the reader
    has read the changes of all partitions in the order of their time.

    Parameters
    ----------
    kv
        Keys and values of the store.
    generation
        Layout generation of the cursor.
    places
        Place of the cursor in each old partition.
    first_change
        First change that the store has.

    Raises
    ------
    ValueError
        If the cursor is not one of the feed that was moved here, or if changes were removed that
        it has not read.
    """
    about = _read_about(kv)
    if about is None or about.generation != generation or len(about.first) != len(places):
        raise ValueError(
            f"the cursor is from layout generation {generation}, which this change feed does not "
            "know: the division into partitions was changed. Begin with the oldest change, or "
            "with the newest"
        )
    start = Cursor.parse(None)
    if any(start < place < first for place, first in zip(places, about.first, strict=True)):
        raise ValueError(
            "changes after the cursor were removed before they were read (changes.kept_for, "
            "changes.kept_max). Begin with the oldest change, or with the newest"
        )
    rows = []
    for i, place in enumerate(places):
        end = _KEY.pack(_ORIGIN, i, (1 << 64) - 1, (1 << 32) - 1)
        found = next(kv.scan(_KEY.pack(_ORIGIN, i, *place), end), None)
        if found is not None:
            rows.append(_ROW.unpack(found[1])[0])
    return max(Cursor(0, min(rows)), first_change) if rows else max(Cursor(1, 0), first_change)


def end_origins(kv: KeyValues) -> None:
    """Forget the old places, after the last change that was moved here was removed."""
    if kv.get(_ABOUT) is not None and next(kv.scan(_ORIGIN, b"p"), None) is not None:
        kv.write([], [], delete_range=(_ORIGIN, b"p"))
