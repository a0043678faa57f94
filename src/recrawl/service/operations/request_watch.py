"""Time every request, and give it an id that its answer and the log of requests have."""

import re
import secrets
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recrawl.service.operations.metrics import ServerMetrics
from recrawl.service.operations.request_log import RequestLogFile

__all__ = ["REQUEST_ID", "RequestWatch"]

REQUEST_ID = "X-Request-Id"
"""Header with the id of a request; the client may choose it."""

_HEADER = REQUEST_ID.lower().encode()
_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
# Status of a request whose client went away before the answer, as nginx counts it.
_GONE_AWAY = 499
_BUG = 500
_NAME_MAX = 64
_PREFIX = "/v1/corpora/{corpus}"


# Ids of requests to which the client gives none: unlike those of other processes, and numbered.
_PROCESS = secrets.token_hex(4)
_numbers = count(1)


class RequestWatch:
    """The outermost layer of the application.

    Parameters
    ----------
    app
        Application that answers.
    metrics
        Metrics that count the requests.
    log
        Log that has a line for each request; None for none.
    find_route
        Function that returns a path with the names of its parameters; None for unknown paths.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServerMetrics,
        log: RequestLogFile | None,
        find_route: Callable[[str], str | None],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._log = log
        self._find_route = find_route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id.decode()
        began = time.perf_counter()
        status, seconds, n_bytes = 0, 0.0, 0

        async def send_on(message: Message) -> None:
            nonlocal status, seconds, n_bytes
            if message["type"] == "http.response.start":
                status, seconds = message["status"], time.perf_counter() - began
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
            else:
                n_bytes += len(message.get("body", b""))
            await send(message)

        self._metrics.begin_request()
        try:
            await self._app(scope, receive, send_on)
        except Exception:
            status = status or _BUG
            raise
        finally:
            route = _route_of(scope) or self._find_route(scope["path"]) or "unknown"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            status = status or _GONE_AWAY
            seconds = seconds or time.perf_counter() - began
            self._metrics.end_request(route, method, status, seconds)
            if self._log is not None:
                self._log.write(
                    id=request_id.decode(),
                    method=method,
                    route=route,
                    corpus=_corpus_of(scope),
                    status=status,
                    seconds=round(seconds, 6),
                    total_seconds=round(time.perf_counter() - began, 6),
                    n_bytes=n_bytes,
                    key=scope["state"].get("key_id") or None,
                    key_name=scope["state"].get("key_name") or None,
                    client=(scope.get("client") or (None,))[0],
                )


def _request_id(scope: Scope) -> bytes:
    """Return the id that the client gives, or a new one."""
    for name, value in scope["headers"]:
        if name == _HEADER and _ID.fullmatch(value):
            return bytes(value)
    return f"{_PROCESS}{next(_numbers) & 0xFFFFFFFF:08x}".encode()


def _corpus_of(scope: Scope) -> str | None:
    """Return the name of the corpus in the path, also of a request that was refused."""
    name: str = scope["path"].removeprefix("/v1/corpora/").partition("/")[0]
    return name[:_NAME_MAX] if scope["path"].startswith("/v1/corpora/") and name else None


def _route_of(scope: Scope) -> str | None:
    """Return the path with the names of its parameters; None if the request was not routed."""
    route: Any = scope.get("route")
    path: str | None = getattr(route, "path", None)
    if path is None:
        return None
    # Newer versions of FastAPI leave the prefix out, with which the application includes a router.
    is_short = scope["path"].startswith("/v1/corpora/") and not path.startswith("/v1/")
    return _PREFIX + path if is_short else path
