"""Kill workers of a shared corpus and their server again and again, and check every request.

A server in a process of its own serves a web that misbehaves, `recrawl serve` shares a corpus, and
four workers (``recrawl run -C http://…``) crawl the web together.  At random moments one of the
workers, or now and then the server of the corpus, is killed with SIGKILL and started again.  In the
end all are told to stop.  Then

- the log of the web has no request that violates robots.txt, Retry-After or the delay of its host,
  whichever worker sent it,
- no page was fetched twice within one lease,
- all workers have ended without an error.

If anything differs, the folder with the corpus, the output of the workers and the log of the web
is kept.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import recrawl
from benchmarks.run_kills import serve_web
from recrawl.corpus import CorpusConfig
from recrawl.testing.web import (
    LocalWeb,
    LoggedRequest,
    RequestKind,
    RequestLog,
    find_violations,
    make_hosts,
    read_request_log,
)

__all__ = ["find_faults", "measure"]

N_WORKERS: Final = 4
N_HOSTS: Final = 12
N_PAGES: Final = 150
_PAGE_SPEED: Final = 2_000.0
_DELAY_SECONDS: Final = 1.0
_TOLERANCE_SECONDS: Final = 0.05
_START_SECONDS_MAX: Final = 120.0
_WORK_SECONDS_MAX: Final = 4.0
_LAST_SECONDS: Final = 3.0
_STOP_SECONDS_MAX: Final = 60.0
# One kill in so many is of the server.
_SERVER_KILLS: Final = 5
_SHOWN_MAX: Final = 20


class _Processes:
    """The server of the corpus and its workers."""

    def __init__(self, folder: Path, n_workers: int, urls: list[str]) -> None:
        self._folder = folder
        self._urls = urls
        self._port = 0
        self._workers: list[subprocess.Popen[bytes] | None] = [None] * n_workers
        self._log_bytes = [0] * n_workers
        self._server: subprocess.Popen[str] | None = None
        self.n_killed: Counter[str] = Counter()

    def start(self) -> None:
        self.start_server()
        for number in range(len(self._workers)):
            self.start_worker(number)

    def start_server(self) -> None:
        corpus = f"news={self._folder / 'corpus'}"
        command = [sys.executable, "-m", "recrawl", "serve", corpus, "--port", str(self._port)]
        with (self._folder / "server.log").open("a") as log:
            self._server = subprocess.Popen(
                command, env=_environment(), stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._server.stdout is not None
        url = json.loads(self._server.stdout.readline())["url"]
        self._port = urlsplit(url).port or 0

    def start_worker(self, number: int) -> None:
        folder = self._folder / f"worker-{number}"
        is_first = not folder.exists()
        command = [sys.executable, "-m", "recrawl", "run", "-C", self._address]
        command += ["--worker-folder", str(folder)]
        if number == 0 and is_first:
            command += self._urls
        with self._log_of(number).open("a") as log:
            self._log_bytes[number] = log.tell()
            self._workers[number] = subprocess.Popen(
                command, env=_environment(), stdout=log, stderr=log
            )

    def _log_of(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def wait_until_started(self) -> None:
        """Wait until all workers say that they fetch; before, SIGTERM simply ends them."""
        end = time.monotonic() + _START_SECONDS_MAX
        for number, n_bytes in enumerate(self._log_bytes):
            while b"Fetching as" not in self._log_of(number).read_bytes()[n_bytes:]:
                if time.monotonic() > end:
                    raise RuntimeError(f"worker {number} has not started: see its log")
                time.sleep(0.1)

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1/corpora/news"

    def kill_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.communicate()
        self.n_killed["server"] += 1
        self.start_server()

    def kill_worker(self, number: int) -> None:
        worker = self._workers[number]
        assert worker is not None
        if worker.poll() is not None:
            raise RuntimeError(f"worker {number} has ended: see worker-{number}.log")
        worker.kill()
        worker.wait()
        self.n_killed["worker"] += 1
        self.start_worker(number)

    def stop(self) -> dict[str, Any]:
        """Tell all to stop; return how they ended."""
        workers = [one for one in self._workers if one is not None]
        for one in workers:
            one.send_signal(signal.SIGTERM)
        codes = [one.wait(_STOP_SECONDS_MAX) for one in workers]
        assert self._server is not None
        self._server.send_signal(signal.SIGTERM)
        self._server.communicate(timeout=_STOP_SECONDS_MAX)
        return {"worker_exit_codes": codes, "server_exit_code": self._server.returncode}

    def kill_all(self) -> None:
        for one in (*self._workers, self._server):
            if one is not None and one.poll() is None:
                one.kill()
                one.communicate()


def measure(
    n_kills: int,
    *,
    n_workers: int = N_WORKERS,
    n_hosts: int = N_HOSTS,
    n_pages: int = N_PAGES,
    work_seconds_max: float = _WORK_SECONDS_MAX,
    seed: int = 0,
) -> dict[str, Any]:
    """Return what was impolite or fetched twice after so many kills.

    Parameters
    ----------
    n_kills
        Number of kills.
    n_workers
        Number of workers.
    n_hosts, n_pages
        Size of the web.
    work_seconds_max
        Longest time between two kills, beyond that until a request arrives.
    seed
        Random seed.
    """
    folder = Path(tempfile.mkdtemp(prefix="worker-kills-"))
    found = _measure_in(folder, n_kills, n_workers, (n_hosts, n_pages), work_seconds_max, seed)
    if find_faults(found):
        found["folder"] = str(folder)
    else:
        shutil.rmtree(folder)
    return found


def find_faults(found: dict[str, Any]) -> list[str]:
    """Return which promises the result of `measure` breaks, as names of its fields."""
    faults = [name for name in ("violations", "fetched_twice") if found[name]]
    codes = [*found["worker_exit_codes"], found["server_exit_code"]]
    return faults + (["worker_exit_codes"] if any(codes) else [])


def _measure_in(
    folder: Path,
    n_kills: int,
    n_workers: int,
    size: tuple[int, int],
    work_seconds_max: float,
    seed: int,
) -> dict[str, Any]:
    draws = random.Random(seed)
    config = {
        "budget": {"rate": "20000/h"},
        "pattern": [{"match": "*", "kind": "page", "min_age": "1s"}],
        "run": {"allow_networks": ["127.0.0.0/8"]},
    }
    with recrawl.open(folder / "corpus", CorpusConfig.from_dict(config)):
        pass
    requests = folder / "requests.jsonl"
    with serve_web(folder, *size, page_speed=_PAGE_SPEED) as (urls, started_at_ms):
        processes = _Processes(folder, n_workers, urls)
        try:
            processes.start()
            for i in range(n_kills):
                _wait_for_requests(requests)
                time.sleep(draws.uniform(0.0, work_seconds_max))
                if i % _SERVER_KILLS == _SERVER_KILLS - 2:
                    processes.kill_server()
                else:
                    processes.kill_worker(draws.randrange(n_workers))
                print(f"\r{i + 1} killed", end="", file=sys.stderr)
            print(file=sys.stderr)
            processes.wait_until_started()
            time.sleep(_LAST_SECONDS)
            ended = processes.stop()
        finally:
            processes.kill_all()
    log = read_request_log(requests)
    web = LocalWeb(
        make_hosts(*size),
        started_at_ms=started_at_ms,
        page_speed=_PAGE_SPEED,
        is_by_address=True,
        port=urlsplit(urls[0]).port,
    )
    violations = find_violations(
        web, log, delay_seconds=_DELAY_SECONDS, tolerance_seconds=_TOLERANCE_SECONDS
    )
    with recrawl.open(folder / "corpus", read_only=True) as corpus:
        stats = corpus.stats()
        twice = _find_fetched_twice(corpus, web, log)
    return {
        "n_killed": dict(processes.n_killed),
        "n_requests": len(log),
        "n_requests_by_kind": dict(Counter(str(one.kind) for one in log)),
        "n_outcomes": stats.n_outcomes,
        "n_orders_left": stats.in_flight,
        "violations": [
            f"{one.kind} {one.request.host} {one.request.path}: {one.reason}" for one in violations
        ],
        "fetched_twice": twice[:_SHOWN_MAX],
        **ended,
    }


def _find_fetched_twice(corpus: Any, web: LocalWeb, log: RequestLog) -> list[str]:
    """Return pages that were fetched twice within one lease, with the instants.

    Requests that follow a redirect have no lease: first pages of hosts are left out.  After an
    answer with a fault the fetcher may ask once more.
    """
    of_page: dict[str, list[LoggedRequest]] = {}
    for host, rows in log.by_host().items():
        for row in rows:
            if row.kind is RequestKind.PAGE and row.path not in ("/", "/0"):
                of_page.setdefault(web.hosts[host].origin + row.path, []).append(row)
    found = []
    for url, rows in of_page.items():
        history = corpus.history(url, with_beliefs=False)
        if history is None:
            continue
        ordered_at = [one.at_ms for one in history.orders]
        last: dict[int, LoggedRequest] = {}
        for row in rows:
            lease = bisect_right(ordered_at, row.at_ms)
            before = last.get(lease)
            if before is not None and not before.fault:
                found.append(f"{url} at {before.at_ms} and {row.at_ms}")
            last[lease] = row
    return found


def _environment() -> dict[str, str]:
    # A small corpus needs no compiled kernels, and runs are too short to compile any.
    return os.environ | {"RECRAWL_KERNELS": "interpreted"}


def _wait_for_requests(requests: Path) -> None:
    """Wait until the web gets another request."""
    n_bytes = requests.stat().st_size if requests.exists() else 0
    end = time.monotonic() + _START_SECONDS_MAX
    while not requests.exists() or requests.stat().st_size <= n_bytes:
        if time.monotonic() > end:
            raise RuntimeError("the workers send nothing")
        time.sleep(0.01)
