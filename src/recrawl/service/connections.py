"""Limit what a connection may send before its request is known: uvicorn does not."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["GatheredWrites", "limited_protocol"]

# Answers up to this size are written at once.
_GATHERED_BYTES_MAX = 1 << 16


class GatheredWrites:
    """A transport that writes the head and the body of an answer at once.

    uvicorn writes each by itself; each write is a call of the system, and wakes the client.

    Parameters
    ----------
    transport
        Transport of the connection.
    loop
        Event loop of the connection.
    """

    __slots__ = ("_loop", "_n_bytes", "_pieces", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._n_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write bytes soon: at the end of the answer, or when the event loop comes round again."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)
        self._n_bytes += len(data)
        if self._n_bytes > _GATHERED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._pieces:
            pieces, self._pieces, self._n_bytes = self._pieces, [], 0
            if not self._transport.is_closing():
                self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self) -> None:
        """Write what was gathered, and close the connection."""
        self.flush()
        self._transport.close()


def limited_protocol(limits: ServiceLimits) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol with limits of the size and the time of headers.

    Parameters
    ----------
    limits
        Limits of the server.
    """

    class LimitedProtocol(HttpToolsProtocol):
        """One connection, whose headers are counted while they arrive."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._is_in_head = False
            self._n_head_bytes = 0
            self._timer: asyncio.TimerHandle | None = None
            self._gathered: GatheredWrites

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            gathered = GatheredWrites(transport, self.loop)
            super().connection_made(cast(asyncio.Transport, gathered))
            self._gathered = gathered
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            was_in_head = self._is_in_head
            # After a body, what follows its last byte counts: trailers.
            self._n_head_bytes += len(data)
            super().data_received(data)
            if self._is_in_head and self._timer is None:
                self._start_timer()
            # The chunk in which a head begins may have the end of a body before it.
            if was_in_head is self._is_in_head and self._n_head_bytes > limits.header_bytes_max:
                self._refuse()

        def on_message_begin(self) -> None:
            self._is_in_head, self._n_head_bytes = True, 0
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self._n_head_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._n_head_bytes = 0
            super().on_message_complete()

        def on_headers_complete(self) -> None:
            self._is_in_head, self._n_head_bytes = False, 0
            self._stop_timer()
            super().on_headers_complete()
            # Trailers, which may follow a body, are no headers of the request: a proxy has not
            # checked them, and the request may have been answered already.
            self.headers = []

        def on_response_complete(self) -> None:
            self._gathered.flush()
            super().on_response_complete()

        def _start_timer(self) -> None:
            self._timer = self.loop.call_later(limits.header_seconds_max, self._give_up)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.close()

        def _refuse(self) -> None:
            if not self._is_in_head:  # trailers: there is an answer already, or soon
                self.transport.close()
                return
            problem = Problem(
                "headers-too-large",
                f"the first line and the headers have at most {limits.header_bytes_max:,} bytes",
            )
            body = bytes(problem.response().body)
            head = (
                "HTTP/1.1 431 Request Header Fields Too Large\r\n"
                "content-type: application/problem+json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return LimitedProtocol
