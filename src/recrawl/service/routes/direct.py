"""Answer the calls that fetchers make all the time without the framework's routing.

Finding the route of a request and checking its arguments takes FastAPI several times as long as the
call itself.  A lease or a report in its usual form is therefore recognised here, and goes to the
same function that its route has.  Every other request, also one that is wrong, goes to FastAPI.
"""

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from recrawl.service.problems import Problem
from recrawl.service.routes import orders, reports

__all__ = ["DirectCalls", "find_call"]

_PREFIX = "/v1/corpora/"
_PATH = re.compile(rf"{_PREFIX}([A-Za-z0-9][A-Za-z0-9._-]{{0,63}})/([a-z/]+)")
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_NUMBER = re.compile(r"(\d{1,6}(\.\d{1,6})?)")
_RUN = re.compile(r"[A-Za-z0-9._-]{1,200}")
_QUERIES_MAX = 256


class DirectCall(NamedTuple):
    """A request whose function and arguments are known."""

    function: Callable[..., Awaitable[Response]]
    corpus: str
    options: dict[str, Any]
    path: str
    """Path of its route, which the metrics name."""


class _Route(NamedTuple):
    path: str


def find_call(scope: Scope) -> DirectCall | None:
    """Return the call that a request stands for; None if FastAPI has to look at it."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    found = _PATH.fullmatch(scope["path"])
    if found is None:
        return None
    corpus, last = found.groups()
    if last == "orders":
        options = _lease_options(scope["query_string"])
        if options is None:
            return None
        return DirectCall(orders.lease, corpus, options, "/orders")
    function = None if scope["query_string"] else _WITHOUT_OPTIONS.get(last)
    return None if function is None else DirectCall(function, corpus, {}, f"/{last}")


_WITHOUT_OPTIONS: dict[str, Callable[..., Awaitable[Response]]] = {
    "outcomes": reports.report,
    "orders/extend": orders.extend,
    "orders/release": orders.release,
}


@lru_cache(_QUERIES_MAX)
def _lease_options(query: bytes) -> dict[str, Any] | None:
    """Return the arguments of a lease; None unless all are simple, valid and given once."""
    found: dict[str, Any] = {}
    for part in query.decode("latin-1").split("&") if query else ():
        name, _, text = part.partition("=")
        value: Any = None
        if name in ("why", "exact"):
            value = _FLAGS.get(text)
        elif name == "run":
            value = text if _RUN.fullmatch(text) else None
        elif name in ("n", "wait", "seconds") and _NUMBER.fullmatch(text):
            value = float(text) if name != "n" else int(text) if text.isdigit() else None
            if value == 0 and name != "wait":
                value = None
        if value is None or name in found:
            return None
        found[name] = value
    return found


class DirectCalls:
    """An application that answers requests for which `find_call` has found a call.

    Parameters
    ----------
    app
        Application of the routes, which has the service.
    answer_bug
        Function that returns the answer to a request on which an error was raised.
    """

    def __init__(self, app: ASGIApp, answer_bug: Callable[..., Awaitable[Response]]) -> None:
        self._app = app
        self._answer_bug = answer_bug

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call: DirectCall = scope["direct_call"]
        scope["app"] = self._app
        scope["route"] = _Route(call.path)
        scope["path_params"] = {"corpus": call.corpus}
        request = Request(scope, receive)
        try:
            response = await call.function(request, call.corpus, **call.options)
        except Problem as problem:
            response = problem.response()
        except Exception as error:
            await (await self._answer_bug(request, error))(scope, receive, send)
            raise
        await response(scope, receive, send)
