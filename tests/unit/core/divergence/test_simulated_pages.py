"""Pages of real words that churn and scroll follow the curves, and are fetched as these imply."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import poisson

from recrawl.core.divergence import churn_ceiling, churn_divergence, compare_pair, scroll_divergence
from recrawl.core.value.scroll import scroll_due
from recrawl.papers.value.longevity import churn_due
from tests.reference import content_curves
from tests.reference.content_pages import (
    Writer,
    churn_versions,
    jaccard_distance,
    scroll_versions,
    sketch,
)

CHANGE_RATE = 0.25
ELAPSED = (0.8, 4.0, 8.0)
N_PAGES = 250


def test_scroll_pages_follow_the_curve_on_average(rng: np.random.Generator) -> None:
    """Four ages, each within 5 standard errors of the mean of 250 pages (1 in 1.7 million)."""
    n_items, n_static = 10, 5
    writer = Writer(rng, n_fragments=20)
    for elapsed in (*ELAPSED, 30.0):
        updates = rng.poisson(CHANGE_RATE * elapsed, N_PAGES)
        seen = [
            jaccard_distance(
                *scroll_versions(writer, n_static=n_static, n_items=n_items, n_updates=n)
            )
            for n in updates
        ]
        curve = scroll_divergence(CHANGE_RATE, elapsed, n_items=n_items, static_items=n_static)
        assert abs(np.mean(seen) - curve) < 5 * np.std(seen) / math.sqrt(N_PAGES)


def test_churn_pages_follow_the_curve_on_average(rng: np.random.Generator) -> None:
    """Three ages, each within 5 standard errors of the mean of 250 pages (1 in 1.7 million)."""
    n_static, n_dynamic = 6, 4
    writer = Writer(rng, n_fragments=20)
    ceiling = churn_ceiling(n_dynamic / (n_static + n_dynamic))
    for elapsed in ELAPSED:
        updates = rng.poisson(CHANGE_RATE * elapsed, N_PAGES)
        seen = [
            jaccard_distance(
                *churn_versions(writer, n_static=n_static, n_dynamic=n_dynamic, n_updates=n)
            )
            for n in updates
        ]
        curve = churn_divergence(CHANGE_RATE, elapsed, ceiling=ceiling)
        assert abs(np.mean(seen) - curve) < 5 * np.std(seen) / math.sqrt(N_PAGES)


def test_sketches_of_scroll_pages_follow_the_curve_too(rng: np.random.Generator) -> None:
    """Sketches of 64 hashes of 300 fragments, mean within 5 standard errors (1 in 1.7 million)."""
    size, elapsed = 64, 12.0
    writer = Writer(rng, n_fragments=20)
    seen = []
    for n_updates in rng.poisson(CHANGE_RATE * elapsed, N_PAGES):
        before, after = scroll_versions(writer, n_static=5, n_items=10, n_updates=n_updates)
        seen.append(
            compare_pair(
                sketch(before, size),
                sketch(after, size),
                n_first=len(before),
                n_second=len(after),
            )[0]
        )
    curve = scroll_divergence(CHANGE_RATE, elapsed, n_items=10, static_items=5)
    assert abs(np.mean(seen) - curve) < 5 * np.std(seen) / math.sqrt(N_PAGES)


def test_items_read_across_their_borders_change_little(rng: np.random.Generator) -> None:
    """Shingles across the border of two items die with either: of items of 60 words, a twentieth.

    The text of a scroll page as one run of words, not item by item; 1/20 of the divergence and
    a border's three shingles on either side of the list.
    """
    writer = Writer(rng, n_fragments=57)
    items = writer.blocks(10)
    before = [word for item in items for word in item]
    for n_updates in (1, 2, 5, 10):
        newest = writer.blocks(n_updates)
        after = [word for item in [*newest, *items][:10] for word in item]
        first, second = (
            {" ".join(text[i : i + 4]) for i in range(len(text) - 3)} for text in (before, after)
        )
        model = 2 * n_updates / (10 + n_updates)
        assert jaccard_distance(first, second) == pytest.approx(model, rel=0.06)


def test_a_page_after_some_updates_differs_as_the_model_says(rng: np.random.Generator) -> None:
    """Item by item, for any number of updates; two shingles alike by chance are 1 in 10^5."""
    writer = Writer(rng, n_fragments=20)
    for n_updates in range(12):
        new = min(n_updates, 8)
        pages = scroll_versions(writer, n_static=3, n_items=8, n_updates=n_updates)
        assert jaccard_distance(*pages) == pytest.approx(2 * new / (3 + 8 + new), abs=0.01)
        pages = churn_versions(writer, n_static=3, n_dynamic=8, n_updates=n_updates)
        replaced = 16 / 19 if n_updates else 0
        assert jaccard_distance(*pages) == pytest.approx(replaced, abs=0.01)


def measured_levels(rng: np.random.Generator, n_items: int) -> np.ndarray:
    """Return the divergence of a real text after 0, 1, … K updates of its K items."""
    writer = Writer(rng, n_fragments=40)
    return np.array(
        [
            jaccard_distance(*scroll_versions(writer, n_static=0, n_items=n_items, n_updates=j))
            for j in range(n_items + 1)
        ]
    )


@pytest.mark.parametrize("price", [0.4, 1.0, 2.0, 3.0])
def test_a_scroll_page_is_fetched_less_often_by_the_ratio_the_curves_imply(
    price: float, rng: np.random.Generator
) -> None:
    """Ten items against one, both changing once in four days, at the same price.

    The best interval minimises mean divergence plus price per fetch.  It is searched for on
    curves measured from texts, with every number of updates enumerated; and where the value,
    integrated numerically, reaches the price.
    """
    best = {}
    for n_items in (1, 10):
        levels = measured_levels(rng, n_items)

        def curve(age: float, levels: np.ndarray = levels, n_items: int = n_items) -> float:
            chances = poisson.pmf(np.arange(n_items), CHANGE_RATE * age)
            return float(chances @ levels[:-1] + (1 - chances.sum()) * levels[-1])

        search = minimize_scalar(
            lambda t, curve=curve: content_curves.cost_per_second(curve, price, t),
            bounds=(0.1, 60.0),
            method="bounded",
            options={"xatol": 1e-6},
        )
        best[n_items] = search.x
        # The minimum is flat, the value is not: both must agree.
        assert content_curves.due(curve, price, 100.0) == pytest.approx(search.x, rel=1e-3)
    ours = {
        1: float(churn_due(CHANGE_RATE, price)),
        10: float(scroll_due(CHANGE_RATE, price, n_items=10)),
    }
    assert ours[10] > ours[1]
    for n_items, due in ours.items():
        assert due == pytest.approx(best[n_items], rel=0.01)
    assert ours[10] / ours[1] == pytest.approx(best[10] / best[1], rel=0.01)


def test_cheap_fetches_follow_the_first_update() -> None:
    """Towards price 0 the ratio of periods is that of slopes, √((K + 1) / 2)."""
    ratio = scroll_due(1.0, 1e-10, n_items=10) / churn_due(1.0, 1e-10)
    assert float(ratio) == pytest.approx(math.sqrt(11 / 2), rel=1e-4)


def test_dear_fetches_are_only_worth_it_for_scroll_pages() -> None:
    """A churn page is never worth one change period; a scroll page of ten items four of them."""
    assert churn_due(CHANGE_RATE, 1 / CHANGE_RATE) == np.inf
    assert np.isfinite(scroll_due(CHANGE_RATE, 4 / CHANGE_RATE, n_items=10))
