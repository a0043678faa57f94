"""The measurement of the dashboard runs, on a small corpus."""

import pytest

from benchmarks import dashboard


@pytest.mark.slow_without_jit
def test_all_pages_are_opened_while_pages_are_leased() -> None:
    found = dashboard.measure(2_000, seconds=2.0, n_periods=1, n_viewers=1)
    assert {"overview", "live", "plan", "hosts", "kinds", "proof", "page"} <= set(
        found["page_seconds_max"]
    )
    assert all(one["n"] > 0 for one in found["leases"].values())
