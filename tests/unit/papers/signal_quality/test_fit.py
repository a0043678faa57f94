"""Signal quality of a page from its polls, against a maximised likelihood and at the edges."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.papers.signal_quality import SignalFit, SignalledPolls, count_quality, fit_signals
from tests.reference.signals_likelihood import greatest_log_likelihood, log_likelihood

DAY = 86_400.0
some_polls = st.lists(
    st.tuples(st.floats(0.01, 100), st.integers(0, 5), st.booleans()), min_size=2, max_size=12
)


def fit_of(elapsed: object, n_signals: object, changed: object) -> SignalFit:
    return fit_signals(SignalledPolls.of_page(elapsed, n_signals, changed))  # type: ignore[arg-type]


@given(polls=some_polls)
def test_no_other_quality_is_more_likely(polls: list[tuple[float, int, bool]]) -> None:
    """Any polls at all, the maximum inside or on any edge; it always converges."""
    elapsed, n_signals, changed = (np.array(column) for column in zip(*polls, strict=True))
    fit = fit_of(elapsed, n_signals, changed)
    if changed.all():
        assert not fit.converged[0]
        return
    assert fit.converged[0]
    alpha, precision = float(fit.unsignalled_change_rate[0]), float(fit.precision[0])
    assert alpha >= 0
    assert 0 <= precision <= 1
    # The search may stop short of the maximum, never beyond it.
    best = greatest_log_likelihood(elapsed, n_signals, changed)
    assert log_likelihood(alpha, precision, elapsed, n_signals, changed) >= best - 1e-7


def test_drawn_pages_are_fitted_to_their_last_digits(rng: np.random.Generator) -> None:
    """At the maximum both derivatives vanish, or point out of the range."""
    n_pages, n_polls = 300, 40
    alpha = rng.lognormal(0, 1, n_pages)
    gamma, p = rng.lognormal(0, 1, n_pages), rng.uniform(0.05, 0.95, n_pages)
    elapsed = rng.lognormal(0, 1, (n_pages, n_polls))
    signals = rng.poisson(gamma[:, None] * elapsed)
    none = np.exp(-alpha[:, None] * elapsed) * (1 - p[:, None]) ** signals
    changed = rng.random((n_pages, n_polls)) > none
    polls = SignalledPolls(
        np.arange(n_pages + 1) * n_polls,
        elapsed.ravel(),
        signals.ravel().astype(np.float64),
        changed.ravel(),
    )
    fit = fit_signals(polls)
    usable = ~changed.all(axis=1)
    assert fit.converged[usable].all()
    for page in np.flatnonzero(usable):
        x, q = fit.unsignalled_change_rate[page], fit.precision[page]
        t, n, z = elapsed[page], signals[page], changed[page]
        u = x * t - n * np.log1p(-min(q, 1 - 1e-16))
        with np.errstate(over="ignore", divide="ignore"):
            residual = np.where(z, 1 / np.expm1(u), -1.0)
        by_alpha, by_exponent = residual @ t, residual @ n
        assert by_alpha < 1e-6 * t.sum()
        assert by_exponent < 1e-6 * (n.sum() + 1)
        if x > 0:
            assert abs(by_alpha) < 1e-6 * t.sum()
        if 0 < q < 1:
            assert abs(by_exponent) < 1e-6 * (n.sum() + 1)


def test_pages_without_signals_have_the_rate_of_their_polls() -> None:
    """Regular polls: α = -log of the unchanged share."""
    fit = fit_of([DAY] * 10, [0] * 10, [True] * 6 + [False] * 4)
    assert float(fit.unsignalled_change_rate[0] * DAY) == pytest.approx(-np.log(0.4))
    assert fit.precision[0] == 0
    assert fit.converged[0]


def test_signals_that_explain_every_change_leave_no_other() -> None:
    """Three of four signalled intervals changed, no other did: α = 0, precision 3/4."""
    fit = fit_of([1.0] * 9, [1] * 4 + [0] * 5, [1, 1, 1, 0] + [0] * 5)
    assert fit.unsignalled_change_rate[0] == 0
    assert float(fit.precision[0]) == pytest.approx(0.75)
    assert fit.converged[0]


def test_signals_that_are_always_right_have_precision_one() -> None:
    fit = fit_of([1.0] * 8, [1, 2, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0])
    assert float(fit.precision[0]) == pytest.approx(1, abs=1e-8)
    assert float(fit.unsignalled_change_rate[0]) == pytest.approx(-np.log(0.8))
    assert fit.converged[0]


def test_signals_that_announce_nothing_have_precision_zero() -> None:
    """Changes come without them, and they without changes."""
    fit = fit_of([1.0] * 8, [3, 2, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1, 0])
    assert fit.precision[0] == 0
    assert float(fit.unsignalled_change_rate[0]) == pytest.approx(-np.log(0.5))
    assert fit.converged[0]


def test_edge_cases_have_defined_results() -> None:
    """Never changed; always changed; never polled; polled after 0 seconds."""
    polls = SignalledPolls(
        np.array([0, 2, 4, 4, 5]),
        np.array([1.0, 2.0, 1.0, 2.0, 0.0]),
        np.array([0.0, 3.0, 1.0, 0.0, 0.0]),
        np.array([False, False, True, True, True]),
    )
    fit = fit_signals(polls)
    np.testing.assert_array_equal(fit.unsignalled_change_rate, [0, np.inf, 0, 0])
    np.testing.assert_array_equal(fit.precision, [0, 1, 0, 0])
    np.testing.assert_array_equal(fit.converged, [True, False, False, False])


def test_polls_after_0_seconds_without_signals_are_ignored() -> None:
    with_them = fit_of([0.0, 6.0, 0.0, 3.0, 4.0], [0, 1, 0, 0, 0], [True, True, False, True, False])
    without = fit_of([6.0, 3.0, 4.0], [1, 0, 0], [True, True, False])
    np.testing.assert_allclose(with_them[0], without[0], rtol=1e-9)
    np.testing.assert_allclose(with_them[1], without[1], rtol=1e-9)


@given(polls=some_polls)
def test_does_not_depend_on_the_unit_of_time(polls: list[tuple[float, int, bool]]) -> None:
    elapsed, n_signals, changed = (np.array(column) for column in zip(*polls, strict=True))
    in_days, in_seconds = (
        fit_of(elapsed, n_signals, changed),
        fit_of(elapsed * DAY, n_signals, changed),
    )
    here = log_likelihood(
        float(in_days.unsignalled_change_rate[0]),
        float(in_days.precision[0]),
        elapsed,
        n_signals,
        changed,
    )
    there = log_likelihood(
        float(in_seconds.unsignalled_change_rate[0]) * DAY,
        float(in_seconds.precision[0]),
        elapsed,
        n_signals,
        changed,
    )
    assert there == pytest.approx(here, rel=1e-9, abs=1e-9, nan_ok=True)


def test_a_batch_gives_what_its_pages_give_alone(rng: np.random.Generator) -> None:
    sizes = [3, 0, 7, 12]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    elapsed = rng.lognormal(0, 1, offsets[-1])
    signals = rng.poisson(1.0, offsets[-1]).astype(np.float64)
    changed = rng.random(offsets[-1]) < 0.5
    batch = fit_signals(SignalledPolls(offsets, elapsed, signals, changed))
    for page, (first, last) in enumerate(itertools.pairwise(offsets)):
        alone = fit_of(elapsed[first:last], signals[first:last], changed[first:last])
        assert [column[0] for column in alone] == [column[page] for column in batch]


def test_counting_divides_by_intervals_with_a_signal_and_with_a_change() -> None:
    polls = SignalledPolls.of_page([1.0] * 6, [1, 2, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0])
    precision, recall = count_quality(polls)
    np.testing.assert_allclose(precision, [2 / 3])
    np.testing.assert_allclose(recall, [2 / 3])
    nothing = count_quality(SignalledPolls.of_page([1.0], [0], [0]))
    assert np.isnan(nothing).all()
