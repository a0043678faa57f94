"""Due times by look-up, against the averaged value solved directly."""

import math

import numpy as np
import pytest

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.core.belief import GammaBelief
from recrawl.core.price import (
    DueCodes,
    DueTable,
    averaged_due_elapsed,
    averaged_noisy_due_elapsed,
    build_due_table,
    due_periods_of,
    interval_periods_of,
)
from recrawl.core.value import scroll_due_under_belief

pytestmark = pytest.mark.slow_without_jit
CODES = DueCodes()
# Class 0 and one class in seven, so that every level of recall and of precision is met.
CLASSES = np.arange(0, CODES.n_classes, 7)
SCROLL_CLASSES = np.arange(CODES.n_classes, CODES.n_codes)


@pytest.fixture(scope="module")
def table() -> DueTable:
    return build_due_table(CODES, np.concatenate([CLASSES, SCROLL_CLASSES]))


def look_up(
    table: DueTable, shape_code: CountArray, class_code: CountArray, target: FloatArray
) -> FloatArray:
    return np.array(
        [
            due_periods_of(table, int(s), int(c), float(t))
            for s, c, t in zip(shape_code, class_code, target, strict=True)
        ]
    )


def test_without_signals_equals_the_closed_form(table: DueTable) -> None:
    """At targets between the grid's, 0.1 % at the median; the error is that of interpolation."""
    rng = np.random.default_rng(0)
    shape_code = rng.integers(0, CODES.n_shapes, 2_000)
    target = rng.uniform(-24, 1, 2_000)
    shape = CODES.shapes()[shape_code]
    expected = averaged_due_elapsed(GammaBelief.of(shape, shape), np.exp2(target))
    found = look_up(table, shape_code, np.zeros(2_000, np.int64), target)
    # Near its limit a page's due time runs away, and nothing depends on it.
    sure = expected < 3
    np.testing.assert_allclose(found[sure], expected[sure], rtol=0.02)
    assert np.median(np.abs(found[sure] / expected[sure] - 1)) < 1e-3


def test_with_signals_equals_the_averaged_value(table: DueTable) -> None:
    """The period is an arbitrary number of seconds: the table is scale-free."""
    rng = np.random.default_rng(1)
    n = 600
    shape_code = rng.integers(0, CODES.n_shapes, n)
    class_code = rng.choice(CLASSES[1:], n)
    recall, precision = CODES.class_quality(class_code)
    period = 10 ** rng.uniform(3, 7, n)
    target = rng.uniform(-18, -2, n)
    shape = CODES.shapes()[shape_code]
    expected = averaged_noisy_due_elapsed(
        GammaBelief.of(shape, shape * period),
        recall / (1 - recall) / precision / period,
        precision,
        period * np.exp2(target),
        n_nodes=40,
    )
    found = period * look_up(table, shape_code, class_code, target)
    assert np.mean(np.isfinite(found) == np.isfinite(expected)) > 0.98
    both = np.isfinite(found) & np.isfinite(expected)
    error = np.abs(found[both] / expected[both] - 1)
    assert np.median(error) < 1e-3
    assert np.quantile(error, 0.9) < 0.01


def test_a_higher_price_never_comes_due_earlier(table: DueTable) -> None:
    due = table.due[:, np.concatenate([CLASSES, SCROLL_CLASSES])]
    assert np.all(np.diff(due, axis=2) >= -1e-6)


def test_a_price_below_the_grid_follows_the_square_root(table: DueTable) -> None:
    found = due_periods_of(table, 10, 0, -40.0)
    assert found == pytest.approx(math.sqrt(2 * 2.0**-40), rel=0.01)


def test_a_price_beyond_the_limit_is_never_due(table: DueTable) -> None:
    """A page believed to change with certainty is worth at most about one mean period."""
    sharpest = CODES.n_shapes - 1
    assert due_periods_of(table, sharpest, 0, 1.0) == math.inf
    assert interval_periods_of(table, sharpest, 0, 1.0) == math.inf


def test_classes_not_requested_are_never_due(table: DueTable) -> None:
    assert due_periods_of(table, 10, 1, -5.0) == math.inf


def test_intervals_with_signals_are_near_those_of_the_process_itself(table: DueTable) -> None:
    """Simulate pages whose effective age is aged by signals until it reaches the threshold.

    The table takes the jumps as equal: within 5 % for nine classes in ten, and 5 standard errors
    of 4 000 simulated intervals on top (fails 1 in 1.7 million).
    """
    rng = np.random.default_rng(2)
    n_good = 0
    class_codes = rng.choice(CLASSES[1:], 30)
    for class_code in class_codes:
        shape_code = int(rng.integers(8, CODES.n_shapes))
        target = float(rng.uniform(-12, -4))
        recall, precision = (float(q[0]) for q in CODES.class_quality([class_code]))
        threshold = due_periods_of(table, shape_code, int(class_code), target)
        interval = interval_periods_of(table, shape_code, int(class_code), target)
        if math.isinf(threshold):
            n_good += 1
            continue
        shape = float(CODES.shapes()[shape_code])
        signal_rate = recall / (1 - recall) / precision
        times = simulated_intervals(shape, signal_rate, precision, threshold, rng, 4_000)
        slack = 5 * times.std() / math.sqrt(times.size)
        n_good += abs(times.mean() - interval) <= 0.05 * interval + slack
    assert n_good >= 0.9 * class_codes.size


def simulated_intervals(
    shape: float,
    signal_rate: float,
    precision: float,
    threshold: float,
    rng: np.random.Generator,
    n: int,
) -> FloatArray:
    """Draw times from a fetch until the effective age passes the threshold, in mean periods."""
    growth = (1 - precision) ** (-1 / shape)
    age, time = np.zeros(n), np.zeros(n)
    done = np.zeros(n, bool)
    while not done.all():
        wait = rng.exponential(1 / signal_rate, n)
        ends = ~done & (age + wait >= threshold)
        time[ends] += threshold - age[ends]
        jumps = ~done & ~ends
        time[jumps] += wait[jumps]
        age[jumps] = (shape + age[jumps] + wait[jumps]) * growth - shape
        done |= ends | (age >= threshold)
    return time


def scroll_dues(
    table: DueTable, n_items: CountArray, ceiling: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return due times of scroll pages as looked up and as solved, where the latter is sure."""
    n = n_items.size
    shape_code = rng.integers(0, CODES.n_shapes, n)
    shape = CODES.shapes()[shape_code]
    period = 10 ** rng.uniform(3, 7, n)
    # In units of the time that all items take, where scroll pages are alike.
    price = ceiling * period * n_items * np.exp2(rng.uniform(-14, -2, n))
    expected = scroll_due_under_belief(
        GammaBelief.of(shape, shape * period),
        price,
        n_items=n_items,
        static_items=2 * n_items * (1 / ceiling - 1),
    )
    seeming = period / CODES.scroll_ratio(n_items, ceiling)
    target = np.log2(price / (ceiling * seeming))
    class_code = CODES.scroll_code(n_items).astype(np.int64)
    found = seeming * look_up(table, shape_code, class_code, target)
    # Near its limit a page's due time runs away, and nothing depends on it.
    sure = expected < 3 * n_items * period
    return found[sure], expected[sure]


def test_scroll_pages_come_due_as_the_averaged_value_says(table: DueTable) -> None:
    rng = np.random.default_rng(3)
    found, expected = scroll_dues(table, rng.choice(CODES.scroll_items, 400), 1.0, rng)
    error = np.abs(found / expected - 1)
    assert np.median(error) < 1e-3
    assert error.max() < 0.01


def test_scroll_pages_between_the_classes_and_beyond_come_due_within_two_per_cent(
    table: DueTable,
) -> None:
    rng = np.random.default_rng(4)
    found, expected = scroll_dues(table, rng.integers(2, 300, 400), 1.0, rng)
    error = np.abs(found / expected - 1)
    assert np.median(error) < 2e-3
    assert error.max() < 0.02
    found, expected = scroll_dues(table, rng.choice([4, 6, 10], 200), 1.0, rng)
    assert np.max(np.abs(found / expected - 1)) < 0.02


def test_scroll_pages_with_a_static_part_come_due_nearly_right(table: DueTable) -> None:
    rng = np.random.default_rng(5)
    found, expected = scroll_dues(table, rng.integers(2, 60, 300), 0.5, rng)
    error = np.abs(found / expected - 1)
    assert np.median(error) < 0.05
    assert error.max() < 0.15


def test_a_scroll_page_is_fetched_when_it_is_due(table: DueTable) -> None:
    due = due_periods_of(table, 15, int(CODES.scroll_code(13)), -3.3)
    assert interval_periods_of(table, 15, int(CODES.scroll_code(13)), -3.3) == due


def test_scroll_codes_stand_for_the_nearest_number_of_items() -> None:
    items = np.array(CODES.scroll_items)
    codes = CODES.scroll_code(items)
    assert np.array_equal(codes, SCROLL_CLASSES)
    assert np.array_equal(CODES.class_items(codes), items)
    assert np.array_equal(CODES.scroll_ratio(items), np.ones(items.size))
    assert CODES.scroll_code(10_000) == CODES.n_codes - 1


def test_a_scroll_page_of_one_item_is_a_page_without_signals() -> None:
    assert CODES.scroll_code(1) == 0
    assert CODES.class_items(0) == 1
    assert CODES.scroll_ratio(1, 0.3) == 1.0


def test_scroll_classes_have_no_signals() -> None:
    recall, precision = CODES.class_quality(SCROLL_CLASSES)
    assert not recall.any()
    assert not precision.any()
    assert np.all(CODES.class_items(np.arange(CODES.n_classes)) == 1)


def test_codes_stand_for_the_nearest_numbers() -> None:
    shapes = CODES.shapes()
    assert np.array_equal(CODES.shape_code(shapes * 1.05), np.arange(CODES.n_shapes))
    assert CODES.shape_code(1e-9) == 0
    assert CODES.shape_code(1e9) == CODES.n_shapes - 1
    classes = np.arange(CODES.n_classes)
    assert np.array_equal(CODES.class_code(*CODES.class_quality(classes)), classes)


def test_signals_that_announce_nothing_are_none() -> None:
    assert CODES.class_code(0.0, 0.5) == 0
    assert CODES.class_code(np.nan, 0.5) == 0
    assert CODES.class_code(0.001, 0.001) == 0


def test_codes_fit_their_bits() -> None:
    assert CODES.n_shapes <= 2**5
    assert CODES.n_codes <= 2**10
