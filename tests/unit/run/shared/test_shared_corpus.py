"""A worker goes on when its server was away, and without what its key does not allow."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from recrawl.client import Client
from recrawl.corpus import Corpus
from recrawl.errors import AccessDenied, LockedError, ServiceUnavailable
from recrawl.fetch import FetchAnswer, FetchRequest
from recrawl.run import CrawlProgress, CrawlSettings, FetchResult, HeldOrders, crawl
from recrawl.run.shared import SharedCorpus, lock_worker_folder
from tests.unit.service.running_server import RunningServer

URLS = [f"https://site{i}.example/" for i in range(6)]


class FlakyClient(Client):
    """A client whose calls fail before and after their effect, by turns."""

    def __init__(self, url: str) -> None:
        super().__init__(url, retry_seconds=0.0)
        self.n_failures = 0
        self.denied: set[str] = set()

    def _wait(self, call: Any) -> Any:
        if call.__name__ in self.denied:
            call.close()
            raise AccessDenied("this needs another scope")
        if self.n_failures:
            self.n_failures -= 1
            if self.n_failures % 2:
                call.close()
            else:
                super()._wait(call)
            raise ServiceUnavailable("away")
        return super()._wait(call)


@pytest.fixture
def corpus(open_corpus: Callable[..., Corpus]) -> Corpus:
    corpus = open_corpus()
    corpus.add(URLS)
    corpus.set(URLS, min_age="1d")
    return corpus


@pytest.fixture
def client(corpus: Corpus) -> Iterator[FlakyClient]:
    with RunningServer({"news": corpus}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/corpora/news"
        with FlakyClient(url) as one:
            yield one


def test_calls_wait_for_the_server_and_have_one_effect(
    client: FlakyClient, corpus: Corpus, tmp_path: Path
) -> None:
    pauses: list[str | None] = []
    shared = SharedCorpus(client, tmp_path, pauses.append)
    client.n_failures = 3
    orders = shared.lease(4, seconds=60.0, with_shortfall=False)
    assert len(orders) == 4
    assert corpus.stats().in_flight == 4, "a lost answer has cost no order"
    assert pauses == ["waiting for the server: away", None]
    shared.stop()
    shared._gives_up_at = 0.0
    client.n_failures = 1
    with pytest.raises(ServiceUnavailable):
        shared.release([orders[0].handle])


def test_what_the_key_does_not_allow_is_left_out(
    client: FlakyClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = SharedCorpus(client, tmp_path)
    client.denied = {"set", "set_each", "signal", "set_host", "configuration"}
    shared.set(URLS[:1], importance=0.0, max_age=60.0, kind="sitemap or feed")
    shared.set(URLS[:1], importance=0.0, max_age=60.0, kind="sitemap or feed")
    shared.set_each(URLS[:1], importance=[0.0])
    assert shared.signal(URLS[:1], source="sitemap", at_ms=0) == 0
    shared.set_host("site0.example", delay=4.0)
    assert shared.config.corpus.group_by == "host"
    assert len(caplog.messages) == 4
    client.denied = {"release"}
    with pytest.raises(AccessDenied):
        shared.release([1])


def test_a_fetch_is_cancelled_when_its_lease_is_lost(
    client: FlakyClient, corpus: Corpus, tmp_path: Path
) -> None:
    """Another worker may fetch the page then."""
    begun, cancelled = threading.Event(), threading.Event()
    stopping = asyncio.Event()

    class Slow:
        async def fetch(self, request: FetchRequest) -> FetchAnswer:
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                stopping.set()
                raise
            raise AssertionError

        async def close(self) -> None:
            pass

    progress, held_orders = CrawlProgress(), HeldOrders(tmp_path / "orders")

    async def main() -> None:
        shared = SharedCorpus(client, tmp_path)
        crawling = asyncio.create_task(
            crawl(
                cast("Corpus", shared),
                Slow(),
                settings=CrawlSettings(is_shared=True, orders_max=1, lease_seconds=12.0),
                held_orders=held_orders,
                stopping=stopping,
                progress=progress,
            )
        )
        while not begun.is_set():
            await asyncio.sleep(0.01)
        assert corpus.release(held_orders.read()) == 1
        await crawling

    asyncio.run(asyncio.wait_for(main(), 60))
    assert cancelled.is_set()
    assert progress.results[FetchResult.GIVEN_BACK] == 1


def test_each_worker_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = "https://recrawl.example/v1/corpora/news"
    first, lock = lock_worker_folder(url)
    second, other_lock = lock_worker_folder(url)
    assert first != second
    lock.close()
    again, lock = lock_worker_folder(url)
    assert again == first
    lock.close()
    with pytest.raises(LockedError, match="another worker"):
        lock_worker_folder(url, second)
    other_lock.close()
    third, last_lock = lock_worker_folder(url, tmp_path / "own")
    assert third == tmp_path / "own"
    last_lock.close()
