"""A small HTTP client that shows what the server sent, also where it is wrong."""

import asyncio
import contextlib
from typing import NamedTuple

from recrawl.testing.web import LocalWeb, WebServer

N_BYTES_MAX = 1 << 22


class RawAnswer(NamedTuple):
    """What arrived until the connection ended, or until the client gave up."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_reset: bool
    is_timed_out: bool


async def get(
    server: WebServer,
    host: str,
    path: str,
    headers: dict[str, str] | None = None,
    seconds: float = 60.0,
    n_bytes_max: int = N_BYTES_MAX,
) -> RawAnswer:
    """Send one request, and read until the connection ends, the time or the bytes are over."""
    where = server.address_of(host)
    assert where is not None
    reader, writer = await asyncio.open_connection(*where)
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", "User-Agent: test"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    data = b""
    is_reset, is_timed_out = False, False
    try:
        async with asyncio.timeout(seconds):
            while len(data) < n_bytes_max and (piece := await reader.read(1 << 16)):
                data += piece
    except TimeoutError:
        is_timed_out = True
    except ConnectionResetError:
        is_reset = True
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    word = lines[0].split(" ")[1] if lines[0].startswith("HTTP/") else "0"
    found = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        found[name.lower()] = value.strip()
    return RawAnswer(int(word), found, body, is_reset, is_timed_out)


async def get_page(server: WebServer, web: LocalWeb, host: str, page: int) -> RawAnswer:
    """Fetch a page of a host."""
    return await get(server, host, web.hosts[host].path(page))
