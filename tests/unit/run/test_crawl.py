"""A crawl keeps pages fresh, is polite, loses nothing, and stops when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

import recrawl
from recrawl.corpus import Order, Orders, Transition
from recrawl.errors import SinkError
from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchSettings,
    GateFile,
    HttpFetcher,
)
from recrawl.fetch.sinks import PageVersion, SinkRunner, Spool, open_sink
from recrawl.run import CrawlEnd, CrawlProgress, CrawlSettings, FetchResult, HeldOrders, crawl
from recrawl.run.discovery import Discovery
from recrawl.shard import Reason
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    HostTraits,
    LocalWeb,
    RobotsKind,
    WebServer,
    copies_made,
    find_violations,
    judge_changes,
    make_hosts,
    mean_freshness,
    serve,
)

_T = TypeVar("_T")
START_AT_MS = 1_767_225_600_000
HOUR = 3_600.0


def make_web(*host_traits: HostTraits) -> LocalWeb:
    return LocalWeb(host_traits, started_at_ms=START_AT_MS)


class Running:
    """Everything that a crawl of a local web needs, in stepped time."""

    def __init__(self, folder: Path, time: SteppedTime, web: LocalWeb, server: WebServer) -> None:
        self.folder, self.time, self.web, self.server = folder, time, web, server
        settings = FetchSettings(
            contact="https://example.com/bot", allow_networks=("127.0.0.0/8",), delay_seconds=1.0
        )
        folder.mkdir(exist_ok=True)
        gate = GateFile(folder / "hosts").open_gate(settings, time)
        tls = None if server.certificates is None else server.certificates.client_context()
        self.fetcher = HttpFetcher(
            settings, time=time, gate=gate, resolver=server.resolver(), tls=tls
        )
        self.corpus = recrawl.open(folder / "corpus", clock=time.clock)
        self.progress = CrawlProgress()
        self.stopping = asyncio.Event()

    async def crawl(self, spool: Spool | None = None, **settings: Any) -> Any:
        return await crawl(
            self.corpus,
            self.fetcher,
            [page.url for page in self.web.pages()],
            settings=CrawlSettings(**({"idle_seconds_max": 30.0} | settings)),
            time=self.time,
            spool=spool,
            held_orders=HeldOrders(self.folder / "orders"),
            stopping=self.stopping,
            progress=self.progress,
        )


def run_with_web(folder: Path, web: LocalWeb, use: Callable[[Running], Awaitable[_T]]) -> _T:
    async def main(time: SteppedTime) -> _T:
        async with await serve(web, now_ms=time.now_ms, sets_port=False) as server:
            running = Running(folder, time, web, server)
            try:
                found = await use(running)
            finally:
                await running.fetcher.close()
                running.corpus.close()
            assert find_violations(web, server.log) == []
            return found

    return run_stepped(main, start_at_ms=START_AT_MS)


@pytest.mark.slow_without_jit
def test_a_misbehaving_web_is_kept_fresh_without_a_violation(tmp_path: Path, seed: int) -> None:
    web = LocalWeb(make_hosts(20, 100, seed=seed), started_at_ms=START_AT_MS, page_speed=24.0)
    versions: list[PageVersion] = []

    async def use(running: Running) -> None:
        running.corpus.set_budget("400/h")
        spool = Spool.open(tmp_path / "spool")
        sinks = SinkRunner(spool, [open_sink("python", {"function": versions.extend})])
        summary = await running.crawl(spool, for_seconds=HOUR)
        while sinks.step(at_once=True):
            pass
        spool.close()
        assert summary.end == CrawlEnd.TIME_OVER
        results = running.progress.results
        assert results[FetchResult.NEW] > 30
        assert results[FetchResult.CHANGED] > 10
        assert results[FetchResult.NOT_MODIFIED] > 10
        assert running.corpus.stats().in_flight == 0
        changes = running.corpus.changes(limit=100_000)
        assert [(one.url, one.what) for one in changes] == [
            (one.url, one.transition) for one in versions
        ]
        has_text = [one for one in versions if not one.is_removal]
        assert all(one.body is not None for one in has_text)
        reported = [
            (one.url, one.fetched_at_ms) for one in versions if one.transition.name == "CHANGED"
        ]
        verdicts = judge_changes(web, running.server.log, reported)
        assert verdicts.n_right > 10
        now_ms = running.time.now_ms()
        freshness = mean_freshness(
            web, copies_made(running.server.log), from_ms=now_ms - 3_600_000, until_ms=now_ms
        )
        assert freshness > 0.7

    run_with_web(tmp_path, web, use)


def test_a_crawl_stops_soon_and_the_next_one_goes_on(tmp_path: Path) -> None:
    web = make_web(*(HostTraits(name=f"{i}.example", n_pages=5) for i in range(4)))

    async def use(running: Running) -> None:
        async def stop() -> None:
            await running.time.sleep(3.0)
            running.stopping.set()

        stopper = asyncio.create_task(stop())
        summary = await running.crawl(grace_seconds=5.0)
        await stopper
        assert summary.end == CrawlEnd.STOPPED
        assert summary.seconds < 8.5
        assert 4 <= running.progress.n_fetches < 20
        assert running.corpus.stats().in_flight == 0
        running.stopping.clear()
        summary = await running.crawl(is_single_pass=True)
        assert summary.end == CrawlEnd.PASS_OVER
        assert running.progress.results[FetchResult.NEW] == 20

    run_with_web(tmp_path, web, use)


class LatePartition:
    """A corpus on a server: one partition has budget left, and another one waits for its own."""

    def __init__(self, corpus: recrawl.Corpus) -> None:
        self._corpus = corpus
        self._given: list[Order] = []
        self.n_leases = 0
        self.released: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._corpus, name)

    def lease(self, n: int, **options: Any) -> Orders:
        del n
        self.n_leases += 1
        if not self._given:
            self._given = [*self._corpus.lease(2, seconds=options["seconds"])]
            return Orders(self._given[:1])
        if self.n_leases == 4:
            return Orders(self._given[1:])
        return Orders([self._given[0]._replace(handle=-1, reason=Reason.SPARE)])

    def release(self, handles: list[int]) -> Any:
        self.released += handles
        return self._corpus.release([one for one in handles if one != -1])

    def stats(self) -> Any:
        n_due = 1 if self.n_leases < 4 else 0
        return replace(self._corpus.stats(), n_due=n_due, budget_per_second=1.0)


def test_a_pass_on_a_server_waits_for_pages_that_are_due_in_another_partition(
    tmp_path: Path,
) -> None:
    web = make_web(*(HostTraits(name=f"{i}.example", n_pages=1) for i in range(2)))

    async def use(running: Running) -> None:
        late = LatePartition(running.corpus)
        running.corpus = cast(recrawl.Corpus, late)
        summary = await running.crawl(is_single_pass=True, is_shared=True)
        assert summary.end == CrawlEnd.PASS_OVER
        assert late.n_leases == 5
        # What was fetched in this pass is given back, and not fetched again.
        assert running.progress.results == {FetchResult.NEW: 2}
        assert late.released == [-1] * 3

    run_with_web(tmp_path, web, use)


def test_orders_of_a_killed_crawl_are_given_back(tmp_path: Path) -> None:
    web = make_web(HostTraits(name="one.example", n_pages=1))

    async def use(running: Running) -> None:
        running.corpus.add(["http://one.example/0"])
        orders = running.corpus.lease(1, seconds=86_400)
        HeldOrders(tmp_path / "orders").write([order.handle for order in orders])
        summary = await running.crawl(is_single_pass=True)
        assert summary.seconds < 60
        assert running.progress.results[FetchResult.NEW] == 1
        assert HeldOrders(tmp_path / "orders").read() == []

    run_with_web(tmp_path, web, use)


def test_a_full_spool_pauses_the_crawl_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recrawl.fetch.sinks.spool._FILE_BYTES_MIN", 500)
    web = make_web(*(HostTraits(name=f"{i}.example", n_pages=3) for i in range(3)))
    notes: list[str] = []
    versions: list[PageVersion] = []
    is_broken = True

    def write(new: list[PageVersion]) -> None:
        if is_broken:
            raise SinkError("the disk of the sink is full")
        versions.extend(new)

    async def use(running: Running) -> None:
        nonlocal is_broken
        running.progress.on_note = notes.append
        spool = Spool.open(tmp_path / "spool", bytes_max=5_000)
        sinks = SinkRunner(
            spool, [open_sink("python", {"function": write})], now_ms=running.time.now_ms
        )
        crawling = asyncio.create_task(running.crawl(spool, is_single_pass=True))
        for _ in range(60):
            await running.time.sleep(5.0)
            sinks.step(at_once=True)
        n_before = running.progress.n_fetches
        assert n_before < 9
        assert not crawling.done()
        assert running.progress.pause is not None
        is_broken = False
        while not crawling.done():
            await running.time.sleep(5.0)
            sinks.step(at_once=True)
        sinks.step(at_once=True)
        spool.close()
        assert len(versions) == 9
        assert notes[:2] == [
            "Paused: the spool is full until the sinks have written what waits.",
            "Going on.",
        ]

    run_with_web(tmp_path, web, use)


def test_a_site_without_its_robots_file_is_asked_later(tmp_path: Path) -> None:
    web = make_web(HostTraits(name="one.example", n_pages=2, robots=RobotsKind.SERVER_ERROR))

    async def use(running: Running) -> None:
        await running.crawl(for_seconds=2 * HOUR)
        results = running.progress.results
        assert set(results) == {FetchResult.GIVEN_BACK}
        # Each order that is given back has cost budget, so the host is paused in the corpus.
        assert results[FetchResult.GIVEN_BACK] < 10

    run_with_web(tmp_path, web, use)


class RaisingFetcher:
    """A fetcher that breaks its promise not to raise."""

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        raise KeyError(request.url)

    async def close(self) -> None:
        pass


def test_a_fetcher_that_raises_does_not_end_the_crawl(tmp_path: Path) -> None:
    async def main(time: SteppedTime) -> None:
        with recrawl.open(tmp_path, clock=time.clock) as corpus:
            progress = CrawlProgress()
            await crawl(
                corpus,
                RaisingFetcher(),
                ["https://example.com/"],
                settings=CrawlSettings(is_single_pass=True),
                time=time,
                progress=progress,
            )
            assert progress.problems == {FetchProblem.BAD_ANSWER: 1}

    run_stepped(main)


class OneDeadHost:
    """A fetcher of two hosts; one of them answers nothing for fifty seconds, then fails."""

    def __init__(self, time: SteppedTime) -> None:
        self._time = time
        self.seconds: dict[str, float] = {}
        self._started_ms = time.now_ms()

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        at_ms = self._time.now_ms()
        self.seconds.setdefault(request.url, (at_ms - self._started_ms) / 1000)
        given: dict[str, Any] = {"url": request.url, "final_url": request.url}
        if "dead.example" in request.url:
            await self._time.sleep(50.0)
            return FetchAnswer(problem=FetchProblem.CONNECT, fetched_at_ms=at_ms, **given)
        if request.kind != FetchKind.PAGE:
            return FetchAnswer(status=404, fetched_at_ms=at_ms, **given)
        headers = {"content-type": "text/html"}
        body = b"<h1>A page</h1><p>It has a few words."
        return FetchAnswer(status=200, body=body, headers=headers, fetched_at_ms=at_ms, **given)

    async def close(self) -> None:
        pass


def test_no_host_waits_for_the_robots_file_of_another(tmp_path: Path) -> None:
    page = "https://alive.example/"
    notes: list[str] = []

    async def main(time: SteppedTime) -> None:
        with recrawl.open(tmp_path, clock=time.clock) as corpus:
            for n_seconds_max, urls in ((4.0, [page, "https://dead.example/"]), (1.0, [])):
                fetcher, finder = OneDeadHost(time), Discovery(corpus)
                await crawl(
                    corpus,
                    fetcher,
                    urls,
                    settings=CrawlSettings(is_single_pass=True),
                    time=time,
                    finder=finder,
                    progress=CrawlProgress(on_note=notes.append),
                )
                finder.close()
                assert fetcher.seconds[page] <= n_seconds_max
                # Robots.txt files and so sitemaps are read again after a day, also in short runs.
                assert fetcher.seconds["https://alive.example/robots.txt"] <= n_seconds_max
                await time.sleep(100 * 86_400.0)

    run_stepped(main)
    assert notes[:3] == [
        "Reading robots.txt and the sitemaps of 2 sites …",
        "Found no page in sitemaps; 1 site still to answer. Fetching what is due …",
        "All sites were asked; found 0 pages so far.",
    ]


def test_a_page_that_is_missing_is_gone_only_once() -> None:
    progress = CrawlProgress()
    url = "https://example.com/"
    answer = FetchAnswer(url=url, final_url=url, status=404, fetched_at_ms=START_AT_MS)
    for transition in (Transition.GONE, Transition.NONE, Transition.RETIRED):
        progress.count_answer(url, answer, int(transition), False)
    assert progress.results == {FetchResult.GONE: 1, FetchResult.NOT_FOUND: 2}
    assert [one.result for one in progress.recent] == [FetchResult.GONE]
