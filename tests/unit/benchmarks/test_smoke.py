"""The benchmarks run at a small scale and show the expected differences."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    audit_coverage,
    backtests,
    cluster_costs,
    exactness,
    fragments,
    kernels,
    learning,
    node_fragments,
    price,
    shard,
    shard_learning,
    siblings,
)
from lab.text_histories import Histories, histories_of_web
from recrawl.core.divergence import Sketches, compare_sketches
from recrawl.sim import Bookkeeper, SiteWide, make_web, simulate
from recrawl.sim.policies.shard_policy import ShardPolicy

ROOT = Path(__file__).parents[3]


@pytest.mark.slow_without_jit
def test_kernels_are_compared_with_plain_code() -> None:
    measured = kernels.measure(scale=0.01)
    assert set(measured) == {"memory_bandwidth_gigabytes_per_second", "kernels"}
    entries = measured["kernels"]
    assert isinstance(entries, list)
    names = {entry["name"] for entry in entries}
    assert set(kernels.SKETCH) <= names
    assert all(entry["million_rows_per_second"] > 0 for entry in entries)


@pytest.mark.slow_without_jit
def test_intervals_of_audited_freshness_contain_the_truth() -> None:
    whole, *parts = audit_coverage.measure(n_webs=16)
    assert whole["n_webs"] == 16
    assert {row["webs"] for row in parts} == {
        "hosts with delays",
        "failing pages and hosts",
        "neither",
    }
    # 13 of 16 or fewer have a chance of 4 %; the webs are always the same.
    assert whole["coverage"] >= 14 / 16
    assert abs(whole["mean_error"]) < 0.03


@pytest.mark.slow_without_jit
def test_averaging_over_belief_beats_plugging_in_and_the_oracle_beats_both() -> None:
    """A scarce budget makes the difference far larger than chance; all webs are the same."""
    row = learning.without_signals(n_webs=2, horizon_share=0.3)[2]
    assert row["plug-in posterior mean"] + 0.01 < row["averaged over belief"] < row["oracle"]


@pytest.mark.slow_without_jit
def test_learned_signals_beat_ignoring_them() -> None:
    row = learning.with_signals(n_webs=1, horizon_share=0.3)[0]
    learned = row["learned, averaged, effective time"]
    assert row["learned, ignoring signals"] + 0.02 < learned < row["oracle"]
    assert learned > row["learned, plug-in"]
    assert learned > 0.95 * row["oracle"]


@pytest.mark.slow_without_jit
def test_at_equal_budgets_the_fragments_objective_has_less_stale_fragments() -> None:
    web = histories_of_web(fragments.simulated_web(0, 60))
    for_freshness = fragments.run(web, 60.0, "freshness")
    for_fragments = fragments.run(web, 60.0, "fragments")
    assert for_fragments.n_fetches == for_freshness.n_fetches == 60 * 60 - 10
    assert for_fragments.of_fragments.sum() < for_freshness.of_fragments.sum()


def sketched_histories(seed: int, n_pages: int) -> tuple[Histories, Sketches]:
    """Return pages that change every other day: even ones are replaced, odd ones lose a word."""
    rng = np.random.default_rng(seed)
    n_versions, n_words = 180, 60
    rows = []
    for page in range(n_pages):
        words = rng.integers(0, 2**32, n_words, dtype=np.uint32)
        for _ in range(n_versions):
            n = n_words if page % 2 == 0 else 1
            words[rng.permutation(n_words)[:n]] = rng.integers(0, 2**32, n, dtype=np.uint32)
            rows.append(np.unique(words))
    sketches = Sketches.of(rows, [row.size for row in rows])
    at = 2 * fragments.DAY * (np.arange(n_versions) + rng.uniform(0, 1, (n_pages, 1)))
    histories = Histories(
        offsets=n_versions * np.arange(n_pages + 1),
        at=np.where(np.arange(n_versions) == 0, 0.0, at).ravel(),
        digest=np.arange(n_pages * n_versions, dtype=np.uint64),
        cluster=np.arange(n_pages),
        ends_at=np.full(n_pages, fragments.YEAR),
        compare=lambda one, other: compare_sketches(sketches, one, other).divergence,
    )
    return histories, sketches


@pytest.mark.slow_without_jit
def test_a_corpus_that_gets_sketches_has_less_stale_fragments(tmp_path: Path) -> None:
    web, sketches = sketched_histories(0, 12)
    for_freshness = node_fragments.run(web, sketches, 120.0, "freshness", tmp_path / "a")
    for_fragments = node_fragments.run(web, sketches, 120.0, "fragments", tmp_path / "b")
    assert for_fragments.n_fetches == for_freshness.n_fetches == 120 * 12 - 10
    assert for_fragments.of_fragments.sum() < 0.95 * for_freshness.of_fragments.sum()


def test_staleness_agrees_with_that_of_the_simulator() -> None:
    web = fragments.simulated_web(1, 8)
    histories = histories_of_web(web)
    rng = np.random.default_rng(0)
    page, at = rng.integers(0, 8, 200), np.sort(rng.uniform(0, fragments.YEAR, 200))
    books = Bookkeeper(web)
    books.record(page, at)
    account = books.close()
    pages = np.concatenate([np.arange(8), page])
    fetched_at = np.concatenate([np.zeros(8), at])
    found = fragments.VersionReader(histories).read(pages, fetched_at)
    staleness = fragments.staleness_of(histories, pages, fetched_at, found)
    wrong = staleness.of_fragments.sum() / staleness.lived.sum()
    stale = staleness.of_pages.sum() / staleness.lived.sum()
    assert wrong == pytest.approx(account.fragment_staleness, rel=1e-9)
    assert stale == pytest.approx(1 - account.freshness, rel=1e-9)


@pytest.mark.slow_without_jit
def test_a_shard_under_load_spends_its_budget_and_is_restored() -> None:
    measured = shard.measure(20_000, 400, 4.0, ticks=8)
    assert measured["orders_per_tick"] == {"min": 4, "mean": 4.0, "max": 4}
    snapshot = measured["snapshot"]
    assert isinstance(snapshot, dict)
    assert snapshot["bytes"] > 20_000 * 70


@pytest.mark.slow_without_jit
def test_the_shard_comes_near_the_oracle_from_a_cold_start() -> None:
    measured = shard_learning.measure(n_webs=1, hours=200.0)
    rows = [*measured["without_signals"], *measured["with_signals"]]
    assert [row["fetches_per_hour"] for row in rows] == [2.0, 5.0, 20.0, 3.0]
    assert all(0.9 < row["ratio"]["mean"] <= 1.01 for row in rows)


@pytest.mark.slow_without_jit
def test_clocks_of_siblings_help_where_whole_sites_change_at_once() -> None:
    """Five sites of 20 pages that change only together, every twenty days: they gain .014."""
    day = 86_400.0
    group = np.repeat(np.arange(5), 20)
    web = make_web(
        3, 300 * day, np.full(100, 1e-12), group=group, site_wide=SiteWide(rate=0.05 / day)
    )
    by_policy = [
        simulate(web, policy, 10 / day, n_per_pick=2)
        for policy in (ShardPolicy(), siblings.SiblingClocks())
    ]
    without, with_clocks = (account.freshness for account in by_policy)
    assert with_clocks > without + 0.005


def test_gains_are_paired_by_host() -> None:
    gain, error = siblings.paired_by_host(np.array([0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3]))
    assert gain == pytest.approx(0.3)
    assert error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow_without_jit
def test_the_shard_loses_little_to_full_precision() -> None:
    row = exactness.measure_loss(300, 3 / 3_600.0, 200 * 3_600.0, 1, 1, "scan")
    assert abs(row["loss"]) < 0.03


def test_all_policies_get_the_same_web() -> None:
    first, second = (learning.signal_web(3, 100.0) for _ in range(2))
    np.testing.assert_array_equal(first.signals.at, second.signals.at)
    np.testing.assert_array_equal(first.changes.at, second.changes.at)


def test_the_command_lists_its_measurements() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in ("exactness", "faults", "fragments", "kernels", "learning", "shard"):
        assert name in shown.stdout


@pytest.mark.slow_without_jit
def test_coverage_of_backtest_intervals_is_counted() -> None:
    found = backtests.measure(1, n_draws=20, n_processes=1)
    assert len(found) == 6
    for coverage in found:
        assert coverage.n_covered + coverage.n_below + coverage.n_above + coverage.n_unknown == 1
        assert 0 < coverage.truth < 0.5


@pytest.mark.slow_without_jit
def test_one_price_is_ahead_of_equal_shares() -> None:
    measured = price.measure(1, n_pages=300, days=20.0, n_runs=3, n_steps=2_000)
    (row,) = measured["freshness"]
    assert row["one_price_over_equal"] > 1.01
    # Shards of 20 pages know too little of their demand to come as near as larger ones do.
    assert row["one_price_over_single"] > 0.95
    assert measured["doubled_seconds"]["max"] < 10
    assert measured["faults"]["n_steps"] >= 2_000


def test_costs_of_workers_broker_and_client_are_measured() -> None:
    found = cluster_costs.measure(pages=[2_000], partitions=[2], workers=[1], n_outcomes=1_000)
    (row,) = found["rows"]
    assert row["log_bytes"] > 16
    assert min(row["worker_cpu_ms"], row["client_cpu_ms"], row["bare_producer_cpu_ms"]) > 0
