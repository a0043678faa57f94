"""Measure how many pages the fetcher gets per second, beside bare aiohttp in the same run.

A server in another process sends pages of 35 kB from 127.0.0.1.  Four clients take turns, several
times: aiohttp alone; the fetcher with robots.txt, gate, guard and limits; aiohttp with bare
resiliparse on each page; the fetcher with `observe` on each page.  The shares compare CPU time of
the client, which other programs on the machine disturb less than the time on the clock.

Then one fetcher gets three pages of each of many hosts, with its usual delay of a second.
"""

import asyncio
import multiprocessing
import os
import resource
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import TypedDict

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from benchmarks.observe import make_page, read_bare
from recrawl.content import observe
from recrawl.fetch import FetchRequest, FetchSettings, HttpFetcher

PAGE_BYTES = 35_000
_N_BODIES = 20
_N_TASKS = 50


class FetchSpeed(TypedDict):
    """Speeds of the four clients in pages per second of CPU time, and shares."""

    n_pages: int
    aiohttp_pages_per_second: float
    fetcher_pages_per_second: float
    share_of_aiohttp: float
    aiohttp_and_resiliparse_pages_per_second: float
    fetcher_and_content_pages_per_second: float
    share_of_aiohttp_and_resiliparse: float
    share_of_aiohttp_by_the_clock: float
    share_of_aiohttp_and_resiliparse_by_the_clock: float


class ManyHosts(TypedDict):
    """One process with many hosts."""

    n_hosts: int
    n_requests: int
    seconds: float
    requests_per_second: float
    cpu_microseconds_per_request: float
    kilobytes_per_host: float
    open_files_max: int


class _PageServer(asyncio.Protocol):
    """Answers every request with a page, as fast as the event loop can."""

    bodies: tuple[bytes, ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while b"\r\n\r\n" in self._data:
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            if path == b"/robots.txt":
                body, kind = b"User-agent: *\nDisallow: /private\nAllow: /p*\n", b"text/plain"
            else:
                number = int(path.rpartition(b"/")[2])
                body, kind = self.bodies[number % len(self.bodies)], b"text/html; charset=utf-8"
            start = (
                b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: Mon, 16 Nov 2026 12:00:00 GMT\r\n"
                b'ETag: "5f3a"\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n'
            )
            assert isinstance(self._transport, asyncio.Transport)
            self._transport.write(start % (kind, len(body)) + body)
            if b"\r\nConnection: close" in head:
                self._transport.close()


def _serve(port: "multiprocessing.Queue[int]") -> None:
    async def main() -> None:
        _PageServer.bodies = tuple(make_page(PAGE_BYTES, seed) for seed in range(_N_BODIES))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_PageServer, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def _fetch_all(n_pages: int, get: Callable[[int], Awaitable[None]]) -> tuple[float, float]:
    """Return the CPU time and the time on the clock to get some pages, many at a time."""
    numbers = iter(range(n_pages))

    async def work() -> None:
        for number in numbers:
            await get(number)

    cpu, clock = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(_N_TASKS)))
    return time.process_time() - cpu, time.perf_counter() - clock


async def _measure_clients(site: str, n_pages: int, n_rounds: int) -> FetchSpeed:
    settings = FetchSettings(
        contact="https://example.com/bot",
        delay_seconds=0.0,
        slowness_factor=0.0,
        connections_per_host=_N_TASKS,
        allow_networks=("127.0.0.0/8",),
    )
    fetcher = HttpFetcher(settings)
    connector = aiohttp.TCPConnector(limit=_N_TASKS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def get_bare(number: int) -> bytes:
            async with session.get(f"{site}/p/{number}", allow_redirects=False) as response:
                return await response.read()

        async def get_own(number: int) -> bytes:
            answer = await fetcher.fetch(FetchRequest(url=f"{site}/p/{number}", etag=b'"5f3b"'))
            assert answer.problem is None, answer
            return answer.body

        async def bare(number: int) -> None:
            assert len(await get_bare(number)) > PAGE_BYTES // 2

        async def own(number: int) -> None:
            assert len(await get_own(number)) > PAGE_BYTES // 2

        async def bare_with_text(number: int) -> None:
            read_bare(await get_bare(number))

        async def own_with_content(number: int) -> None:
            assert observe(await get_own(number), "text/html").sketch is not None

        clients = (bare, own, bare_with_text, own_with_content)
        for client in clients:
            await _fetch_all(_N_TASKS, client)
        rounds = [
            [await _fetch_all(n_pages, client) for client in clients] for _ in range(n_rounds)
        ]
    await fetcher.close()
    best = [min(row[i][0] for row in rounds) for i in range(len(clients))]
    return {
        "n_pages": n_pages * n_rounds,
        "aiohttp_pages_per_second": round(n_pages / best[0]),
        "fetcher_pages_per_second": round(n_pages / best[1]),
        "share_of_aiohttp": round(best[0] / best[1], 3),
        "aiohttp_and_resiliparse_pages_per_second": round(n_pages / best[2]),
        "fetcher_and_content_pages_per_second": round(n_pages / best[3]),
        "share_of_aiohttp_and_resiliparse": round(best[2] / best[3], 3),
        "share_of_aiohttp_by_the_clock": round(median(r[0][1] / r[1][1] for r in rounds), 3),
        "share_of_aiohttp_and_resiliparse_by_the_clock": round(
            median(row[2][1] / row[3][1] for row in rounds), 3
        ),
    }


class _OneServer(AbstractResolver):
    """Resolves every name to one server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(
        self,
        host: str,
        port: int = 0,  # noqa: ARG002 (aiohttp calls it so)
        family: socket.AddressFamily = socket.AF_INET,
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=self._port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        pass


def _memory_bytes() -> int:
    """Return the greatest memory that the process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (
        0 if sys.platform == "darwin" else 10
    )


async def _measure_hosts(port: int, n_hosts: int) -> ManyHosts:
    settings = FetchSettings(
        contact="https://example.com/bot",
        allow_networks=("127.0.0.0/8",),
        slowness_factor=0.0,
        total_seconds_max=600.0,
        idle_seconds_max=600.0,
        connect_seconds_max=600.0,
    )
    fetcher = HttpFetcher(settings, resolver=_OneServer(port))
    for number in range(10):
        await fetcher.fetch(FetchRequest(url=f"http://warm-up.example/p/{number}"))
        if number == 1:
            before = _memory_bytes()
    n_files_max = 0
    is_over = False

    async def watch() -> None:
        nonlocal n_files_max
        while not is_over:
            n_files_max = max(n_files_max, len(os.listdir("/proc/self/fd")))
            await asyncio.sleep(0.2)

    async def crawl(host: int) -> None:
        for number in range(3):
            url = f"http://host-{host}.example/p/{number}"
            assert (await fetcher.fetch(FetchRequest(url=url))).status == 200

    watching = asyncio.create_task(watch())
    cpu, clock = time.process_time(), time.perf_counter()
    await asyncio.gather(*(crawl(host) for host in range(n_hosts)))
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    is_over = True
    await watching
    n_requests = 4 * n_hosts
    grown = _memory_bytes() - before
    await fetcher.close()
    return {
        "n_hosts": n_hosts,
        "n_requests": n_requests,
        "seconds": round(clock, 1),
        "requests_per_second": round(n_requests / clock),
        "cpu_microseconds_per_request": round(cpu / n_requests * 1e6),
        "kilobytes_per_host": round(grown / n_hosts / 1000, 1),
        "open_files_max": n_files_max,
    }


def measure(
    n_pages: int = 2_000, n_rounds: int = 5, n_hosts: int = 10_000
) -> dict[str, FetchSpeed | ManyHosts]:
    """Return the speeds of the fetcher and of bare aiohttp, and the cost of many hosts.

    Parameters
    ----------
    n_pages
        Number of pages of each turn.
    n_rounds
        Number of turns of each client.
    n_hosts
        Number of hosts of the second part.
    """
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=_serve, args=(port,), daemon=True)
    server.start()
    try:
        number = port.get(timeout=120)
        speed = _measure_clients(f"http://127.0.0.1:{number}", n_pages, n_rounds)
        return {
            "one_host": asyncio.run(speed),
            "many_hosts": asyncio.run(_measure_hosts(number, n_hosts)),
        }
    finally:
        server.terminate()
        server.join()
