"""Outcomes, signals and requests over HTTP."""

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recrawl.corpus import Corpus
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer
from tests.unit.service.test_pages import ARROW, NDJSON, body_in


@pytest.fixture
def orders(server: RunningServer, corpus: Corpus) -> list[dict[str, Any]]:
    corpus.add(URLS)
    found: list[dict[str, Any]] = server.post("/orders?n=100").json["orders"]
    return found


@pytest.mark.parametrize("format", ["application/json", NDJSON, ARROW])
def test_outcomes_in_every_format(
    server: RunningServer, orders: list[dict[str, Any]], format: str
) -> None:
    # Arrow has them as numbers, JSON also takes those.
    handles = [int(order["handle"]) for order in orders]
    rows: list[dict[str, Any]] = [
        {"handle": handles[0], "status": 200, "digest": "one"},
        {"handle": handles[1], "status": 404},
        {"handle": handles[2], "changed": False},
        {"handle": handles[3], "status": 0},
        {"handle": handles[0], "status": 200, "digest": "one"},
        {"handle": 99 << 40, "status": 304},
        {"status": 304},
        {"url": URLS[4], "status": 304},
        {"handle": handles[4], "status": 200},
        {"handle": handles[4]},
        {"url": "https://unknown.example/", "status": 304, "fetched_at_ms": 1_700_000_000_000},
        {"handle": handles[5], "status": 200, "text": "a passage of text"},
    ]
    answer = server.post("/outcomes", body_in(format, rows), Content_Type=format)
    assert answer.status == 200, answer
    assert answer.json["status"] == [
        *("done", "done", "done", "done", "duplicate", "unknown"),
        *("refused", "refused", "refused", "refused", "unknown", "done"),
    ]
    transition = answer.json["transition"]
    assert transition[:3] == ["new", "gone", "new"]
    assert transition[4:11] == [None] * 7
    assert set(answer.json["reasons"]) == {"6", "7", "8", "9"}


def test_bodies_are_compared(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(URLS[:1])
    (order,) = server.post("/orders").json["orders"]
    body = base64.b64encode(b"<p>The first version of this page.").decode()
    row = {"handle": order["handle"], "body_base64": body, "content_type": "text/html"}
    answer = server.post("/outcomes", [row, {"handle": 5, "body_base64": "!"}])
    assert answer.json["status"] == ["done", "refused"]
    (change,) = server.get("/changes").json["changes"]
    assert (change["what"], change["n_passages_added"]) == ("new", 1)


def test_small_reports_of_many_clients_are_merged(
    server: RunningServer, orders: list[dict[str, Any]]
) -> None:
    def report(order: dict[str, Any]) -> str:
        answer = server.post("/outcomes", [{"handle": order["handle"], "digest": "x"}])
        return str(answer.json["status"][0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(report, orders)) == ["done"] * len(orders)
        assert list(pool.map(report, orders)) == ["duplicate"] * len(orders)


@pytest.mark.parametrize("format", ["application/json", NDJSON, ARROW])
def test_signals_count_once_by_key(server: RunningServer, corpus: Corpus, format: str) -> None:
    corpus.add(URLS)
    rows = [{"url": url, "claimed_at_ms": 1_600_000_000_000} for url in URLS[:3]]
    rows += [{"url": "no"}, {"url": "https://unknown.example/"}]
    body = body_in(format, rows)
    sent = {"Content_Type": format, "Idempotency_Key": "k"}
    first = server.post("/signals?source=sitemap", body, **sent)
    assert first.json["status"] == ["done", "done", "done", "refused", "unknown"]
    again = server.post("/signals?source=sitemap", body, **sent)
    assert again.json["status"] == ["duplicate", "duplicate", "duplicate", "refused", "unknown"]
    assert server.get("/sources").json["n_sources"] == 1
    other = server.post("/signals?source=feed", body, **sent)
    assert other.problem == "idempotency-key-reused"
    assert server.post("/signals", body, Content_Type=format).problem == "invalid-value"


def test_requests_count_once_by_key(server: RunningServer, corpus: Corpus) -> None:
    corpus.add(URLS)
    rows: list[dict[str, Any]] = [
        {"url": URLS[0], "n_requests": 7},
        {"url": URLS[1]},
        {"url": "no"},
    ]
    first = server.post("/requests", rows, Idempotency_Key="k")
    assert first.json["status"] == ["done", "done", "refused"]
    again = server.post("/requests", rows, Idempotency_Key="k")
    assert again.json["status"] == ["duplicate", "duplicate", "refused"]
    rows[0]["n_requests"] = 8
    assert server.post("/requests", rows, Idempotency_Key="k").status == 422
