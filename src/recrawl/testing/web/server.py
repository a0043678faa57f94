"""The server of the local web: sockets, connections and the log."""

import asyncio
import contextlib
import functools
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from recrawl.testing.web.certificates import CERTIFICATE_KINDS, CertificateMaker
from recrawl.testing.web.local_web import LocalWeb, request_kind
from recrawl.testing.web.replies import End, Reply, reply_steps
from recrawl.testing.web.request_log import LoggedRequest, RequestLog
from recrawl.testing.web.traits import TlsKind

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

__all__ = ["WebServer", "serve"]

_HEAD_BYTES_MAX = 64 * 1024
_WRITE_BYTES_MAX = 256 * 1024
_IDLE_SECONDS_MAX = 75.0


def system_time_ms() -> int:
    """Return milliseconds since 1970 by the system clock."""
    return time.time_ns() // 1_000_000


class WebServer:
    """A running server of the local web.

    Parameters
    ----------
    web
        Hosts and what they answer.
    now_ms
        Function that returns the time, in milliseconds since 1970.
    log
        Log to which it adds each request.
    """

    def __init__(self, web: LocalWeb, now_ms: Callable[[], int], log: RequestLog) -> None:
        self.web = web
        self.now_ms = now_ms
        self.log = log
        self.port = 0
        self.tls_ports: dict[TlsKind, int] = {}
        self.certificates: CertificateMaker | None = None
        self._servers: list[asyncio.Server] = []
        self.connections: set[_Connection] = set()

    def address_of(self, host: str) -> tuple[str, int] | None:
        """Return address and port at which a host is reached, for a resolver.

        Parameters
        ----------
        host
            Name of the host, without a port.
        """
        name = self.web.host_named(host)
        if name is None:
            return None
        kind = self.web.hosts[name].traits.tls
        return "127.0.0.1", self.port if kind is None else self.tls_ports[kind]

    def resolver(self) -> "AbstractResolver":
        """Return a resolver for aiohttp that leads each host to this server, also to its port."""
        from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: PLC0415

        find = self.address_of

        class LocalResolver(AbstractResolver):
            """Resolver of the names of the local web, and of no others."""

            async def resolve(
                self,
                host: str,
                port: int = 0,  # noqa: ARG002 - the server has its own
                family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002
            ) -> list[ResolveResult]:
                found = find(host)
                if found is None:
                    raise OSError(f"no host of the local web is named {host}")
                row = ResolveResult(
                    hostname=host,
                    host=found[0],
                    port=found[1],
                    family=socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                return [row]

            async def close(self) -> None:
                """Do nothing: there is nothing to close."""

        return LocalResolver()

    def n_open(self) -> int:
        """Return the number of open connections."""
        return len(self.connections)

    async def listen(self, addresses: list[str], port: int, kind: TlsKind | None = None) -> int:
        """Accept connections at some addresses; return the port.

        Parameters
        ----------
        addresses
            Addresses of this machine.
        port
            Port; 0 chooses one.
        kind
            Fault of TLS; ``None`` for plain HTTP.
        """
        loop = asyncio.get_running_loop()
        context = None
        make: Callable[[], asyncio.Protocol] = functools.partial(_Connection, self)
        if kind is TlsKind.DROPPED:
            make = functools.partial(_BrokenHandshake, b"")
        elif kind is TlsKind.GARBAGE:
            make = functools.partial(_BrokenHandshake, bytes(range(256)))
        elif kind in CERTIFICATE_KINDS:
            if self.certificates is None:
                self.certificates = CertificateMaker()
            names = [name for name, host in self.web.hosts.items() if host.traits.tls is kind]
            context = self.certificates.server_context(kind, [*names, *addresses])
        # The first address chooses the port, which must then be free at the others.
        for some in (addresses[:1], addresses[1:]):
            if some:
                server = await loop.create_server(make, some, port, ssl=context)
                self._servers.append(server)
                port = cast(int, server.sockets[0].getsockname()[1])
        return port

    async def close(self) -> None:
        """Stop accepting connections, and close those that are open."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.abort()
        for server in self._servers:
            await server.wait_closed()
        await asyncio.sleep(0)

    async def __aenter__(self) -> "WebServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def serve(
    web: LocalWeb,
    *,
    now_ms: Callable[[], int] = system_time_ms,
    port: int = 0,
    log: RequestLog | None = None,
    sets_port: bool = True,
) -> WebServer:
    """Start the server of a local web in the running loop, and return it.

    Parameters
    ----------
    web
        Hosts and what they answer.
    now_ms
        Function that returns the time; in stepped time `recrawl.testing.SteppedTime.now_ms`.
    port
        Port; 0 chooses one.
    log
        Log to which it adds each request; a new one if not given.
    sets_port
        Whether URLs of the web get the port.  Without it URLs have none, and clients need a
        resolver that uses `WebServer.address_of`.
    """
    server = WebServer(web, now_ms, RequestLog() if log is None else log)
    addresses = list(dict.fromkeys(["127.0.0.1", *(web.addresses if web.is_by_address else ())]))
    server.port = await server.listen(addresses, port)
    for kind in TlsKind:
        if any(host.traits.tls is kind for host in web.hosts.values()):
            server.tls_ports[kind] = await server.listen(addresses, 0, kind)
    if sets_port:
        web.set_ports(server.port, server.tls_ports)
    return server


class _BrokenHandshake(asyncio.Protocol):
    """A server that does not finish the handshake of TLS."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 (asyncio calls it so)
        assert self._transport is not None
        self._transport.write(self._answer)
        self._transport.close()


class _Arrival(NamedTuple):
    """A request that has arrived."""

    at_ms: int
    host: str
    path: str
    headers: dict[str, str]
    is_head: bool

    @property
    def wants_close(self) -> bool:
        return "close" in self.headers.get("connection", "").lower()


class _Connection(asyncio.Protocol):
    """One connection of a client: reads requests and sends the steps of answers."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._address = ""
        self._task: asyncio.Task[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._closed = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None  # closes the connection if nothing comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)
        self._address = transport.get_extra_info("sockname")[0]
        self._server.connections.add(self)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio calls it so)
        self._server.connections.discard(self)
        self._stop_waiting()
        self._closed.set()
        self._can_write.set()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._read_requests()

    def _wait_for_request(self) -> None:
        assert self._transport is not None
        self._stop_waiting()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(_IDLE_SECONDS_MAX, self._transport.close)

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _read_requests(self) -> None:
        transport = self._transport
        while self._task is None and transport is not None and not transport.is_closing():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _HEAD_BYTES_MAX:
                    transport.abort()
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._take_request(transport, head)

    def _take_request(self, transport: asyncio.Transport, head: bytes) -> None:
        self._stop_waiting()
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        web = self._server.web
        host, path = _split_target(rest.rpartition(" ")[0], headers.get("host", ""))
        known = web.host_named(host, self._address)
        arrival = _Arrival(self._server.now_ms(), known or host, path, headers, method == "HEAD")
        if known is None:
            reply = Reply(status=400, body=b"No such host\n")
        elif method not in ("GET", "HEAD"):
            reply = Reply(status=405, headers=(("Connection", "close"),), body=b"GET or HEAD\n")
        else:
            reply = web.answer(known, path, arrival.at_ms, headers)
        if reply.fault is None and not reply.wait_seconds:
            n_bytes = 0
            for step in reply_steps(reply, is_head=arrival.is_head):
                assert isinstance(step, bytes)
                transport.write(step)
                n_bytes += len(step)
            self._finish(transport, arrival, reply, n_bytes)
        else:
            send = self._send(transport, arrival, reply)
            self._task = asyncio.get_running_loop().create_task(send)

    async def _send(self, transport: asyncio.Transport, arrival: _Arrival, reply: Reply) -> None:
        n_bytes = 0
        is_whole = False
        try:
            for step in reply_steps(reply, is_head=arrival.is_head):
                if isinstance(step, float):
                    await self._wait(step)
                elif isinstance(step, bytes):
                    transport.write(step)
                    n_bytes += len(step)
                    await self._can_write.wait()
                else:
                    _end_connection(transport, step)
                if self._closed.is_set():
                    break
            else:
                is_whole = True
        finally:
            self._task = None
            if not is_whole:
                reply = replace(reply, version=-1)
            self._finish(transport, arrival, reply, n_bytes)
        self._read_requests()

    async def _wait(self, seconds: float) -> None:
        """Wait, but not longer than the client does."""
        if seconds < 1:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    def _finish(
        self, transport: asyncio.Transport, arrival: _Arrival, reply: Reply, n_bytes: int
    ) -> None:
        headers = arrival.headers
        self._server.log.append(
            LoggedRequest(
                at_ms=arrival.at_ms,
                ended_at_ms=self._server.now_ms(),
                host=arrival.host,
                path=arrival.path,
                kind=request_kind(arrival.path),
                status=reply.status,
                page=reply.page,
                version=reply.version,
                fault=str(reply.fault or reply.content_fault),
                is_conditional="if-none-match" in headers or "if-modified-since" in headers,
                retry_after_seconds=reply.retry_after_seconds,
                n_bytes=n_bytes,
                user_agent=headers.get("user-agent", ""),
            )
        )
        if arrival.wants_close or reply.status == 405:
            transport.close()
        elif not transport.is_closing():
            self._wait_for_request()


def _split_target(target: str, host: str) -> tuple[str, str]:
    """Return host and path of a request, which a proxy writes as one URL."""
    if target.startswith(("http://", "https://")):
        host, slash, path = target.partition("://")[2].partition("/")
        return host, slash + path or "/"
    return host, target


def _end_connection(transport: asyncio.Transport, end: End) -> None:
    if end is End.RESET:
        # Without lingering the kernel sends a reset instead of an orderly end.
        linger = struct.pack("ii", 1, 0)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    elif end is End.CLOSE:
        transport.close()
