"""Decode arrays of page words with numpy alone, for commands that only read.

Such a command finishes before a compiler could be loaded, so what it computes for many pages must
not need one.  The formulas are those of `recrawl.shard.state.words` and `recrawl.shard.due`; tests
compare these functions with the kernels there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.core.price.learning_rows import writable_copy, write_learning_rows
from recrawl.core.price.promise import latest_elapsed
from recrawl.shard import Shard
from recrawl.shard.due import Terms
from recrawl.shard.state.codes import LOG2_CODE_ONE
from recrawl.shard.state.rules import has_learning_horizon, learning_horizon
from recrawl.shard.state.tables import Limits, Pages
from recrawl.shard.state.words import CODES_PER_OCTAVE, log2_period_of, log2_weight_of

__all__ = [
    "Words",
    "current_terms",
    "due_periods",
    "fresh_chance",
    "log2_of_codes",
    "page_due",
    "page_earliest",
    "page_latest",
    "words_of",
]

_LOG2_CODES = 1024.0
_ZERO = np.uint64(0)
# The values of the kernels for code 0.
_LOG2_PERIOD_MIN = float(log2_period_of(_ZERO))
_LOG2_WEIGHT_MIN = float(log2_weight_of(_ZERO))


class Words(NamedTuple):
    """The fields of page words, one row per page."""

    last: FloatArray
    """Effective last fetch, shard seconds."""
    is_held: FlagArray
    is_bounded: FlagArray
    log2_period: FloatArray
    log2_weight: FloatArray
    class_code: NDArray[np.int64]
    shape_code: NDArray[np.int64]


def _field(word: NDArray[np.uint64], first_bit: int, n_bits: int) -> NDArray[np.int64]:
    bits: NDArray[np.int64] = (word >> np.uint64(first_bit)).astype(np.int64)
    bits &= (1 << n_bits) - 1
    return bits


def words_of(word: NDArray[np.uint64]) -> Words:
    """Return the fields of words."""
    return Words(
        _field(word, 0, 31).astype(np.float64),
        _field(word, 31, 1) > 0,
        word >= np.uint64(1 << 63),
        _field(word, 32, 8) / CODES_PER_OCTAVE + _LOG2_PERIOD_MIN,
        _field(word, 40, 8) / CODES_PER_OCTAVE + _LOG2_WEIGHT_MIN,
        _field(word, 48, 10),
        _field(word, 58, 5),
    )


def log2_of_codes(code: NDArray[np.uint16]) -> FloatArray:
    """Return log2 of the importances or costs that codes above 0 encode."""
    log2: FloatArray = (code.astype(np.float64) - LOG2_CODE_ONE) / _LOG2_CODES
    return log2


def fresh_chance(words: Words, shapes: FloatArray, now: float) -> FloatArray:
    """Return the probability that copies are still fresh, as if every page had been fetched."""
    shape = shapes[words.shape_code]
    age = np.maximum(now - words.last, 0.0) * np.exp2(-words.log2_period)
    chance: FloatArray = np.exp(-shape * np.log1p(age / shape))
    return chance


def due_periods(
    table: DueTable, shape_code: RowArray, class_code: RowArray, log2_target: FloatArray
) -> FloatArray:
    """Return the effective ages, in mean periods, at which pages are due; inf for never.

    See `recrawl.core.price.due_table.due_periods_of`.
    """
    n_targets = table.due.shape[2]
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    i = np.clip(position, 0, n_targets - 2).astype(np.int64)
    place = (shape_code * table.due.shape[1] + class_code) * n_targets + i
    due = table.due.reshape(-1)
    low, high = due[place].astype(np.float64), due[place + 1].astype(np.float64)
    share = np.minimum(position - i, 1.0)
    log2_age = np.where(
        position < 0.0,
        # A price this low is reached long before a change, so the age grows with its square root.
        low + 0.5 * position * table.log2_target_step,
        low * (1.0 - share) + high * share,
    )
    age: FloatArray = np.exp2(log2_age)
    is_above = position >= 0.0
    age[is_above & (low >= LOG2_NEVER)] = np.inf
    last = np.flatnonzero(is_above & (low < LOG2_NEVER) & (high >= LOG2_NEVER))
    if last.size:
        rows = shape_code[last], class_code[last]
        age[last] = _near_the_limit(table, *rows, log2_target[last], i[last], low[last])
    return age


def _near_the_limit(
    table: DueTable,
    shape_code: RowArray,
    class_code: RowArray,
    log2_target: FloatArray,
    i: RowArray,
    log2_age: FloatArray,
) -> FloatArray:
    """Return ages where the value reaches its limit within a step of the table."""
    limit = table.limit[shape_code, class_code]
    shape = table.shapes[shape_code]
    target = np.exp2(log2_target)
    last = np.exp2(table.log2_target_min + i * table.log2_target_step)
    age = np.exp2(log2_age)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log((limit - last) / (limit - target)) / np.maximum(shape - 1.0, 0.5 * shape)
    found = age + (shape + age) * np.expm1(np.minimum(growth, 60.0))
    due: FloatArray = np.where((target >= limit) | np.isinf(limit), np.inf, found)
    return due


def page_due(
    pages: Pages, limits: Limits, slots: RowArray, words: Words, terms: Terms, log2_price: float
) -> FloatArray:
    """Return when pages come due at a price, in shard seconds, their limits included.

    Parameters
    ----------
    pages, limits
        Tables of one shard.
    slots, words
        Slots and words of the pages.
    terms
        Terms that turn words into due times.
    log2_price
        log2 of the price.
    """
    log2_target = log2_price - words.log2_weight - words.log2_period
    log2_target -= terms.log2_bonus[words.shape_code]
    periods = due_periods(terms.table, words.shape_code, words.class_code, log2_target)
    due: FloatArray = words.last + np.exp2(words.log2_period) * periods
    rows = np.flatnonzero(words.is_bounded)
    if rows.size:
        earliest, latest = _bounds(pages, limits, slots[rows])
        due[rows] = np.maximum(np.minimum(due[rows], latest), earliest)
    return due


def page_earliest(pages: Pages, limits: Limits, slots: RowArray, words: Words) -> FloatArray:
    """Return the earliest times to order pages, in shard seconds: after errors, and by min_age."""
    earliest: FloatArray = pages.not_before[slots].astype(np.float64)
    rows = np.flatnonzero(words.is_bounded)
    if rows.size:
        earliest[rows] = _bounds(pages, limits, slots[rows])[0]
    return earliest


def page_latest(pages: Pages, limits: Limits, slots: RowArray, words: Words) -> FloatArray:
    """Return the latest times to order pages, in shard seconds, by max_age and staleness limits."""
    latest = np.full(slots.size, np.inf)
    rows = np.flatnonzero(words.is_bounded)
    if rows.size:
        latest[rows] = _bounds(pages, limits, slots[rows])[1]
    return latest


def _bounds(pages: Pages, limits: Limits, slots: RowArray) -> tuple[FloatArray, FloatArray]:
    """Return the earliest and the latest times to order pages; see `shard.due.bounds_of`."""
    earliest = pages.not_before[slots].astype(np.float64)
    latest = np.full(slots.size, np.inf)
    row = pages.limits[slots]
    limited = np.flatnonzero((row > 0) & (pages.fetched_at[slots] > 0))
    row, of = row[limited], slots[limited]
    fetched = pages.fetched_at[of].astype(np.float64)
    earliest[limited] = np.maximum(earliest[limited], fetched + limits.interval_min[row])
    belief = decode_beliefs(BeliefCodes(pages.belief_shape[of], pages.belief_seconds[of]))
    probability = limits.stale_probability[row]
    promised = latest_elapsed(belief, stale_for=limits.stale_for[row], probability=probability)
    until = np.where(probability > 0.0, promised, np.inf)
    latest[limited] = fetched + np.minimum(limits.interval_max[row], until)
    return earliest, latest


def current_terms(shard: Shard) -> Terms:
    """Return what turns words into due times, at the learning horizon of a decision now."""
    if not has_learning_horizon(shard.settings):
        return shard.terms
    table = writable_copy(shard.terms.table)
    write_learning_rows(
        table, learning_horizon(int(shard.tables.registers.n_polls[0]), shard.n_pages)
    )
    return shard.terms._replace(table=table)
