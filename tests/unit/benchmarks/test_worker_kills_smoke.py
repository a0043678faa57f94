"""A short run of the measurement that kills workers of a shared corpus and their server."""

import pytest

from benchmarks import worker_kills


@pytest.mark.slow
def test_killed_workers_hurry_no_host_and_fetch_no_page_twice() -> None:
    found = worker_kills.measure(4, n_hosts=4, n_pages=20, work_seconds_max=1.0)
    assert found["n_killed"] == {"worker": 3, "server": 1}
    assert found["n_outcomes"] > 0
    assert worker_kills.find_faults(found) == [], found
