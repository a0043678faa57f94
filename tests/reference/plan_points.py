"""How often one page is fetched at one price, and how fresh its copy is: the oracle of plans.

`recrawl.corpus.plan.priced_pages` computes the same for arrays of pages and prices.
"""

import math

import numpy as np

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.core.kernel import table_kernel
from recrawl.core.price.due_table import due_periods_of, interval_periods_of
from recrawl.core.value.averaged import averaged_value_of
from recrawl.shard.due import Terms
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.tables import Pages
from recrawl.shard.state.words import class_of, log2_period_of, log2_weight_of, shape_of

__all__ = ["plan_points"]


@table_kernel
def _fresh_share_of(shape: float, age: float) -> float:
    """Return which share of the time up to an age, in mean periods, a copy is fresh."""
    # Mean of S(s) = (1 + s/a)^-a up to t.  U(t) = ∫S - t S(t), so it is U/t + S(t).
    if not age < math.inf:
        return 0.0
    if age <= 0.0:
        return 1.0
    fresh = math.exp(-shape * math.log1p(age / shape))
    return min(averaged_value_of(shape, shape, age) / age + fresh, 1.0)


@table_kernel
def _kept_share_of(shape: float, age: float, late: float) -> float:
    """Return which share of the time up to an age a copy is fresh, or stale for no longer.

    ``late`` is how long it may be stale, in mean periods as the age.
    """
    # Stale for longer than s at age t if the first change came before t - s.  So the share is
    # (s + ∫₀^{T-s} S) / T: all of the first s, then as fresh as a copy younger by s.
    if late <= 0.0:
        return _fresh_share_of(shape, age)
    if age <= late:
        return 1.0
    if not age < math.inf:
        return 0.0
    return min((late + (age - late) * _fresh_share_of(shape, age - late)) / age, 1.0)


@table_kernel
def _point_of(
    word: np.uint64,
    rules: Rules,
    terms: Terms,
    log2_price: float,
    low: float,
    high: float,
    late_seconds: float,
) -> tuple[float, float]:
    """Return how often a page is fetched at a price, per second, and which share it is fresh.

    ``low`` and ``high`` are the seconds between which its limits put the interval.  A copy that
    is stale for no longer than ``late_seconds`` counts as fresh.
    """
    table = terms.table
    shape_code, class_code = shape_of(word), class_of(word)
    shape = float(table.shapes[shape_code])
    log2_period = log2_period_of(word)
    period = math.exp2(log2_period)
    late = late_seconds / period
    log2_target = log2_price - log2_weight_of(word) - log2_period - terms.log2_bonus[shape_code]
    age = due_periods_of(table, shape_code, class_code, log2_target)
    n_levels = rules.precision.size
    if class_code == 0 or class_code > rules.recall.size * n_levels:
        age = max(min(age, high / period), low / period)
        if not age < math.inf:
            return 0.0, 0.0
        return 1.0 / (age * period), _kept_share_of(shape, age, late)
    interval = interval_periods_of(table, shape_code, class_code, log2_target)
    bounded = max(min(interval, high / period), low / period)
    if bounded != interval:
        # Fetched at that interval with signals or without, and all changes count.
        missed = 1.0 - rules.recall[(class_code - 1) // n_levels]
        share = _kept_share_of(shape, bounded / missed, late / missed)
        return 1.0 / (bounded * period), share
    if not interval < math.inf:
        return 0.0, 0.0
    # Signals Theorem 1: fresh for w = V + P(fresh at the fetch) ψ of every ψ.
    fresh = math.exp(-shape * math.log1p(age / shape))
    share = min(math.exp2(log2_target + terms.log2_bonus[shape_code]) / interval + fresh, 1.0)
    if late > 0.0 and age < math.inf:
        # Of its stale time as much is late as with fetches at its longest interval: no less, as
        # signals cut others short.
        stale = 1.0 - _fresh_share_of(shape, age)
        late_share = 1.0 - _kept_share_of(shape, age, late)
        share = 1.0 - (1.0 - share) * (late_share / stale if stale > 0.0 else 0.0)
    return 1.0 / (interval * period), share


@table_kernel
def plan_points(
    pages: Pages,
    rules: Rules,
    terms: Terms,
    slot: RowArray,
    bounds: FloatArray,
    log2_price: FloatArray,
    late_seconds: float,
    fetch_rate: FloatArray,
    freshness: FloatArray,
) -> None:
    """Write the fetch rate and the freshness of pages (rows) at prices (columns)."""
    for i in range(slot.size):
        word = pages.word[slot[i]]
        for k in range(log2_price.size):
            fetch_rate[i, k], freshness[i, k] = _point_of(
                word, rules, terms, log2_price[k], bounds[i, 0], bounds[i, 1], late_seconds
            )
