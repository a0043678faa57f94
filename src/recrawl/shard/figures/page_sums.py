"""Add up what is known of single pages: expected freshness, importance, due pages, histograms.

A shard with very many pages is estimated from some of them: its slots are divided into equal
ranges, and a hash chooses one slot from each.  So the time that this takes has a limit.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import IS_COMPILED, ignore_overflow, table_kernel
from recrawl.messages.samples import DURATION_EDGES_SECONDS, FRESHNESS_EDGES, HISTOGRAMS, STATES
from recrawl.shard.due import Terms, bounds_of, page_due_of
from recrawl.shard.early import Early, stale_from_of
from recrawl.shard.shard import Shard
from recrawl.shard.state.codes import evident_last_of, log2_of_code
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Limits, Links, Pages, Sources
from recrawl.shard.state.words import (
    EPOCH_SECONDS,
    is_held,
    log2_period_of,
    log2_weight_of,
    number_of,
    shape_of,
)

__all__ = ["PAGES_SUMMED_MAX", "PageSums", "sum_pages"]

PAGES_SUMMED_MAX = 1 << 18 if IS_COMPILED else 1 << 12
"""Largest number of slots that are looked at; of more, a sample of so many.  Kernels that are not
compiled take a hundred times as long."""
# Slots looked at in one piece, after which a caller can let others use the shard.
_SLOTS_AT_ONCE = 1 << 14

_FREE = int(PageStatus.FREE)
_DISALLOWED = int(PageStatus.DISALLOWED)
_RETIRED = int(PageStatus.RETIRED)
_N_BINS = len(FRESHNESS_EDGES) - 1
_DURATIONS = np.array(DURATION_EDGES_SECONDS)


class PageSums(NamedTuple):
    """Sums over pages, with a column for each of `recrawl.messages.samples.STATES`."""

    hosts: FloatArray
    """One row for each of the chosen groups; the last row is for all others together."""
    kinds: FloatArray
    """One row for each kind, by its number."""
    histograms: FloatArray
    """One row for each of `recrawl.messages.samples.HISTOGRAMS`."""

    @property
    def total(self) -> FloatArray:
        """Sums over all pages."""
        total: FloatArray = self.kinds.sum(axis=0)
        return total


@table_kernel
def _bin_of(seconds: float) -> int:
    found = 0
    for i in range(1, _N_BINS):
        if seconds >= _DURATIONS[i]:
            found = i
    return found


@ignore_overflow
@table_kernel
def _slot_of_range(i: int, n_slots: int, n_looked_at: int, seed: int) -> int:
    """Return the slot chosen from the i-th of equal ranges."""
    first = i * n_slots // n_looked_at
    n = (i + 1) * n_slots // n_looked_at - first
    if n <= 1:
        return first
    # The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    h = (np.uint64(i) + (np.uint64(seed) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return first + int(np.int64((h >> np.uint64(33)) % np.uint64(n)))


@table_kernel
def _add(sums: FloatArray, row: int, figures: tuple[float, float, float, float, float]) -> None:
    modelled, fresh, weight, fresh_weight, due = figures
    sums[row, 0] += 1.0
    sums[row, 1] += modelled
    sums[row, 2] += fresh
    sums[row, 3] += weight
    sums[row, 4] += fresh_weight
    sums[row, 5] += due


@table_kernel
def _add_pages(
    pages: Pages,
    links: Links,
    sources: Sources,
    limits: Limits,
    rules: Rules,
    terms: Terms,
    span: tuple[int, int, int, int, int],
    moment: tuple[float, float, bool],
    row_of_group: NDArray[np.int32],
    sums: PageSums,
) -> None:
    """Add some pages to the sums.

    ``span`` is the first and the end of the ranges of slots, the number of slots and of all ranges,
    and the seed; ``moment`` the time, log2 of the price, and whether pages wait until they may be
    stale.
    """
    first, end, n_slots, n_looked_at, seed = span
    now, log2_price, waits_until_stale = moment
    hosts, kinds, histograms = sums.hosts, sums.kinds, sums.histograms
    n_hosts = hosts.shape[0] - 1
    for i in range(first, end):
        slot = _slot_of_range(i, n_slots, n_looked_at, seed)
        status = pages.status[slot]
        if status == _FREE:
            continue
        group, kind = number_of(pages.group[slot]), number_of(pages.kind[slot])
        row = n_hosts
        if group < row_of_group.size and row_of_group[group] >= 0:
            row = number_of(row_of_group[group])
        if status in (_DISALLOWED, _RETIRED):
            _add(hosts, row, (0.0, 0.0, 0.0, 0.0, 0.0))
            _add(kinds, kind, (0.0, 0.0, 0.0, 0.0, 0.0))
            continue
        word = pages.word[slot]
        weight = 0.0
        if pages.importance[slot] > 0:
            cost = max(number_of(pages.cost[slot]), 1)
            weight = math.exp2(log2_weight_of(word) + log2_of_code(cost))
        chance = 0.0
        if pages.fetched_at[slot] > 0:
            shape = terms.table.shapes[shape_of(word)]
            last = evident_last_of(pages, links, sources, rules, slot)
            age = max(now - last, 0.0) * math.exp2(-log2_period_of(word))
            chance = math.exp(-shape * math.log1p(age / shape))
            histograms[1, _bin_of(now - float(pages.fetched_at[slot]))] += 1.0
        histograms[0, min(int(chance * _N_BINS), _N_BINS - 1)] += 1.0
        histograms[2, _bin_of(math.exp2(log2_period_of(word)))] += 1.0
        due = 0.0
        if not is_held(word):
            due_at = page_due_of(pages, limits, slot, terms, log2_price)
            is_due = due_at <= now
            if is_due and waits_until_stale:
                latest = bounds_of(pages, limits, slot)[1]
                is_due = pages.importance[slot] > 0 and min(stale_from_of(word), latest) <= now
            if is_due:
                due = 1.0
                histograms[3, _bin_of(now - due_at)] += 1.0
        figures = (1.0, chance, weight, weight * chance, due)
        _add(hosts, row, figures)
        _add(kinds, kind, figures)


def sum_pages(
    shard: Shard,
    groups: NDArray[np.int64],
    now_ms: int,
    *,
    terms: Terms | None = None,
    n_pages_max: int = PAGES_SUMMED_MAX,
    seed: int = 0,
) -> Iterator[PageSums | None]:
    """Add up the pages of a shard in pieces; yield None after each piece, and last the sums.

    The shard may apply events between two pieces.

    Parameters
    ----------
    shard
        The shard.
    groups
        Groups that are added up separately.
    now_ms
        Present time, in milliseconds since 1970.
    terms
        Parameters that turn words into due times; those of the shard by default.
    n_pages_max
        Largest number of slots to look at.
    seed
        Number that decides which slots are looked at, if not all.
    """
    n_slots = int(shard.tables.registers.n_slots[0])
    n_looked_at = min(n_slots, n_pages_max)
    at_ms = max(now_ms, shard.now_ms)
    price = shard.price_at(at_ms)
    waits = not price and shard.early == Early.STALE
    moment = (at_ms / 1000 - EPOCH_SECONDS, math.log2(max(price, 1e-300)), waits)
    row_of_group = np.full(shard.tables.groups.flags.size, -1, np.int32)
    row_of_group[groups] = np.arange(groups.size)
    hosts = np.zeros((groups.size + 1, len(STATES)))
    kinds = np.zeros((shard.tables.priors.shape.size, len(STATES)))
    histograms = np.zeros((len(HISTOGRAMS), _N_BINS))
    for first in range(0, n_looked_at, _SLOTS_AT_ONCE):
        tables = shard.tables
        if tables.priors.shape.size > kinds.shape[0]:
            n_new = tables.priors.shape.size - kinds.shape[0]
            kinds = np.concatenate([kinds, np.zeros((n_new, len(STATES)))])
        _add_pages(
            tables.pages,
            tables.links,
            tables.sources,
            tables.limits,
            shard.rules,
            terms or shard.terms,
            (first, min(first + _SLOTS_AT_ONCE, n_looked_at), n_slots, n_looked_at, seed),
            moment,
            row_of_group,
            PageSums(hosts, kinds, histograms),
        )
        yield None
    each = n_slots / max(n_looked_at, 1)
    yield PageSums(hosts * each, kinds * each, histograms * each)
