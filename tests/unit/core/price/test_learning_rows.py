"""Learning rows: due times as computed, invertible, written to a copy of the table."""

import math

import numpy as np
import pytest

from recrawl.core.belief import GammaBelief
from recrawl.core.price import (
    DueCodes,
    DueTable,
    build_due_table,
    due_periods_of,
    learning_due_elapsed,
)
from recrawl.core.price.due_table import interval_periods_of
from recrawl.core.price.learning_rows import writable_copy, write_learning_rows
from recrawl.core.price.table_value import log2_target_of

CODES = DueCodes()
pytestmark = pytest.mark.slow_without_jit


@pytest.fixture(scope="module")
def built() -> DueTable:
    return build_due_table(CODES, classes=[0, 400])


def test_a_horizon_of_0_restores_the_original_table(built: DueTable) -> None:
    table = writable_copy(built)
    write_learning_rows(table, 8.0)
    assert not np.array_equal(table.due, built.due)
    write_learning_rows(table, 0.0)
    for written, before in zip(table, built, strict=True):
        np.testing.assert_array_equal(written, before)


def test_only_pages_without_signals_are_written_and_only_in_the_copy(built: DueTable) -> None:
    before = built.due.copy()
    table = writable_copy(built)
    write_learning_rows(table, 32.0)
    np.testing.assert_array_equal(built.due, before)
    np.testing.assert_array_equal(table.due[:, 1:], built.due[:, 1:])
    np.testing.assert_array_equal(table.interval[:, 1:], built.interval[:, 1:])
    np.testing.assert_array_equal(table.limit[:, 1:], built.limit[:, 1:])


@pytest.mark.parametrize("learning_horizon", [1.0, 8.0])
def test_due_times_are_those_of_the_formula(built: DueTable, learning_horizon: float) -> None:
    """Beyond a horizon of 16 or so they are later where the formula's fall as the price rises."""
    table = writable_copy(built)
    write_learning_rows(table, learning_horizon)
    for shape_code in (4, 9, 13, 20):
        shape = float(CODES.shapes()[shape_code])
        for log2_target in (-9.1, -3.3, -0.4):
            exact = learning_due_elapsed(
                GammaBelief.of(shape, shape), 2.0**log2_target, learning_horizon=learning_horizon
            )
            found = due_periods_of(table, shape_code, 0, log2_target)
            assert found == pytest.approx(exact, rel=0.01)
            assert interval_periods_of(table, shape_code, 0, log2_target) == found


@pytest.mark.parametrize("learning_horizon", [2.0, 32.0])
def test_due_times_rise_with_the_price_and_are_never_later_than_by_value(
    built: DueTable, learning_horizon: float
) -> None:
    table = writable_copy(built)
    write_learning_rows(table, learning_horizon)
    assert np.all(np.diff(table.due[:, 0]) >= 0)
    assert np.all(table.due[:, 0] <= built.due[:, 0])


@pytest.mark.parametrize("learning_horizon", [2.0, 32.0])
@pytest.mark.parametrize("shape_code", range(0, 32, 3))
def test_a_page_is_worth_a_price_exactly_where_it_is_due_at_it(
    built: DueTable, shape_code: int, learning_horizon: float
) -> None:
    table = writable_copy(built)
    write_learning_rows(table, learning_horizon)
    for log2_target in np.linspace(-28.0, 9.0, 150):
        due = due_periods_of(table, shape_code, 0, float(log2_target))
        if due < 2.0**30:
            reached = log2_target_of(table, shape_code, 0, due * (1 + 1e-6))
            assert reached >= log2_target - 1e-3
            earlier = log2_target_of(table, shape_code, 0, due * (1 - 1e-4))
            assert earlier <= log2_target + 1e-3
        else:
            reached = log2_target_of(table, shape_code, 0, 1e5)
            assert not math.isnan(reached)
