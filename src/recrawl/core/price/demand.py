"""Demand curve of a corpus: its fetches per second at each price, from counts of pages by code."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, FloatArray
from recrawl.core.kernel import kernel
from recrawl.core.price.due_table import DueTable, interval_periods_of

__all__ = ["DemandCells", "demand_at", "interpolate_price"]


class DemandCells(NamedTuple):
    """Pages grouped by their codes, one row per group: 35 bytes a group.

    ``shape_code`` and ``class_code`` index the due table.  ``period`` is the mean period of the
    belief in seconds, ``weight`` the importance divided by the cost, ``n_pages`` the number of
    pages in the group, and ``cost`` the cost of fetching one of them.
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
        """Broadcast the arguments against each other, and return them as flat columns."""
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
    """Return the spending of these pages at each price, in fetches or cost per second.

    Examples
    --------
    A million pages believed to change every 10 days, at prices of 60 and of 15 minutes:

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


def interpolate_price(price: ArrayLike, demand: ArrayLike, budget: ArrayLike) -> FloatArray:
    """Return the price at which a demand curve meets a budget, by log-log interpolation.

    For a budget beyond the curve, this is the price at the nearest end.

    Parameters
    ----------
    price
        Prices, ascending.
    demand
        Demand at each price, descending; zeros at the end are ignored.
    budget
        Budget, in the unit of demand.
    """
    demands = np.asarray(demand, dtype=np.float64)
    is_positive = demands > 0
    log_price = np.log(np.asarray(price, dtype=np.float64)[is_positive])
    log_budget = np.log(np.asarray(budget, dtype=np.float64))
    log_demand = np.log(demands[is_positive])
    found: FloatArray = np.exp(np.interp(log_budget, log_demand[::-1], log_price[::-1]))
    return found
