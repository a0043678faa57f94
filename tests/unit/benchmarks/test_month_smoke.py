"""The measurement of the month runs at a small scale: two days of 500 pages."""

import pytest

from benchmarks import month


@pytest.mark.slow_without_jit
def test_two_days_are_polite_and_survive_bad_answers() -> None:
    (row,) = month.measure(
        n_hosts=60, n_pages=500, n_days=2.0, days_per_fetch=[2.0], switches=(), seed=1
    )
    assert row["n_violations"] == 0, row["violations"]
    assert row["false_change_ratio"] <= 0.02
    # In two days most pages are fetched once, so this says nothing about what was learned.
    assert row["ratio_of_oracle"] > 0.4
    assert row["n_bad_answers"] > 0
    assert row["n_documents"] > 0
    assert row["n_files"] > 200
