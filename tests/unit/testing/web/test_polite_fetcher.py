"""recrawl's fetcher reaches the local web by its resolver, and has no false time-outs."""

import asyncio
import random
from collections import Counter

from recrawl.fetch.fetcher import FetchProblem, FetchRequest
from recrawl.fetch.http_fetcher import HttpFetcher
from recrawl.fetch.settings import FetchSettings
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    LocalWeb,
    RequestLog,
    WebServer,
    find_violations,
    make_hosts,
    serve,
)

DELAY_SECONDS = 2.0
SETTINGS = FetchSettings(
    contact="https://example.com/bot",
    allow_networks=("127.0.0.0/8",),
    delay_seconds=DELAY_SECONDS,
    wait_seconds_max=600.0,
)


def open_fetcher(server: WebServer, time: SteppedTime) -> HttpFetcher:
    return HttpFetcher(SETTINGS, time=time, resolver=server.resolver())


async def crawl_day(
    time: SteppedTime, web: LocalWeb, n_fetches: int, seed: int
) -> tuple[RequestLog, Counter[FetchProblem | None]]:
    """Fetch random pages at even intervals of a day."""
    rng = random.Random(seed)
    pages = list(web.pages())
    count: Counter[FetchProblem | None] = Counter()
    async with await serve(web, now_ms=time.now_ms, sets_port=False) as server:
        fetcher = open_fetcher(server, time)

        async def fetch(url: str) -> None:
            count[(await fetcher.fetch(FetchRequest(url=url))).problem] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(n_fetches):
                await time.sleep(86_400 / n_fetches)
                group.create_task(fetch(rng.choice(pages).url))
        await fetcher.close()
        return server.log, count


def test_a_day_on_good_hosts_has_no_problem_and_no_violation() -> None:
    web = LocalWeb(make_hosts(20, 200, is_well_behaved=True), started_at_ms=1_767_225_600_000)
    log, count = run_stepped(lambda time: crawl_day(time, web, 200, seed=1))
    assert count == {None: 200}
    assert find_violations(web, log, delay_seconds=DELAY_SECONDS) == []
