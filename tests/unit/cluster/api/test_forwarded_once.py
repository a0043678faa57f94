"""A forwarded request is answered by the worker that gets it, and is never forwarded again."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recrawl.client import Client
from recrawl.cluster.api.owners import Owner
from recrawl.cluster.api.receiving import signed_text
from recrawl.corpus import Outcome, RowStatus
from recrawl.messages.enums import Why
from recrawl.messages.forwarding import forwarded_digest
from tests.unit.cluster.api.workers import Worker, Workers
from tests.unit.service.running_server import Answer

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]
PATH = "/v1/corpora/news"


def forward(
    to: Worker, path: str, body: Any = None, method: str = "POST", **headers: str
) -> Answer:
    """Send a request as the worker w9 would."""
    body = b"" if body is None else json.dumps(body).encode()
    return to.server.request(method, path, body, sign(to, path, body, method, **headers))


def sign(to: Worker, path: str, body: bytes, method: str, **headers: str) -> dict[str, str]:
    """Return the headers of a request that the worker w9 forwards."""
    own = {"Recrawl-Forwarded": "w9", **{k.replace("_", "-"): v for k, v in headers.items()}}
    own["Content-Type"] = "application/json"
    own.setdefault("Recrawl-Body", forwarded_digest(body))
    text = signed_text(to.name, method, path, own, "w9")
    token = to.keys.sign(text, time.time_ns() // 1_000_000)
    own.setdefault("Authorization", f"Recrawl-Worker {token}")
    return own


def test_a_forwarded_request_stays_where_it_is(workers: Workers, clients: list[Client]) -> None:
    answer = forward(workers[0], f"{PATH}/pages", [{"url": url} for url in URLS])
    counts = answer.json["counts"]
    assert counts["done"] == workers[0].corpus.n_pages > 0
    assert counts["unavailable"] == 200 - counts["done"]
    assert workers[1].corpus.n_pages == workers[2].corpus.n_pages == 0
    answer = forward(workers[1], f"{PATH}/orders?n=10")
    assert answer.json["orders"] == []


def test_a_body_must_be_the_one_that_was_signed(workers: Workers) -> None:
    rows = [{"url": url} for url in URLS]
    other = forwarded_digest(json.dumps(rows[:1]).encode())
    answer = forward(workers[0], f"{PATH}/pages", rows, Recrawl_Body=other)
    assert (answer.status, answer.problem) == (401, "key-needed")
    assert workers[0].corpus.n_pages == 0


def test_a_wrong_owner_names_the_right_one(workers: Workers) -> None:
    answer = forward(workers[0], f"{PATH}/orders?n=1", Recrawl_Expected="0:1,1:1")
    assert (answer.status, answer.problem) == (421, "wrong-owner")
    assert answer.json["owners"] == [
        {"partition": 1, **workers[1].owned()[1]._asdict()},
    ]
    answer = forward(workers[0], f"{PATH}/orders?n=1", Recrawl_Expected="0:99")
    assert answer.json["owners"] == [
        {"partition": 0, "worker": None, "address": None, "epoch": None}
    ]
    assert forward(workers[0], f"{PATH}/orders?n=1", Recrawl_Expected="0:0,3:1").status == 200


def test_requests_reach_the_owner_that_a_wrong_one_names(
    workers: Workers, clients: list[Client]
) -> None:
    # The first worker takes the second for the owner of everything; the others know better.
    second = workers[1]
    wrong = Owner(second.name, second.address, 0)
    workers[0].owners.replace(dict.fromkeys(range(6), wrong))
    assert clients[0].add(URLS).rows.tolist() == [RowStatus.DONE] * 200
    assert workers[2].corpus.n_pages > 0


def test_a_partition_whose_owner_nobody_knows_costs_its_own_rows_alone(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    # The first worker takes the second for the owner of what the third one has, who knows nobody.
    second = workers[1]
    workers[0].owners.replace(dict.fromkeys((1, 2, 4, 5), Owner(second.name, second.address, 0)))
    second.owners.replace({})
    added = clients[0].add(URLS)
    n_third = workers[2].corpus.n_pages
    assert (added.rows == RowStatus.UNAVAILABLE).sum() == n_third > 0
    assert (added.rows == RowStatus.DUPLICATE).sum() == 200 - n_third


def test_two_attempts_at_most_and_no_loops(workers: Workers, clients: list[Client]) -> None:
    clients[0].add(URLS)
    # Two workers take each other for the owner of what the third one owns.
    swapped = {
        worker.name: {i: Owner(other.name, other.address, 0) for i in range(6)}
        for worker, other in ((workers[0], workers[1]), (workers[1], workers[0]))
    }
    for worker in workers.all[:2]:
        worker.owners.replace(swapped[worker.name])
    added = clients[0].add(URLS)
    n_third = workers[2].corpus.n_pages
    assert (added.rows == RowStatus.UNAVAILABLE).sum() == n_third > 0
    assert (added.rows == RowStatus.DUPLICATE).sum() == 200 - n_third
    found = clients[1].lease_urls(URLS)
    assert found.counts()[Why.UNAVAILABLE] == n_third


def test_partitions_without_an_owner_are_unavailable(
    workers: Workers, clients: list[Client]
) -> None:
    clients[0].add(URLS)
    workers.tell_all({})
    added = clients[0].add(URLS)
    assert (added.rows == RowStatus.DUPLICATE).sum() == workers[0].corpus.n_pages
    assert (added.rows == RowStatus.UNAVAILABLE).sum() == 200 - workers[0].corpus.n_pages
    away = URLS[added.rows.tolist().index(RowStatus.UNAVAILABLE)]
    answer = workers[0].server.get(f"/page?url={away}")
    assert (answer.status, answer.problem) == (503, "unavailable")


def test_a_client_sends_rows_again_until_their_partitions_have_an_owner(
    workers: Workers,
) -> None:
    def lose_owners() -> None:
        workers.tell_all({})
        threading.Timer(0.5, workers.tell_all).start()

    with workers[0].client() as client:
        lose_owners()
        assert client.add(URLS).rows.tolist() == [RowStatus.DONE] * 200
        lose_owners()
        assert client.signal(URLS, source="ping").rows.tolist() == [RowStatus.DONE] * 200
        assert sum(worker.corpus.stats().n_signals for worker in workers.all) == 200
        orders = client.lease(200)
        lose_owners()
        reported = client.report([Outcome(handle=one.handle, digest=b"1") for one in orders])
        assert reported.rows.tolist() == [RowStatus.DONE] * 200


def test_a_repetition_gets_no_orders_that_are_given_back(
    workers: Workers, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that has forwarded the first attempt has ended before the answer."""
    clients[0].add(URLS)
    worker = workers[0]
    lease_each = worker.corpus.lease_each
    begun, may_go_on = threading.Event(), threading.Event()

    def lease_slowly(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        assert may_go_on.wait(300)
        return lease_each(*args, **kwargs)

    monkeypatch.setattr(worker.corpus, "lease_each", lease_slowly)
    leases = worker.server.app.state.service.corpora.find("news", is_forwarded=True).leases
    path, key = f"{PATH}/orders?n=5", f"{b'mine'.hex()}.{b'digest'.hex()}"
    with socket.create_connection(("127.0.0.1", worker.server.port)) as sender:
        headers = sign(worker, path, b"", "POST", Recrawl_Request=key)
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Length: 0"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sender.sendall("\r\n".join([*lines, "", ""]).encode())
        assert begun.wait(300)
    with ThreadPoolExecutor(1) as other:
        options = {"Recrawl_Request": key, "Recrawl_Held_Only": "1"}
        again = other.submit(forward, worker, path, **options)
        wait_until(lambda: [one.n_leases for one in leases._locks.values()] == [2])
        may_go_on.set()
        assert again.result(300).json["orders"] == []
    wait_until(lambda: worker.corpus.stats().in_flight == 0)
    assert worker.corpus.stats().n_ordered == 5
    assert not leases._locks


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 300
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_nobody_else_forwards_requests(workers: Workers) -> None:
    path = f"{PATH}/orders?n=1"
    server = workers[0].server
    marked = {"Recrawl-Forwarded": "w9"}
    assert server.request("POST", path, headers=marked).problem == "key-needed"
    for kind in ("Bearer rk_x", "Recrawl-Worker v1.0.0.0", "Recrawl-Worker"):
        answer = server.request("POST", path, headers=marked | {"Authorization": kind})
        assert (answer.status, answer.problem) == (401, "key-needed")
    # A signature for another worker, path or header is of no use.
    now_ms = time.time_ns() // 1_000_000
    for receiver, target, headers in (
        ("w1", path, {}),
        ("w0", f"{PATH}/orders?n=2", {}),
        ("w0", path, {"Recrawl-Expected": "0:1"}),
    ):
        token = workers[0].keys.sign(signed_text(receiver, "POST", target, headers, "w9"), now_ms)
        signed = marked | {"Authorization": f"Recrawl-Worker {token}"}
        assert server.request("POST", path, headers=signed).problem == "key-needed"
    assert forward(workers[0], path).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/budget"),
        ("GET", "/webhooks"),
        ("POST", "/webhooks"),
        ("POST", "/consumers/a"),
        ("PUT", "/consumers/a/b"),
        ("GET", "/configuration"),
        ("GET", "/../../../healthz"),
        ("POST", "/receivers/a"),
    ],
)
def test_workers_are_allowed_no_more_than_they_need(
    workers: Workers, method: str, path: str
) -> None:
    answer = forward(workers[0], f"{PATH}{path}", method=method)
    assert (answer.status, answer.problem) == (401, "key-needed")
    assert "do not forward" in answer.json["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Recrawl_Expected": "a:b"},
        {"Recrawl_Expected": "1"},
        {"Recrawl_Expected": ",".join(f"{i}:1" for i in range(5_000))},
        {"Recrawl_Request": "zz.zz"},
        {"Recrawl_Request": "00"},
    ],
)
def test_malformed_headers_are_refused(workers: Workers, headers: dict[str, str]) -> None:
    answer = forward(workers[0], f"{PATH}/orders?n=1", **headers)
    assert (answer.status, answer.problem) == (401, "key-needed")
