"""The value of a page with noisy signals, against its renewal equation solved numerically."""

import itertools
import os

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from recrawl.core.signal_quality import from_recall
from recrawl.core.value import (
    approximate_noisy_value,
    crawl_value,
    expected_fetch_interval,
    expected_fresh_time,
    noiseless_value,
    noisy_value,
)
from recrawl.core.value.renewal import n_poles_needed, renewal_exact
from recrawl.core.value.signal_terms import (
    n_certain_terms,
    signal_term,
    sum_certain_terms,
    sum_signal_terms,
)
from tests.reference import renewal_crossing, renewal_steps, value_lemma4
from tests.reference.renewal_steps import Renewal


def evaluate(alpha: float, gamma: float, precision: float, elapsed: float) -> Renewal:
    return Renewal(
        float(noisy_value(alpha, gamma, precision, elapsed)),
        float(expected_fetch_interval(alpha, gamma, precision, elapsed)),
        float(expected_fresh_time(alpha, gamma, precision, elapsed)),
    )


def page(
    signal_exponent: float, ageing: float, n_ages: float, alpha: float = 1.0
) -> tuple[float, float, float, float]:
    """Return α, γ, precision and ι of a page with these αβ, γβ and ι/β."""
    precision = -np.expm1(-signal_exponent)
    exponent = -np.log1p(-precision)
    return alpha, ageing * alpha / exponent, precision, n_ages * exponent / alpha


# αβ from worthless signals to nearly certain ones; γβ from rare to incessant ones; ι/β.
SIGNAL_EXPONENTS = (1e-9, 1e-4, 0.05, 0.7, 3.0, 20.0)
AGEINGS = (1e-8, 1e-3, 0.2, 1.0, 3.7, 25.0, 400.0)
N_AGES = (1e-9, 1e-4, 0.3, 0.999, 1.001, 2.5, 5.9, 6.1, 17.3, 60.0, 700.0, 4_100.0)


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("signal_exponent", SIGNAL_EXPONENTS)
def test_solves_its_renewal_equation(signal_exponent: float) -> None:
    """V, ψ and w to 1e-9; they are good to 1e-12 or so, and so is the numerical solution."""
    for ageing, n_ages in itertools.product(AGEINGS, N_AGES):
        if n_ages * max(1.0, ageing / 4) > 5_000 or signal_exponent * n_ages > 600:
            continue
        rates = page(signal_exponent, ageing, n_ages)
        expected = renewal_steps.solve(*rates)
        np.testing.assert_allclose(evaluate(*rates), expected, rtol=1e-10, err_msg=str(rates))


@pytest.mark.parametrize("ratio", [1e-12, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("precision", [1e-6, 0.02, 0.6, 0.999, 1 - 1e-12])
def test_agrees_with_the_sums_of_the_paper(ratio: float, precision: float) -> None:
    """Lemma 4 as printed, in 100 digits."""
    exponent = -np.log1p(-precision)
    for elapsed in (1e-8 * exponent, 0.5 * exponent, 1.5 * exponent, 7.2 * exponent):
        expected = value_lemma4.sums(1.0, ratio, precision, elapsed, digits=100)
        np.testing.assert_allclose(evaluate(1.0, ratio, precision, elapsed), expected, rtol=1e-11)


@pytest.mark.parametrize("ageing", [1e-4, 0.1, 2.0, 40.0, 3e3, 2e5])
@pytest.mark.parametrize("n_ages", [1e4, 1e6 - 0.5, 1e6 + 0.5, 1e7])
@pytest.mark.parametrize("exponent", [0.4, 7.0, 90.0])
def test_a_threshold_worth_millions_of_signals(
    ageing: float, n_ages: float, exponent: float
) -> None:
    rates = page(exponent / n_ages, ageing, n_ages)
    expected = renewal_crossing.solve(*rates)
    np.testing.assert_allclose(evaluate(*rates), expected, rtol=1e-9)


def test_the_oracles_agree_with_each_other() -> None:
    """Collocation, the paper's sums and the crossing probabilities, all by different formulas."""
    for args in ((0.3, 2.0, 0.4, 5.0), (1.0, 0.1, 0.9, 4.0), (0.05, 1.0, 0.97, 80.0)):
        steps = renewal_steps.solve(*args)
        np.testing.assert_allclose(value_lemma4.sums(*args), steps, rtol=1e-12)
        np.testing.assert_allclose(renewal_crossing.solve(*args), steps, rtol=1e-12)


def test_is_not_the_plain_value_at_the_effective_elapsed_time() -> None:
    """The trap: at Δ = 1, recall .9, ν = .2 and ι = 12 it is .56, and U_α(ι) is 3.37."""
    rates = from_recall(change_rate=1.0, recall=0.9, false_signal_rate=0.2)
    assert noisy_value(*rates, 12.0) == pytest.approx(0.5595, abs=1e-4)
    plain = crawl_value(rates.unsignalled_change_rate, 12.0)
    assert plain == pytest.approx(3.37, abs=0.01)


# ------------------------------------------------------------------------- special cases


@pytest.mark.parametrize(
    ("signal_rate", "precision"), [(0.0, 0.5), (2.0, 0.0), (1e-30, 0.5), (2.0, 1e-30), (0.0, 1.0)]
)
def test_signals_that_are_none_or_always_false_leave_the_plain_value(
    signal_rate: float, precision: float
) -> None:
    elapsed = np.geomspace(1e-9, 1e4, 100)
    plain = crawl_value(0.3, elapsed)
    np.testing.assert_allclose(noisy_value(0.3, signal_rate, precision, elapsed), plain, 1e-13)
    interval = expected_fetch_interval(0.3, signal_rate, precision, elapsed)
    np.testing.assert_allclose(interval, elapsed, rtol=1e-13)


def test_the_plain_value_is_approached_smoothly() -> None:
    """With γβ = b its relative distance is at most about b."""
    elapsed = np.geomspace(1e-3, 30, 50)
    plain = crawl_value(1.0, elapsed)
    for ageing in (1e-18, 0.9e-17, 1.1e-17, 1e-12, 1e-9):
        for precision in (1e-3, 0.9):
            rate = ageing / -np.log1p(-precision)
            value = noisy_value(1.0, rate, precision, elapsed)
            np.testing.assert_allclose(value, plain, rtol=3 * ageing + 1e-13)


@pytest.mark.parametrize("alpha", [1e-12, 1e-3, 1.0, 50.0])
def test_signals_that_are_never_false(alpha: float) -> None:
    """Signals §5.1, in 60 digits."""
    for elapsed in (1e-9, 1e-2, 1.0, 30.0):
        with mp.workdps(60):
            a, g, t = mpmath.mpf(alpha), mpmath.mpf(2), mpmath.mpf(elapsed)
            first = (1 - mpmath.exp(-(a + g) * t)) / (a + g)
            expected = first - (1 - mpmath.exp(-g * t)) / (g * mpmath.exp(a * t))
        got = noiseless_value(alpha, 2.0, elapsed, is_signalled=[False, True])
        np.testing.assert_allclose(got, [float(expected), 1 / (alpha + 2)], rtol=1e-12)
        np.testing.assert_allclose(noisy_value(alpha, 2.0, 1.0, elapsed), got[0], rtol=1e-15)
        almost = noisy_value(alpha, 2.0, 1 - 1e-16, elapsed)
        np.testing.assert_allclose(almost, got[0], rtol=1e-9)


@pytest.mark.parametrize("precision", [0.2, 0.5, 0.93])
def test_all_changes_announced(precision: float) -> None:
    """With α = 0 only signals age a page: after n of them it is worth w - q^n ψ.

    Fetching at the n-th signal takes n/γ, of which the i-th wait of 1/γ is fresh with probability
    q^i, so V = ((1 - q^n)/(1 - q) - n q^n)/γ.
    """
    q, gamma = 1 - precision, 2.5
    n = np.arange(40)
    expected = ((1 - q**n) / (1 - q) - n * q**n) / gamma
    for alpha in (0.0, 1e-200, 1e-60, 1e-20):
        value = noisy_value(alpha, gamma, precision, [[0.0], [7.0]], n)
        np.testing.assert_allclose(value, np.stack([expected, expected]), rtol=1e-12, atol=1e-18)


def test_all_changes_announced_and_no_signal_yet() -> None:
    """The page is fresh for certain, until the first signal or the threshold."""
    value, interval, fresh_time = evaluate(0.0, 2.0, 0.5, 3.0)
    assert value == 0.0
    assert interval == fresh_time == pytest.approx(-np.expm1(-6.0) / 2, rel=1e-15)
    assert expected_fetch_interval(0.0, 2.0, 0.0, 3.0) == 3.0
    nearly = evaluate(1e-14, 2.0, 0.5, 3.0)
    np.testing.assert_allclose(nearly[1:], [interval, fresh_time], rtol=1e-12)


def test_a_signal_adds_its_age() -> None:
    alpha, gamma, precision = 0.2, 1.0, 0.6
    age = -np.log(1 - precision) / alpha
    got = noisy_value(alpha, gamma, precision, 1.5, [0, 1, 5])
    expected = noisy_value(alpha, gamma, precision, 1.5 + age * np.array([0, 1, 5]))
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_an_old_page_is_worth_its_importance_over_its_change_rate() -> None:
    rates = from_recall(2.0, recall=[0.0, 0.4, 1 - 1e-9], false_signal_rate=0.3)
    np.testing.assert_allclose(noisy_value(*rates, np.inf, importance=3.0), 1.5, rtol=1e-12)
    np.testing.assert_allclose(noisy_value(*rates, 1e13), 0.5, rtol=1e-12)


def test_takes_broadcast_columns_one_by_one() -> None:
    alpha, elapsed = np.array([[0.1], [0.7]]), np.array([0.5, 3.0, 40.0])
    got = noisy_value(alpha, 0.8, 0.3, elapsed, 2, importance=[1, 2, 3])
    assert got.shape == (2, 3)
    for row, column in np.ndindex(2, 3):
        alone = noisy_value(alpha[row, 0], 0.8, 0.3, elapsed[column], 2)
        assert got[row, column] == (column + 1) * alone


def test_what_is_not_a_number_stays_one() -> None:
    for args in ((np.nan, 1, 0.5, 1), (1, np.nan, 0.5, 1), (1, 1, np.nan, 1), (1, 1, 0.5, np.nan)):
        assert np.isnan(noisy_value(*args))


# ---------------------------------------------------------------------------------- laws

log_rates = st.floats(-8, 4).map(lambda x: 10.0**x)
precisions = st.one_of(st.floats(0, 1), st.floats(-12, 0).map(lambda x: 10.0**x))
ages = st.floats(-6, 9).map(lambda x: 10.0**x)
extremes = st.sampled_from([0.0, 1e-300, 1e-30, 1e-3, 1.0, 1e3, 1e30, 1e150, np.inf])


@given(alpha=log_rates, gamma=log_rates, precision=precisions, older=st.floats(1, 100), age=ages)
def test_grows_with_age_up_to_its_limit(
    alpha: float, gamma: float, precision: float, older: float, age: float
) -> None:
    young, old = noisy_value(alpha, gamma, precision, [age, age * older])
    assert 0 <= young <= old * (1 + 1e-11)
    assert old * (alpha + precision * gamma) <= 1 + 1e-11
    intervals = expected_fetch_interval(alpha, gamma, precision, [age, age * older])
    assert 0 <= intervals[0] <= intervals[1] * (1 + 1e-11)
    assert intervals[1] <= age * older * (1 + 1e-11)


@given(alpha=log_rates, gamma=log_rates, precision=precisions, age=ages, n=st.integers(0, 1000))
def test_grows_with_every_signal(
    alpha: float, gamma: float, precision: float, age: float, n: int
) -> None:
    before, after = noisy_value(alpha, gamma, precision, age, [n, n + 1])
    assert before <= after * (1 + 1e-11)


@given(alpha=log_rates, gamma=log_rates, precision=precisions, age=ages, n=st.integers(0, 9))
def test_does_not_depend_on_the_unit_of_time(
    alpha: float, gamma: float, precision: float, age: float, n: int
) -> None:
    day = 86_400.0
    in_days = noisy_value(alpha * day, gamma * day, precision, age / day, n) * day
    in_seconds = noisy_value(alpha, gamma, precision, age, n)
    np.testing.assert_allclose(in_days, in_seconds, rtol=1e-11)


@given(alpha=log_rates, gamma=log_rates, precision=precisions, age=ages)
def test_signals_never_raise_the_value_of_an_age(
    alpha: float, gamma: float, precision: float, age: float
) -> None:
    """At equal P(fresh), a page that may be signalled at any moment is fetched sooner."""
    value = noisy_value(alpha, gamma, precision, age)
    assert value <= crawl_value(alpha, age) * (1 + 1e-11)


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") == "1",
    reason="interpreted arithmetic raises where compiled gives inf",
)
@given(alpha=extremes, gamma=extremes, precision=precisions, age=extremes)
def test_always_terminates(alpha: float, gamma: float, precision: float, age: float) -> None:
    noisy_value(alpha, gamma, precision, age, [0, 3, 10**9])


# ------------------------------------------------------------------------------ branches


def exact_term(i: int, y: float, ratio: float) -> float:
    with mp.workdps(60):
        rho = mpmath.mpf(ratio)
        whole = mpmath.gammainc(i + 1, 0, (1 + rho) * y, regularized=True)
        signals = mpmath.gammainc(i + 1, 0, rho * y, regularized=True)
        return float((rho / (1 + rho)) ** (i + 1) * whole - mpmath.exp(-y) * signals)


def beside(x: float) -> tuple[float, float]:
    return x * (1 - 1e-12), x * (1 + 1e-12)


@pytest.mark.parametrize("i", [0, 1, 4, 15, 16, 60, 300])
@pytest.mark.parametrize("ratio", [1e-6, 3e-2, 1.0, 40.0, 1e6])
def test_a_term_is_right_on_both_sides_of_its_borders(i: int, ratio: float) -> None:
    """Series or closed form; few changes or many; few signals or as many as terms; or certain."""
    borders = (
        (12 + i + 4 * np.sqrt(i)) / (1 + ratio),
        1e-4,
        (i + 1) / ratio,
        (i + 40 + 10 * np.sqrt(i + 1)) / ratio,
    )
    for border in borders:
        for y in (*beside(border), border * 1e-3, border * 3):
            expected = exact_term(i, y, ratio)
            if y < 600 and expected > 1e-290:
                assert signal_term(i, y, ratio) == pytest.approx(expected, rel=2e-12), y


@pytest.mark.parametrize("ratio", [3e3, 1e5, 1e9, 1e200, np.inf])
@pytest.mark.parametrize("exponent", [*beside(2e-3), 1e-7, 1e-4, 0.1, 5.0])
def test_certain_terms_are_summed_at_once(ratio: float, exponent: float) -> None:
    signal_exponent = exponent / 8.5
    n_terms = min(8, int(exponent / (signal_exponent + 1 / ratio)))
    with mp.workdps(60):
        rate = 1 + 1 / mpmath.mpf(ratio)
        terms = [
            mpmath.exp(-i * mpmath.mpf(signal_exponent)) / rate ** (i + 1)
            - mpmath.exp(-mpmath.mpf(exponent))
            for i in range(n_terms)
        ]
        expected = float(sum(terms))
    if expected > 0:
        got = sum_certain_terms(n_terms, exponent, signal_exponent, ratio)
        assert got == pytest.approx(expected, rel=2e-12)


def test_terms_called_certain_are() -> None:
    for ageing, n_ages in itertools.product((0.5, 5.0, 100.0, 1e4), (1.5, 20.0, 1e3, 1e5)):
        alpha, gamma, precision, elapsed = page(1e-2, ageing, n_ages)
        exponent = -np.log1p(-precision)
        n = n_certain_terms(int(n_ages) + 1, alpha * elapsed, exponent, gamma / alpha)
        if n > 0:
            signals = gamma * elapsed - (n - 1) * ageing
            assert signals > n - 1 + 40 + 9.99 * np.sqrt(n)


@pytest.mark.parametrize("ageing", [1e-3, 0.1, 1.0, 4.0, 15.0])
@pytest.mark.parametrize("n_ages", [6.0, 6.5, 11.0, 40.0])
@pytest.mark.parametrize("signal_exponent", [1e-6, 1e-2, 0.0299, 0.0301, 1.0])
def test_the_poles_and_the_sum_agree(ageing: float, n_ages: float, signal_exponent: float) -> None:
    exponent, ratio = n_ages * signal_exponent, ageing / signal_exponent
    n_poles = n_poles_needed(ageing, n_ages)
    by_poles = renewal_exact(exponent, signal_exponent, ageing, n_poles)
    by_sum = sum_signal_terms(int(n_ages) + 1, exponent, signal_exponent, ratio)
    np.testing.assert_allclose(np.array(by_poles) * ratio, by_sum, rtol=1e-11)


@pytest.mark.parametrize("signal_exponent", [1e-3, 0.3, 4.0])
@pytest.mark.parametrize("ageing", [0.3, 3.0, 300.0])
@pytest.mark.parametrize("n_ages", [1.0, 2.0, 6.0, 7.0])
def test_no_step_where_a_term_or_the_poles_set_in(
    signal_exponent: float, ageing: float, n_ages: float
) -> None:
    """Over 2e-12 of the age no value or interval moves by more than 1e-10."""
    sides = [
        evaluate(*page(signal_exponent, ageing, n_ages * (1 + side))) for side in (-1e-12, 1e-12)
    ]
    np.testing.assert_allclose(sides[0], sides[1], rtol=1e-10)


# ------------------------------------------------------------------------ approximations


@pytest.mark.parametrize("n_terms", [1, 2, 5, 30])
def test_approximations_are_sums_cut_off(n_terms: int) -> None:
    for args in ((1.0, 1.0, 0.4, 3.0), (0.1, 2.0, 0.7, 0.5), (0.3, 2.0, 0.05, 8.0)):
        expected = value_lemma4.sums(*args, n_terms=n_terms)
        got = approximate_noisy_value(*args, n_terms, importance=2.0)
        np.testing.assert_allclose(got, 2 * expected.value, rtol=1e-11)


def test_approximations_need_no_more_terms_than_there_are() -> None:
    rates = from_recall(0.8, recall=[0.0, 0.3, 1.0, 0.5], false_signal_rate=[0.2, 0.2, 0.2, 0.0])
    value = noisy_value(*rates, 5.0)
    np.testing.assert_allclose(approximate_noisy_value(*rates, 5.0, 10**6), value, rtol=1e-12)
