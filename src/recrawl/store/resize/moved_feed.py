"""Change feeds of old partitions, merged into those of new ones.

A new log has no change at its first position, so the old changes are put there, a row each, in the
order of their time.  Beside each the store keeps its old places, one for each earlier division into
partitions that the change has seen: so a cursor of any old feed leads to the first change that it
has not read.

::

    letter  then                                                          value
    o       generation, old partition, position and row, 1 + 2 + 8 + 4    two rows here, 4 + 4

The first row is that of the change.  The second one is the smallest row of this change and of the
later ones of its old partition: after several divisions they may be in another order here.

Earlier versions kept the places of the last division only.  Their keys have no generation, and
their values no second row.
"""

import heapq
import json
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.kv import KeyValues
from recrawl.store.changes import Cursor, place_of, url_of_change, with_numbers
from recrawl.store.keys import CHANGE, META, PageArray, Writes

__all__ = [
    "MORE_MAY_COME",
    "FeedMerge",
    "MovedChange",
    "OldFeed",
    "UnreadChangesError",
    "end_origins",
    "moved_changes",
    "n_changes_read",
    "old_feed",
    "old_feeds",
    "translate_places",
]

MORE_MAY_COME: Final = -1
"""New partition of what stands for changes that may still come; see `moved_changes`."""
_ORIGIN: Final = b"o"
_END_OF_ORIGINS: Final = b"p"
_KEY = struct.Struct(">cBHQI")
_KEY_COLUMNS = np.dtype(
    [
        ("letter", "u1"),
        ("generation", "u1"),
        ("partition", ">u2"),
        ("position", ">u8"),
        ("row", ">u4"),
    ]
)
_PLACE = struct.Struct(">QI")
_ROWS = struct.Struct(">II")
_ROW_BYTES: Final = 4
_ABOUT: Final = META + b"old-feed"
_ROWS_AT_ONCE: Final = 4_096
_END_OF_CHANGES = bytes([CHANGE[0] + 1])
# No row of a log has this number.
_LAST_PLACE = Cursor((1 << 64) - 1, (1 << 32) - 1)


class UnreadChangesError(ValueError):
    """Changes after a cursor of an old feed were removed before they were read."""


class OldFeed(NamedTuple):
    """What is known of the feeds of one earlier division into partitions."""

    generation: int
    """Layout generation of the old partitions."""
    first: tuple[Cursor, ...]
    """Place in each old partition after the changes that are no longer kept."""


class MovedChange(NamedTuple):
    """A change in the feed of an old partition."""

    at_ms: int
    partition: int
    """Old partition."""
    place: Cursor
    new_partition: int
    page: int
    """New number of the page."""
    value: bytes
    """Stored bytes."""
    origins: tuple[tuple[int, int, Cursor], ...] = ()
    """Generation, partition and place of the change in each division before the old one."""


class _Origins(NamedTuple):
    """The old places of the changes that were moved to a store, in the order of their rows."""

    key: NDArray[np.void]
    row: NDArray[np.int64]

    @classmethod
    def read(cls, kv: KeyValues, about: "_About | None") -> Self:
        """Return those of a store."""
        found = [] if about is None else [*kv.scan(_ORIGIN, _END_OF_ORIGINS)]
        if about is not None and about.is_of_one_division:
            head = _ORIGIN + bytes([about.feeds[0].generation])
            found = [(head + key[1:], value) for key, value in found]
        key = np.frombuffer(b"".join(key for key, _ in found), _KEY_COLUMNS)
        rows = np.frombuffer(b"".join(value[:_ROW_BYTES] for _, value in found), ">u4")
        row = rows.astype(np.int64)
        order = np.argsort(row, kind="stable")
        return cls(key[order], row[order])

    def of_rows(self, rows: Sequence[int]) -> list[tuple[tuple[int, int, Cursor], ...]]:
        """Return the old places of changes, given by their rows in ascending order."""
        if not rows or not self.row.size:
            return [()] * len(rows)
        begin = np.searchsorted(self.row, rows)
        end = np.searchsorted(self.row, rows, side="right")
        first = int(begin[0])
        places = [
            (generation, partition, Cursor(position, row))
            for _, generation, partition, position, row in self.key[first : end[-1]].tolist()
        ]
        return [
            tuple(places[a:b])
            for a, b in zip((begin - first).tolist(), (end - first).tolist(), strict=True)
        ]


def moved_changes(
    kv: KeyValues,
    partition: int,
    partitions_of: Callable[[pa.StringArray], NDArray[np.int64]],
    new_pages: Callable[[PageArray], PageArray],
    *,
    first: Cursor | None = None,
    open_from_ms: int | None = None,
) -> Iterator[MovedChange]:
    """Yield the changes of an old partition; those without a URL only moved cursors.

    If the log of the partition has not ended, the last one is no change: its new partition is
    `MORE_MAY_COME`, and it stands for all changes that may still come.

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
    first
        Place of the first change to yield; by default the beginning.
    open_from_ms
        Earliest time of a change that may still come; None if the log has ended.
    """
    first = first or Cursor.parse(None)
    # Those that were moved to this store are at position 0.
    about = _read_about(kv) if first.position == 0 else None
    origins = _Origins.read(kv, about)
    rows = kv.scan(_change_key(*first), _END_OF_CHANGES)
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        urls = [url_of_change(value) for _, value in chunk]
        if not all(urls):
            chunk = [row for row, url in zip(chunk, urls, strict=True) if url]
            urls = [url for url in urls if url]
        found = partitions_of(pa.array(urls, pa.binary()).cast(pa.string())).tolist()
        places = [place_of(key, value) for key, value in chunk]
        pages = new_pages(np.array([page for _, page, _ in places], np.int64)).tolist()
        # They come first; the log has none at position 0.
        earlier = origins.of_rows([place.row for place, *_ in places if place.position == 0])
        earlier += [()] * (len(places) - len(earlier))
        for (_, value), (place, _, at_ms), new, page, old_places in zip(
            chunk, places, found, pages, earlier, strict=True
        ):
            yield MovedChange(at_ms, partition, place, new, page, value, old_places)
    if open_from_ms is not None:
        yield MovedChange(open_from_ms, partition, first, MORE_MAY_COME, -1, b"")


def old_feeds(stores: Sequence[tuple[KeyValues, Cursor]], present: OldFeed) -> list[OldFeed]:
    """Return what is known of the feeds of all divisions so far, the oldest first.

    Parameters
    ----------
    stores
        Keys and values of the store of each partition, and the first change that it has.
    present
        Feed of the present division.
    """
    firsts: dict[int, tuple[Cursor, ...]] = {}
    for kv, first_change in stores:
        about = _read_about(kv)
        if about is None:
            continue
        if first_change == Cursor.parse(None):
            for generation, kept in about.feeds:
                before = firsts.get(generation, kept)
                firsts[generation] = tuple(map(max, before, kept))
            continue  # nothing was removed; the old places take long to read
        origins = _Origins.read(kv, about)
        n_removed = origins.row.size
        if first_change.position == 0:
            n_removed = int(np.searchsorted(origins.row, first_change.row))
        removed = origins.key[:n_removed]
        for generation, kept in about.feeds:
            first = list(firsts.get(generation, kept))
            for i, place in enumerate(kept):
                first[i] = max(first[i], place)
            of_feed = removed[removed["generation"] == generation]
            for _, _, partition, position, row in of_feed.tolist():
                first[partition] = max(first[partition], Cursor(position, row + 1))
            firsts[generation] = tuple(first)
    return [*(OldFeed(*one) for one in sorted(firsts.items())), present]


class FeedMerge:
    """Merges the change feeds of all old partitions into the new ones, also while they grow.

    Each time it merges the changes whose place in the order is final: those before the earliest
    one that may still come to any old partition.

    Parameters
    ----------
    targets
        Keys and values of each new store.
    n_olds
        Number of old partitions.
    """

    def __init__(self, targets: Sequence[KeyValues], n_olds: int) -> None:
        self._targets = targets
        self.next = [Cursor.parse(None)] * n_olds
        """Place after the last merged change of each old partition."""
        # The last of the merged changes in the order of time, partition and place.
        self._last = (-1, -1, Cursor.parse(None))
        # Page of each merged change, by new store.
        self._pages = [array("q") for _ in targets]

    @property
    def n_rows(self) -> list[int]:
        """Number of changes in each new store."""
        return [len(pages) for pages in self._pages]

    def clear(self) -> None:
        """Remove everything from the new stores that was merged so far."""
        for kv in self._targets:
            for begin, end in ((CHANGE, _END_OF_CHANGES), (_ORIGIN, _END_OF_ORIGINS)):
                kv.write([], [], delete_range=(begin, end))
        self.next = [Cursor.parse(None)] * len(self.next)
        self._last = (-1, -1, Cursor.parse(None))
        self._pages = [array("q") for _ in self._targets]

    def add(self, feeds: Sequence[Iterator[MovedChange]], olds: Sequence[OldFeed]) -> bool:
        """Merge more changes; return False if one should have come before those merged already.

        That happens if the time of a partition was set back.  Then everything must begin again.

        Parameters
        ----------
        feeds
            Changes of each old partition, from `next` on.
        olds
            Result of `old_feeds`.
        """
        heads = [next(feed, None) for feed in feeds]
        for head in heads:
            if head is not None and head.partition != self._last[1] and head[:3] < self._last:
                return False
        whole = [
            feed if head is None else chain([head], feed)
            for head, feed in zip(heads, feeds, strict=True)
        ]
        writes = [Writes() for _ in self._targets]
        generation, has_origins = olds[-1].generation, False
        # Changes of one instant stay in the order of their partitions and places: each feed has
        # another partition, so nothing after it is compared.
        for at_ms, partition, place, new, page, value, origins in heapq.merge(*whole):
            if new == MORE_MAY_COME:
                break
            row, one = len(self._pages[new]), writes[new]
            rows = _ROWS.pack(row, row)
            one.keys += (_change_key(0, row), _origin_key(generation, partition, place))
            one.values += (with_numbers(value, row, page), rows)
            for origin in origins:
                one.put(_origin_key(*origin), rows)
                has_origins = True
            self._pages[new].append(page)
            self.next[partition] = Cursor(place.position, place.row + 1)
            self._last = max(self._last, (at_ms, partition, place))
            if len(one.keys) >= 2 * _ROWS_AT_ONCE:
                self._targets[new].write(one.keys, one.values)
                writes[new] = Writes()
        for kv, one in zip(self._targets, writes, strict=True):
            kv.write(one.keys, one.values)
            # The rows that come later are larger, so they do not change these.
            for feed in olds[:-1] if has_origins else ():
                for partition in range(len(feed.first)):
                    _set_smallest_rows(kv, feed.generation, partition)
        return True

    def renumber_pages(self, target: int, before: PageArray, after: PageArray) -> None:
        """Set the numbers of pages in the changes of a new store.

        Parameters
        ----------
        target
            Number of the new store.
        before, after
            Numbers of pages until now, in ascending order, and their new ones.
        """
        pages = np.frombuffer(self._pages[target], np.int64) if self._pages[target] else before[:0]
        row = np.flatnonzero(np.isin(pages, before))
        if row.size == 0:
            return
        new = after[np.searchsorted(before, pages[row])].tolist()
        del pages
        kv = self._targets[target]
        for begin in range(0, row.size, _ROWS_AT_ONCE):
            some = row[begin : begin + _ROWS_AT_ONCE].tolist()
            writes = Writes()
            keys = [_change_key(0, one) for one in some]
            numbers = new[begin : begin + _ROWS_AT_ONCE]
            for one, key, value, page in zip(some, keys, kv.get_many(keys), numbers, strict=True):
                assert value is not None
                writes.put(key, with_numbers(value, one, page))
                self._pages[target][one] = page
            kv.write(writes.keys, writes.values)

    def finish(self, olds: Sequence[OldFeed]) -> list[int]:
        """Write what the new stores must know of the old feeds; return how many changes each has.

        Parameters
        ----------
        olds
            Result of `old_feeds`.
        """
        for kv, n_changes in zip(self._targets, self.n_rows, strict=True):
            kv.write([_ABOUT], [_encode_about(_About([*olds], n_changes))])
        return self.n_rows


def _set_smallest_rows(kv: KeyValues, generation: int, partition: int) -> None:
    """Set the second row of each old place of a partition."""
    writes, smallest = Writes(), (1 << 32) - 1
    begin = _origin_key(generation, partition, Cursor.parse(None))
    end = _origin_key(generation, partition, _LAST_PLACE)
    for key, value in kv.scan(begin, end, reverse=True):
        row, known = _ROWS.unpack(value)
        smallest = min(smallest, row)
        if known != smallest:
            writes.put(key, _ROWS.pack(row, smallest))
        if len(writes.keys) >= _ROWS_AT_ONCE:
            kv.write(writes.keys, writes.values)
            writes = Writes()
    if writes.keys:
        kv.write(writes.keys, writes.values)


def _change_key(position: int, row: int) -> bytes:
    return struct.pack(">cQI", CHANGE, position, row)


def _origin_key(generation: int, partition: int, place: Cursor) -> bytes:
    return _KEY.pack(_ORIGIN, generation, partition, *place)


class _About(NamedTuple):
    """What a store knows of the feeds that were moved here."""

    feeds: list[OldFeed]
    """Those of all earlier divisions, the oldest first."""
    n_changes: int
    """Number of changes that were moved here."""
    is_of_one_division: bool = False
    """Whether an earlier version moved them, which kept the places of one division only."""

    def range_of(self, feed: OldFeed, partition: int, place: Cursor) -> tuple[bytes, bytes]:
        """Return the range of the keys of one old partition, from a place on."""
        keys = (_origin_key(feed.generation, partition, one) for one in (place, _LAST_PLACE))
        if self.is_of_one_division:
            keys = (key[:1] + key[2:] for key in keys)
        first, end = keys
        return first, end

    def feed(self, generation: int) -> OldFeed | None:
        """Return the feed of a generation; None if it is not known."""
        return next((one for one in self.feeds if one.generation == generation), None)


def _read_about(kv: KeyValues) -> _About | None:
    value = kv.get(_ABOUT)
    if value is None:
        return None
    about = json.loads(value)
    if "feeds" not in about:
        return _read_one_division(kv, about)
    feeds = [
        OldFeed(generation, tuple(Cursor(*place) for place in first))
        for generation, first in about["feeds"]
    ]
    return _About(feeds, about["n_changes"])


def _read_one_division(kv: KeyValues, found: Mapping[str, Any]) -> _About:
    """Return what a store knows that an earlier version has made."""
    feed = OldFeed(found["generation"], tuple(Cursor(*place) for place in found["first"]))
    about = _About([feed], 0, is_of_one_division=True)
    last = _last_origins(kv, about, feed)
    if not last:
        # That version did not note which changes were removed last: maybe some were not read.
        return about._replace(feeds=[feed._replace(first=(_LAST_PLACE,) * len(feed.first))])
    return about._replace(n_changes=1 + max(_smallest_row(value) for _, value in last.values()))


def _last_origins(kv: KeyValues, about: _About, feed: OldFeed) -> dict[int, tuple[bytes, bytes]]:
    """Return key and value of the last place in each old partition that has one here."""
    found = {}
    for i in range(len(feed.first)):
        begin, end = about.range_of(feed, i, Cursor.parse(None))
        last = next(kv.scan(begin, end, reverse=True), None)
        if last is not None:
            found[i] = last
    return found


def _smallest_row(value: bytes) -> int:
    return int.from_bytes(value[-_ROW_BYTES:], "big")


def old_feed(kv: KeyValues, generation: int) -> OldFeed | None:
    """Return what a store knows of the feeds of an earlier division; None for nothing."""
    about = _read_about(kv)
    return None if about is None else about.feed(generation)


def _encode_about(about: _About) -> bytes:
    return json.dumps({"feeds": about.feeds, "n_changes": about.n_changes}).encode()


def translate_places(kv: KeyValues, generation: int, places: Sequence[Cursor]) -> Cursor:
    """Return the place here of the first change that a cursor of an old feed has not read.

    The change may have been removed since it was moved here.  Changes after it that the cursor has
    read already are read again; there are none if the reader has read the changes of all
    partitions in the order of their time, and their number was changed once since.

    Parameters
    ----------
    kv
        Keys and values of the store.
    generation
        Layout generation of the cursor.
    places
        Place of the cursor in each old partition.

    Raises
    ------
    UnreadChangesError
        If changes were removed that the cursor has not read, before the others were moved here.
    ValueError
        If the cursor is not one of a feed that was moved here.
    """
    row = _first_unread(kv, *_about_feed(kv, generation, places), places)
    return Cursor(1, 0) if row is None else Cursor(0, row)


def n_changes_read(kv: KeyValues, generation: int, places: Sequence[Cursor]) -> int:
    """Return the number of changes before the place that `translate_places` returns."""
    about, feed = _about_feed(kv, generation, places)
    row = _first_unread(kv, about, feed, places)
    return about.n_changes if row is None else row


def _about_feed(kv: KeyValues, generation: int, places: Sequence[Cursor]) -> tuple[_About, OldFeed]:
    """Return what is known of the changes that were moved here, and of the feed of a cursor."""
    about = _read_about(kv)
    feed = None if about is None else about.feed(generation)
    if about is None or feed is None or len(feed.first) != len(places):
        raise ValueError(
            f"the cursor is from layout generation {generation}, which this change feed does not "
            "know: the division into partitions was changed. Begin with the oldest change, or "
            "with the newest"
        )
    return about, feed


def _first_unread(
    kv: KeyValues, about: _About, feed: OldFeed, places: Sequence[Cursor]
) -> int | None:
    """Return the row of the first change that was not read; None if all were."""
    start = Cursor.parse(None)
    if any(start < place < first for place, first in zip(places, feed.first, strict=True)):
        raise UnreadChangesError(
            "changes after the cursor were removed before they were read (changes.kept_for, "
            "changes.kept_max). Begin with the oldest change, or with the newest"
        )
    rows = []
    for i, place in enumerate(places):
        found = next(kv.scan(*about.range_of(feed, i, place)), None)
        if found is not None:
            rows.append(_smallest_row(found[1]))
    return min(rows, default=None)


def end_origins(kv: KeyValues) -> None:
    """Forget the old places, after the last change that was moved here was removed."""
    about = _read_about(kv)
    if about is None or next(kv.scan(_ORIGIN, _END_OF_ORIGINS), None) is None:
        return
    feeds = []
    for feed in about.feeds:
        first = list(feed.first)
        for i, (key, _) in _last_origins(kv, about, feed).items():
            position, row = _PLACE.unpack(key[-_PLACE.size :])
            first[i] = max(first[i], Cursor(position, row + 1))
        feeds.append(feed._replace(first=tuple(first)))
    about = about._replace(feeds=feeds)
    kv.write([_ABOUT], [_encode_about(about)], delete_range=(_ORIGIN, _END_OF_ORIGINS))
