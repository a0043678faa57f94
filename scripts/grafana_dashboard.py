"""Write the Grafana dashboard of the service.

``python -m scripts.grafana_dashboard`` writes deploy/grafana/recrawl.json; ``--check`` only says
whether it is up to date.
"""

import json
import sys
from typing import Any, NamedTuple

from scripts.written_pages import ROOT, stale_pages, write_or_check

__all__ = ["DASHBOARD", "dashboard", "main"]

DASHBOARD = ROOT / "deploy/grafana/recrawl.json"

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_OF = '{corpus=~"$corpus"}'
_WIDTH = 24
_HEIGHT = 8


class Panel(NamedTuple):
    """One graph: its title, unit, and queries with the names of their lines."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""


def _rate(name: str, by: str, labels: str = _OF) -> str:
    return f"sum by ({by}) (rate({name}{labels}[$__rate_interval]))"


_FORWARDED = "recrawl_cluster_forwarded_request_seconds_bucket[$__rate_interval]"
_TIMED = "recrawl_http_request_seconds_bucket[$__rate_interval]"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Freshness": (
        Panel(
            "Fresh copies",
            "percentunit",
            (
                (f"recrawl_freshness_modelled_ratio{_OF}", "{{corpus}} estimated"),
                (
                    f"recrawl_weighted_freshness_modelled_ratio{_OF}",
                    "{{corpus}} estimated, by importance",
                ),
                (
                    f"increase(recrawl_audits_fresh_total{_OF}[7d])"
                    f" / increase(recrawl_audits_total{_OF}[7d])",
                    "{{corpus}} audited, 7 days",
                ),
            ),
            "Share of copies that are as their page is now: estimated by the model, and as found "
            "by audits of randomly chosen copies.",
        ),
        Panel(
            "Audits less model",
            "percentunit",
            (
                (
                    f"(increase(recrawl_audits_fresh_total{_OF}[7d])"
                    f" - increase(recrawl_audits_fresh_modelled_total{_OF}[7d]))"
                    f" / increase(recrawl_audits_total{_OF}[7d])",
                    "{{corpus}} difference, 7 days",
                ),
                (
                    f"4 * sqrt(increase(recrawl_audits_variance_total{_OF}[7d]) + 4)"
                    f" / increase(recrawl_audits_total{_OF}[7d])",
                    "{{corpus}} limit of chance",
                ),
            ),
            "Audited freshness less what the model expected of the same copies, and how far it may "
            "be from 0 by chance.",
        ),
        Panel("Pages", "short", ((f"recrawl_pages{_OF}", "{{corpus}} {{status}}"),)),
        Panel(
            "Changes and signals",
            "cps",
            (
                (_rate("recrawl_changes_total", "corpus"), "{{corpus}} changes"),
                (_rate("recrawl_signals_total", "corpus"), "{{corpus}} signals"),
            ),
        ),
    ),
    "Budget": (
        Panel(
            "Fetches ordered and budget",
            "cps",
            (
                (_rate("recrawl_orders_total", "corpus"), "{{corpus}} ordered"),
                (f"recrawl_budget_per_second{_OF} < +Inf", "{{corpus}} budget in {{unit}}"),
                (f"recrawl_demand_per_second{_OF}", "{{corpus}} demand at this price"),
            ),
        ),
        Panel(
            "Price",
            "short",
            ((f"recrawl_price{_OF}", "{{corpus}}"),),
            "Value that a fetch must reach; it rises when there is more to fetch than the budget "
            "pays for.",
        ),
        Panel(
            "Due pages and orders in flight",
            "short",
            (
                (f"recrawl_due_pages{_OF}", "{{corpus}} due"),
                (f"recrawl_orders_in_flight{_OF}", "{{corpus}} in flight"),
            ),
        ),
        Panel(
            "Credit",
            "short",
            (
                (f"recrawl_budget_credit{_OF} < +Inf", "{{corpus}} {{unit}}"),
                (f"recrawl_run_budget{_OF}", "{{corpus}} each run"),
            ),
            "Budget that may be spent at once.",
        ),
        Panel(
            "Outcomes by verdict",
            "cps",
            ((_rate("recrawl_outcomes_total", "corpus, verdict"), "{{corpus}} {{verdict}}"),),
        ),
        Panel(
            "Fetches that found a change",
            "percentunit",
            (
                (
                    f"rate(recrawl_changes_total{_OF}[1h]) / rate(recrawl_polls_total{_OF}[1h])",
                    "{{corpus}}",
                ),
            ),
        ),
    ),
    "Requests": (
        Panel(
            "Requests by route",
            "reqps",
            ((_rate("recrawl_http_requests_total", "route", ""), "{{route}}"),),
        ),
        Panel(
            "Errors by status",
            "reqps",
            (
                (
                    _rate("recrawl_http_requests_total", "status", '{status=~"[45].."}'),
                    "{{status}}",
                ),
            ),
        ),
        Panel(
            "Time until an answer begins, 99 of 100",
            "s",
            (
                (
                    f"histogram_quantile(0.99, sum by (route, le) (rate({_TIMED})))",
                    "{{route}}",
                ),
            ),
            "Requests with ?wait= include the time that they wait.",
        ),
        Panel(
            "Mean time until an answer begins",
            "s",
            (
                (
                    f"{_rate('recrawl_http_request_seconds_sum', 'route', '')}"
                    f" / {_rate('recrawl_http_request_seconds_count', 'route', '')}",
                    "{{route}}",
                ),
            ),
        ),
        Panel(
            "Calls that run or wait",
            "short",
            (
                (f"recrawl_calls{_OF}", "{{corpus}} {{kind}}"),
                ("recrawl_http_requests_in_progress", "requests in progress"),
            ),
        ),
        Panel(
            "Waiting for pages and for changes",
            "short",
            (
                (f"recrawl_waiting_leases{_OF}", "{{corpus}} leases"),
                (f"recrawl_waiting_feeds{_OF}", "{{corpus}} changes"),
            ),
        ),
        Panel(
            "How near a consumer is to losing changes",
            "percentunit",
            ((f"recrawl_consumer_kept_used_ratio{_OF}", "{{corpus}}"),),
        ),
    ),
    "Server": (
        Panel(
            "Age of the last snapshot", "s", ((f"recrawl_snapshot_age_seconds{_OF}", "{{corpus}}"),)
        ),
        Panel(
            "Log records",
            "short",
            (
                (f"recrawl_log_records_since_snapshot{_OF}", "{{corpus}} since the snapshot"),
                (f"recrawl_log_lag_records{_OF}", "{{corpus}} not applied"),
            ),
        ),
        Panel(
            "Free space on the disk",
            "bytes",
            ((f"recrawl_disk_free_bytes{_OF}", "{{corpus}}"),),
        ),
        Panel(
            "Changes are refused",
            "short",
            ((f"recrawl_read_only{_OF}", "{{corpus}}"),),
            "1 if the disk is nearly full, or a write has failed.",
        ),
        Panel(
            "Memory",
            "bytes",
            (
                ('process_resident_memory_bytes{job=~"$job"}', "{{instance}} process"),
                ("recrawl_body_held_bytes", "{{instance}} bodies of requests"),
            ),
        ),
        Panel(
            "Processor",
            "percentunit",
            (
                (
                    'rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval])',
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Rows without effect",
            "cps",
            ((_rate("recrawl_ignored_rows_total", "corpus"), "{{corpus}}"),),
            "Outcomes and signals of pages that are not tracked, or that were reported before.",
        ),
        Panel("Age of these figures", "s", ((f"recrawl_metrics_age_seconds{_OF}", "{{corpus}}"),)),
    ),
    "Cluster": (
        Panel(
            "Partitions by worker",
            "short",
            (
                (f"recrawl_cluster_owned_partitions{_OF}", "{{instance}} {{corpus}} owned"),
                (f"recrawl_cluster_standbys{_OF}", "{{instance}} {{corpus}} standbys"),
                (f"max by (corpus) (recrawl_cluster_partitions{_OF})", "{{corpus}} all"),
                (
                    f"max by (corpus) (recrawl_cluster_unowned_partitions{_OF})",
                    "{{corpus}} without an owner",
                ),
            ),
        ),
        Panel(
            "Workers that each worker knows",
            "short",
            (
                (f"recrawl_cluster_workers{_OF}", "{{instance}} {{corpus}} {{state}}"),
                (f"recrawl_cluster_placement_frozen{_OF}", "{{instance}} {{corpus}} frozen"),
                (f"recrawl_cluster_log_unreadable{_OF}", "{{instance}} {{corpus}} too old"),
            ),
            "Frozen: the worker does not read its own heartbeats, so it claims nothing.",
        ),
        Panel(
            "Lag of the standby that is furthest behind",
            "s",
            ((f"recrawl_cluster_standby_lag_seconds{_OF}", "{{instance}} {{corpus}}"),),
        ),
        Panel(
            "Budget and quotas",
            "cps",
            (
                (
                    f"max by (corpus, unit) (recrawl_cluster_budget_per_second{_OF} < +Inf)",
                    "{{corpus}} budget in {{unit}}",
                ),
                (
                    f"recrawl_cluster_quota_per_second{_OF} < +Inf",
                    "{{instance}} {{corpus}} quota in {{unit}}",
                ),
            ),
        ),
        Panel(
            "Common price",
            "short",
            ((f"recrawl_cluster_price{_OF}", "{{instance}} {{corpus}}"),),
            "The price that the owner of partition 0 computes; all workers should show the same.",
        ),
        Panel(
            "Requests to other workers",
            "reqps",
            (
                (
                    _rate("recrawl_cluster_forwarded_requests_total", "instance, result"),
                    "{{instance}} {{result}}",
                ),
            ),
        ),
        Panel(
            "Time of other workers, 99 of 100",
            "s",
            (
                (
                    f"histogram_quantile(0.99, sum by (instance, le) (rate({_FORWARDED})))",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Moves of partitions",
            "cps",
            (
                (
                    _rate("recrawl_cluster_moves_total", "instance, kind, result"),
                    "{{instance}} {{kind}} {{result}}",
                ),
            ),
        ),
        Panel(
            "Time since a snapshot was shared",
            "s",
            ((f"recrawl_shared_snapshot_age_seconds{_OF}", "{{instance}} {{corpus}}"),),
        ),
    ),
}


def _graph(number: int, panel: Panel, x: int, y: int, width: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": expr, "legendFormat": name}
            for i, (expr, name) in enumerate(panel.queries)
        ],
    }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    number = y = 0
    for title, row in ROWS.items():
        number += 1
        place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        panels.append(
            {"id": number, "type": "row", "title": title, "gridPos": place, "collapsed": False}
        )
        y += 1
        width = _WIDTH // 3
        for i, panel in enumerate(row):
            number += 1
            panels.append(_graph(number, panel, i % 3 * width, y + i // 3 * _HEIGHT, width))
        y += -(-len(row) // 3) * _HEIGHT
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return {
        "uid": "recrawl",
        "title": "recrawl",
        "tags": ["recrawl"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                source,
                _variable("corpus", "Corpus", "label_values(recrawl_price, corpus)"),
                _variable("job", "Job", "label_values(recrawl_price, job)"),
            ]
        },
        "panels": panels,
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the dashboard, or check it; return the exit status.

    Parameters
    ----------
    arguments
        Arguments of the command line.
    """
    text = json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"
    pages = {DASHBOARD: text}
    return write_or_check(pages, lambda: stale_pages(pages, "scripts.grafana_dashboard"), arguments)


if __name__ == "__main__":
    sys.exit(main())
