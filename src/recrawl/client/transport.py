"""Send requests to a service over HTTP, and repeat those that fail.

A request that fails may have had its effect: the server may have died, or the connection may have
been cut, before the answer arrived.  So only requests are sent that may be repeated: those that
have the same effect twice as once, and those with an idempotency key, which stays the same.
"""

import asyncio
import json
import logging
import random
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recrawl.client.problems import failure_of
from recrawl.client.service_url import CORPORA_PATH, ServiceUrl
from recrawl.errors import AccessDenied, CorpusError, ServiceError, ServiceUnavailable
from recrawl.messages.forwarding import FIRST_ATTEMPT

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ARROW", "JSON", "Connecting", "ServiceAnswer", "Transport", "query_text"]

_log = logging.getLogger("recrawl.client")

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"

_CONNECT_SECONDS_MAX = 10.0
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 10.0
# A server that is away for longer is worth a message.
_AWAY_SECONDS = 2.0
_PIECE_BYTES = 1 << 16
_PROBLEM_BYTES_MAX = 1 << 20
# Clocks that differ by less are taken to agree: the header Date has whole seconds.
_CLOCK_SLACK_MS = 2_000


class Connecting(NamedTuple):
    """How to reach a service."""

    key: str | None = None
    timeout_seconds: float = 60.0
    """Longest time for one attempt, beyond the time that the server is asked to wait."""
    retry_seconds: float = 60.0
    """Longest time for which a request is repeated; 0 for never."""
    answer_bytes_max: int = 256 << 20
    """Largest answer that is read."""
    connections_max: int = 100
    """Number of connections at a time."""
    allow_http: bool = False
    """Whether a key may be sent to another machine without encryption."""
    certificates: str | None = None
    """File of certificates to trust instead of those of the system."""


class ServiceAnswer(NamedTuple):
    """An answer without an error."""

    headers: Mapping[str, str]
    data: bytes

    def json(self) -> Any:
        """Return the JSON in the answer."""
        try:
            return json.loads(self.data)
        except (ValueError, RecursionError):
            raise ServiceError(
                "the answer is not that of a recrawl service; the address of a corpus is such as "
                f"https://example.com{CORPORA_PATH}/NAME.  The answer begins with "
                f"{self.data[:40]!r}"
            ) from None


class Transport:
    """Connections to one corpus of a service.

    Parameters
    ----------
    url
        Address of the corpus.
    how
        How to reach the service.
    """

    def __init__(self, url: ServiceUrl, how: Connecting) -> None:
        try:
            import aiohttp  # noqa: PLC0415
        except ImportError:
            raise ImportError(
                'the client of a service needs the package aiohttp: pip install "recrawl[client]"'
            ) from None
        if how.key is not None:
            if not how.key or not how.key.isascii() or not how.key.isprintable():
                raise ValueError("key must be an API key, as `recrawl keys create` prints it")
            if not url.is_secure and not how.allow_http:
                raise ValueError(
                    f"{url.server} is not https, so everyone on the way could read the API key; "
                    "use https, or give allow_http=True (--allow-http) if the network is safe"
                )
        self._aiohttp = aiohttp
        self._url = url
        self._how = how
        self._base = None if url.corpus is None else url.path_of(url.corpus)
        self._session: aiohttp.ClientSession | None = None
        self._random = random.Random()
        self._clock_offset_ms = 0
        self._is_closed = False
        self._away_since: float | None = None
        self._is_announced = False

    @property
    def retry_seconds(self) -> float:
        """Longest time for which a request is repeated."""
        return self._how.retry_seconds

    @property
    def server(self) -> str:
        """The address of the server."""
        return self._url.server

    def now_ms(self) -> int:
        """Return the time of the server, as far as its answers show it."""
        return int(time.time() * 1000) + self._clock_offset_ms

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open_session(self) -> "aiohttp.ClientSession":
        if self._is_closed:
            raise ServiceError("the client is closed")
        if self._session is None:
            aiohttp, how = self._aiohttp, self._how
            headers = {"Accept-Encoding": "identity", "User-Agent": "recrawl"}
            if how.key is not None:
                headers["Authorization"] = f"Bearer {how.key}"
            tls: ssl.SSLContext | bool = True
            if how.certificates is not None:
                tls = ssl.create_default_context(cafile=str(Path(how.certificates)))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=how.connections_max, ssl=tls),
                headers=headers,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        request: str | None = None,
        is_first: bool = False,
        wait_seconds: float = 0.0,
        ends_at: float | None = None,
    ) -> ServiceAnswer:
        """Send a request, again if it fails, and return the answer.

        Parameters
        ----------
        method
            Method of HTTP.
        path
            Path after that of the corpus, such as ``/orders``.
        params
            Query; values that are None are left out.
        body
            Body of the request.
        content_type
            Format of the body.
        accept
            Format of the answer.
        request
            Idempotency key, for a request that must not be sent twice without one.
        is_first
            Whether nobody has sent this key before; the server is told so with the first attempt.
        wait_seconds
            Time for which the server is asked to wait.
        ends_at
            Instant after which it is not repeated, by the clock of the event loop; after
            `retry_seconds` if None.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if request is not None:
            headers["Idempotency-Key"] = request
            if is_first:
                headers[FIRST_ATTEMPT] = "1"
        query = {
            name: query_text(value) for name, value in (params or {}).items() if value is not None
        }
        if ends_at is None:
            ends_at = asyncio.get_running_loop().time() + self._how.retry_seconds
        return await self._repeat(method, path, query, headers, body, wait_seconds, ends_at)

    async def _repeat(
        self,
        method: str,
        path: str,
        query: dict[str, Any],
        headers: dict[str, str],
        body: bytes | None,
        wait_seconds: float,
        ends_at: float,
    ) -> ServiceAnswer:
        loop = asyncio.get_running_loop()
        pause = _PAUSE_SECONDS
        while True:
            retry_after = 0.0
            try:
                base = await self._find_base()
                status, found, data = await self._send(
                    method, base + path, query, headers, body, wait_seconds
                )
                if status < 300:
                    self._note_answer()
                    return ServiceAnswer(found, data)
                failure = failure_of(status, found, data, self.server)
                error, retry_after = failure.error, failure.retry_after_seconds
                if not failure.is_worth_repeating:
                    self._note_answer()
                    raise error
            except ServiceUnavailable as unavailable:
                error = unavailable
            headers.pop(FIRST_ATTEMPT, None)
            self._note_failure(error)
            # Clients that failed together must not all come back at the same time.
            delay = max(retry_after, pause * self._random.uniform(0.5, 1.0))
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)
            if loop.time() + delay > ends_at:
                raise error
            await asyncio.sleep(delay)

    def _note_answer(self) -> None:
        self._away_since = None
        if self._is_announced:
            self._is_announced = False
            _log.warning("%s answers again", self.server)

    def _note_failure(self, error: Exception) -> None:
        """Say once that the server is away."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        if not self._is_announced and now - self._away_since >= _AWAY_SECONDS:
            self._is_announced = True
            _log.warning("%s; trying again until it answers", error)

    async def _send(
        self,
        method: str,
        url: str,
        query: dict[str, Any],
        headers: dict[str, str],
        body: bytes | None,
        wait_seconds: float,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once; return the status, headers and body of the answer."""
        aiohttp, how = self._aiohttp, self._how
        timeout = aiohttp.ClientTimeout(
            total=how.timeout_seconds + wait_seconds,
            connect=min(_CONNECT_SECONDS_MAX, how.timeout_seconds),
        )
        try:
            async with self._open_session().request(
                method,
                url,
                params=query,
                data=body,
                headers=headers,
                timeout=timeout,
                # A key must not be sent elsewhere.
                allow_redirects=False,
            ) as answer:
                is_error = answer.status >= 300
                n_max = min(_PROBLEM_BYTES_MAX, how.answer_bytes_max)
                data = await self._read(answer, n_max if is_error else how.answer_bytes_max)
                self._see_clock(answer.headers.get("Date"))
                return answer.status, answer.headers, data
        except aiohttp.ClientSSLError as error:
            raise ServiceError(f"{self.server} has no valid certificate: {error}") from error
        except TimeoutError:
            raise ServiceUnavailable(
                f"{self.server} has not answered within {how.timeout_seconds + wait_seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise ServiceUnavailable(
                f"{self.server} cannot be reached: {_reason_of(error)}"
            ) from error

    async def _read(self, answer: "aiohttp.ClientResponse", n_bytes_max: int) -> bytes:
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise ServiceError(f"{self.server} sent a compressed answer, which nobody asked for")
        pieces, n_bytes = [], 0
        async for piece in answer.content.iter_chunked(_PIECE_BYTES):
            n_bytes += len(piece)
            if n_bytes > n_bytes_max:
                answer.close()
                raise ServiceError(f"the answer of {self.server} has over {n_bytes_max:,} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def _see_clock(self, date: str | None) -> None:
        try:
            sent_ms = int(parsedate_to_datetime(date or "").timestamp() * 1000) + 500
        except (ValueError, OverflowError):
            return
        offset = sent_ms - int(time.time() * 1000)
        self._clock_offset_ms = offset if abs(offset) > _CLOCK_SLACK_MS else 0

    async def _find_base(self) -> str:
        """Return the address of the corpus; ask the server for its name if it is not known."""
        if self._base is not None:
            return self._base
        status, headers, data = await self._send(
            "GET", self.server + CORPORA_PATH, {}, {"Accept": JSON}, None, 0.0
        )
        if status >= 300:
            failure = failure_of(status, headers, data, self.server)
            if failure.is_worth_repeating:
                raise ServiceUnavailable(str(failure.error))
            raise failure.error
        found = ServiceAnswer(headers, data).json()
        names = found.get("corpora") if isinstance(found, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ServiceError(
                f"{self.server} is not a recrawl service; the address of a corpus is such as "
                f"https://example.com{CORPORA_PATH}/NAME"
            )
        if not names:
            raise AccessDenied(
                f"{self.server} has no corpus that this key may read; name it: "
                f"{self.server}{CORPORA_PATH}/NAME"
            )
        if len(names) > 1:
            raise CorpusError(
                f"{self.server} has several corpora: {', '.join(names[:20])}; name one: "
                f"{self.server}{CORPORA_PATH}/NAME"
            )
        self._base = self._url.path_of(names[0])
        return self._base


def _reason_of(error: Exception) -> str:
    """Return why a server cannot be reached, without the details of the HTTP library."""
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def query_text(value: Any) -> Any:
    """Return a value of a query as text, or a list of texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return [query_text(one) for one in value]
    return str(value)
