"""Nothing that a page does makes the browser connect to an address that is not public.

Connections are counted at listening sockets of this machine, TCP and UDP, at the guard, and by
``strace``, which shows every connection of every process of the browser.
"""

import asyncio
import json
import re
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error

from recrawl.browser import BrowserFetcher
from recrawl.browser.chromium import Chromium
from recrawl.browser.guarding_proxy import GuardingProxy
from recrawl.fetch import FetchRequest, HttpFetcher
from recrawl.fetch.addresses import address_refusal, parse_networks
from recrawl.fetch.guarded_sockets import AddressGuard
from recrawl.testing.fetchers import ScriptedSite, SeenRequest, http_answer, open_site
from recrawl.testing.own_connections import watch_connections
from tests.unit.browser.browser_fixtures import browser_settings, fetch_settings, html
from tests.unit.fetch.test_forbidden_addresses import (
    NameTable,
    open_listener,
    port_of,
    trick_urls,
)

# Every way that we know of in which a page can make a browser send something.
ATTACK = """<!doctype html><title>Attack</title><p id="text">Nothing happened.</p>
<link rel="dns-prefetch" href="//INSIDE"><link rel="preconnect" href="http://INSIDE">
<link rel="prefetch" href="http://INSIDE/prefetch"><link rel="icon" href="http://INSIDE/icon">
<link rel="preload" as="script" href="http://INSIDE/preload">
<link rel="stylesheet" href="http://INSIDE/style"><link rel="manifest" href="http://INSIDE/m">
<link rel="modulepreload" href="http://INSIDE/module">
<style>body { background: url(http://INSIDE/css) } @import url(http://INSIDE/import);
@font-face { font-family: x; src: url(http://INSIDE/font) } p { font-family: x }</style>
<script src="http://INSIDE/script"></script><script src="/to-inside"></script>
<img src="http://INSIDE/img" srcset="http://INSIDE/set 2x"><img src="/to-inside?img">
<iframe src="http://INSIDE/frame"></iframe><iframe src="/to-inside?frame"></iframe>
<iframe src="file:///etc/passwd"></iframe><iframe src="data:text/html,<img src=http://INSIDE/d>">
</iframe><object data="http://INSIDE/object"></object><embed src="http://INSIDE/embed">
<video src="http://INSIDE/video"></video><audio src="http://INSIDE/audio" autoplay></audio>
<video><track default src="http://INSIDE/track"></video><input type="image" src="http://INSIDE/i">
<svg><image href="http://INSIDE/svg"/><use href="http://INSIDE/use#a"/></svg>
<form id="f" method="post" action="http://INSIDE/form" target="out"><input name="a"></form>
<iframe name="out"></iframe><a id="d" target="_blank" download href="http://INSIDE/download">x</a>
<a id="p" ping="http://INSIDE/ping" href="#x">x</a>
<script type="speculationrules">{"prerender": [{"source": "list", "urls": ["http://INSIDE/s"]}],
"prefetch": [{"source": "list", "urls": ["http://INSIDE/t"]}]}</script>
<script>
const attempt = (what) => { try { const x = what(); if (x && x.catch) x.catch(() => 0); }
  catch (error) {} };
const tricks = TRICKS;
const waits = [];
attempt(() => new WebSocket("ws://INSIDE/ws"));
attempt(() => new WebSocket("wss://INSIDE/wss"));
attempt(() => new WebTransport("https://INSIDE/transport"));
attempt(() => new EventSource("http://INSIDE/events"));
attempt(() => navigator.sendBeacon("http://INSIDE/beacon", "x"));
attempt(() => import("http://INSIDE/import.js"));
attempt(() => navigator.serviceWorker.register("/worker.js"));
attempt(() => window.open("http://INSIDE/window"));
attempt(() => window.open("/to-inside?window"));
attempt(() => document.getElementById("f").submit());
attempt(() => document.getElementById("d").click());
attempt(() => document.getElementById("p").click());
attempt(() => { const r = new XMLHttpRequest(); r.open("PUT", "http://INSIDE/xhr"); r.send("x"); });
for (const url of ["http://INSIDE/fetch", "https://INSIDE/tls", "file:///etc/passwd",
                   "/to-inside?fetch", "ftp://INSIDE/ftp"])
  attempt(() => fetch(url, {mode: "no-cors"}));
attempt(() => fetch("http://INSIDE/keep", {mode: "no-cors", keepalive: true, method: "POST"}));
attempt(() => new Worker(URL.createObjectURL(new Blob([`
  fetch("http://INSIDE/worker", {mode: "no-cors"}).catch(() => 0);
  try { new WebSocket("ws://INSIDE/worker-ws"); } catch (error) {}
  try { importScripts("http://INSIDE/import-scripts"); } catch (error) {}`]))));
attempt(() => new SharedWorker("data:,fetch('http://INSIDE/shared',{mode:'no-cors'})"));
attempt(() => {
  const peer = new RTCPeerConnection({iceServers: [
    {urls: "stun:INSIDE"}, {urls: "turn:INSIDE", username: "a", credential: "b"},
    {urls: "turn:INSIDE?transport=tcp", username: "a", credential: "b"}]});
  peer.createDataChannel("x");
  peer.createOffer().then((offer) => peer.setLocalDescription(offer));
  peer.addIceCandidate({candidate: "candidate:1 1 udp 2122260223 127.0.0.1 PORT typ host",
    sdpMid: "0"}).catch(() => 0);
});
for (const [i, url] of tricks.entries()) {
  waits.push(fetch(url, {mode: "no-cors"}).catch(() => 0));
  if (i % 10) continue;
  attempt(() => { new Image().src = url; });
  attempt(() => new WebSocket(url.replace("http", "ws")));
}
Promise.allSettled(waits).then(() => { document.title = "Done"; });
</script>"""


class UdpCount(asyncio.DatagramProtocol):
    """Counts the packets that it receives."""

    def __init__(self) -> None:
        self.n_packets = 0

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.n_packets += 1


@asynccontextmanager
async def open_udp(port: int) -> AsyncIterator[UdpCount]:
    count = UdpCount()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: count, local_addr=("127.0.0.1", port)
    )
    try:
        yield count
    finally:
        transport.close()


@asynccontextmanager
async def open_inside() -> AsyncIterator[tuple[ScriptedSite, UdpCount]]:
    """Listen on one port of this machine for TCP and for UDP."""
    async with AsyncExitStack() as stack:
        for n_left in reversed(range(100)):
            # Those whose port is in use for UDP stay open, so that the next has another port.
            inside = await stack.enter_async_context(open_listener())
            try:
                udp = await stack.enter_async_context(open_udp(port_of(inside)))
            except OSError:
                if not n_left:
                    raise
            else:
                yield inside, udp
                return


async def wait_until(is_reached: Callable[[], bool], seconds_max: float = 60.0) -> None:
    """Wait until a condition holds, or the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds_max
    while not is_reached() and loop.time() < until:
        await asyncio.sleep(0.05)


def attack_site(inside: ScriptedSite, n_tricks: int) -> dict[str, Any]:
    port = port_of(inside)
    # Chromium reads most of the notations of an address as the address itself.
    found = list(dict.fromkeys(url for url in trick_urls(port) if url.isprintable()))
    tricks = found[:: len(found) // n_tricks]
    assert len(tricks) >= n_tricks
    page = ATTACK.replace("INSIDE", f"127.0.0.1:{port}").replace("PORT", str(port))
    redirect = http_answer(status=302, headers=f"Location: {inside.url}/redirect\r\n")
    kinds = ("", "?img", "?frame", "?window", "?fetch")
    return {
        "/attack": html(page.replace("TRICKS", json.dumps(tricks))),
        **{f"/to-inside{kind}": redirect for kind in kinds},
    }


def trace_browser(folder: Path) -> tuple[Path, Path]:
    """Return a program that starts Chromium under ``strace``, and the file that this writes."""
    strace, chromium = shutil.which("strace"), browser_settings().find_executable()
    assert strace, "strace is not installed"
    log, program = folder / "connections.log", folder / "traced-chromium"
    program.write_text(
        f"#!/bin/sh\nexec {strace} -f -qq --seccomp-bpf -e trace=connect,sendto -o {log} "
        f'{chromium} "$@"\n'
    )
    program.chmod(0o755)
    return program, log


def addresses_in(log: Path) -> set[tuple[str, int]]:
    """Return the internet addresses that the browser connected or sent to."""
    found = set()
    for line in log.read_text(errors="replace").splitlines():
        port = re.search(r"sin6?_port=htons\((\d+)\)", line)
        address = re.search(r'inet_(?:addr|pton)\((?:AF_INET6?, )?"([^"]+)"', line)
        if port and address:
            found.add((address[1], int(port[1])))
    return found


@pytest.mark.slow_without_jit
def test_the_proxy_alone_stops_every_attempt(tmp_path: Path) -> None:
    """Without any other rule, the browser reaches only the one address that is allowed."""
    program, log = trace_browser(tmp_path)
    proxies: set[tuple[str, int]] = set()

    async def main() -> None:
        async with (
            open_inside() as (inside, udp),
            open_site(attack_site(inside, 200), "127.0.0.5") as outside,
        ):
            settings = browser_settings(executable=str(program), connections_max=100_000)
            guard = AddressGuard(parse_networks(["127.0.0.5/32"]))
            names = NameTable({"outside.example": lambda: ["127.0.0.5"]})
            chromium = Chromium(settings, guard, names, user_agent="test")
            proxy = GuardingProxy(settings, guard, names, admits_all=True)
            await proxy.open()
            proxies.add(("127.0.0.1", int(proxy.url.rpartition(":")[2])))
            async with chromium.open_context(proxy) as context:
                page = await context.new_page()
                page.set_default_timeout(300_000)
                await page.goto(f"http://outside.example:{port_of(outside)}/attack")
                await page.wait_for_function("document.title == 'Done'")
                # The title is that of fetches; images and sockets may come later.
                sent = {"/attack", "/to-inside", "/to-inside?img"}
                await wait_until(lambda: guard.n_refused > 250 and sent <= set(outside.paths()))
                await asyncio.sleep(0.5)
                for url in (f"{inside.url}/", f"{outside.url}/to-inside"):
                    response = await page.goto(url)
                    assert response is not None
                    assert response.status == 403
                with pytest.raises(Error):
                    await page.goto(inside.url.replace("http", "https"))
            assert chromium._dead_end is not None
            proxies.add(("127.0.0.1", int(chromium._dead_end.url.rpartition(":")[2])))
            await chromium.close()
            await proxy.close()
            assert sent <= set(outside.paths())
            assert (inside.n_connections, udp.n_packets) == (0, 0)
            # The tricks did arrive at the guard.
            assert guard.n_refused > 250

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}
    # Connecting a UDP socket to a public address sends nothing; Chromium finds its own one so.
    reached = {(host, port) for host, port in addresses_in(log) if address_refusal(host)}
    assert reached <= proxies
    assert proxies & addresses_in(log)


@pytest.mark.slow_without_jit
def test_a_rendered_page_reaches_only_what_is_allowed() -> None:
    async def main() -> None:
        async with (
            open_inside() as (inside, udp),
            open_site(attack_site(inside, 25), "127.0.0.5") as outside,
        ):
            plain = HttpFetcher(
                fetch_settings(allow_networks=("127.0.0.5/32",), obey_robots=False),
                resolver=NameTable(),
            )
            fetcher = BrowserFetcher(
                plain, browser_settings(seconds_max=120.0, requests_max=1000, connections_max=5000)
            )
            answer = await fetcher.fetch(FetchRequest(url=f"{outside.url}/attack"))
            await fetcher.close()
            assert b"Nothing happened." in answer.body
            assert b"<title>Done</title>" in answer.body
            assert plain.guard.n_refused > 20
            assert inside.n_connections == udp.n_packets == 0

    with watch_connections() as seen:
        asyncio.run(main())
    assert {address[0] for address in seen} == {"127.0.0.5"}


def send_and_close(answer: bytes) -> Callable[..., Awaitable[None]]:
    """Return a script of a site that ends the connection, as the proxy asks it to."""

    async def script(seen: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return script


async def ask(proxy: GuardingProxy, head: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(head)
    try:
        answer = await reader.read()
    except ConnectionResetError:  # the proxy has not read all of the head
        answer = b""
    writer.close()
    return answer


def test_the_proxy_refuses_what_is_not_a_request() -> None:
    async def main() -> None:
        guard = AddressGuard(parse_networks(["127.0.0.5/32"]))
        names = NameTable({"several.example": lambda: ["10.0.0.1", "127.0.0.5"]})
        early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
        page = early + http_answer(b"page", headers="Connection: keep-alive\r\n")
        async with open_site({"/page": send_and_close(page)}, "127.0.0.5") as site:
            proxy = GuardingProxy(browser_settings(), guard, names, admits_all=True)
            await proxy.open()
            url = f"http://several.example:{port_of(site)}/page"
            answer = await ask(proxy, f"GET {url} HTTP/1.1\r\nHost: x\r\nTE: x\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 200 x\r\n")
            assert answer.endswith(b"Connection: close\r\n\r\npage")
            assert b"keep-alive" not in answer
            assert site.requests[-1].headers == {"host": "x", "connection": "close"}
            n_connections = site.n_connections
            for head in (
                b"\r\n\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
                b"GET https://several.example/ HTTP/1.1\r\n\r\n",
                b"GET ftp://several.example/ HTTP/1.1\r\n\r\n",
                f"POST {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
                b"CONNECT several.example:22 HTTP/1.1\r\n\r\n",
                b"CONNECT nowhere HTTP/1.1\r\n\r\n",
                b"CONNECT 127.0.0.1:80@several.example:1 HTTP/1.1\r\n\r\n",
                b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
                b"CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\n\r\n",
                b"CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n",
                b"GET " + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
            ):
                answer = await ask(proxy, head)
                assert not answer or answer[9:12] in (b"400", b"403", b"405", b"502"), answer
            await proxy.close()
            await proxy.close()
            hasty = GuardingProxy(
                browser_settings(), guard, names, idle_seconds_max=0.5, admits_all=True
            )
            await hasty.open()
            # A head that never ends.
            assert await ask(hasty, b"GET http://several.example") == b""
            await hasty.close()
            assert site.n_connections == n_connections

    asyncio.run(main())


def test_the_proxy_does_not_connect_to_itself() -> None:
    async def main() -> None:
        guard = AddressGuard(parse_networks(["127.0.0.0/8"]))
        proxy = GuardingProxy(browser_settings(), guard, NameTable(), admits_all=True)
        await proxy.open()
        authority = proxy.url.removeprefix("http://")
        answer = await ask(proxy, f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403")
        assert proxy.n_connections == 1
        await proxy.close()

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["received_bytes_max", "sent_bytes_max", "connections_max"])
def test_the_proxy_keeps_its_limits(limit: str) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0, family=socket.AF_INET)
        port = server.sockets[0].getsockname()[1]
        guard = AddressGuard(parse_networks(["127.0.0.0/8"]))
        settings = browser_settings(**{limit: 3 if limit == "connections_max" else 100_000})
        proxy = GuardingProxy(settings, guard, NameTable(), admits_all=True)
        await proxy.open()
        proxy_port = int(proxy.url.rpartition(":")[2])
        pairs = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy_port)
            writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            pairs.append((reader, writer))
        for reader, writer in pairs:
            writer.write(b"x" * 30_000)
            assert len(await reader.readexactly(30_000)) == 30_000
        limits = [proxy.limit_reached]
        assert (proxy.n_bytes_received, proxy.n_bytes_sent) == (90_000, 90_000)
        if limit == "connections_max":
            assert (await ask(proxy, b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n"))[9:12] == b"403"
        else:
            pairs[0][1].write(b"x" * 30_000)
        # All connections end, not the one alone.
        for reader, writer in pairs:
            assert len(await reader.read()) <= 30_000
            writer.close()
        limits.append(proxy.limit_reached)
        assert limits == [None, limit]
        assert (await ask(proxy, b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n"))[9:12] == b"403"
        await proxy.close()
        server.close()

    asyncio.run(main())


def test_only_hosts_that_the_page_asked_for_are_admitted() -> None:
    async def main() -> None:
        guard = AddressGuard(parse_networks(["127.0.0.5/32"]))
        names = NameTable({"outside.example": lambda: ["127.0.0.5"]})
        page = send_and_close(http_answer(b"page"))
        async with open_site({"/page": page}, "127.0.0.5") as site:
            proxy = GuardingProxy(browser_settings(), guard, names)
            await proxy.open()
            url = f"http://outside.example:{port_of(site)}/page"
            head = f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            assert (await ask(proxy, head))[9:12] == b"403"
            proxy.admit("outside.example", port_of(site))
            assert (await ask(proxy, head))[9:12] == b"200"
            await proxy.close()

    asyncio.run(main())
