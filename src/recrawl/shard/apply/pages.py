"""Apply events of pages: added, removed, and their importance, cost, kind, limits and requests."""

import math

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.core.belief.codes import decode_of, encode_of
from recrawl.core.kernel import table_kernel
from recrawl.core.requests import decayed_counts_of
from recrawl.core.value.averaged import averaged_value_of
from recrawl.shard.events import CurvesSet, PagesAdded, PagesRemoved, RequestsSeen
from recrawl.shard.state.codes import log2_code_of, prior_of, ratio_code_of, rebuild_word
from recrawl.shard.state.rules import COUNTS, Rules
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import (
    F32,
    F64,
    I64,
    U16,
    Groups,
    Links,
    Pages,
    Priors,
    Registers,
    Sources,
)
from recrawl.shard.state.words import EPOCH_SECONDS, SECONDS_MAX, number_of, with_held, with_last

__all__ = [
    "add_pages",
    "count_requests",
    "find_slots",
    "move_kinds",
    "newness_of",
    "page_slot_of",
    "rebase",
    "rebuild_words",
    "remove_pages",
    "seconds_of",
    "translate_beliefs",
    "write_curves",
    "write_log2_codes",
]

_FREE = int(PageStatus.FREE)
_NEW = int(PageStatus.NEW)
# Largest effective age of a page never fetched: the word must be able to hold its instant.
_NEWNESS_MAX = 8e8


@table_kernel
def seconds_of(at_ms: int, now_ms: int) -> int:
    """Return an instant in shard seconds, no later than ``now_ms``."""
    second = min(at_ms, now_ms) // 1000 - EPOCH_SECONDS
    return min(max(second, 1), SECONDS_MAX)


@table_kernel
def page_slot_of(pages: Pages, page: int, n_slots: int) -> int:
    """Return the slot of a page, or -1 if the page has been removed."""
    slot = page & 0xFFFFFFFF
    if page < 0 or slot >= n_slots or pages.status[slot] == _FREE:
        return -1
    if pages.generation[slot] != (page >> 32):
        return -1
    return slot


@table_kernel
def find_slots(pages: Pages, registers: Registers, page: I64, slots: I64) -> None:
    """Write the slots of pages, -1 for those that have been removed."""
    for i in range(page.size):
        slots[i] = page_slot_of(pages, page[i], registers.n_slots[0])


@table_kernel
def rebuild_words(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    slots: I64,
) -> None:
    """Recompute the words of pages, after something that they depend on changed."""
    now = seconds_of(registers.now[0], registers.now[0])
    for i in range(slots.size):
        if pages.status[slots[i]] != _FREE:
            rebuild_word(pages, links, sources, priors, rules, slots[i], float(now))


@table_kernel
def newness_of(shape: float, seconds: float, horizon: float) -> float:
    """Return the age at which a refresh is worth as much as the first fetch of a page."""
    # The first fetch is worth ∫₀^H (b/(b+s))^a ds; see `recrawl.core.value.never_fetched_value`.
    growth = math.log1p(horizon / seconds)
    x = (shape - 1.0) * growth
    worth = seconds * growth * (-math.expm1(-x) / x if abs(x) > 1e-9 else 1.0)
    low, high = 0.0, math.log2(_NEWNESS_MAX)
    for _ in range(40):
        middle = 0.5 * (low + high)
        if averaged_value_of(shape, seconds, math.exp2(middle)) < worth:
            low = middle
        else:
            high = middle
    return math.exp2(high)


@table_kernel
def _forget_links(pages: Pages, slot: int) -> None:
    pages.n_sources[slot] = 0
    pages.n_signals[slot] = 0
    pages.signal_count[slot] = 0.0
    pages.claimed_at[slot] = 0
    pages.heard_at[slot] = 0


@table_kernel
def add_pages(
    pages: Pages,
    groups: Groups,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    newness: F64,
    event: PagesAdded,
    valid: FlagArray,
) -> None:
    """Add pages in their slots; rows whose slot is not the next free one are void."""
    now_ms = registers.now[0]
    for i in range(event.page.size):
        slot = event.page[i] & 0xFFFFFFFF
        generation = event.page[i] >> 32
        free = registers.free_slot[0]
        if free > 0:
            if slot != free - 1 or generation != pages.generation[slot]:
                continue
            registers.free_slot[0] = np.int64(pages.word[slot] & np.uint64(0x7FFFFFFF))
            registers.n_free[0] -= 1
        else:
            if slot != registers.n_slots[0] or generation != 0:
                continue
            registers.n_slots[0] += 1
            if registers.rebased_to[0] == slot:
                registers.rebased_to[0] += 1
        at = seconds_of(event.at_ms[i], now_ms)
        kind = number_of(event.kind[i])
        shape, seconds = prior_of(priors, kind, slot, registers.rebased_to[0])
        pages.fetched_at[slot] = 0
        pages.surprise[slot] = 0
        if rules.estimator == COUNTS:
            pages.belief_shape[slot] = 0
            pages.belief_seconds[slot] = encode_of(shape, seconds / shape, slot, at)[1]
        else:
            pages.belief_shape[slot], pages.belief_seconds[slot] = encode_of(
                shape, seconds, slot, at
            )
        pages.group[slot] = event.group[i]
        groups.n_pages[event.group[i]] += 1
        pages.status[slot] = _NEW
        pages.errors[slot] = 0
        pages.importance[slot] = log2_code_of(float(event.importance[i]))
        pages.cost[slot] = log2_code_of(float(event.cost[i]))
        pages.kind[slot] = kind
        pages.limits[slot] = 0
        pages.first_seen[slot] = at
        pages.not_before[slot] = 0
        pages.word[slot] = with_last(np.uint64(0), int(at - newness[kind]))
        rebuild_word(pages, links, sources, priors, rules, slot, float(at))
        registers.n_pages[0] += 1
        valid[i] = True


@table_kernel
def remove_pages(
    pages: Pages, groups: Groups, registers: Registers, event: PagesRemoved, valid: FlagArray
) -> None:
    """Free slots; the generation rises, so that later events of the old page are void."""
    for i in range(event.page.size):
        slot = page_slot_of(pages, event.page[i], registers.n_slots[0])
        if slot < 0:
            continue
        groups.n_pages[pages.group[slot]] -= 1
        pages.status[slot] = _FREE
        pages.generation[slot] = (number_of(pages.generation[slot]) + 1) & 0xFF
        pages.ceiling[slot] = 0
        pages.ratio[slot] = 0
        pages.curve[slot] = 0
        pages.requests[slot] = 0.0
        pages.request_seconds[slot] = 0.0
        pages.requested_at[slot] = 0
        _forget_links(pages, slot)
        pages.word[slot] = with_held(np.uint64(registers.free_slot[0]), True)
        registers.free_slot[0] = slot + 1
        registers.n_free[0] += 1
        registers.n_pages[0] -= 1
        valid[i] = True


@table_kernel
def _move_to_prior(
    pages: Pages,
    slot: int,
    old_shape: float,
    old_seconds: float,
    new_shape: float,
    new_seconds: float,
    at: int,
) -> None:
    """Write the belief that the same evidence gives with another prior."""
    # See `recrawl.core.belief.rebase_beliefs`.
    shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
    kept = min(seconds / old_seconds, 1.0)
    pages.belief_shape[slot], pages.belief_seconds[slot] = encode_of(
        max(shape - old_shape, 0.0) + new_shape,
        max(seconds - old_seconds, 0.0) + kept * new_seconds,
        slot,
        at,
    )


@table_kernel
def move_kinds(
    pages: Pages, priors: Priors, registers: Registers, rules: Rules, slots: I64, kind: U16
) -> None:
    """Move pages to another kind, and their beliefs to its prior."""
    now = seconds_of(registers.now[0], registers.now[0])
    for i in range(slots.size):
        slot = slots[i]
        if rules.estimator != COUNTS:
            a, b = prior_of(priors, pages.kind[slot], slot, registers.rebased_to[0])
            new_a, new_b = prior_of(priors, number_of(kind[i]), slot, registers.rebased_to[0])
            _move_to_prior(pages, slot, a, b, new_a, new_b, now)
        pages.kind[slot] = kind[i]


@table_kernel
def rebase(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    n_slots: int,
) -> None:
    """Move the beliefs of the next ``n_slots`` slots from the old priors to the new ones."""
    now = seconds_of(registers.now[0], registers.now[0])
    first = registers.rebased_to[0]
    end = min(first + n_slots, registers.n_slots[0])
    for slot in range(first, end):
        if pages.status[slot] == _FREE or rules.estimator == COUNTS:
            continue
        kind = pages.kind[slot]
        _move_to_prior(
            pages,
            slot,
            priors.old_shape[kind],
            priors.old_seconds[kind],
            priors.shape[kind],
            priors.seconds[kind],
            now,
        )
        rebuild_word(pages, links, sources, priors, rules, slot, float(now))
    registers.rebased_to[0] = end


@table_kernel
def translate_beliefs(pages: Pages, priors: Priors, registers: Registers, rules: Rules) -> None:
    """Convert beliefs to counts, or counts to beliefs, after the estimator changed.

    A belief becomes its mean period with no polls; counts become evidence added to the prior.
    """
    now = seconds_of(registers.now[0], registers.now[0])
    for slot in range(registers.n_slots[0]):
        if pages.status[slot] == _FREE:
            continue
        pages.surprise[slot] = 0
        shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
        if rules.estimator == COUNTS:
            pages.belief_shape[slot] = 0
            pages.belief_seconds[slot] = encode_of(1.0, seconds / shape, slot, now)[1]
            continue
        a, b = prior_of(priors, pages.kind[slot], slot, registers.rebased_to[0])
        if number_of(pages.belief_shape[slot]) >> 8 > 0:
            a += float(number_of(pages.belief_shape[slot]) & 0xFF)
            b += seconds
        pages.belief_shape[slot], pages.belief_seconds[slot] = encode_of(a, b, slot, now)


@table_kernel
def write_log2_codes(column: U16, slots: I64, quantity: F32) -> None:
    """Write importance, cost or weight into its column."""
    for i in range(slots.size):
        column[slots[i]] = log2_code_of(float(quantity[i]))


@table_kernel
def write_curves(pages: Pages, slots: I64, event: CurvesSet) -> None:
    """Write the divergence curves of pages, one row of the event for each slot."""
    for i in range(slots.size):
        slot = slots[i]
        pages.ceiling[slot] = int(min(max(float(event.ceiling[i]) * 255.0 + 0.5, 1.0), 255.0))
        pages.ratio[slot] = ratio_code_of(float(event.ratio[i]))
        pages.curve[slot] = event.scroll_items[i]


@table_kernel
def count_requests(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    registers: Registers,
    rules: Rules,
    event: RequestsSeen,
    valid: FlagArray,
) -> None:
    """Count requests; older ones fade."""
    for i in range(event.page.size):
        slot = page_slot_of(pages, event.page[i], registers.n_slots[0])
        if slot < 0 or not 0.0 <= event.n_requests[i] < math.inf:
            continue
        at = seconds_of(event.at_ms[i], registers.now[0])
        if pages.requested_at[slot] == 0:
            pages.requested_at[slot] = pages.first_seen[slot]
        elapsed = float(at) - float(pages.requested_at[slot])
        if elapsed >= 0.0:
            requests, seconds = decayed_counts_of(
                float(pages.requests[slot]),
                float(pages.request_seconds[slot]),
                elapsed,
                rules.request_time_constant,
            )
            pages.requests[slot] = requests + float(event.n_requests[i])
            pages.request_seconds[slot] = seconds
            pages.requested_at[slot] = at
        else:
            # A late report has already faded by as much as the counts it is added to.
            late, _ = decayed_counts_of(
                float(event.n_requests[i]), 0.0, -elapsed, rules.request_time_constant
            )
            pages.requests[slot] = float(pages.requests[slot]) + late
        rebuild_word(pages, links, sources, priors, rules, slot, float(at))
        valid[i] = True
