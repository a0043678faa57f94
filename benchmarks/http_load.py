"""Send leases and reports of one row from many clients, with little work of our own.

All clients are sockets of one thread, and requests are bytes made by hand: a library for HTTP takes
as long for a request as the server that is measured.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

__all__ = ["Load", "run_pairs"]

_DIGEST: Final = "0123456789abcdef"
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_SECONDS_MAX: Final = 120.0


class Load(NamedTuple):
    """How long the pairs took, one lease and one report each."""

    pairs_per_second: float
    milliseconds_p99: float


class _Client:
    """One connection, which always has one request under way."""

    def __init__(self, port: int, prefix: str, n_pairs: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lease = _head(f"{prefix}/orders?n=1&why=false", 0)
        self._prefix = prefix
        self._n_left = n_pairs
        self._data = b""
        self._is_leasing = False
        self._began = 0.0
        self.seconds: list[float] = []

    def start(self) -> None:
        self._began = time.perf_counter()
        self._is_leasing = True
        self.socket.sendall(self._lease)

    def read(self) -> bool:
        """Read what has arrived, and send the next request; return whether the client is done."""
        self._data += self.socket.recv(1 << 16)
        head, _, body = self._data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return False
        self._data = b""
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"a request was answered with {head + body!r:.300}")
        answer = json.loads(body)
        if self._is_leasing:
            if not answer["orders"]:
                raise RuntimeError("no page was due; use more pages")
            rows = [{"handle": answer["orders"][0]["handle"], "digest": _DIGEST}]
            sent = json.dumps(rows).encode()
            self._is_leasing = False
            self.socket.sendall(_head(f"{self._prefix}/outcomes", len(sent)) + sent)
            return False
        if answer["counts"].get("done") != 1:
            raise RuntimeError(f"an outcome did not count: {answer}")
        self.seconds.append(time.perf_counter() - self._began)
        self._n_left -= 1
        if self._n_left:
            self.start()
        return not self._n_left


def _head(path: str, n_bytes: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {n_bytes}\r\n\r\n"
    ).encode()


@contextmanager
def _connected(port: int, prefix: str, n_clients: int, n_pairs: int) -> Iterator[list[_Client]]:
    clients: list[_Client] = []
    try:
        for _ in range(n_clients):
            clients.append(_Client(port, prefix, n_pairs))  # noqa: PERF401 - closed if one fails
        yield clients
    finally:
        for one in clients:
            one.socket.close()


def run_pairs(port: int, prefix: str, n_clients: int, n_pairs: int) -> Load:
    """Lease and report one row at a time.

    Parameters
    ----------
    port
        Port of the server on this machine.
    prefix
        Path before ``/orders`` and ``/outcomes``.
    n_clients
        Number of clients, each with one request at a time.
    n_pairs
        Number of leases and reports of each.
    """
    with _connected(port, prefix, n_clients, n_pairs) as clients:
        waiting = selectors.DefaultSelector()
        started = time.perf_counter()
        for one in clients:
            waiting.register(one.socket, selectors.EVENT_READ, one)
            one.start()
        n_working = n_clients
        while n_working:
            for key, _ in waiting.select(_SECONDS_MAX):
                if key.data.read():
                    waiting.unregister(key.fileobj)
                    n_working -= 1
        took = time.perf_counter() - started
        waiting.close()
    seconds = sorted(value for one in clients for value in one.seconds)
    return Load(len(seconds) / took, 1e3 * seconds[int(len(seconds) * 0.99)])
