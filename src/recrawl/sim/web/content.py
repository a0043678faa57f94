"""The content of simulated pages: versions, and items that changes replace.

A page has K items that changes replace (``n_items``) and S that stay (``static_items``).  If m
items have been replaced since the copy was made, page and copy share S + K - m items, and their
union has S + K + m, so the divergence is 2m / (S + K + m) (Longevity eq. 3).  Pages differ in which
items a change replaces.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.draws import Stream, exponential_of, key_of, uniform_of
from recrawl.sim.web.times import Times, offsets_of

__all__ = ["Content", "Flapping", "Replaces", "divergence_of", "version_at_start"]

_FLAPS = Stream.FLAPS
_ITEMS = Stream.ITEMS
# The copy of a page that was never fetched; different from every version.
NO_COPY = np.iinfo(np.int64).min
# `_n_distinct_items` marks the items in the bits of an int64.
N_ITEMS_MAX = 62


class Replaces(IntEnum):
    """Which items a change replaces."""

    ALL = 0  # churn
    OLDEST = 1  # scroll: the page is a window on a stream of items
    ANY = 2  # piecemeal edits: one item, each equally likely
    AS_RECORDED = 3  # no items: the divergences of versions are in a table


_ALL, _OLDEST, _ANY, _AS_RECORDED = (int(which) for which in Replaces)


class Content(NamedTuple):
    """The items of each page, or recorded divergences: 25 bytes a page.

    Versions a < b of a recorded page differ by ``table[table_offsets[page] + b(b-1)/2 + a]``.
    """

    replaces: NDArray[np.int8]
    n_items: CountArray
    static_items: FloatArray
    table_offsets: CountArray
    table: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        n_pages: int,
        *,
        replaces: ArrayLike = Replaces.ALL,
        n_items: ArrayLike = 1,
        static_items: ArrayLike = 0.0,
    ) -> "Content":
        """Return the items of pages; by default a change replaces the whole page."""
        if np.any(np.asarray(n_items) < 1) or np.any(np.asarray(n_items) > N_ITEMS_MAX):
            raise ValueError(f"n_items must be from 1 to {N_ITEMS_MAX}, got {n_items!r}")
        if np.any(np.asarray(static_items) < 0):
            raise ValueError(f"static_items must not be negative, got {static_items!r}")
        return cls(
            np.broadcast_to(np.asarray(replaces, np.int8), n_pages).copy(),
            np.broadcast_to(np.asarray(n_items, np.int64), n_pages).copy(),
            np.broadcast_to(np.asarray(static_items, np.float64), n_pages).copy(),
            np.zeros(n_pages, np.int64),
            np.empty(0, np.float32),
        )


@kernel
def version_at_start() -> int:
    """Return the version that every page has when the simulation starts."""
    return 0


@kernel
def divergence_of(content: Content, seed: int, page: int, copy: int, version: int) -> float:
    """Return the divergence of a page's ``version`` from a copy of another version.

    Versions count upwards from 0; negative ones are excursions (see `Flapping`), which share only
    the static items with other versions.
    """
    if copy == version:
        return 0.0
    if copy == NO_COPY:
        return 1.0
    low = min(copy, version)
    high = max(copy, version)
    order = content.replaces[page]
    if order == _AS_RECORDED:
        return float(content.table[content.table_offsets[page] + high * (high - 1) // 2 + low])
    n_items = content.n_items[page]
    n_replaced = n_items
    if low >= 0 and order == _OLDEST:
        n_replaced = min(n_items, high - low)
    elif low >= 0 and order == _ANY:
        n_replaced = _n_distinct_items(seed, page, n_items, low, high)
    return float(2.0 * n_replaced / (content.static_items[page] + n_items + n_replaced))


@kernel
def _n_distinct_items(seed: int, page: int, n_items: int, low: int, high: int) -> int:
    """Return how many of a page's items the changes after ``low`` up to ``high`` replaced."""
    key = key_of(seed, _ITEMS, page)
    replaced = 0
    n = 0
    for version in range(low + 1, high + 1):
        bit = 1 << int(uniform_of(key, version) * n_items)
        if replaced & bit == 0:
            replaced |= bit
            n += 1
            if n == n_items:
                break
    return n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flapping:
    """Turns some changes into excursions, such as an error page, after which the content returns.

    Parameters
    ----------
    share
        Share of each page's changes that are excursions; 0 for pages that do not flap.
    seconds
        Mean length of an excursion, if no other change ends it.
    """

    share: ArrayLike = 0.4
    seconds: float = 43_200.0

    def __post_init__(self) -> None:
        share = np.asarray(self.share)
        if np.any(share < 0) or np.any(share > 1):
            raise ValueError(f"share must be from 0 to 1, got {self.share!r}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds!r}")

    def add_returns(self, seed: int, changes: Times, horizon: float) -> tuple[Times, CountArray]:
        """Return the changes including returns from excursions, and the version after each."""
        n_pages = changes.offsets.size - 1
        share = np.broadcast_to(np.asarray(self.share, np.float64), n_pages).copy()
        at, page, version = _with_returns(seed, changes, share, self.seconds, float(horizon))
        return Times(offsets_of(page, n_pages), at), version


@kernel
def _with_returns(
    seed: int, changes: Times, share: FloatArray, seconds: float, horizon: float
) -> tuple[FloatArray, CountArray, CountArray]:
    n_max = 2 * changes.at.size
    at = np.empty(n_max)
    pages = np.empty(n_max, np.int64)
    versions = np.empty(n_max, np.int64)
    n = 0
    for page in range(changes.offsets.size - 1):
        key = key_of(seed, _FLAPS, page)
        last = changes.offsets[page + 1]
        version = 0
        n_excursions = 0
        for row in range(changes.offsets[page], last):
            nth = row - changes.offsets[page]
            is_excursion = uniform_of(key, 2 * nth) < share[page]
            if is_excursion:
                n_excursions += 1
            else:
                version += 1
            at[n] = changes.at[row]
            pages[n] = page
            versions[n] = -n_excursions if is_excursion else version
            n += 1
            if is_excursion:
                back_at = changes.at[row] + seconds * exponential_of(key, 2 * nth + 1)
                ends_at = changes.at[row + 1] if row + 1 < last else horizon
                if back_at < ends_at:
                    at[n] = back_at
                    pages[n] = page
                    versions[n] = version
                    n += 1
    return at[:n].copy(), pages[:n].copy(), versions[:n].copy()
