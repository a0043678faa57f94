"""Churn and scroll curves, against sums over the number of updates and simulated shingle sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import erlang, expon

from recrawl.core.divergence import (
    churn_ceiling,
    churn_divergence,
    churn_lifetime,
    scroll_divergence,
    scroll_lifetime,
)
from recrawl.core.divergence.curves import scroll_slope_of
from tests.reference import content_curves

rates = st.floats(1e-9, 1e3)
durations = st.floats(1e-6, 1e9)
sizes = st.integers(1, 200)
statics = st.floats(0, 1e4)


def test_the_worked_example_of_figure_four() -> None:
    """K = 10, λ = .25, t = 8: a new fragment is hardly ever gone, yet a copy is 31 % wrong."""
    assert scroll_lifetime(0.25, 8.0, n_items=10) == pytest.approx(0.00005, abs=5e-6)
    assert scroll_divergence(0.25, 8.0, n_items=10) == pytest.approx(0.311, abs=5e-4)


def test_lifetimes_are_exponential_and_erlang() -> None:
    age = np.linspace(0.0, 100.0, 201)
    np.testing.assert_allclose(churn_lifetime(0.25, age), expon.cdf(age, scale=4), rtol=1e-13)
    np.testing.assert_allclose(
        scroll_lifetime(0.25, age, n_items=10), erlang.cdf(age, 10, scale=4), rtol=1e-11
    )


@pytest.mark.parametrize("static", [0.0, 0.4, 25.0])
@pytest.mark.parametrize("n_items", [1, 2, 10, 160])
def test_scroll_is_the_mean_over_the_number_of_updates(n_items: int, static: float) -> None:
    elapsed = np.geomspace(1e-6, 20, 40) * n_items
    expected = [content_curves.scroll_divergence(1.0, t, n_items, static) for t in elapsed]
    got = scroll_divergence(1.0, elapsed, n_items=n_items, static_items=static)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("elapsed", [1e-300, 1e-150, 1e-12, 1e-8, 1e-4])
def test_scroll_starts_with_the_first_item(elapsed: float) -> None:
    """D = 2x / (S + K + 1) for few updates, with no digit lost however few."""
    got = scroll_divergence(1.0, elapsed, n_items=10, static_items=3.0)
    second = elapsed / (2 * 15) + elapsed / 14  # to the next order, relative
    assert got == pytest.approx(2 * elapsed / 14, rel=1e-13 + second)


def test_scroll_of_one_item_is_churn() -> None:
    elapsed = np.geomspace(1e-9, 1e3, 50)
    np.testing.assert_allclose(
        scroll_divergence(0.3, elapsed, n_items=1, static_items=3.0),
        churn_divergence(0.3, elapsed, ceiling=churn_ceiling(1 / 4)),
        rtol=1e-12,
    )


def test_scroll_tends_to_its_ceiling() -> None:
    got = scroll_divergence(1.0, [1e4, 1e300, np.inf], n_items=30, static_items=20.0)
    np.testing.assert_allclose(got, 60 / 80, rtol=1e-13)


@pytest.mark.parametrize("n_items", [1, 10, 60])
def test_the_slope_is_the_derivative(n_items: int) -> None:
    x = np.geomspace(1e-3, 5 * n_items, 30)
    step = 1e-5 * x
    curve = [
        scroll_divergence(1.0, x + s, n_items=n_items, static_items=2.0) for s in (step, -step)
    ]
    slope = [scroll_slope_of(n_items, 2.0, xi) for xi in x]
    np.testing.assert_allclose((curve[0] - curve[1]) / (2 * step), slope, rtol=1e-6, atol=1e-9)


@given(rate=rates, elapsed=durations, n_items=sizes, static=statics)
def test_does_not_depend_on_the_unit_of_time(
    rate: float, elapsed: float, n_items: int, static: float
) -> None:
    in_seconds = scroll_divergence(rate, elapsed, n_items=n_items, static_items=static)
    in_days = scroll_divergence(
        rate * 86_400, elapsed / 86_400, n_items=n_items, static_items=static
    )
    np.testing.assert_allclose(in_days, in_seconds, rtol=1e-9)


@given(elapsed=st.tuples(durations, durations), n_items=sizes, static=statics)
def test_grows_with_age_up_to_its_ceiling(
    elapsed: tuple[float, float], n_items: int, static: float
) -> None:
    younger, older = scroll_divergence(0.01, sorted(elapsed), n_items=n_items, static_items=static)
    assert 0 <= younger <= older * (1 + 1e-12)
    assert older <= 2 * n_items / (static + 2 * n_items) * (1 + 1e-12)


@given(share=st.floats(0, 1))
def test_the_ceiling_of_churn_is_a_jaccard_distance(share: float) -> None:
    """1 - (1-c) / (1+c), of two pages that share their static part."""
    assert churn_ceiling(share) == pytest.approx(1 - (1 - share) / (1 + share))


def test_refuses_a_page_of_no_items() -> None:
    with pytest.raises(ValueError, match="n_items must be at least 1"):
        scroll_divergence(1.0, 1.0, n_items=0)
    with pytest.raises(ValueError, match="n_items must be at least 1"):
        scroll_lifetime(1.0, 1.0, n_items=0)
