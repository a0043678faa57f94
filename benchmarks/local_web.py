"""Measure the local web: the cost of an answer, and a day of the fetcher in stepped time.

The day has its fetches at even intervals, of random pages of hosts of every kind.  It counts
violations of politeness, and time-outs of answers that were not stalled, which must be none.
"""

import asyncio
import random
import time
from typing import TypedDict

from recrawl.fetch import FetchProblem, FetchRequest, FetchSettings, HttpFetcher
from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import LocalWeb, find_violations, make_hosts, serve

_START_MS = 1_767_225_600_000
_DAY_MS = 86_400_000
_DELAY_SECONDS = 2.0


class LocalWebSpeed(TypedDict):
    """Costs in CPU time, and what must be zero."""

    n_hosts: int
    n_pages: int
    milliseconds_per_first_answer: float
    milliseconds_per_answer: float
    n_fetches: int
    n_requests: int
    n_steps: int
    seconds: float
    cpu_seconds: float
    n_violations: int
    n_false_time_outs: int


def _answer_seconds(web: LocalWeb, n_pages: int, at_ms: int) -> float:
    pages = random.Random(1).sample(list(web.pages()), n_pages)
    started = time.process_time()
    for page in pages:
        web.answer(page.host, web.hosts[page.host].path(page.page), at_ms, {})
    return (time.process_time() - started) / n_pages


def measure(n_hosts: int = 200, n_pages: int = 20_000, n_fetches: int = 5_000) -> LocalWebSpeed:
    """Return the costs of answers, and of a day with a number of fetches.

    Parameters
    ----------
    n_hosts, n_pages
        Size of the web.
    n_fetches
        Number of fetches of the day.
    """
    traits = make_hosts(n_hosts, n_pages)
    web = LocalWeb(traits, started_at_ms=_START_MS)
    n_sampled = min(500, n_pages)
    first = _answer_seconds(web, n_sampled, _START_MS + _DAY_MS)
    again = _answer_seconds(web, n_sampled, _START_MS + _DAY_MS + 1_000)

    web = LocalWeb(traits, started_at_ms=_START_MS)
    n_stalled, n_timed_out, n_steps = 0, 0, 0

    async def crawl(stepped: SteppedTime) -> tuple[int, int]:
        nonlocal n_steps, n_stalled
        rng = random.Random(2)
        pages = list(web.pages())
        settings = FetchSettings(
            contact="https://example.com/bot",
            allow_networks=("127.0.0.0/8",),
            delay_seconds=_DELAY_SECONDS,
            wait_seconds_max=600.0,
        )
        async with await serve(web, now_ms=stepped.now_ms, sets_port=False) as server:
            fetcher = HttpFetcher(settings, time=stepped, resolver=server.resolver())

            async def fetch(url: str) -> None:
                nonlocal n_timed_out
                answer = await fetcher.fetch(FetchRequest(url=url))
                n_timed_out += answer.problem is FetchProblem.TIMED_OUT

            async with asyncio.TaskGroup() as group:
                for _ in range(n_fetches):
                    await stepped.sleep(86_400 / n_fetches)
                    group.create_task(fetch(rng.choice(pages).url))
            await fetcher.close()
            n_steps = stepped.loop.n_steps
            n_stalled = sum(row.fault.startswith("stalled") for row in server.log)
            violations = find_violations(web, server.log, delay_seconds=_DELAY_SECONDS)
            return len(server.log), len(violations)

    started, started_cpu = time.perf_counter(), time.process_time()
    n_requests, n_violations = run_stepped(crawl, start_at_ms=_START_MS)
    return {
        "n_hosts": n_hosts,
        "n_pages": n_pages,
        "milliseconds_per_first_answer": round(1_000 * first, 3),
        "milliseconds_per_answer": round(1_000 * again, 3),
        "n_fetches": n_fetches,
        "n_requests": n_requests,
        "n_steps": n_steps,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - started_cpu, 1),
        "n_violations": n_violations,
        "n_false_time_outs": max(n_timed_out - n_stalled, 0),
    }
