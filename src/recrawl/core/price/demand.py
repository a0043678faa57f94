"""How many fetches a corpus would buy at each price, from counts of pages with equal codes."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import DueTable, interval_periods_of

__all__ = ["DemandCells", "demand_at", "price_for_budget"]


class DemandCells(NamedTuple):
    """Pages grouped by their codes, one row per group: 35 bytes a group.

    ``shape_code`` and ``class_code`` index the due table; ``period`` is the belief's mean period
    in seconds, ``weight`` importance over cost; ``n_pages`` how many pages are alike; ``cost`` what
    a fetch of one takes from the budget.
    """

    shape_code: NDArray[np.uint8]
    class_code: NDArray[np.uint16]
    period: FloatArray
    weight: FloatArray
    n_pages: FloatArray
    cost: FloatArray

    @classmethod
    def of(
        cls,
        shape_code: ArrayLike,
        class_code: ArrayLike,
        period: ArrayLike,
        weight: ArrayLike,
        n_pages: ArrayLike,
        cost: ArrayLike = 1.0,
    ) -> "DemandCells":
        """Return cells broadcast against each other, as flat columns."""
        columns = np.broadcast_arrays(shape_code, class_code, period, weight, n_pages, cost)
        types = (np.uint8, np.uint16, np.float64, np.float64, np.float64, np.float64)
        flat = [np.array(c, dtype=t).reshape(-1) for c, t in zip(columns, types, strict=True)]
        return cls(*flat)


@kernel
def _demand(table: DueTable, cells: DemandCells, price: FloatArray, out: FloatArray) -> None:
    for k in range(price.size):
        log2_price = math.log2(price[k])
        total = 0.0
        for i in range(cells.period.size):
            log2_target = log2_price - math.log2(cells.weight[i] * cells.period[i])
            interval = interval_periods_of(
                table, cells.shape_code[i], cells.class_code[i], log2_target
            )
            total += cells.n_pages[i] * cells.cost[i] / (interval * cells.period[i])
        out[k] = total


def demand_at(table: DueTable, cells: DemandCells, price: ArrayLike) -> FloatArray:
    """Return what these pages would spend at each price: fetches, or cost, per second.

    Examples
    --------
    A million pages believed to change every 10 days, at a price of one hour and of a quarter:

    >>> from recrawl.core.price import DueCodes, build_due_table
    >>> codes = DueCodes()
    >>> table = build_due_table(codes, classes=[0])
    >>> cells = DemandCells.of(codes.shape_code(50.0), 0, 864_000.0, 1.0, 1e6)
    >>> demand_at(table, cells, [3_600.0, 900.0]).round(1)
    array([12.3, 25. ])
    """
    prices = np.asarray(price, dtype=np.float64)
    out = np.empty(prices.size)
    _demand(table, cells, prices.reshape(-1), out)
    return out.reshape(prices.shape)


def price_for_budget(price: ArrayLike, demand: ArrayLike, budget: ArrayLike) -> FloatArray:
    """Return the price at which a demand curve meets a budget, between its points in log-log.

    Outside the curve the price of its nearest end is returned.

    Parameters
    ----------
    price
        Rising.
    demand
        At each price, falling; zeros at its end are left out.
    budget
        In the unit of demand.
    """
    demands = np.asarray(demand, dtype=np.float64)
    sells = demands > 0
    log_price = np.log(np.asarray(price, dtype=np.float64)[sells])
    log_budget = np.log(np.asarray(budget, dtype=np.float64))
    found: FloatArray = np.exp(np.interp(log_budget, np.log(demands[sells])[::-1], log_price[::-1]))
    return found
