"""Decoding arrays of words with numpy gives what the kernels give for each word."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from recrawl.core.price.due_table import due_periods_of
from recrawl.corpus.inspect.decoded_words import (
    current_terms,
    due_periods,
    fresh_chance,
    log2_of_codes,
    page_due,
    words_of,
)
from recrawl.corpus.plan.priced_pages import priced_points
from recrawl.shard import LimitsSet, Shard, event_of
from recrawl.shard.due import page_due_of
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.status import Verdict
from recrawl.shard.state.words import (
    class_of,
    is_bounded,
    is_held,
    last_of,
    log2_period_of,
    log2_weight_of,
    shape_of,
    with_codes,
    with_last,
)
from tests.reference.plan_points import plan_points
from tests.reference.shards import DAY, HOUR, Story

NOW = 1_100_000_000.0
# Near the limit of a value the kernel takes one power in single precision.
RTOL = 1e-6


@pytest.fixture(scope="module")
def shard() -> Shard:
    """A shard whose pages have all kinds of limits; of its words the tests make their own."""
    story = Story()
    page = story.add(400)
    story.fetch(page[::2], Verdict.CHANGED, at=HOUR)
    story.fetch(page[::3], Verdict.UNCHANGED, at=2 * DAY)
    story.fetch(page[::7], Verdict.TRANSIENT_ERROR, at=3 * DAY)
    none = {"interval_seconds_min": 0.0, "interval_seconds_max": math.inf}
    none |= {"stale_seconds": 0.0, "stale_probability": 0.0}
    for some, limits in (
        (page[::5], {"interval_seconds_min": HOUR, "interval_seconds_max": 9 * DAY}),
        (page[::11], {"stale_seconds": DAY, "stale_probability": 0.2}),
    ):
        story.apply(event_of(LimitsSet, page=some, **(none | limits)))
    return story.shard


def some_words(shard: Shard, rng: np.random.Generator, n: int) -> NDArray[np.uint64]:
    """Return words with all codes that the table has, half of them without signals."""
    n_shapes, n_classes = shard.terms.table.due.shape[:2]
    class_code = rng.integers(0, n_classes, n) * (rng.random(n) < 0.5)
    words = [
        with_codes(np.uint64(rng.integers(2) << 31), *codes)
        for codes in zip(
            rng.integers(0, 256, n).tolist(),
            rng.integers(0, 256, n).tolist(),
            class_code.tolist(),
            rng.integers(0, n_shapes, n).tolist(),
            strict=True,
        )
    ]
    last = (NOW - rng.exponential(30 * DAY, n)).astype(np.int64).tolist()
    return np.array(
        [with_last(np.uint64(word), at) for word, at in zip(words, last, strict=True)], np.uint64
    )


def test_the_fields_of_words_equal_those_of_the_kernels(rng: np.random.Generator) -> None:
    word = rng.integers(0, 2**64, 500, np.uint64)
    words = words_of(word)
    for i, one in enumerate(word):
        assert words.last[i] == last_of(one)
        assert words.is_held[i] == is_held(one)
        assert words.is_bounded[i] == is_bounded(one)
        assert words.log2_period[i] == pytest.approx(log2_period_of(one), abs=1e-12)
        assert words.log2_weight[i] == pytest.approx(log2_weight_of(one), abs=1e-12)
        assert words.class_code[i] == class_of(one)
        assert words.shape_code[i] == shape_of(one)


def test_codes_of_importance_and_cost_equal_those_of_the_kernels() -> None:
    code = np.array([1, 2, 700, 32_768, 40_000, 65_535], np.uint16)
    assert log2_of_codes(code).tolist() == [log2_of_code(int(one)) for one in code]


def test_due_ages_equal_those_of_the_kernel_also_near_the_limit(
    shard: Shard, rng: np.random.Generator
) -> None:
    table = shard.terms.table
    n = 3_000
    shape_code = rng.integers(0, table.due.shape[0], n)
    class_code = rng.integers(0, table.due.shape[1], n) * (rng.random(n) < 0.5)
    log2_target = rng.uniform(-40.0, 25.0, n)
    limit = table.limit[shape_code, class_code]
    near = np.flatnonzero(np.isfinite(limit) & (limit > 0))[::3]
    log2_target[near] = np.log2(limit[near]) + rng.normal(0.0, 0.1, near.size)
    found = due_periods(table, shape_code, class_code, log2_target)
    expected = [
        due_periods_of(table, int(s), int(c), float(t))
        for s, c, t in zip(shape_code, class_code, log2_target, strict=True)
    ]
    assert np.isinf(found).any()
    assert np.isfinite(found).any()
    np.testing.assert_allclose(found, expected, rtol=RTOL)


def test_pages_are_due_when_the_kernel_says(shard: Shard, rng: np.random.Generator) -> None:
    tables = shard.tables
    slots = np.arange(shard.n_pages)
    words = words_of(tables.pages.word[slots])
    assert words.is_bounded.any()
    for price in (1e-3, 10.0, 1e4, 1e7):
        found = page_due(tables.pages, tables.limits, slots, words, shard.terms, math.log2(price))
        expected = [
            page_due_of(tables.pages, tables.limits, slot, shard.terms, math.log2(price))
            for slot in slots.tolist()
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_freshness_falls_from_one_as_a_copy_ages(shard: Shard, rng: np.random.Generator) -> None:
    words = words_of(some_words(shard, rng, 200))
    shapes = shard.terms.table.shapes
    ages = [0.0, HOUR, DAY, 50 * DAY]
    chance = np.array([fresh_chance(words, shapes, float(words.last.max()) + age) for age in ages])
    assert (np.diff(chance, axis=0) <= 0).all()
    at_once = fresh_chance(words, shapes, 0.0)
    np.testing.assert_array_equal(at_once, 1.0)


@pytest.mark.parametrize("late_seconds", [0.0, DAY])
@pytest.mark.parametrize("is_bounded", [False, True])
def test_points_of_a_plan_equal_those_of_the_kernel(
    shard: Shard, rng: np.random.Generator, late_seconds: float, is_bounded: bool
) -> None:
    n = 600
    word = some_words(shard, rng, n)
    bounds = np.stack([np.zeros(n), np.full(n, np.inf)], axis=1)
    if is_bounded:
        bounds[:, 0] = rng.exponential(DAY, n) * (rng.random(n) < 0.5)
        bounds[:, 1] = np.where(rng.random(n) < 0.5, bounds[:, 0] + 5 * DAY, np.inf)
    log2_price = np.linspace(-20.0, 50.0, 12)
    expected = np.empty((2, n, log2_price.size))
    pages = shard.tables.pages._replace(word=word)
    plan_points(
        pages,
        shard.rules,
        shard.terms,
        np.arange(n),
        bounds,
        log2_price,
        late_seconds,
        expected[0],
        expected[1],
    )
    rate, share = priced_points(word, shard.rules, shard.terms, bounds, log2_price, late_seconds)
    np.testing.assert_allclose(rate, expected[0], rtol=RTOL)
    np.testing.assert_allclose(share, expected[1], rtol=RTOL, atol=1e-9)
    assert (share == 0.0).any() or is_bounded
    assert ((share > 0.1) & (share < 0.9)).any()


def test_terms_equal_those_of_a_decision_now() -> None:
    story = Story(learning="gradient")
    page = story.add(10)
    for day in range(4):
        story.fetch(page, Verdict.CHANGED, at=day * DAY + HOUR)
    before = story.shard.terms.table.due[:, 0].copy()
    terms = current_terms(story.shard)
    assert not np.array_equal(terms.table.due[:, 0], before)
    np.testing.assert_array_equal(story.shard.terms.table.due[:, 0], before)
    story.shard.explain(int(page[0]))  # which updates the table of the shard itself
    np.testing.assert_array_equal(story.shard.terms.table.due, terms.table.due)
    plain = Story(learning="bonus").shard
    assert current_terms(plain) is plain.terms
