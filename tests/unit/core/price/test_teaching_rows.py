"""Rows for what polls teach: due times as computed, readable backwards, in a table of one's own."""

import math

import numpy as np
import pytest

from recrawl.core.belief import GammaBelief
from recrawl.core.price import (
    DueCodes,
    DueTable,
    build_due_table,
    due_periods_of,
    teaching_due_elapsed,
)
from recrawl.core.price.due_table import interval_periods_of
from recrawl.core.price.table_value import reached_target_of
from recrawl.core.price.teaching_rows import own_copy, write_teaching

CODES = DueCodes()
pytestmark = pytest.mark.slow_without_jit


@pytest.fixture(scope="module")
def built() -> DueTable:
    return build_due_table(CODES, classes=[0, 400])


def test_no_patience_gives_the_table_as_it_was(built: DueTable) -> None:
    table = own_copy(built)
    write_teaching(table, 8.0)
    assert not np.array_equal(table.due, built.due)
    write_teaching(table, 0.0)
    for written, before in zip(table, built, strict=True):
        np.testing.assert_array_equal(written, before)


def test_only_pages_without_signals_are_written_and_only_in_the_copy(built: DueTable) -> None:
    before = built.due.copy()
    table = own_copy(built)
    write_teaching(table, 32.0)
    np.testing.assert_array_equal(built.due, before)
    np.testing.assert_array_equal(table.due[:, 1:], built.due[:, 1:])
    np.testing.assert_array_equal(table.interval[:, 1:], built.interval[:, 1:])
    np.testing.assert_array_equal(table.limit[:, 1:], built.limit[:, 1:])


@pytest.mark.parametrize("patience", [1.0, 8.0])
def test_due_times_are_those_of_the_formula(built: DueTable, patience: float) -> None:
    """At patience beyond about 16 they are later where the formula's fall as the price rises."""
    table = own_copy(built)
    write_teaching(table, patience)
    for shape_code in (4, 9, 13, 20):
        shape = float(CODES.shapes()[shape_code])
        for log2_target in (-9.1, -3.3, -0.4):
            exact = teaching_due_elapsed(
                GammaBelief.of(shape, shape), 2.0**log2_target, patience=patience
            )
            found = due_periods_of(table, shape_code, 0, log2_target)
            assert found == pytest.approx(exact, rel=0.01)
            assert interval_periods_of(table, shape_code, 0, log2_target) == found


@pytest.mark.parametrize("patience", [2.0, 32.0])
def test_due_times_rise_with_the_price_and_are_never_later_than_by_value(
    built: DueTable, patience: float
) -> None:
    table = own_copy(built)
    write_teaching(table, patience)
    assert np.all(np.diff(table.due[:, 0]) >= 0)
    assert np.all(table.due[:, 0] <= built.due[:, 0])


@pytest.mark.parametrize("patience", [2.0, 32.0])
@pytest.mark.parametrize("shape_code", range(0, 32, 3))
def test_a_page_is_worth_a_price_exactly_where_it_is_due_at_it(
    built: DueTable, shape_code: int, patience: float
) -> None:
    table = own_copy(built)
    write_teaching(table, patience)
    for log2_target in np.linspace(-28.0, 9.0, 150):
        due = due_periods_of(table, shape_code, 0, float(log2_target))
        if due < 2.0**30:
            reached = reached_target_of(table, shape_code, 0, due * (1 + 1e-6))
            assert reached >= log2_target - 1e-3
            earlier = reached_target_of(table, shape_code, 0, due * (1 - 1e-4))
            assert earlier <= log2_target + 1e-3
        else:
            reached = reached_target_of(table, shape_code, 0, 1e5)
            assert not math.isnan(reached)
