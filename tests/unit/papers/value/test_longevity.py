"""The value of any divergence curve, against numerical integration and the binary value."""

from typing import Literal, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammainc

from recrawl.core.divergence import CombinedProfiles, churn_divergence, scroll_divergence
from recrawl.core.value.no_signals import crawl_value
from recrawl.core.value.scroll import scroll_due, scroll_value
from recrawl.papers.divergence import PageRegions, fit_curves, regions_divergence
from recrawl.papers.value.longevity import (
    churn_due,
    churn_value,
    fitted_due,
    fitted_value,
    mean_divergence,
    regions_value,
    value_of_curve,
    value_of_samples,
)
from tests.reference import content_curves

rates = st.floats(1e-9, 1e3)
durations = st.floats(1e-6, 1e9)


@pytest.mark.parametrize("n_items", [1, 10, 160])
def test_a_smooth_curve_has_the_value_of_its_closed_form(n_items: int) -> None:
    """Good to 1e-12 from a millionth of the time in which the page changes to a million times."""
    elapsed = np.geomspace(1e-6, 1e6, 40)
    got = value_of_curve(lambda age: scroll_divergence(1.0, age, n_items=n_items), elapsed)
    np.testing.assert_allclose(got, scroll_value(1.0, elapsed, n_items=n_items), rtol=2e-12)


def test_a_power_has_the_area_above_it() -> None:
    """D = t^p has U = t^(p+1) · p / (p+1)."""
    elapsed = np.array([0.5, 3.0])
    square_root = value_of_curve(np.sqrt, elapsed)
    np.testing.assert_allclose(square_root, elapsed**1.5 / 3, rtol=1e-9)
    square = value_of_curve(np.square, elapsed)
    np.testing.assert_allclose(square, elapsed**3 * 2 / 3, rtol=1e-12)


def test_takes_importance_and_any_shape() -> None:
    elapsed = np.array([[1.0], [2.0]])
    got = value_of_curve(lambda age: age, elapsed, importance=[1.0, 10.0])
    np.testing.assert_allclose(got, [[0.5, 5.0], [2.0, 20.0]])


def test_mean_divergence_is_what_a_schedule_minimises() -> None:
    """At the interval where value = price, mean divergence plus price per second is least."""
    price = 0.3
    interval = float(churn_due(1.0, price))
    near = interval * np.array([0.98, 1.0, 1.02])
    cost = mean_divergence(lambda age: churn_divergence(1.0, age), near) + price / near
    assert cost.argmin() == 1
    expected = 1 + np.expm1(-near) / near
    np.testing.assert_allclose(cost - price / near, expected, rtol=1e-12)


Between: TypeAlias = Literal["linear", "first", "second"]
BETWEEN: tuple[Between, ...] = ("linear", "first", "second")
samples = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=6)


@given(samples=samples, share=st.floats(0.01, 1.5))
@pytest.mark.parametrize("between", BETWEEN)
def test_sampled_curves_have_the_value_of_their_area(
    between: Between, samples: list[tuple[float, float]], share: float
) -> None:
    times = np.cumsum([gap for gap, _ in samples])
    levels = np.sort([level for _, level in samples])
    elapsed = share * times[-1]

    def curve(age: float) -> float:
        knots, values = np.append(0, times), np.append(0, levels)
        if between == "linear":
            return float(np.interp(age, knots, values))
        if between == "first":
            return float(np.append(values, values[-1])[np.searchsorted(knots, age, side="left")])
        return float(values[np.searchsorted(knots, age, side="right") - 1])

    edges = np.append(0, np.append(times[times < elapsed], elapsed))
    middles = (edges[1:] + edges[:-1]) / 2
    area = sum(np.diff(edges) * [curve(middle) for middle in middles])
    got = value_of_samples(times, levels, elapsed, between=between)
    np.testing.assert_allclose(got, elapsed * curve(elapsed) - area, rtol=1e-9, atol=1e-9)


def test_at_a_sample_the_divergence_is_the_sampled_one() -> None:
    for between in BETWEEN:
        last = value_of_samples([2.0, 4.0], [0.0, 1.0], 4.0, between=between)
        assert last == {"linear": 3.0, "first": 2.0, "second": 4.0}[between]


def test_refuses_samples_out_of_order() -> None:
    with pytest.raises(ValueError, match="times must be positive and ascending"):
        value_of_samples([2.0, 1.0], [0.1, 0.2], 3.0)


@given(rate=rates, elapsed=durations, ceiling=st.floats(0, 1), importance=st.floats(0, 1e3))
def test_churn_is_the_binary_value_scaled(
    rate: float, elapsed: float, ceiling: float, importance: float
) -> None:
    got = churn_value(rate, elapsed, ceiling=ceiling, importance=importance)
    binary = crawl_value(rate, elapsed, importance=importance * ceiling)
    np.testing.assert_allclose(got, binary, rtol=1e-12)


@given(ratio=st.floats(1e-3, 1), elapsed=st.floats(1, 1e6))
def test_a_lower_divergence_rate_is_a_slower_page(ratio: float, elapsed: float) -> None:
    """With λ_D = ρ λ the page ages ρ times as fast: U(t) at λ_D is U(ρt) at λ, over ρ."""
    slow = churn_value(ratio * 1e-3, elapsed)
    np.testing.assert_allclose(slow, churn_value(1e-3, ratio * elapsed) / ratio, rtol=1e-9)


@pytest.mark.parametrize("target", [1e-12, 1e-3, 0.3, 0.9, 1 - 1e-9])
def test_churn_is_due_where_the_incomplete_gamma_function_says(target: float) -> None:
    x = brentq(lambda x: gammainc(2, x) - target, 1e-9, 60, xtol=1e-14, rtol=1e-14)
    got = churn_due(0.25, target * 0.5 * 3 / 0.25, ceiling=0.5, importance=3.0)
    np.testing.assert_allclose(got, x / 0.25, rtol=1e-6 if target > 0.99 else 1e-10)


def test_churn_that_is_never_worth_its_price_is_never_due() -> None:
    dues = churn_due([0.25, 0.25, 0.0, 0.25], [4.0, 2.0, 1.0, 1.0], ceiling=[1.0, 0.5, 1.0, 0.0])
    assert np.all(dues == np.inf)
    assert churn_due(0.25, 1.0, importance=0.0) == np.inf
    assert churn_due(0.25, 0.0) == 0.0


@pytest.mark.parametrize("churn_rate", [0.0, 1e-3, 0.3, 50.0])
@pytest.mark.parametrize(
    "scroll_rate", [0.0, pytest.param(0.25, marks=pytest.mark.slow_without_jit)]
)
def test_regions_have_the_value_of_their_curve(churn_rate: float, scroll_rate: float) -> None:
    page = PageRegions(300.0, 100.0, churn_rate, 60.0, 10, scroll_rate)
    elapsed = np.geomspace(1e-3, 1e4, 30)
    expected = value_of_curve(lambda age: regions_divergence(page, age), elapsed)
    np.testing.assert_allclose(regions_value(page, elapsed), expected, rtol=1e-11, atol=1e-300)


def test_regions_against_enumeration_and_integration() -> None:
    page = PageRegions(3.0, 1.5, 0.4, 0.7, 4, 1.1)
    for elapsed in (0.1, 2.0, 9.0):
        expected = content_curves.value(
            lambda t: content_curves.regions_divergence(t, 3.0, (1.5, 0.4), (0.7, 4, 1.1)),
            elapsed,
        )
        np.testing.assert_allclose(regions_value(page, elapsed), expected, rtol=1e-8)


def test_one_region_has_the_value_of_its_kind() -> None:
    elapsed = np.geomspace(1e-6, 1e6, 30)
    np.testing.assert_allclose(
        regions_value(PageRegions(static_size=3, churn_size=1, churn_rate=0.2), elapsed),
        churn_value(0.2, elapsed, ceiling=0.4),
        rtol=1e-12,
    )
    scroll = PageRegions(static_size=50, item_size=10, n_items=7, scroll_rate=0.2)
    np.testing.assert_allclose(
        regions_value(scroll, elapsed),
        scroll_value(0.2, elapsed, n_items=7, static_items=5),
        rtol=1e-12,
    )
    assert regions_value(PageRegions(), 1.0) == 0.0


def test_a_fitted_curve_has_the_value_of_its_kind() -> None:
    ages = np.tile(np.geomspace(0.1, 20, 10), (3, 1))
    curves = np.stack(
        [
            churn_divergence(0.5, ages[0], ceiling=0.4),
            scroll_divergence(1.5, ages[1], n_items=3, static_items=2),
            np.zeros(10),
        ]
    )
    fit = fit_curves(CombinedProfiles(np.full(3, 10), ages, curves), n_items_tried=(3,))
    values = [
        float(churn_value(0.5, 4.0, ceiling=0.4)),
        float(scroll_value(1.5, 4.0, n_items=3, static_items=2)),
        0.0,
    ]
    np.testing.assert_allclose(fitted_value(fit, 4.0), values, rtol=1e-5, atol=1e-12)
    dues = [
        float(churn_due(0.5, 0.1, ceiling=0.4)),
        float(scroll_due(1.5, 0.1, n_items=3, static_items=2)),
        np.inf,
    ]
    np.testing.assert_allclose(fitted_due(fit, 0.2, importance=2.0), dues, rtol=1e-5)
