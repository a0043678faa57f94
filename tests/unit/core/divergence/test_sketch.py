"""Divergence read from sketches, against whole sets and the hypergeometric distribution."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from recrawl.core.divergence import Sketches, compare_pair, compare_sketches, unseen_probability
from tests.reference.content_pages import (
    Writer,
    jaccard_distance,
    scroll_versions,
    sketch,
    sketch_distance,
)

hash_sets = st.sets(st.integers(0, 2**32 - 1), max_size=60)


@given(first=hash_sets, second=hash_sets)
def test_whole_sets_give_the_jaccard_distance_exactly(first: set[int], second: set[int]) -> None:
    divergence, error = compare_pair(
        sorted(first), sorted(second), n_first=len(first), n_second=len(second)
    )
    shared, union = len(first & second), len(first | second)
    assert divergence == pytest.approx(1 - shared / union if union else 0.0)
    assert error == 0.0


@given(first=hash_sets, second=hash_sets, size=st.integers(1, 40))
def test_takes_the_smallest_of_the_union(first: set[int], second: set[int], size: int) -> None:
    a, b = sorted(first)[:size], sorted(second)[:size]
    divergence, _ = compare_pair(a, b, n_first=len(first), n_second=len(second))
    if len(first) > size or len(second) > size:
        assert divergence == pytest.approx(sketch_distance(a, b, size))


@given(first=hash_sets, second=hash_sets, size=st.integers(1, 40))
def test_does_not_depend_on_the_order(first: set[int], second: set[int], size: int) -> None:
    a, b = sorted(first)[:size], sorted(second)[:size]
    forth = compare_pair(a, b, n_first=len(first), n_second=len(second))
    back = compare_pair(b, a, n_first=len(second), n_second=len(first))
    assert forth == pytest.approx(back)


@given(pages=st.lists(hash_sets, min_size=1, max_size=6), size=st.integers(1, 30))
def test_many_pairs_at_once_are_the_pairs_one_by_one(pages: list[set[int]], size: int) -> None:
    rows = [sorted(page)[:size] for page in pages]
    counts = [len(page) for page in pages]
    n = len(pages)
    all_pairs = compare_sketches(Sketches.of(rows, counts), np.arange(n)[:, None], np.arange(n))
    for i in range(n):
        for j in range(n):
            one = compare_pair(rows[i], rows[j], n_first=counts[i], n_second=counts[j])
            assert all_pairs.divergence[i, j] == one[0]
            assert all_pairs.standard_error[i, j] == one[1]


def test_sketches_of_unequal_size_compare_at_the_smaller() -> None:
    first, second = list(range(0, 1000, 2)), list(range(0, 1000, 3))
    divergence, _ = compare_pair(first[:64], second[:32], n_first=500, n_second=334)
    assert divergence == sketch_distance(first[:64], second[:32], 32)


def test_is_unbiased_over_all_samples() -> None:
    """Eight fragments, four shared and two in each version only, hashed in every order."""
    size = 3
    estimates = []
    for kinds in set(permutations("++++aabb")):
        first = [rank for rank, kind in enumerate(kinds) if kind != "b"]
        second = [rank for rank, kind in enumerate(kinds) if kind != "a"]
        estimates.append(compare_pair(first[:size], second[:size], n_first=6, n_second=6)[0])
    assert len(estimates) == 420
    assert np.mean(estimates) == pytest.approx(0.5)


def test_the_standard_error_is_the_spread_of_what_sketches_show(rng: np.random.Generator) -> None:
    """Of 400 pages, bias within 5 standard errors and the spread within 20 % (6 sigma).

    The first fails once in 1.7 million, the second once in 500 million seeds.
    """
    size, n_pages = 64, 400
    writer = Writer(rng, n_fragments=25)
    errors = []
    for _ in range(n_pages):
        before, after = scroll_versions(writer, n_static=6, n_items=6, n_updates=3)
        divergence, error = compare_pair(
            sketch(before, size), sketch(after, size), n_first=len(before), n_second=len(after)
        )
        errors.append((divergence - jaccard_distance(before, after)) / error)
    assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(n_pages)
    assert np.std(errors) == pytest.approx(1.0, abs=0.2)


def test_the_standard_error_has_the_finite_population_factor() -> None:
    """√(J(1-J)/m · (N-m)/(N-1)) at J = 1/2, m = 100, N = 400."""
    both = list(range(0, 200, 2))
    first = sorted([*both, *range(1, 100, 2)])[:100]
    second = sorted([*both, *range(101, 200, 2)])[:100]
    divergence, error = compare_pair(first, second, n_first=300, n_second=300)
    similarity = 1 - divergence
    n_union = 600 / (1 + similarity)
    binomial = similarity * (1 - similarity) / 100
    assert error == pytest.approx(math.sqrt(binomial * (n_union - 100) / (n_union - 1)))


def test_an_empty_version_differs_from_any_other() -> None:
    assert compare_pair([], [], n_first=0, n_second=0) == (0.0, 0.0)
    assert compare_pair([], [1, 2], n_first=0, n_second=2) == (1.0, 0.0)
    assert compare_pair([], [1, 2], n_first=0, n_second=9)[0] == 1.0


def test_rejects_invalid_sketches() -> None:
    with pytest.raises(ValueError, match="ascending"):
        Sketches.of([[3, 2]], 2)
    with pytest.raises(ValueError, match="n_fragments"):
        Sketches.of([[2, 3]], 1)
    with pytest.raises(IndexError, match="rows"):
        compare_sketches(Sketches.of([[2, 3]], 2), 0, 1)


@pytest.mark.parametrize(
    ("sketch_size", "one_percent", "five_percent"),
    [(8, 0.92, 0.67), (128, 0.23, 0.0), (512, 0.0, 0.0)],
)
def test_small_sketches_miss_small_changes(
    sketch_size: int, one_percent: float, five_percent: float
) -> None:
    """A page of 500 fragments that gains one or five per cent more."""
    seen_none = unseen_probability([5, 25], [505, 525], sketch_size=sketch_size)
    np.testing.assert_allclose(seen_none, [one_percent, five_percent], atol=0.006)


@given(
    n_union=st.integers(1, 3_000),
    changed_share=st.floats(0, 1),
    sketch_size=st.integers(1, 600),
)
def test_unseen_is_hypergeometric(n_union: int, changed_share: float, sketch_size: int) -> None:
    n_changed = round(changed_share * n_union)
    drawn = min(sketch_size, n_union)
    expected = hypergeom.pmf(0, n_union, n_changed, drawn)
    got = unseen_probability(n_changed, n_union, sketch_size=sketch_size)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-300)


def test_unseen_is_what_sketches_of_pages_show(rng: np.random.Generator) -> None:
    """400 pages of 505 fragments, 5 of them new: within 5 standard errors (1 in 1.7 million)."""
    size, n_pages = 128, 400
    expected = float(unseen_probability(5, 505, sketch_size=size))
    n_unseen = 0
    for _ in range(n_pages):
        hashes = rng.choice(2**32, size=505, replace=False)
        first, second = np.sort(hashes[:500])[:size], np.sort(hashes)[:size]
        divergence, _ = compare_pair(first, second, n_first=500, n_second=505)
        n_unseen += divergence == 0.0
    spread = math.sqrt(expected * (1 - expected) / n_pages)
    assert abs(n_unseen / n_pages - expected) < 5 * spread
