"""Kernels of the rolling sweep: a pass over all pages that queues those soon due.

The sweep looks at each page once in every pass.  A page that comes due before the next pass goes
into the wheel, and from there, when it is due, into the market.  The picker also looks at each page
that an event changes.  So at any time a due page waits in the market, is in the wheel, or belongs
to a group with enough better pages.

The pass itself reads only words; the few pages that it finds are valued, then placed.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.due import Terms, log2_worth_of, page_due_of, rough_age_of
from recrawl.shard.picker.queue.market import M_FREE, M_FREE_ROW, Market, has_bit, set_bit
from recrawl.shard.picker.queue.turns import may_order
from recrawl.shard.picker.queue.waiting import enqueue, would_lead
from recrawl.shard.picker.wheel import W_FREE, Wheel, wheel_add
from recrawl.shard.state.tables import Groups, Limits, Pages
from recrawl.shard.state.words import is_bounded, is_held, last_of, number_of

__all__ = ["LATENESS", "MARGIN", "Found", "Moment", "find_due", "place_pages", "value_pages"]

# A page goes into the wheel if it would come due before the next sweep with an interval this share
# shorter, because the price may fall meanwhile.
MARGIN = 0.001
# Sweeps take at most this share longer than planned, plus a second.
LATENESS = 0.02


class Moment(NamedTuple):
    """Time, price and position of the sweep for a decision."""

    now_ms: int
    now: float
    """Shard seconds."""
    log2_price: float
    log2_floor: float
    """log2 of the least worth of a page that the full market takes."""
    sweep_seconds: float
    cursor: int
    """The slot that the sweep looks at next."""
    n_slots: int
    newcomers_after: float
    """Shard seconds: pages that are newcomers beyond it are not placed; inf for none."""


class Found(NamedTuple):
    """Pages to be placed, with due time and log2 of their present worth."""

    slot: NDArray[np.int64]
    last: FloatArray
    """Effective last fetch."""
    due: FloatArray
    log2_worth: FloatArray


@table_kernel
def find_due(
    word: NDArray[np.uint64],
    waits: NDArray[np.uint8],
    due: NDArray[np.float32],
    positions: FloatArray,
    first: int,
    end: int,
    limit: float,
    out: NDArray[np.int64],
) -> tuple[int, int]:
    """Find pages due before a limit, by their words, that do not wait yet.

    Returns the slot to continue with, ``end`` unless ``out`` is full, and the number found.
    ``positions`` are the `first_positions` of the price.
    """
    n = 0
    for slot in range(first, end):
        if is_held(word[slot]):
            continue
        if not is_bounded(word[slot]):
            age = (1.0 - MARGIN) * rough_age_of(word[slot], due, positions)
            if last_of(word[slot]) + age > limit:
                continue
        if not has_bit(waits, slot):
            if n == out.size:
                return slot, n
            out[n] = slot
            n += 1
    return end, n


@table_kernel
def value_pages(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    log2_price: float,
    now: float,
    newcomers_after: float,
    found: Found,
    n: int,
) -> None:
    """Write due time and worth of the first ``n`` pages; held pages and newcomers are never due."""
    for i in range(n):
        slot = found.slot[i]
        found.due[i] = math.inf
        found.log2_worth[i] = -math.inf
        if slot < 0 or is_held(pages.word[slot]):
            continue
        if pages.newcomer_until[slot] <= newcomers_after:
            found.last[i] = last_of(pages.word[slot])
            found.due[i] = page_due_of(pages, limits, slot, terms, log2_price)
            found.log2_worth[i] = log2_worth_of(pages, limits, slot, terms, now)


@table_kernel
def _limit_of(moment: Moment, slot: int) -> float:
    """Return the latest due time of a page for the wheel: its next visit, with some margin."""
    n_ahead = slot - moment.cursor
    if n_ahead < 0:
        n_ahead += moment.n_slots
    share = LATENESS + n_ahead / moment.n_slots
    return moment.now + share * moment.sweep_seconds + 1.0


@table_kernel
def place_pages(
    group_of: NDArray[np.uint32],
    groups: Groups,
    market: Market,
    wheel: Wheel,
    moment: Moment,
    found: Found,
    first: int,
    end: int,
    even_early: bool,
) -> int:
    """Put pages into market or wheel as due; return the first without room, or ``end``.

    A waiting page that has become the best of its group is added again; the market orders it only
    once.  With ``even_early``, pages that can be ordered at once wait before they are due; the
    others go back into the wheel.
    """
    for i in range(first, end):
        slot = found.slot[i]
        if found.due[i] == math.inf or has_bit(market.taken, slot):
            continue
        if market.gauge[M_FREE] < 0 or market.gauge[M_FREE_ROW] < 0 or wheel.gauge[W_FREE] < 0:
            return i
        worth = found.log2_worth[i]
        group = number_of(group_of[slot])
        waits = has_bit(market.waits, slot)
        is_early = found.due[i] > moment.now
        if not is_early:
            if worth < moment.log2_floor or worth == -math.inf:
                continue
            if waits and not would_lead(market, group, slot, worth):
                continue
        elif even_early:
            if waits:
                continue
            if worth == -math.inf or not may_order(market, groups, group, moment.now_ms):
                wheel_add(wheel, slot, found.due[i])
                continue
        else:
            if waits:
                # An event made it due later: its entry in the market is void.
                set_bit(market.waits, slot, False)
            margin = MARGIN * (found.due[i] - found.last[i])
            if found.due[i] - margin <= _limit_of(moment, slot):
                wheel_add(wheel, slot, found.due[i])
            continue
        enqueue(market, groups, group, slot, worth, moment.now_ms, moment.sweep_seconds)
    return end
