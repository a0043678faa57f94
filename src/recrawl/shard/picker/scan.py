"""The exact choice: finds the most valuable pages by a pass over all of them.

It serves batches and small corpora, and tests compare the sweep with it.  The worth of a page takes
a search in the due table; whether it reaches a given price takes one look-up.  So pages are taken
in bands of worth from the top, and only those within the band are valued.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.belief.codes import dither_of
from recrawl.core.kernel import table_kernel
from recrawl.core.quick_calls import quick_call
from recrawl.shard.due import ROUGHNESS, Terms, first_positions, log2_worth_of, rough_age_of
from recrawl.shard.picker.queue.audits import AUDIT_SALT
from recrawl.shard.picker.queue.market import Market, grow_rows, has_bit, has_free_row
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
_N_SAMPLED = 16_384
# Octaves below the guess at which the first bands end.
_GUESS_MARGINS = (0.02, 0.3)
_NEW = int(PageStatus.NEW)


class Ranked(NamedTuple):
    """Pages and log2 of their worth, greatest first."""

    slot: NDArray[np.int64]
    log2_worth: FloatArray


class _Band(NamedTuple):
    """Worth from ``low`` to below ``high``, both log2, and the `first_positions` of ``low``."""

    low: float
    high: float
    positions: FloatArray
    newcomers_after: float
    """Shard seconds: pages that are newcomers beyond it are not in the band."""


@table_kernel
def _collect(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    terms: Terms,
    market: Market,
    now_ms: int,
    band: _Band,
    only_new: bool,
    first: int,
    found: Ranked,
) -> int:
    """Write the pages of a band that may be ordered, from a slot on; return their number."""
    now = now_ms / 1000.0 - EPOCH_SECONDS
    is_banded = band.low > -math.inf
    due = terms.table.due
    n = 0
    for slot in range(first, min(first + found.slot.size, pages.word.size)):
        word = pages.word[slot]
        if is_held(word) or (only_new and pages.status[slot] != _NEW):
            continue
        if is_banded and not is_bounded(word):
            age = (now - last_of(word)) * (1.0 + 2.0 * ROUGHNESS)
            if age < rough_age_of(word, due, band.positions):
                continue
        if pages.newcomer_until[slot] > band.newcomers_after:
            continue
        if has_bit(market.taken, slot) or not may_order(market, groups, pages.group[slot], now_ms):
            continue
        worth = log2_worth_of(pages, limits, slot, terms, now)
        if band.low <= worth < band.high and worth > -math.inf:
            found.slot[n] = slot
            found.log2_worth[n] = worth
            n += 1
    return n


@table_kernel
def _order(
    pages: Pages,
    groups: Groups,
    market: Market,
    now_ms: int,
    ranked: Ranked,
    first: int,
    n_max: int,
    chosen: NDArray[np.bool_],
) -> int:
    """Choose the best pages that groups allow; return where free rows ran out, or the end."""
    n = 0
    for i in range(first, ranked.slot.size):
        if n == n_max:
            return int(ranked.slot.size)
        if not has_free_row(market):
            return i
        slot = ranked.slot[i]
        group = int(pages.group[slot])
        if may_order(market, groups, group, now_ms):
            order_from(market, groups, group, slot, now_ms)
            chosen[i] = True
            n += 1
    return int(ranked.slot.size)


# In a partition of a few thousand pages, finding out types would take longer than the work.
_collect_pages = quick_call(_collect)
_order_pages = quick_call(_order)


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
    orders: list[Ranked] = []
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
        band = _Band(low, high, positions, float(newcomers_after))
        found = _pages_in_band(tables, terms, market, now_ms, band, only_new)
        high = low
        chosen = np.zeros(found.slot.size, np.bool_)
        i = 0
        while i < found.slot.size and n_ordered < n:
            left = n - n_ordered - int(chosen.sum())
            i = _order_pages(tables.pages, tables.groups, market, now_ms, found, i, left, chosen)
            if i < found.slot.size:
                market = grow_rows(market)
        orders.append(Ranked(found.slot[chosen], found.log2_worth[chosen]))
        n_ordered += int(chosen.sum())
    return _concatenate(orders), market


def _concatenate(parts: list[Ranked]) -> Ranked:
    if not parts:
        return Ranked(np.empty(0, np.int64), np.empty(0))
    if len(parts) == 1:
        return parts[0]
    slots, worths = zip(*parts, strict=True)
    return Ranked(np.concatenate(slots), np.concatenate(worths))


def _pages_in_band(
    tables: Tables, terms: Terms, market: Market, now_ms: int, band: _Band, only_new: bool
) -> Ranked:
    """Return the pages of a band that may be ordered, best first."""
    n_slots = int(tables.registers.n_slots[0])
    parts: list[Ranked] = []
    for first in range(0, n_slots, _CHUNK):
        size = min(_CHUNK, n_slots - first)
        found = Ranked(np.empty(size, np.int64), np.empty(size))
        n = _collect_pages(
            tables.pages,
            tables.groups,
            tables.limits,
            terms,
            market,
            now_ms,
            band,
            only_new,
            first,
            found,
        )
        parts.append(Ranked(found.slot[:n].copy(), found.log2_worth[:n].copy()))
    slot, worth = _concatenate(parts)
    rank = np.argsort(-worth, kind="stable")
    return Ranked(slot[rank], worth[rank])


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
