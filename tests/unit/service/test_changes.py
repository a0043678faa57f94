"""The change feed over HTTP: cursors, consumers, waiting, and events."""

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from recrawl import Outcome
from recrawl.corpus import Corpus
from recrawl.service.hosting.consumer_watch import ConsumerWatch
from tests.manual_clock import ManualClock
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer


def fetch_all(corpus: Corpus, digest: bytes) -> None:
    orders = corpus.lease(100)
    corpus.report([Outcome(handle=order.handle, digest=digest) for order in orders])


@pytest.fixture
def fed(server: RunningServer, corpus: Corpus) -> RunningServer:
    corpus.add(URLS, doc_id=URLS)
    fetch_all(corpus, b"one")
    return server


def test_changes_are_read_by_cursor(fed: RunningServer) -> None:
    seen: list[str] = []
    path = "/changes?limit=7"
    while changes := (answer := fed.get(path).json)["changes"]:
        assert all(change["doc_id"] == change["url"] for change in changes)
        seen += [change["url"] for change in changes]
        path = f"/changes?limit=7&after={answer['cursor']}"
    assert sorted(seen) == sorted(URLS)
    assert fed.get("/changes?after=nonsense").problem == "invalid-value"
    assert fed.get("/changes?limit=10001").problem == "invalid-value"
    assert fed.get("/changes?after=1.1&consumer=x").problem == "invalid-value"


def test_a_consumer_continues_where_it_committed(fed: RunningServer) -> None:
    first = fed.get("/changes?consumer=index&limit=5").json
    assert fed.get("/changes?consumer=index&limit=5").json == first
    path = "/v1/corpora/news/consumers/index"
    answer = fed.request("PUT", path, {"cursor": first["cursor"]})
    assert answer.json == {"consumer": "index", "cursor": first["cursor"]}
    second = fed.get("/changes?consumer=index&limit=5").json
    assert not {c["url"] for c in first["changes"]} & {c["url"] for c in second["changes"]}
    (consumer,) = fed.get("/consumers").json["consumers"]
    assert (consumer["name"], consumer["n_behind"]) == ("index", len(URLS) - 5)
    assert fed.request("PUT", path, {"cursor": "9999.9"}).problem == "invalid-value"
    assert fed.request("DELETE", path).json["removed"] is True
    assert fed.request("DELETE", path).problem == "unknown-consumer"
    assert fed.request("PUT", "/v1/corpora/news/consumers/A", {"cursor": "oldest"}).status == 422


def test_a_consumer_that_is_too_late_is_told_what_it_missed(
    open_corpus: Callable[..., Corpus], clock: ManualClock
) -> None:
    corpus = open_corpus(changes={"kept_for": "10d"})
    corpus.add(URLS)
    fetch_all(corpus, b"one")
    with RunningServer({"news": corpus}) as server:
        path = "/v1/corpora/news/consumers/slow"
        first = server.get("/changes?consumer=slow&limit=5").json
        server.request("PUT", path, {"cursor": first["cursor"]})
        clock.pass_seconds(86_400 * 14)
        fetch_all(corpus, b"two")
        corpus.snapshot()
        late = server.get("/changes?consumer=slow")
        assert (late.status, late.problem) == (410, "changes-lost")
        assert late.json["n_missed"] == len(URLS) - 5
        server.request("PUT", path, {"cursor": late.json["continue_with"]})
        assert len(server.get("/changes?consumer=slow").json["changes"]) == len(URLS)


def test_a_reader_waits_for_the_next_change(server: RunningServer, corpus: Corpus) -> None:
    server.post("/pages", [{"url": URLS[0]}])
    (order,) = server.post("/orders").json["orders"]
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(server.get, "/changes?wait=30")
        time.sleep(0.2)
        server.post("/outcomes", [{"handle": order["handle"], "digest": "x"}])
        (change,) = waiting.result(30).json["changes"]
    assert change["what"] == "new"
    assert time.monotonic() - started < 20
    started = time.monotonic()
    assert server.get(f"/changes?after={change['cursor']}&wait=0.2").json["changes"] == []
    assert time.monotonic() - started >= 0.15


def next_event(answer: HTTPResponse) -> dict[str, Any]:
    """Return the fields of the next event, without comments."""
    fields: dict[str, Any] = {}
    while True:
        line = answer.readline().decode().rstrip("\n")
        if not line and fields:
            return fields
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value


def test_events_continue_after_the_last_one(fed: RunningServer, corpus: Corpus) -> None:
    events = []
    headers = {"Accept": "text/event-stream"}
    for _ in range(2):
        connection = HTTPConnection("127.0.0.1", fed.port, timeout=30)
        connection.request("GET", "/v1/corpora/news/changes", headers=headers)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["X-Accel-Buffering"] == "no"
        events += [next_event(answer) for _ in range(len(URLS) // 2)]
        headers["Last-Event-ID"] = events[-1]["id"]
        connection.close()
    changes = [json.loads(event["data"]) for event in events]
    assert sorted(change["url"] for change in changes) == sorted(URLS)
    assert {event["event"] for event in events} == {"new"}
    headers["Last-Event-ID"] = "nonsense"
    assert fed.get("/changes", **headers).problem == "invalid-value"


async def _run_now(function: Callable[[], Any]) -> Any:
    return function()


def test_a_consumer_is_warned_of_before_it_loses_changes(
    open_corpus: Callable[..., Corpus], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = open_corpus(changes={"kept_for": "10d"})
    corpus.add(URLS)
    corpus.commit_changes("late", "oldest")
    corpus.commit_changes("done", "newest")
    corpus.report([Outcome(handle=one.handle, digest=b"1") for one in corpus.lease(4)])
    watch = ConsumerWatch("news", corpus, _run_now)
    asyncio.run(watch.look())
    assert watch.kept_used_max < 0.01
    clock.pass_seconds(9 * 86_400)
    asyncio.run(watch.look())
    asyncio.run(watch.look())
    assert watch.kept_used == pytest.approx({"late": 0.9, "done": 0.9}, abs=0.01)
    warnings = [one.getMessage() for one in caplog.records]
    assert len(warnings) == 2
    assert "consumer late of news is 4 changes behind" in warnings[1]
    corpus.commit_changes("done", "newest")
    corpus.commit_changes("late", "newest")
    asyncio.run(watch.look())
    assert watch.kept_used_max == 0
