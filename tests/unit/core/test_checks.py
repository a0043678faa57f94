"""Wrong input is refused with a reason; it never reaches a kernel that indexes by it."""

from collections.abc import Callable

import numpy as np
import pytest

from recrawl.core.belief import (
    GammaBelief,
    PopulationPrior,
    after_poll,
    after_polls,
    encode_beliefs,
    observe_stored_polls,
    rate_likelihoods,
)
from recrawl.core.signal_quality import (
    DelayLearner,
    PrecisionLearner,
    SignalRates,
    SourceCounts,
    SourceDelays,
)
from recrawl.core.value import crawl_value
from recrawl.papers.price import continuous_optimum, price_of_budget

DAY = 86_400.0
BELIEF = GammaBelief.of(np.full(2, 0.5), np.full(2, 10 * DAY))


def stored(rows: list[int], elapsed: list[float]) -> None:
    observe_stored_polls(
        encode_beliefs(BELIEF, [0, 1], 0), rows, elapsed, [True] * len(rows), 1.0, 0
    )


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: rate_likelihoods([0, 5_000_000], [DAY, DAY], [1, 0], 2, [1 / DAY]), "rows"),
        (lambda: rate_likelihoods([0, -5], [DAY, DAY], [1, 0], 2, [1 / DAY]), "rows"),
        (lambda: rate_likelihoods([0, 1], [DAY], [1], 2, [1 / DAY]), "equal lengths"),
        (lambda: rate_likelihoods([0], [np.nan], [1], 1, [1 / DAY]), "finite"),
        (lambda: PopulationPrior().fit([0, 1], [DAY, DAY], [1, 0], kind=[0]), "rows"),
        (lambda: PopulationPrior().fit([0, 1], [DAY, DAY], [1, 0], kind=[]), "kind"),
        (lambda: PopulationPrior().fit([0, 1], [DAY, DAY], [1, 0], kind=[0, -1]), "kind"),
        (lambda: stored([10**10], [DAY]), "rows"),
        (lambda: stored([0, 1], [DAY]), "equal lengths"),
        (lambda: after_polls(BELIEF, [2], [DAY], [True]), "rows"),
        (lambda: after_poll(BELIEF, -DAY, True), "elapsed"),
        (lambda: after_poll(BELIEF, np.nan, False), "elapsed"),
        (lambda: after_poll(BELIEF, DAY, True, 2.0), "false_chance"),
        (lambda: GammaBelief.of(-1.0, DAY), "positive"),
        (
            lambda: PrecisionLearner().observe(
                SourceCounts.zeros(1), 99_999_999, BELIEF, DAY, 1, True
            ),
            "rows",
        ),
        (lambda: DelayLearner().observe(SourceDelays.zeros(1), [-1], [5.0]), "rows"),
        (lambda: continuous_optimum(SignalRates.of([1.0, np.inf], 0.0, 0.0), 1.0), "finite"),
        (lambda: continuous_optimum(SignalRates.of([1.0, np.nan], 0.0, 0.0), 1.0), "finite"),
        (lambda: continuous_optimum(SignalRates.of([1.0, 1.0], 0.0, 0.0), -1.0), "fetch_budget"),
        (lambda: continuous_optimum(SignalRates.of([1.0], 0.0, 0.0), 1.0, cost=0.0), "cost"),
        (lambda: price_of_budget(BELIEF, 0.0), "fetch_budget"),
    ],
)
def test_is_refused_with_a_reason(wrong: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        wrong()


def test_a_difference_of_dates_is_not_a_number_of_seconds() -> None:
    with pytest.raises(TypeError, match="seconds"):
        crawl_value(1 / DAY, np.array([1, 2], "m8[D]"))


def test_a_poll_after_0_seconds_changes_nothing() -> None:
    np.testing.assert_array_equal(after_poll(BELIEF, 0.0, True), BELIEF)
    np.testing.assert_array_equal(after_polls(BELIEF, [0, 1], [0.0, 0.0], [True, False]), BELIEF)
    assert not rate_likelihoods([0, 0], [0.0, 0.0], [True, False], 1, [1 / DAY]).any()


def test_a_log_of_polls_equals_its_polls_in_turn() -> None:
    rows, elapsed, changed = [0, 1, 0, 0], [DAY, 2 * DAY, 5 * DAY, DAY], [True, False, False, True]
    expected = BELIEF
    for row, after, found in zip(rows, elapsed, changed, strict=True):
        polled = np.arange(2) == row
        next_belief = after_poll(expected, after, found)
        expected = GammaBelief(
            *(np.where(polled, new, old) for new, old in zip(next_belief, expected, strict=True))
        )
    found_belief = after_polls(BELIEF, rows, elapsed, changed)
    np.testing.assert_allclose(found_belief, expected, rtol=1e-14)


def test_a_single_kind_gets_the_prior_of_the_whole() -> None:
    polls = ([0, 0, 1, 2], [DAY] * 4, [True, False, False, True])
    one, named = PopulationPrior().fit(*polls), PopulationPrior().fit(*polls, kind=[0, 0, 0])
    np.testing.assert_array_equal(one, named)


def test_no_budget_buys_nothing_whatever_the_scale() -> None:
    best = continuous_optimum(SignalRates.of([1 / DAY, 2 / DAY], 0.0, 0.0), 0.0)
    assert not best.fetch_rate.any()
    assert best.converged
