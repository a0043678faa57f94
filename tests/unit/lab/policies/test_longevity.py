"""Longevity's policies on snapshots do what the paper says, on pages worked out by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.policies.longevity.corpora import Corpus, lively, simulated_snapshots
from lab.policies.longevity.curves import CostCurve, cost_ratio_rows, draws_of_clusters
from lab.policies.longevity.online import (
    Bounds,
    ChangeRates,
    CurveFit,
    OnlinePolicy,
    WarmUp,
    run_online,
)
from lab.policies.longevity.policies import (
    dynamic_divergence,
    fetched_above,
    fetched_evenly,
    fragment_dynamic_value,
    fragment_static_value,
    holistic_static_value,
    spent_of,
)
from lab.policies.longevity.snapshots import Snapshots, snapshots_of
from lab.text_histories import Counts, Floats, Histories, read_text_histories, smaller
from recrawl.core.divergence import Sketches
from recrawl.core.price import due_elapsed
from recrawl.core.signal_quality import from_recall
from recrawl.papers.change_rate import PollHistories, irregular_change_rate
from recrawl.papers.price import continuous_optimum


def _histories_edited_at(
    times: list[float], *, step: float = 0.1, ends_at: float = 8.0
) -> Histories:
    """Return one page of which every version is ``step`` further from the first."""

    def compare(first: Counts, second: Counts) -> Floats:
        return np.minimum(step * np.abs(second - first), 1.0).astype(np.float64)

    return Histories(
        offsets=np.array([0, len(times)]),
        at=np.array(times),
        digest=np.arange(len(times), dtype=np.uint64),
        cluster=np.array([0]),
        ends_at=np.array([ends_at]),
        compare=compare,
    )


def _steady_snapshots(
    n_snapshots: int, divergence: list[float], *, n_windows: int = 1
) -> Snapshots:
    """Return pages whose divergence depends on the age of the copy alone, linear in between."""
    age = np.arange(n_snapshots)[None, :] - np.arange(n_snapshots)[:, None]
    known = np.array(divergence)
    now = np.where(age > 0, known[np.clip(age, 0, known.size - 1)], 0.0)
    after = known[np.clip(age + 1, 0, known.size - 1)]
    mean = np.triu((now + after) / 2)
    tables = [np.repeat(table[None].astype(np.float32), n_windows, axis=0) for table in (now, mean)]
    differs = tables[0] > 0
    return Snapshots(
        divergence=tables[0],
        differs=differs,
        mean_divergence=tables[1],
        stale_share=differs.astype(np.float32),
        cluster=np.arange(n_windows),
        page=np.arange(n_windows),
    )


def test_changes_between_snapshots_are_counted_in_full() -> None:
    """Versions at 0, 1.5 and 2.25 of snapshots at 0, 1, 2, 3."""
    seen = snapshots_of(
        _histories_edited_at([0.0, 1.5, 2.25], ends_at=4.0), n_snapshots=4, apart_seconds=1.0
    )
    np.testing.assert_allclose(seen.divergence[0, 0], [0, 0, 0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(seen.mean_divergence[0, 0], [0, 0.05, 0.175, 0.2], rtol=1e-6)
    np.testing.assert_allclose(seen.stale_share[0, 0], [0, 0.5, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(seen.mean_divergence[0, 2], [0, 0, 0.075, 0.1], rtol=1e-6)


def test_windows_of_a_page_are_disjoint_and_within_its_observations() -> None:
    seen = snapshots_of(
        _histories_edited_at([0.0, 1.0, 5.0], ends_at=10.0),
        n_snapshots=4,
        apart_seconds=1.0,
        n_windows_max=5,
    )
    # Two windows of 4 in 10: from 2/3 on, and from 5 1/3 on, when the last change is over.
    assert seen.n_windows == 2
    assert seen.is_static.tolist() == [False, True]


def test_a_page_observed_too_briefly_has_no_window() -> None:
    with pytest.raises(ValueError, match="no page was observed"):
        snapshots_of(_histories_edited_at([0.0], ends_at=3.0), n_snapshots=4, apart_seconds=1.0)


def test_the_account_of_a_schedule_agrees_with_one_by_hand() -> None:
    seen = _steady_snapshots(4, [0.0, 0.2, 0.4, 0.6, 0.8])
    fetched = np.array([[False, False, True, False]])
    all_of_it = spent_of(seen, fetched)
    np.testing.assert_allclose(all_of_it.fragment_staleness, [0.1 + 0.3 + 0.1 + 0.3], rtol=1e-6)
    assert (all_of_it.n_fetches[0], all_of_it.n_chances[0]) == (1, 3)
    last_half = spent_of(seen, fetched, first=2)
    np.testing.assert_allclose(last_half.fragment_staleness, [0.4], rtol=1e-6)
    assert (last_half.n_fetches[0], last_half.n_chances[0]) == (1, 2)


def test_uniform_refreshing_gives_all_pages_the_same_share() -> None:
    fetched = fetched_evenly(0.25, 101, np.array([True, True, False]))
    assert fetched.sum(axis=1).tolist() == [25, 25, 0]
    assert not fetched[:, 0].any()


@pytest.mark.parametrize("value_of", [fragment_static_value, fragment_dynamic_value])
def test_a_linear_curve_is_fetched_when_its_triangle_reaches_the_threshold(
    value_of: Callable[..., Any],
) -> None:
    """U = r t² / 2 of D = r t: 2 at t = 10 for r = .04."""
    seen = _steady_snapshots(41, [0.04 * t for t in range(42)])
    fetched = fetched_above(value_of(seen), 2.0 - 1e-4)
    assert np.flatnonzero(fetched[0]).tolist() == [10, 20, 30, 40]


def test_the_static_policy_for_pages_waits_for_the_interval_of_the_core() -> None:
    """A page that differs at every second snapshot has a rate of a half."""
    seen = _steady_snapshots(31, [0.0, 0.0, 1.0])
    k = np.arange(30)
    seen.differs[0, k, k + 1] = k % 2 == 0
    fetched = np.flatnonzero(fetched_above(holistic_static_value(seen), 0.8)[0])
    assert fetched[0] == np.ceil(due_elapsed(0.5, 0.8))


def test_a_threshold_on_divergence_fetches_the_first_copy_beyond_it() -> None:
    seen = _steady_snapshots(11, [0.0, 0.1, 0.2, 0.3, 0.4])
    fetched = np.flatnonzero(fetched_above(dynamic_divergence(seen), 0.25)[0])
    assert fetched.tolist() == [3, 6, 9]


def test_the_price_of_the_optimum_gives_its_fetch_rates() -> None:
    """So a threshold on CGM's value is Cho and Garcia-Molina's optimum at some budget."""
    rate = np.array([0.05, 0.3, 1.0])
    best = continuous_optimum(from_recall(rate, 0.0, 0.0), 0.5)
    np.testing.assert_allclose(1 / due_elapsed(rate, best.price), best.fetch_rate, rtol=1e-5)


def test_a_warm_up_grows_linearly_and_is_the_same_for_all() -> None:
    seen = _steady_snapshots(31, [0.0, 0.0])
    for policy in (CurveFit(learning=np.inf), ChangeRates()):
        fetched = run_online(seen, policy, 1.0, warm_up=WarmUp(first_period=1.0, until=15))
        assert np.flatnonzero(fetched[0]).tolist() == [1, 3, 6, 10, 15]


def _waits_of_change_rates(policy: ChangeRates, changed: list[list[bool]], price: float) -> Floats:
    """Return how long each page waits after polls at 1, 3, 6, 10 and 15, which found this."""
    rows = np.arange(len(changed))
    policy.begin(rows.size, price)
    for k, at in enumerate((1.0, 3.0, 6.0, 10.0, 15.0)):
        seen = np.array([found[k] for found in changed])
        wait = policy.fetched(rows, at, np.zeros((rows.size, 16), np.float32), seen)
    return wait


def test_change_rates_are_the_most_likely_ones_at_unequal_intervals() -> None:
    """A page changed in the intervals of 1 and 2 and not in the others, 12 long in all."""
    (wait,) = _waits_of_change_rates(ChangeRates(), [[True, True, False, False, False]], 1.0)
    polls = PollHistories.of_one_page([1.0, 2.0, 3.0, 4.0, 5.0], [1, 1, 0, 0, 0])
    rate, _ = irregular_change_rate(polls)
    np.testing.assert_allclose(wait, due_elapsed(rate[0], 1.0), rtol=1e-6)


def test_a_page_without_changes_is_never_fetched_or_counts_as_changed_once() -> None:
    changed = [[False] * 5, [True] * 5]
    wait = _waits_of_change_rates(ChangeRates(), changed, 0.1)
    np.testing.assert_allclose(wait, [np.inf, float(due_elapsed(1.0, 0.1))])
    wait = _waits_of_change_rates(ChangeRates(revisits_unchanged=True), changed, 0.1)
    np.testing.assert_allclose(wait, due_elapsed([1 / 15, 1.0], 0.1))


@pytest.mark.parametrize("policy", [CurveFit, Bounds, ChangeRates])
def test_a_price_per_page_is_as_good_as_a_run_at_each_price(
    policy: Callable[[], OnlinePolicy],
) -> None:
    """Pages that change by a tenth a snapshot; the paper weighs a page by T / W."""
    waits = []
    for prices in (np.array([0.5, 2.0]), np.array([0.5]), np.array([2.0])):
        one = policy()
        first = one.begin(prices.size, prices if prices.size > 1 else float(prices[0]))
        rows, n = np.arange(prices.size), 9
        for at in (2, 5, 8):
            apart = np.tile(0.1 * (at - np.arange(n)), (prices.size, 1)).astype(np.float32)
            wait = one.fetched(rows, float(at), apart, np.ones(prices.size, np.bool_))
        waits.append(np.concatenate([first, wait]))
    both, cheap, dear = waits
    np.testing.assert_allclose(both, [cheap[0], dear[0], cheap[1], dear[1]])


def test_curve_fit_follows_a_page_of_its_model_at_the_period_of_its_curve() -> None:
    """A straight line of .04 a snapshot, at a price of 2: a period of 10 once it is known."""
    seen = _steady_snapshots(81, [0.04 * t for t in range(26)])
    fetched = np.flatnonzero(run_online(seen, CurveFit(learning=1.0), 2.0)[0])
    assert np.diff(fetched)[-3:].tolist() == pytest.approx([10, 10, 10], abs=1)


def test_a_page_that_never_differs_is_fetched_only_in_the_learning_phase() -> None:
    seen = _steady_snapshots(31, [0.0, 0.0])
    fetched = np.flatnonzero(run_online(seen, CurveFit(learning=1.0), 1.0)[0])
    assert np.all(np.diff(np.diff(fetched)) == 1)
    assert run_online(seen, CurveFit(), 10.0).sum() == 0


def test_bounds_lengthen_the_period_of_an_unchanged_page_up_to_the_risk() -> None:
    seen = _steady_snapshots(200, [0.0, 0.0])
    fetched = np.flatnonzero(run_online(seen, Bounds(risk=10.0), 2.0)[0])
    assert np.diff(fetched).max() == 20
    assert np.all(np.diff(np.diff(fetched)) >= 0)


def test_a_single_profile_lasts_for_several_observations() -> None:
    seen = _steady_snapshots(60, [0.0] + [0.02 * t for t in range(1, 50)])
    fetched = run_online(seen, CurveFit(n_bases=1, learning=1.0), 0.5)
    # Period √(2 T / r) = 7 once the curve is known.
    assert np.diff(np.flatnonzero(fetched[0]))[-1] in (7, 8)


def test_curves_are_interpolated_between_thresholds() -> None:
    seen = _steady_snapshots(5, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], n_windows=2)
    spent = [
        spent_of(seen, np.zeros((2, 5), np.bool_)),
        spent_of(seen, np.arange(5)[None, :].repeat(2, axis=0) > 0),
    ]
    curve = CostCurve(threshold=np.array([np.inf, 0.0]), spent=spent)
    one = np.ones((1, 2))
    np.testing.assert_allclose(
        curve.staleness_at(np.array([0.0, 0.5, 1.0]), one), [[0.5, 0.3, 0.1]], rtol=1e-6
    )
    np.testing.assert_allclose(curve.cost_at(np.array([0.3]), one), [[0.5]], rtol=1e-6)
    assert np.isnan(curve.cost_at(np.array([0.05]), one)).all()


def test_a_target_that_is_never_reached_needs_infinitely_many_refreshes() -> None:
    seen = _steady_snapshots(5, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], n_windows=2)
    never, always = np.zeros((2, 5), np.bool_), np.tile(np.arange(5) > 0, (2, 1))
    rival = CostCurve(threshold=np.zeros(2), spent=[spent_of(seen, never), spent_of(seen, always)])
    lazy = CostCurve(threshold=np.zeros(1), spent=[spent_of(seen, never)])
    curves = {"lazy": lazy, "rival": rival}
    (row,) = cost_ratio_rows("pages", curves, "lazy", "rival", np.array([0.5]), n_draws=5)
    assert row["ratio"] == row["low"] == row["high"] == np.inf


def test_a_resample_has_as_many_clusters_as_the_data() -> None:
    weight = draws_of_clusters(7, 20)
    assert weight[0].tolist() == [1] * 7
    assert np.all(weight.sum(axis=1) == 7)


def test_simulated_pages_are_static_churn_or_scroll() -> None:
    seen = simulated_snapshots(0, Corpus(n_simulated=60, n_snapshots=10))
    assert seen.n_windows == 60
    assert 0.3 < seen.is_static.mean() < 0.8
    assert np.all(lively(seen).change_share >= 0.1)


def test_versions_without_text_are_not_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "page": pa.array([3, 3, 3, 5], pa.int32()),
            "repo": ["a/a", "a/a", "a/a", "b/b"],
            "time": [10, 20, 30, 5],
            "digest": pa.array([1, 2, 3, 4], pa.uint64()),
            "shingles": [3, 0, 3, 9],
            "sketch": pa.array([[1, 2, 3], [], [1, 2, 4], [5, 6, 7]], pa.list_(pa.uint32())),
        }
    )
    pq.write_table(table, tmp_path / "texts.parquet")
    texts = read_text_histories(tmp_path / "texts.parquet")
    assert texts.offsets.tolist() == [0, 2, 3]
    assert texts.at.tolist() == [10, 30, 5]
    assert texts.cluster.tolist() == [0, 1]
    compare = texts.histories().compare
    np.testing.assert_allclose(compare(np.array([0]), np.array([1])), [0.5])
    assert texts.of_pages(np.array([1])).sketches.hashes.tolist() == [5, 6, 7]


def test_smaller_sketches_keep_the_smallest_hashes() -> None:
    sketches = Sketches.of([[2, 5, 9], [1]], n_fragments=[20, 1])
    kept = smaller(sketches, 2)
    assert kept.hashes.tolist() == [2, 5, 1]
    assert kept.n_fragments.tolist() == [20, 1]
    with pytest.raises(ValueError, match="size must be at least 1"):
        smaller(sketches, 0)
