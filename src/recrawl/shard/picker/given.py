"""Orders of given pages: which of them may be fetched now, and why the others may not.

A spider that finds its own URLs asks for each before it requests it.  The pages are judged in the
order in which they are given, by the same price, limits and politeness as all others.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard.due import Terms, bounds_of, in_window_of, page_due_of
from recrawl.shard.early import stale_from_of
from recrawl.shard.picker.queue.market import M_DECISION, Market, has_bit
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.status import PageStatus, Why
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_SPLIT, Groups, Limits, Pages
from recrawl.shard.state.words import EPOCH_SECONDS, is_bounded, is_held, number_of

__all__ = ["Allowed", "order_given_pages"]

_CODE = {why: code for code, why in enumerate(Why)}
_DUE = _CODE[Why.DUE]
_NOT_YET = _CODE[Why.NOT_YET]
_NEVER = _CODE[Why.NEVER]
_IN_FLIGHT = _CODE[Why.IN_FLIGHT]
_BACKING_OFF = _CODE[Why.BACKING_OFF]
_FLOOR = _CODE[Why.FLOOR]
_GROUP_BUSY = _CODE[Why.GROUP_BUSY]
_GROUP_RESTING = _CODE[Why.GROUP_RESTING]
_GROUP_BLOCKED = _CODE[Why.GROUP_BLOCKED]
_GROUP_CLOSED = _CODE[Why.GROUP_CLOSED]
_PART_WAITS = _CODE[Why.PART_WAITS]
_RETIRED_CODE = _CODE[Why.RETIRED]
_BUDGET_SPENT = _CODE[Why.BUDGET_SPENT]
_LEASE_FULL = _CODE[Why.LEASE_FULL]
_NOT_TRACKED = _CODE[Why.NOT_TRACKED]
_RETIRED = int(PageStatus.RETIRED)


class Allowed(NamedTuple):
    """Time, price and budget by which given pages are judged."""

    now_ms: int
    """Time in milliseconds since 1970."""
    log2_price: float
    credit: float
    """Fetches or cost that may be spent."""
    credit_min: float
    """Least credit that pays for an order; the last one in cost may exceed the credit."""
    in_cost: bool
    """Whether the budget counts cost."""
    n_max: int
    """Largest number of orders."""
    only_stale: bool
    """Whether copies that are almost certainly fresh wait, for want of a price."""


@table_kernel
def _why_not_of(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    terms: Terms,
    market: Market,
    now_ms: int,
    log2_price: float,
    only_stale: bool,
    slot: int,
) -> int:
    """Return why a page may not be ordered now, apart from the budget; ``_DUE`` if it may."""
    now = now_ms / 1000.0 - EPOCH_SECONDS
    word, group = pages.word[slot], int(pages.group[slot])
    if pages.status[slot] == _RETIRED:
        return _RETIRED_CODE
    if is_held(word) or has_bit(market.taken, slot):
        return _IN_FLIGHT
    if pages.not_before[slot] > now:
        return _BACKING_OFF
    due = page_due_of(pages, limits, slot, terms, log2_price)
    if only_stale and due <= now:
        due = max(due, min(stale_from_of(word), bounds_of(pages, limits, slot)[1]))
    if due > now:
        if is_bounded(word) and bounds_of(pages, limits, slot)[0] > now:
            return _FLOOR
        return _NOT_YET if due < math.inf else _NEVER
    if may_order(market, groups, group, now_ms):
        return _DUE
    if groups.flags[group] & GROUP_CLOSED:
        return _GROUP_CLOSED
    if groups.blocked_until[group] > now_ms:
        return _GROUP_BLOCKED
    row = int(market.row_of[group]) - 1
    n_in_flight = number_of(groups.in_flight[group])
    if row >= 0 and market.decision[row] == market.gauge[M_DECISION]:
        n_in_flight += market.n_ordered[row]
    if n_in_flight >= number_of(groups.in_flight_max[group]):
        return _GROUP_BUSY
    if groups.flags[group] & GROUP_SPLIT and in_window_of(groups, group, 0.0, now_ms) > now_ms:
        return _PART_WAITS
    return _GROUP_RESTING


@table_kernel
def order_given_pages(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    terms: Terms,
    market: Market,
    allowed: Allowed,
    slots: NDArray[np.int64],
    why: NDArray[np.uint8],
) -> int:
    """Order given pages as far as price, limits, politeness and budget allow; return their number.

    Writes the reason of each row as its position in ``tuple(Why)``: that of `Why.DUE` for a page
    that is ordered.  The market must have a free row for every group.

    Parameters
    ----------
    pages, groups, limits
        Tables of the shard.
    terms
        Parameters that turn words into due times.
    market
        Market of the picker.
    allowed
        Time, price and budget.
    slots
        Slots of the pages; -1 for a page that is not tracked.
    why
        Reasons, to be written.
    """
    n = 0
    now_ms, log2_price, credit = allowed.now_ms, allowed.log2_price, allowed.credit
    for i in range(slots.size):
        slot = slots[i]
        if slot < 0:
            why[i] = _NOT_TRACKED
            continue
        code = _why_not_of(
            pages, groups, limits, terms, market, now_ms, log2_price, allowed.only_stale, slot
        )
        if code == _DUE:
            if n >= allowed.n_max:
                code = _LEASE_FULL
            elif credit < allowed.credit_min:
                code = _BUDGET_SPENT
            else:
                credit -= math.exp2(log2_of_code(pages.cost[slot])) if allowed.in_cost else 1.0
                order_from(market, groups, int(pages.group[slot]), slot, now_ms)
                n += 1
        why[i] = code
    return n
