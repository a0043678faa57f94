"""Webhooks over HTTP: a server that is told about receivers delivers to them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from recrawl.corpus import Corpus
from recrawl.service.webhooks import DeliverySettings, verify_webhook
from tests.unit.service.conftest import URLS
from tests.unit.service.running_server import RunningServer

PATH = "/v1/corpora/news/webhooks"


class Target:
    """A receiver in a thread, whose answer is `status`."""

    def __init__(self) -> None:
        self.status = 204
        self.secret = ""
        self.events: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if outer.secret:
                    verify_webhook(outer.secret, dict(self.headers), body)
                if outer.status < 300:
                    outer.events.append(json.loads(body))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


@pytest.fixture
def serving(corpus: Corpus, tmp_path: Path) -> Iterator[RunningServer]:
    settings = DeliverySettings(allow_networks=("127.0.0.0/8",), store_seconds=0.01)
    folders = {"news": tmp_path / "corpus"}
    with RunningServer({"news": corpus}, folders=folders, webhooks=settings) as running:
        yield running


def until(is_so: Callable[[], Any]) -> None:
    ends_at = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def report(server: RunningServer, digest: str) -> None:
    orders = server.post("/orders?n=100").json["orders"]
    rows = [{"handle": order["handle"], "digest": digest} for order in orders]
    assert server.post("/outcomes", rows).json["counts"] == {"done": len(rows)}


def test_changes_are_delivered_while_the_server_runs(
    serving: RunningServer, target: Target
) -> None:
    serving.post("/pages", [{"url": url} for url in URLS])
    added = serving.request("POST", PATH, {"name": "index", "url": target.url})
    assert added.status == 201
    target.secret = added.json["secret"]
    until(lambda: serving.get("/webhooks").json["webhooks"][0]["is_started"])
    report(serving, "aa")
    until(lambda: len(target.events) == len(URLS))
    assert {event["source"] for event in target.events} == {"urn:recrawl:corpus:news"}
    (listed,) = serving.get("/webhooks").json["webhooks"]
    assert target.secret not in json.dumps(listed)
    assert listed["status"]["n_delivered"] == len(URLS)
    rotated = serving.request("POST", f"{PATH}/index/rotate", {"overlap_seconds": 0}).json
    assert rotated["secret"] != target.secret
    disabled = serving.request("PATCH", f"{PATH}/index", {"disabled": "not now"}).json
    assert disabled["disabled"] == "not now"
    assert serving.request("PATCH", f"{PATH}/index", {"disabled": None}).json["disabled"] is None
    assert serving.request("DELETE", f"{PATH}/index").json["removed"] is True
    assert serving.get("/webhooks").json == {"webhooks": []}
    until(lambda: serving.get("/consumers").json["consumers"] == [])


def test_letters_are_listed_sent_again_and_given_up(serving: RunningServer, target: Target) -> None:
    serving.post("/pages", [{"url": URLS[0]}])
    serving.request("POST", PATH, {"name": "index", "url": target.url, "start": "oldest"})
    target.status = 500
    report(serving, "aa")
    until(lambda: serving.get("/webhooks/index/letters").json["letters"])
    (letter,) = serving.get("/webhooks/index/letters").json["letters"]
    assert (letter["url"], letter["is_dead"]) == (URLS[0], False)
    assert "500" in letter["problem"]
    for what in ("send-again", "drop"):
        answer = serving.request("POST", f"{PATH}/index/letters/{what}", {"ids": [letter["id"]]})
        assert answer.json == {"webhook": "index", "ids": [letter["id"]]}


def test_an_answer_warns_of_an_address_that_is_refused(
    serving: RunningServer, server: RunningServer
) -> None:
    private = {"name": "a", "url": "http://10.1.2.3/"}
    assert "--allow-network 10.1.2.3" in serving.request("POST", PATH, private).json["warning"]
    # This server was started with that option for its own machine.
    local = {"name": "b", "url": "http://localhost:8080/"}
    assert serving.request("POST", PATH, local).json["warning"] is None
    public = {"name": "c", "url": "https://search.example/"}
    assert serving.request("POST", PATH, public).json["warning"] is None


def test_wrong_requests_are_problems(serving: RunningServer, server: RunningServer) -> None:
    for body in ({}, {"name": "A", "url": "https://a.example/"}, {"name": "a", "url": "x"}):
        assert serving.request("POST", PATH, body).problem == "invalid-value"
    assert serving.request("DELETE", f"{PATH}/none").problem == "unknown-webhook"
    assert serving.request("PATCH", f"{PATH}/none", {}).problem == "unknown-webhook"
    assert serving.get("/webhooks/none/letters").problem == "unknown-webhook"
