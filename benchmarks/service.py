"""Measure the HTTP service beside the same batches on an embedded corpus, in one run.

The service is a process of its own, and this process is its client.  Embedded and served batches
take turns, so that a busy machine slows both.  A table of jobs in PostgreSQL behind the same
framework takes its turn as well.
"""

import csv
import io
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import recrawl
from benchmarks.calls import lease_and_report
from benchmarks.http_load import run_pairs
from benchmarks.mutations import N_MUTATIONS, mutate
from benchmarks.peer_queues import PostgresTable, start_postgres
from benchmarks.scale import synthetic_urls
from recrawl.corpus import Corpus, CorpusConfig, Outcome

__all__ = ["measure"]

_ARROW: Final = "application/vnd.apache.arrow.stream"
_JSON: Final = "application/json"
_PATH: Final = "/v1/corpora/news"
_CONFIG: Final = {"politeness": {"delay": 0, "in_flight_max": 30_000, "burst": 30_000}}
_ROWS: Final = 1_000
_ROUNDS: Final = 5
_BATCHES: Final = 10
_IDLE_SECONDS: Final = 5.0
_DIGEST: Final = b"0123456789abcdef"
_CSV_COLUMNS: Final = (
    *("key", "n_clients", "n_rows_per_call", "rows_per_second", "milliseconds_p99"),
    *("of_embedded", "postgresql_rows_per_second", "postgresql_milliseconds_p99"),
    *("processor_microseconds", "idle_percent", "health_milliseconds_p99", "rows_added_per_second"),
    *("n_pages", "n_bodies", "server_errors"),
)


class _Client:
    def __init__(self, port: int, prefix: str = _PATH) -> None:
        self._prefix = prefix
        self._connection = HTTPConnection("127.0.0.1", port, timeout=120)

    def send(self, method: str, path: str, body: bytes | None, format: str) -> tuple[int, bytes]:
        headers = {"Content-Type": format, "Accept": format}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.getheader("connection") == "close":
            self._connection.close()
        return answer.status, data

    def post(self, path: str, body: bytes | None = None, format: str = _JSON) -> bytes:
        status, data = self.send("POST", self._prefix + path, body, format)
        if status != 200:
            raise RuntimeError(f"{path} was answered with {status}: {data[:200]!r}")
        return data

    def close(self) -> None:
        self._connection.close()


class _Served:
    """A process of ``recrawl serve``."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process = process
        self.port = port

    def _words(self, name: str) -> list[str]:
        return Path(f"/proc/{self.process.pid}/{name}").read_text().rpartition(")")[2].split()

    @property
    def cpu_seconds(self) -> float:
        words = self._words("stat")
        return (int(words[11]) + int(words[12])) / 100

    @property
    def memory_mib(self) -> float:
        words = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(words[1]) * 4096 / (1 << 20)


def _serve(folder: Path) -> AbstractContextManager[_Served]:
    return _serve_with("recrawl", "serve", f"news={folder}", "--port", "0")


@contextmanager
def _serve_job_table(n_pages: int, n_hosts: int) -> Iterator[_Served]:
    with start_postgres() as address:
        table = PostgresTable(address)
        table.create(
            synthetic_urls(first, min(100_000, n_pages - first), n_hosts)
            for first in range(0, n_pages, 100_000)
        )
        table.close()
        with _serve_with("benchmarks.job_table", address) as served:
            yield served


@contextmanager
def _serve_with(module: str, *arguments: str) -> Iterator[_Served]:
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        yield _Served(process, int(url.split(":")[2].partition("/")[0]))
    finally:
        process.terminate()
        process.communicate()


def _arrow_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _pair_in_json(client: _Client, n_rows: int) -> int:
    orders = json.loads(client.post(f"/orders?n={n_rows}&why=false"))["orders"]
    rows = [{"handle": order["handle"], "digest": _DIGEST.decode()} for order in orders]
    answer = json.loads(client.post("/outcomes", _json_bytes(rows)))
    return int(answer["counts"].get("done", 0))


def _pair_in_arrow(client: _Client, n_rows: int) -> int:
    path = f"/orders?n={n_rows}&why=false"
    handle = pa.ipc.open_stream(client.post(path, format=_ARROW)).read_all().column("handle")
    digest = pa.array([_DIGEST] * len(handle), pa.binary())
    body = _arrow_bytes(pa.table({"handle": handle, "digest": digest}))
    statuses = pa.ipc.open_stream(client.post("/outcomes", body, _ARROW)).read_all()
    return int(statuses.column("status").to_pylist().count("done"))


def _rate(call: Callable[[], int], n_calls: int) -> float:
    started = time.perf_counter()
    n_rows = sum(call() for _ in range(n_calls))
    if n_rows == 0:
        raise RuntimeError("no page was due; use more pages")
    return n_rows / (time.perf_counter() - started)


def _batch_rates(corpus: Corpus, served: _Served, table: _Served) -> dict[str, object]:
    """Measure batches of a thousand rows, embedded and served by turns."""
    client, of_table = _Client(served.port), _Client(table.port, "")
    calls: dict[str, Callable[[], int]] = {
        "embedded": lambda: lease_and_report(corpus, _ROWS),
        "json": lambda: _pair_in_json(client, _ROWS),
        "arrow": lambda: _pair_in_arrow(client, _ROWS),
        "postgresql": lambda: _pair_in_json(of_table, _ROWS),
    }
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            client.close()  # a server closes connections that were idle while others had their turn
            of_table.close()
            rates[name].append(_rate(call, _BATCHES))
    client.close()
    of_table.close()
    found: dict[str, object] = {
        f"rows_per_second_{name}": round(statistics.median(values))
        for name, values in rates.items()
    }
    for name in ("json", "arrow"):
        shares = [a / b for a, b in zip(rates[name], rates["embedded"], strict=True)]
        found[f"share_of_embedded_{name}"] = round(statistics.median(shares), 2)
    return found


def _together(n_threads: int, work: Callable[[], None]) -> float:
    """Return the seconds that threads take to do some work, each all of it."""
    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def _single_rates(
    corpus: Corpus, served: _Served, table: _Served, n_clients: int, n_pairs: int
) -> dict[str, object]:
    """Measure pairs of a lease and a report of one row, by many clients."""

    def embedded() -> None:
        for _ in range(n_pairs):
            orders = corpus.lease(1, with_shortfall=False)
            corpus.report([Outcome(handle=one.handle, digest=_DIGEST) for one in orders])

    n = n_clients * n_pairs
    at_home, away, of_table, processor = [], [], [], 0.0
    run_pairs(served.port, _PATH, n_clients, 1)  # both have opened their connections by now
    run_pairs(table.port, "", n_clients, 1)
    for _ in range(3):
        at_home.append(n / _together(n_clients, embedded))
        before = served.cpu_seconds
        away.append(run_pairs(served.port, _PATH, n_clients, n_pairs))
        processor += served.cpu_seconds - before
        of_table.append(run_pairs(table.port, "", n_clients, n_pairs))
    shares = [one.pairs_per_second / other for one, other in zip(away, at_home, strict=True)]
    return {
        "clients": n_clients,
        "pairs_per_second": round(statistics.median(one.pairs_per_second for one in away)),
        "milliseconds_per_pair_p99": round(
            statistics.median(one.milliseconds_p99 for one in away), 1
        ),
        "processor_microseconds_per_pair": round(1e6 * processor / (3 * n)),
        "share_of_embedded": round(statistics.median(shares), 2),
        "postgresql_pairs_per_second": round(
            statistics.median(one.pairs_per_second for one in of_table)
        ),
        "postgresql_milliseconds_per_pair_p99": round(
            statistics.median(one.milliseconds_p99 for one in of_table), 1
        ),
    }


def _health_while_adding(served: _Served, n_rows: int) -> dict[str, object]:
    """Measure ``/healthz`` while another client adds many rows."""
    is_done = threading.Event()
    seconds: list[float] = []

    def ask() -> None:
        client = _Client(served.port)
        while not is_done.wait(0.01):
            started = time.perf_counter()
            client.send("GET", "/healthz", None, _JSON)
            seconds.append(time.perf_counter() - started)
        client.close()

    asking = threading.Thread(target=ask)
    asking.start()
    client = _Client(served.port)
    started = time.perf_counter()
    for first in range(0, n_rows, 50_000):
        urls = [f"https://more{i % 1_000}.example/{i}" for i in range(first, first + 50_000)]
        client.post("/pages", _arrow_bytes(pa.table({"url": urls})), _ARROW)
    took = time.perf_counter() - started
    is_done.set()
    asking.join()
    client.close()
    return {
        "rows_added_per_second": round(n_rows / took),
        "health_milliseconds_p99": round(1e3 * sorted(seconds)[int(len(seconds) * 0.99)], 1),
    }


def _idle_share(served: _Served, n_clients: int) -> float:
    """Return the share of a core that leases take that wait for nothing."""
    client = _Client(served.port)
    while json.loads(client.post("/orders?n=10000&seconds=3600&why=false"))["orders"]:
        pass
    client.close()
    waiting = [HTTPConnection("127.0.0.1", served.port) for _ in range(n_clients)]
    for one in waiting:
        one.request("POST", f"{_PATH}/orders?wait=30&why=false")
    time.sleep(1.0)
    before, started = served.cpu_seconds, time.perf_counter()
    time.sleep(_IDLE_SECONDS)
    share = (served.cpu_seconds - before) / (time.perf_counter() - started)
    for one in waiting:
        one.close()
    return round(share, 4)


def _attack(served: _Served, n_bodies: int) -> dict[str, object]:
    """Send mutated bodies; count the answers by status, and how much memory the server gains."""
    rng = random.Random(0)
    urls = [f"https://site{i}.example/{i}" for i in range(10)]
    handles = pa.table({"handle": [4096, 8192], "status": [200, 404], "digest": [b"a", b"b"]})
    samples: list[tuple[str, str, bytes]] = [
        ("/pages", _JSON, _json_bytes([{"url": url, "metadata": {"a": 1}} for url in urls])),
        ("/pages", _ARROW, _arrow_bytes(pa.table({"url": urls, "importance": [1.0] * 10}))),
        ("/outcomes", _JSON, _json_bytes([{"handle": 4096, "status": 200, "digest": "x"}] * 3)),
        ("/outcomes", _ARROW, _arrow_bytes(handles)),
        ("/signals?source=s", _JSON, _json_bytes([{"url": url, "at_ms": 1} for url in urls])),
        ("/orders/extend", _JSON, _json_bytes({"handles": [4096, 8192], "seconds": 60})),
    ]
    bodies = [body for _, _, body in samples]
    pieces = [b"{", b"[", b'"', b"\x00", b"\xff", b"1e999", b"null", b"\\ud800", b'"url":', b"-1"]
    client = _Client(served.port)
    statuses: dict[int, int] = {}
    memory_mib = 0.0
    for number in range(n_bodies):
        path, format, _ = samples[number % len(samples)]
        body = bytearray(bodies[number % len(samples)])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(body) + 1)
            to = min(at + rng.choice((1, 1, 4, 16)), len(body))
            mutate(body, rng.randrange(N_MUTATIONS), at, to, bodies, pieces, rng)
        status, _ = client.send("POST", _PATH + path, bytes(body), format)
        statuses[status] = statuses.get(status, 0) + 1
        if number == n_bodies // 5:
            memory_mib = served.memory_mib  # what is loaded once is loaded by now
    client.close()
    return {
        "bodies": n_bodies,
        "answers_by_status": dict(sorted(statuses.items())),
        "server_errors": sum(n for status, n in statuses.items() if status >= 500),
        "memory_gained_mib": round(served.memory_mib - memory_mib, 1),
    }


def _write_csv(file: Path, found: dict[str, Any]) -> None:
    """Write the figures that the documentation quotes."""
    rows: list[dict[str, object]] = [
        {
            "key": f"batch_{name}",
            "n_clients": 1,
            "n_rows_per_call": _ROWS,
            "rows_per_second": found[f"rows_per_second_{name}"],
            "of_embedded": found[f"share_of_embedded_{name}"],
            "postgresql_rows_per_second": found["rows_per_second_postgresql"]
            if name == "json"
            else "",
        }
        for name in ("json", "arrow")
    ]
    rows += [
        {
            "key": f"single_{one['clients']}",
            "n_clients": one["clients"],
            "n_rows_per_call": 1,
            "rows_per_second": one["pairs_per_second"],
            "milliseconds_p99": one["milliseconds_per_pair_p99"],
            "of_embedded": one["share_of_embedded"],
            "postgresql_rows_per_second": one["postgresql_pairs_per_second"],
            "postgresql_milliseconds_p99": one["postgresql_milliseconds_per_pair_p99"],
            "processor_microseconds": one["processor_microseconds_per_pair"],
        }
        for one in found["single_rows"]
    ]
    rows.append(
        {
            "key": "beside",
            "idle_percent": round(100 * found["idle_share_of_256_leases"], 1),
            "health_milliseconds_p99": found["health_milliseconds_p99"],
            "rows_added_per_second": found["rows_added_per_second"],
            "n_pages": found["pages"],
            "n_bodies": found["attack"]["bodies"],
            "server_errors": found["attack"]["server_errors"],
        }
    )
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, _CSV_COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def measure(n_pages: int, n_bodies: int = 2_000, output: Path | None = None) -> dict[str, object]:
    """Measure the service.

    Parameters
    ----------
    n_pages
        Pages of the corpus, and rows of the table of jobs.
    n_bodies
        Number of mutated bodies to send.
    output
        CSV file for the figures that the documentation quotes; None for none.
    """
    config = CorpusConfig.from_dict(_CONFIG)
    n_hosts = max(n_pages // 50, 1)
    scale = min(n_pages / 500_000, 1.0)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("embedded", "served")]
        for folder in folders:
            with recrawl.open(folder, config) as corpus:
                for first in range(0, n_pages, 100_000):
                    corpus.add(synthetic_urls(first, min(100_000, n_pages - first), n_hosts))
        with recrawl.open(folders[0]) as corpus, _serve(folders[1]) as served:
            found: dict[str, object] = {"pages": n_pages}
            with _serve_job_table(n_pages, n_hosts) as table:
                found |= _batch_rates(corpus, served, table)
                found["single_rows"] = [
                    _single_rates(corpus, served, table, n_clients, max(round(scale * n_pairs), 3))
                    for n_clients, n_pairs in ((1, 400), (16, 100), (32, 80), (256, 10))
                ]
            found |= _health_while_adding(served, min(n_pages, 1_000_000))
            found["attack"] = _attack(served, n_bodies)
            found["idle_share_of_256_leases"] = _idle_share(served, 256)
    if output is not None:
        _write_csv(output, found)
    return found
