"""Set the time of a shard back, after the clock of its node was ahead for a while.

What happened while the clock was wrong has instants that are still to come; they move back by as
much as the time of the shard.  Instants before the new time are from before the clock went wrong,
and stay.  So the ages of copies, leases and pauses stay what they are.
"""

import numpy as np
from numpy.typing import NDArray

from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Pages, Tables
from recrawl.shard.state.words import EPOCH_SECONDS

__all__ = ["INSTANTS", "NOT_INSTANTS", "move_times_back"]

INSTANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "pages": {
        "seconds": (
            "fetched_at",
            "first_seen",
            "not_before",
            "claimed_at",
            "heard_at",
            "requested_at",
            "newcomer_until",
        )
    },
    "links": {"seconds": ("claimed_at",)},
    "groups": {
        "milliseconds": (
            "ready_at",
            "blocked_until",
            "growth_until",
            "window_at",
            "window_until",
            "granted_until",
        )
    },
    "leases": {"milliseconds": ("ordered_at", "expires_at")},
    "runs": {"milliseconds": ("used_at",)},
    "registers": {
        "milliseconds": ("now", "credited_at", "growth_until"),
        "seconds": ("newcomers_until",),
    },
}
"""Columns that hold instants, by table and unit, besides the words of pages."""
NOT_INSTANTS: frozenset[tuple[str, str]] = frozenset()
"""Columns whose names end like those of instants, and which count something else."""
_ROWS_AT_ONCE = 1 << 18
_LAST = np.uint64(0x7FFFFFFF)


def move_times_back(tables: Tables, at_ms: int) -> None:
    """Set the time of a shard to ``at_ms``, and move later instants back by as much."""
    now_ms = int(tables.registers.now[0])
    at_seconds = at_ms // 1000 - EPOCH_SECONDS
    excess_seconds = now_ms // 1000 - at_ms // 1000
    n_slots = int(tables.registers.n_slots[0])
    for first in range(0, n_slots, _ROWS_AT_ONCE):
        rows = slice(first, min(first + _ROWS_AT_ONCE, n_slots))
        # First, because it reads the other columns as they were.
        _move_words(tables.pages, rows, at_seconds, excess_seconds)
    by_unit = {"seconds": (at_seconds, excess_seconds), "milliseconds": (at_ms, now_ms - at_ms)}
    for table, units in INSTANTS.items():
        for unit, names in units.items():
            for name in names:
                _move(getattr(getattr(tables, table), name), *by_unit[unit])


def _move(column: NDArray[np.int64] | NDArray[np.uint32], at: int, excess: int) -> None:
    """Move the instants of a column that are after ``at`` back, but not before 1."""
    for first in range(0, column.size, _ROWS_AT_ONCE):
        part = column[first : first + _ROWS_AT_ONCE]
        is_later = part > at
        if is_later.any():
            part[is_later] = np.maximum(part[is_later].astype(np.int64) - excess, 1)


def _move_words(pages: Pages, rows: slice, at: int, excess: int) -> None:
    """Move the effective last fetch in the words of pages back.

    Signals, and the value of a first fetch, put it long before the event itself: it moves with the
    last fetch of its page, or else with the time when the page was added.
    """
    word = pages.word[rows]
    last = (word & _LAST).astype(np.int64)
    fetched = pages.fetched_at[rows].astype(np.int64)
    since = np.where(fetched > 0, fetched, pages.first_seen[rows])
    # The word of a free slot holds the next free slot instead.
    is_later = ((last > at) | (since > at)) & (pages.status[rows] != PageStatus.FREE)
    moved = np.maximum(last[is_later] - excess, 1).astype(np.uint64)
    word[is_later] = (word[is_later] & ~_LAST) | moved
