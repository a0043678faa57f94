"""Estimate savings from curves, with bootstrap intervals."""

import numpy as np
import pytest

from recrawl.backtest.policy_runs import Point, PolicyRuns
from recrawl.backtest.savings import (
    best_of,
    curves_of,
    draws_of,
    estimate_of,
    fetches_for,
    freshness_at,
)


def power_law(name: str, factor: float, n_pages: int = 50) -> PolicyRuns:
    """Return points at which the stale share is ``factor`` over the fetches of a page."""
    fetches = np.array([2, 4, 8, 16, 32])
    points = tuple(
        Point(np.full(n_pages, n), np.full(n_pages, 100.0 * (1 - factor / n))) for n in fetches
    )
    return PolicyRuns(name=name, points=points)


def curves(runs: PolicyRuns, n_pages: int = 50, n_draws: int = 20):  # type: ignore[no-untyped-def]
    draws = draws_of(np.arange(n_pages), n_draws=n_draws)
    return curves_of(runs, importance=np.ones(n_pages), seconds=100.0, draws=draws)


def test_fetches_and_freshness_invert_each_other_along_a_power_law() -> None:
    found = curves(power_law("ours", 1.0))
    freshness = np.full(21, 0.9)
    needed = fetches_for(found, freshness)
    assert needed[0] == pytest.approx(50 * 10)
    assert freshness_at(found, needed) == pytest.approx(freshness)


def test_estimates_outside_the_runs_are_nan() -> None:
    found = curves(power_law("ours", 1.0))
    assert np.isnan(fetches_for(found, np.full(21, 0.999))).all()
    assert np.isnan(freshness_at(found, np.full(21, 10.0))).all()


def test_a_policy_twice_as_good_saves_half() -> None:
    wanted = np.full(21, 0.8)
    ours = fetches_for(curves(power_law("ours", 1.0)), wanted)
    theirs = fetches_for(curves(power_law("theirs", 2.0)), wanted)
    savings = estimate_of(1 - ours / theirs)
    assert (savings.value, savings.low, savings.high) == pytest.approx((0.5, 0.5, 0.5))


def test_points_worse_than_cheaper_ones_are_ignored() -> None:
    good = power_law("ours", 1.0)
    bad = Point(np.full(50, 9), np.full(50, 10.0))
    both = PolicyRuns(name="ours", points=(bad, *good.points))
    wanted = np.full(21, 0.9)
    assert fetches_for(curves(both), wanted) == pytest.approx(fetches_for(curves(good), wanted))


def test_the_best_policy_is_the_one_with_the_fewest_fetches() -> None:
    nan = np.nan
    assert best_of([np.array([3.0, nan, nan]), np.array([2.0, 5.0, nan])])[:2].tolist() == [2, 5]


def test_an_estimate_with_many_nan_samples_is_unknown() -> None:
    draws = np.concatenate([[0.5], np.full(90, 0.5), np.full(10, np.nan)])
    assert not estimate_of(draws).is_known
    assert estimate_of(np.concatenate([[0.5], np.full(100, 0.5)])).is_known


def test_whole_hosts_are_sampled_if_there_are_many() -> None:
    host = np.repeat(np.arange(60), 5)
    draws = draws_of(host, n_draws=10)
    assert draws[0].tolist() == [1.0] * 300
    for row in draws[1:]:
        assert (row.reshape(60, 5).std(axis=1) == 0).all()
    few = draws_of(np.repeat(np.arange(3), 100), n_draws=10)
    assert (few[1].reshape(3, 100).std(axis=1) > 0).all()
    assert few.sum(axis=1) == pytest.approx(300)


def test_freshness_is_weighted_by_importance() -> None:
    point = Point(np.array([1, 1]), np.array([100.0, 0.0]))
    found = curves_of(
        PolicyRuns(name="x", points=(point,)),
        importance=np.array([3.0, 1.0]),
        seconds=100.0,
        draws=np.ones((1, 2), np.float32),
    )
    assert found.freshness[0, 0] == pytest.approx(0.75)


def test_settings_are_mixed_if_that_needs_fewer_fetches() -> None:
    ends = (Point(np.full(50, 2), np.full(50, 50.0)), Point(np.full(50, 32), np.full(50, 97.0)))
    poor = Point(np.full(50, 30), np.full(50, 55.0))
    wanted = np.full(21, 0.9)
    alone = fetches_for(curves(PolicyRuns(name="x", points=(*ends, poor))), wanted)
    mixed = fetches_for(curves(PolicyRuns(name="x", points=(*ends, poor), is_tuned=True)), wanted)
    # Some pages at 32 fetches, the others at 2, so that .9 comes out.
    share = (0.9 - 0.5) / (0.97 - 0.5)
    assert mixed[0] == pytest.approx(50 * (2 + share * 30), rel=0.01)
    assert mixed[0] < alone[0]


def test_samples_without_any_important_page_are_nan() -> None:
    point = Point(np.array([1, 1]), np.array([100.0, 50.0]))
    draws = np.array([[1, 1], [0, 2]], np.float32)
    for is_tuned in (False, True):
        found = curves_of(
            PolicyRuns(name="x", points=(point,), is_tuned=is_tuned),
            importance=np.array([1.0, 0.0]),
            seconds=100.0,
            draws=draws,
        )
        assert np.isnan(fetches_for(found, np.full(2, 0.5))[1])
