"""The server of the local web: connections, addresses, TLS, and a process of its own."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from recrawl.testing.stepped_time import SteppedTime, run_stepped
from recrawl.testing.web import (
    HostTraits,
    LocalWeb,
    RequestKind,
    TlsKind,
    WebServer,
    find_violations,
    make_hosts,
    read_request_log,
    serve,
)
from tests.unit.testing.web.plain_client import get

HOST = "one.example"
_T = TypeVar("_T")


def with_server(web: LocalWeb, use: Callable[[WebServer], Awaitable[_T]]) -> _T:
    async def main(stepped: SteppedTime) -> _T:
        async with await serve(web, now_ms=stepped.now_ms) as server:
            return await use(server)

    return run_stepped(main, start_at_ms=web.started_at_ms)


def make_web(*host_traits: HostTraits, is_by_address: bool = False) -> LocalWeb:
    return LocalWeb(host_traits, started_at_ms=1_767_225_600_000, is_by_address=is_by_address)


def test_a_connection_serves_several_requests_in_order() -> None:
    async def use(server: WebServer) -> list[str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = [f"GET /{page} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() for page in (3, 1, 2)]
        writer.write(b"".join(lines))
        for _ in lines:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()
        return [row.path for row in server.log]

    assert with_server(make_web(HostTraits(name=HOST)), use) == ["/3", "/1", "/2"]


@pytest.mark.parametrize("answer_seconds", [0.0, 0.5])
def test_the_log_has_what_was_asked_and_answered(answer_seconds: float) -> None:
    async def use(server: WebServer) -> None:
        await asyncio.sleep(10)
        first = await get(server, HOST, "/3", {"Accept-Encoding": "gzip"})
        await get(server, HOST, "/3", {"If-None-Match": first.headers["etag"]})
        await get(server, HOST, "/fault/too_many_seconds/4")
        page, same, refused = server.log
        assert page.at_ms == server.web.started_at_ms + 10_000
        assert page.ended_at_ms - page.at_ms == 1_000 * answer_seconds
        assert (page.kind, page.status, page.page, page.version) == (RequestKind.PAGE, 200, 3, 0)
        assert page.n_bytes > len(first.body) > 1_000
        assert page.user_agent == "test"
        assert (same.status, same.is_conditional, page.is_conditional) == (304, True, False)
        assert (refused.status, refused.retry_after_seconds) == (429, 120.0)
        assert refused.fault == "too_many_seconds"

    with_server(make_web(HostTraits(name=HOST, answer_seconds=answer_seconds)), use)


def test_unknown_hosts_and_methods_are_refused() -> None:
    async def use(server: WebServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: nobody.example\r\n\r\n")
        assert b" 400 " in await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(b"No such host\n"))
        writer.write(f"DELETE /1 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        assert b" 405 " in await reader.read()
        writer.close()

    with_server(make_web(HostTraits(name=HOST)), use)


def test_head_gets_no_body() -> None:
    async def use(server: WebServer) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"HEAD /1 HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        found = await reader.read()
        writer.close()
        return found

    found = with_server(make_web(HostTraits(name=HOST)), use)
    assert found.endswith(b"\r\n\r\n")
    assert b"Content-Length" in found


def test_a_head_without_end_is_cut_off() -> None:
    async def use(server: WebServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /" + b"a" * 200_000)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(1)
        writer.close()

    with_server(make_web(HostTraits(name=HOST)), use)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only 127.0.0.1")
def test_hosts_have_addresses_of_their_own() -> None:
    web = make_web(HostTraits(name="a.example"), HostTraits(name="b.example"), is_by_address=True)

    async def use(server: WebServer) -> None:
        assert web.hosts["b.example"].url(1) == f"http://127.0.0.3:{server.port}/1"
        _, writer = await asyncio.open_connection("127.0.0.3", server.port)
        writer.write(b"GET /1 HTTP/1.1\r\nHost: something\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(1)
        writer.close()
        assert [row.host for row in server.log] == ["b.example"]
        found = web.find_page(f"http://127.0.0.2:{server.port}/5")
        assert found is not None
        assert found.host == "a.example"

    with_server(web, use)


@pytest.mark.parametrize("kind", list(TlsKind))
def test_tls_is_right_or_wrong_as_the_plan_says(kind: TlsKind) -> None:
    web = make_web(HostTraits(name=HOST, tls=kind), HostTraits(name="plain.example"))
    reasons = {
        TlsKind.SELF_SIGNED: "self-signed",
        TlsKind.EXPIRED: "expired",
        TlsKind.WRONG_NAME: "match",
    }

    async def use(server: WebServer) -> None:
        where = server.address_of(HOST)
        assert where is not None
        assert web.hosts[HOST].origin == f"https://{HOST}:{where[1]}"
        context = ssl.create_default_context()
        if server.certificates is not None:
            context = server.certificates.client_context()
        if kind is not TlsKind.RIGHT:
            with pytest.raises(OSError, match=reasons.get(kind)):
                await asyncio.open_connection(*where, ssl=context, server_hostname=HOST)
            return
        reader, writer = await asyncio.open_connection(*where, ssl=context, server_hostname=HOST)
        writer.write(f"GET /1 HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()

    with_server(web, use)


def test_a_day_of_fetches_has_no_false_time_outs() -> None:
    """A crawler with a delay of a minute per host and a time-out of a second sees no time-out."""
    web = make_web(*make_hosts(20, 200, is_well_behaved=True))

    async def crawl(server: WebServer, host: str) -> int:
        n_timed_out = 0
        await get(server, host, "/robots.txt", seconds=2.0)
        for turn in range(20):
            await asyncio.sleep(60)
            path = web.hosts[host].path(turn % web.hosts[host].traits.n_pages)
            n_timed_out += (await get(server, host, path, seconds=2.0)).is_timed_out
        return n_timed_out

    async def use(server: WebServer) -> None:
        counts = await asyncio.gather(*(crawl(server, host) for host in web.hosts))
        assert sum(counts) == 0
        assert len(server.log) == 20 * 21
        assert find_violations(web, server.log, delay_seconds=60.0) == []

    with_server(web, use)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only 127.0.0.1")
def test_a_process_of_its_own_prints_its_hosts_and_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "recrawl.testing.web", "--hosts", "3", "--pages", "30"]
    command += ["--log", str(log), "--well-behaved"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        hosts = [json.loads(process.stdout.readline()) for _ in range(3)]
        for host in hosts:
            with urllib.request.urlopen(host["url"] + "0", timeout=300) as answer:
                assert answer.status == 200
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=300) == 0
    found = read_request_log(log)
    assert [row.host for row in found] == [host["host"] for host in hosts]
    host_traits = make_hosts(3, 30, is_well_behaved=True)
    web = LocalWeb(host_traits, started_at_ms=first["started_at_ms"], is_by_address=True)
    assert next(page.url for page in web.pages()).startswith("http://127.0.0.2/")
    with log.open("a") as file:
        file.write('{"at_ms": 3')
    assert len(read_request_log(log)) == 3
