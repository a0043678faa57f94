"""Shares of the budget by kind of page: the weights at which each kind spends its share.

All pages compete at one price, and a kind spends what it demands at that price.  A weight makes a
kind spend a given share of the budget: with p the price at which the kinds without a share spend
the rest, and q the price at which a kind spends its own share, its pages count p/q times as much.
Like the demand curve of the picker, both prices are computed from a sample of pages: from beliefs
about them, and not from past spending.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import DueTable, interval_periods_of
from recrawl.shard.due import Terms
from recrawl.shard.events import KindsWeighted, event_of
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.status import BudgetUnit, PageStatus, PriceMode
from recrawl.shard.state.tables import GROUP_CLOSED, U16, Groups, Limits, Pages, Priors, Tables
from recrawl.shard.state.words import (
    CODES_PER_OCTAVE,
    EPOCH_SECONDS,
    class_of,
    is_held,
    log2_period_of,
    log2_weight_of,
    number_of,
    shape_of,
)

__all__ = ["KIND_WEIGHT_MAX", "propose_weights"]

# Largest weight of a kind, for one that cannot spend its share; the smallest is its inverse.
KIND_WEIGHT_MAX = 1_024.0
# Smallest part of the budget for kinds without a share: with none they would never be fetched.
_LEFT_SHARE_MIN = 0.01
# Weights move by whole steps of a word's code, and only if they are off by this many octaves.
_MOVE_OCTAVES_MIN = 0.075
# Size of the sample of pages of all kinds, and its least size for each kind.
_SAMPLE_MAX = 1 << 16
_SAMPLE_MIN = 1 << 8
# Number of bisections of the price, and of rounds that give unspendable budget to other kinds.
_N_HALVINGS = 32
_N_ROUNDS = 3
# Octaves below the smallest price of the due table where the search begins.
_OCTAVES_BELOW = 16.0
_FREE = int(PageStatus.FREE)
_RETIRED = int(PageStatus.RETIRED)


class _Sample(NamedTuple):
    """A sample of pages; each row stands for several pages."""

    word: NDArray[np.uint64]
    row: NDArray[np.int64]
    """Row of the page's kind: 0 for all kinds without a share, from 1 on for kinds with a share."""
    log2_scale: FloatArray
    """log2 of the price divided by the target in the due table, if the kind has weight 1."""
    rate: FloatArray
    """Spending per second if the page were fetched once per period."""
    least: FloatArray
    """Least spending that its limits allow."""
    most: FloatArray
    """Largest spending that its limits allow."""


@table_kernel
def _is_fetchable(pages: Pages, groups: Groups, slot: int, now_ms: int) -> bool:
    """Return whether a page could be fetched now or soon."""
    status = pages.status[slot]
    if is_held(pages.word[slot]) and status in (_FREE, _RETIRED):
        return False
    if (number_of(pages.not_before[slot]) + EPOCH_SECONDS) * 1000 > now_ms:
        return False
    group = pages.group[slot]
    return not groups.flags[group] & GROUP_CLOSED and groups.blocked_until[group] <= now_ms


@table_kernel
def _count_pages(
    pages: Pages,
    groups: Groups,
    row_of: NDArray[np.int64],
    n_slots: int,
    now_ms: int,
    n_pages: NDArray[np.int64],
) -> None:
    for slot in range(n_slots):
        if _is_fetchable(pages, groups, slot, now_ms):
            n_pages[row_of[pages.kind[slot]]] += 1


@table_kernel
def _choose_slots(
    pages: Pages,
    groups: Groups,
    row_of: NDArray[np.int64],
    stride: NDArray[np.int64],
    now_ms: int,
    n_seen: NDArray[np.int64],
    slots: NDArray[np.int64],
) -> None:
    """Write every ``stride``-th page of each row until ``slots`` is full."""
    n = slot = 0
    while n < slots.size:
        if _is_fetchable(pages, groups, slot, now_ms):
            row = row_of[pages.kind[slot]]
            if n_seen[row] % stride[row] == 0:
                slots[n] = slot
                n += 1
            n_seen[row] += 1
        slot += 1


@table_kernel
def _fill_sample(
    pages: Pages,
    limits: Limits,
    priors: Priors,
    log2_bonus: FloatArray,
    by_cost: bool,
    slots: NDArray[np.int64],
    sample: _Sample,
) -> None:
    """Fill the columns of a sample; ``rate`` holds the number of pages that each stands for."""
    for i in range(slots.size):
        slot = slots[i]
        word = pages.word[slot]
        log2_period = log2_period_of(word)
        each = sample.rate[i]
        if by_cost:
            each *= math.exp2(log2_of_code(pages.cost[slot]))
        log2_weight = log2_weight_of(word) - log2_of_code(priors.weight[pages.kind[slot]])
        sample.log2_scale[i] = log2_weight + log2_period + log2_bonus[shape_of(word)]
        sample.rate[i] = each * math.exp2(-log2_period)
        row = pages.limits[slot]
        sample.least[i] = each / limits.interval_max[row]
        shortest = limits.interval_min[row]
        sample.most[i] = each / shortest if shortest > 0.0 else math.inf


@table_kernel
def _write_spent(
    sample: _Sample, table: DueTable, log2_price: FloatArray, spent: FloatArray
) -> None:
    """Write the spending per second of each row at its own price."""
    spent[:] = 0.0
    for i in range(sample.word.size):
        word, row = sample.word[i], sample.row[i]
        log2_target = log2_price[row] - sample.log2_scale[i]
        periods = interval_periods_of(table, shape_of(word), class_of(word), log2_target)
        spent[row] += min(max(sample.rate[i] / periods, sample.least[i]), sample.most[i])


class _Demands:
    """Spending of rows of kinds at given prices, from a sample of their pages."""

    def __init__(
        self, tables: Tables, terms: Terms, row_of: NDArray[np.int64], n_rows: int, now_ms: int
    ) -> None:
        pages, groups, registers = tables.pages, tables.groups, tables.registers
        n_pages = np.zeros(n_rows, np.int64)
        _count_pages(pages, groups, row_of, int(registers.n_slots[0]), now_ms, n_pages)
        stride = np.maximum(-(-n_pages // max(_SAMPLE_MAX // n_rows, _SAMPLE_MIN)), 1)
        slots = np.empty(int((-(-n_pages // stride)).sum()), np.int64)
        _choose_slots(pages, groups, row_of, stride, now_ms, np.zeros_like(n_pages), slots)
        row = row_of[pages.kind[slots]]
        scale, least, most = (np.empty(slots.size) for _ in range(3))
        sample = _Sample(pages.word[slots], row, scale, stride[row].astype(float), least, most)
        by_cost = bool(registers.budget_unit[0] == BudgetUnit.COST)
        _fill_sample(pages, tables.limits, tables.priors, terms.log2_bonus, by_cost, slots, sample)
        self._sample, self._table = sample, terms.table
        self.has_pages = n_pages > 0
        table, scale = terms.table, sample.log2_scale
        octaves = (table.due.shape[2] - 1) * table.log2_target_step
        self._low = float(scale.min(initial=0.0)) + table.log2_target_min - _OCTAVES_BELOW
        self._high = float(scale.max(initial=0.0)) + table.log2_target_min + octaves

    def spending_at(self, log2_price: FloatArray) -> FloatArray:
        """Return the spending per second of each row at its own price."""
        spent = np.empty(log2_price.size)
        _write_spent(self._sample, self._table, log2_price, spent)
        return spent

    def log2_prices_for(self, spent: FloatArray) -> FloatArray:
        """Return log2 of the price at which each row would spend a given amount per second."""
        low, high = np.full(spent.size, self._low), np.full(spent.size, self._high)
        for _ in range(_N_HALVINGS):
            middle = 0.5 * (low + high)
            is_cheap = self.spending_at(middle) > spent
            low, high = np.where(is_cheap, middle, low), np.where(is_cheap, high, middle)
        return high


def _check_shares(shares: Mapping[int, float], kinds_max: int) -> None:
    for kind, share in shares.items():
        if not 0 <= kind < kinds_max:
            raise ValueError(f"kind must be below {kinds_max}, got {kind!r}")
        if not 0 <= share <= 1:
            raise ValueError(f"share must be between 0 and 1, got {share!r} of kind {kind}")
    if not sum(shares.values()) <= 1 + 1e-9:
        raise ValueError(f"shares must add up to at most 1, got {sum(shares.values())!r}")


def propose_weights(
    tables: Tables,
    terms: Terms,
    kinds_max: int,
    shares: Mapping[int, float],
    now_ms: int,
) -> KindsWeighted | None:
    """Return the weights at which kinds spend their shares of the budget; None for no change.

    Kinds without a share weigh 1 and keep at least a hundredth of the budget.  They also get what
    a kind cannot spend at the largest weight.  Shares apply if the budget is a rate; at a fixed
    price, weights make the kinds with a share spend it at that price.

    Parameters
    ----------
    tables, terms
        State and due terms of the shard.
    kinds_max
        Number of possible kinds; kind numbers are below it.
    shares
        Share of the budget by kind, 0 to 1, at most 1 in total.
    now_ms
        Present time; pages and groups that may not be fetched yet do not count.
    """
    _check_shares(shares, kinds_max)
    weight = tables.priors.weight
    old = _octaves_of(weight)
    new = np.zeros(max(weight.size, max(shares, default=-1) + 1))
    new[: old.size] = np.where(_has_share(shares, old.size), old, 0.0)
    budget = float(tables.registers.budget[0])
    if shares and 0.0 < budget < math.inf and tables.registers.n_pages[0] > 0:
        kinds = np.array(sorted(shares), np.int64)
        row_of = np.zeros(new.size, np.int64)
        row_of[kinds] = 1 + np.arange(kinds.size)
        demands = _Demands(tables, terms, row_of, kinds.size + 1, now_ms)
        wanted = budget * np.array([shares[kind] for kind in kinds.tolist()])
        fixed = float(tables.registers.fixed_price[0])
        is_fixed = tables.registers.price_mode[0] == PriceMode.FIXED and fixed > 0.0
        octaves = _solve_octaves(demands, wanted, budget, math.log2(fixed) if is_fixed else None)
        # The weight of a kind without pages to fetch stays as it is.
        has_pages = demands.has_pages[1:]
        new[kinds[has_pages]] = octaves[has_pages]
    before = np.zeros(new.size)
    before[: old.size] = old
    is_moved = np.abs(new - before) >= np.where(
        _has_share(shares, new.size), _MOVE_OCTAVES_MIN, 1e-9
    )
    if not is_moved.any():
        return None
    moved = np.flatnonzero(is_moved)
    steps = np.rint(new[moved] * CODES_PER_OCTAVE) / CODES_PER_OCTAVE
    return event_of(
        KindsWeighted, epoch=tables.registers.epoch[0], kind=moved, weight=np.exp2(steps)
    )


def _octaves_of(weight: U16) -> FloatArray:
    octaves: FloatArray = np.array([log2_of_code(int(code)) for code in weight])
    return octaves


def _has_share(shares: Mapping[int, float], n_kinds: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(n_kinds), list(shares))


def _solve_octaves(
    demands: _Demands, wanted: FloatArray, budget: float, log2_fixed: float | None
) -> FloatArray:
    """Return log2 of the weights at which rows spend the wanted parts of the budget."""
    most = math.log2(KIND_WEIGHT_MAX)
    wanted = np.where(demands.has_pages[1:], wanted, 0.0)
    has_rest = bool(demands.has_pages[0])
    total_wanted = float(wanted.sum())
    if has_rest and log2_fixed is None:
        wanted = wanted * min(1.0, (1.0 - _LEFT_SHARE_MIN) * budget / max(total_wanted, 1e-300))
    elif log2_fixed is None and total_wanted > 0.0:
        wanted = wanted * (budget / total_wanted)
    left = budget - float(wanted.sum())
    log2_price = demands.log2_prices_for(np.concatenate([[left], wanted]))
    own = log2_price[1:]
    if log2_fixed is not None:
        log2_price[0] = log2_fixed
    elif not has_rest:
        # Only the ratios of weights matter, so their mean is set to 1.
        log2_price[0] = np.average(own, weights=wanted + 1e-300)
    octaves: FloatArray = np.clip(log2_price[0] - own, -most, most)
    for _ in range(_N_ROUNDS if has_rest and log2_fixed is None else 0):
        spent = demands.spending_at(np.concatenate([[log2_price[0]], log2_price[0] - octaves]))
        if abs(left + float(spent[1:].sum()) - budget) <= 1e-3 * budget:
            break
        left = max(budget - float(spent[1:].sum()), _LEFT_SHARE_MIN * budget)
        log2_price[0] = demands.log2_prices_for(np.concatenate([[left], wanted]))[0]
        octaves = np.clip(log2_price[0] - own, -most, most)
    return octaves
