"""Choose orders among newcomers, within the credit of their domains and of all together.

Newcomers (`recrawl.shard.apply.newcomers`) never wait in the market: they would fill the queues of
their hosts and move the price.  They are in a list of their own, best first, which is made anew
from time to time.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.apply.newcomers import (
    are_newcomers_limited,
    domain_credit_of,
    domain_of,
    domain_share_of,
    shares_in_effect,
)
from recrawl.shard.due import Terms, log2_worth_of
from recrawl.shard.early import stale_from_of
from recrawl.shard.picker.queue.market import Market, has_bit, has_free_row
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.tables import Groups, Limits, Pages, Registers, Tables
from recrawl.shard.state.words import EPOCH_SECONDS, is_held, number_of

__all__ = ["NO_NEWCOMERS", "Newcomers", "are_fresh"]

NO_NEWCOMERS = math.inf
"""Instant after which no page is a newcomer, for kernels that are to order all pages alike."""

# Largest number of newcomers in the list, and of those of one domain in a full list.
_LIST_MAX = 65_536
_DOMAIN_LIST_MAX = 4_096
# Seconds between two lists, per newcomer and per slot, so that making them costs next to nothing.
_SECONDS_PER_NEWCOMER = 1e-5
_SECONDS_PER_SLOT = 2e-8
# Number of slots that a decision looks at for the next list.
_SLOTS_PER_DECISION = 1 << 17


@table_kernel
def _find_newcomers(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    now: float,
    first: int,
    slots: NDArray[np.int64],
    worth: FloatArray,
) -> int:
    """Write the newcomers from a slot on, and log2 of their worth; return their number."""
    n = 0
    for slot in range(first, first + slots.size):
        if pages.newcomer_until[slot] > now and not is_held(pages.word[slot]):
            slots[n] = slot
            worth[n] = log2_worth_of(pages, limits, slot, terms, now)
            n += 1
    return n


class _NewcomerList(NamedTuple):
    """The best newcomers of the slots seen so far."""

    next_slot: int
    n_found: int
    """Number of newcomers seen, of which only the best are kept."""
    slots: NDArray[np.int64]
    worth: FloatArray


class _Quota(NamedTuple):
    """Limits of the newcomers of one decision."""

    new_pages_share: float
    new_domain_share: float
    log2_least: float
    """log2 of the least worth of a page that is ordered."""
    n_deciding: int
    """Number of orders of the decision, which earns the domains their shares."""
    n_used: NDArray[np.int32]
    """Number of newcomers ordered of each domain, in the row of the group with its credit."""


@table_kernel
def _order_newcomers(
    pages: Pages,
    groups: Groups,
    limits: Limits,
    registers: Registers,
    terms: Terms,
    market: Market,
    now_ms: int,
    quota: _Quota,
    listed: NDArray[np.int64],
    out: NDArray[np.int64],
) -> int:
    """Order the first of ``listed`` that groups and the credit of domains allow."""
    shares = (quota.new_pages_share, quota.new_domain_share)
    now = now_ms / 1000.0 - EPOCH_SECONDS
    n = 0
    for i in range(listed.size):
        if n == out.size or not has_free_row(market):
            break
        slot = listed[i]
        if is_held(pages.word[slot]) or has_bit(market.taken, slot):
            continue
        if pages.newcomer_until[slot] <= now:
            continue
        group = number_of(pages.group[slot])
        domain = domain_of(groups, group)
        if shares[1] < 1.0:
            credit = domain_credit_of(groups, registers, domain, shares[0], shares[1])
            share = domain_share_of(groups, registers, domain, shares[0], shares[1])
            if quota.n_used[domain] + 1 > credit + share * quota.n_deciding + 1e-6:
                continue
        if not may_order(market, groups, group, now_ms):
            continue
        worth = log2_worth_of(pages, limits, slot, terms, now)
        if worth == -math.inf or worth < quota.log2_least:
            continue
        order_from(market, groups, group, slot, now_ms)
        quota.n_used[domain] += np.int32(1)
        out[n] = slot
        n += 1
    return n


@table_kernel
def _write_freshness(
    word: NDArray[np.uint64], now: float, slots: NDArray[np.int64], out: NDArray[np.bool_]
) -> None:
    for i in range(slots.size):
        out[i] = now < stale_from_of(word[slots[i]])


def are_fresh(tables: Tables, slots: NDArray[np.int64], now_ms: int) -> NDArray[np.bool_]:
    """Return which copies almost certainly equal their page."""
    out = np.empty(slots.size, np.bool_)
    _write_freshness(tables.pages.word, now_ms / 1000.0 - EPOCH_SECONDS, slots, out)
    return out


class Newcomers:
    """The list of newcomers, best first.

    Parameters
    ----------
    settings
        Settings of the shard.
    terms
        Parameters that turn words into due times.
    """

    def __init__(self, settings: ShardSettings, terms: Terms) -> None:
        self._set_shares = (float(settings.new_pages_share), float(settings.new_domain_share))
        self._is_limited = bool(are_newcomers_limited(*self._set_shares))
        self._shares = self._set_shares
        self._terms = terms
        self._listed = np.empty(0, np.int64)
        self._listed_at = self._looked_at = -math.inf
        self._n_found = 0
        self._next_list: _NewcomerList | None = None
        self._n_used = np.zeros(0, np.int32)

    def limited_after(self, tables: Tables, now_ms: int) -> float:
        """Return the instant in shard seconds after which newcomers are limited; inf for never."""
        now = now_ms / 1000.0 - EPOCH_SECONDS
        if not self._is_limited or float(tables.registers.newcomers_until[0]) <= now:
            return NO_NEWCOMERS
        self._shares = shares_in_effect(tables.groups, tables.registers, *self._set_shares)
        return now if are_newcomers_limited(*self._shares) else NO_NEWCOMERS

    def n_allowed(self, tables: Tables, n: int) -> int:
        """Return the number of newcomers that a decision of ``n`` orders may have."""
        share = self._shares[0]
        if share >= 1.0:
            return n
        credit = float(tables.registers.newcomer_credit[0])
        return min(max(math.floor(credit + share * n + 1e-6), 0), n)

    def _list_newcomers(self, tables: Tables, now_ms: int) -> None:
        """Go on making the next list, some slots in each decision; use it once it is complete."""
        now = now_ms / 1000.0 - EPOCH_SECONDS
        n_slots = int(tables.registers.n_slots[0])
        if now == self._looked_at:
            return  # once in each decision
        self._looked_at = now
        if self._next_list is None:
            wait = _SECONDS_PER_NEWCOMER * self._n_found + _SECONDS_PER_SLOT * n_slots
            if self._listed_at <= now < self._listed_at + wait:
                return
            self._listed_at = now
            self._next_list = _NewcomerList(0, 0, np.empty(0, np.int64), np.empty(0))
        first, n_found, slots, worth = self._next_list
        end = min(first + _SLOTS_PER_DECISION, n_slots)
        size = max(end - first, 0)
        more_slots, more_worth = np.empty(size, np.int64), np.empty(size)
        n = _find_newcomers(
            tables.pages, tables.limits, self._terms, now, first, more_slots, more_worth
        )
        slots = np.concatenate([slots, more_slots[:n]])
        worth = np.concatenate([worth, more_worth[:n]])
        n_found += n
        rank = np.argsort(-worth, kind="stable")
        if n_found > _LIST_MAX:
            # A page that is not among the best of its domain so far will not be in the end.
            rank = rank[_rank_in_domain(tables, slots[rank]) < _DOMAIN_LIST_MAX][:_LIST_MAX]
        self._next_list = _NewcomerList(end, n_found, slots[rank], worth[rank])
        if end >= n_slots:
            self._listed, self._n_found = slots[rank], n_found
            self._next_list = None

    def order(
        self,
        tables: Tables,
        market: Market,
        now_ms: int,
        n: int,
        *,
        log2_least: float,
        n_deciding: int,
        is_free: bool = False,
    ) -> NDArray[np.int64]:
        """Order the best newcomers, and record them in the market, which must have free rows.

        Parameters
        ----------
        tables
            State of the shard.
        market
            Market with the orders of this decision.
        now_ms
            Time in milliseconds since 1970.
        n
            Largest number of newcomers.
        log2_least
            log2 of the least worth of a page that is ordered.
        n_deciding
            Number of orders of this decision, which earns the domains their shares.
        is_free
            Whether to order beyond the shares of domains, because no other pages are due.
        """
        if n <= 0:
            return np.empty(0, np.int64)
        self._list_newcomers(tables, now_ms)
        n_groups = tables.groups.n_pages.size
        if self._n_used.size < n_groups:
            self._n_used = np.zeros(n_groups, np.int32)
        out = np.empty(n, np.int64)
        shares = (1.0, 1.0) if is_free else self._shares
        n_ordered = _order_newcomers(
            tables.pages,
            tables.groups,
            tables.limits,
            tables.registers,
            self._terms,
            market,
            now_ms,
            _Quota(*shares, float(log2_least), n_deciding, self._n_used),
            self._listed,
            out,
        )
        self._n_used[_domains_of(tables, out[:n_ordered])] = 0
        return out[:n_ordered]


def _domains_of(tables: Tables, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    group = tables.pages.group[slots].astype(np.int64)
    domain = tables.groups.domain[group].astype(np.int64)
    return np.where(domain > 0, domain - 1, group)


def _rank_in_domain(tables: Tables, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of earlier pages of the same domain, for each page of a list."""
    domain = _domains_of(tables, slots)
    order = np.argsort(domain, kind="stable")
    first = np.searchsorted(domain[order], domain[order], side="left")
    rank = np.empty(slots.size, np.int64)
    rank[order] = np.arange(slots.size) - first
    return rank
