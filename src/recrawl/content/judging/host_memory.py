"""What recrawl remembers of a host: its template, volatile places, texts that pages share."""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recrawl.content.judging.count_table import COUNT_MAX, CountTable

__all__ = ["HOST_MEMORY_BYTES_MAX", "HostMemory", "pack_update"]

SAMPLE_PAGES: Final = 48
"""Pages of a host whose passages are counted: the first ones."""
PASSAGES_COUNTED_MAX: Final = 3_072
"""Different passages that are counted; rare ones are dropped first."""
PLACES_MAX: Final = 384
"""Places and passages that did not last on pages of the host."""
TEXTS_MAX: Final = 64
"""Latest texts of pages as a whole, to find one that many pages have."""

TEMPLATE_SHARE: Final = 0.5
"""Share of the counted pages that have a passage of the template."""
TEMPLATE_PAGES_MIN: Final = 3
"""Pages that have a passage of the template, at least."""
VOLATILE_PAGES_MIN: Final = 2
"""Pages on which a place did not last before it is volatile for all pages of the host."""
VOLATILE_SHARE: Final = 0.25
"""Share of the pages of which two answers were compared, on which a place did not last."""
FLAPPING_PAGES_MIN: Final = 3
"""Pages on which a passage came back before it is no page's own, at least."""
FLAPPING_SHARE: Final = 0.25
"""Share of the counted pages on which a passage came back before it is no page's own."""
_DOUBT: Final = 2

_HEAD = struct.Struct("<BBBHHH")
_UPDATE_HEAD = struct.Struct("<BBHHHHH")
_FORMAT = 2
_NO_KEYS: Final = np.empty(0, dtype="<u4")
HOST_MEMORY_BYTES_MAX: Final = (
    _HEAD.size + 5 * PASSAGES_COUNTED_MAX + 5 * PLACES_MAX + 5 * TEXTS_MAX
)
"""Bytes that the memory of a host takes at most."""


def pack_update(
    *,
    is_new_page: bool = False,
    is_first_comparison: bool = False,
    added: Iterable[int] | NDArray[np.uint64] = (),
    removed: Iterable[int] = (),
    places: Iterable[int] = (),
    doubts: Iterable[int] = (),
    texts: Iterable[int] = (),
) -> bytes:
    """Return an update of a host's memory as bytes, empty if it says nothing.

    Parameters
    ----------
    is_new_page
        Whether a page joins the counted pages.
    is_first_comparison
        Whether two answers of a page were compared for the first time.
    added, removed
        Hashes of passages that a counted page got or lost, of which the lower 32 bits are kept.
    places
        Keys of places in which a passage of a page did not last.
    doubts
        Keys of places in which one lasted.
    texts
        Digest of the text of a page whose text is new.
    """
    columns = [_column(values) for values in (added, removed, places, doubts, texts)]
    facts = is_new_page | is_first_comparison << 1
    if not facts and not any(column.size for column in columns):
        return b""
    head = _UPDATE_HEAD.pack(_FORMAT, facts, *(column.size for column in columns))
    return head + b"".join(column.tobytes() for column in columns)


def _column(values: Iterable[int] | NDArray[np.uint64]) -> NDArray[np.uint32]:
    if isinstance(values, np.ndarray):
        return values.astype("<u4")  # drops the upper bits
    return np.fromiter(values, dtype="<u4") if values else _NO_KEYS


class HostMemory:
    """What the pages of a host have in common.

    Parameters
    ----------
    n_pages
        Pages whose passages are counted, at most `SAMPLE_PAGES`.
    n_compared
        Pages of which two answers were compared, at most `SAMPLE_PAGES`.
    counts
        Counted pages that have a passage, by its hash (32 bits).
    places
        Pages on which a place did not last or a passage came back, by its key.
    texts
        Pages that got a text, by its digest (32 bits), the latest last.
    """

    __slots__ = ("_counts", "_places", "_texts", "n_compared", "n_pages")

    def __init__(
        self,
        n_pages: int = 0,
        n_compared: int = 0,
        counts: CountTable | None = None,
        places: CountTable | None = None,
        texts: CountTable | None = None,
    ) -> None:
        self.n_pages = n_pages
        self.n_compared = n_compared
        self._counts = CountTable() if counts is None else counts
        self._places = CountTable() if places is None else places
        self._texts = CountTable() if texts is None else texts

    @property
    def places(self) -> Mapping[int, int]:
        """Pages on which a place did not last or a passage came back, by its key."""
        return self._places.by_key

    @property
    def texts(self) -> Mapping[int, int]:
        """Pages that got a text, by its digest (32 bits)."""
        return self._texts.by_key

    def template_of(self, passages: Iterable[int]) -> set[int]:
        """Return the passages that most counted pages have.

        Parameters
        ----------
        passages
            Hashes of passages; their lower 32 bits are compared.
        """
        if self.n_pages < TEMPLATE_PAGES_MIN:
            return set()
        n_min = max(TEMPLATE_PAGES_MIN, TEMPLATE_SHARE * self.n_pages)
        return self._counts.frequent_among(passages, n_min)

    def n_others(self, passage: int, *, is_counted: bool) -> int:
        """Return how many other counted pages have a passage.

        Parameters
        ----------
        passage
            Hash of the passage.
        is_counted
            Whether the page itself is among those that were counted with the passage.
        """
        return self._counts.by_key.get(passage & 0xFFFFFFFF, 0) - is_counted

    def n_others_of(self, passages: NDArray[np.uint64], *, is_counted: bool) -> list[int]:
        """Return how many other counted pages have each of some passages.

        Parameters
        ----------
        passages
            Hashes of the passages.
        is_counted
            Whether the page itself is among those that were counted with the passages.
        """
        count = self._counts.by_key.get
        return [count(key, 0) - is_counted for key in passages.astype("<u4").tolist()]

    def is_volatile(self, place: int) -> bool:
        """Return whether a place did not last on several pages.

        Parameters
        ----------
        place
            Key of the place.
        """
        n_min = max(VOLATILE_PAGES_MIN, VOLATILE_SHARE * self.n_compared)
        return self._places.by_key.get(place, 0) >= n_min

    def is_flapping(self, key: int) -> bool:
        """Return whether a passage came and went on many pages.

        Parameters
        ----------
        key
            Key of the passage.
        """
        count = self._places.by_key.get(key, 0)
        return count >= FLAPPING_PAGES_MIN and count >= FLAPPING_SHARE * self.n_pages

    def with_update(self, update: bytes) -> "HostMemory":
        """Return the memory after an update; damaged bytes change nothing.

        Parameters
        ----------
        update
            Bytes of `Judgement.host_update`.
        """
        host = HostMemory(
            self.n_pages,
            self.n_compared,
            self._counts.copy(),
            self._places.copy(),
            self._texts.copy(),
        )
        host.apply(update)
        return host

    def apply(self, update: bytes) -> None:
        """Change this memory by an update; damaged bytes change nothing.

        Parameters
        ----------
        update
            Bytes of `Judgement.host_update`.
        """
        if len(update) < _UPDATE_HEAD.size or update[0] != _FORMAT:
            return
        _, facts, *sizes = _UPDATE_HEAD.unpack_from(update)
        if len(update) != _UPDATE_HEAD.size + 4 * sum(sizes):
            return
        values = np.frombuffer(update, "<u4", offset=_UPDATE_HEAD.size).tolist()
        added, removed, places, doubts, texts = (
            values[last - size : last] for size, last in zip(sizes, accumulate(sizes), strict=True)
        )
        self.n_pages = min(self.n_pages + (facts & 1), SAMPLE_PAGES)
        self.n_compared = min(self.n_compared + (facts >> 1 & 1), SAMPLE_PAGES)
        if added or removed:
            _count(self._counts.by_key, added, removed)
        if places or doubts:
            _weigh(self._places.by_key, places, doubts)
        if texts:
            _keep_latest(self._texts.by_key, texts, TEXTS_MAX)

    def to_bytes(self) -> bytes:
        """Return the memory as bytes, at most `HOST_MEMORY_BYTES_MAX`."""
        tables = (self._counts, self._places, self._texts)
        head = _HEAD.pack(_FORMAT, self.n_pages, self.n_compared, *map(len, tables))
        return b"".join((head, *(table.to_bytes() for table in tables)))

    @classmethod
    def from_bytes(cls, data: bytes) -> "HostMemory":
        """Return the memory that `to_bytes` wrote; an empty one if the bytes are damaged.

        Parameters
        ----------
        data
            Bytes of the memory.
        """
        if len(data) < _HEAD.size or data[0] != _FORMAT:
            return cls()
        _, n_pages, n_compared, *sizes = _HEAD.unpack_from(data)
        if len(data) != _HEAD.size + 5 * sum(sizes):
            return cls()
        tables = []
        start = _HEAD.size
        for size in sizes:
            keys = np.frombuffer(data, "<u4", size, start)
            counts = np.frombuffer(data, np.uint8, size, start + 4 * size)
            tables.append(CountTable(keys, counts))
            start += 5 * size
        return cls(n_pages, n_compared, *tables)


def _count(counts: Counter[int], added: list[int], removed: list[int]) -> None:
    counts.update(added)  # much faster than a loop
    if added and max(map(counts.__getitem__, added)) > COUNT_MAX:
        for passage in added:
            counts[passage] = min(counts[passage], COUNT_MAX)
    for passage in removed:
        count = counts.get(passage, 0)
        if count > 1:
            counts[passage] = count - 1
        else:
            counts.pop(passage, None)
    if len(counts) > PASSAGES_COUNTED_MAX:
        # Rare passages are the pages' own; of equally rare ones the oldest go.
        n_excess = len(counts) - PASSAGES_COUNTED_MAX * 3 // 4
        for passage in sorted(counts, key=counts.__getitem__)[:n_excess]:
            del counts[passage]


def _weigh(table: dict[int, int], places: list[int], doubts: list[int]) -> None:
    for key in doubts:
        count = table.pop(key, 0) - _DOUBT
        if count > 0:
            table[key] = count
    _keep_latest(table, places, PLACES_MAX)


def _keep_latest(table: dict[int, int], keys: list[int], n_max: int) -> None:
    for key in keys:
        table[key] = min(table.pop(key, 0) + 1, COUNT_MAX)
    n_excess = len(table) - n_max
    if n_excess > 0:
        for key in list(islice(table, n_excess)):
            del table[key]
