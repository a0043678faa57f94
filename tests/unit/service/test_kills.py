"""A server that is killed under load loses nothing that it answered, and leases no page twice.

``RECRAWL_TEST_KILLS=100`` kills it a hundred times.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.corpus import CorpusConfig
from tests.corpus_fixtures import IMPOLITE

pytestmark = [pytest.mark.slow, pytest.mark.slow_without_jit]

N_KILLS = int(os.environ.get("RECRAWL_TEST_KILLS", "3"))
N_PAGES = 2_000
N_CLIENTS = 4
URLS = [f"https://host{i % 50}.example/{i}" for i in range(N_PAGES)]


class Server:
    """A process of ``recrawl serve`` that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "recrawl", "serve", f"news={self._folder}", "--port", "0"]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"RECRAWL_KERNELS": "interpreted"},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(json.loads(line)["url"].split(":")[2].partition("/")[0])

    def kill(self) -> None:
        self.port = 0
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=60)
            assert self._process.returncode == 0


class Client(threading.Thread):
    """Leases and reports, and repeats each request until it is answered."""

    def __init__(self, server: Server, holders: dict[str, str], lock: threading.Lock) -> None:
        super().__init__()
        self.server, self.holders, self.lock = server, holders, lock
        self.is_stopping = False
        self.acknowledged: list[dict[str, Any]] = []
        self.n_sent = self.n_repeated = 0
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            while not self.is_stopping:
                self.work_once()
        except Exception as error:
            self.errors.append(repr(error))

    def work_once(self) -> None:
        key = str(uuid.uuid4())
        orders = self.repeat("/orders?n=5&why=false", None, {"Idempotency-Key": key})["orders"]
        with self.lock:
            for order in orders:
                holder = self.holders.setdefault(order["url"], key)
                if holder != key:
                    self.errors.append(f"{order['url']} was leased to {holder} and {key}")
        if not orders:
            time.sleep(0.01)
            return
        rows = [{"handle": order["handle"], "digest": str(uuid.uuid4())} for order in orders]
        with self.lock:
            for order in orders:
                del self.holders[order["url"]]
        self.n_sent += len(rows)
        statuses = self.repeat("/outcomes", rows, {})["status"]
        if set(statuses) - {"done", "duplicate"}:
            self.errors.append(f"outcomes were {statuses}")
        self.acknowledged += rows

    def repeat(self, path: str, rows: Any, headers: dict[str, str]) -> Any:
        """Send a request again and again, until there is an answer."""
        while True:
            try:
                return self.send(path, rows, headers)
            except (OSError, http.client.HTTPException, ValueError):
                self.n_repeated += 1
                time.sleep(0.02)

    def send(self, path: str, rows: Any, headers: dict[str, str]) -> Any:
        port = self.server.port
        if port == 0:
            raise OSError("the server is down")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            body = None if rows is None else json.dumps(rows)
            sent = headers | {"Content-Type": "application/json"}
            connection.request("POST", f"/v1/corpora/news{path}", body, sent)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data
            return json.loads(data)
        finally:
            connection.close()


@pytest.fixture
def run_clients(tmp_path: Path) -> Callable[[], list[Client]]:
    folder = tmp_path / "news"
    with recrawl.open(folder, CorpusConfig.from_dict({"politeness": IMPOLITE})) as corpus:
        corpus.add(URLS)

    def run() -> list[Client]:
        server, holders, lock = Server(folder), dict[str, str](), threading.Lock()
        server.start()
        clients = [Client(server, holders, lock) for _ in range(N_CLIENTS)]
        for client in clients:
            client.start()
        rng = random.Random(0)
        try:
            for _ in range(N_KILLS):
                time.sleep(rng.uniform(0.05, 0.6))
                server.kill()
                server.start()
            time.sleep(0.3)
        finally:
            for client in clients:
                client.is_stopping = True
            for client in clients:
                client.join(60)
            server.stop()
        return clients

    return run


def test_kills_under_load(run_clients: Callable[[], list[Client]], tmp_path: Path) -> None:
    clients = run_clients()
    assert [error for client in clients for error in client.errors] == []
    n_acknowledged = sum(len(client.acknowledged) for client in clients)
    assert n_acknowledged > 0
    assert sum(client.n_repeated for client in clients) > 0
    with recrawl.open(tmp_path / "news", read_only=True) as corpus:
        stats = corpus.stats()
        assert n_acknowledged == sum(client.n_sent for client in clients)
        assert stats.n_outcomes == n_acknowledged
        assert stats.in_flight == 0
