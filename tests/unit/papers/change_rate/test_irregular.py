"""The most likely rate from irregular polls, against a maximised likelihood and its laws."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.papers.change_rate import (
    PollHistories,
    PseudoObservations,
    irregular_change_rate,
    irregular_relative_error,
    substitute_edges,
)
from tests.reference.polls_likelihood import log_likelihood, most_likely_rate

HOUR, DAY = 3_600.0, 86_400.0
durations = st.floats(1.0, 1e8)
mixed_polls = st.tuples(
    st.lists(durations, min_size=1, max_size=12), st.lists(durations, min_size=1, max_size=12)
)


def history(changed: list[float], unchanged: list[float]) -> PollHistories:
    found = [True] * len(changed) + [False] * len(unchanged)
    return PollHistories.of_one_page([*changed, *unchanged], found)


def rate_of(changed: list[float], unchanged: list[float]) -> float:
    rate, converged = irregular_change_rate(history(changed, unchanged))
    assert converged.all()
    return float(rate[0])


def test_four_polls_in_twenty_hours() -> None:
    """CGM Example 5: changed after 6 h and 3 h, unchanged after 4 h and 7 h."""
    rate = rate_of([6 * HOUR, 3 * HOUR], [4 * HOUR, 7 * HOUR])
    assert rate * 20 * HOUR == pytest.approx(2.67, abs=5e-3)


def test_a_cached_page_seen_on_four_days() -> None:
    """CGM Example 2: changes on days 2 and 7 of 1, 2, 7, 10; every 2.6 days, not every 5."""
    rate = rate_of([1 * DAY, 5 * DAY], [3 * DAY])
    assert rate * DAY == pytest.approx(0.38358, abs=5e-6)
    assert rate * DAY == pytest.approx(most_likely_rate([1, 5, 3], [True, True, False]), rel=1e-6)


@given(polls=mixed_polls)
def test_no_other_rate_is_more_likely(polls: tuple[list[float], list[float]]) -> None:
    changed, unchanged = polls
    elapsed, found = [*changed, *unchanged], [True] * len(changed) + [False] * len(unchanged)
    rate = rate_of(changed, unchanged)
    assert rate == pytest.approx(most_likely_rate(elapsed, found), rel=1e-4)
    here = log_likelihood(rate, elapsed, found)
    for other in (rate * 0.99, rate * 1.01):
        assert here >= log_likelihood(other, elapsed, found)


@given(
    changed=st.lists(st.floats(0, 12), min_size=1, max_size=60),
    unchanged=st.floats(-9, 12),
)
def test_solves_equation_2_for_any_mixture_of_times(changed: list[float], unchanged: float) -> None:
    """Intervals from a second to 30 000 years beside each other, to 1e-12."""
    intervals = [10**t for t in changed]
    rate = rate_of(intervals, [10**unchanged])
    with mpmath.workdps(40):
        bound = mpmath.mpf(10**unchanged)
        low, high = (
            mpmath.fsum(
                mpmath.mpf(t) / mpmath.expm1(mpmath.mpf(rate) * factor * t) for t in intervals
            )
            for factor in (1 - mpmath.mpf(1e-12), 1 + mpmath.mpf(1e-12))
        )
    assert low >= bound >= high


def test_regular_polls_give_the_closed_form() -> None:
    """CGM §4.3: -log(X̄ / n) when all intervals are alike."""
    for n, x in ((2, 1), (10, 6), (500, 499), (500, 1)):
        rate = rate_of([DAY] * x, [DAY] * (n - x))
        assert rate * DAY == pytest.approx(-math.log((n - x) / n), rel=1e-12)


def test_the_edges_are_named_and_substituted() -> None:
    histories = PollHistories.from_rows(
        [0, 0, 1, 1, 3, 3], [30, 70, 20, 50, 10, 10], [0, 0, 1, 1, 1, 0], n_pages=4
    )
    rate, converged = irregular_change_rate(histories)
    np.testing.assert_allclose(rate, [0, np.inf, np.nan, math.log(2) / 10])
    np.testing.assert_array_equal(converged, [True, True, False, True])
    period = 1 / substitute_edges(histories, rate)
    np.testing.assert_allclose(period, [100, 20, np.nan, 10 / math.log(2)])


def test_a_search_cut_short_says_so() -> None:
    histories = history([1.0, 1e6, 1e9], [1e3])
    assert not irregular_change_rate(histories, n_steps_max=1).converged.any()
    assert irregular_change_rate(histories).converged.all()


def test_polls_of_no_time_show_nothing() -> None:
    with_them = history([0.0, 6.0, 0.0, 3.0], [4.0, 0.0, 7.0])
    without = history([6.0, 3.0], [4.0, 7.0])
    assert irregular_change_rate(with_them)[0] == irregular_change_rate(without)[0]
    only = PollHistories.from_rows([0, 1], [0.0, 0.0], [True, False], n_pages=2)
    assert np.isnan(irregular_change_rate(only).change_rate).all()


def test_pseudo_observations_are_two_more_polls() -> None:
    pseudo = PseudoObservations(changed_after=1.0, unchanged_after=57.0)
    histories = PollHistories.from_rows([0, 0, 1, 2], [5, 9, 7, 30], [1, 0, 1, 0], n_pages=4)
    rate, converged = irregular_change_rate(histories, pseudo=pseudo)
    assert converged.all()
    assert rate[0] == pytest.approx(rate_of([1, 5], [57, 9]))
    assert rate[1] == pytest.approx(rate_of([1, 7], [57]))
    assert rate[2] == pytest.approx(rate_of([1], [57, 30]))
    assert rate[3] == pytest.approx(pseudo.mode_rate, rel=1e-12)
    error = irregular_relative_error(histories, rate, pseudo=pseudo)
    longer = history([1, 5], [57, 9])
    assert error[0] == pytest.approx(irregular_relative_error(longer, rate[:1])[0])


@given(polls=mixed_polls)
def test_does_not_depend_on_the_unit_of_time(polls: tuple[list[float], list[float]]) -> None:
    changed, unchanged = polls
    in_days = rate_of([t / DAY for t in changed], [t / DAY for t in unchanged])
    assert in_days == pytest.approx(rate_of(changed, unchanged) * DAY, rel=1e-10)


@given(polls=mixed_polls, more=durations)
def test_an_unchanged_poll_lowers_and_a_changed_one_raises_the_rate(
    polls: tuple[list[float], list[float]], more: float
) -> None:
    changed, unchanged = polls
    rate = rate_of(changed, unchanged)
    assert rate_of(changed, [*unchanged, more]) < rate
    assert rate_of([*changed, more], unchanged) >= rate * (1 - 1e-12)


@given(pages=st.lists(mixed_polls, min_size=1, max_size=5))
def test_a_batch_gives_what_its_pages_give_alone(
    pages: list[tuple[list[float], list[float]]],
) -> None:
    rows = [row for row, page in enumerate(pages) for half in page for _ in half]
    elapsed = [t for page in pages for half in page for t in half]
    found = [k == 0 for page in pages for k, half in enumerate(page) for _ in half]
    histories = PollHistories.from_rows(rows, elapsed, found, n_pages=len(pages))
    rate, _ = irregular_change_rate(histories)
    assert list(rate) == [rate_of(*page) for page in pages]


def test_a_loose_tolerance_is_loose_only_about_the_last_step(rng: np.random.Generator) -> None:
    """Steps shrink to the third power: a step of 1e-4 leaves an error far below it."""
    n_pages, n_polls = 2_000, 10
    elapsed = rng.lognormal(0, 1.5, (n_pages, n_polls))
    changed = rng.random((n_pages, n_polls)) < -np.expm1(-elapsed)
    histories = PollHistories(elapsed.ravel(), changed.ravel(), np.arange(n_pages + 1) * n_polls)
    pseudo = PseudoObservations(changed_after=0.1, unchanged_after=1.0)
    loose, tight = (
        irregular_change_rate(histories, pseudo=pseudo, tolerance=tolerance)
        for tolerance in (1e-4, 1e-12)
    )
    assert loose.converged.all()
    np.testing.assert_allclose(loose.change_rate, tight.change_rate, rtol=1e-10)


def test_the_error_is_that_of_many_polls(rng: np.random.Generator) -> None:
    """CGM §4.3, reason 2: at Poisson polls the estimate is consistent.

    Log rates of 400 pages of 500 polls scatter by the stated error: the mean of the squares of
    400 standard normals is within 5 standard errors, sqrt(2 / 400), of 1 (fails 1 in 1.7
    million), allowing 2 % for what 500 polls are not infinitely many.
    """
    n_pages, n_polls, true_rate = 400, 500, 0.7
    elapsed = rng.exponential(1.0, (n_pages, n_polls))
    changed = rng.random((n_pages, n_polls)) < -np.expm1(-true_rate * elapsed)
    histories = PollHistories(elapsed.ravel(), changed.ravel(), np.arange(n_pages + 1) * n_polls)
    rate, _ = irregular_change_rate(histories)
    z = np.log(rate / true_rate) / irregular_relative_error(histories, rate)
    assert abs(np.mean(z**2) - 1) < 5 * math.sqrt(2 / n_pages) + 0.02
    assert abs(z.mean()) < 5 / math.sqrt(n_pages) + 0.05


def test_the_error_is_the_curvature_of_the_expected_likelihood() -> None:
    elapsed, rate = [0.2, 1.0, 3.0], 0.8
    histories = PollHistories.of_one_page(elapsed, [True, False, True])

    def expected_log_likelihood(log_rate: float) -> float:
        total = 0.0
        for t in elapsed:
            chance = -math.expm1(-rate * t)
            for found, weight in ((True, chance), (False, 1 - chance)):
                total += weight * log_likelihood(math.exp(log_rate), [t], [found])
        return total

    step, centre = 1e-4, math.log(rate)
    curvature = (
        expected_log_likelihood(centre + step)
        - 2 * expected_log_likelihood(centre)
        + expected_log_likelihood(centre - step)
    ) / step**2
    error = irregular_relative_error(histories, [rate])
    assert error[0] == pytest.approx(1 / math.sqrt(-curvature), rel=1e-5)


def test_nothing_can_be_said_of_an_edge() -> None:
    histories = PollHistories.from_rows([0, 1], [5.0, 5.0], [False, True], n_pages=3)
    rate, _ = irregular_change_rate(histories)
    assert np.isinf(irregular_relative_error(histories, rate)).all()


def test_a_tolerance_below_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="tolerance must be at least 1e-14, got 1e-16"):
        irregular_change_rate(history([1.0], [1.0]), tolerance=1e-16)
