"""Rates of changes and signals determine each other, both ways and at the limits."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from recrawl.core.price import noisy_due_elapsed
from recrawl.core.signal_quality import (
    SignalRates,
    false_chance,
    from_precision_and_recall,
    from_recall,
    merge_sources,
    signal_exponent,
)
from recrawl.papers.value import several_sources_value

rates = st.floats(1e-9, 1e3)
shares = st.floats(0.01, 0.99)


@given(change_rate=rates, recall=shares, false_rate=rates)
def test_the_papers_three_numbers_come_back(
    change_rate: float, recall: float, false_rate: float
) -> None:
    found = from_recall(change_rate, recall, false_rate)
    assert float(found.change_rate()) == pytest.approx(change_rate)
    assert float(found.recall()) == pytest.approx(recall)
    assert float(found.false_signal_rate()) == pytest.approx(false_rate, rel=1e-6)


@given(change_rate=rates, precision=shares, recall=shares)
def test_precision_and_recall_come_back(
    change_rate: float, precision: float, recall: float
) -> None:
    found = from_precision_and_recall(change_rate, precision, recall)
    assert float(found.change_rate()) == pytest.approx(change_rate)
    assert float(found.precision) == pytest.approx(precision)
    assert float(found.recall()) == pytest.approx(recall)
    same = from_recall(change_rate, recall, found.false_signal_rate())
    np.testing.assert_allclose(same, found, rtol=1e-9)


@given(alpha=rates, gamma=rates, precision=shares)
def test_every_change_and_every_signal_is_counted_once(
    alpha: float, gamma: float, precision: float
) -> None:
    """α + γ = Δ + ν, and αβ = -log(ν/γ)."""
    found = SignalRates.of(alpha, gamma, precision)
    all_events = found.change_rate() + found.false_signal_rate()
    assert float(all_events) == pytest.approx(alpha + gamma)
    exponent = -np.log(float(found.false_signal_rate()) / gamma)
    assert alpha * float(found.signal_age()) == pytest.approx(exponent)
    assert float(signal_exponent(precision)) == pytest.approx(exponent)


def test_the_paper_counts_events_the_same_way(rng: np.random.Generator) -> None:
    """Signals §3 by drawing: of 200 000 changes each is signalled with chance λ; 5 σ."""
    changes, recall, false_rate = 200_000, 0.35, 0.9
    signalled = rng.random(changes) < recall
    n_false = rng.poisson(false_rate * changes)  # one change per second
    found = from_recall(1.0, recall, false_rate)
    n_signals = signalled.sum() + n_false
    deviation = 5 / np.sqrt(changes)
    assert abs(n_signals / changes - found.signal_rate) < 2 * deviation
    assert abs(signalled.sum() / n_signals - found.precision) < deviation
    assert abs((~signalled).mean() - found.unsignalled_change_rate) < deviation


def test_signals_that_are_never_false_age_a_page_at_once() -> None:
    rates = from_recall([1.0, 1.0, 1.0, 1.0], [0.5, 1.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(rates.signal_age(), [np.inf, np.inf, 0.0, 0.0])
    np.testing.assert_array_equal(rates.precision[:1], 1.0)
    np.testing.assert_array_equal(rates.precision[2:], 0.0)
    np.testing.assert_array_equal(signal_exponent([0.0, 1.0]), [0.0, np.inf])


def test_a_static_page_has_no_recall() -> None:
    assert np.isnan(SignalRates.of(0.0, 0.0, 0.5).recall())
    found = from_precision_and_recall(2.0, 0.4, [0.0, 1.0])
    np.testing.assert_allclose(found.signal_rate, [0.0, 5.0])
    np.testing.assert_allclose(found.unsignalled_change_rate, [2.0, 0.0])


def test_a_tiny_precision_keeps_its_digits() -> None:
    np.testing.assert_allclose(signal_exponent([1e-12, 1e-300]), [1e-12, 1e-300], rtol=1e-11)


def test_false_chance_is_the_chance_that_all_were_false() -> None:
    np.testing.assert_allclose(false_chance(0.3, [0, 1, 4]), [1.0, 0.7, 0.7**4])
    np.testing.assert_array_equal(false_chance(1.0, [0, 1]), [1.0, 0.0])
    np.testing.assert_array_equal(false_chance(0.0, [0, 7]), 1.0)


@given(sources=st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(0, 0.999)), min_size=1))
def test_a_merged_source_announces_and_ages_as_much_as_all(
    sources: list[tuple[float, float]],
) -> None:
    """Its exponent solves x/(1 - e^-x) = Σγ(-log(1-p)) / Σγp, here by bisection."""
    gamma, p = (np.array(column) for column in zip(*sources, strict=True))
    announced, aged = float(gamma @ p), float(gamma @ -np.log1p(-p))
    rate, precision = merge_sources(gamma, p)
    if p.max() < 1e-6:  # too rare to tell from none
        assert 0 <= precision <= p.max()
        return
    assert float(rate * precision) == pytest.approx(announced)
    if aged / announced - 1 > 1e-9:
        x = brentq(lambda x: x / -np.expm1(-x) - aged / announced, 1e-12, 50, xtol=1e-14)
        assert float(precision) == pytest.approx(-np.expm1(-x), rel=1e-5)
        assert float(rate * signal_exponent(precision)) == pytest.approx(aged, rel=1e-5)
    used = p[gamma * p > 0]
    assert used.min() * (1 - 1e-6) <= precision <= used.max() * (1 + 1e-6)


def test_one_source_and_useless_ones_merge_to_it() -> None:
    rate, precision = merge_sources(
        [[3.0, 0.0], [3.0, 50.0], [0.0, 0.0]], [[0.6, 0.9], [0.6, 0.0], [0.5, 0.5]]
    )
    np.testing.assert_allclose(rate, [3.0, 3.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(precision, [0.6, 0.6, 0.0], rtol=1e-12)


@pytest.mark.slow_without_jit
def test_a_merged_source_is_due_when_all_of_them_are(rng: np.random.Generator) -> None:
    """Two and three sources at four prices: within 2 % at the median, 9 % for nine in ten."""
    errors = []
    for n_sources, share in itertools.product((2, 3), (0.02, 0.1, 0.3, 0.7)):
        gamma = rng.lognormal(0, 1, (100, n_sources))
        p = rng.uniform(0.05, 0.95, (100, n_sources))
        price = share / (1 + (gamma * p).sum(axis=1))
        low, high = np.full(100, 1e-4), np.full(100, 60.0)
        for _ in range(24):
            middle = np.sqrt(low * high)
            below = several_sources_value(1.0, gamma, p, middle) < price
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        due = noisy_due_elapsed(1.0, *merge_sources(gamma, p), price)
        errors.append(np.abs(due / high - 1))
    assert np.median(errors) < 0.02
    assert np.quantile(errors, 0.9) < 0.09


@given(gamma=st.tuples(rates, rates), p=st.tuples(shares, shares))
def test_does_not_depend_on_the_unit_of_time(
    gamma: tuple[float, float], p: tuple[float, float]
) -> None:
    in_seconds, in_days = merge_sources(gamma, p), merge_sources(np.array(gamma) * 86_400, p)
    np.testing.assert_allclose(in_days[0], in_seconds[0] * 86_400, rtol=1e-6)
    np.testing.assert_allclose(in_days[1], in_seconds[1], rtol=1e-6)
