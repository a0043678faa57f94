"""A worker that is stopped or dead costs its own rows, and delays nobody beyond the deadline."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from recrawl.cluster.api.owners import Owner
from recrawl.corpus import CorpusConfig, RowStatus
from tests.unit.cluster.api.workers import PATIENT, Worker, Workers

pytestmark = pytest.mark.slow_without_jit

URLS = [f"https://h{i % 40}.example/page/{i}" for i in range(200)]
# Deadlines of calls to a worker that cannot answer.
SHORT = replace(PATIENT, seconds_max=0.5, lease_seconds_max=0.5)
WAIT_SECONDS = 300.0


class Pair(NamedTuple):
    """A worker in this process, and one in another."""

    worker: Worker
    other: "subprocess.Popen[str]"


ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture
def pair(tmp_path: Path, config: CorpusConfig) -> Iterator[Pair]:
    with Workers(tmp_path, config, [[0, 3, 4]]) as here:
        other = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.cluster.api.worker_service"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdin is not None
        assert other.stdout is not None
        given = {
            "name": "other",
            "config": config.to_dict(),
            "folder": str(tmp_path / "other"),
            "partitions": [1, 2, 5],
            "keys": str(tmp_path / "cluster-keys"),
        }
        try:
            other.stdin.write(json.dumps(given) + "\n")
            other.stdin.flush()
            owned = json.loads(other.stdout.readline())
            owners = here[0].owned() | {int(i): Owner(*one) for i, one in owned.items()}
            here.tell_all(owners)
            other.stdin.write(json.dumps({i: list(one) for i, one in owners.items()}) + "\n")
            other.stdin.flush()
            yield Pair(here[0], other)
        finally:
            if other.poll() is None:
                other.send_signal(signal.SIGCONT)
            other.stdin.close()
            other.wait(WAIT_SECONDS)
            other.stdout.close()


def stop(process: "subprocess.Popen[str]") -> None:
    """Stop a process, and wait until none of its threads runs any more."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def counts_of(worker: Worker, path: str, body: object) -> dict[str, int]:
    counts: dict[str, int] = worker.server.post(path, body).json["counts"]
    return counts


def wait_for_in_flight(worker: Worker, n: int) -> None:
    """Wait until the workers hold so many orders in all, and can all be reached."""
    ends_at = time.monotonic() + WAIT_SECONDS
    while True:
        stats = worker.server.get("/stats").json
        if stats["n_partitions_away"] == 0 and stats["in_flight"] == n:
            return
        assert time.monotonic() < ends_at, stats
        time.sleep(0.1)


def test_a_stopped_worker_costs_its_own_rows_alone(pair: Pair) -> None:
    worker, other = pair
    rows = [{"url": url} for url in URLS]
    assert counts_of(worker, "/pages", rows) == {"done": 200}
    n_here = worker.corpus.n_pages
    stop(other)
    worker.calls.settings = SHORT
    expected = {"duplicate": n_here, "unavailable": 200 - n_here}
    assert counts_of(worker, "/pages", rows) == expected
    # From then on its rows fail at once: no call waits for its deadline, however long that is.
    worker.calls.settings = PATIENT
    (health,) = worker.calls._health.values()
    for _ in range(20):
        assert counts_of(worker, "/pages", rows[:5] + rows[100:105])["unavailable"]
    stats = worker.server.get("/stats").json
    assert (stats["n_pages"], stats["n_partitions_away"]) == (n_here, 3)
    answer = worker.server.post("/orders?n=200").json
    assert len(answer["orders"]) == n_here
    assert [one["why"] for one in answer["shortfall"]["reasons"]] == ["unavailable"]
    assert (health.is_stalled, health.n_timeouts) == (True, 1)
    other.send_signal(signal.SIGCONT)
    wait_for_in_flight(worker, n_here)
    assert counts_of(worker, "/pages", rows) == {"duplicate": 200}


@pytest.mark.parametrize("key", [None, "mine"])
def test_orders_of_a_worker_that_answers_too_late_are_released(pair: Pair, key: str | None) -> None:
    worker, other = pair
    headers = {} if key is None else {"Idempotency_Key": key, "Recrawl_First_Attempt": "1"}
    counts_of(worker, "/pages", [{"url": url} for url in URLS])
    n_here = worker.corpus.n_pages
    stop(other)
    worker.calls.settings = SHORT
    first = worker.server.post("/orders?n=400", **headers).json["orders"]
    assert len(first) == n_here
    worker.calls.settings = PATIENT
    other.send_signal(signal.SIGCONT)
    wait_for_in_flight(worker, n_here)
    # The other worker may read the late request only now, and then releases its orders soon.
    found: set[int] = set()
    ends_at = time.monotonic() + WAIT_SECONDS
    while len(found) < 200 - n_here:
        assert time.monotonic() < ends_at, len(found)
        found |= {order["handle"] for order in worker.server.post("/orders?n=400").json["orders"]}
    assert len(found) == 200 - n_here
    if key is not None:
        # A repetition gets the orders of the first answer, and none that another client has.
        again = worker.server.post("/orders?n=400", Idempotency_Key=key).json["orders"]
        assert {one["handle"] for one in again} == {one["handle"] for one in first}


def test_orders_of_a_client_that_has_gone_away_are_released(pair: Pair) -> None:
    worker, other = pair
    counts_of(worker, "/pages", [{"url": url} for url in URLS])
    stop(other)  # so that the lease is not answered before the client has gone away
    with socket.create_connection(("127.0.0.1", worker.server.port)) as client:
        path = "/v1/corpora/news/orders?n=400"
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        ends_at = time.monotonic() + WAIT_SECONDS
        while not worker.corpus.stats().in_flight:
            assert time.monotonic() < ends_at
            time.sleep(0.01)
    other.send_signal(signal.SIGCONT)
    wait_for_in_flight(worker, 0)


def test_a_dead_worker_costs_its_own_rows_alone(pair: Pair) -> None:
    worker, other = pair
    rows = [{"url": url} for url in URLS]
    assert counts_of(worker, "/pages", rows) == {"done": 200}
    n_here = worker.corpus.n_pages
    other.kill()
    other.wait(WAIT_SECONDS)
    expected = {"duplicate": n_here, "unavailable": 200 - n_here}
    assert counts_of(worker, "/pages", rows) == expected
    status = worker.server.post("/orders/by-url", rows).json["answers"]
    assert sum(one["why"] == "unavailable" for one in status) == 200 - n_here
    assert int(RowStatus.UNAVAILABLE) in worker.shared.signal(URLS, source="ping").rows
    answer = worker.server.post("/pages/settings", {"pattern": "/*", "settings": {"cost": 1}})
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert "1, 2, 5" in answer.json["detail"]
