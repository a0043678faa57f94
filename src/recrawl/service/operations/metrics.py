"""Metrics in the text formats of Prometheus and OpenMetrics.

A scrape reads counters of the server and the last figures of each corpus, which a thread of their
own reads every few seconds; so it waits for no call to a corpus.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from recrawl.corpus import CorpusMetrics
from recrawl.messages.cluster_metrics import ClusterMetrics
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.hosting.metrics_cache import ReadMetrics
from recrawl.service.operations.metric_list import METRICS, SECONDS_BUCKETS

__all__ = ["ServerMetrics"]


class _Value(NamedTuple):
    name: str
    value: float | None
    """None for a series that is absent."""
    labels: tuple[str, ...] = ()
    """Values of the labels after the name of the corpus."""


class _Collected:
    """The metrics of one scrape, with the method of a registry that the encoder calls."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class ServerMetrics:
    """Counters of a server; each server of a process has its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        row = METRICS["recrawl_http_requests"]
        self._requests = Counter(row.name, row.about, row.labels, registry=self._registry)
        row = METRICS["recrawl_http_request_seconds"]
        self._seconds = Histogram(
            row.name, row.about, row.labels, buckets=SECONDS_BUCKETS, registry=self._registry
        )
        row = METRICS["recrawl_http_requests_in_progress"]
        self._in_progress = Gauge(row.name, row.about, registry=self._registry)
        row = METRICS["recrawl_body_held_bytes"]
        self._held_bytes = Gauge(row.name, row.about, registry=self._registry)

        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def begin_request(self) -> None:
        """Count a request that has arrived."""
        self._in_progress.inc()

    def end_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered.

        Parameters
        ----------
        route
            Path of the route, with the names of its parameters instead of their values.
        method
            Method of the request.
        status
            Status of the answer.
        seconds
            Time until the answer began.
        """
        self._in_progress.dec()
        series = self._series.get((route, method, status))
        if series is None:
            # Few combinations exist, and looking up a series by its labels takes longer.
            series = self._series[route, method, status] = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route, method),
            )
        series[0].inc()
        series[1].observe(seconds)

    def encode(
        self,
        corpora: Sequence[tuple[HostedCorpus, ReadMetrics | None]],
        *,
        n_bytes_held: int,
        accept: str,
    ) -> tuple[bytes, str]:
        """Return all metrics as text, and the media type of the text.

        Parameters
        ----------
        corpora
            Corpora that the client may read, with their last figures.
        n_bytes_held
            Size of the bodies that the server holds now.
        accept
            Formats that the client accepts.
        """
        self._held_bytes.set(n_bytes_held)
        encode, media_type = choose_encoder(accept)
        own = list(self._registry.collect())
        return encode(_Collected([*own, *_corpus_metrics(corpora)])), media_type


def _corpus_metrics(
    corpora: Sequence[tuple[HostedCorpus, ReadMetrics | None]],
) -> Iterator[Metric]:
    found: dict[str, Metric] = {}
    for hosted, read in corpora:
        values = list(_queue_values(hosted))
        if read is not None:
            if read.metrics is not None:
                values += _figure_values(read.metrics)
            if read.cluster is not None:
                values += _cluster_values(read.cluster)
                yield from _cluster_histograms(hosted.name, read.cluster)
            values.append(_Value("recrawl_metrics_age_seconds", time.monotonic() - read.read_at))
        for name, value, labels in values:
            row = METRICS[name]
            if value is None:
                continue
            if name not in found:
                family = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
                found[name] = family(name, row.about, labels=row.labels)
            found[name].add_metric([hosted.name, *labels], value)  # type: ignore[attr-defined]
    yield from found.values()


def _queue_values(hosted: HostedCorpus) -> Iterator[_Value]:
    for kind, n_calls in hosted.n_calls().items():
        yield _Value("recrawl_calls", n_calls, (kind,))
    yield _Value("recrawl_waiting_leases", hosted.leases.n_waiting)
    yield _Value("recrawl_waiting_feeds", hosted.feed.n_waiting)
    yield _Value("recrawl_consumer_kept_used_ratio", hosted.consumers.kept_used_max)
    yield _Value("recrawl_disk_free_bytes", hosted.guard.n_bytes_free)
    yield _Value("recrawl_read_only", hosted.guard.is_read_only)


def _figure_values(of: CorpusMetrics) -> Iterator[_Value]:
    for status, n_pages in of.pages_by_status.items():
        yield _Value("recrawl_pages", n_pages, (status,))
    yield _Value("recrawl_freshness_modelled_ratio", of.freshness_modelled)
    yield _Value("recrawl_weighted_freshness_modelled_ratio", of.weighted_freshness_modelled)
    yield _Value("recrawl_audits", of.n_audited)
    yield _Value("recrawl_audits_fresh", of.n_audited_fresh)
    yield _Value("recrawl_audits_fresh_modelled", of.audited_modelled)
    yield _Value("recrawl_audits_variance", of.audited_variance)
    audited = of.n_audited_fresh / of.n_audited if of.n_audited else None
    yield _Value("recrawl_freshness_audited_ratio", audited)
    yield _Value("recrawl_price", of.price)
    yield _Value("recrawl_demand_per_second", of.demand_per_second)
    yield _Value("recrawl_budget_per_second", _or_inf(of.budget_per_second), (of.budget_unit,))
    yield _Value("recrawl_run_budget", of.run_budget, (of.budget_unit,))
    yield _Value("recrawl_budget_credit", _or_inf(of.credit), (of.budget_unit,))
    yield _Value("recrawl_due_pages", of.n_due)
    yield _Value("recrawl_orders_in_flight", of.in_flight)
    yield _Value("recrawl_orders", of.n_ordered)
    for verdict, n_outcomes in of.outcomes_by_verdict.items():
        yield _Value("recrawl_outcomes", n_outcomes, (verdict,))
    yield _Value("recrawl_polls", of.n_polls)
    yield _Value("recrawl_changes", of.n_changed)
    yield _Value("recrawl_signals", of.n_signals)
    yield _Value("recrawl_ignored_rows", of.n_void)
    yield _Value("recrawl_snapshot_age_seconds", of.snapshot_age_seconds)
    yield _Value("recrawl_shared_snapshot_age_seconds", of.shared_snapshot_age_seconds)
    yield _Value("recrawl_log_records_since_snapshot", of.n_records_since_snapshot)
    yield _Value("recrawl_log_lag_records", of.log_lag_records)


def _cluster_values(of: ClusterMetrics) -> Iterator[_Value]:
    yield _Value("recrawl_cluster_partitions", of.n_partitions)
    yield _Value("recrawl_cluster_owned_partitions", of.n_owned)
    yield _Value("recrawl_cluster_unowned_partitions", of.n_unowned)
    yield _Value("recrawl_cluster_standbys", of.n_standbys)
    yield _Value("recrawl_cluster_standby_lag_seconds", of.standby_lag_seconds)
    for state, n_workers in of.workers_by_state.items():
        yield _Value("recrawl_cluster_workers", n_workers, (state,))
    yield _Value("recrawl_cluster_placement_frozen", of.is_frozen)
    yield _Value("recrawl_cluster_log_unreadable", not of.reads_log)
    unit = (of.budget_unit,)
    yield _Value("recrawl_cluster_budget_per_second", of.budget_per_second, unit)
    yield _Value("recrawl_cluster_quota_per_second", of.quota_per_second, unit)
    yield _Value("recrawl_cluster_price", of.price)
    for result, n_calls in of.calls_by_result.items():
        yield _Value("recrawl_cluster_forwarded_requests", n_calls, (result,))
    for kind, result, n_moves in of.moves:
        yield _Value("recrawl_cluster_moves", n_moves, (kind, result))


def _cluster_histograms(corpus: str, of: ClusterMetrics) -> Iterator[Metric]:
    if of.call_seconds is None:
        return
    row = METRICS["recrawl_cluster_forwarded_request_seconds"]
    family = HistogramMetricFamily(row.name, row.about, labels=row.labels)
    buckets = [("+Inf" if end == math.inf else repr(end), n) for end, n in of.call_seconds.n_up_to]
    family.add_metric([corpus], buckets, of.call_seconds.sum_seconds)
    yield family


def _or_inf(amount: float | None) -> float:
    return math.inf if amount is None else amount
