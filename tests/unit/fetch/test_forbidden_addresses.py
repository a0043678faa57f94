"""No trick makes the fetcher connect to an address that is not public.

Connections are counted in three places: at a listening socket of this machine, at the guard, and
by the interpreter, which reports every connection of any socket to its audit hooks.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from xml.sax.saxutils import escape

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchSettings,
    HttpFetcher,
    RobotsRules,
)
from recrawl.fetch.guarded_sockets import AddressGuard, RefusedAddress
from recrawl.signals import HintReader
from recrawl.testing.fetchers import ScriptedSite, http_answer, open_site
from recrawl.testing.own_connections import watch_connections

FORBIDDEN_V4 = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.254", "100.64.0.1", "100.100.100.200"),
    *("127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "169.254.0.1", "169.254.169.254"),
    *("169.254.170.2", "172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.0.192", "192.0.2.1"),
    *("192.88.99.1", "192.168.0.1", "192.168.255.254", "198.18.0.1", "198.19.255.254"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    "255.255.255.255",
]
FORBIDDEN_V6 = [
    *("::", "::1", "0:0:0:0:0:0:0:1", "::127.0.0.1", "::7f00:1", "fe80::1", "febf::1", "fec0::1"),
    *("fc00::1", "fd00::1", "fd00:ec2::254", "ff02::1", "ff05::2", "100::1", "2001:db8::1"),
    *("2001::7f00:1", "2001:0:7f00:1::", "2001:10::1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
    *("2002:c0a8:1::", "64:ff9b::7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b::10.0.0.1", "64:ff9b:1::7f00:1", "64:ff9b:1:fffe::127.0.0.1", "3fff::1"),
    *("::ffff:0:127.0.0.1", "4000::1", "5f00::1", "2620:4f:8000::1"),
]


def notations(address: str) -> list[str]:
    """Return other ways to write an IPv4 address, which some parsers read as the same one."""
    a, b, c, d = (int(part) for part in address.split("."))
    number = (a << 24) | (b << 16) | (c << 8) | d
    wide = "".join(chr(0xFF10 + int(x)) if x.isdigit() else x for x in address)
    return [
        address,
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{(b << 16) | (c << 8) | d}",
        f"{a}.{b}.{(c << 8) | d}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"0x{a:X}.{b}.0{c:o}.{d}",
        f"{address}.",
        "".join(f"%{ord(x):02x}" for x in address),
        wide,
        address.replace(".", "\u3002"),
        address.replace(".", "\uff0e"),
        f"[::ffff:{address}]",
        f"[::FFFF:{(a << 8) | b:x}:{(c << 8) | d:x}]",
        f"[0:0:0:0:0:ffff:{(a << 8) | b:04x}:{(c << 8) | d:04x}]",
        f"[64:ff9b::{address}]",
    ]


def trick_urls(port: int) -> list[str]:
    """Return URLs that lead to forbidden addresses, or would in some parser."""
    hosts = [host for address in FORBIDDEN_V4 for host in notations(address)]
    hosts += [f"[{address}]" for address in FORBIDDEN_V6]
    hosts += [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "%6cocalhost",
        "\u24dbocalhost",
    ]
    hosts += [
        "[::1%25lo]",
        "[fe80::1%25eth0]",
        "[::1%lo]",
        "\u2460\u2461\u2466.0.0.1",
        "0",
        "127.1",
    ]
    hosts += [f"{name}.example" for name in NAMES]
    urls = [f"http://{host}:{port}/" for host in hosts]
    urls += [
        f"http://public.example@127.0.0.1:{port}/",
        f"http://public.example:80@127.0.0.1:{port}/",
        f"http://127.0.0.1:{port}#@public.example/",
        f"http://127.0.0.1:{port}?@public.example/",
        f"http://127.0.0.1:{port}\\@public.example/",
        f"http:\\\\127.0.0.1:{port}\\a",
        f"http:127.0.0.1:{port}/",
        f"http:///127.0.0.1:{port}/",
        f"http://127.0.0.1\t:{port}/",
        f"ht\ntp://127.0.0.\n1:{port}/",
        f" http://127.0.0.1:{port}/ ",
        f"HTTP://127.0.0.1:{port}/",
        f"https://127.0.0.1:{port}/",
        f"http://127.0.0.1:{port}/\r\nHost: x",
        "http://127.0.0.1:22/",
        "http://public.example:25/",
        f"file://127.0.0.1:{port}/etc/passwd",
        f"gopher://127.0.0.1:{port}/_GET",
        f"ws://127.0.0.1:{port}/",
        f"ftp://127.0.0.1:{port}/",
        f"//127.0.0.1:{port}/",
        f"javascript:fetch('http://127.0.0.1:{port}')",
        f"view-source:http://127.0.0.1:{port}/",
        f"jar:http://127.0.0.1:{port}!/",
    ]
    return urls


# Names that an attacker controls, and what they resolve to.
NAMES = {
    f"name{i}": [address] for i, address in enumerate([*FORBIDDEN_V4[::2], *FORBIDDEN_V6[::2]])
} | {
    "several": ["10.0.0.1", "127.0.0.1", "::1"],
    "mapped": ["::ffff:127.0.0.1"],
    "zone": ["fe80::1%lo"],
    "not-an-address": ["localhost"],
    "short": ["127.1"],
    "hexadecimal": ["0x7f000001"],
    "empty-text": [""],
    "nothing": [],
}


class NameTable(AbstractResolver):
    """Resolves names from a table; other names lead to this machine."""

    def __init__(self, names: dict[str, Callable[[], list[str]]] | None = None) -> None:
        self.names = names or {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name = host.removesuffix(".example")
        addresses = self.names[host]() if host in self.names else NAMES.get(name, ["127.0.0.1"])
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def open_listener() -> AsyncIterator[ScriptedSite]:
    """Listen on all addresses of this machine, on one port."""
    site = ScriptedSite({})
    server = await asyncio.start_server(site.serve, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    site.url = f"http://127.0.0.1:{port}"
    servers = [server]
    if socket.has_ipv6:
        with suppress(OSError):  # a machine may have no IPv6
            servers.append(await asyncio.start_server(site.serve, "::1", port))
    try:
        yield site
    finally:
        for one in servers:
            one.close()


def make_fetcher(*networks: str, **changes: Any) -> HttpFetcher:
    resolver = changes.pop("resolver", NameTable())
    given: dict[str, Any] = {
        "contact": "https://example.com/bot",
        "delay_seconds": 0.0,
        "slowness_factor": 0.0,
        "backoff_seconds": 0.0,
        "connect_seconds_max": 2.0,
        "allow_networks": networks,
    }
    return HttpFetcher(FetchSettings(**given | changes), resolver=resolver)


def port_of(site: ScriptedSite) -> int:
    return int(site.url.rpartition(":")[2])


def assert_refused(answer: FetchAnswer, *more: FetchProblem) -> None:
    refusals = (FetchProblem.REFUSED_ADDRESS, FetchProblem.BAD_URL, FetchProblem.DNS, *more)
    assert answer.problem in refusals, answer
    assert answer.body == b""


def test_there_are_many_tricks() -> None:
    assert len(set(trick_urls(80))) >= 200


@pytest.mark.parametrize("obey_robots", [False, True])
def test_urls_never_lead_to_forbidden_addresses(obey_robots: bool) -> None:
    async def main() -> None:
        async with open_listener() as site:
            fetcher = make_fetcher(obey_robots=obey_robots)
            for i, url in enumerate(trick_urls(port_of(site))):
                kind = list(FetchKind)[i % len(FetchKind)]
                answer = await fetcher.fetch(FetchRequest(url=url, kind=kind))
                assert_refused(answer, FetchProblem.ROBOTS)
            await fetcher.close()
            assert fetcher.guard.n_opened == 0
            assert fetcher.guard.n_refused > 200

    with watch_connections() as seen:
        asyncio.run(main())
    assert seen == []


@pytest.mark.parametrize(
    ("path", "kind"), [("/page", FetchKind.PAGE), ("/map.xml", FetchKind.SITEMAP)]
)
def test_redirects_never_lead_to_forbidden_addresses(path: str, kind: FetchKind) -> None:
    async def main() -> None:
        async with open_listener() as inner, open_site({}, "127.0.0.5") as outer:
            fetcher = make_fetcher("127.0.0.5/32", obey_robots=False)
            for url in trick_urls(port_of(inner)):
                location = url.replace("\n", "").replace("\r", "").encode()
                head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "
                outer.scripts[path] = head + location + b"\r\n\r\n"
                answer = await fetcher.fetch(FetchRequest(url=outer.url + path, kind=kind))
                problems = (FetchProblem.BAD_REDIRECT, FetchProblem.BAD_ANSWER)
                # A host that is no URL for us is a path on the site itself, which has no such page.
                if answer.status != 404:
                    assert_refused(answer, *problems)
                else:
                    assert answer.final_url.startswith(outer.url)
            await fetcher.close()

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


def test_a_robots_file_cannot_send_the_fetcher_elsewhere() -> None:
    async def main() -> None:
        async with open_listener() as inner, open_site({}, "127.0.0.5") as outer:
            # A site of its own for each trick: its robots.txt file is fetched once.
            names = {f"{i}.site.example": lambda: ["127.0.0.5"] for i in range(1000)}
            fetcher = make_fetcher("127.0.0.5/32", resolver=NameTable(names))
            tricks = [url for url in trick_urls(port_of(inner)) if url.startswith("http")]
            assert len(set(tricks)) >= 200
            for i, url in enumerate(tricks):
                location = url.replace("\n", "").replace("\r", "").encode()
                head = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: "
                outer.scripts["/robots.txt"] = head + location + b"\r\n\r\n"
                page = f"http://{i}.site.example:{port_of(outer)}/page"
                answer = await fetcher.fetch(FetchRequest(url=page))
                # A location that is a path on the site itself leads to a missing file.
                assert answer.problem == FetchProblem.ROBOTS or answer.status == 404, (url, answer)
            await fetcher.close()

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


def test_a_sitemap_cannot_send_the_fetcher_elsewhere() -> None:
    """Neither the pages that a sitemap names, nor the sitemaps that a robots.txt file names."""

    async def main() -> None:
        async with open_listener() as inner, open_site({}, "127.0.0.5") as outer:
            tricks = trick_urls(port_of(inner))
            entries = "".join(f"<url><loc>{escape(url)}</loc></url>" for url in tricks)
            outer.scripts["/map.xml"] = http_answer(f"<urlset>{entries}</urlset>".encode())
            fetcher = make_fetcher("127.0.0.5/32")
            url = f"{outer.url}/map.xml"
            answer = await fetcher.fetch(FetchRequest(url=url, kind=FetchKind.SITEMAP))
            pages = [url for hints in HintReader([answer.body]) for url in hints.url]
            # A file may name 100 sitemaps.
            lines = [f"Sitemap: {url}\n" for url in tricks if url.isprintable()]
            parts = ["".join(lines[start : start + 100]) for start in range(0, len(lines), 100)]
            sitemaps = [url for part in parts for url in RobotsRules(part, "recrawl").sitemaps]
            assert min(len(set(pages)), len(set(sitemaps))) >= 200
            for kind, urls in ((FetchKind.PAGE, pages), (FetchKind.SITEMAP, sitemaps)):
                for found in urls:
                    answer = await fetcher.fetch(FetchRequest(url=found, kind=kind))
                    assert_refused(answer, FetchProblem.ROBOTS)
            await fetcher.close()

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


def test_a_name_that_changes_its_address_gains_nothing() -> None:
    async def main() -> None:
        async with open_listener(), open_site({}, "127.0.0.5") as outer:
            n_calls = 0

            def alternate() -> list[str]:
                nonlocal n_calls
                n_calls += 1
                return ["127.0.0.5"] if n_calls % 2 else ["127.0.0.1"]

            # The page closes its connection, so that the name is resolved for each request.
            page = http_answer(b"page", headers="Connection: close\r\n")
            outer.scripts["/page"] = page
            answers = []
            for _ in range(6):
                resolver = NameTable({"rebind.example": alternate})
                fetcher = make_fetcher("127.0.0.5/32", obey_robots=False, resolver=resolver)
                url = f"http://rebind.example:{port_of(outer)}/page"
                answers.append(await fetcher.fetch(FetchRequest(url=url)))
                await fetcher.close()
            assert {answer.status for answer in answers[::2]} == {200}
            assert {answer.problem for answer in answers[1::2]} == {FetchProblem.REFUSED_ADDRESS}

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


def test_of_several_addresses_only_the_allowed_are_tried() -> None:
    async def main() -> None:
        async with open_site({"/page": http_answer(b"page")}, "127.0.0.5") as outer:
            addresses = ["10.0.0.1", "127.0.0.1", "::1", "127.0.0.5", "169.254.169.254"]
            resolver = NameTable({"many.example": lambda: addresses})
            fetcher = make_fetcher("127.0.0.5/32", resolver=resolver)
            url = f"http://many.example:{port_of(outer)}/page"
            answer = await fetcher.fetch(FetchRequest(url=url))
            await fetcher.close()
            assert answer.body == b"page"

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


@pytest.mark.parametrize("address", [*FORBIDDEN_V4, *FORBIDDEN_V6, "localhost", "", "127.1"])
def test_the_guard_refuses_at_the_socket(address: str) -> None:
    guard = AddressGuard()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = (address, 80, 0, 0) if family == socket.AF_INET6 else (address, 80)
    with pytest.raises(RefusedAddress):
        guard.open_socket((family, socket.SOCK_STREAM, 0, "", where))
    assert guard.n_opened == 0


def test_a_zone_is_refused_at_the_socket() -> None:
    where = ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", 80, 0, 1)
    with pytest.raises(RefusedAddress):
        AddressGuard().open_socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", where))
    where = (*where[:3], 0)
    AddressGuard().open_socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", where)).close()
