"""Limit what a connection may send before its request is known: uvicorn does not."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["limited_protocol"]


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

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            was_in_head = self._is_in_head
            super().data_received(data)
            # The chunk in which a head begins may have the end of a body before it.
            if was_in_head and self._is_in_head:
                self._n_head_bytes += len(data)
                if self._n_head_bytes > limits.header_bytes_max:
                    self._refuse()

        def on_message_begin(self) -> None:
            self._is_in_head, self._n_head_bytes = True, 0
            if self._timer is None:
                self._start_timer()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._is_in_head = False
            self._stop_timer()
            super().on_headers_complete()

        def _start_timer(self) -> None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.header_seconds_max, self._give_up)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.close()

        def _refuse(self) -> None:
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
