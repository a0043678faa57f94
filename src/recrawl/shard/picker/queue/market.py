"""The market: due pages waiting to be ordered, and their groups, as columns.

Each group with waiting pages has a row, and its pages form a heap by their worth when they came in.
Groups that may be ordered from are in one heap, by their best page.  Groups that may be ordered
from later are in another, by time.  Groups for which that time is unknown are set aside until they
are woken (`recrawl.shard.picker.queue.turns`).  A decision visits only the pages that it orders
(`recrawl.shard.picker.queue.waiting`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel

__all__ = [
    "ASIDE",
    "LATER",
    "M_BACKLOG",
    "M_DECISION",
    "M_FREE",
    "M_FREE_ROW",
    "M_N_EMPTIED",
    "M_N_LATER",
    "M_N_READY",
    "M_SIZE",
    "M_TOUCHED",
    "NOWHERE",
    "READY",
    "Market",
    "empty_market",
    "fit_market",
    "grow_entries",
    "grow_rows",
    "has_bit",
    "has_free_row",
    "n_free_rows",
    "set_bit",
]

# Places in `Market.gauge`.
M_FREE = 0
"""First free entry; -1 for none."""
M_SIZE = 1
"""Number of entries in use."""
M_FREE_ROW = 2
"""First free row; -1 for none."""
M_N_READY = 3
"""Number of groups in the heap of those that may be ordered from."""
M_N_LATER = 4
"""Number of groups in the heap of those that may be ordered from later."""
M_BACKLOG = 5
"""Number of pages that could be ordered within seconds if the budget allowed it."""
M_DECISION = 6
"""Number of the present decision."""
M_N_EMPTIED = 7
"""Number of rows in the list of rows without pages."""
M_TOUCHED = 8
"""Number of entries ever added or taken."""
_N_GAUGES = 9

# Values of `Market.where`: the heap that a row is in.
NOWHERE = 0
READY = 1
LATER = 2
ASIDE = 3


class Market(NamedTuple):
    """Waiting pages (entries of 16 bytes) and their groups (rows of 66 bytes).

    ``row_of`` takes 4 bytes for every group, ``waits`` and ``taken`` a bit for every page.
    """

    slot: NDArray[np.uint32]
    key: NDArray[np.float32]
    """log2 of the page's worth when it came in or was last revalued."""
    child: NDArray[np.int32]
    sibling: NDArray[np.int32]
    """Link of the heap within a group; for a free entry, the next free one."""
    listed: NDArray[np.int32]
    listed_key: NDArray[np.float32]
    """Scratch lists of entries and keys, to find the best of them."""
    group: NDArray[np.uint32]
    top: NDArray[np.int32]
    """Best entry; for a free row, the next free one."""
    n_waiting: NDArray[np.int32]
    n_counted: NDArray[np.int32]
    """Number of these that the backlog counts."""
    floor: NDArray[np.float32]
    """log2 of the least worth of a page that the group takes."""
    where: NDArray[np.uint8]
    place: NDArray[np.int32]
    rank: NDArray[np.float64]
    """Rank in its heap: the best page's key, or minus the time when it may be ordered from."""
    decision: NDArray[np.int64]
    """Latest decision that ordered from the group."""
    n_ordered: NDArray[np.int32]
    """Number of orders of that decision."""
    next_at: NDArray[np.int64]
    """``ready_at`` of the group after these orders."""
    is_listed: NDArray[np.uint8]
    """1 if the row is in ``emptied``."""
    ready: NDArray[np.int32]
    later: NDArray[np.int32]
    emptied: NDArray[np.int32]
    """Rows without pages, to be freed at the end of the decision."""
    row_of: NDArray[np.int32]
    """1 + the row of each group, or 0 for none."""
    waits: NDArray[np.uint8]
    """A bit for each page: whether it waits."""
    taken: NDArray[np.uint8]
    """A bit for each page: whether the present decision orders it."""
    gauge: NDArray[np.int64]


def empty_market(n_entries: int = 1_024, n_rows: int = 256) -> Market:
    """Return a market without pages or groups."""
    chain = np.arange(1, n_entries + 1, dtype=np.int32)
    chain[-1] = -1
    rows = np.arange(1, n_rows + 1, dtype=np.int32)
    rows[-1] = -1
    gauge = np.zeros(_N_GAUGES, np.int64)

    def numbers() -> NDArray[np.int32]:
        return np.zeros(n_rows, np.int32)

    return Market(
        np.zeros(n_entries, np.uint32),
        np.zeros(n_entries, np.float32),
        np.full(n_entries, -1, np.int32),
        chain,
        np.zeros(n_entries, np.int32),
        np.zeros(n_entries, np.float32),
        np.zeros(n_rows, np.uint32),
        rows,
        numbers(),
        numbers(),
        np.full(n_rows, -np.inf, np.float32),
        np.zeros(n_rows, np.uint8),
        numbers(),
        np.zeros(n_rows),
        np.full(n_rows, -1, np.int64),
        numbers(),
        np.zeros(n_rows, np.int64),
        np.zeros(n_rows, np.uint8),
        numbers(),
        numbers(),
        numbers(),
        np.zeros(0, np.int32),
        np.zeros(0, np.uint8),
        np.zeros(0, np.uint8),
        gauge,
    )


def fit_market(market: Market, n_pages: int, n_groups: int) -> Market:
    """Return the market with bits for ``n_pages`` pages and rows of ``n_groups`` groups."""
    if market.waits.size * 8 < n_pages:
        waits = np.zeros(max((n_pages + 7) // 8, 2 * market.waits.size), np.uint8)
        waits[: market.waits.size] = market.waits
        market = market._replace(waits=waits, taken=np.zeros_like(waits))
    if market.row_of.size < n_groups:
        row_of = np.zeros(max(n_groups, 2 * market.row_of.size), np.int32)
        row_of[: market.row_of.size] = market.row_of
        market = market._replace(row_of=row_of)
    return market


_ENTRY_COLUMNS = ("slot", "key", "child", "sibling", "listed", "listed_key")
_ROW_COLUMNS = (
    "group",
    "top",
    "n_waiting",
    "n_counted",
    "floor",
    "where",
    "place",
    "rank",
    "decision",
    "n_ordered",
    "next_at",
    "is_listed",
    "ready",
    "later",
    "emptied",
)


def _double_columns(
    market: Market, names: tuple[str, ...], chain: str, first_free: int, n_reserved: int = 0
) -> Market:
    """Return the market with columns of twice the size, in memory for ``n_reserved`` rows.

    Memory that is reserved costs nothing until it is used, and nothing is copied within it.
    """
    larger: dict[str, NDArray[Any]] = {}
    size = getattr(market, chain).size
    for name in names:
        old = getattr(market, name)
        reserved = old.base
        if reserved is None or reserved.size < 2 * size:
            n_doubled = 2 * size
            while n_doubled < n_reserved:
                n_doubled *= 2
            reserved = np.zeros(n_doubled, old.dtype)
            reserved[:size] = old
        larger[name] = reserved[: 2 * size]
    larger[chain][size:] = np.arange(size + 1, 2 * size + 1)
    larger[chain][-1] = market.gauge[first_free]
    market.gauge[first_free] = size
    return market._replace(**larger)


def grow_entries(market: Market, n_max: int = 0) -> Market:
    """Return the market with room for twice as many pages, of ``n_max`` that may come later."""
    return _double_columns(market, _ENTRY_COLUMNS, "sibling", M_FREE, n_max)


def grow_rows(market: Market) -> Market:
    """Return the market with room for twice as many groups."""
    return _double_columns(market, _ROW_COLUMNS, "top", M_FREE_ROW)


@table_kernel
def has_free_row(market: Market) -> bool:
    """Return whether there is a free row for another group."""
    return bool(market.gauge[M_FREE_ROW] >= 0)


@table_kernel
def has_bit(bits: NDArray[np.uint8], slot: int) -> bool:
    """Return the bit of a page."""
    return bool(bits[slot >> 3] & np.uint8(1 << (slot & 7)))


@table_kernel
def set_bit(bits: NDArray[np.uint8], slot: int, value: bool) -> None:
    """Write the bit of a page."""
    bit = np.uint8(1 << (slot & 7))
    if value:
        bits[slot >> 3] |= bit
    else:
        bits[slot >> 3] &= np.uint8(255) - bit


@table_kernel
def n_free_rows(market: Market, enough: int) -> int:
    """Return the number of free rows, counted up to ``enough``."""
    n = 0
    row = market.gauge[M_FREE_ROW]
    while row >= 0 and n < enough:
        n += 1
        row = market.top[row]
    return n
