"""A server delivers the changes that it was told to the webhooks of its corpora."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.service.webhooks import (
    DeliverySettings,
    add_webhook,
    list_webhooks,
    verify_webhook,
)
from tests.unit.service.running_server import RunningServer

LOOPBACK = ["127.0.0.0/8"]


class Receiver:
    """Collects the events that it gets, after checking their signatures."""

    def __init__(self) -> None:
        self.secret = ""
        self.events: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                verify_webhook(receiver.secret, dict(self.headers.items()), body)
                receiver.events.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def wait_for(self, n: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.events) < n:
            assert time.monotonic() < deadline, self.events
            time.sleep(0.01)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.thread.join()
    receiver.server.server_close()


def serve(folder: Path, networks: list[str]) -> RunningServer:
    return RunningServer(
        {"news": recrawl.open(folder)},
        folders={"news": folder},
        webhooks=DeliverySettings(allow_networks=tuple(networks)),
    )


def report(server: RunningServer, url: str, digest: str) -> None:
    outcome = {"url": url, "digest": digest, "fetched_at_ms": round(time.time() * 1000)}
    assert server.post("/outcomes", [outcome]).json["status"] == ["done"]


def test_changes_reported_over_http_arrive_also_after_a_restart(
    receiver: Receiver, tmp_path: Path
) -> None:
    url = "https://site.example/1"
    with serve(tmp_path, LOOPBACK) as server:
        server.post("/pages", [{"url": url}])
        _, receiver.secret = add_webhook(tmp_path, "hook", receiver.url, now_ms=0, start="oldest")
        report(server, url, "31")
        receiver.wait_for(1)
    with serve(tmp_path, LOOPBACK) as server:
        time.sleep(1.1)  # outcomes of one page in the same second count once
        report(server, url, "32")
        receiver.wait_for(2)
    assert [one["subject"] for one in receiver.events] == [url, url]
    assert receiver.events[0]["source"] == "urn:recrawl:corpus:news"
    assert receiver.events[0]["sequence"] < receiver.events[1]["sequence"]


def test_a_receiver_in_a_network_that_is_not_public_needs_permission(
    receiver: Receiver, tmp_path: Path
) -> None:
    url = "https://site.example/1"
    with serve(tmp_path, []) as server:
        server.post("/pages", [{"url": url}])
        add_webhook(tmp_path, "hook", receiver.url, now_ms=0, start="oldest")
        report(server, url, "31")
        time.sleep(2.5)
        assert receiver.events == []
    assert [one.name for one in list_webhooks(tmp_path)] == ["hook"]
