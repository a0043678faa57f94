"""All metrics of the service, in one place; docs/reference/metrics.md lists them.

Labels have few values, which the server knows beforehand: never a host, a URL or a key.
"""

from typing import Final, Literal, NamedTuple

__all__ = ["METRICS", "SECONDS_BUCKETS", "MetricRow"]

SECONDS_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper ends of the ranges in which the times of requests are counted."""


class MetricRow(NamedTuple):
    """One metric, as the reference page shows it."""

    name: str
    """Name without the suffixes that Prometheus adds to counters and histograms."""
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    about: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series, which queries use."""
        if self.kind == "counter":
            return (f"{self.name}_total",)
        if self.kind == "histogram":
            return tuple(f"{self.name}_{end}" for end in ("bucket", "count", "sum"))
        return (self.name,)


_C: Final = ("corpus",)

METRICS: Final[dict[str, MetricRow]] = {
    row.name: row
    for row in (
        MetricRow(
            "recrawl_http_requests",
            "counter",
            ("route", "method", "status"),
            "Answered requests; status 499 if the client went away before the answer",
        ),
        MetricRow(
            "recrawl_http_request_seconds",
            "histogram",
            ("route", "method"),
            "Time until the answer began; with ?wait= it includes the waiting",
        ),
        MetricRow(
            "recrawl_http_requests_in_progress", "gauge", (), "Requests that are being answered"
        ),
        MetricRow("recrawl_body_held_bytes", "gauge", (), "Size of the bodies that are held now"),
        MetricRow(
            "recrawl_calls", "gauge", ("corpus", "kind"), "Calls to the corpus that run or wait"
        ),
        MetricRow("recrawl_waiting_leases", "gauge", _C, "Leases that wait for pages to be due"),
        MetricRow("recrawl_waiting_feeds", "gauge", _C, "Requests that wait for changes"),
        MetricRow(
            "recrawl_consumer_kept_used_ratio",
            "gauge",
            _C,
            "Share of the time or number that the change feed keeps, used by the consumer that is "
            "nearest to losing changes; at 1 it may have lost some",
        ),
        MetricRow("recrawl_pages", "gauge", ("corpus", "status"), "Tracked pages"),
        MetricRow(
            "recrawl_freshness_modelled_ratio", "gauge", _C, "Estimated share of fresh copies"
        ),
        MetricRow(
            "recrawl_weighted_freshness_modelled_ratio",
            "gauge",
            _C,
            "Estimated share of fresh copies, weighted by importance",
        ),
        MetricRow("recrawl_audits", "counter", _C, "Randomly chosen copies that were checked"),
        MetricRow("recrawl_audits_fresh", "counter", _C, "Checked copies that were fresh"),
        MetricRow(
            "recrawl_audits_fresh_modelled",
            "counter",
            _C,
            "Checked copies that the model expected to be fresh: sum of their modelled freshness",
        ),
        MetricRow(
            "recrawl_audits_variance",
            "counter",
            _C,
            "Variance of the number of fresh checked copies if the model is right",
        ),
        MetricRow(
            "recrawl_freshness_audited_ratio",
            "gauge",
            _C,
            "Share of checked copies that were fresh, of all so far; absent before the first",
        ),
        MetricRow("recrawl_price", "gauge", _C, "Value that a fetch must reach"),
        MetricRow(
            "recrawl_demand_per_second",
            "gauge",
            _C,
            "Fetches or cost per second that pages would spend at this price; absent before the "
            "first lease",
        ),
        MetricRow(
            "recrawl_budget_per_second",
            "gauge",
            ("corpus", "unit"),
            "Budget in fetches or cost per second; +Inf if unlimited, 0 if it is per run",
        ),
        MetricRow(
            "recrawl_run_budget",
            "gauge",
            ("corpus", "unit"),
            "Budget of each run; absent if it is not per run",
        ),
        MetricRow(
            "recrawl_budget_credit",
            "gauge",
            ("corpus", "unit"),
            "Budget that may be spent at once; +Inf if unlimited",
        ),
        MetricRow("recrawl_due_pages", "gauge", _C, "Pages that are due and wait for a fetcher"),
        MetricRow("recrawl_orders_in_flight", "gauge", _C, "Orders that fetchers hold"),
        MetricRow(
            "recrawl_orders", "counter", _C, "Fetches that were ordered, which is the budget spent"
        ),
        MetricRow(
            "recrawl_outcomes",
            "counter",
            ("corpus", "verdict"),
            "Reported outcomes since the server started",
        ),
        MetricRow("recrawl_polls", "counter", _C, "Outcomes that showed whether a page changed"),
        MetricRow("recrawl_changes", "counter", _C, "Outcomes that showed a change"),
        MetricRow("recrawl_signals", "counter", _C, "Signals that pages may have changed"),
        MetricRow("recrawl_ignored_rows", "counter", _C, "Rows that had no effect"),
        MetricRow(
            "recrawl_snapshot_age_seconds",
            "gauge",
            _C,
            "Age of the last snapshot; absent before the first",
        ),
        MetricRow(
            "recrawl_shared_snapshot_age_seconds",
            "gauge",
            _C,
            "Time since a snapshot was copied to shared storage, or since the partition was opened "
            "if none was, of the partition that waits longest; absent without such storage",
        ),
        MetricRow(
            "recrawl_log_records_since_snapshot",
            "gauge",
            _C,
            "Log records that a restart would replay",
        ),
        MetricRow(
            "recrawl_log_lag_records",
            "gauge",
            _C,
            "Log records of other writers that are not applied yet; absent if the log does not "
            "answer",
        ),
        MetricRow("recrawl_disk_free_bytes", "gauge", _C, "Free space on the disk of the corpus"),
        MetricRow(
            "recrawl_read_only",
            "gauge",
            _C,
            "1 if changes are refused, because the disk is nearly full or a write has failed",
        ),
        MetricRow("recrawl_metrics_age_seconds", "gauge", _C, "Age of the figures of the corpus"),
        MetricRow("recrawl_cluster_partitions", "gauge", _C, "Partitions of the corpus"),
        MetricRow(
            "recrawl_cluster_owned_partitions", "gauge", _C, "Partitions that this worker owns"
        ),
        MetricRow(
            "recrawl_cluster_unowned_partitions",
            "gauge",
            _C,
            "Partitions that no worker owns, as far as this one knows",
        ),
        MetricRow(
            "recrawl_cluster_standbys", "gauge", _C, "Partitions of which this worker has a copy"
        ),
        MetricRow(
            "recrawl_cluster_standby_lag_seconds",
            "gauge",
            _C,
            "Time by which the copy that is furthest behind is behind its log; absent without one",
        ),
        MetricRow(
            "recrawl_cluster_workers",
            "gauge",
            ("corpus", "state"),
            "Workers that this one knows: those that are present, and those that are leaving",
        ),
        MetricRow(
            "recrawl_cluster_placement_frozen",
            "gauge",
            _C,
            "1 if this worker cannot tell who takes part, so that it claims nothing",
        ),
        MetricRow(
            "recrawl_cluster_log_unreadable",
            "gauge",
            _C,
            "1 if a newer version has written records that this worker cannot read",
        ),
        MetricRow(
            "recrawl_cluster_budget_per_second",
            "gauge",
            ("corpus", "unit"),
            "Budget of all workers together; +Inf if unlimited, absent if it is not known",
        ),
        MetricRow(
            "recrawl_cluster_quota_per_second",
            "gauge",
            ("corpus", "unit"),
            "Part of the budget that the partitions of this worker may spend",
        ),
        MetricRow(
            "recrawl_cluster_price",
            "gauge",
            _C,
            "Value that a fetch must reach in every partition; absent if it is not known",
        ),
        MetricRow(
            "recrawl_cluster_forwarded_requests",
            "counter",
            ("corpus", "result"),
            "Requests that this worker sent to others, by how they ended",
        ),
        MetricRow(
            "recrawl_cluster_forwarded_request_seconds",
            "histogram",
            _C,
            "Time until another worker had answered",
        ),
        MetricRow(
            "recrawl_cluster_moves",
            "counter",
            ("corpus", "kind", "result"),
            "Moves of partitions by this worker; lost if another worker claimed the partition",
        ),
    )
}
"""All metrics by name, in the order in which they are shown."""
