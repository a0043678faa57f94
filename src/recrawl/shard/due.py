"""When a page comes due and what it is worth now, from its word and, where hinted, its limits."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import decode_of
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import DueTable, due_periods_of
from recrawl.core.price.table_value import reached_target_of
from recrawl.shard.state.tables import Groups, Limits, Pages
from recrawl.shard.state.words import (
    class_of,
    is_bounded,
    last_of,
    log2_period_of,
    log2_weight_of,
    number_of,
    shape_of,
)

__all__ = [
    "CEILING_BONUS",
    "Terms",
    "bounds_of",
    "due_at_of",
    "log2_value_of",
    "log2_worth_of",
    "page_due_of",
    "ready_at_of",
]

# Added to the log2 worth of a page beyond a ceiling of its own: it goes before all others.
CEILING_BONUS = 1024.0


class Terms(NamedTuple):
    """What turns a word into a due time: the due table, and log2 of the bonus by shape code."""

    table: DueTable
    log2_bonus: NDArray[np.float64]


@table_kernel
def due_at_of(word: np.uint64, terms: Terms, log2_price: float) -> float:
    """Return when the page comes due at a price, in shard seconds; inf if never."""
    shape = shape_of(word)
    log2_period = log2_period_of(word)
    log2_target = log2_price - log2_weight_of(word) - log2_period - terms.log2_bonus[shape]
    periods = due_periods_of(terms.table, shape, class_of(word), log2_target)
    return float(last_of(word)) + math.exp2(log2_period) * periods


@table_kernel
def log2_value_of(word: np.uint64, terms: Terms, now: float) -> float:
    """Return log2 of what fetching the page now is worth; -inf for nothing."""
    shape = shape_of(word)
    log2_period = log2_period_of(word)
    age = (now - float(last_of(word))) * math.exp2(-log2_period)
    reached = reached_target_of(terms.table, shape, class_of(word), age)
    return reached + log2_weight_of(word) + log2_period + float(terms.log2_bonus[shape])


@table_kernel
def bounds_of(pages: Pages, limits: Limits, slot: int) -> tuple[float, float]:
    """Return the earliest and the latest time to order a page, in shard seconds."""
    earliest = float(pages.not_before[slot])
    latest = math.inf
    row = pages.limits[slot]
    if row > 0 and pages.fetched_at[slot] > 0:
        fetched = float(pages.fetched_at[slot])
        earliest = max(earliest, fetched + limits.interval_min[row])
        latest = fetched + limits.interval_max[row]
        probability = limits.stale_probability[row]
        if probability > 0.0:
            # 1 - (b/(b+t-s))^a ≤ p   ⟺   t ≤ s + b ((1-p)^{-1/a} - 1)
            shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
            exponent = min(-math.log1p(-probability) / shape, 700.0)
            latest = min(latest, fetched + limits.stale_for[row] + seconds * math.expm1(exponent))
    return earliest, latest


@table_kernel
def page_due_of(pages: Pages, limits: Limits, slot: int, terms: Terms, log2_price: float) -> float:
    """Return when a page comes due at a price, its limits included."""
    word = pages.word[slot]
    due = due_at_of(word, terms, log2_price)
    if is_bounded(word):
        earliest, latest = bounds_of(pages, limits, slot)
        due = max(min(due, latest), earliest)
    return due


@table_kernel
def log2_worth_of(pages: Pages, limits: Limits, slot: int, terms: Terms, now: float) -> float:
    """Return log2 of what ordering a page now is worth, its limits included.

    -inf before a floor, and more than any value beyond a ceiling.
    """
    word = pages.word[slot]
    value = log2_value_of(word, terms, now)
    if is_bounded(word):
        earliest, latest = bounds_of(pages, limits, slot)
        if now < earliest:
            return -math.inf
        if now >= latest:
            return max(value, -CEILING_BONUS / 2) + CEILING_BONUS
    return value


@table_kernel
def ready_at_of(groups: Groups, group: int) -> float:
    """Return when the next order of a group may go out, in milliseconds; inf if not foreseeable.

    Not foreseeable while as many are in flight as may be, or while the group is closed.
    """
    if groups.in_flight[group] >= groups.in_flight_max[group] or groups.flags[group] & 2:
        return math.inf
    allowance = 0
    if groups.in_flight_max[group] > 1:
        # A bucket that lets `burst` orders follow each other at once.
        allowance = (number_of(groups.burst[group]) - 1) * number_of(groups.delay_ms[group])
    return float(max(groups.ready_at[group] - allowance, groups.blocked_until[group]))
