"""The exact choice: finds the most valuable pages by a pass over all of them.

It serves batches and small corpora, and tests compare the sweep with it.  The worth of a page takes
a search in the due table; whether it reaches a given price takes one look-up.  So pages are taken
in bands of worth from the top, and only those within the band are valued.
"""

import math
import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.belief.codes import dither_of
from recrawl.core.kernel import table_kernel
from recrawl.core.quick_calls import quick_call
from recrawl.shard.due import ROUGHNESS, Terms, first_positions, log2_worth_of, rough_age_of
from recrawl.shard.picker.queue.audits import AUDIT_SALT
from recrawl.shard.picker.queue.market import (
    M_FREE_ROW,
    Market,
    grow_rows,
    has_bit,
    has_free_row,
)
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.state.status import PageStatus, Reason
from recrawl.shard.state.tables import Groups, Limits, Pages, Tables
from recrawl.shard.state.words import EPOCH_SECONDS, is_bounded, is_held, last_of

__all__ = ["Ranked", "order_exactly", "write_purposes"]

_DISCOVERY_SALT = 0x5EED_D15C
_VALUE = int(Reason.VALUE)
_DISCOVERY = int(Reason.DISCOVERY)
_AUDIT = int(Reason.AUDIT)


@table_kernel
def write_purposes(
    first_order: int, audit_share: float, discovery_share: float, out: NDArray[np.uint8]
) -> None:
    """Write the purpose of each order, by its number: value, discovery or audit."""
    for i in range(out.size):
        out[i] = _VALUE
        if dither_of(AUDIT_SALT, first_order + i) < audit_share:
            out[i] = _AUDIT
        elif dither_of(_DISCOVERY_SALT, first_order + i) < discovery_share:
            out[i] = _DISCOVERY


_CHUNK = 1 << 20
# Number of pages for which a thread keeps memory between two decisions: 2 MB.
_ROOM_KEPT_MAX = 1 << 17
_N_SAMPLED = 16_384
# Octaves below the guess at which the first bands end.
_GUESS_MARGINS = (0.02, 0.3)
_NEW = int(PageStatus.NEW)


class Ranked(NamedTuple):
    """Pages and log2 of their worth, greatest first."""

    slot: NDArray[np.int64]
    log2_worth: FloatArray


class _Band(NamedTuple):
    """Worth from ``low`` to below ``high``, both log2, and slots from ``first`` to ``end - 1``."""

    low: float
    high: float
    positions: FloatArray
    """The `first_positions` of ``low``."""
    newcomers_after: float
    """Shard seconds: pages that are newcomers beyond it are not in the band."""
    only_new: bool
    """Whether only pages never fetched are in the band."""
    first: int
    end: int


@table_kernel
def _collect(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    terms: Terms,
    market: Market,
    now_ms: int,
    band: _Band,
    found: Ranked,
) -> int:
    """Write the pages of a band that may be ordered; return their number."""
    now = now_ms / 1000.0 - EPOCH_SECONDS
    is_banded = band.low > -math.inf
    due = terms.table.due
    n = 0
    # Pages that were added together and not fetched yet have equal words, and so equal worth.
    valued, value = np.uint64(0), math.nan
    for slot in range(band.first, band.end):
        word = pages.word[slot]
        if is_held(word) or (band.only_new and pages.status[slot] != _NEW):
            continue
        if is_banded and not is_bounded(word):
            age = (now - last_of(word)) * (1.0 + 2.0 * ROUGHNESS)
            if age < rough_age_of(word, due, band.positions):
                continue
        if pages.newcomer_until[slot] > band.newcomers_after:
            continue
        if has_bit(market.taken, slot) or not may_order(market, groups, pages.group[slot], now_ms):
            continue
        worth = value
        if word != valued or is_bounded(word) or math.isnan(worth):
            worth = log2_worth_of(pages, limits, slot, terms, now)
            if not is_bounded(word):
                valued, value = word, worth
        if band.low <= worth < band.high and worth > -math.inf:
            found.slot[n] = slot
            found.log2_worth[n] = worth
            n += 1
    return n


@table_kernel
def _comes_before(ranked: Ranked, one: int, other: int) -> bool:
    """Return whether a page comes before another: worth more, or with an earlier slot."""
    if ranked.log2_worth[one] != ranked.log2_worth[other]:
        return bool(ranked.log2_worth[one] > ranked.log2_worth[other])
    return bool(ranked.slot[one] < ranked.slot[other])


@table_kernel
def _swap(ranked: Ranked, one: int, other: int) -> None:
    slot, worth = ranked.slot[one], ranked.log2_worth[one]
    ranked.slot[one], ranked.log2_worth[one] = ranked.slot[other], ranked.log2_worth[other]
    ranked.slot[other], ranked.log2_worth[other] = slot, worth


@table_kernel
def _sink(ranked: Ranked, place: int, n: int) -> None:
    """Move an entry of a heap of ``n`` entries down to where it belongs."""
    while True:
        best = place
        for child in range(2 * place + 1, min(2 * place + 3, n)):
            if _comes_before(ranked, child, best):
                best = child
        if best == place:
            return
        _swap(ranked, place, best)
        place = best


@table_kernel
def _make_heap(ranked: Ranked, n: int) -> None:
    for i in range(n // 2):
        _sink(ranked, n // 2 - 1 - i, n)


@table_kernel
def _take(
    pages: Pages,
    groups: Groups,
    market: Market,
    now_ms: int,
    ranked: Ranked,
    n_left: int,
    n_done: int,
    ordered: Ranked,
) -> tuple[int, int]:
    """Order the best pages of a heap that groups allow, after ``n_done`` orders.

    It stops when there are as many as there is room for, or without a free row.  Returns how many
    entries the heap has left, and the number of orders.
    """
    while n_left > 0 and n_done < ordered.slot.size and has_free_row(market):
        best, worth = ranked.slot[0], ranked.log2_worth[0]
        group = int(pages.group[best])
        if may_order(market, groups, group, now_ms):
            order_from(market, groups, group, best, now_ms)
            ordered.slot[n_done] = best
            ordered.log2_worth[n_done] = worth
            n_done += 1
        n_left -= 1
        _swap(ranked, 0, n_left)
        _sink(ranked, 0, n_left)
    return n_left, n_done


@table_kernel
def _choose(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    terms: Terms,
    market: Market,
    now_ms: int,
    band: _Band,
    found: Ranked,
    n_done: int,
    ordered: Ranked,
) -> tuple[int, int]:
    """Find the pages of a band, and order the best; see `_take`."""
    n = _collect(pages, groups, limits, terms, market, now_ms, band, found)
    _make_heap(found, n)
    return _take(pages, groups, market, now_ms, found, n, n_done, ordered)


# In a partition of a few thousand pages, finding out types would take longer than the work.
_choose_pages = quick_call(_choose)
_take_pages = quick_call(_take)


class _Room(threading.local):
    """Memory of a thread for the pages of a band."""

    def __init__(self) -> None:
        self._found = Ranked(np.empty(0, np.int64), np.empty(0))

    def for_slots(self, n: int) -> Ranked:
        """Return memory for so many pages; it is kept for the next call if it is small."""
        if n > _ROOM_KEPT_MAX:
            return Ranked(np.empty(n, np.int64), np.empty(n))
        if n > self._found.slot.size:
            size = min(2 * n, _ROOM_KEPT_MAX)
            self._found = Ranked(np.empty(size, np.int64), np.empty(size))
        return self._found


_room = _Room()


def order_exactly(
    tables: Tables,
    terms: Terms,
    market: Market,
    now_ms: int,
    n: int,
    *,
    log2_guess: float = math.inf,
    log2_least: float = -math.inf,
    only_new: bool = False,
    newcomers_after: float = math.inf,
) -> tuple[Ranked, Market]:
    """Order exactly the ``n`` best pages that groups allow, and record them in the market.

    Parameters
    ----------
    tables, terms
        State and due terms of the shard.
    market
        Market with the orders of this decision; grows with the groups ordered from.
    now_ms
        Time in milliseconds since 1970.
    n
        Largest number of pages.
    log2_guess
        Guess of log2 of the least worth among them; saves time if it is nearly right.
    log2_least
        log2 of the least worth of a page that is ordered.
    only_new
        Whether to order only pages never fetched.
    newcomers_after
        Shard seconds: pages that are newcomers beyond it are not ordered; infinite for none.
    """
    ordered = Ranked(np.empty(max(n, 0), np.int64), np.empty(max(n, 0)))
    n_ordered = 0
    high = math.inf
    lows = iter([log2_guess - margin for margin in _GUESS_MARGINS if log2_guess < math.inf])
    tried_guess = False
    while n_ordered < n and high > log2_least:
        low = next(lows, None)
        if low is None and not tried_guess:
            tried_guess = True
            lows = iter(_lower_bounds(tables, terms, now_ms, n))
            continue
        low = -math.inf if low is None else low
        low = max(low, log2_least)
        if low >= high:
            continue
        positions = first_positions(terms, max(low, -1e3))
        n_slots = int(tables.registers.n_slots[0])
        band = _Band(low, high, positions, float(newcomers_after), only_new, 0, n_slots)
        high = low
        n_ordered, market = _order_band(tables, terms, market, now_ms, band, ordered, n_ordered)
    return Ranked(ordered.slot[:n_ordered], ordered.log2_worth[:n_ordered]), market


def _order_band(
    tables: Tables,
    terms: Terms,
    market: Market,
    now_ms: int,
    band: _Band,
    ordered: Ranked,
    n_ordered: int,
) -> tuple[int, Market]:
    """Order the best pages of a band; return the number of orders so far, and the market."""
    if band.end <= _CHUNK:
        found = _room.for_slots(band.end)
        n_left, n_ordered = _choose_pages(
            tables.pages,
            tables.groups,
            tables.limits,
            terms,
            market,
            now_ms,
            band,
            found,
            n_ordered,
            ordered,
        )
    else:
        found = _pages_in_band(tables, terms, market, now_ms, band)
        n_left = found.slot.size
        _make_heap(found, n_left)
    while n_left > 0 and n_ordered < ordered.slot.size:
        if market.gauge[M_FREE_ROW] < 0:
            market = grow_rows(market)
        n_left, n_ordered = _take_pages(
            tables.pages, tables.groups, market, now_ms, found, n_left, n_ordered, ordered
        )
    return n_ordered, market


def _pages_in_band(
    tables: Tables, terms: Terms, market: Market, now_ms: int, band: _Band
) -> Ranked:
    """Return the pages of a band that may be ordered, in no particular order.

    Memory is needed for those that are found, and not for all slots of a very large partition.
    """
    parts: list[Ranked] = []
    for first in range(band.first, band.end, _CHUNK):
        part = band._replace(first=first, end=min(first + _CHUNK, band.end))
        found = Ranked(np.empty(_CHUNK, np.int64), np.empty(_CHUNK))
        n = _collect(tables.pages, tables.groups, tables.limits, terms, market, now_ms, part, found)
        parts.append(Ranked(found.slot[:n].copy(), found.log2_worth[:n].copy()))
    slots, worths = zip(*parts, strict=True)
    return Ranked(np.concatenate(slots), np.concatenate(worths))


@table_kernel
def _sample(
    pages: Pages, limits: Limits, terms: Terms, now_ms: int, n_slots: int, worth: FloatArray
) -> None:
    now = now_ms / 1000.0 - EPOCH_SECONDS
    for i in range(worth.size):
        slot = i * n_slots // worth.size
        worth[i] = -math.inf
        if not is_held(pages.word[slot]):
            worth[i] = log2_worth_of(pages, limits, slot, terms, now)


def _lower_bounds(tables: Tables, terms: Terms, now_ms: int, n: int) -> list[float]:
    """Return bounds of log2 worth that about ``n`` pages exceed, then eight times as many, etc.

    They come from a sample of pages.
    """
    n_slots = int(tables.registers.n_slots[0])
    if n_slots <= 2 * _N_SAMPLED:
        return []
    worth = np.empty(_N_SAMPLED)
    _sample(tables.pages, tables.limits, terms, now_ms, n_slots, worth)
    worth = np.sort(worth)[::-1]
    bounds = []
    wanted = 2.0 * n + 256.0
    while wanted < n_slots / 4:
        bounds.append(float(worth[math.ceil(wanted * _N_SAMPLED / n_slots)]))
        wanted *= 8.0
    return [bound for bound in bounds if math.isfinite(bound) and bound < 512.0]
