"""Measure requests per second and memory of Scrapy crawls with and without the add-on.

A server in another process sends pages of 35 kB from 127.0.0.1.  One flat spider takes turns,
several times, each time in a new process and with a new corpus: plain; with the add-on, which
compares bytes; plain with bare resiliparse on each page; with the add-on, which reads the text of
each page.  All settings of Scrapy are defaults, with 8 requests at a time for the one host.  The
first tenth of the pages is not timed, as processes start and code is loaded then.

Then the spider crawls some pages with a corpus that has many pages, with an empty one, and without
the add-on, and the memory of the process is compared.
"""

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import recrawl
from benchmarks.observe import make_page
from benchmarks.scale import synthetic_urls
from benchmarks.scrapy_crawl import VARIANTS, CrawlSpeed, crawl_once
from recrawl.scrapy.addon_settings import AddonSettings, corpus_config
from recrawl.scrapy.page_store import PageStore

__all__ = ["measure"]

PAGE_BYTES: Final = 35_000
_N_BODIES: Final = 20
_ADDED_PER_CALL: Final = 100_000
_PAGES_PER_HOST: Final = 1_000
_MEMORIES: Final = ("memory_megabytes", "private_megabytes", "peak_megabytes")
_SHARES: Final = (
    ("share_addon_of_plain", "addon", "plain"),
    ("share_content_of_resiliparse", "addon_with_content", "plain_with_resiliparse"),
)


class _PageServer(asyncio.Protocol):
    """Answers every request with a page."""

    bodies: Sequence[bytes] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            number = int(head.split(b" ", 2)[1].rpartition(b"/")[2])
            body = self.bodies[number % len(self.bodies)]
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )


def _serve(port: "multiprocessing.Queue[int]") -> None:
    async def main() -> None:
        _PageServer.bodies = [make_page(PAGE_BYTES, seed) for seed in range(_N_BODIES)]
        server = await asyncio.get_running_loop().create_server(_PageServer, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def _page_server() -> Iterator[str]:
    """Run the server in a process; yield the start of its URLs."""
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    process = context.Process(target=_serve, args=(port,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port.get(timeout=60)}/p/"
    finally:
        process.terminate()
        process.join()


def _fill_corpus(folder: str, n_pages: int) -> float:
    """Make a corpus with pages, as the add-on does; return the seconds it takes."""
    started = time.perf_counter()
    chosen = AddonSettings(folder=Path(folder), max_age={}, price=4 * 3600.0, reads_content=False)
    config = corpus_config(chosen, delay_seconds=0, n_per_host=8, previous=None)
    n_hosts = max(n_pages // _PAGES_PER_HOST, 1)
    with recrawl.open(folder, config) as corpus, PageStore(Path(folder)) as pages:
        for first in range(0, n_pages, _ADDED_PER_CALL):
            urls = synthetic_urls(first, min(_ADDED_PER_CALL, n_pages - first), n_hosts)
            corpus.add(urls)
            texts = urls.to_pylist()
            pages.add_requests((url, f'{{"url":"{url}"}}') for url in texts)
    return time.perf_counter() - started


def measure(
    n_pages: int = 2_000,
    n_rounds: int = 5,
    *,
    n_known: int = 1_000_000,
    n_memory_pages: int = 500,
    variants: Sequence[str] = VARIANTS,
    has_listing: bool = False,
    is_profiled: bool = False,
) -> dict[str, Any]:
    """Return speeds, shares, memory and, if asked for, a profile of the add-on without content.

    Parameters
    ----------
    n_pages
        Number of pages of each crawl.
    n_rounds
        Number of crawls of each variant.
    n_known
        Number of known pages for the comparison of memory; 0 leaves it out.
    n_memory_pages
        Number of pages of the crawls for the comparison of memory.
    variants
        Variants to compare.
    has_listing
        Whether the first page leads to all others; else they are the requests of the start, of
        which Scrapy asks for one at a time.
    is_profiled
        Whether to profile a crawl.
    """
    result: dict[str, Any] = {"pages": n_pages, "rounds": n_rounds, "has_listing": has_listing}
    context = multiprocessing.get_context("spawn")
    with (
        _page_server() as site,
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool,
    ):

        def crawl(variant: str, n: int, folder: str = "", *, profiled: bool = False) -> CrawlSpeed:
            with tempfile.TemporaryDirectory(dir=scratch) as new:
                job = pool.submit(
                    crawl_once,
                    site,
                    variant,
                    n,
                    folder or new,
                    has_listing=has_listing,
                    is_profiled=profiled,
                )
                return job.result()

        rounds: dict[str, list[CrawlSpeed]] = {variant: [] for variant in variants}
        for number in range(n_rounds):
            for variant in variants if number % 2 == 0 else reversed(variants):
                rounds[variant].append(crawl(variant, n_pages))
        if n_rounds:
            result["speeds"] = _speeds(rounds)
        if is_profiled:
            result["profile"] = crawl("addon", n_pages, profiled=True)["profile"]
        if n_known:
            folder = str(Path(scratch) / "known")
            filled = pool.submit(_fill_corpus, folder, n_known).result()
            result["memory"] = {
                "known_pages": n_known,
                "seconds_to_add": round(filled, 1),
                **_memory_rows(
                    {
                        "plain": crawl("plain", n_memory_pages),
                        "empty": crawl("addon", n_memory_pages),
                        "known": crawl("addon", n_memory_pages, folder),
                    }
                ),
            }
    return result


def _speeds(rounds: dict[str, list[CrawlSpeed]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("pages_per_second", "pages_per_cpu_second"):
        medians = {name: median(row[key] for row in rows) for name, rows in rounds.items()}
        found[key] = {name: round(value, 1) for name, value in medians.items()}
        found[key]["rounds"] = {
            name: [round(row[key], 1) for row in rows] for name, rows in rounds.items()
        }
        for name, variant, base in _SHARES:
            if variant in medians and base in medians:
                found[key][name] = round(medians[variant] / medians[base], 3)
    return found


def _memory_rows(rows: dict[str, CrawlSpeed]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: {key: round(row[key], 1) for key in (*_MEMORIES, "open_seconds", "pages_per_second")}
        for name, row in rows.items()
    }
    for key in _MEMORIES:
        found[f"known_minus_empty_{key}"] = round(found["known"][key] - found["empty"][key], 1)
    return found
