"""Measure what rendering costs: seconds, bytes and requests per page, and memory of the browser.

A site on this machine sends empty shells with a script of 200 kB and data of its own for each page;
another has short pages with a script that adds nothing.  The delays of hosts are switched off.
"""

import asyncio
import json
import statistics
from typing import Any, TypedDict

from recrawl.browser import BrowserSettings, PageGrade, ShellAwareFetcher
from recrawl.browser.chromium import memory_of_processes
from recrawl.fetch import FetchAnswer, FetchRequest, FetchSettings, HttpFetcher
from recrawl.testing.fetchers import SeenRequest, http_answer, open_site

_HTML = "Content-Type: text/html\r\n"
_SHELL = b'<!doctype html><title>App</title><div id="root"></div><script src="/app.js"></script>'
_APP = b"""
fetch(location.pathname + ".json").then((answer) => answer.json()).then((data) => {
  document.getElementById("root").innerHTML = data.map((text) => `<p>${text}</p>`).join("");
});
"""
_SHORT = b"<!doctype html><title>Short</title><p>A short page.<script>let unused = 1;</script>"
_PARAGRAPHS = 40
_APP_BYTES = 200_000


class RenderCost(TypedDict):
    """Cost of a page, as medians."""

    seconds: float
    n_bytes: float
    n_requests: float


class BrowserResult(TypedDict):
    """What the run measured."""

    n_pages: int
    plain: RenderCost
    first_rendered_seconds: float
    rendered: RenderCost
    at_once_pages_per_second: float
    browser_megabytes: float
    share_of_shells_rendered: float
    share_of_short_pages_rendered: float


def _cost(answers: list[FetchAnswer]) -> RenderCost:
    return {
        "seconds": round(statistics.median(one.seconds for one in answers), 4),
        "n_bytes": statistics.median(one.n_bytes_received for one in answers),
        "n_requests": statistics.median(one.n_requests for one in answers),
    }


async def _run(n_pages: int) -> BrowserResult:
    async def send_data(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        name = seen.path.strip("/").removesuffix(".json")
        texts = [f"Paragraph {i} of page {name} with some words." for i in range(_PARAGRAPHS)]
        body = json.dumps(texts).encode()
        writer.write(http_answer(body, headers="Content-Type: application/json\r\n"))
        await writer.drain()

    script = _APP + b"//" + b"x" * _APP_BYTES
    scripts: dict[str, Any] = {
        "/app.js": http_answer(script, headers="Content-Type: text/javascript\r\n"),
        **{f"/{i}": http_answer(_SHELL, headers=_HTML) for i in range(2 * n_pages)},
        **{f"/{i}.json": send_data for i in range(2 * n_pages)},
    }
    short: dict[str, Any] = {f"/{i}": http_answer(_SHORT, headers=_HTML) for i in range(n_pages)}
    settings = FetchSettings(
        contact="https://example.com/bot",
        delay_seconds=0.0,
        slowness_factor=0.0,
        connections_per_host=8,
        allow_networks=("127.0.0.0/8",),
    )
    async with open_site(scripts) as shells, open_site(short, "127.0.0.2") as others:
        fetcher = ShellAwareFetcher(HttpFetcher(settings), BrowserSettings())
        try:
            urls = [f"{shells.url}/{i}" for i in range(2 * n_pages)]
            plain = [await fetcher.plain.fetch(FetchRequest(url=url)) for url in urls[:n_pages]]
            first = await fetcher.fetch(FetchRequest(url=urls[0]))
            rendered = [await fetcher.fetch(FetchRequest(url=url)) for url in urls[1:n_pages]]
            loop = asyncio.get_running_loop()
            started = loop.time()
            requests = [FetchRequest(url=url) for url in urls[n_pages:]]
            together = await asyncio.gather(*(fetcher.fetch(one) for one in requests))
            seconds = loop.time() - started
            (instance,) = fetcher.renderer.chromium._instances
            megabytes = memory_of_processes(instance.mark) / (1 << 20)
            n_before = fetcher.n_rendered
            for i in range(n_pages):
                await fetcher.fetch(FetchRequest(url=f"{others.url}/{i}"))
            n_short = fetcher.n_rendered - n_before
            share = fetcher.memory.gain_share("127.0.0.1", PageGrade.SHELL)
        finally:
            await fetcher.close()
    answers = [first, *rendered, *together]
    n_whole = sum(b"with some words" in answer.body for answer in answers)
    if n_whole < len(answers) or share != 1.0:
        raise AssertionError(f"only {n_whole} of {len(answers)} pages were rendered")
    return {
        "n_pages": n_pages,
        "plain": _cost(plain),
        "first_rendered_seconds": round(first.seconds, 3),
        "rendered": _cost(rendered or [first]),
        "at_once_pages_per_second": round(n_pages / seconds, 2),
        "browser_megabytes": round(megabytes, 1),
        "share_of_shells_rendered": n_before / len(answers),
        "share_of_short_pages_rendered": n_short / n_pages,
    }


def measure(n_pages: int) -> BrowserResult:
    """Render pages one after the other, then several at once.

    Parameters
    ----------
    n_pages
        Number of pages of each part.
    """
    return asyncio.run(_run(n_pages))
