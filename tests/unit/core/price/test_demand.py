"""Demand at a price, against the fetch rates of the pages one by one."""

import numpy as np
import pytest

from recrawl.core.belief import GammaBelief
from recrawl.core.price import (
    DemandCells,
    DueCodes,
    DueTable,
    averaged_due_elapsed,
    build_due_table,
    demand_at,
    interpolate_price,
)

CODES = DueCodes()


@pytest.fixture(scope="module")
def table() -> DueTable:
    return build_due_table(CODES, classes=[0])


def test_sums_the_fetch_rates_of_all_pages(table: DueTable) -> None:
    rng = np.random.default_rng(0)
    shape_code = rng.integers(0, CODES.n_shapes, 300)
    shape = CODES.shapes()[shape_code]
    period, weight = 10 ** rng.uniform(4, 7, 300), 10 ** rng.uniform(-1, 1, 300)
    n_pages = rng.integers(1, 1_000, 300)
    cells = DemandCells.of(shape_code, 0, period, weight, n_pages)
    price = 3_000.0
    due = averaged_due_elapsed(GammaBelief.of(shape, shape * period), price, importance=weight)
    assert demand_at(table, cells, price) == pytest.approx((n_pages / due).sum(), rel=2e-3)


def test_falls_with_the_price_and_scales_with_pages_and_cost(table: DueTable) -> None:
    price = np.geomspace(1, 1e6, 40)
    cells = DemandCells.of([5, 20], 0, [1e5, 1e6], 1.0, [10, 1_000])
    demand = demand_at(table, cells, price)
    assert np.all(np.diff(demand) <= 0)
    dearer = cells._replace(cost=3 * cells.cost)
    np.testing.assert_allclose(demand_at(table, dearer, price), 3 * demand)


def test_the_price_for_a_budget_spends_it(table: DueTable) -> None:
    price = np.geomspace(10, 1e6, 64)
    cells = DemandCells.of(np.arange(32), 0, np.geomspace(1e4, 1e7, 32), 1.0, 1_000)
    demand = demand_at(table, cells, price)
    budget = 0.3 * demand[0]
    found = interpolate_price(price, demand, budget)
    assert demand_at(table, cells, found) == pytest.approx(budget, rel=5e-3)


def test_a_budget_beyond_the_curve_gets_its_nearest_end() -> None:
    price, demand = [1.0, 2.0, 4.0, 8.0], [8.0, 4.0, 1.0, 0.0]
    assert interpolate_price(price, demand, 100.0) == pytest.approx(1.0)
    assert interpolate_price(price, demand, 0.01) == pytest.approx(4.0)
