"""What a cluster costs can be measured."""

from benchmarks import cluster_costs


def test_costs_of_workers_broker_and_client_are_measured() -> None:
    found = cluster_costs.measure(pages=[2_000], partitions=[2], workers=[1], n_outcomes=1_000)
    (row,) = found["rows"]
    assert row["log_bytes"] > 16
    assert min(row["worker_cpu_ms"], row["client_cpu_ms"], row["bare_producer_cpu_ms"]) > 0
