"""A pool of the best pages never fetched, for the share of orders reserved for such pages."""

import math

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.shard.due import Terms, log2_worth_of
from recrawl.shard.picker.queue.market import Market, has_bit, has_free_row
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Groups, Limits, Pages, Tables
from recrawl.shard.state.words import EPOCH_SECONDS, is_held

__all__ = ["UnfetchedPages"]

_NEW = int(PageStatus.NEW)
_POOL_MAX = 4_096
_CHUNK = 1 << 16


@table_kernel
def _find_new(pages: Pages, first: int, end: int, out: NDArray[np.int64]) -> int:
    n = 0
    for slot in range(first, end):
        if pages.status[slot] == _NEW and not is_held(pages.word[slot]):
            out[n] = slot
            n += 1
    return n


@table_kernel
def _write_worth(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    now: float,
    slots: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Write log2 of the worth of pages; -inf for those that are no longer new, or held."""
    for i in range(slots.size):
        out[i] = -math.inf
        if pages.status[slots[i]] == _NEW and not is_held(pages.word[slots[i]]):
            out[i] = log2_worth_of(pages, limits, slots[i], terms, now)


@table_kernel
def _order_first(
    pages: Pages,
    groups: Groups,
    market: Market,
    now_ms: int,
    slots: NDArray[np.int64],
    out: NDArray[np.int64],
) -> int:
    """Order the first of ``slots`` that groups allow until ``out`` is full; return their number."""
    n = 0
    for i in range(slots.size):
        if n == out.size or not has_free_row(market):
            break
        slot = slots[i]
        group = int(pages.group[slot])
        if not has_bit(market.taken, slot) and may_order(market, groups, group, now_ms):
            order_from(market, groups, group, slot, now_ms)
            out[n] = slot
            n += 1
    return n


class UnfetchedPages:
    """A pool of pages never fetched; when it overflows, the more valuable half stays."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._slots = np.empty(0, np.int64)

    def scan_slots(self, tables: Tables, now_ms: int, first: int, end: int) -> None:
        """Add the new pages in a range of slots."""
        for begin in range(first, end, _CHUNK):
            found = np.empty(min(_CHUNK, end - begin), np.int64)
            n = _find_new(tables.pages, begin, begin + found.size, found)
            self.offer(tables, now_ms, found[:n])

    def offer(self, tables: Tables, now_ms: int, slots: NDArray[np.int64]) -> None:
        """Add those of the given pages that are new."""
        slots = slots[slots >= 0]
        slots = slots[tables.pages.status[slots] == _NEW]
        if slots.size:
            self._slots = np.union1d(self._slots, slots)
            if self._slots.size > 2 * _POOL_MAX:
                self._slots = self._rank(tables, now_ms)[:_POOL_MAX]

    def _rank(self, tables: Tables, now_ms: int) -> NDArray[np.int64]:
        worth = np.empty(self._slots.size)
        now = now_ms / 1000.0 - EPOCH_SECONDS
        _write_worth(tables.pages, tables.limits, self._terms, now, self._slots, worth)
        rank = np.argsort(-worth, kind="stable")
        return self._slots[rank[: int((worth > -math.inf).sum())]]

    def order(self, tables: Tables, market: Market, now_ms: int, n: int) -> NDArray[np.int64]:
        """Order the best pages of the pool that groups allow."""
        self._slots = self._rank(tables, now_ms)
        out = np.empty(n, np.int64)
        n = _order_first(tables.pages, tables.groups, market, now_ms, self._slots, out)
        return out[:n]
