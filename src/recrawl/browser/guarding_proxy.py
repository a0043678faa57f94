"""The only way from the browser to the network: a proxy that checks every address.

Chromium sends everything to it, by name; the proxy resolves the name, checks the address where it
opens the socket, and counts bytes.  Each page has a proxy of its own, which ends with the page.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp.abc import AbstractResolver

from recrawl.browser.settings import BrowserSettings
from recrawl.fetch.guarded_sockets import AddressGuard, GuardedResolver, RefusedAddress
from recrawl.fetch.target_urls import REFUSED_PORTS, parse_target

__all__ = ["GuardingProxy"]

_HEAD_BYTES_MAX: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 16
_ADDRESSES_TRIED_MAX: Final = 4
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Headers of one connection (RFC 9110, 7.6.1), which end at a proxy.
_HOP_HEADERS: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"upgrade",
    }
)
_PROXY_ADDRESS: Final = "127.0.0.1"


class _Refusal(Exception):  # noqa: N818 - names a condition
    """Why the proxy does not connect."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Head(NamedTuple):
    """First line and headers of a request or an answer."""

    start: bytes
    headers: list[bytes]

    @property
    def is_interim(self) -> bool:
        """Whether another answer follows this one (status 1xx)."""
        return self.start.partition(b" ")[2].startswith(b"1")

    def to_bytes(self) -> bytes:
        """Return the bytes to send on: one message per connection."""
        kept = [line for line in self.headers if _header_name(line) not in _HOP_HEADERS]
        return b"\r\n".join([self.start, *kept, b"Connection: close", b"", b""])


class GuardingProxy:
    """A proxy on this machine for one page of a browser.

    It takes ``CONNECT`` for https and WebSockets, and plain requests for http.

    Parameters
    ----------
    settings
        Limits of bytes and connections.
    guard
        Guard of every connection, with counts.
    resolver
        Look-up of names; its addresses are checked.
    connect_seconds_max
        Longest time to resolve a name and to connect, in seconds.
    idle_seconds_max
        Longest time without a byte in either direction, in seconds.
    admits_all
        Whether all hosts with allowed addresses may be connected to; otherwise only those given to
        `admit`, so that what the browser sends of its own accord goes nowhere.
    """

    def __init__(
        self,
        settings: BrowserSettings,
        guard: AddressGuard,
        resolver: AbstractResolver,
        *,
        connect_seconds_max: float = 15.0,
        idle_seconds_max: float = 30.0,
        admits_all: bool = False,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._resolver = GuardedResolver(resolver, guard)
        self._connect_seconds_max = connect_seconds_max
        self._idle_seconds_max = idle_seconds_max
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._admits_all = admits_all
        self._admitted: set[tuple[str, int]] = set()
        self._port = 0
        self.n_bytes_received = 0
        """Bytes that came from the network."""
        self.n_bytes_sent = 0
        """Bytes that were sent to the network."""
        self.n_connections = 0
        """Connections that the browser opened to the proxy."""
        self.n_refused = 0
        """Connections that led nowhere."""
        self.limit_reached: str | None = None
        """Name of the limit that ended all traffic; None if there is none."""

    @property
    def url(self) -> str:
        """URL of the proxy, for the browser."""
        return f"http://{_PROXY_ADDRESS}:{self._port}"

    async def open(self) -> None:
        """Listen on a free port of this machine."""
        self._server = await asyncio.start_server(
            self._accept, _PROXY_ADDRESS, 0, limit=_HEAD_BYTES_MAX
        )
        self._port = self._server.sockets[0].getsockname()[1]

    def admit(self, host: str, port: int) -> None:
        """Allow connections to a host, if its address is allowed.

        Parameters
        ----------
        host
            Name or address, in lower case.
        port
            Port of the host.
        """
        self._admitted.add((host, port))

    async def close(self) -> None:
        """End all connections; a second call has no effect."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""
        self.n_connections += 1
        try:
            await self._answer(reader, writer)
        except _Refusal as refusal:
            self.n_refused += 1
            text = str(refusal).encode("ascii", "replace")
            head = (
                f"HTTP/1.1 {refusal.status} Refused\r\nContent-Type: text/plain\r\n"
                f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            )
            with contextlib.suppress(OSError):
                writer.write(head.encode() + text)
                await writer.drain()
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            self.n_refused += 1
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._idle_seconds_max):
            head = await _read_head(reader)
        if self.limit_reached is not None:
            raise _Refusal(403, f"{self.limit_reached} was reached")
        if self.n_connections > self._settings.connections_max:
            self._reach("connections_max")
            raise _Refusal(403, "connections_max was reached")
        method, _, rest = head.start.decode("latin-1").partition(" ")
        text = rest.rpartition(" ")[0]
        if method == "CONNECT":
            # The same parse as for URLs, so that no text means another host here.
            target = parse_target(f"https://{text}/")
            is_plain = False
        else:
            target = parse_target(text)
            is_plain = True
            if target is not None and target.scheme != "http":
                target = None
        if target is None:
            raise _Refusal(400, "not a host and a port")
        if is_plain and method not in _SAFE_METHODS:
            raise _Refusal(405, f"{method[:20]} is not sent")
        far_reader, far_writer = await self._connect(target.host, target.port)
        try:
            if is_plain:
                path = target.text[len(target.origin) :] or "/"
                sent = _Head(f"{method} {path} HTTP/1.1".encode(), head.headers).to_bytes()
                self._count_sent(len(sent))
                far_writer.write(sent)
                await self._relay_one(reader, writer, far_reader)
            else:
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                await self._relay_both(reader, writer, far_reader, far_writer)
        finally:
            far_writer.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a host that may be connected to."""
        if port in REFUSED_PORTS:
            raise _Refusal(403, f"port {port} is one of another protocol")
        if not self._admits_all and (host, port) not in self._admitted:
            raise _Refusal(403, f"{host} was not asked for")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds_max):
                error: OSError = OSError("no address")
                for family, address in await self._addresses(host, port):
                    if port == self._port and address == _PROXY_ADDRESS:
                        raise RefusedAddress("the proxy does not connect to itself")
                    where = (address, port, 0, 0) if family == socket.AF_INET6 else (address, port)
                    near = self._guard.open_socket(
                        (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)
                    )
                    try:
                        near.setblocking(False)
                        await loop.sock_connect(near, where)
                        return await asyncio.open_connection(sock=near, limit=_HEAD_BYTES_MAX)
                    except OSError as failure:
                        near.close()
                        error = failure
                    except BaseException:
                        near.close()
                        raise
                raise error
        except RefusedAddress as refused:
            raise _Refusal(403, str(refused)) from None
        except (OSError, ValueError) as failure:
            raise _Refusal(502, str(failure) or type(failure).__name__) from None

    async def _addresses(self, host: str, port: int) -> list[tuple[int, str]]:
        for family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                socket.inet_pton(family, host)
                return [(family, host)]
        found = await self._resolver.resolve(host, port)
        return [(one["family"], one["host"]) for one in found[:_ADDRESSES_TRIED_MAX]]

    async def _relay_one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
    ) -> None:
        """Send the answer of one plain request on, until either side closes."""
        async with asyncio.timeout(self._idle_seconds_max):
            head = await _read_head(far_reader)
            while head.is_interim:
                head = await _read_head(far_reader)
        # The browser must not send another request on this connection: it may be for another host.
        answer = head.to_bytes()
        self._count_received(len(answer))
        writer.write(answer)
        await self._first_of(
            self._copy(far_reader, writer, self._count_received), _wait_for_end(reader)
        )

    async def _relay_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Send bytes in both directions, until either side closes."""
        await self._first_of(
            self._copy(far_reader, writer, self._count_received),
            self._copy(reader, far_writer, self._count_sent),
        )

    async def _first_of(self, *coroutines: Awaitable[None]) -> None:
        """Wait for the first of several to end, and end the others."""
        tasks = [asyncio.ensure_future(one) for one in coroutines]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        count: Callable[[int], None],
    ) -> None:
        while True:
            try:
                async with asyncio.timeout(self._idle_seconds_max):
                    piece = await reader.read(_PIECE_BYTES)
            except TimeoutError:
                return
            if not piece:
                await writer.drain()
                return
            count(len(piece))
            if self.limit_reached is not None:
                return
            writer.write(piece)
            await writer.drain()

    def _count_received(self, n_bytes: int) -> None:
        self.n_bytes_received += n_bytes
        if self.n_bytes_received > self._settings.received_bytes_max:
            self._reach("received_bytes_max")

    def _count_sent(self, n_bytes: int) -> None:
        self.n_bytes_sent += n_bytes
        if self.n_bytes_sent > self._settings.sent_bytes_max:
            self._reach("sent_bytes_max")

    def _reach(self, limit: str) -> None:
        """Note that a limit was reached, and end all connections but the current one."""
        if self.limit_reached is None:
            self.limit_reached = limit
            current = asyncio.current_task()
            for task in list(self._tasks):
                if task is not current:
                    task.cancel()


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    start, *headers = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    return _Head(start, headers)


def _header_name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


async def _wait_for_end(reader: asyncio.StreamReader) -> None:
    """Wait until the browser closes its side; what it sends meanwhile is dropped."""
    while await reader.read(_PIECE_BYTES):
        pass
