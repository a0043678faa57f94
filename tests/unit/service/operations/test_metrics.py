"""``/metrics``: what it has, who may read it, and that it holds nobody up."""

import math
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from recrawl.corpus import Corpus, CorpusMetrics
from recrawl.messages.cluster_metrics import ClusterMetrics, MoveCount, TimeCounts
from recrawl.service import create_key
from recrawl.service.keys import KeyRing
from recrawl.service.operations.metric_list import METRICS
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import Answer, RunningServer

PAGE = Path(__file__).resolve().parents[4] / "docs/reference/metrics.md"


def scrape(server: RunningServer, **headers: str) -> dict[tuple[str, ...], float]:
    """Return all samples: the name of the series and the values of its labels, to its value."""
    answer = server.request("GET", "/metrics", headers=headers)
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "le")): sample.value
        for family in text_string_to_metric_families(answer.data.decode())
        for sample in family.samples
    }


def work(server: RunningServer) -> None:
    assert server.post("/pages", [{"url": url} for url in URLS]).status == 200
    orders = server.post("/orders?n=3").json["orders"]
    rows: list[dict[str, Any]] = [{"handle": order["handle"]} for order in orders[:2]]
    rows[0] |= {"status": 200, "digest": "one"}
    rows[1] |= {"status": 404}
    assert server.post("/outcomes", rows).status == 200
    assert server.get("/page?url=https://unknown.example/").status == 404
    assert server.request("GET", "/nothing/here").status == 404


def test_metrics_show_what_happened(server: RunningServer) -> None:
    work(server)
    found = scrape(server)
    by_status = {key[2]: n for key, n in found.items() if key[0] == "recrawl_pages"}
    assert by_status["active"] == 1
    assert sum(by_status.values()) == len(URLS)
    assert found["recrawl_orders_total", "news"] == 3
    assert found["recrawl_orders_in_flight", "news"] == 1
    assert found["recrawl_outcomes_total", "news", "changed"] == 1
    assert found["recrawl_outcomes_total", "news", "gone"] == 1
    assert found["recrawl_outcomes_total", "news", "wrong_answer"] == 0
    assert found["recrawl_budget_per_second", "news", "fetches"] > 0
    assert 0 < found["recrawl_freshness_modelled_ratio", "news"] < 1
    assert found["recrawl_calls", "news", "lease"] == 0
    assert found["recrawl_metrics_age_seconds", "news"] < 5
    route = "/v1/corpora/{corpus}"
    assert found["recrawl_http_requests_total", "POST", f"{route}/orders", "200"] == 1
    assert found["recrawl_http_requests_total", "GET", f"{route}/page", "404"] == 1
    assert found["recrawl_http_requests_total", "GET", "unknown", "404"] == 1
    assert found["recrawl_http_request_seconds_count", "POST", f"{route}/orders"] == 1
    assert found["recrawl_http_request_seconds_sum", "POST", f"{route}/orders"] > 0
    assert found[("recrawl_http_requests_in_progress",)] == 1
    assert found[("process_resident_memory_bytes",)] > 0


def test_every_metric_that_can_be_there_is_there_and_in_the_list(
    open_corpus: Callable[..., Corpus],
) -> None:
    corpus = open_corpus(budget={"rate": "36000/h"})
    with RunningServer({"news": corpus}) as server:
        work(server)
        corpus.snapshot()
        names = {name for name, *_ in scrape(server) if name.startswith("recrawl_")}
    listed = {series for row in METRICS.values() for series in row.series}
    # Prometheus has these for each counter and histogram; nothing needs them.
    names = {name for name in names if not name.endswith("_created")}
    assert names <= listed
    listed = {name for name in listed if not name.startswith("recrawl_cluster_")}
    # Not of a new corpus, not of one whose budget is per time, and not without shared storage.
    assert listed - names == {
        *("recrawl_freshness_audited_ratio", "recrawl_run_budget"),
        "recrawl_shared_snapshot_age_seconds",
    }


class CorpusOfCluster:
    """A corpus that has the figures of a cluster, and perhaps none of its own."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.n_owned = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._corpus, name)

    def metrics(self) -> CorpusMetrics | None:
        return self._corpus.metrics() if self.n_owned else None

    def cluster_metrics(self) -> ClusterMetrics:
        return ClusterMetrics(
            n_partitions=6,
            n_owned=self.n_owned,
            n_standbys=1,
            standby_lag_seconds=0.5,
            n_unowned=1,
            workers_by_state={"present": 2, "leaving": 0},
            is_frozen=False,
            budget_per_second=math.inf,
            quota_per_second=3.5,
            price=0.25,
            calls_by_result={"done": 7, "failed": 0},
            call_seconds=TimeCounts(((0.1, 5), (math.inf, 7)), 1.5),
            moves=(MoveCount("claim", "lost", 2),),
        )


def test_a_worker_has_metrics_of_its_cluster_also_without_partitions(
    corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    worker = CorpusOfCluster(corpus)
    with RunningServer({"news": worker}) as server:
        found = scrape(server)
        text = server.request("GET", "/metrics").data.decode()
        assert ("recrawl_price", "news") not in found
        assert found["recrawl_metrics_age_seconds", "news"] < 5
        assert not [one for one in caplog.records if one.levelname == "ERROR"]
        assert found["recrawl_cluster_partitions", "news"] == 6
        assert found["recrawl_cluster_owned_partitions", "news"] == 0
        assert found["recrawl_cluster_workers", "news", "present"] == 2
        assert found["recrawl_cluster_placement_frozen", "news"] == 0
        assert found["recrawl_cluster_budget_per_second", "news", "fetches"] == math.inf
        assert found["recrawl_cluster_quota_per_second", "news", "fetches"] == 3.5
        assert found["recrawl_cluster_forwarded_requests_total", "news", "done"] == 7
        assert found["recrawl_cluster_forwarded_request_seconds_count", "news"] == 7
        assert found["recrawl_cluster_moves_total", "news", "claim", "lost"] == 2
        name = "recrawl_cluster_forwarded_request_seconds_bucket"
        assert f'{name}{{corpus="news",le="0.1"}} 5.0' in text
        names = {one for one, *_ in found if one.startswith("recrawl_cluster_")}
        listed = {series for row in METRICS.values() for series in row.series}
        assert names == {one for one in listed if one.startswith("recrawl_cluster_")}

        worker.n_owned = 3
        time.sleep(2.1)  # older figures are read anew
        found = scrape(server)
        assert found["recrawl_cluster_owned_partitions", "news"] == 3
        assert ("recrawl_price", "news") in found


def test_the_reference_lists_every_metric() -> None:
    rows = re.findall(r"^\| `(recrawl_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.M)
    assert rows == [
        (
            row.series[0] if row.kind == "counter" else row.name,
            row.kind,
            ", ".join(f"`{label}`" for label in row.labels),
            row.about[0].lower() + row.about[1:],
        )
        for row in METRICS.values()
    ]


def test_labels_are_bounded(server: RunningServer) -> None:
    scrape(server)
    for i in range(30):
        server.request("GET", f"/{i}")
        server.request("GET", f"/v1/corpora/unknown{i}/stats")
        server.request("GET", f"/v1/corpora/news/hosts/h{i}.example")
        server.request(f"M{i}", "/v1/corpora/news/stats")
        server.get(f"/changes?consumer=c{i}")
    found = [key for key in scrape(server) if key[0] == "recrawl_http_requests_total"]
    assert len(found) <= 8
    text = server.request("GET", "/metrics").data.decode()
    assert ".example" not in text


def test_openmetrics_are_sent_where_they_are_accepted(server: RunningServer) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = server.request("GET", "/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.data.endswith(b"# EOF\n")


def test_a_key_shows_the_metrics_of_its_corpus_only(
    open_corpus: Callable[..., Corpus], tmp_path: Path
) -> None:
    keys, rings = {}, {}
    for name, scope in (("news", "read"), ("shop", "read"), ("blog", "lease")):
        folder = tmp_path / f"keys-{name}"
        folder.mkdir()
        keys[name], _ = create_key(folder, [scope], now_ms=time.time_ns() // 1_000_000)
        rings[name] = KeyRing(folder)
    corpora = {name: open_corpus(name) for name in keys}
    with RunningServer(corpora, keys=rings, is_local=False) as server:
        answer = server.request("GET", "/metrics")
        assert (answer.status, answer.problem) == (401, "key-needed")
        headers = {"Authorization": f"Bearer {keys['blog']}"}
        assert server.request("GET", "/metrics", headers=headers).status in (401, 403)
        found = scrape(server, Authorization=f"Bearer {keys['shop']}")
        assert {key[1] for key in found if key[0] == "recrawl_price"} == {"shop"}


def test_a_scrape_does_not_wait_for_a_busy_corpus(server: RunningServer, corpus: Corpus) -> None:
    scrape(server)
    time.sleep(2.1)  # older figures are read anew
    released, held = threading.Event(), threading.Event()

    def hold() -> None:
        with corpus.nodes[0].lock:
            held.set()
            released.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        began = time.monotonic()
        found = scrape(server)
        assert time.monotonic() - began < 5
        assert found["recrawl_metrics_age_seconds", "news"] > 2
        assert server.request("GET", "/healthz").status == 200
    finally:
        released.set()
        holder.join()


def test_figures_are_read_once_for_many_scrapes(
    server: RunningServer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = 0
    read = corpus.metrics

    def count() -> Any:
        nonlocal n_read
        n_read += 1
        return read()

    monkeypatch.setattr(corpus, "metrics", count)
    for _ in range(20):
        scrape(server)
    assert n_read <= 2


def test_figures_that_cannot_be_read_leave_the_others(
    server: RunningServer, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("for the test")

    monkeypatch.setattr(corpus, "metrics", fail)
    found = scrape(server)
    assert ("recrawl_price", "news") not in found
    assert found["recrawl_waiting_leases", "news"] == 0


def request_id(answer: Answer) -> str:
    return answer.headers["x-request-id"]


def test_every_answer_has_an_id(server: RunningServer) -> None:
    given = server.get("/stats", X_Request_Id="abc-1")
    assert request_id(given) == "abc-1"
    other = {request_id(server.get("/stats", X_Request_Id=bad)) for bad in ("", "a b", "x" * 129)}
    assert len(other) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}", one) for one in other)
    assert request_id(server.request("GET", "/nothing")) not in other
