"""A client sees each fault of the local web as it is described."""

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import HostTraits, LocalWeb, ReplyFault, WebServer, serve
from tests.unit.testing.web.plain_client import RawAnswer, get

HOST = "one.example"
OTHER = "two.example"
_T = TypeVar("_T")


def with_server(
    use: Callable[[WebServer, SteppedTime], Awaitable[_T]],
    host_traits: list[HostTraits] | None = None,
) -> _T:
    async def main(stepped: SteppedTime) -> _T:
        hosts = host_traits or [HostTraits(name=HOST, n_pages=20), HostTraits(name=OTHER)]
        web = LocalWeb(hosts, started_at_ms=stepped.now_ms())
        async with await serve(web, now_ms=stepped.now_ms, sets_port=False) as server:
            return await use(server, stepped)

    return run_stepped(main)


def fetch(path: str, *, seconds: float = 60.0, n_bytes_max: int = 1 << 22) -> RawAnswer:
    return with_server(
        lambda server, _: get(server, HOST, path, seconds=seconds, n_bytes_max=n_bytes_max)
    )


def fetch_fault(fault: ReplyFault, seconds: float = 60.0) -> RawAnswer:
    return fetch(f"/fault/{fault}/3", seconds=seconds)


def test_a_page_without_fault_is_whole() -> None:
    answer = fetch("/3")
    assert answer.status == 200
    assert len(answer.body) == int(answer.headers["content-length"])
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b'rel="canonical" href="http://one.example/3"' in answer.body


@pytest.mark.parametrize("fault", list(ReplyFault))
def test_every_fault_has_an_answer_and_a_line_in_the_log(fault: ReplyFault) -> None:
    async def use(server: WebServer, _: SteppedTime) -> None:
        await get(server, HOST, f"/fault/{fault}", seconds=30)
        again = await get(server, HOST, "/1")
        assert again.status == 200  # the server is still there
        await asyncio.sleep(4_000)
        assert len(server.log) == 2
        first = min(server.log, key=lambda row: row.at_ms)
        is_whole = fault in (ReplyFault.SLOW_START, ReplyFault.SLOW_BODY)
        assert (first.version >= 0) == is_whole
        assert server.n_open() == 0

    with_server(use)


@pytest.mark.parametrize(
    ("fault", "status", "retry_after"),
    [
        (ReplyFault.NOT_FOUND, 404, None),
        (ReplyFault.GONE, 410, None),
        (ReplyFault.FORBIDDEN, 403, None),
        (ReplyFault.SERVER_ERROR, 500, None),
        (ReplyFault.TOO_MANY, 429, None),
        (ReplyFault.TOO_MANY_SECONDS, 429, "120"),
        (ReplyFault.TOO_MANY_DATE, 429, "Thu, 01 Jan 2026 00:02:00 GMT"),
        (ReplyFault.UNAVAILABLE, 503, None),
        (ReplyFault.UNAVAILABLE_SECONDS, 503, "120"),
        (ReplyFault.BAD_RETRY_AFTER, 503, "soon, -5"),
    ],
)
def test_status_codes(fault: ReplyFault, status: int, retry_after: str | None) -> None:
    answer = fetch_fault(fault)
    assert (answer.status, answer.headers.get("retry-after")) == (status, retry_after)


def test_pages_that_are_not_the_page_have_status_200() -> None:
    good = fetch("/3").body
    for fault in (ReplyFault.SOFT_404, ReplyFault.BLOCKED, ReplyFault.EMPTY):
        answer = fetch_fault(fault)
        assert answer.status == 200
        assert answer.body != good
        assert "etag" not in answer.headers
    assert fetch_fault(ReplyFault.EMPTY).body == b""


@pytest.mark.parametrize(
    ("fault", "n_hops"),
    [
        (ReplyFault.REDIRECT, 1),
        (ReplyFault.REDIRECT_TEMPORARY, 1),
        (ReplyFault.REDIRECT_CHAIN, 4),
        (ReplyFault.REDIRECT_LONG, 40),
    ],
)
def test_redirects_end_at_the_page(fault: ReplyFault, n_hops: int) -> None:
    async def use(server: WebServer, _: SteppedTime) -> int:
        path, count = f"/fault/{fault}/3", 0
        while (answer := await get(server, HOST, path)).status in (301, 302):
            path, count = answer.headers["location"], count + 1
        assert answer.status == 200
        assert b'href="http://one.example/3"' in answer.body
        return count

    assert with_server(use) == n_hops


def test_redirects_that_lead_nowhere() -> None:
    loop = fetch_fault(ReplyFault.REDIRECT_LOOP)
    assert (loop.status, loop.headers["location"]) == (302, "/fault/redirect_loop/3")
    assert "location" not in fetch_fault(ReplyFault.REDIRECT_NOWHERE).headers
    assert fetch_fault(ReplyFault.REDIRECT_BAD).headers["location"].startswith("http://[::bad]")
    assert "169.254" in fetch_fault(ReplyFault.REDIRECT_PRIVATE).headers["location"]
    other = fetch_fault(ReplyFault.REDIRECT_OTHER_HOST)
    assert other.headers["location"] == f"http://{OTHER}/0"


def test_slow_answers_take_their_time_and_are_right() -> None:
    for fault, wanted in ((ReplyFault.SLOW_START, 12_000), (ReplyFault.SLOW_BODY, 15_000)):

        async def use(server: WebServer, stepped: SteppedTime, fault: ReplyFault = fault) -> int:
            started_ms = stepped.now_ms()
            answer = await get(server, HOST, f"/fault/{fault}/3")
            assert len(answer.body) == int(answer.headers["content-length"])
            return stepped.now_ms() - started_ms

        assert wanted <= with_server(use) < wanted + 4_000


def test_a_client_that_gives_up_ends_a_stalled_answer() -> None:
    for fault in (ReplyFault.STALLED, ReplyFault.STALLED_BODY):

        async def use(server: WebServer, stepped: SteppedTime, fault: ReplyFault = fault) -> None:
            started_ms = stepped.now_ms()
            answer = await get(server, HOST, f"/fault/{fault}/3", seconds=30)
            assert answer.is_timed_out
            await asyncio.sleep(1)
            (row,) = server.log
            assert row.ended_at_ms - started_ms == 30_000
            assert (answer.status == 0) == (fault is ReplyFault.STALLED)

        with_server(use)


def test_connections_end_too_early() -> None:
    dropped = fetch_fault(ReplyFault.DROPPED)
    assert (dropped.status, dropped.body, dropped.is_reset) == (0, b"", False)
    half = fetch_fault(ReplyFault.DROPPED_BODY)
    assert 0 < len(half.body) < int(half.headers["content-length"])
    assert fetch_fault(ReplyFault.RESET).is_reset


def test_some_answers_have_no_end() -> None:
    for fault in (ReplyFault.OVERSIZED, ReplyFault.ENDLESS):
        answer = fetch_fault(fault)
        assert len(answer.body) > 1 << 21
    assert int(fetch_fault(ReplyFault.OVERSIZED).headers["content-length"]) == 1 << 26


def test_lengths_are_wrong() -> None:
    long, short = fetch_fault(ReplyFault.LENGTH_TOO_LONG), fetch_fault(ReplyFault.LENGTH_TOO_SHORT)
    assert int(long.headers["content-length"]) == len(long.body) + 1_000
    assert int(short.headers["content-length"]) == len(short.body) // 2
    assert fetch_fault(ReplyFault.LENGTH_BAD).headers["content-length"] == "-17"
    chunks = fetch_fault(ReplyFault.CHUNKS_BAD)
    assert chunks.headers["transfer-encoding"] == "chunked"
    assert b"zz\r\n" in chunks.body


def test_bombs_are_small_until_they_are_unpacked() -> None:
    once, twice = fetch_fault(ReplyFault.BOMB), fetch_fault(ReplyFault.BOMB_TWICE)
    assert len(once.body) < 100_000
    assert len(gzip.decompress(once.body)) == 1 << 26
    assert twice.headers["content-encoding"] == "gzip, gzip"
    assert gzip.decompress(twice.body) == once.body


def test_encodings_are_wrong() -> None:
    bad, cut = fetch_fault(ReplyFault.GZIP_BAD), fetch_fault(ReplyFault.GZIP_CUT)
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(bad.body)
    with pytest.raises(EOFError):
        gzip.decompress(cut.body)
    assert zlib.decompressobj(31).decompress(cut.body)
    assert fetch_fault(ReplyFault.ENCODING_UNKNOWN).headers["content-encoding"] == "x-strange"


def test_heads_are_wrong() -> None:
    assert len(fetch_fault(ReplyFault.HEADER_HUGE).headers["x-long"]) == 1_000_000
    assert len(fetch_fault(ReplyFault.HEADERS_MANY).headers) > 20_000
    assert "no colon here" in fetch_fault(ReplyFault.HEADER_BAD).headers
    assert fetch_fault(ReplyFault.STATUS_BAD).status == 9_999_999
    assert fetch_fault(ReplyFault.NOT_HTTP).status == 0


def test_faults_occur_at_their_share_of_requests() -> None:
    traits = HostTraits(
        name=HOST, n_pages=50, faults=((ReplyFault.GONE, 0.2), (ReplyFault.EMPTY, 0.1))
    )
    web = LocalWeb([traits], started_at_ms=0)
    faults = [
        web.answer(HOST, web.hosts[HOST].path(page), 1_000 * at, {}).fault
        for at in range(20)
        for page in range(50)
    ]
    # Five standard errors of a share of 0.2 in 1,000 draws are 0.063.
    assert abs(faults.count(ReplyFault.GONE) / 1_000 - 0.2) < 0.063
    assert abs(faults.count(ReplyFault.EMPTY) / 1_000 - 0.1) < 0.048
