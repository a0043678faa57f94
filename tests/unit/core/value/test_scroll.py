"""The value of scroll pages and when they are due, against integrals and special functions."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, gammainc

from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.value.no_signals import crawl_value
from recrawl.core.value.scroll import (
    scroll_due,
    scroll_due_under_belief,
    scroll_value,
    scroll_value_under_belief,
)
from tests.reference import content_curves

rates = st.floats(1e-9, 1e3)
durations = st.floats(1e-6, 1e9)
sizes = st.integers(1, 200)
statics = st.floats(0, 1e4)


@pytest.mark.parametrize("static", [0.0, 7.5])
@pytest.mark.parametrize("n_items", [1, 2, 10, 60])
def test_is_t_times_divergence_minus_its_area(n_items: int, static: float) -> None:
    """Longevity eq. 4, with the curve summed over the number of updates and integrated."""
    for elapsed in np.array([0.05, 0.3, 1.0, 3.0]) * n_items:
        expected = content_curves.value(
            lambda t: content_curves.scroll_divergence(1.0, t, n_items, static), elapsed
        )
        got = scroll_value(1.0, elapsed, n_items=n_items, static_items=static)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("n_items", [1, 10, 160])
@pytest.mark.parametrize("x", [1e-30, 1e-9, 1e-8, 1e-3, 0.999, 1.0, 30.0, 200.0, 1e5])
def test_loses_no_digits(n_items: int, x: float) -> None:
    """Against 50 digits, where t D - ∫ D would cancel to nothing."""
    with mpmath.workdps(50):
        size = mpmath.mpf(n_items + 3)
        expected = mpmath.fsum(
            (2 * mpmath.mpf(j + 1) / (size + j + 1) - 2 * mpmath.mpf(j) / (size + j))
            * (j + 1)
            * mpmath.gammainc(j + 2, 0, mpmath.mpf(x), regularized=True)
            for j in range(n_items)
        )
    got = scroll_value(1.0, x, n_items=n_items, static_items=3.0)
    np.testing.assert_allclose(got, float(expected), rtol=2e-13)


@given(rate=rates, elapsed=durations)
def test_one_item_is_the_binary_page(rate: float, elapsed: float) -> None:
    np.testing.assert_allclose(
        scroll_value(rate, elapsed, n_items=1), crawl_value(rate, elapsed), rtol=1e-12
    )


def test_a_page_that_never_changes_is_worth_nothing() -> None:
    assert scroll_value(0.0, 1e9, n_items=10) == 0.0
    assert scroll_due(0.0, 1e-9, n_items=10) == np.inf


@given(rate=rates, elapsed=durations, n_items=sizes, static=statics)
def test_does_not_depend_on_the_unit_of_time(
    rate: float, elapsed: float, n_items: int, static: float
) -> None:
    in_seconds = scroll_value(rate, elapsed, n_items=n_items, static_items=static)
    in_days = scroll_value(rate * 86_400, elapsed / 86_400, n_items=n_items, static_items=static)
    np.testing.assert_allclose(in_days * 86_400, in_seconds, rtol=1e-9)


@given(elapsed=st.tuples(durations, durations), n_items=sizes, static=statics)
def test_grows_with_age_up_to_its_limit(
    elapsed: tuple[float, float], n_items: int, static: float
) -> None:
    """The limit is K h_K - Σ_{j<K} h_j, in change periods: what the updates add, times when."""
    younger, older, limit = scroll_value(
        0.01, [*sorted(elapsed), np.inf], n_items=n_items, static_items=static
    )
    assert 0 <= younger <= older * (1 + 1e-12)
    assert older <= limit * (1 + 1e-12)
    j = np.arange(n_items + 1)
    level = 2 * j / (static + n_items + j)
    np.testing.assert_allclose(limit, (n_items * level[-1] - level[:-1].sum()) / 0.01, rtol=1e-6)


@given(
    rate=rates,
    share=st.floats(1e-9, 1 - 1e-9),
    n_items=st.integers(1, 60),
    static=st.floats(0, 100),
)
def test_at_the_due_time_the_value_is_the_price(
    rate: float, share: float, n_items: int, static: float
) -> None:
    limit = scroll_value(rate, np.inf, n_items=n_items, static_items=static)
    due = scroll_due(rate, share * limit, n_items=n_items, static_items=static)
    got = scroll_value(rate, due, n_items=n_items, static_items=static)
    np.testing.assert_allclose(got, share * limit, rtol=1e-12)


def test_is_due_where_brute_force_finds_it() -> None:
    for price in (0.01, 0.5, 3.0):
        expected = content_curves.due(
            lambda t: content_curves.scroll_divergence(0.25, t, 10, 2.0), price, 200.0
        )
        got = scroll_due(0.25, 2 * price, n_items=10, static_items=2.0, importance=2.0)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_is_never_due_at_its_limit_and_at_once_for_nothing() -> None:
    limit = scroll_value(0.25, np.inf, n_items=10)
    assert scroll_due(0.25, limit * (1 + 1e-12), n_items=10) == np.inf
    assert np.isfinite(scroll_due(0.25, limit * (1 - 1e-15), n_items=10))
    assert scroll_due(0.25, 0.0, n_items=10) == 0.0
    assert scroll_due(0.25, 1.0, n_items=10, importance=0.0) == np.inf


@pytest.mark.parametrize("n_items", [1, 10, 160])
@pytest.mark.parametrize("shape", [1.01, 1.5, 3.0, 30.0, 1e3, 1e6])
def test_the_average_over_a_belief_is_an_incomplete_beta_function(
    shape: float, n_items: int
) -> None:
    """E[R^{j+1}(λt)/λ] over Gamma(a, b) is b/(a-1) I_{t/(b+t)}(j+2, a-1), where a > 1."""
    b = 2.0
    j = np.arange(n_items)
    step = 2 * (n_items + 0.5) / ((n_items + 0.5 + j) * (n_items + 1.5 + j))
    elapsed = np.array([1e-6, 1e-2, 1.0, 100.0, 1e6])
    expected = [
        b / (shape - 1) * step @ ((j + 1) * betainc(j + 2, shape - 1, t / (b + t))) for t in elapsed
    ]
    belief = GammaBelief.of(shape, b)
    got = scroll_value_under_belief(belief, elapsed, n_items=n_items, static_items=0.5)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("elapsed", [1e-3, 1.0, 1e4])
def test_the_average_over_a_broad_belief_is_its_integral(shape: float, elapsed: float) -> None:
    """With a ≤ 1 by integration over the rate, of the value written with scipy's functions."""
    b, n_items = 2.0, 4
    j = np.arange(n_items)
    step = 2 * n_items / ((n_items + j) * (n_items + j + 1))

    def integrand(log_rate: mpmath.mpf) -> mpmath.mpf:
        rate = mpmath.exp(log_rate)
        value = float(step @ ((j + 1) * gammainc(j + 2, float(rate) * elapsed)))
        density = mpmath.exp(shape * mpmath.log(b * rate) - b * rate) / mpmath.gamma(shape)
        return density * value / rate

    expected = mpmath.quad(integrand, [*np.arange(-36, 5, 2.0)])
    got = scroll_value_under_belief(GammaBelief.of(shape, b), elapsed, n_items=n_items)
    np.testing.assert_allclose(got, float(expected), rtol=1e-9)


def test_a_sharp_belief_is_a_known_rate() -> None:
    belief = GammaBelief.with_mean_rate(0.25, shape=1e9)
    elapsed = np.geomspace(0.1, 200, 20)
    got = scroll_value_under_belief(belief, elapsed, n_items=10, importance=3.0)
    known = scroll_value(0.25, elapsed, n_items=10, importance=3.0)
    np.testing.assert_allclose(got, known, rtol=1e-7)


@given(shape=st.floats(0.1, 100), share=st.floats(0.01, 0.95), n_items=st.integers(1, 20))
def test_at_the_due_time_the_averaged_value_is_the_price(
    shape: float, share: float, n_items: int
) -> None:
    belief = GammaBelief.with_mean_rate(0.25, shape=shape)
    price = share * 4.0
    due = scroll_due_under_belief(belief, price, n_items=n_items)
    limit = scroll_value_under_belief(belief, np.inf, n_items=n_items)
    if price >= limit:
        assert due == np.inf
    else:
        value = scroll_value_under_belief(belief, due, n_items=n_items)
        np.testing.assert_allclose(value, price, rtol=1e-9)


def test_an_unsure_belief_is_always_worth_a_fetch_at_last() -> None:
    """With a ≤ 1 the page may be so slow that any price is reached."""
    belief = GammaBelief.of([1.0, 0.5], 1.0)
    assert np.all(np.isinf(scroll_value_under_belief(belief, np.inf, n_items=10)))
    assert np.all(np.isfinite(scroll_due_under_belief(belief, 50.0, n_items=10)))


def test_refuses_a_page_of_no_items() -> None:
    with pytest.raises(ValueError, match="n_items must be at least 1"):
        scroll_value(1.0, 1.0, n_items=0)
    with pytest.raises(ValueError, match="n_items must be at least 1"):
        scroll_due(1.0, 1.0, n_items=0)
