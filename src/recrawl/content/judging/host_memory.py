"""What recrawl remembers of a host: its template, volatile places, texts that pages share."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

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
_COUNT_MAX = 255
HOST_MEMORY_BYTES_MAX: Final = (
    _HEAD.size + 5 * PASSAGES_COUNTED_MAX + 5 * PLACES_MAX + 5 * TEXTS_MAX
)
"""Bytes that the memory of a host takes at most."""


def pack_update(
    *,
    is_new_page: bool = False,
    is_first_comparison: bool = False,
    added: Iterable[int] = (),
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
        Hashes (32 bits) of passages that a counted page got or lost.
    places
        Keys of places in which a passage of a page did not last.
    doubts
        Keys of places in which one lasted.
    texts
        Digest of the text of a page whose text is new.
    """
    columns = [
        np.fromiter(values, dtype="<u4") for values in (added, removed, places, doubts, texts)
    ]
    facts = is_new_page | is_first_comparison << 1
    if not facts and not any(column.size for column in columns):
        return b""
    head = _UPDATE_HEAD.pack(_FORMAT, facts, *(column.size for column in columns))
    return head + b"".join(column.tobytes() for column in columns)


def _empty() -> dict[int, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostMemory:
    """What the pages of a host have in common; it changes only by `with_update`.

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

    n_pages: int = 0
    n_compared: int = 0
    counts: Mapping[int, int] = field(default_factory=_empty)
    places: Mapping[int, int] = field(default_factory=_empty)
    texts: Mapping[int, int] = field(default_factory=_empty)

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
        count = self.counts.get
        return {p for p in passages if count(p & 0xFFFFFFFF, 0) >= n_min}

    def n_others(self, passage: int, *, is_counted: bool) -> int:
        """Return how many other counted pages have a passage.

        Parameters
        ----------
        passage
            Hash of the passage.
        is_counted
            Whether the page itself is among those that were counted with the passage.
        """
        return self.counts.get(passage & 0xFFFFFFFF, 0) - is_counted

    def is_volatile(self, place: int) -> bool:
        """Return whether a place did not last on several pages.

        Parameters
        ----------
        place
            Key of the place.
        """
        n_min = max(VOLATILE_PAGES_MIN, VOLATILE_SHARE * self.n_compared)
        return self.places.get(place, 0) >= n_min

    def is_flapping(self, key: int) -> bool:
        """Return whether a passage came and went on many pages.

        Parameters
        ----------
        key
            Key of the passage.
        """
        count = self.places.get(key, 0)
        return count >= FLAPPING_PAGES_MIN and count >= FLAPPING_SHARE * self.n_pages

    def with_update(self, update: bytes) -> "HostMemory":
        """Return the memory after an update; damaged bytes change nothing.

        Parameters
        ----------
        update
            Bytes of `Judgement.host_update`.
        """
        if len(update) < _UPDATE_HEAD.size or update[0] != _FORMAT:
            return self
        _, facts, *sizes = _UPDATE_HEAD.unpack_from(update)
        if len(update) != _UPDATE_HEAD.size + 4 * sum(sizes):
            return self
        values = np.frombuffer(update, "<u4", offset=_UPDATE_HEAD.size).tolist()
        bounds = np.cumsum([0, *sizes]).tolist()
        added, removed, places, doubts, texts = (
            values[first:last] for first, last in pairwise(bounds)
        )
        return replace(
            self,
            n_pages=min(self.n_pages + (facts & 1), SAMPLE_PAGES),
            n_compared=min(self.n_compared + (facts >> 1 & 1), SAMPLE_PAGES),
            counts=_count(self.counts, added, removed) if added or removed else self.counts,
            places=_weigh(self.places, places, doubts) if places or doubts else self.places,
            texts=_keep_latest(self.texts, texts, TEXTS_MAX) if texts else self.texts,
        )

    def to_bytes(self) -> bytes:
        """Return the memory as bytes, at most `HOST_MEMORY_BYTES_MAX`."""
        tables = (self.counts, self.places, self.texts)
        parts = [
            _HEAD.pack(_FORMAT, self.n_pages, self.n_compared, *(len(table) for table in tables))
        ]
        for table in tables:
            parts.append(np.fromiter(table, "<u4", len(table)).tobytes())
            parts.append(np.fromiter(table.values(), np.uint8, len(table)).tobytes())
        return b"".join(parts)

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
        tables: list[dict[int, int]] = []
        start = _HEAD.size
        for size in sizes:
            keys = np.frombuffer(data, "<u4", size, start).tolist()
            counts = np.frombuffer(data, np.uint8, size, start + 4 * size).tolist()
            tables.append(dict(zip(keys, counts, strict=True)))
            start += 5 * size
        return cls(
            n_pages=n_pages,
            n_compared=n_compared,
            counts=tables[0],
            places=tables[1],
            texts=tables[2],
        )


def _count(counts: Mapping[int, int], added: list[int], removed: list[int]) -> dict[int, int]:
    found = dict(counts)
    for passage in added:
        found[passage] = min(found.get(passage, 0) + 1, _COUNT_MAX)
    for passage in removed:
        count = found.get(passage, 0)
        if count > 1:
            found[passage] = count - 1
        else:
            found.pop(passage, None)
    if len(found) > PASSAGES_COUNTED_MAX:
        # Rare passages are the pages' own; of equally rare ones the oldest go.
        n_excess = len(found) - PASSAGES_COUNTED_MAX * 3 // 4
        for passage in sorted(found, key=found.__getitem__)[:n_excess]:
            del found[passage]
    return found


def _weigh(table: Mapping[int, int], places: list[int], doubts: list[int]) -> dict[int, int]:
    found = dict(table)
    for key in doubts:
        count = found.pop(key, 0) - _DOUBT
        if count > 0:
            found[key] = count
    return _keep_latest(found, places, PLACES_MAX)


def _keep_latest(table: Mapping[int, int], keys: list[int], n_max: int) -> dict[int, int]:
    found = dict(table)
    for key in keys:
        found[key] = min(found.pop(key, 0) + 1, _COUNT_MAX)
    for key in list(found)[: max(len(found) - n_max, 0)]:
        del found[key]
    return found
