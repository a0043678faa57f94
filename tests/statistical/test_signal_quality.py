"""Learned precision and recall of sources, compared with the truth of simulated sites."""

import numpy as np
import pytest

from benchmarks.signal_quality import count_until_halved, quality_errors

pytestmark = pytest.mark.slow_without_jit


def test_precision_and_recall_are_learned_with_their_uncertainty() -> None:
    """24 sources.  The benchmark `signal-quality` has the figures of many more."""
    found = quality_errors(1, 24, days=300.0, per_page_day=0.4)
    is_many = found["n_judged"] >= 250
    assert is_many.sum() >= 5
    for name in ("precision", "recall"):
        error = np.abs(found[f"learned_{name}"] - found[name])
        # A perfect estimate from 250 signals has a standard deviation of up to 0.032.
        assert np.sqrt((error[is_many] ** 2).mean()) < 0.05
        is_covered = (found[f"{name}_low"] <= found[name]) & (found[name] <= found[f"{name}_high"])
        assert is_covered.mean() > 0.7


def test_a_source_that_starts_to_lie_loses_its_weight_within_20_judged_signals() -> None:
    counts = count_until_halved(1, 16, 0.9, days=300.0, per_page_day=0.4)
    assert np.median(counts) <= 20
