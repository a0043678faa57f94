"""Checks of the fetcher interface: functions that raise `AssertionError` on a violation.

Each check takes a function that makes a fetcher for given settings.  It calls the function in an
event loop of its own, and lets the fetcher talk to a small site on this machine::

    @pytest.mark.parametrize("check", FETCHER_CHECKS, ids=lambda check: check.__name__)
    def test_my_fetcher(check):
        check(lambda settings: MyFetcher(settings))
"""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from secrets import token_hex
from typing import Any, TypeAlias

from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchSettings,
    PageFetcher,
)
from recrawl.testing.own_connections import watch_connections

__all__ = ["FETCHER_CHECKS", "FetcherCheck", "OpenFetcher", "ScriptedSite", "open_site"]

OpenFetcher: TypeAlias = Callable[[FetchSettings], PageFetcher]
FetcherCheck: TypeAlias = Callable[[OpenFetcher], None]
_Script: TypeAlias = bytes | Callable[["SeenRequest", asyncio.StreamWriter], Awaitable[None]]

_ALLOWED = ("127.0.0.0/8",)
_ROBOTS = b"User-agent: *\nDisallow: /private\n"
_REQUEST_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request that a scripted site received."""

    path: str
    headers: dict[str, str]
    at_seconds: float


def http_answer(body: bytes = b"", *, status: int = 200, headers: str = "") -> bytes:
    r"""Return the bytes of an HTTP answer.

    Parameters
    ----------
    body
        Body of the answer.
    status
        Status of the answer.
    headers
        Further headers, each with ``\r\n`` at its end.
    """
    start = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return start.encode("latin-1") + body


@dataclass(slots=True)
class ScriptedSite:
    """A site that sends what it was given, and remembers what it was asked.

    Parameters
    ----------
    scripts
        Bytes to send, or functions that send them, by path.
    """

    scripts: dict[str, _Script]
    requests: list[SeenRequest] = field(default_factory=list)
    n_connections: int = 0
    url: str = ""

    def paths(self) -> list[str]:
        """Return the paths that were requested, without robots.txt."""
        return [seen.path for seen in self.requests if seen.path != "/robots.txt"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.n_connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                start, *lines = head.split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if ": " in line)
                names = {name.lower(): value for name, value in headers.items()}
                now = asyncio.get_running_loop().time()
                seen = SeenRequest(start.split(" ")[1], names, now)
                self.requests.append(seen)
                script = self.scripts.get(seen.path, http_answer(b"missing", status=404))
                if isinstance(script, bytes):
                    writer.write(script)
                    await writer.drain()
                else:
                    await script(seen, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, IndexError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def open_site(
    scripts: dict[str, _Script], address: str = "127.0.0.1"
) -> AsyncIterator[ScriptedSite]:
    """Run a site on a free port of this machine.

    Parameters
    ----------
    scripts
        Answers by path; a robots.txt file that disallows ``/private`` is added.
    address
        Address of this machine to listen on.
    """
    site = ScriptedSite({"/robots.txt": http_answer(_ROBOTS), **scripts})
    tasks: set[asyncio.Task[None]] = set()

    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(site.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(start, address, 0, limit=_REQUEST_BYTES_MAX)
    site.url = f"http://{address}:{server.sockets[0].getsockname()[1]}"
    try:
        yield site
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _settings(**changes: Any) -> FetchSettings:
    given: dict[str, Any] = {
        "contact": "https://example.com/bot",
        "delay_seconds": 0.0,
        "slowness_factor": 0.0,
        "backoff_seconds": 0.0,
        "audit_share": 0.0,
        "allow_networks": _ALLOWED,
        "wait_seconds_max": 5.0,
    }
    return FetchSettings(**given | changes)


def _run(
    open_fetcher: OpenFetcher,
    scripts: dict[str, _Script],
    check: Callable[[PageFetcher, ScriptedSite], Awaitable[None]],
    **changes: Any,
) -> None:
    async def main() -> None:
        async with open_site(scripts) as site:
            fetcher = open_fetcher(_settings(**changes))
            try:
                await check(fetcher, site)
            finally:
                await fetcher.close()

    asyncio.run(main())


async def _fetch(fetcher: PageFetcher, url: str, **more: Any) -> FetchAnswer:
    return await fetcher.fetch(FetchRequest(url=url, **more))


def check_a_page_comes_whole(open_fetcher: OpenFetcher) -> None:
    """Check that an answer has the body, headers, times and cost of what the site sent."""
    body = b"<p>" + b"word " * 20_000
    headers = 'Content-Type: text/html; charset=utf-8\r\nETag: W/"5"\r\n'
    packed = http_answer(gzip.compress(body), headers=headers + "Content-Encoding: gzip\r\n")

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        assert isinstance(fetcher, PageFetcher)
        for path in ("/plain", "/packed"):
            answer = await _fetch(fetcher, site.url + path)
            assert answer.problem is None, answer
            assert (answer.status, answer.body) == (200, body)
            assert answer.url == answer.final_url == site.url + path
            assert answer.content_type == "text/html; charset=utf-8"
            assert answer.etag == b'W/"5"'
            assert answer.fetched_at_ms > 0
            assert answer.seconds > 0
            assert answer.n_requests == 1
        assert 0 < answer.n_bytes_received < len(body) / 10
        agents = {seen.headers.get("user-agent", "") for seen in site.requests}
        assert all("https://example.com/bot" in agent for agent in agents)

    scripts: dict[str, _Script] = {"/plain": http_answer(body, headers=headers), "/packed": packed}
    _run(open_fetcher, scripts, check)


def check_a_missing_page_is_an_answer(open_fetcher: OpenFetcher) -> None:
    """Check that an error status is no problem of the fetch, and its body is returned."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        answer = await _fetch(fetcher, f"{site.url}/nowhere")
        assert (answer.status, answer.problem, answer.body) == (404, None, b"missing")

    _run(open_fetcher, {}, check)


def check_validators_are_sent_as_received(open_fetcher: OpenFetcher) -> None:
    """Check that a conditional request has both validators verbatim, and others have none."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        validators = {"etag": 'W/"ä-gzip"'.encode(), "last_modified": b"Sat, 1 Jan 2026 0:00 odd"}
        answer = await _fetch(fetcher, f"{site.url}/page", **validators)
        assert (answer.status, answer.problem) == (304, None)
        assert answer.was_conditional
        seen = site.requests[-1].headers
        assert seen["if-none-match"].encode("latin-1") == validators["etag"]
        assert seen["if-modified-since"] == "Sat, 1 Jan 2026 0:00 odd"
        answer = await _fetch(fetcher, f"{site.url}/page", conditional=False, **validators)
        assert not answer.was_conditional
        assert not {"if-none-match", "if-modified-since"} & site.requests[-1].headers.keys()
        await _fetch(fetcher, f"{site.url}/page", etag=b'"a"\r\nX-More: 1')
        assert "x-more" not in site.requests[-1].headers

    page = b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'
    _run(open_fetcher, {"/page": page}, check)


def check_redirects_are_followed(open_fetcher: OpenFetcher) -> None:
    """Check that redirects are followed and listed, and that validators stay with their URL."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        answer = await _fetch(fetcher, f"{site.url}/a", etag=b'"1"')
        assert (answer.status, answer.body) == (200, b"end")
        assert answer.final_url == f"{site.url}/c?x=1"
        assert [(one.url, one.status) for one in answer.redirects] == [
            (f"{site.url}/a", 301),
            (f"{site.url}/b", 307),
        ]
        assert "if-none-match" not in site.requests[-1].headers
        assert site.paths() == ["/a", "/b", "/c?x=1"]

    scripts: dict[str, _Script] = {
        "/a": http_answer(status=301, headers="Location: /b\r\n"),
        "/b": http_answer(b"moved", status=307, headers="Location: c?x=1\r\n"),
        "/c?x=1": http_answer(b"end"),
    }
    _run(open_fetcher, scripts, check)


def check_redirects_end(open_fetcher: OpenFetcher) -> None:
    """Check that loops, long chains and redirects to other schemes end with a problem."""

    async def endless(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(http_answer(status=302, headers=f"Location: {seen.path}x\r\n"))

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        found = {}
        for path in ("/loop", "/file", "/nothing", "/end"):
            found[path] = (await _fetch(fetcher, site.url + path)).problem
        assert found == {
            "/loop": FetchProblem.REDIRECT_LOOP,
            "/file": FetchProblem.BAD_REDIRECT,
            "/nothing": FetchProblem.BAD_REDIRECT,
            "/end": FetchProblem.TOO_MANY_REDIRECTS,
        }
        assert len([path for path in site.paths() if path.startswith("/end")]) == 4

    scripts: dict[str, _Script] = {
        "/loop": http_answer(status=302, headers="Location: /loop\r\n"),
        "/file": http_answer(status=302, headers="Location: file:///etc/passwd\r\n"),
        "/nothing": http_answer(status=302, headers="Location: http://[\r\n"),
        **{"/end" + "x" * i: endless for i in range(9)},
    }
    _run(open_fetcher, scripts, check, redirects_max=3)


def check_robots_are_obeyed(open_fetcher: OpenFetcher) -> None:
    """Check that nothing disallowed is requested, directly or by a redirect."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        for path in ("/private/a", "/way"):
            answer = await _fetch(fetcher, site.url + path)
            assert answer.problem == FetchProblem.ROBOTS
        assert (await _fetch(fetcher, f"{site.url}/open")).status == 200
        assert site.paths() == ["/way", "/open"]
        assert len(site.requests) == 3, "robots.txt was fetched more than once"

    scripts: dict[str, _Script] = {
        "/private/a": http_answer(b"secret"),
        "/way": http_answer(status=302, headers="Location: /private/a\r\n"),
        "/open": http_answer(b"open"),
    }
    _run(open_fetcher, scripts, check)


def check_an_unreachable_robots_file_disallows_everything(open_fetcher: OpenFetcher) -> None:
    """Check that nothing is requested from a site whose robots.txt answers with an error."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        for _ in range(2):
            answer = await _fetch(fetcher, f"{site.url}/open")
            assert answer.problem == FetchProblem.ROBOTS
        assert site.paths() == []

    scripts: dict[str, _Script] = {
        "/robots.txt": http_answer(b"", status=500),
        "/open": http_answer(b"open"),
    }
    _run(open_fetcher, scripts, check)


def check_requests_keep_their_distance(open_fetcher: OpenFetcher) -> None:
    """Check that all requests to a host are apart by its delay, robots and redirects included."""
    delay = 0.1

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        await asyncio.gather(*(_fetch(fetcher, f"{site.url}/{i}") for i in range(3)))
        await _fetch(fetcher, f"{site.url}/a")
        await _fetch(fetcher, f"{site.url}/map.xml", kind=FetchKind.SITEMAP)
        assert len(site.requests) == 7
        starts = [seen.at_seconds for seen in site.requests]
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert min(gaps) >= delay - 0.002, gaps

    scripts: dict[str, _Script] = {"/a": http_answer(status=301, headers="Location: /b\r\n")}
    _run(open_fetcher, scripts, check, delay_seconds=delay)


def check_a_host_that_asks_for_rest_gets_it(open_fetcher: OpenFetcher) -> None:
    """Check that nothing is sent to a host before its Retry-After has passed."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        answer = await _fetch(fetcher, f"{site.url}/busy")
        assert (answer.status, answer.retry_after_seconds) == (503, 600.0)
        answer = await _fetch(fetcher, f"{site.url}/other")
        assert (answer.status, answer.problem) == (0, FetchProblem.HOST_DELAY)
        assert answer.retry_after_seconds is not None
        assert answer.retry_after_seconds > 500
        assert site.paths() == ["/busy"]

    busy = http_answer(status=503, headers="Retry-After: 600\r\n")
    _run(open_fetcher, {"/busy": busy}, check)


def check_broken_answers_are_answers(open_fetcher: OpenFetcher) -> None:
    """Check that dropped, endless, oversized and malformed answers become problems."""

    async def stop(_: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    async def drop(_: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def hang(_: SeenRequest, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def flood(_: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 10_000)
            await writer.drain()

    packed = "Content-Encoding: gzip\r\n"
    scripts: dict[str, _Script] = {
        "/stop": stop,
        "/drop": drop,
        "/hang": hang,
        "/flood": flood,
        "/bomb": http_answer(gzip.compress(bytes(30_000_000)), headers=packed),
        "/not-gzip": http_answer(b"plain", headers=packed),
        "/cut-gzip": http_answer(gzip.compress(b"a" * 1000)[:-10], headers=packed),
        "/other-coding": http_answer(zlib.compress(b"a"), headers="Content-Encoding: zstd\r\n"),
        "/not-http": b"220 smtp.example ready\r\n\r\n",
        "/long-header": http_answer(headers="X: " + "y" * 100_000 + "\r\n"),
    }
    expected = {
        "/stop": FetchProblem.DROPPED,
        "/drop": FetchProblem.DROPPED,
        "/hang": FetchProblem.TIMED_OUT,
        "/flood": FetchProblem.TOO_LARGE,
        "/bomb": FetchProblem.BOMB,
        "/not-gzip": FetchProblem.BAD_ENCODING,
        "/cut-gzip": FetchProblem.BAD_ENCODING,
        "/other-coding": FetchProblem.BAD_ENCODING,
        "/not-http": FetchProblem.BAD_ANSWER,
        "/long-header": FetchProblem.BAD_ANSWER,
    }

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        found = {}
        for path in scripts:
            answer = await _fetch(fetcher, site.url + path)
            found[path] = answer.problem
            assert answer.body == b""
            assert answer.detail
        assert found == expected
        assert (await _fetch(fetcher, f"{site.url}/robots.txt")).status == 200

    _run(open_fetcher, scripts, check, idle_seconds_max=0.5, body_bytes_max=20_000_000)


def check_addresses_that_are_not_public_are_refused(open_fetcher: OpenFetcher) -> None:
    """Check that no connection to this machine is opened unless the settings allow it."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        port = int(site.url.rpartition(":")[2])
        path = f"/{token_hex(8)}"
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"):
            for kind in FetchKind:
                answer = await _fetch(fetcher, f"http://{host}:{port}{path}", kind=kind)
                assert answer.status == 0
                assert answer.problem in (FetchProblem.REFUSED_ADDRESS, FetchProblem.ROBOTS)
        # Not all connections of the site: other programs may try its port.
        assert path not in site.paths()
        assert not [one for one in connected if isinstance(one, tuple) and one[1] == port]

    with watch_connections() as connected:
        _run(open_fetcher, {}, check, allow_networks=())


def check_other_urls_are_refused(open_fetcher: OpenFetcher) -> None:
    """Check that URLs of other schemes, and text that is no URL, become problems."""

    async def check(fetcher: PageFetcher, _: ScriptedSite) -> None:
        for url in (
            "",
            "x",
            "/a",
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "http://",
            "http://[/",
        ):
            answer = await _fetch(fetcher, url)
            assert (answer.status, answer.problem) == (0, FetchProblem.BAD_URL)

    _run(open_fetcher, {}, check)


def check_a_closed_fetcher_sends_nothing(open_fetcher: OpenFetcher) -> None:
    """Check that a closed fetcher can be closed again, and answers without a request."""

    async def check(fetcher: PageFetcher, site: ScriptedSite) -> None:
        assert (await _fetch(fetcher, f"{site.url}/a")).status == 404
        await fetcher.close()
        await fetcher.close()
        n_requests = len(site.requests)
        assert (await _fetch(fetcher, f"{site.url}/a")).problem == FetchProblem.CLOSED
        assert len(site.requests) == n_requests

    _run(open_fetcher, {}, check)


FETCHER_CHECKS: tuple[FetcherCheck, ...] = (
    check_a_page_comes_whole,
    check_a_missing_page_is_an_answer,
    check_validators_are_sent_as_received,
    check_redirects_are_followed,
    check_redirects_end,
    check_robots_are_obeyed,
    check_an_unreachable_robots_file_disallows_everything,
    check_requests_keep_their_distance,
    check_a_host_that_asks_for_rest_gets_it,
    check_broken_answers_are_answers,
    check_addresses_that_are_not_public_are_refused,
    check_other_urls_are_refused,
    check_a_closed_fetcher_sends_nothing,
)
"""Every check of a fetcher."""
