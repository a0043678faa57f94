"""The fetcher of recrawl: polite, guarded, on aiohttp."""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import xxhash
from aiohttp.abc import AbstractResolver
from yarl import URL

from recrawl.fetch.fetch_time import FetchTime, SystemTime
from recrawl.fetch.fetcher import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRedirect,
    FetchRequest,
)
from recrawl.fetch.guarded_sockets import (
    AddressGuard,
    GuardedResolver,
    RefusedAddress,
    SystemResolver,
)
from recrawl.fetch.host_gate import HostGate
from recrawl.fetch.robots import RobotsFile
from recrawl.fetch.robots_cache import RobotsCache
from recrawl.fetch.settings import FetchSettings
from recrawl.fetch.target_urls import REFUSED_PORTS, TargetUrl, join_url, parse_target
from recrawl.fetch.unpacking import ACCEPT_ENCODING, BodyUnpacker
from recrawl.messages.robots import RobotsNote
from recrawl.signals.headers import HEADER_CHARACTERS_MAX, parse_retry_after

__all__ = ["HttpFetcher"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ASKS_FOR_FEWER: Final = frozenset({429, 503})
# No answer came, so the host may be in trouble and is left alone for longer.
_HOST_FAILURES: Final = frozenset(
    {
        FetchProblem.CONNECT,
        FetchProblem.DNS,
        FetchProblem.DROPPED,
        FetchProblem.TIMED_OUT,
        FetchProblem.TLS,
    }
)
# The body of a redirect is read only so that its connection can be used again.
_REDIRECT_BODY_BYTES_MAX: Final = 1 << 16
# A process may have only 1,024 open files by default; aiohttp closes idle connections after this
# time at the earliest, and after twice as long at the latest.
_KEEP_ALIVE_SECONDS: Final = 10.0
_IDLE_HOSTS_MAX: Final = 200
_HASH_VALUES: Final = 2**64
_ACCEPT: Final = {
    FetchKind.PAGE: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    FetchKind.ROBOTS: "text/plain,*/*;q=0.8",
    FetchKind.SITEMAP: "application/xml,text/xml,text/plain;q=0.9,*/*;q=0.8",
    FetchKind.FEED: "application/atom+xml,application/rss+xml,application/xml;q=0.9,*/*;q=0.8",
}
# Single values: of repeated headers the first counts.
_SINGLE: Final = frozenset({"content-type", "etag", "last-modified", "location", "retry-after"})


@dataclass(slots=True)
class _Hop:
    """One request and its answer."""

    sent_at_ms: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    n_bytes: int = 0
    seconds: float = 0.0
    problem: FetchProblem | None = None
    detail: str = ""
    retry_after_seconds: float | None = None


@dataclass(slots=True)
class _Cost:
    """What the requests of one fetch have cost so far."""

    seconds: float = 0.0
    n_bytes: int = 0
    n_requests: int = 0

    def add(self, hop: _Hop) -> None:
        self.seconds += hop.seconds
        self.n_bytes += hop.n_bytes
        self.n_requests += 1


class HttpFetcher:
    """Fetches over HTTP/1.1, as a polite guest that says who it is.

    Create it, and call its methods, in one event loop.

    Parameters
    ----------
    settings
        Limits and politeness.
    time
        Clock, and how to wait; the system's if None.
    gate
        Delays of hosts; a new gate if None.  Give one with records to keep the delays across
        restarts.
    resolver
        Look-up of names; the system's if None.  Its addresses are checked in any case.
    tls
        Certificates to trust; the system's if None.
    on_robots
        Function that is called with what each robots.txt file says, when it was read or could not
        be reached.  It must return at once.

    Examples
    --------
    >>> async def fetch_one(url: str) -> FetchAnswer:
    ...     fetcher = HttpFetcher(FetchSettings(contact="https://example.com/bot"))
    ...     try:
    ...         return await fetcher.fetch(FetchRequest(url=url))
    ...     finally:
    ...         await fetcher.close()
    >>> answer = asyncio.run(fetch_one("http://127.0.0.1/"))
    >>> answer.status, answer.problem.value, answer.detail
    (0, 'refused_address', '127.0.0.1 is reserved for this machine')
    """

    def __init__(
        self,
        settings: FetchSettings,
        *,
        time: FetchTime | None = None,
        gate: HostGate | None = None,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        on_robots: Callable[[RobotsNote], None] | None = None,
    ) -> None:
        self.settings = settings
        self._time = SystemTime() if time is None else time
        self.gate = HostGate(settings, self._time) if gate is None else gate
        """Delays of hosts."""
        self.guard = AddressGuard(settings.networks)
        """Guard of every connection, with counts."""
        self.n_requests: Counter[FetchKind] = Counter()
        """Number of requests sent, by kind."""
        self.n_bytes_received: Counter[FetchKind] = Counter()
        """Bytes received, by kind."""
        # What is not obeyed says nothing about how a host is fetched from.
        on_note = on_robots if settings.obey_robots else None
        self._robots = RobotsCache(settings.name, self._time, self._fetch_robots, on_note)
        self.resolver = resolver
        """Look-up of names that was given; None for the system's."""
        self._resolver: GuardedResolver | None = None
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(settings.connections_max)
        self._used_at: OrderedDict[str, float] = OrderedDict()
        self._is_closed = False
        self._headers = {
            kind: {
                "User-Agent": settings.user_agent,
                "Accept": accept,
                "Accept-Language": "*",
                "Accept-Encoding": ACCEPT_ENCODING,
            }
            for kind, accept in _ACCEPT.items()
        }

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch one URL; whatever the web does becomes an answer.

        Parameters
        ----------
        request
            URL, validators and kind.
        """
        try:
            return await self._fetch(request)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                return self._refuse(request, request.url, FetchProblem.CLOSED, "")
            raise

    async def robots(self, url: str) -> RobotsFile | None:
        """Return the robots.txt file that holds for a URL; None if it cannot be fetched yet.

        Parameters
        ----------
        url
            Absolute URL of any page of the site.
        """
        target = parse_target(url)
        if target is None or self._is_closed:
            return None
        found = await self._robots.refresh(target.origin)
        return found if isinstance(found, RobotsFile) else None

    async def close(self) -> None:
        """Close all connections; a second call has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._robots.close()
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def _fetch(self, request: FetchRequest) -> FetchAnswer:
        target = parse_target(request.url)
        if target is None:
            return self._refuse(request, request.url, FetchProblem.BAD_URL, "not an http(s) URL")
        is_audit = self._is_audit(request)
        validators = {} if is_audit or not request.conditional else _validators(request)
        cost = _Cost()
        redirects: list[FetchRedirect] = []
        seen = {target.text}
        while True:
            refusal = await self._why_not(target, request)
            if refusal is None:
                hop = await self._send(target, request.kind, validators, cost)
            else:
                hop = refusal
            following, problem, detail = None, hop.problem, hop.detail
            if problem is None and hop.status in _REDIRECTS and hop.headers.get("location"):
                following = join_url(target, hop.headers["location"])
                if following is None:
                    problem = FetchProblem.BAD_REDIRECT
                    detail = "the redirect does not lead to an http(s) URL"
                elif following.text in seen:
                    problem, detail = FetchProblem.REDIRECT_LOOP, f"again {following.text}"
                elif len(redirects) >= self.settings.n_redirects_max(request.kind):
                    problem = FetchProblem.TOO_MANY_REDIRECTS
                    detail = f"more than {len(redirects)} redirects"
            if following is None or problem is not None:
                return FetchAnswer(
                    url=request.url,
                    final_url=target.text,
                    status=hop.status,
                    body=hop.body,
                    headers=hop.headers,
                    retry_after_seconds=hop.retry_after_seconds,
                    was_conditional=bool(validators),
                    is_audit=is_audit,
                    fetched_at_ms=hop.sent_at_ms,
                    seconds=cost.seconds,
                    n_bytes_received=cost.n_bytes,
                    n_requests=cost.n_requests,
                    problem=problem,
                    detail=detail,
                    redirects=tuple(redirects),
                )
            redirects.append(FetchRedirect(target.text, hop.status))
            seen.add(following.text)
            target = following
            # Validators belong to the document that was sent with them, which is another one.
            validators = {}

    async def _fetch_robots(self, url: str) -> FetchAnswer:
        return await self._fetch(FetchRequest(url=url, kind=FetchKind.ROBOTS))

    def _refuse(
        self, request: FetchRequest, url: str, problem: FetchProblem, detail: str
    ) -> FetchAnswer:
        return FetchAnswer(
            url=request.url,
            final_url=url,
            fetched_at_ms=self._time.now_ms(),
            problem=problem,
            detail=detail,
        )

    def _is_audit(self, request: FetchRequest) -> bool:
        """Return whether to leave the validators out: by a hash, so that all pages take turns."""
        share = self.settings.audit_share
        if not share or not request.conditional or not (request.etag or request.last_modified):
            return False
        text = f"{self._time.now_ms()} {request.url}"
        return xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace")) < share * _HASH_VALUES

    async def _why_not(self, target: TargetUrl, request: FetchRequest) -> _Hop | None:
        """Return an answer if nothing may be sent to a URL; otherwise None."""
        if self._is_closed:
            return self._unsent(FetchProblem.CLOSED, "the fetcher is closed")
        if target.port in REFUSED_PORTS:
            return self._unsent(
                FetchProblem.REFUSED_ADDRESS, f"port {target.port} is one of another protocol"
            )
        if request.kind == FetchKind.ROBOTS or not self.settings.obey_robots:
            return None
        file = self._robots.fresh_file(target.origin)
        if file is None:
            found = await self._robots.refresh(target.origin)
            if isinstance(found, FetchAnswer):
                hop = self._unsent(found.problem or FetchProblem.HOST_DELAY, found.detail)
                hop.retry_after_seconds = found.retry_after_seconds
                return hop
            file = found
        delay = file.rules.crawl_delay_seconds if file.rules is not None else None
        self.gate.set_crawl_delay(target.host, delay or 0.0)
        if not file.allows(target.text):
            if file.rules is not None:
                return self._unsent(FetchProblem.ROBOTS, "robots.txt disallows it")
            hop = self._unsent(FetchProblem.ROBOTS, "robots.txt is unreachable")
            hop.retry_after_seconds = max(file.expires_at_ms - self._time.now_ms(), 0) / 1000
            return hop
        return None

    def _unsent(self, problem: FetchProblem, detail: str) -> _Hop:
        return _Hop(self._time.now_ms(), problem=problem, detail=detail)

    async def _send(
        self, target: TargetUrl, kind: FetchKind, validators: dict[str, str], cost: _Cost
    ) -> _Hop:
        """Send one request when its host may be contacted; a connection that was stale, once more.

        A server may close an idle connection at the moment when the next request is sent on it.
        """
        for is_last in (False, True):
            wait_seconds = await self.gate.enter(target.host)
            if wait_seconds:
                hop = self._unsent(FetchProblem.HOST_DELAY, "the host may not be contacted yet")
                hop.retry_after_seconds = wait_seconds
                return hop
            was_connected = target.origin in self._used_at
            hop = _Hop(self._time.now_ms())
            is_stale = False
            try:
                async with self._slots:
                    hop.sent_at_ms = self._time.now_ms()
                    await self._ask(target, kind, validators, hop)
                is_stale = (
                    was_connected and hop.problem == FetchProblem.DROPPED and hop.status == 0
                ) and not is_last
            finally:
                is_failure = hop.status in _ASKS_FOR_FEWER or hop.problem in _HOST_FAILURES
                self.gate.leave(
                    target.host,
                    seconds=hop.seconds,
                    is_failure=is_failure and not is_stale,
                    retry_after_seconds=hop.retry_after_seconds,
                )
            cost.add(hop)
            self.n_requests[kind] += 1
            self.n_bytes_received[kind] += hop.n_bytes
            if hop.problem is not None:
                self._used_at.pop(target.origin, None)
            if not is_stale:
                break
        return hop

    async def _ask(
        self, target: TargetUrl, kind: FetchKind, validators: dict[str, str], hop: _Hop
    ) -> None:
        """Send one request, and write its answer into ``hop``."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            url, headers, server_name = target.as_yarl(), self._headers[kind], None
            if validators:
                headers = headers | validators
            is_kept = self._keeps_connection(target.origin, started)
            if not is_kept:
                headers = headers | {"Connection": "close"}
            session = self._open_session()
            if self.settings.proxy is not None:
                url, headers, server_name = await self._through_proxy(target, headers)
            response = await session.get(
                url,
                headers=headers,
                proxy=self.settings.proxy,
                server_hostname=server_name,
                allow_redirects=False,
            )
            try:
                if not is_kept and response.connection is not None:
                    # Not all servers close the connection when they are asked to.
                    protocol = response.connection.protocol
                    if protocol is not None:
                        protocol.force_close()
                await self._read(response, kind, hop)
            finally:
                if hop.problem is None:
                    response.release()
                else:
                    response.close()
        except Exception as error:  # whatever a site makes the client raise is an answer
            hop.problem, hop.detail = _problem_of(error)
            if self._is_closed:
                hop.problem = FetchProblem.CLOSED
            hop.body = b""
        finally:
            # A clock that is stepped may not have moved.
            hop.seconds = max(loop.time() - started, 1e-6)

    async def _read(self, response: aiohttp.ClientResponse, kind: FetchKind, hop: _Hop) -> None:
        hop.status = response.status
        hop.headers, hop.n_bytes = _read_headers(response.raw_headers)
        if hop.status in _ASKS_FOR_FEWER or hop.status in _REDIRECTS:
            hop.retry_after_seconds = parse_retry_after(
                hop.headers.get("retry-after"), now_ms=self._time.now_ms()
            )
        is_redirect = hop.status in _REDIRECTS and "location" in hop.headers
        reader = BodyUnpacker(
            "" if is_redirect else hop.headers.get("content-encoding", ""),
            bytes_max=_REDIRECT_BODY_BYTES_MAX if is_redirect else self.settings.bytes_max(kind),
            ratio_max=self.settings.expansion_ratio_max,
        )
        before = hop.n_bytes
        try:
            async for piece in response.content.iter_any():
                reader.feed(piece)
                if reader.problem is not None:
                    break
        finally:
            hop.n_bytes = before + reader.n_bytes_packed
        problem = reader.finish()
        if is_redirect:
            return
        if problem == FetchProblem.TOO_LARGE and kind == FetchKind.ROBOTS:
            problem = None
        if problem is None:
            hop.body = reader.body
        else:
            hop.problem, hop.detail = problem, _BODY_DETAILS[problem]

    def _keeps_connection(self, origin: str, now: float) -> bool:
        """Return whether an idle connection to a site may stay open: only for so many sites."""
        used_at = self._used_at
        while used_at and next(iter(used_at.values())) < now - _KEEP_ALIVE_SECONDS:
            used_at.popitem(last=False)
        if origin not in used_at and len(used_at) >= _IDLE_HOSTS_MAX:
            return False
        used_at[origin] = now
        used_at.move_to_end(origin)
        return True

    async def _through_proxy(
        self, target: TargetUrl, headers: dict[str, str]
    ) -> tuple[URL, dict[str, str], str | None]:
        """Return a request by address, so that the proxy cannot resolve the name to another."""
        if target.scheme != "https":
            # A proxy replaces Host by the host of the URL (RFC 9112, 3.2.2), so it must be given
            # the name, and would resolve it again.
            raise RefusedAddress(
                "http URLs cannot be fetched through a proxy, which would look the host up again"
            )
        assert self._resolver is not None
        proxy = URL(self.settings.proxy or "")
        if not self.guard.has_proxy:
            inner = self._resolver.inner
            found = await inner.resolve(proxy.host or "", proxy.port or 80)
            self.guard.allow_proxy([(one["host"], proxy.port or 80) for one in found])
        address = target.host
        if not _is_address(address):
            found = await self._resolver.resolve(target.host, target.port)
            address = found[0]["host"]
        elif (refusal := self.guard.refusal(address, target.port)) is not None:
            raise RefusedAddress(refusal)
        named = target.as_yarl()
        return named.with_host(address), headers | {"Host": named.authority}, target.host

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            inner = self.resolver or SystemResolver()
            self._resolver = GuardedResolver(inner, self.guard)
            connector = aiohttp.TCPConnector(
                limit=0,  # a wait for a free connection would count as time of the host
                resolver=self._resolver,
                socket_factory=self.guard.open_socket,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ssl=True if self._tls is None else self._tls,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(
                    total=self.settings.total_seconds_max,
                    sock_connect=self.settings.connect_seconds_max,
                    sock_read=self.settings.idle_seconds_max,
                ),
                max_line_size=self.settings.header_bytes_max,
                max_field_size=self.settings.header_bytes_max,
                max_headers=self.settings.headers_max,
            )
            # aiohttp would send a request again at once, past the delay of the host.
            self._session._retry_connection = False
        return self._session


_BODY_DETAILS: Final = {
    FetchProblem.BAD_ENCODING: "the body cannot be unpacked",
    FetchProblem.TOO_LARGE: "the body is larger than the limit",
    FetchProblem.BOMB: "the body expands too much",
}


def _validators(request: FetchRequest) -> dict[str, str]:
    """Return the headers of a conditional request: validators exactly as they were received."""
    found = {}
    validators = (("If-None-Match", request.etag), ("If-Modified-Since", request.last_modified))
    for name, value in validators:
        if value and len(value) <= HEADER_CHARACTERS_MAX:
            # aiohttp writes headers in UTF-8, so other bytes cannot be sent as they were received.
            with contextlib.suppress(UnicodeDecodeError):
                text = value.decode()
                if text.isprintable():
                    found[name] = text
    return found


def _read_headers(raw: tuple[tuple[bytes, bytes], ...]) -> tuple[dict[str, str], int]:
    """Return headers by lower-case name, and their size."""
    headers: dict[str, str] = {}
    n_bytes = 0
    for raw_name, raw_value in raw:
        n_bytes += len(raw_name) + len(raw_value) + 4
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in headers:
            headers[name] = value
        elif name not in _SINGLE:
            headers[name] += f", {value}"
    return headers, n_bytes


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return True
    return False


def _problem_of(error: Exception) -> tuple[FetchProblem, str]:
    """Return the problem that an exception of a request stands for, and a sentence about it."""
    detail = str(error)[:200] or type(error).__name__
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, RefusedAddress):
        return FetchProblem.REFUSED_ADDRESS, str(cause)
    if isinstance(error, TimeoutError):
        return FetchProblem.TIMED_OUT, detail
    if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError):
        return FetchProblem.DNS, detail
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError | ssl.CertificateError):
        return FetchProblem.TLS, detail
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
        return FetchProblem.CONNECT, detail
    if isinstance(error, aiohttp.InvalidURL):
        return FetchProblem.BAD_URL, detail
    dropped = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
    if isinstance(error, dropped):
        return FetchProblem.DROPPED, detail
    if isinstance(error, OSError):
        return FetchProblem.CONNECT, detail
    return FetchProblem.BAD_ANSWER, detail
