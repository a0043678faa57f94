"""When a page comes due, and the value of fetching it now, from its word and its limits."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.belief.codes import decode_of
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import LOG2_NEVER, DueTable, due_periods_of
from recrawl.core.price.promise import first_change_quantile_of
from recrawl.core.price.table_value import log2_target_of
from recrawl.core.quick_calls import quick_call
from recrawl.shard.state.tables import GROUP_CLOSED, GROUP_SPLIT, Groups, Limits, Pages
from recrawl.shard.state.words import (
    CODES_PER_OCTAVE,
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
    "LEASE_MS_MIN",
    "ROUGHNESS",
    "Terms",
    "bounds_of",
    "due_at_of",
    "first_positions",
    "in_window_of",
    "log2_value_of",
    "log2_worth_of",
    "page_due_of",
    "ready_at_of",
    "rough_age_of",
    "rough_exp2_of",
]

# Added to log2 of the worth of a page beyond its longest interval: it goes before all others.
CEILING_BONUS = 1024.0
LEASE_MS_MIN = 5_000
"""Least time from an order of a split group to the end of its window, which ends its lease."""


class Terms(NamedTuple):
    """Parameters that turn a word into a due time: the due table, and log2 bonus by shape code."""

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
    """Return log2 of the value of fetching the page now; -inf for none."""
    shape = shape_of(word)
    log2_period = log2_period_of(word)
    age = (now - float(last_of(word))) * math.exp2(-log2_period)
    reached = log2_target_of(terms.table, shape, class_of(word), age)
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
            # Stale for longer than s at age t: changed before t - s.
            shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
            changed_by = first_change_quantile_of(shape, seconds, probability)
            latest = min(latest, fetched + limits.stale_for[row] + changed_by)
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
    """Return log2 of the worth of ordering a page now, its limits included.

    -inf before its shortest interval is over; more than any value beyond its longest.
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
def in_window_of(groups: Groups, group: int, ready_at: float, now_ms: int) -> float:
    """Return when a group that is ready at a time may be ordered from in its window.

    That is at the same time for a group that is not split, and inf if the window ends before.
    """
    if not groups.flags[group] & GROUP_SPLIT:
        return ready_at
    ready_at = max(ready_at, float(groups.window_at[group]))
    # A lease ends with the window, and needs some time.
    is_over = max(ready_at, float(now_ms)) + LEASE_MS_MIN > groups.window_until[group]
    return math.inf if is_over else ready_at


@table_kernel
def ready_at_of(groups: Groups, group: int, now_ms: int) -> float:
    """Return when the next order of a group may go out, in milliseconds; inf if not predictable.

    It is not predictable while the limit of fetches in flight is reached, the group is closed, or
    the group is split and its next window is unknown.
    """
    if groups.in_flight[group] >= groups.in_flight_max[group] or groups.flags[group] & GROUP_CLOSED:
        return math.inf
    allowance = 0
    if groups.in_flight_max[group] > 1:
        # A token bucket: `burst` orders may go out without a delay.
        allowance = (number_of(groups.burst[group]) - 1) * number_of(groups.delay_ms[group])
    ready_at = float(max(groups.ready_at[group] - allowance, groups.blocked_until[group]))
    return in_window_of(groups, group, ready_at, now_ms)


# Largest relative error of a rough age.
ROUGHNESS = 1e-4

_OCTAVES = np.exp2(np.arange(-64.0, 128.0))
_OCTAVE_ZERO = 64.0
_LOG2_PERIOD_MIN = log2_period_of(np.uint64(0))
_LOG2_WEIGHT_MIN = log2_weight_of(np.uint64(0))
# By scale code.
_PERIODS = np.exp2(_LOG2_PERIOD_MIN + np.arange(256.0) / CODES_PER_OCTAVE)


@table_kernel
def _write_positions(terms: Terms, log2_price: float, positions: FloatArray) -> None:
    table = terms.table
    smallest = _LOG2_PERIOD_MIN + _LOG2_WEIGHT_MIN + table.log2_target_min
    for shape in range(terms.log2_bonus.size):
        target = log2_price - smallest - terms.log2_bonus[shape]
        positions[shape] = target / table.log2_target_step
    positions[positions.size - 1] = 1.0 / (CODES_PER_OCTAVE * table.log2_target_step)


_write_positions_quickly = quick_call(_write_positions)


def first_positions(terms: Terms, log2_price: float) -> FloatArray:
    """Return the positions in the due table, by shape, of pages with the smallest codes at a price.

    The last number is the distance by which each code step moves a page down.
    """
    positions = np.empty(terms.log2_bonus.size + 1)
    _write_positions_quickly(terms, float(log2_price), positions)
    return positions


@table_kernel
def rough_exp2_of(x: float) -> float:
    """Return 2^x with a relative error up to 8e-5, for x between -64 and 128."""
    octave = int(x + _OCTAVE_ZERO)
    # The cubic of least relative error on [0, 1].
    f = x + _OCTAVE_ZERO - octave
    cubic = 0.99992783 + f * (0.6957771 + f * (0.22623319 + f * 0.07790716))
    return float(cubic * _OCTAVES[np.uint64(octave)])


@table_kernel
def rough_age_of(word: np.uint64, due: NDArray[np.float32], positions: FloatArray) -> float:
    """Return the effective age at which a page comes due, in seconds; inf if never.

    Negative for the few pages at the ends of the table, which need an exact look.

    Parameters
    ----------
    word
        Word of the page.
    due
        Column of the due table; passing the whole table would take longer than the look-up.
    positions
        `first_positions` of the price.
    """
    # Indices are unsigned: numba checks signed ones for counting from the end.
    scale = (word >> np.uint64(32)) & np.uint64(0xFF)
    weight = (word >> np.uint64(40)) & np.uint64(0xFF)
    class_code = (word >> np.uint64(48)) & np.uint64(0x3FF)
    shape = (word >> np.uint64(58)) & np.uint64(0x1F)
    per_code = positions[positions.size - 1]
    position = positions[shape] - float(np.int64(scale + weight)) * per_code
    if position < 0.0:
        return -1.0
    i = min(int(position), due.shape[2] - 2)
    low = float(due[shape, class_code, np.uint64(i)])
    high = float(due[shape, class_code, np.uint64(i + 1)])
    if high >= LOG2_NEVER:
        return math.inf if low >= LOG2_NEVER else -1.0
    return rough_exp2_of(low + (high - low) * min(position - i, 1.0)) * float(_PERIODS[scale])
