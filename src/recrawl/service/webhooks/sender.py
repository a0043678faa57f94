"""Send signed requests to receivers: to public addresses, without redirects, in a limited time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver

from recrawl.fetch.addresses import Network
from recrawl.fetch.guarded_sockets import (
    AddressGuard,
    GuardedResolver,
    RefusedAddress,
    SystemResolver,
)
from recrawl.fetch.target_urls import REFUSED_PORTS, parse_target
from recrawl.safe_text import escape_controls
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.signals.headers import parse_retry_after

__all__ = ["WebhookAnswer", "WebhookSender"]

_SHOWN_MAX = 200
_ANSWER_SECONDS = 1.0
_HEADER_BYTES_MAX = 8 << 10
_HEADERS_MAX = 128
_KEEP_ALIVE_SECONDS = 15.0


class WebhookAnswer(NamedTuple):
    """What came of a request."""

    status: int
    """HTTP status; 0 without an answer."""
    problem: str = ""
    """What went wrong; empty if the receiver has accepted the request."""
    retry_after_seconds: float | None = None
    moved_to: str = ""
    """Where the same request should be sent instead (307, 308); webhooks do not follow it."""

    @property
    def is_accepted(self) -> bool:
        """Whether the receiver has accepted the request."""
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants no more requests."""
        return self.status == 410


class WebhookSender:
    """Sends requests of webhooks; open it with ``async with``.

    Parameters
    ----------
    limits
        Limits of webhooks.
    allowed
        Networks that may be connected to although they are not public.
    now_seconds
        Function that returns the present time in seconds since 1970.
    resolver
        Look-up of names; the system's unless given.
    """

    def __init__(
        self,
        limits: WebhookLimits,
        *,
        allowed: Sequence[Network] = (),
        now_seconds: Callable[[], float] = time.time,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._limits = limits
        self._guard = AddressGuard(allowed)
        self._now_seconds = now_seconds
        self._resolver = GuardedResolver(resolver or SystemResolver(), self._guard)
        self._session: aiohttp.ClientSession | None = None
        self._agent = f"recrawl/{version('recrawl')}"

    async def __aenter__(self) -> "WebhookSender":
        connector = aiohttp.TCPConnector(
            limit=0,  # each webhook limits its own requests
            resolver=self._resolver,
            socket_factory=self._guard.open_socket,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(
                total=self._limits.request_seconds_max,
                sock_connect=self._limits.connect_seconds_max,
            ),
            max_line_size=_HEADER_BYTES_MAX,
            max_field_size=_HEADER_BYTES_MAX,
            max_headers=_HEADERS_MAX,
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._resolver.close()

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> WebhookAnswer:
        """Send one request; whatever the receiver does becomes an answer.

        Parameters
        ----------
        url
            Address of the receiver.
        body
            Body of the request.
        headers
            Headers of the request.
        """
        target = parse_target(url)
        if target is None or target.port in REFUSED_PORTS:
            return WebhookAnswer(0, f"{url[:_SHOWN_MAX]} cannot be sent to")
        if self._session is None:
            raise RuntimeError("the sender is not open; open it with `async with`")
        try:
            async with asyncio.timeout(self._limits.request_seconds_max):
                answer = await self._session.post(
                    target.as_yarl(),
                    data=body,
                    headers={
                        "User-Agent": self._agent,
                        "Accept": "*/*",
                        "Accept-Encoding": "identity",
                        **headers,
                    },
                    allow_redirects=False,
                )
        except TimeoutError:
            return WebhookAnswer(0, f"no answer within {self._limits.request_seconds_max:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = getattr(error, "os_error", None) or error
            if isinstance(cause, RefusedAddress):
                return WebhookAnswer(
                    0, f"{cause}.  Start the server with --allow-network to allow it"
                )
            return WebhookAnswer(0, _safe_text(f"{type(error).__name__}: {error}"))
        try:
            return await self._read_answer(answer)
        finally:
            answer.close()

    async def _read_answer(self, answer: aiohttp.ClientResponse) -> WebhookAnswer:
        """Return what an answer says; its status counts, whatever its body is or does."""
        text = b""
        with suppress(TimeoutError, aiohttp.ClientError, OSError, ValueError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                text = await _read_some(answer, self._limits.answer_bytes_max)
        if 200 <= answer.status < 300:
            return WebhookAnswer(answer.status)
        problem = f"the receiver answered {answer.status}"
        if 300 <= answer.status < 400:
            problem += ", a redirect, which is not followed"
        elif text:
            problem += ": " + text[: 4 * _SHOWN_MAX].decode("utf-8", "replace").strip()
        retry_after = parse_retry_after(
            answer.headers.get("Retry-After"), now_ms=round(self._now_seconds() * 1000)
        )
        moved_to = answer.headers.get("Location", "") if answer.status in (307, 308) else ""
        return WebhookAnswer(answer.status, _safe_text(problem), retry_after, moved_to)


async def _read_some(answer: aiohttp.ClientResponse, n_bytes_max: int) -> bytes:
    """Read an answer up to a limit; one that ends before it leaves its connection usable."""
    parts, n_bytes = [], 0
    async for part in answer.content.iter_chunked(n_bytes_max):
        parts.append(part)
        n_bytes += len(part)
        if n_bytes >= n_bytes_max:
            break
    else:
        answer.release()
    return b"".join(parts)


def _safe_text(text: str) -> str:
    return escape_controls(text[:_SHOWN_MAX])
