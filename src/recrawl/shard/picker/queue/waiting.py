"""Add pages to the market and take them out: the most valuable first, as groups allow.

A group that cannot serve all pages that come due serves its best ones: when its heap exceeds what
it can serve in four sweeps, it drops the worse half, and the least worth that is left becomes the
floor for further pages.  Once it has served half of them, the floor is removed; the next sweep
finds the pages that it kept out.
"""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard.due import CEILING_BONUS, Terms, log2_worth_of
from recrawl.shard.picker.queue.heaps import meld, nth_greatest, remove_top
from recrawl.shard.picker.queue.market import (
    M_FREE,
    M_N_READY,
    M_SIZE,
    M_TOUCHED,
    Market,
    has_bit,
    set_bit,
)
from recrawl.shard.picker.queue.turns import (
    record_order,
    release_ready_groups,
    row_for,
    row_ready_at_of,
    settle,
)
from recrawl.shard.state.tables import Groups, Limits, Pages
from recrawl.shard.state.words import is_held, number_of

__all__ = [
    "CEILING_FLOOR",
    "enqueue",
    "keep_best_of_all",
    "revalue_rows",
    "sample_keys",
    "take_best",
    "trim_rows",
    "would_lead",
]

# A larger log2 worth means that the page is beyond its longest interval.
CEILING_FLOOR = CEILING_BONUS / 2
_QUEUE_MIN = 8
# Number of rows that take as long to look at as one page takes to be valued.
_ROWS_PER_PAGE = 32


@table_kernel
def _queue_max_of(groups: Groups, group: int, sweep_seconds: float) -> int:
    """Return the number of pages that a group can serve in two sweeps, plus a few."""
    delay = number_of(groups.delay_ms[group])
    if delay == 0:
        return 1 << 30
    return _QUEUE_MIN + int(2_000.0 * sweep_seconds / delay)


@table_kernel
def _free_entry(market: Market, e: int) -> None:
    market.child[e] = -1
    market.sibling[e] = market.gauge[M_FREE]
    market.gauge[M_FREE] = e
    market.gauge[M_SIZE] -= 1
    market.gauge[M_TOUCHED] += 1


@table_kernel
def _list_entries(market: Market, row: int, first: int) -> int:
    """List the entries of a group and their keys from ``first`` on; return the end of the list.

    Pages that no longer wait get a key below all others.
    """
    listed = market.listed
    listed[first] = market.top[row]
    n = first + 1
    i = first
    while i < n:
        e = listed[i]
        waits = has_bit(market.waits, number_of(market.slot[e]))
        market.listed_key[i] = market.key[e] if waits else -math.inf
        child = market.child[e]
        while child >= 0:
            listed[n] = child
            n += 1
            child = market.sibling[child]
        i += 1
    return n


@table_kernel
def _keep(
    market: Market, row: int, n_listed: int, floor: float, n_max: int, n_equal_max: int
) -> int:
    """Rebuild the heap of a group from those of its listed entries that reach a floor.

    At most ``n_equal_max`` entries exactly at the floor stay; returns the rest of that number.
    """
    top = -1
    n = 0
    for i in range(n_listed):
        e = int(market.listed[i])
        slot = number_of(market.slot[e])
        waits = has_bit(market.waits, slot)
        is_equal = float(market.key[e]) == floor
        if is_equal:
            n_equal_max -= 1
        is_kept = waits and float(market.key[e]) >= floor and not (is_equal and n_equal_max < 0)
        if is_kept and n < n_max:
            market.child[e] = -1
            market.sibling[e] = -1
            top = meld(market.key, market.child, market.sibling, top, e)
            n += 1
        else:
            set_bit(market.waits, slot, False)
            _free_entry(market, e)
    market.top[row] = top
    market.n_waiting[row] = n
    return n_equal_max


@table_kernel
def _keep_best(market: Market, row: int, n_kept: int) -> None:
    """Keep the best pages of a group, and make the least worth among them its floor."""
    n = _list_entries(market, row, 0)
    # This reorders the keys but not the entries.
    floor = nth_greatest(market.listed_key, n, n_kept)
    market.floor[row] = min(floor, CEILING_FLOOR)
    _keep(market, row, n, np.float64(floor), n_kept, n)


@table_kernel
def _has_pages(market: Market, row: int) -> bool:
    return bool(market.row_of[number_of(market.group[row])] == row + 1 and market.top[row] >= 0)


@table_kernel
def revalue_rows(
    market: Market,
    pages: Pages,
    limits: Limits,
    groups: Groups,
    terms: Terms,
    now: float,
    now_ms: int,
    first: int,
    end: int,
    n_max: int,
) -> tuple[int, int]:
    """Compute the worth of the waiting pages of groups anew, and order each group by it.

    Goes from row ``first`` to before row ``end``, and stops before a group with more pages than are
    left of ``n_max``.  Returns the row to continue with, and the number of pages visited; a few
    dozen rows count as one page.
    """
    n_visited = 0
    for row in range(first, end):
        if row % _ROWS_PER_PAGE == 0:
            n_visited += 1
        n_own = int(market.n_waiting[row]) if _has_pages(market, row) else 0
        if n_visited + n_own > n_max:
            return row, n_visited
        if n_own == 0:
            continue
        n_visited += n_own
        n = _list_entries(market, row, 0)
        for i in range(n):
            e = int(market.listed[i])
            slot = number_of(market.slot[e])
            if has_bit(market.waits, slot):
                if is_held(pages.word[slot]):
                    set_bit(market.waits, slot, False)
                else:
                    market.key[e] = log2_worth_of(pages, limits, slot, terms, now)
        _keep(market, row, n, -math.inf, n, n)
        settle(market, groups, row, now_ms)
    return end, n_visited


@table_kernel
def sample_keys(market: Market, out: NDArray[np.float32]) -> int:
    """Write the keys of waiting pages, evenly spread over all entries; return their number."""
    n = 0
    for i in range(out.size):
        e = i * market.slot.size // out.size
        slot = number_of(market.slot[e])
        # An entry that was never used is zero.
        if (slot > 0 or market.key[e] != 0.0) and has_bit(market.waits, slot):
            out[n] = market.key[e]
            n += 1
    return n


@table_kernel
def trim_rows(
    market: Market,
    groups: Groups,
    now_ms: int,
    floor: float,
    equal_share: float,
    first: int,
    n_max: int,
) -> int:
    """Drop the waiting pages of groups that are worth less than a floor.

    Of the pages exactly at the floor a share stays.  Begins with row ``first`` and ends after the
    group with which it has visited ``n_max`` pages; returns the row to continue with.
    """
    n_visited = 0
    n_equal = 0.5
    for row in range(first, market.group.size):
        if n_visited >= n_max:
            return row
        if not _has_pages(market, row):
            continue
        n = _list_entries(market, row, 0)
        n_visited += n
        for i in range(n):
            if float(market.key[market.listed[i]]) == floor:
                n_equal += equal_share
        left = _keep(market, row, n, floor, n, int(n_equal))
        n_equal -= int(n_equal) - max(left, 0)
        settle(market, groups, row, now_ms)
    return int(market.group.size)


@table_kernel
def keep_best_of_all(market: Market, groups: Groups, n_kept: int, now_ms: int) -> float:
    """Keep the best pages of all groups together; return the least log2 worth for further pages.

    It keeps at most ``n_kept``, even if very many are worth the same, as in a new corpus.
    """
    found = 0
    for row in range(market.group.size):
        if _has_pages(market, row):
            found = _list_entries(market, row, found)
    floor = nth_greatest(market.listed_key, found, n_kept) if n_kept < found else -math.inf
    n_equal_max = n_kept
    for i in range(found):
        if float(market.listed_key[i]) > floor:
            n_equal_max -= 1
    for row in range(market.group.size):
        if _has_pages(market, row):
            n = _list_entries(market, row, 0)
            n_equal_max = _keep(market, row, n, floor, n, n_equal_max)
            settle(market, groups, row, now_ms)
    if n_equal_max < 0 and floor > -math.inf:
        # Some pages exactly at the floor were dropped, so no more of them may come in.
        return float(np.nextafter(np.float32(floor), np.float32(math.inf)))
    return floor


@table_kernel
def would_lead(market: Market, group: int, slot: int, log2_worth: float) -> bool:
    """Return whether a waiting page is worth more than the best of its group, another page."""
    row = int(market.row_of[group]) - 1
    if row < 0 or market.top[row] < 0:
        return True
    e = market.top[row]
    return bool(log2_worth > float(market.key[e]) and number_of(market.slot[e]) != slot)


@table_kernel
def enqueue(
    market: Market,
    groups: Groups,
    group: int,
    slot: int,
    log2_worth: float,
    now_ms: int,
    sweep_seconds: float,
) -> None:
    """Add a page to the market, unless its group has enough better ones; there must be room."""
    row = row_for(market, group)
    if log2_worth < float(market.floor[row]):
        return
    e = int(market.gauge[M_FREE])
    market.gauge[M_FREE] = market.sibling[e]
    market.gauge[M_SIZE] += 1
    market.gauge[M_TOUCHED] += 1
    market.slot[e] = slot
    market.key[e] = log2_worth
    market.child[e] = -1
    market.sibling[e] = -1
    set_bit(market.waits, slot, True)
    top = int(market.top[row])
    market.top[row] = meld(market.key, market.child, market.sibling, top, e)
    market.n_waiting[row] += 1
    queue_max = _queue_max_of(groups, group, sweep_seconds)
    if market.n_waiting[row] >= 2 * queue_max:
        _keep_best(market, row, queue_max)
    settle(market, groups, row, now_ms)


@table_kernel
def take_best(
    market: Market,
    groups: Groups,
    word: NDArray[np.uint64],
    group_of: NDArray[np.uint32],
    now_ms: int,
    sweep_seconds: float,
    out: NDArray[np.int64],
) -> int:
    """Order the best waiting pages until ``out`` is full or none is left; return their number."""
    release_ready_groups(market, groups, now_ms)
    n = 0
    while n < out.size and market.gauge[M_N_READY] > 0:
        row = int(market.ready[0])
        if row_ready_at_of(market, groups, row, now_ms) > now_ms:
            settle(market, groups, row, now_ms)
            continue
        e = int(market.top[row])
        slot = number_of(market.slot[e])
        market.top[row] = remove_top(market.key, market.child, market.sibling, e)
        _free_entry(market, e)
        market.n_waiting[row] -= 1
        queue_max = _queue_max_of(groups, number_of(market.group[row]), sweep_seconds)
        if 2 * market.n_waiting[row] < queue_max:
            market.floor[row] = -math.inf
        # Since it came in, the page may have been ordered or fetched, been added twice, or been
        # removed and its slot reused by a page of another group.
        if has_bit(market.waits, slot) and not has_bit(market.taken, slot):
            set_bit(market.waits, slot, False)
            if not is_held(word[slot]) and group_of[slot] == market.group[row]:
                record_order(market, groups, row, slot, now_ms)
                out[n] = slot
                n += 1
        settle(market, groups, row, now_ms)
    return n
