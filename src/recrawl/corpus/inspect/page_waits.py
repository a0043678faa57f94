"""Why pages are not leased now, and until when they wait, for many pages at once.

The reasons are those of `Shard.explain`; a test compares them.  Only numpy is used, because a
command finishes before a compiler could be loaded.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.corpus.inspect.decoded_words import (
    Words,
    page_due,
    page_earliest,
    page_latest,
    words_of,
)
from recrawl.messages.leases import WHYS, reason_text
from recrawl.shard import Shard
from recrawl.shard.apply.windows import are_over
from recrawl.shard.due import Terms
from recrawl.shard.early import STALE_CHANCE_MIN, Early
from recrawl.shard.explain import is_share_spent
from recrawl.shard.state.status import LeaseStage, PageStatus, Why
from recrawl.shard.state.tables import GROUP_CLOSED, Groups, Tables
from recrawl.shard.state.words import EPOCH_SECONDS

__all__ = ["WHYS", "PageWaits", "early_from", "reason_text", "waits_of"]

_CODE = {why: code for code, why in enumerate(WHYS)}
# log2 of a price that every page of any importance is worth.
_LOG2_PRICE_NONE = -1e3
# Time until another part of a split host may get its turn, if that is not known.
_TURN_MS = 60_000


class PageWaits(NamedTuple):
    """Why pages wait, and until when; one row per page."""

    why: NDArray[np.uint8]
    """Position in `WHYS`; that of `Why.DUE` for a page that can be leased now."""
    until_ms: FloatArray
    """Time until which each waits, in milliseconds since 1970; infinite if unknown or for ever."""


def early_from(
    shard: Shard, slots: RowArray, words: Words, terms: Terms, early: Early
) -> FloatArray:
    """Return from when on leases return pages at whatever price, in shard seconds; inf for never.

    Parameters
    ----------
    shard
        Shard of the pages.
    slots, words
        Slots and words of the pages.
    terms
        Terms that turn words into due times.
    early
        Rule for pages below the price.
    """
    pages, limits = shard.tables.pages, shard.tables.limits
    if early == Early.NONE:
        return np.full(slots.size, np.inf)
    since = page_due(pages, limits, slots, words, terms, _LOG2_PRICE_NONE)
    if early == Early.STALE:
        stale = words.last + STALE_CHANCE_MIN * np.exp2(words.log2_period)
        since = np.maximum(since, np.minimum(stale, page_latest(pages, limits, slots, words)))
    found: FloatArray = np.where(pages.importance[slots] > 0, since, np.inf)
    return found


def _lease_ends(tables: Tables, slots: RowArray) -> FloatArray:
    """Return when the leases of pages end, in milliseconds since 1970; inf for no lease."""
    leases = tables.leases
    rows = np.flatnonzero(leases.stage == LeaseStage.IN_FLIGHT)
    held = leases.page[rows] & 0xFFFFFFFF
    order = np.argsort(held)
    held, ends = held[order], leases.expires_at[rows][order].astype(np.float64)
    found = np.full(slots.size, np.inf)
    if held.size:
        place = np.minimum(np.searchsorted(held, slots), held.size - 1)
        found = np.where(held[place] == slots, ends[place], np.inf)
    return found


def _ready_at(groups: Groups, group: RowArray) -> FloatArray:
    """Return when groups may be ordered from, apart from blocks and fetches in flight."""
    allowance = np.where(
        groups.in_flight_max[group] > 1,
        (groups.burst[group].astype(np.int64) - 1) * groups.delay_ms[group].astype(np.int64),
        0,
    )
    ready: FloatArray = (groups.ready_at[group] - allowance).astype(np.float64)
    return ready


def _is_share_spent(shard: Shard, slots: RowArray, group: RowArray, now: float) -> FlagArray:
    """Return which pages are newcomers whose domain has used its share of the budget."""
    tables = shard.tables
    is_spent = np.zeros(slots.size, np.bool_)
    new = np.flatnonzero(tables.pages.newcomer_until[slots] > now)
    of_group, first, row = np.unique(group[new], return_index=True, return_inverse=True)
    spent = [is_share_spent(tables, shard.rules, int(slots[new[i]]), now) for i in first]
    if of_group.size:
        is_spent[new] = np.array(spent, np.bool_)[row]
    return is_spent


def waits_of(
    shard: Shard, slots: RowArray, now_ms: int, *, early: Early | None = None
) -> PageWaits:
    """Return why pages wait, after a decision of the shard.

    Parameters
    ----------
    shard
        Shard of the pages.
    slots
        Slots of the pages.
    now_ms
        Time in milliseconds since 1970.
    early
        Rule for pages below the price; by default that of leases of the best pages.
    """
    tables = shard.tables
    pages, groups = tables.pages, tables.groups
    words, group = words_of(pages.word[slots]), pages.group[slots].astype(np.int64)
    now = now_ms / 1000 - EPOCH_SECONDS
    why = np.full(slots.size, _CODE[Why.DUE], np.uint8)
    until = np.full(slots.size, float(now_ms))

    def wait(is_so: FlagArray, reason: Why, until_ms: FloatArray | float) -> None:
        """Set the reason where it applies; later calls override earlier ones."""
        why[is_so] = _CODE[reason]
        until[is_so] = np.broadcast_to(until_ms, is_so.shape)[is_so]

    wait(_is_share_spent(shard, slots, group, now), Why.SHARE_SPENT, math.inf)
    ready, blocked = _ready_at(groups, group), groups.blocked_until[group].astype(np.float64)
    wait(ready > now_ms, Why.GROUP_RESTING, ready)
    begins, is_over = groups.window_at[group], are_over(groups, pages.group[slots], now_ms)
    wait(is_over, Why.PART_WAITS, np.where(begins > now_ms, begins, now_ms + _TURN_MS))
    wait(groups.in_flight[group] >= groups.in_flight_max[group], Why.GROUP_BUSY, math.inf)
    wait(blocked > now_ms, Why.GROUP_BLOCKED, blocked)
    wait((groups.flags[group] & GROUP_CLOSED) > 0, Why.GROUP_CLOSED, math.inf)
    earliest = page_earliest(pages, tables.limits, slots, words)
    price = shard.price_at(now_ms)
    log2_price = math.log2(max(price, 1e-300))
    # The decision just made has brought the due table up to date; a copy would take long.
    due = page_due(pages, tables.limits, slots, words, shard.terms, log2_price)
    rule = shard.early if early is None else early
    soonest = early_from(shard, slots, words, shard.terms, rule)
    if not price and shard.early == Early.STALE:
        # A run has a budget and no price: all but the freshest copies are due.
        due = np.maximum(due, early_from(shard, slots, words, shard.terms, Early.STALE))
    wait((why == _CODE[Why.DUE]) & (due > now) & (soonest <= now), Why.EARLY, float(now_ms))
    due = np.minimum(due, soonest)
    wait((due > now) & np.isfinite(due), Why.NOT_YET, (due + EPOCH_SECONDS) * 1000)
    wait(np.isinf(due), Why.NEVER, math.inf)
    wait(earliest > now, Why.FLOOR, (due + EPOCH_SECONDS) * 1000)
    not_before = pages.not_before[slots].astype(np.float64)
    wait(not_before > now, Why.BACKING_OFF, (not_before + EPOCH_SECONDS) * 1000)
    wait(words.is_held, Why.IN_FLIGHT, _lease_ends(tables, slots))
    wait(pages.status[slots] == PageStatus.RETIRED, Why.RETIRED, math.inf)
    return PageWaits(why, until)
