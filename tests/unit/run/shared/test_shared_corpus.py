"""A worker goes on when its server was away, and without what its key does not allow."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from recrawl.client import Client
from recrawl.corpus import Corpus
from recrawl.errors import AccessDenied, LockedError, ServiceUnavailable
from recrawl.fetch import FetchAnswer, FetchRequest
from recrawl.fetch.sinks import Spool
from recrawl.run import CrawlProgress, CrawlSettings, FetchResult, HeldOrders, crawl
from recrawl.run.shared import SharedCorpus, lock_worker_folder
from tests.unit.client.partly_away import PartlyAway
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


class Pages:
    """Fetches pages that are all there."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        return FetchAnswer(
            url=request.url,
            final_url=request.url,
            fetched_at_ms=self._now_ms(),
            status=200,
            headers={"content-type": "text/html"},
            body=f"<p>The text of {request.url}</p>".encode(),
        )

    async def close(self) -> None:
        pass


@pytest.fixture
def partly(open_corpus: Callable[..., Corpus]) -> PartlyAway:
    corpus = open_corpus("partly", corpus={"partitions": 4})
    urls = [f"https://h{i}.example/" for i in range(20)]
    corpus.add(urls)
    corpus.set(urls, min_age="1d")
    return PartlyAway(corpus, [1, 2], 0)


@pytest.fixture
def shared(partly: PartlyAway, tmp_path: Path) -> Iterator[SharedCorpus]:
    with RunningServer({"news": partly}) as server:
        url = f"http://127.0.0.1:{server.port}/v1/corpora/news"
        with Client(url, retry_seconds=2.0, row_retry_seconds=0.0) as client:
            yield SharedCorpus(client, tmp_path)


def crawl_once(shared: SharedCorpus, spool: Spool, progress: CrawlProgress) -> None:
    settings = CrawlSettings(is_shared=True, is_single_pass=True, lease_seconds=60.0)
    crawling = crawl(
        cast("Corpus", shared),
        Pages(shared.now_ms),
        settings=settings,
        spool=spool,
        progress=progress,
    )
    asyncio.run(asyncio.wait_for(crawling, 300))


def test_outcomes_whose_partitions_are_away_are_reported_again(
    shared: SharedCorpus,
    partly: PartlyAway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(import_module("recrawl.run.crawl"), "_AGAIN_SECONDS", 0.05)
    progress = CrawlProgress()
    partly.names, partly.n_calls = {"report", "extend"}, 6
    with closing(Spool.open(tmp_path / "spool", only_own=True)) as spool:
        crawl_once(shared, spool, progress)
        versions = spool.read(1)
        assert spool.pending == ()
    assert sorted(one.url for one in versions) == [
        f"https://h{i}.example/" for i in sorted(range(20), key=str)
    ]
    assert all(one.body for one in versions)
    assert progress.results[FetchResult.NEW] == 20
    stats = partly.corpus.stats()
    assert (stats.n_outcomes, stats.n_ordered, stats.in_flight) == (20, 20, 0)


def test_a_crawl_that_ends_says_what_was_not_reported(
    shared: SharedCorpus,
    partly: PartlyAway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(import_module("recrawl.run.crawl"), "_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(import_module("recrawl.run.crawl"), "_LAST_SECONDS", 0.2)
    progress, stopping = CrawlProgress(), asyncio.Event()
    partly.names, partly.n_calls = {"report"}, 1_000_000
    n_away = int(
        np.isin(partly.partitions([f"https://h{i}.example/" for i in range(20)]), [1, 2]).sum()
    )
    assert 0 < n_away < 20

    async def main(spool: Spool) -> None:
        crawling = asyncio.create_task(
            crawl(
                cast("Corpus", shared),
                Pages(shared.now_ms),
                settings=CrawlSettings(is_shared=True),
                spool=spool,
                stopping=stopping,
                progress=progress,
            )
        )
        while progress.n_fetches < 20 - n_away:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # those that are away are reported again and again
        stopping.set()
        await crawling

    with closing(Spool.open(tmp_path / "spool", only_own=True)) as spool:
        with pytest.raises(ServiceUnavailable, match=f"{n_away} outcomes were not reported"):
            asyncio.run(asyncio.wait_for(main(spool), 300))
        assert len(spool.pending) == n_away
        assert len(spool.read(1)) == 20 - n_away
    assert partly.corpus.stats().n_outcomes == progress.n_fetches == 20 - n_away
    assert partly.corpus.stats().in_flight == 0  # the other orders were given back


def test_rows_of_a_crawl_are_sent_until_their_partitions_are_back(
    shared: SharedCorpus,
    partly: PartlyAway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("recrawl.run.shared.corpus._PAUSE_SECONDS", 0.01)
    urls = [f"https://new{i}.example/" for i in range(20)]
    partly.n_calls = 3
    added = shared.add(urls, importance=[float(i) for i in range(20)])
    assert tuple(added) == (20, 0, 0)
    assert partly.corpus.n_pages == 40
    partly.n_calls = 3
    assert shared.signal(urls, source="sitemap", at_ms=[0] * 20, claimed_at_ms=[0] * 20) == 20
    assert partly.corpus.stats().n_signals == 20
    partly.n_calls = 3
    shared.set_each(urls, importance=[2.0] * 20)
    partly.n_calls = 3
    shared.set(urls, max_age=60.0)
    rows = [row for one in partly.corpus.pages(["url", "importance"]) for row in one.to_pylist()]
    assert {round(row["importance"], 1) for row in rows if "new" in row["url"]} == {2.0}
    monkeypatch.setattr("recrawl.run.shared.corpus._ROWS_SECONDS", 0.0)
    partly.n_calls = 1_000
    shared.set(urls, max_age=90.0)
    assert "cannot be reached: sitemaps and feeds are read as often as pages" in caplog.text


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
