"""The measurements of a cluster with faults run, on few pages; the times are not checked."""

import pytest

from benchmarks import cluster, cluster_restores


@pytest.mark.slow_without_jit
def test_a_cluster_keeps_its_promises_when_a_worker_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = cluster.measure(
        n_faults=1, n_pages=20_000, n_partitions=3, kinds=["worker-kill"], explain_above=0.0
    )
    # A machine that is busy with other tests may be too slow for the budget.
    assert [one for one in found["problems"] if "of the budget was not used" not in one] == []
    assert found["gaps"]
    assert found["n_outcomes"] > 0
    printed = capsys.readouterr().err
    assert "worker-kill of w" in printed
    assert "read from the log" in printed


@pytest.mark.slow_without_jit
def test_a_worker_restores_partitions_that_it_has_no_copy_of() -> None:
    found = cluster_restores.measure(pages=[5_000], n_partitions=3)
    (row,) = found["rows"]
    assert row["partitions_restored"] == 1
    assert row["gigabytes"] > 0
    # Another worker may notice a little before the listener does.
    assert row["seconds_max"] > 0
    assert row["seconds_to_notice"] > 0
