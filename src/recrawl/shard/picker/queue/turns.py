"""Keep track of when the next page of each group may be ordered.

The orders of the present decision count, although they are not yet applied to the tables.  A row is
the row of a group in the `Market`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard.due import in_window_of, ready_at_of
from recrawl.shard.picker.queue.heaps import heap_add, heap_move, heap_remove
from recrawl.shard.picker.queue.market import (
    ASIDE,
    LATER,
    M_BACKLOG,
    M_DECISION,
    M_FREE_ROW,
    M_N_EMPTIED,
    M_N_LATER,
    M_N_READY,
    NOWHERE,
    READY,
    Market,
    set_bit,
)
from recrawl.shard.state.tables import GROUP_CLOSED, Groups
from recrawl.shard.state.words import number_of

__all__ = [
    "end_decision",
    "may_order",
    "order_from",
    "record_order",
    "release_ready_groups",
    "row_for",
    "row_ready_at_of",
    "settle",
    "unmark_ordered",
    "wake_groups",
]

# The backlog counts the pages that a group can serve in this many milliseconds.
_BACKLOG_MS = 10_000


@table_kernel
def row_ready_at_of(market: Market, groups: Groups, row: int, now_ms: int) -> float:
    """Return when the next page of a group may be ordered; inf if that is unknown."""
    group = number_of(market.group[row])
    if market.decision[row] != market.gauge[M_DECISION]:
        return ready_at_of(groups, group, now_ms)
    n = number_of(groups.in_flight[group]) + market.n_ordered[row]
    if n >= number_of(groups.in_flight_max[group]) or groups.flags[group] & GROUP_CLOSED:
        return math.inf
    allowance = (number_of(groups.burst[group]) - 1) * number_of(groups.delay_ms[group])
    ready_at = float(max(market.next_at[row] - allowance, groups.blocked_until[group]))
    return in_window_of(groups, group, ready_at, now_ms)


@table_kernel
def _leave(market: Market, row: int) -> None:
    """Remove a row from the heap it is in."""
    gauge = market.gauge
    if market.where[row] == READY:
        heap_remove(market.ready, gauge[M_N_READY], market.rank, market.place, row)
        gauge[M_N_READY] -= 1
    elif market.where[row] == LATER:
        heap_remove(market.later, gauge[M_N_LATER], market.rank, market.place, row)
        gauge[M_N_LATER] -= 1
    market.where[row] = NOWHERE


@table_kernel
def settle(market: Market, groups: Groups, row: int, now_ms: int) -> None:
    """Move a row to the heap it belongs to now."""
    gauge = market.gauge
    n_counted = 0
    if market.top[row] < 0:
        _leave(market, row)
        # The row stays until the decision ends, because it holds the number of its orders.
        market.floor[row] = -math.inf
        if not market.is_listed[row]:
            market.is_listed[row] = 1
            market.emptied[gauge[M_N_EMPTIED]] = row
            gauge[M_N_EMPTIED] += 1
    else:
        ready_at = row_ready_at_of(market, groups, row, now_ms)
        if ready_at <= now_ms:
            rank = float(market.key[market.top[row]])
            if market.where[row] == READY:
                market.rank[row] = rank
                heap_move(market.ready, gauge[M_N_READY], market.rank, market.place, row)
            else:
                _leave(market, row)
                market.rank[row] = rank
                market.where[row] = READY
                heap_add(market.ready, gauge[M_N_READY], market.rank, market.place, row)
                gauge[M_N_READY] += 1
            delay = number_of(groups.delay_ms[number_of(market.group[row])])
            n_counted = min(int(market.n_waiting[row]), max(_BACKLOG_MS // max(delay, 1), 1))
        else:
            _leave(market, row)
            if ready_at < math.inf or market.decision[row] == gauge[M_DECISION]:
                # The orders of this decision may never be applied: check again in the next one.
                market.rank[row] = -ready_at if ready_at < math.inf else -(now_ms + 1.0)
                market.where[row] = LATER
                heap_add(market.later, gauge[M_N_LATER], market.rank, market.place, row)
                gauge[M_N_LATER] += 1
            else:
                market.where[row] = ASIDE
    gauge[M_BACKLOG] += n_counted - market.n_counted[row]
    market.n_counted[row] = n_counted


@table_kernel
def release_ready_groups(market: Market, groups: Groups, now_ms: int) -> None:
    """Move groups whose waiting time is over to the heap of groups that may be ordered from."""
    while market.gauge[M_N_LATER] > 0 and -market.rank[market.later[0]] <= now_ms:
        settle(market, groups, int(market.later[0]), now_ms)


@table_kernel
def row_for(market: Market, group: int) -> int:
    """Return the row of a group; a group without a row gets a free one."""
    row = int(market.row_of[group]) - 1
    if row < 0:
        row = int(market.gauge[M_FREE_ROW])
        market.gauge[M_FREE_ROW] = market.top[row]
        market.row_of[group] = row + 1
        market.group[row] = group
        market.top[row] = -1
        market.n_waiting[row] = 0
        market.n_counted[row] = 0
        market.floor[row] = -math.inf
        market.where[row] = NOWHERE
        market.is_listed[row] = 0
        market.decision[row] = -1
        market.n_ordered[row] = 0
    return row


@table_kernel
def may_order(market: Market, groups: Groups, group: int, now_ms: int) -> bool:
    """Return whether a page of a group may be ordered now."""
    row = int(market.row_of[group]) - 1
    if row < 0:
        return ready_at_of(groups, group, now_ms) <= now_ms
    return row_ready_at_of(market, groups, row, now_ms) <= now_ms


@table_kernel
def record_order(market: Market, groups: Groups, row: int, slot: int, now_ms: int) -> None:
    """Record that the present decision orders a page of a group; call `settle` after it."""
    group = number_of(market.group[row])
    if market.decision[row] != market.gauge[M_DECISION]:
        market.decision[row] = market.gauge[M_DECISION]
        market.n_ordered[row] = 0
        market.next_at[row] = groups.ready_at[group]
    market.n_ordered[row] += 1
    delay = number_of(groups.delay_ms[group])
    market.next_at[row] = max(market.next_at[row], now_ms) + delay
    set_bit(market.taken, slot, True)


@table_kernel
def order_from(market: Market, groups: Groups, group: int, slot: int, now_ms: int) -> None:
    """Order a page of a group, which need not be in the queue; there must be a free row."""
    row = row_for(market, group)
    record_order(market, groups, row, slot, now_ms)
    settle(market, groups, row, now_ms)


@table_kernel
def wake_groups(
    market: Market, groups: Groups, woken: NDArray[np.int64], n_woken: int, now_ms: int
) -> None:
    """Recompute when groups may be ordered from."""
    for i in range(n_woken):
        row = int(market.row_of[woken[i]]) - 1
        if row >= 0 and market.top[row] >= 0:
            settle(market, groups, row, now_ms)


@table_kernel
def unmark_ordered(market: Market, slots: NDArray[np.int64]) -> None:
    """Clear the marks of ordered pages, so that they can be ordered again."""
    for i in range(slots.size):
        set_bit(market.taken, slots[i], False)


@table_kernel
def end_decision(market: Market, ordered: NDArray[np.int64]) -> None:
    """End the present decision: clear its marks, and free rows without pages."""
    unmark_ordered(market, ordered)
    gauge = market.gauge
    gauge[M_DECISION] += 1
    for i in range(gauge[M_N_EMPTIED]):
        row = market.emptied[i]
        market.is_listed[row] = 0
        if market.top[row] < 0:
            market.row_of[number_of(market.group[row])] = 0
            market.top[row] = gauge[M_FREE_ROW]
            gauge[M_FREE_ROW] = row
    gauge[M_N_EMPTIED] = 0
