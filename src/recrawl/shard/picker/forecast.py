"""The demand curve: how much a corpus would spend at each price, from a sample of its pages.

While the sweep passes over the pages, it computes for some of them how often they would be fetched
at each of a few prices around the present one.  The sample always has the same slots, so that its
error stays the same; the correction of the price makes up for it.
"""

import math
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import FloatArray
from recrawl.core.kernel import table_kernel
from recrawl.core.price.demand import interpolate_price
from recrawl.core.price.due_table import LOG2_NEVER, interval_periods_of
from recrawl.shard.due import Terms, rough_exp2_of
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.status import BudgetUnit, PageStatus
from recrawl.shard.state.tables import Pages, Tables
from recrawl.shard.state.words import class_of, is_held, log2_period_of, log2_weight_of, shape_of

__all__ = ["N_PRICES", "N_PRICES_NEAR", "DemandCounter", "SampledDemand", "sample_demand"]

N_PRICES = 64
# Enough to control the price.
N_PRICES_NEAR = 16
_ELASTICITY_MAX = 3.0
_FREE = int(PageStatus.FREE)
_RETIRED = int(PageStatus.RETIRED)


class SampledDemand(NamedTuple):
    """Spending per second at each price, and the number of pages that a change of price moves."""

    price: FloatArray
    spent: FloatArray
    response: FloatArray
    """Number of pages held back per unit of log price."""

    def price_for(self, budget: float) -> float:
        """Return the price at which the budget is spent."""
        if not (self.spent > 0.0).any():
            return float(self.price[0])
        return float(interpolate_price(self.price, self.spent, budget))

    def spending_at(self, price: float) -> float:
        """Return the spending per second at a price."""
        positive = np.maximum(self.spent, 1e-300)
        return math.exp(np.interp(math.log(price), np.log(self.price), np.log(positive)))

    def response_at(self, price: float) -> float:
        """Return the number of pages that a unit of log price holds back."""
        return float(np.interp(math.log(price), np.log(self.price), self.response))


@table_kernel
def _add_page(
    word: np.uint64,
    terms: Terms,
    log2_price: float,
    rate: float,
    n_pages: float,
    curve: SampledDemand,
) -> None:
    """Add the spending of a page at prices from 2^``log2_price`` up, a step of the table each.

    ``rate`` is its spending if its interval were its period.
    """
    table, spent, response = terms.table, curve.spent, curve.response
    shape, class_code = shape_of(word), class_of(word)
    log2_target = log2_price - log2_weight_of(word) - log2_period_of(word) - terms.log2_bonus[shape]
    position = (log2_target - table.log2_target_min) / table.log2_target_step
    intervals = table.interval[shape, class_code]
    first = math.floor(position)
    share = position - first
    before = math.inf
    for k in range(spent.size):
        i = first + k
        if i < 0 or i > intervals.size - 2 or intervals[i + 1] >= LOG2_NEVER:
            # Interpolation between two entries does not work at the ends of the table.
            target = log2_target + k * table.log2_target_step
            log2_interval = math.log2(interval_periods_of(table, shape, class_code, target))
        else:
            low, high = float(intervals[i]), float(intervals[i + 1])
            log2_interval = low + share * (high - low)
        if not log2_interval < 60.0:
            log2_interval = math.inf
        if k > 0 and before < math.inf:
            slope = (log2_interval - before) / table.log2_target_step
            response[k - 1] += n_pages * min(slope, _ELASTICITY_MAX)
        before = log2_interval
        if log2_interval == math.inf:
            break
        spent[k] += rate * rough_exp2_of(-log2_interval)
    if before < math.inf:
        response[spent.size - 1] = response[spent.size - 2]


@table_kernel
def _add_pages(
    pages: Pages,
    newcomers_after: float,
    terms: Terms,
    with_cost: bool,
    first: int,
    end: int,
    stride: int,
    curve: SampledDemand,
) -> None:
    """Add every ``stride``-th page; those in flight count.

    Retired pages, free slots and newcomers, which have a share of their own, do not count.
    """
    log2_price = math.log2(curve.price[0])
    word, status = pages.word, pages.status
    for slot in range(first, end, stride):
        if is_held(word[slot]) and (status[slot] == _FREE or status[slot] == _RETIRED):
            continue
        if pages.newcomer_until[slot] > newcomers_after:
            continue
        rate = stride * rough_exp2_of(-log2_period_of(word[slot]))
        if with_cost:
            rate *= math.exp2(log2_of_code(pages.cost[slot]))
        _add_page(word[slot], terms, log2_price, rate, float(stride), curve)


class DemandCounter:
    """Builds a demand curve by adding pages.

    Parameters
    ----------
    terms
        Parameters that turn words into intervals.
    price
        Price in the middle of the curve.
    n_prices
        Number of prices of the curve, a step of the due table apart.
    stride
        Distance between the slots that are counted.
    """

    def __init__(self, terms: Terms, price: float, n_prices: int, stride: int) -> None:
        self._terms = terms
        self._stride = stride
        self._next = 0
        steps = (np.arange(n_prices) - n_prices // 2) * terms.table.log2_target_step
        self._curve = SampledDemand(price * np.exp2(steps), np.zeros(n_prices), np.zeros(n_prices))

    def add(self, tables: Tables, end: int, newcomers_after: float = math.inf) -> None:
        """Count the pages up to a slot that have not been counted yet."""
        if self._next >= end:
            return
        _add_pages(
            tables.pages,
            newcomers_after,
            self._terms,
            bool(tables.registers.budget_unit[0] == BudgetUnit.COST),
            self._next,
            end,
            self._stride,
            self._curve,
        )
        self._next += -(-(end - self._next) // self._stride) * self._stride

    def demand(self) -> SampledDemand:
        """Return the curve of the pages counted so far."""
        return self._curve


def sample_demand(
    tables: Tables,
    terms: Terms,
    price: float,
    *,
    n_prices: int = N_PRICES,
    n_counted: int = 32_768,
    newcomers_after: float = math.inf,
) -> SampledDemand:
    """Return the demand curve of a sample of all pages, at prices around ``price``."""
    # Pages may be added meanwhile, and then the shard has larger tables than these.
    n_slots = min(int(tables.registers.n_slots[0]), tables.pages.word.size)
    count = DemandCounter(terms, price, n_prices, max(1, n_slots // n_counted))
    count.add(tables, n_slots, newcomers_after)
    return count.demand()
