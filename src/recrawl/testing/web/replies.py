"""Answers of the local web as the steps in which they are sent, and all that can be wrong."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from recrawl.testing.web.traits import ReplyFault

__all__ = ["RETRY_AFTER_SECONDS", "End", "Reply", "Step", "head", "reply_steps", "spoil"]

RETRY_AFTER_SECONDS = 120
"""Seconds of ``Retry-After`` in faults that have it."""
SLOW_START_SECONDS = 12.0
SLOW_BODY_SECONDS = 15.0
STALL_SECONDS = 3_600.0
BOMB_BYTES = 64 * 1024 * 1024
OVERSIZED_BYTES = 64 * 1024 * 1024
ENDLESS_BYTES_MAX = 1024 * 1024 * 1024

_PIECE = b"0123456789abcdef" * 4096  # 64 KiB
_REASONS = {
    200: "OK",
    301: "Moved Permanently",
    302: "Found",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    410: "Gone",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class End(StrEnum):
    """How a connection ends after an answer."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"


Step = bytes | float | End
"""Bytes to send, seconds to wait, or the end of the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the local web.

    Parameters
    ----------
    status
        Status code.
    headers
        Names and values of headers, without Content-Length and Connection.
    body
        Body as it is sent, after content encoding.
    fault
        Fault of its delivery.
    wait_seconds
        Time until it begins.
    page, version
        Number of the page, and the version that the body shows; -1 if it shows none.
    content_fault
        Fault of the page that the body shows; empty if it has none.
    retry_after_seconds
        Time for which the host wants no further request.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    fault: ReplyFault | None = None
    wait_seconds: float = 0.0
    page: int = -1
    version: int = -1
    content_fault: str = ""
    retry_after_seconds: float | None = None


def head(status: int, headers: tuple[tuple[str, str], ...], length: int | str | None) -> bytes:
    """Return the status line and the headers of an answer, with the empty line at the end."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def reply_steps(reply: Reply, *, is_head: bool = False) -> Iterator[Step]:
    """Yield the steps in which an answer is sent.

    Parameters
    ----------
    reply
        Answer to send.
    is_head
        Whether the request was HEAD, which gets no body.
    """
    if reply.wait_seconds:
        yield reply.wait_seconds
    deliver = _DELIVERIES.get(reply.fault) if reply.fault is not None else None
    if deliver is not None and not is_head:
        yield from deliver(reply)
        return
    if reply.status == 304:
        yield head(304, reply.headers, None)
        return
    start = head(reply.status, reply.headers, len(reply.body))
    yield start if is_head else start + reply.body


def _with_close(reply: Reply) -> tuple[tuple[str, str], ...]:
    return (*reply.headers, ("Connection", "close"))


def _slow_start(reply: Reply) -> Iterator[Step]:
    yield SLOW_START_SECONDS
    yield head(reply.status, reply.headers, len(reply.body)) + reply.body


def _slow_body(reply: Reply) -> Iterator[Step]:
    n_parts = 5
    yield head(reply.status, reply.headers, len(reply.body))
    size = max(len(reply.body) // n_parts, 1)
    for start in range(0, len(reply.body), size):
        yield SLOW_BODY_SECONDS / n_parts
        yield reply.body[start : start + size]


def _stall(reply: Reply) -> Iterator[Step]:  # noqa: ARG001 (all deliveries take the reply)
    yield STALL_SECONDS
    yield End.CLOSE


def _stall_body(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, reply.headers, len(reply.body) + 1) + reply.body[:1000]
    yield STALL_SECONDS
    yield End.CLOSE


def _drop(reply: Reply) -> Iterator[Step]:  # noqa: ARG001
    yield End.CLOSE


def _drop_body(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, reply.headers, len(reply.body)) + reply.body[: len(reply.body) // 2]
    yield End.CLOSE


def _reset(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, reply.headers, len(reply.body)) + reply.body[: len(reply.body) // 2]
    yield 0.1
    yield End.RESET


def _send_too_much(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, reply.headers, OVERSIZED_BYTES)
    for _ in range(OVERSIZED_BYTES // len(_PIECE)):
        yield _PIECE


def _endless(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, (*reply.headers, ("Transfer-Encoding", "chunked")), None)
    chunk = f"{len(_PIECE):x}\r\n".encode() + _PIECE + b"\r\n"
    for _ in range(ENDLESS_BYTES_MAX // len(_PIECE)):
        yield chunk
    yield End.CLOSE


def _length_too_long(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, _with_close(reply), len(reply.body) + 1_000) + reply.body
    yield End.CLOSE


def _length_too_short(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, _with_close(reply), len(reply.body) // 2) + reply.body
    yield End.CLOSE


def _length_bad(reply: Reply) -> Iterator[Step]:
    yield head(reply.status, _with_close(reply), "-17") + reply.body
    yield End.CLOSE


def _chunks_bad(reply: Reply) -> Iterator[Step]:
    headers = (*_with_close(reply), ("Transfer-Encoding", "chunked"))
    yield head(reply.status, headers, None) + b"5\r\nhello\r\nzz\r\n" + reply.body
    yield End.CLOSE


def _send_as(reply: Reply, body: bytes, encoding: str) -> Iterator[Step]:
    headers = tuple(row for row in reply.headers if row[0] != "Content-Encoding")
    yield head(reply.status, (*headers, ("Content-Encoding", encoding)), len(body)) + body


@lru_cache(maxsize=2)
def _bomb(n_times: int) -> bytes:
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    body = b"".join(pack.compress(zeros) for _ in range(BOMB_BYTES >> 20)) + pack.flush()
    for _ in range(n_times - 1):
        body = gzip.compress(body, 9, mtime=0)
    return body


def _header_huge(reply: Reply) -> Iterator[Step]:
    headers = (*reply.headers, ("X-Long", "a" * 1_000_000))
    yield head(reply.status, headers, len(reply.body)) + reply.body


def _headers_many(reply: Reply) -> Iterator[Step]:
    many = tuple((f"X-Number-{i}", "a" * 20) for i in range(20_000))
    yield head(reply.status, reply.headers + many, len(reply.body)) + reply.body


def _header_bad(reply: Reply) -> Iterator[Step]:
    start = head(reply.status, _with_close(reply), len(reply.body))[:-2]
    yield start + b"no colon here\r\n: no name\r\nX\x00Nul: \x01\r\n\r\n" + reply.body
    yield End.CLOSE


def _status_bad(reply: Reply) -> Iterator[Step]:
    yield b"HTTP/1.1 9999999 Strange\r\nConnection: close\r\n\r\n" + reply.body
    yield End.CLOSE


def _not_http(reply: Reply) -> Iterator[Step]:  # noqa: ARG001
    yield b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(range(256))
    yield End.CLOSE


_DELIVERIES: Final[dict[ReplyFault, Callable[[Reply], Iterator[Step]]]] = {
    ReplyFault.SLOW_START: _slow_start,
    ReplyFault.SLOW_BODY: _slow_body,
    ReplyFault.STALLED: _stall,
    ReplyFault.STALLED_BODY: _stall_body,
    ReplyFault.DROPPED: _drop,
    ReplyFault.DROPPED_BODY: _drop_body,
    ReplyFault.RESET: _reset,
    ReplyFault.OVERSIZED: _send_too_much,
    ReplyFault.ENDLESS: _endless,
    ReplyFault.LENGTH_TOO_LONG: _length_too_long,
    ReplyFault.LENGTH_TOO_SHORT: _length_too_short,
    ReplyFault.LENGTH_BAD: _length_bad,
    ReplyFault.CHUNKS_BAD: _chunks_bad,
    ReplyFault.BOMB: lambda reply: _send_as(reply, _bomb(1), "gzip"),
    ReplyFault.BOMB_TWICE: lambda reply: _send_as(reply, _bomb(2), "gzip, gzip"),
    ReplyFault.GZIP_BAD: lambda reply: _send_as(reply, reply.body, "gzip"),
    ReplyFault.GZIP_CUT: lambda reply: _send_as(reply, gzip.compress(reply.body)[:-20], "gzip"),
    ReplyFault.ENCODING_UNKNOWN: lambda reply: _send_as(reply, reply.body, "x-strange"),
    ReplyFault.HEADER_HUGE: _header_huge,
    ReplyFault.HEADERS_MANY: _headers_many,
    ReplyFault.HEADER_BAD: _header_bad,
    ReplyFault.STATUS_BAD: _status_bad,
    ReplyFault.NOT_HTTP: _not_http,
}


def spoil(reply: Reply, fault: ReplyFault) -> Reply:
    """Return an answer with a fault of its delivery; what it shows is not the page any more.

    A slow answer still shows the page.
    """
    is_slow = fault in (ReplyFault.SLOW_START, ReplyFault.SLOW_BODY)
    return replace(reply, fault=fault, version=reply.version if is_slow else -1)
