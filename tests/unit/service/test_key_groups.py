"""A corpus grouped by key, in several partitions, works over HTTP like any other."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from recrawl.corpus import Corpus
from tests.unit.service.running_server import RunningServer
from tests.unit.service.test_pages import ARROW, NDJSON, body_in

URL = "https://shared.example/"
KEYS = [f"tenant {i}" for i in range(6)]


@pytest.fixture
def server(open_corpus: Callable[..., Corpus]) -> Iterator[RunningServer]:
    corpus = open_corpus(corpus={"group_by": "key", "partitions": 3})
    with RunningServer({"news": corpus}) as running:
        yield running


@pytest.mark.parametrize("format", ["application/json", NDJSON, ARROW])
def test_the_same_url_under_several_keys(server: RunningServer, format: str) -> None:
    def send(path: str, rows: list[dict[str, Any]], **headers: str) -> Any:
        answer = server.post(path, body_in(format, rows), Content_Type=format, **headers)
        assert answer.status == 200, answer
        return answer.json

    rows: list[dict[str, Any]] = [{"url": URL, "key": key, "doc_id": key} for key in KEYS]
    added = send("/pages", [*rows, {"url": URL, "key": "\n"}])
    assert added["counts"] == {"done": len(KEYS), "refused": 1}
    named = [{"url": URL, "key": key} for key in KEYS]
    assert send("/signals?source=ping", named)["counts"] == {"done": len(KEYS)}
    assert send("/requests", named, Idempotency_Key="k")["counts"] == {"done": len(KEYS)}
    assert send("/requests", named, Idempotency_Key="k")["counts"] == {"duplicate": len(KEYS)}
    first = server.post("/orders?n=4", Idempotency_Key="a").json["orders"]
    assert server.post("/orders?n=4", Idempotency_Key="a").json["orders"] == first
    rest = server.post("/orders?n=4").json["orders"]
    orders = [*first, *rest]
    assert sorted(order["key"] for order in orders) == KEYS
    assert all(order["doc_id"] == order["key"] for order in orders)
    outcomes = [{"handle": int(order["handle"]), "digest": "x"} for order in orders]
    at = 1_700_000_000_000
    outcomes.append({"url": URL, "key": "nobody", "digest": "x", "fetched_at_ms": at})
    assert send("/outcomes", outcomes)["counts"] == {"done": len(KEYS), "unknown": 1}
    changes = server.get("/changes").json["changes"]
    assert sorted(change["key"] for change in changes) == KEYS
    listed: list[str] = []
    path = "/pages?limit=2"
    while path:
        answer = server.get(path).json
        listed += [page["key"] for page in answer["pages"]]
        path = f"/pages?limit=2&cursor={answer['cursor']}" if answer["cursor"] else ""
    assert sorted(listed) == KEYS
    page = server.get(f"/page?url={quote(URL)}&key={quote(KEYS[0])}")
    assert page.json["key"] == KEYS[0]
    assert server.get(f"/page?url={quote(URL)}").problem == "invalid-value"
    assert send("/pages/remove", named)["n_pages"] == len(KEYS)
    without = server.post("/pages", [{"url": URL}])
    assert without.problem == "invalid-value"
