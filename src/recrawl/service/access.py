"""Decide whether a request may do what it asks for."""

import asyncio
import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ScopeOfRequest

from recrawl.service.forwarded import WorkerGate, admit_forwarded, find_forwarded
from recrawl.service.keys import ApiKey, KeyRing, Scope, is_well_formed
from recrawl.service.problems import Problem
from recrawl.service.protection.proxies import is_forwarded
from recrawl.service.protection.rates import RequestRates

__all__ = ["Access", "AccessGate", "is_loopback_name"]

_RELOAD_SECONDS = 1.0
_SAVE_SECONDS = 10.0
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="recrawl"'}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback_name(host: str) -> bool:
    """Return whether a host name or address stands for this machine alone."""
    return host.strip("[]").lower() in _LOOPBACK_NAMES


class Access:
    """The keys of all corpora of a server.

    Parameters
    ----------
    rings
        Keys of each corpus by its name; None for one that can have none.
    is_local
        Whether the server listens on a loopback address only.  A corpus that never had keys is
        then open to all programs of this machine; elsewhere every corpus needs keys.
    """

    def __init__(self, rings: Mapping[str, KeyRing | None], *, is_local: bool) -> None:
        self._rings = rings
        self._is_local = is_local
        self._reloaded_at = time.monotonic()

    def _find_ring(self, name: str) -> KeyRing | None:
        now = time.monotonic()
        if now - self._reloaded_at >= _RELOAD_SECONDS:
            self._reloaded_at = now
            for ring in self._rings.values():
                if ring is not None:
                    ring.reload()
        return self._rings.get(name)

    def admit(self, request: Request, name: str) -> ApiKey | None:
        """Raise unless a request may use a corpus for anything; return its key, None without one.

        Parameters
        ----------
        request
            Request of the client.
        name
            Name of the corpus.
        """
        ring = self._find_ring(name)
        given = _key_in(request)
        if self._is_local and _is_open(ring) and given is None:
            _check_own_machine(request)
            return None
        found = self._find(ring, given)
        if ring is not None:
            ring.uses.note(found.id, time.time_ns() // 1_000_000, _client_of(request))
        return found

    def admit_page(self, request: Request, name: str, key_id: str | None) -> ApiKey | None:
        """Raise unless a person may look at a corpus; return the key of the person, if any.

        Parameters
        ----------
        request
            Request of the person's browser.
        name
            Name of the corpus.
        key_id
            Id of the key with which the person logged in; None without one.
        """
        ring = self._find_ring(name)
        if self._is_local and _is_open(ring) and name in self._rings:
            _check_own_machine(request, is_page=True)
            return None
        now_ms = time.time_ns() // 1_000_000
        key = None if ring is None or key_id is None else ring.find_id(key_id, now_ms)
        if key is None or ring is None:
            raise Problem("key-needed", "log in with an API key of this corpus")
        ring.uses.note(key.id, now_ms, _client_of(request))
        return key

    def find_keys(self, given: str) -> dict[str, ApiKey]:
        """Return the valid keys that a text is, by the names of their corpora.

        Parameters
        ----------
        given
            Text that a person gives as a key.
        """
        now_ms = time.time_ns() // 1_000_000
        found = {}
        for name, ring in self._rings.items():
            if ring is not None:
                ring.reload()  # a new key is valid at once
                key = ring.find(given, now_ms)
                if key is not None:
                    found[name] = key
        return found

    def check(self, request: Request, name: str, scope: Scope) -> str:
        """Raise unless a request has a scope; return the id of its key, empty without one.

        Parameters
        ----------
        request
            Request of the client.
        name
            Name of the corpus.
        scope
            Scope that the request needs.
        """
        if find_forwarded(request) is not None:
            return ""  # the worker that got it has checked the key of its client
        found = self.admit(request, name)
        if found is None:
            return ""
        if not found.allows(scope):
            allowed = ", ".join(found.scopes)
            raise Problem("not-allowed", f"this needs the scope {scope}; the key has {allowed}")
        return found.id

    def recognise(self, request: Request) -> ApiKey | None:
        """Return the key of a request, also of another corpus or one that has expired."""
        given = _key_in(request)
        rings = [ring for ring in self._rings.values() if ring is not None]
        if given is None or not is_well_formed(given):
            return None
        found = _recognise(rings, given)
        if found is None:  # a new key is valid at once
            for ring in rings:
                ring.reload()
            found = _recognise(rings, given)
        return found

    def _find(self, ring: KeyRing | None, given: str | None) -> ApiKey:
        if given is None:
            raise Problem(
                "key-needed", "send an API key: Authorization: Bearer rk_…", headers=_CHALLENGE
            )
        if not is_well_formed(given):
            raise Problem(
                "key-needed",
                "the API key is not complete, or has a typing error",
                headers=_CHALLENGE,
            )
        now_ms = time.time_ns() // 1_000_000
        found = None if ring is None else ring.find(given, now_ms)
        if found is None:
            # Whoever has a key may know what it is for, but not which other corpora there are.
            own = [name for name, one in self._rings.items() if one and one.find(given, now_ms)]
            detail = "the API key is not valid for this corpus"
            if own:
                detail = f"the API key is for the corpus {', '.join(own)}; check the address"
            raise Problem("key-needed", detail, headers=_CHALLENGE)
        return found

    async def save_uses(self, *, is_last: bool = False) -> None:
        """Write when keys were last used, if that is due or the server stops."""
        for ring in self._rings.values():
            if ring is not None:
                await ring.save_uses(is_last=is_last)

    async def save_uses_regularly(self) -> None:
        """Write when keys were last used, until this is cancelled."""
        while True:
            await asyncio.sleep(_SAVE_SECONDS)
            await self.save_uses()

    def usable(self, request: Request, scope: Scope | None = None) -> list[str]:
        """Return the corpora that a request may use; raise if there are none.

        Parameters
        ----------
        request
            Request of the client.
        scope
            Scope that it needs; None for any.
        """
        usable, problem = [], None
        for name in sorted(self._rings):
            try:
                if scope is None:
                    self.admit(request, name)
                else:
                    self.check(request, name, scope)
                usable.append(name)
            except Problem as error:
                problem = error
        if problem is not None and not usable:
            raise problem
        return usable


class AccessGate:
    """Refuses requests without a valid key before anything else looks at them.

    Parameters
    ----------
    app
        Application behind the gate.
    access
        Keys of all corpora.
    rates
        Limits of how fast clients may send requests.
    open_paths
        Paths of a corpus that need no key of it, such as ``indexnow`` or ``receivers/*``.
    workers
        Gate for requests that other workers of a cluster forward; None if there are none.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        rates: RequestRates,
        open_paths: Collection[str] = (),
        workers: WorkerGate | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._rates = rates
        self._open_paths = open_paths
        self._workers = workers

    async def __call__(self, scope: ScopeOfRequest, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith("/v1/") or path == "/metrics"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        state = scope.setdefault("state", {})
        known = None
        try:
            if not admit_forwarded(request, self._workers):
                known = self._access.recognise(request)
                if known is not None:
                    state.update(key_id=known.id, key_name=known.name)
                self._admit(request, known)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            # Counted before the answer, so that the client's next request is checked after it.
            if known is not None and message["type"] == "http.response.start":
                self._rates.count_rows(known.id, state.get("n_rows", 0), known.rows_per_second)
            await send(message)

        await self._app(scope, receive, send_on)

    def _admit(self, request: Request, known: ApiKey | None) -> None:
        """Raise unless a request may use the corpus in its path, or any."""
        _, kind, *rest = request.scope["path"].removeprefix("/v1").split("/")
        if kind == "corpora" and _without_name(rest[1:]) in self._open_paths:
            self._rates.take_keyless(_client_of(request))
            return
        if kind == "corpora" and rest and rest[0]:
            self._access.admit(request, rest[0])
        else:
            self._access.usable(request)
        if known is not None:
            self._rates.take_request(known.id, known.requests_per_second, known.rows_per_second)


def _check_own_machine(request: Request, *, is_page: bool = False) -> None:
    """Raise unless a request comes from a program or a page of this machine.

    Web pages must not reach an open server, neither through a name of theirs nor by a request that
    their browser sends to this machine; nor other machines through a proxy.  A website may have a
    link to a page that people look at: it learns nothing when somebody follows it.
    """
    header = request.headers.get("host")
    host = (request.url.hostname or "") if header is None else _host_of(header)
    if not is_loopback_name(host):
        raise Problem("wrong-host", f"without keys the host must be localhost, got {host}")
    if is_forwarded(request.scope):
        raise Problem("wrong-host", "behind a proxy every corpus needs API keys")
    if _is_of_other_site(request) and not (is_page and _is_followed_link(request)):
        raise Problem("wrong-host", "without keys, pages of websites may send no requests")


def _without_name(parts: list[str]) -> str:
    """Return the parts of a path, with ``*`` instead of the name in its second part."""
    return "/".join(["*" if i == 1 and part else part for i, part in enumerate(parts)])


@lru_cache(64)
def _host_of(header: str) -> str:
    """Return the name or address in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_of_other_site(request: Request) -> bool:
    """Return whether a browser sends a request for a page of a website, not of this machine."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "cross-site"
    return not is_loopback_name(_host_of(origin.partition("://")[2]))


def _is_followed_link(request: Request) -> bool:
    """Return whether a browser shows the answer in a window of its own, and may not change data."""
    headers = request.headers
    is_shown = headers.get("sec-fetch-dest") == "document"
    return request.method == "GET" and is_shown and headers.get("sec-fetch-mode") == "navigate"


def _key_in(request: Request) -> str | None:
    given = request.headers.get("authorization")
    if given is None:
        return None
    kind, _, key = given.partition(" ")
    return key.strip()[:200] if kind.lower() == "bearer" and key.strip() else None


def _is_open(ring: KeyRing | None) -> bool:
    return ring is None or ring.is_open


def _recognise(rings: list[KeyRing], given: str) -> ApiKey | None:
    found = (ring.recognise(given) for ring in rings)
    return next((one for one in found if one is not None), None)


def _client_of(request: Request) -> str:
    return "" if request.client is None else request.client.host
