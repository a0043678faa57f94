"""Shares of the budget by kind of page: the weights at which each kind spends what it is given.

All pages compete at one price, and a kind gets what it demands at it.  For a kind to spend a
share of the budget it must be weighed: with p the price at which the kinds without a share spend
what is left, and q the price at which a kind spends its own share, its pages count p/q times as
much.  Both prices come from the words of a sample of pages, as the demand curve of the picker
does, and so from what is believed of pages and not from what was spent.
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
from recrawl.shard.state.tables import U16, Groups, Limits, Pages, Priors, Tables
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

# A kind that cannot spend its share weighs no more than this, nor less than one over it.
KIND_WEIGHT_MAX = 1_024.0
# What kinds without a share keep of the budget at least, or they would never be seen again.
_LEFT_SHARE_MIN = 0.01
# Weights move by whole steps of a word's code, and only once they are off by so many octaves.
_MOVE_OCTAVES_MIN = 0.075
# Pages asked, of all kinds together, and of each at least.
_SAMPLE_MAX = 1 << 16
_SAMPLE_MIN = 1 << 8
# Halvings of the range of prices, and times that what a kind cannot spend is given to others.
_N_HALVINGS = 32
_N_ROUNDS = 3
# Prices below the smallest of the table at which a kind is asked, in octaves.
_OCTAVES_BELOW = 16.0
_FREE = int(PageStatus.FREE)
_RETIRED = int(PageStatus.RETIRED)


class _Sample(NamedTuple):
    """Pages asked what they would spend, each for as many as it stands for."""

    word: NDArray[np.uint64]
    row: NDArray[np.int64]
    """0 for kinds without a share, then one for each kind with one."""
    log2_scale: FloatArray
    """Price over the target in the due table, were the kind's weight 1."""
    rate: FloatArray
    """What it would spend if its interval were its period."""
    least: FloatArray
    most: FloatArray
    """By its limits."""


@table_kernel
def _counts(pages: Pages, groups: Groups, slot: int, now_ms: int) -> bool:
    """Return whether a page is one that could be fetched now or soon."""
    status = pages.status[slot]
    if is_held(pages.word[slot]) and status in (_FREE, _RETIRED):
        return False
    if (number_of(pages.not_before[slot]) + EPOCH_SECONDS) * 1000 > now_ms:
        return False
    group = pages.group[slot]
    return not groups.flags[group] & 2 and groups.blocked_until[group] <= now_ms


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
        if _counts(pages, groups, slot, now_ms):
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
    """Write every ``stride``-th page of each row, as many as there is room for."""
    n = slot = 0
    while n < slots.size:
        if _counts(pages, groups, slot, now_ms):
            row = row_of[pages.kind[slot]]
            if n_seen[row] % stride[row] == 0:
                slots[n] = slot
                n += 1
            n_seen[row] += 1
        slot += 1


@table_kernel
def _ask_pages(
    pages: Pages,
    limits: Limits,
    priors: Priors,
    log2_bonus: FloatArray,
    by_cost: bool,
    slots: NDArray[np.int64],
    sample: _Sample,
) -> None:
    """Write what decides on what pages would spend; ``rate`` has how many each stands for."""
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
    """Write what each row would spend per second, at a price of its own."""
    spent[:] = 0.0
    for i in range(sample.word.size):
        word, row = sample.word[i], sample.row[i]
        log2_target = log2_price[row] - sample.log2_scale[i]
        periods = interval_periods_of(table, shape_of(word), class_of(word), log2_target)
        spent[row] += min(max(sample.rate[i] / periods, sample.least[i]), sample.most[i])


class _Demands:
    """What rows of kinds would spend at prices, from a sample of their pages."""

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
        _ask_pages(pages, tables.limits, tables.priors, terms.log2_bonus, by_cost, slots, sample)
        self._sample, self._table = sample, terms.table
        self.has_pages = n_pages > 0
        table, scale = terms.table, sample.log2_scale
        octaves = (table.due.shape[2] - 1) * table.log2_target_step
        self._low = float(scale.min(initial=0.0)) + table.log2_target_min - _OCTAVES_BELOW
        self._high = float(scale.max(initial=0.0)) + table.log2_target_min + octaves

    def spent_at(self, log2_price: FloatArray) -> FloatArray:
        """Return what each row would spend per second, at a price of its own."""
        spent = np.empty(log2_price.size)
        _write_spent(self._sample, self._table, log2_price, spent)
        return spent

    def log2_prices_for(self, spent: FloatArray) -> FloatArray:
        """Return log2 of the price at which each row would spend so much, or nearly so much."""
        low, high = np.full(spent.size, self._low), np.full(spent.size, self._high)
        for _ in range(_N_HALVINGS):
            middle = 0.5 * (low + high)
            is_cheap = self.spent_at(middle) > spent
            low, high = np.where(is_cheap, middle, low), np.where(is_cheap, high, middle)
        return high


def _checked(shares: Mapping[int, float], kinds_max: int) -> None:
    for kind, share in shares.items():
        if not 0 <= kind < kinds_max:
            raise ValueError(f"kind must be below {kinds_max}, got {kind!r}")
        if not 0 <= share <= 1:
            raise ValueError(f"share must be between 0 and 1, got {share!r} of kind {kind}")
    if not sum(shares.values()) <= 1 + 1e-9:
        raise ValueError(f"shares must be at most 1 together, got {sum(shares.values())!r}")


def propose_weights(
    tables: Tables,
    terms: Terms,
    kinds_max: int,
    shares: Mapping[int, float],
    now_ms: int,
) -> KindsWeighted | None:
    """Return the weights at which kinds spend their shares of the budget; None if as they are.

    Kinds without a share weigh 1 and keep a hundredth of the budget at least.  What a kind cannot
    spend at the largest weight is left to them.  Shares count if the budget is a rate; at a fixed
    price, weights make the kinds with a share spend it at that price.

    Parameters
    ----------
    tables, terms
        Of the shard.
    kinds_max
        Kinds are below it.
    shares
        Of each kind that has one, 0 to 1, and at most 1 together.
    now_ms
        Pages and groups that must rest beyond it do not count.
    """
    _checked(shares, kinds_max)
    weight = tables.priors.weight
    old = _octaves_of(weight)
    new = np.zeros(max(weight.size, max(shares, default=-1) + 1))
    new[: old.size] = np.where(_is_among(shares, old.size), old, 0.0)
    budget = float(tables.registers.budget[0])
    if shares and 0.0 < budget < math.inf and tables.registers.n_pages[0] > 0:
        kinds = np.array(sorted(shares), np.int64)
        row_of = np.zeros(new.size, np.int64)
        row_of[kinds] = 1 + np.arange(kinds.size)
        demands = _Demands(tables, terms, row_of, kinds.size + 1, now_ms)
        wanted = budget * np.array([shares[kind] for kind in kinds.tolist()])
        fixed = float(tables.registers.fixed_price[0])
        is_fixed = tables.registers.price_mode[0] == PriceMode.FIXED and fixed > 0.0
        octaves = _octaves(demands, wanted, budget, math.log2(fixed) if is_fixed else None)
        # Of a kind that has nothing to fetch there is nothing to learn.
        has_pages = demands.has_pages[1:]
        new[kinds[has_pages]] = octaves[has_pages]
    before = np.zeros(new.size)
    before[: old.size] = old
    is_moved = np.abs(new - before) >= np.where(
        _is_among(shares, new.size), _MOVE_OCTAVES_MIN, 1e-9
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


def _is_among(shares: Mapping[int, float], n_kinds: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(n_kinds), list(shares))


def _octaves(
    demands: _Demands, wanted: FloatArray, budget: float, log2_fixed: float | None
) -> FloatArray:
    """Return log2 of the weights at which rows spend what is wanted of the budget."""
    most = math.log2(KIND_WEIGHT_MAX)
    wanted = np.where(demands.has_pages[1:], wanted, 0.0)
    has_rest = bool(demands.has_pages[0])
    together = float(wanted.sum())
    if has_rest and log2_fixed is None:
        wanted = wanted * min(1.0, (1.0 - _LEFT_SHARE_MIN) * budget / max(together, 1e-300))
    elif log2_fixed is None and together > 0.0:
        wanted = wanted * (budget / together)
    left = budget - float(wanted.sum())
    log2_price = demands.log2_prices_for(np.concatenate([[left], wanted]))
    own = log2_price[1:]
    if log2_fixed is not None:
        log2_price[0] = log2_fixed
    elif not has_rest:
        # Nothing but their relation counts: in the middle they weigh 1.
        log2_price[0] = np.average(own, weights=wanted + 1e-300)
    octaves: FloatArray = np.clip(log2_price[0] - own, -most, most)
    for _ in range(_N_ROUNDS if has_rest and log2_fixed is None else 0):
        spent = demands.spent_at(np.concatenate([[log2_price[0]], log2_price[0] - octaves]))
        if abs(left + float(spent[1:].sum()) - budget) <= 1e-3 * budget:
            break
        left = max(budget - float(spent[1:].sum()), _LEFT_SHARE_MIN * budget)
        log2_price[0] = demands.log2_prices_for(np.concatenate([[left], wanted]))[0]
        octaves = np.clip(log2_price[0] - own, -most, most)
    return octaves
