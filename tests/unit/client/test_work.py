"""`Client.work` fetches what is leased, and loses no outcome however it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recrawl
from recrawl.client import AsyncClient, Client
from recrawl.corpus import Corpus, CorpusConfig, Order, Outcome
from recrawl.errors import ServiceUnavailable
from tests.unit.client.unreliable_proxy import UnreliableProxy
from tests.unit.service.running_server import RunningServer

PAGES = [f"https://h{i}.example/" for i in range(60)]


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    corpus = open_corpus()
    corpus.add(PAGES)
    corpus.set(PAGES, min_age="1d")
    return corpus


def fetch(order: Order) -> Outcome:
    return Outcome(digest=order.url.encode())


def is_complete(corpus: Corpus, n_pages: int = len(PAGES)) -> bool:
    """Return whether each page was reported once, and nothing is held."""
    changes = corpus.changes()
    stats = corpus.stats()
    assert Counter(one.url for one in changes) == dict.fromkeys((one.url for one in changes), 1)
    assert stats.n_outcomes == len(changes)
    return len(changes) == n_pages and stats.in_flight == 0


def test_all_that_is_due_is_fetched_and_reported(client: Client, corpus: Corpus) -> None:
    counts = client.work(fetch, concurrency=5, until_idle=True)
    assert counts == (60, 60, 0, 0)
    assert is_complete(corpus)


def test_idle_work_waits_for_hosts_that_rest(tmp_path: Path) -> None:
    # With the clock of the system, which goes on while a host rests; the server closes it.
    config = CorpusConfig.from_dict({"politeness": {"delay": 0.5}})
    corpus = recrawl.open(tmp_path / "polite", config)
    corpus.add([f"https://one.example/{i}" for i in range(4)])
    corpus.set(pattern="/*", min_age="1d")
    with (
        RunningServer({"news": corpus}) as server,
        Client(f"http://127.0.0.1:{server.port}") as client,
    ):
        assert client.work(fetch, until_idle=True).n_counted == 4
        corpus.add(["https://two.example/"])
        corpus.set_host("two.example", blocked_until_ms=corpus.now_ms() + 600_000)
        # Nobody waits for ten minutes.
        assert client.work(fetch, until_idle=True).n_counted == 0


def test_a_server_that_is_away_is_announced_once(
    proxy: UnreliableProxy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.client.transport._AWAY_SECONDS", 0.05)
    proxy.faults.extend(["refuse"] * 8)
    with Client(proxy.url) as client:
        assert client.work(fetch, concurrency=6, until_idle=True).n_counted == 60
    messages = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(messages) == 2, messages
    assert "trying again" in messages[0]
    assert "answers again" in messages[1]


def test_so_many_fetches_run_at_a_time(client: Client) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def count(order: Order) -> Outcome:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return fetch(order)

    client.work(count, concurrency=7, until_idle=True)
    assert most == 7


def test_work_waits_for_pages_and_ends_when_told(client: Client, corpus: Corpus) -> None:
    stop = threading.Event()
    results: list[Any] = []
    worker = threading.Thread(
        target=lambda: results.append(client.work(fetch, concurrency=4, stop=stop))
    )
    worker.start()
    deadline = time.monotonic() + 30
    while corpus.stats().n_outcomes < 60 and time.monotonic() < deadline:
        time.sleep(0.05)
    client.add(["https://later.example/"])
    while corpus.stats().n_outcomes < 61 and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    worker.join(30)
    assert results == [(61, 61, 0, 0)]
    assert is_complete(corpus, 61)


def test_what_was_not_begun_is_given_back(client: Client, corpus: Corpus) -> None:
    stop, begun = threading.Event(), threading.Event()

    def slow(order: Order) -> Outcome:
        begun.set()
        time.sleep(0.5)
        return fetch(order)

    def stop_soon() -> None:
        begun.wait(30)
        stop.set()

    threading.Thread(target=stop_soon).start()
    counts = client.work(slow, concurrency=3, stop=stop)
    assert counts.n_fetched == counts.n_counted == 3
    assert counts.n_released == 3
    assert is_complete(corpus, 3)


def test_a_fetch_that_does_not_end_is_given_back(client: Client, corpus: Corpus) -> None:
    async def never(order: Order) -> Outcome:
        await asyncio.sleep(3_600)
        raise AssertionError

    async def work() -> Any:
        async with AsyncClient(client.url) as one:
            return await one.work(never, concurrency=2, for_seconds=0.5, stop_seconds=0.1)

    assert asyncio.run(work()) == (0, 0, 4, 0)
    assert corpus.stats().in_flight == 0


def test_leases_of_slow_fetches_are_extended(
    client: Client, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    extended: list[int] = []
    extend = corpus.extend

    def note(handles: Any, *, seconds: float) -> Any:
        extended.extend(handles)
        return extend(handles, seconds=seconds)

    monkeypatch.setattr(corpus, "extend", note)

    def slow(order: Order) -> Outcome:
        if order.url == PAGES[0]:
            time.sleep(2)
        return fetch(order)

    counts = client.work(slow, concurrency=60, seconds=1.5, until_idle=True)
    assert counts.n_counted == 60
    assert len(extended) >= 2
    assert is_complete(corpus)


def test_cancelled_work_reports_what_it_has(client: Client, corpus: Corpus) -> None:
    async def quick(order: Order) -> Outcome:
        return fetch(order)

    async def work() -> None:
        async with AsyncClient(client.url) as one:
            task = asyncio.ensure_future(one.work(quick, concurrency=60))
            while corpus.stats().n_ordered < 60:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    assert is_complete(corpus)


def test_network_errors_are_outcomes_and_other_errors_end_the_work(
    client: Client, corpus: Corpus
) -> None:
    def unreachable(order: Order) -> Outcome:
        raise ConnectionError("refused")

    assert client.work(unreachable, until_idle=True).n_counted == 60
    corpus.add(["https://odd.example/"])

    def broken(order: Order) -> Outcome:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        client.work(broken, until_idle=True)
    assert corpus.stats().in_flight == 0

    def on_error(order: Order, error: Exception) -> Outcome:
        return Outcome(status=500)

    counts = client.work(broken, until_idle=True, on_error=on_error)
    assert counts.n_counted == 1
    for wrong in ({"concurrency": 0}, {"seconds": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            client.work(fetch, **wrong)


def test_an_outcome_that_is_refused_does_not_take_others_with_it(
    client: Client, corpus: Corpus
) -> None:
    def odd(order: Order) -> Outcome:
        if order.url == PAGES[5]:
            return Outcome(status=200)  # says nothing
        return fetch(order)

    stop = threading.Event()
    threading.Timer(2.0, stop.set).start()
    counts = client.work(odd, concurrency=60, stop=stop)
    assert counts.n_counted == 59
    assert counts.n_refused >= 1


def test_work_survives_a_network_that_fails_half_of_the_time(
    proxy: UnreliableProxy, corpus: Corpus
) -> None:
    proxy.faults.extend(["drop", "pass", "bad gateway", "pass", "refuse", "drop", "pass"] * 20)
    with Client(proxy.url) as client:
        counts = client.work(fetch, concurrency=6, until_idle=True)
    assert counts.n_fetched == 60
    assert is_complete(corpus)


def test_outcomes_that_cannot_be_reported_are_an_error(proxy: UnreliableProxy) -> None:
    stop = threading.Event()

    def cut(order: Order) -> Outcome:
        proxy.faults.extend(["refuse"] * 1_000)
        stop.set()
        return fetch(order)

    with (
        Client(proxy.url, retry_seconds=0.3) as client,
        pytest.raises(ServiceUnavailable) as caught,
    ):
        client.work(cut, concurrency=1, stop=stop)
    assert "outcomes were not reported" in "".join(caught.value.__notes__)


WORKER = """
import sys, time, recrawl

def fetch(order):
    with open(sys.argv[2], "a") as file:
        file.write(f"{order.handle} {order.url}\\n")
    time.sleep(0.05)
    return recrawl.Outcome(digest=order.url.encode())

with recrawl.open(sys.argv[1]) as client:
    counts = client.work(fetch, concurrency=4)
    print("ended", counts.n_fetched, counts.n_counted)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_work_cleanly(
    server: RunningServer, corpus: Corpus, tmp_path: Path, number: int
) -> None:
    url = f"http://127.0.0.1:{server.port}"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, url, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while corpus.stats().n_outcomes == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    worker.send_signal(number)
    printed, errors = worker.communicate(timeout=60)
    n_fetched = len((tmp_path / "log").read_text().splitlines())
    if number == signal.SIGTERM:
        assert worker.returncode == 0, errors
        assert printed.split() == ["ended", str(n_fetched), str(n_fetched)]
    else:
        assert "KeyboardInterrupt" in errors
    assert is_complete(corpus, n_fetched)


class ServeProcess:
    """`recrawl serve` as a process that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = "0"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "recrawl", "serve", "-C", str(self.folder), "--port", self.port],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "RECRAWL_KERNELS": "interpreted"},
        )
        assert self.process.stdout is not None
        url: str = json.loads(self.process.stdout.readline())["url"]
        self.port = url.split(":")[2].partition("/")[0]
        return url

    def stop(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    folder = tmp_path / "served"
    with recrawl.open(folder) as corpus:
        corpus.add([f"https://h{i}.example/" for i in range(300)])
        corpus.set(pattern="/*", min_age="1d")
    one = ServeProcess(folder)
    yield one
    one.stop(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.slow_without_jit
def test_a_server_that_is_killed_costs_nothing(served: ServeProcess) -> None:
    url = served.start()
    fetched: list[int] = []

    def slow(order: Order) -> Outcome:
        fetched.append(order.handle)
        time.sleep(0.05)
        return fetch(order)

    stop = threading.Event()
    results: list[Any] = []
    with Client(url) as client:
        worker = threading.Thread(
            target=lambda: results.append(client.work(slow, concurrency=8, stop=stop))
        )
        worker.start()
        for n_fetched in (60, 160):
            while len(fetched) < n_fetched:
                assert worker.is_alive()
                time.sleep(0.01)
            served.stop(signal.SIGKILL)
            served.start()
        while len(fetched) < 300:
            assert worker.is_alive()
            time.sleep(0.01)
        stop.set()
        worker.join(60)
    served.stop(signal.SIGTERM)
    (counts,) = results
    assert counts.n_fetched == 300
    assert len(set(fetched)) == 300
    with recrawl.open(served.folder, read_only=True) as corpus:
        assert is_complete(corpus, 300)
