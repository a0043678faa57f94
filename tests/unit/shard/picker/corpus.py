"""Shards of random pages for tests of pickers, and a loop that applies their orders."""

from collections import deque
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import DueCodes, build_due_table
from recrawl.shard.due import Terms, due_at_of, log2_worth_of, page_due_of
from recrawl.shard.picker import Picker, Proposal
from recrawl.shard.picker.forecast import sample_demand
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.codes import log2_code_of
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import (
    RUNS_MAX,
    Groups,
    Leases,
    Limits,
    Links,
    Pages,
    Priors,
    Registers,
    Runs,
    Sources,
    Tables,
    zeros,
)
from recrawl.shard.state.words import EPOCH_SECONDS, number_of, with_codes, with_held, with_last

NOW_MS = 1_700_000_000_000
NOW = NOW_MS / 1000.0 - EPOCH_SECONDS
DAY = 86_400.0
# Without signals, and of three qualities of them.
CLASSES = (0, 400, 700, 900)


@cache
def terms() -> Terms:
    """Return the terms of pages of a few classes."""
    codes = DueCodes()
    return Terms(build_due_table(codes, classes=CLASSES), np.log2(1 + 1 / codes.shapes()))


@kernel
def _write_words(
    word: NDArray[np.uint64],
    scale: NDArray[np.int64],
    weight: NDArray[np.int64],
    class_code: NDArray[np.int64],
    shape: NDArray[np.int64],
    last: NDArray[np.int64],
) -> None:
    for slot in range(scale.size):
        codes = with_codes(np.uint64(0), scale[slot], weight[slot], class_code[slot], shape[slot])
        word[slot] = with_last(codes, last[slot])


def empty_tables(n_pages: int, n_groups: int) -> Tables:
    return Tables(
        zeros(Pages, n_pages),
        zeros(Links, 8),
        zeros(Groups, n_groups),
        zeros(Sources, 1),
        zeros(Leases, 16),
        zeros(Limits, 8),
        zeros(Priors, 1),
        zeros(Runs, RUNS_MAX),
        zeros(Registers, 1),
    )


def random_tables(
    n_pages: int,
    rng: np.random.Generator,
    *,
    budget: float,
    n_groups: int = 1,
    room: int | None = None,
    mean_age: float = 20 * DAY,
    classes: tuple[int, ...] = (0,),
) -> Tables:
    """Return a shard of pages of all kinds, fetched at random times; groups are unlimited."""
    tables = empty_tables(room or n_pages, n_groups)
    add_pages(tables, n_pages, rng, mean_age=mean_age, classes=classes)
    tables.groups.in_flight_max[:] = 60_000
    tables.groups.burst[:] = 60_000
    tables.limits.interval_max[:] = np.inf
    tables.registers.budget[0] = budget
    tables.registers.now[0] = NOW_MS
    tables.registers.next_order[0] = 1
    return tables


def add_pages(
    tables: Tables,
    n_pages: int,
    rng: np.random.Generator,
    *,
    mean_age: float = 20 * DAY,
    classes: tuple[int, ...] = (0,),
) -> NDArray[np.int64]:
    first = int(tables.registers.n_slots[0])
    scale = np.clip(np.rint(rng.normal(145, 35, n_pages)), 0, 255).astype(np.int64)
    weight = np.clip(np.rint(rng.normal(128, 15, n_pages)), 0, 255).astype(np.int64)
    shape = rng.integers(6, 24, n_pages)
    last = (NOW - rng.exponential(mean_age, n_pages)).astype(np.int64)
    class_code = np.array(classes, np.int64)[np.arange(n_pages) % len(classes)]
    _write_words(tables.pages.word[first:], scale, weight, class_code, shape, last)
    slots = np.arange(first, first + n_pages)
    tables.pages.status[slots] = PageStatus.ACTIVE
    tables.pages.fetched_at[slots] = last
    tables.pages.cost[slots] = log2_code_of(1.0)
    tables.pages.group[slots] = rng.integers(0, tables.groups.ready_at.size, n_pages)
    tables.registers.n_slots[0] += n_pages
    tables.registers.n_pages[0] += n_pages
    return slots


@kernel
def _spread(
    pages: Pages,
    slots: NDArray[np.int64],
    share: NDArray[np.float64],
    log2_price: float,
    terms: Terms,
) -> None:
    for i in range(slots.size):
        word = pages.word[slots[i]]
        age = due_at_of(with_last(word, 1), terms, log2_price)
        age = age if age < 4e8 else 4e8
        second = int(NOW - share[i] * age)
        pages.word[slots[i]] = with_last(word, second)
        pages.fetched_at[slots[i]] = second


def settled_tables(
    n_pages: int, rng: np.random.Generator, *, budget: float, **rest: Any
) -> tuple[Tables, float]:
    """Return a shard in its steady state, and its price: pages are as old as they would be."""
    tables = random_tables(n_pages, rng, budget=budget, **rest)

    price = 3_600.0
    for _ in range(3):
        price = sample_demand(tables, terms(), price, n_counted=n_pages).price_for(budget)
    slots = np.arange(n_pages)
    _spread(tables.pages, slots, rng.random(n_pages), float(np.log2(price)), terms())
    return tables, price


@kernel
def _worths(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    now: float,
    slots: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    for i in range(slots.size):
        out[i] = log2_worth_of(pages, limits, slots[i], terms, now)


def worths(tables: Tables, now_ms: int, slots: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log2 of the worth of pages."""
    out = np.empty(slots.size)
    _worths(tables.pages, tables.limits, terms(), now_ms / 1000 - EPOCH_SECONDS, slots, out)
    return out


@kernel
def _due_times(
    pages: Pages, limits: Limits, terms: Terms, log2_price: float, out: NDArray[np.float64]
) -> None:
    for slot in range(out.size):
        out[slot] = page_due_of(pages, limits, slot, terms, log2_price)


def due_times(tables: Tables, log2_price: float) -> NDArray[np.float64]:
    """Return when all pages come due at a price, in shard seconds."""
    out = np.empty(int(tables.registers.n_slots[0]))
    _due_times(tables.pages, tables.limits, terms(), float(log2_price), out)
    return out


@kernel
def _apply(pages: Pages, groups: Groups, slots: NDArray[np.int64], now_ms: int) -> None:
    for slot in slots:
        group = pages.group[slot]
        pages.word[slot] = with_held(pages.word[slot], True)
        groups.in_flight[group] += 1
        if groups.in_flight_max[group] > 1:
            groups.ready_at[group] = max(groups.ready_at[group], now_ms) + number_of(
                groups.delay_ms[group]
            )


@kernel
def _report(pages: Pages, groups: Groups, slots: NDArray[np.int64], now_ms: int) -> None:
    for slot in slots:
        group = pages.group[slot]
        second = now_ms // 1000 - EPOCH_SECONDS
        pages.fetched_at[slot] = second
        pages.word[slot] = with_held(with_last(pages.word[slot], second), False)
        groups.in_flight[group] -= 1
        if groups.in_flight_max[group] <= 1:
            groups.ready_at[group] = max(groups.ready_at[group], now_ms + groups.delay_ms[group])


class Fetching:
    """Acts as the shard around a picker: adds credit, applies orders and reports them later."""

    def __init__(
        self,
        tables: Tables,
        settings: ShardSettings,
        *,
        fetch_ms: int = 2_000,
        tick_ms: int = 1_000,
    ) -> None:
        self.tables = tables
        self.picker = Picker(settings, terms())
        self.now_ms = NOW_MS
        self.credit = 0.0
        self.fetch_ms = fetch_ms
        self.tick_ms = tick_ms
        self.in_flight: deque[tuple[int, NDArray[np.int64]]] = deque()
        self.log: list[tuple[int, Proposal]] = []

    def tick(self, n: int | None = None) -> Proposal:
        """Advance time, report finished fetches, decide and apply."""
        tables = self.tables
        self.now_ms += self.tick_ms
        tables.registers.now[0] = self.now_ms
        while self.in_flight and self.in_flight[0][0] <= self.now_ms:
            _, slots = self.in_flight.popleft()
            _report(tables.pages, tables.groups, slots, self.now_ms)
            self.picker.touch(tables, slots)
            self.picker.wake(tables, tables.pages.group[slots].astype(np.int64))
        self.credit += float(tables.registers.budget[0]) * self.tick_ms / 1000
        allowed = int(self.credit) if n is None else n
        proposal = self.picker.decide(tables, self.now_ms, allowed)
        self.credit = min(
            self.credit - proposal.slot.size, max(2.0 * tables.registers.budget[0], 1.0)
        )
        _apply(tables.pages, tables.groups, proposal.slot, self.now_ms)
        tables.registers.next_order[0] += proposal.slot.size
        self.in_flight.append((self.now_ms + self.fetch_ms, proposal.slot))
        self.log.append((self.now_ms, proposal))
        return proposal

    def run(self, n_ticks: int) -> list[Proposal]:
        return [self.tick() for _ in range(n_ticks)]
