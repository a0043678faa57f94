"""The benchmarks run, and what they are for shows even at a small scale."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import kernels, learning

ROOT = Path(__file__).parents[3]


@pytest.mark.slow_without_jit
def test_kernels_are_measured_beside_the_plain_way() -> None:
    measured = kernels.measure(scale=0.01)
    assert set(measured) == {"memory_bandwidth_gigabytes_per_second", "kernels"}
    entries = measured["kernels"]
    assert isinstance(entries, list)
    names = {entry["name"] for entry in entries}
    assert set(kernels.SKETCH) <= names
    assert all(entry["million_rows_per_second"] > 0 for entry in entries)


@pytest.mark.slow_without_jit
def test_averaging_over_belief_beats_plugging_in_and_the_oracle_beats_both() -> None:
    """On the same webs; a scarce budget, where the difference is far above chance."""
    row = learning.without_signals(n_webs=2, horizon_share=0.3)[2]
    assert row["plug-in posterior mean"] + 0.01 < row["averaged over belief"] < row["oracle"]


@pytest.mark.slow_without_jit
def test_learned_signals_beat_ignoring_them() -> None:
    row = learning.with_signals(n_webs=1, horizon_share=0.3)[0]
    learned = row["learned, averaged, effective time"]
    assert row["learned, ignoring signals"] + 0.02 < learned < row["oracle"]
    assert learned > row["learned, plug-in"]
    assert learned > 0.95 * row["oracle"]


def test_rivals_see_the_same_web() -> None:
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
    assert "kernels" in shown.stdout
    assert "learning" in shown.stdout
