"""The due table read backwards: a page is worth a price exactly where it is due at it."""

import math

import numpy as np
import pytest

from recrawl.core.price import DueCodes, build_due_table
from recrawl.core.price.due_table import due_periods_of
from recrawl.core.price.table_value import log2_target_of
from recrawl.core.value.averaged import averaged_value_of

CODES = DueCodes()
TABLE = build_due_table(CODES, classes=[0, 400, 700])


@pytest.mark.parametrize("class_code", [0, 400, 700])
@pytest.mark.parametrize("shape_code", [3, 9, 14, 20, 31])
def test_is_the_inverse_of_the_due_time(shape_code: int, class_code: int) -> None:
    limit = TABLE.limit[shape_code, class_code]
    top = 9.0 if math.isinf(limit) else math.log2(limit) - 0.01
    for target in np.linspace(-30.0, top, 60):
        age = due_periods_of(TABLE, shape_code, class_code, float(target))
        if age < 2.0**30:
            assert log2_target_of(TABLE, shape_code, class_code, age) == pytest.approx(
                target, abs=1e-3
            )


def test_is_the_averaged_value_of_pages_without_signals() -> None:
    """Except within the last quarter octave before a value's limit, where the table is rough."""
    for shape_code in (5, 12, 20, 28):
        shape = float(TABLE.shapes[shape_code])
        for age in (0.001, 0.03, 0.5, 1.0, 2.0):
            exact = math.log2(averaged_value_of(shape, shape, age))
            found = log2_target_of(TABLE, shape_code, 0, age)
            assert found == pytest.approx(exact, abs=0.01)


def test_a_page_just_fetched_is_worth_nothing() -> None:
    assert log2_target_of(TABLE, 10, 0, 0.0) == -math.inf


def test_rises_with_age_and_stays_below_the_limit() -> None:
    ages = np.geomspace(1e-4, 1e7, 400)
    for shape_code in (8, 16, 31):
        for class_code in (0, 400):
            found = [log2_target_of(TABLE, shape_code, class_code, age) for age in ages]
            assert np.all(np.diff(found) >= -1e-6)
            assert found[-1] <= math.log2(TABLE.limit[shape_code, class_code]) + 1e-6


def test_a_page_without_a_limit_may_still_never_be_due() -> None:
    """A shape just below 1 has no limit, but reaches some targets only at absurd ages."""
    ages = [due_periods_of(TABLE, 12, 0, target) for target in np.linspace(4.0, 10.0, 50)]
    assert not np.any(np.isnan(ages))
