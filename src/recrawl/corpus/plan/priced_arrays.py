"""How each page fares at each price, with numpy alone: for plans made without a compiler.

The formulas are those of the kernels in `recrawl.corpus.plan.priced_pages`; tests compare the two.
`recrawl.corpus.inspect.decoded_words` says why both exist.
"""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.core.price.due_table import LOG2_NEVER, DueTable
from recrawl.corpus.inspect.decoded_words import Words, due_periods, words_of
from recrawl.shard.due import Terms
from recrawl.shard.state.rules import Rules

__all__ = ["priced_points"]

# Points made together: what is made of them stays in the processor's cache.
_POINTS_AT_ONCE = 1 << 15


def priced_points(
    word: NDArray[np.uint64],
    rules: Rules,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return how often pages (rows) are fetched at prices (columns), and which share is fresh.

    Parameters
    ----------
    word
        Of each page.
    rules, terms
        Of their shard.
    bounds
        The seconds between which limits put the interval of each page, in two columns.
    log2_price
        log2 of each price.
    late_seconds
        A copy that is stale for no longer counts as fresh.
    """
    shape = (word.size, log2_price.size)
    fetch_rate, freshness = np.empty(shape), np.empty(shape)
    code = words_of(word).class_code
    has_signals = (code > 0) & (code <= rules.recall.size * rules.precision.size)
    n_rows = max(_POINTS_AT_ONCE // max(log2_price.size, 1), 1)
    for of_these in (False, True):
        own = np.flatnonzero(has_signals == of_these)
        for first in range(0, own.size, n_rows):
            rows = own[first : first + n_rows]
            told = words_of(word[rows]), terms, bounds[rows], log2_price, late_seconds
            found = _signal_points(rules, *told) if of_these else _plain_points(*told)
            fetch_rate[rows], freshness[rows] = found
    return fetch_rate, freshness


def _targets(words: Words, terms: Terms, log2_price: FloatArray) -> FloatArray:
    """Return log2 of price over weight and period, and what a poll teaches."""
    own = words.log2_weight + words.log2_period + terms.log2_bonus[words.shape_code]
    targets: FloatArray = log2_price - own[:, None]
    return targets


def _ages(words: Words, table: DueTable, log2_target: FloatArray) -> FloatArray:
    shape_code, class_code = words.shape_code[:, None], words.class_code[:, None]
    codes = np.broadcast_to(shape_code, log2_target.shape)
    classes = np.broadcast_to(class_code, log2_target.shape)
    ages = due_periods(table, codes.ravel(), classes.ravel(), log2_target.ravel())
    return ages.reshape(log2_target.shape)


def _bounded(age: FloatArray, bounds: FloatArray, period: FloatArray) -> FloatArray:
    low, high = bounds[:, :1] / period, bounds[:, 1:] / period
    inside: FloatArray = np.maximum(np.minimum(age, high), low)
    return inside


def _rates(age: FloatArray, period: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        rates: FloatArray = 1.0 / (age * period)
    return rates


def _plain_points(
    words: Words,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return points of pages without signals."""
    shape = terms.table.shapes[words.shape_code][:, None]
    period = np.exp2(words.log2_period)[:, None]
    age = _ages(words, terms.table, _targets(words, terms, log2_price))
    age = _bounded(age, bounds, period)
    return _rates(age, period), _kept_share(shape, age, late_seconds / period)


def _signal_points(
    rules: Rules,
    words: Words,
    terms: Terms,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
) -> tuple[FloatArray, FloatArray]:
    """Return points of pages with signals."""
    table = terms.table
    shape = table.shapes[words.shape_code][:, None]
    period = np.exp2(words.log2_period)[:, None]
    late = late_seconds / period
    log2_target = _targets(words, terms, log2_price)
    age = _ages(words, table, log2_target)
    interval = _intervals(words, table, log2_target, age)
    bounded = _bounded(interval, bounds, period)
    # Fetched at that interval with signals or without, and all changes count.
    missed = 1.0 - rules.recall[(words.class_code - 1) // rules.precision.size][:, None]
    at_bound = _kept_share(shape, bounded / missed, late / missed)
    # Signals Theorem 1: fresh for w = V + P(fresh at the fetch) ψ of every ψ.
    with np.errstate(over="ignore"):
        fresh = np.exp(-shape * np.log1p(age / shape))
        value = np.exp2(log2_target + terms.log2_bonus[words.shape_code][:, None])
        share = np.where(interval < np.inf, np.minimum(value / interval + fresh, 1.0), 0.0)
    if late_seconds > 0.0:
        # Of its stale time as much is late as with fetches at its longest interval.
        stale = 1.0 - _kept_share(shape, age, np.zeros_like(late))
        with np.errstate(divide="ignore", invalid="ignore"):
            late_share = (1.0 - _kept_share(shape, age, late)) / stale
        is_late = np.where(stale > 0.0, late_share, 0.0)
        share = np.where(age < np.inf, 1.0 - (1.0 - share) * is_late, share)
    return _rates(bounded, period), np.where(bounded != interval, at_bound, share)


def _intervals(
    words: Words, table: DueTable, log2_target: FloatArray, age: FloatArray
) -> FloatArray:
    """Return mean times between fetches; see `due_table.interval_periods_of`."""
    n_targets = table.due.shape[2]
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    i = np.clip(position, 0.0, n_targets - 1.0).astype(np.int64)
    after = np.minimum(i + 1, n_targets - 1)
    shape_code, class_code = words.shape_code[:, None], words.class_code[:, None]

    def ratio(at: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        due = table.due[shape_code, class_code, at].astype(np.float64)
        return table.interval[shape_code, class_code, at] - due, due

    (here, _), (there, due_there) = ratio(i), ratio(after)
    share = position - i
    is_between = (share > 0.0) & (share < 1.0) & (i + 1 < n_targets) & (due_there < LOG2_NEVER)
    log2_ratio = here + np.where(is_between, share * (there - here), 0.0)
    with np.errstate(invalid="ignore"):
        intervals: FloatArray = np.where(np.isinf(age), np.inf, age * np.exp2(log2_ratio))
    return intervals


def _fresh_share(shape: FloatArray, age: FloatArray) -> FloatArray:
    """Return which share of the time up to finite ages, in mean periods, copies are fresh."""
    # Mean of S(s) = (1 + s/a)^-a up to t: with l = log(1 + t/a) it is (a l / t) φ((a-1) l),
    # φ(x) = (1 - e^-x)/x.
    growth = np.log1p(age / shape)
    x = (shape - 1.0) * growth
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean_decay = np.where(np.abs(x) > 1e-8, -np.expm1(-x) / x, 1.0 - 0.5 * x)
        share = np.where(age > 0.0, shape * growth / age * mean_decay, 1.0)
    fresh: FloatArray = np.minimum(share, 1.0)
    return fresh


def _kept_share(shape: FloatArray, age: FloatArray, late: FloatArray) -> FloatArray:
    """Return which share of the time copies are fresh, or stale for no longer than is late."""
    is_ever = age < np.inf
    finite = np.where(is_ever, age, 1.0)
    over = np.maximum(finite - late, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum((late + over * _fresh_share(shape, over)) / finite, 1.0)
    # All of the time before it can be late; an age of 0 is no time.
    kept: FloatArray = np.where(is_ever, np.where(over > 0.0, share, 1.0), 0.0)
    kept[(late > 0.0) & (age <= late)] = 1.0
    return kept
