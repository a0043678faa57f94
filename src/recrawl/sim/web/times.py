"""Instants and spans of time of many entities, in two or three columns."""

from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray

__all__ = ["Times", "Windows"]


class Times(NamedTuple):
    """Instants of many pages: page i's are ``at[offsets[i]:offsets[i + 1]]``, in order.

    Seconds from the start of the simulation.  8 bytes an instant and 8 a page.
    """

    offsets: CountArray
    at: FloatArray

    @classmethod
    def none(cls, n_pages: int) -> "Times":
        """Return pages without instants."""
        return cls(np.zeros(n_pages + 1, np.int64), np.empty(0))

    @classmethod
    def from_rows(cls, page: RowArray, at: FloatArray, n_pages: int) -> "Times":
        """Return instants given as pairs, in any order."""
        order = np.lexsort((at, page))
        return cls(offsets_of(page, n_pages), np.asarray(at, np.float64)[order])

    def pages(self) -> RowArray:
        """Return the page of each instant."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def counts(self) -> CountArray:
        """Return the number of instants of each page."""
        return np.diff(self.offsets)


class Windows(NamedTuple):
    """Spans of time in which fetches fail, in order and disjoint for each entity.

    Entity i's are ``start[k]`` to ``end[k]`` for k from ``offsets[i]`` to ``offsets[i + 1]``.
    """

    offsets: CountArray
    start: FloatArray
    end: FloatArray

    @classmethod
    def none(cls, n_entities: int) -> "Windows":
        """Return entities that never fail."""
        return cls(np.zeros(n_entities + 1, np.int64), np.empty(0), np.empty(0))


def offsets_of(page: RowArray, n_pages: int) -> CountArray:
    """Return where each page's rows begin once they are sorted by page."""
    offsets = np.zeros(n_pages + 1, np.int64)
    np.cumsum(np.bincount(page, minlength=n_pages), out=offsets[1:])
    return offsets
