"""The application: routes, errors, health, and the OpenAPI document.

The application uses corpora only by the methods of `recrawl.Corpus`, so that a page's partition
may be anywhere.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from recrawl import __version__
from recrawl.service.access import Access, AccessGate
from recrawl.service.calls import Service, service_of
from recrawl.service.formats.answers import json_answer
from recrawl.service.formats.body_memory import BodyMemory
from recrawl.service.forwarded import WorkerGate
from recrawl.service.hosting.hosted import HostedCorpora
from recrawl.service.keys import KeyRing
from recrawl.service.limits import ServiceLimits
from recrawl.service.openapi import allowed_methods, openapi_document, route_of_path
from recrawl.service.operations import metrics_route
from recrawl.service.operations.metrics import ServerMetrics
from recrawl.service.operations.request_log import RequestLogFile
from recrawl.service.operations.request_watch import REQUEST_ID, RequestWatch
from recrawl.service.operations.tracing import TracingLayer
from recrawl.service.problems import Problem, unavailable
from recrawl.service.protection.audit_layer import AuditLayer
from recrawl.service.protection.proxies import TrustedProxies, read_networks
from recrawl.service.protection.rates import RequestRates
from recrawl.service.receivers import indexnow_route, signed_route
from recrawl.service.receivers.indexnow import FetchText, IndexNow
from recrawl.service.receivers.signed_notices import SignedNotices
from recrawl.service.receivers.websub import route as websub_route
from recrawl.service.receivers.websub.worker import HubClient, WebSubSettings
from recrawl.service.routes import (
    changes,
    inspect,
    orders,
    pages,
    reports,
    robots,
    settings,
    turns,
)
from recrawl.service.routes import webhooks as webhook_routes
from recrawl.service.routes.direct import DirectCalls, find_call
from recrawl.service.webhooks import DeliverySettings

__all__ = ["create_app"]

_ROUTES = (pages, orders, turns, reports, robots, inspect, settings, changes)
_OF_STATUS = {404: "unknown-path", 405: "wrong-method"}


class _Application(FastAPI):
    """FastAPI's application, with a short way for the calls that fetchers make all the time."""

    direct: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = None if self.direct is None else find_call(scope)
        if call is None or self.direct is None:
            await super().__call__(scope, receive, send)
            return
        scope["direct_call"] = call
        await self.direct(scope, receive, send)


def create_app(  # noqa: PLR0913 (all but one are keywords)
    corpora: Mapping[str, Any],
    *,
    keys: Mapping[str, KeyRing] | None = None,
    is_local: bool = True,
    limits: ServiceLimits | None = None,
    folders: Mapping[str, Path] | None = None,
    webhooks: DeliverySettings | None = None,
    request_log: str | None = None,
    fetch_text: FetchText | None = None,
    trusted_proxies: Sequence[str] = (),
    websub: WebSubSettings | None = None,
    tracing: Any = None,
    local_corpora: Mapping[str, Any] | None = None,
    workers: WorkerGate | None = None,
    dashboard: Callable[[FastAPI], None] | None = None,
) -> FastAPI:
    """Return the application that serves some corpora; it closes them when it ends.

    Parameters
    ----------
    corpora
        Open corpora by the names that paths use.
    keys
        API keys of each corpus by its name.
    is_local
        Whether the server listens on a loopback address only.
    limits
        Limits of the server; the defaults unless given.
    folders
        Folder of each corpus by its name, which has its webhooks and the delays of hosts; a corpus
        without one has none.
    webhooks
        Settings of the delivery to webhooks; the defaults unless given.
    request_log
        File with a line for each request, ``-`` for standard error; None for none.
    fetch_text
        Function that fetches the key files of sites, for notices of IndexNow; None to take none.
    trusted_proxies
        Networks of proxies that are believed where a request comes from.  With one, every corpus
        needs keys: clients of a proxy may be anywhere.
    websub
        How hubs are reached that push the changes of feeds; None to subscribe to none.
    tracing
        Provider of the tracers of OpenTelemetry that record requests; None to record none.
    local_corpora
        Corpora of a cluster with the partitions that are open in this process, by their names;
        ``corpora`` then has objects that also reach those of other workers.
    workers
        Gate for requests that other workers of a cluster forward; None to take none.
    dashboard
        Function that adds pages for people to the application, such as
        `recrawl.dashboard.attach_dashboard`; None for none.
    """
    networks = read_networks(trusted_proxies)
    limits = limits or ServiceLimits()
    hosted = HostedCorpora(corpora, limits, folders, local_corpora)
    no_keys: dict[str, KeyRing | None] = dict.fromkeys(corpora)
    access = Access({**no_keys, **(keys or {})}, is_local=is_local and not networks)
    indexnow = None if fetch_text is None else IndexNow(fetch_text, limits)
    log = None if request_log is None else RequestLogFile(request_log)

    hub_clients = {
        name: HubClient(hosted.find(name), folder, websub, limits)
        for name, folder in (folders or {}).items()
        if websub is not None
    }

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as ending:
            if log is not None:
                ending.callback(log.close)
            if tracing is not None:
                ending.push_async_callback(asyncio.to_thread, tracing.shutdown)
            ending.push_async_callback(hosted.close)
            ending.push_async_callback(access.save_uses, is_last=True)
            openapi_document(app)  # made once, and not while a client waits
            saving = asyncio.create_task(access.save_uses_regularly())
            ending.callback(saving.cancel)
            hosted.start()
            if indexnow is not None:
                ending.push_async_callback(indexnow.close)
            for name, folder in (folders or {}).items():
                await hosted.find(name).start_webhooks(folder, webhooks or DeliverySettings())
            for client in hub_clients.values():
                await client.start()
                ending.push_async_callback(client.close)
            yield

    app = _Application(
        title="recrawl",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        # Such redirects would lead to the host that the request names, whatever that is.
        redirect_slashes=False,
    )
    app.state.service = Service(hosted, access, BodyMemory(limits), limits)
    app.state.metrics = ServerMetrics()
    app.state.is_stopping = False
    app.state.signed_notices = SignedNotices(folders or {}, limits)
    # Sites have no key of ours.
    given = {"receivers/*": True, "indexnow": indexnow, "websub/*": websub}
    open_paths = [path for path, what in given.items() if what is not None]
    rates, find_route = RequestRates(limits), partial(route_of_path, app)
    app.add_middleware(
        AccessGate, access=access, rates=rates, open_paths=open_paths, workers=workers
    )
    app.add_middleware(AuditLayer, folders=folders or {}, find_route=find_route)
    # The last one that is added is the first that sees a request.
    app.add_middleware(
        RequestWatch,
        metrics=app.state.metrics,
        log=log,
        find_route=find_route,
    )
    outer: list[Callable[[ASGIApp], ASGIApp]] = []
    if networks:
        outer.append(partial(TrustedProxies, networks=networks))
    if tracing is not None:
        outer.append(partial(TracingLayer, provider=tracing, find_route=find_route))
    for layer in outer:
        app.add_middleware(layer)
    app.include_router(metrics_route.router)
    app.include_router(_health)
    for part in (*_ROUTES, webhook_routes, signed_route):
        app.include_router(part.router, prefix="/v1/corpora/{corpus}")
    if indexnow is not None:
        app.state.indexnow = indexnow
        app.include_router(indexnow_route.router, prefix="/v1/corpora/{corpus}")
    if websub is not None:
        app.state.hub_clients = hub_clients
        app.include_router(websub_route.router, prefix="/v1/corpora/{corpus}")
    if dashboard is not None:
        dashboard(app)
    _add_error_handlers(app)
    gate = AccessGate(DirectCalls(app, _answer_bug), access=access, rates=rates, workers=workers)
    app.direct = RequestWatch(gate, app.state.metrics, log, find_route)
    for layer in outer:
        app.direct = layer(app.direct)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    return app


def _add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_bug)


_health = APIRouter()


@_health.get("/healthz", summary="Whether the server runs", tags=["health"])
async def healthz() -> Response:
    """Return at once, whatever else the server does."""
    return json_answer({"status": "ok"})


@_health.get("/readyz", summary="Whether the server takes requests", tags=["health"])
async def readyz(request: Request) -> Response:
    """Return an error while the server stops, so that a balancer sends requests elsewhere."""
    if request.app.state.is_stopping:
        raise unavailable("the server is stopping")
    return json_answer({"status": "ready"})


@_health.get("/v1/corpora", summary="List the corpora of the server", tags=["reading"])
async def list_corpora(request: Request) -> Response:
    """Return the names of the corpora that the client may use."""
    service = service_of(request)
    return json_answer({"corpora": service.access.usable(request)})


async def _answer_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _answer_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"where": ".".join(str(part) for part in one["loc"]), "what": one["msg"]}
        for one in error.errors()[:10]
    ]
    detail = "; ".join(f"{one['where']}: {one['what']}" for one in errors)
    return Problem("invalid-value", detail, errors=errors).response()


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = _OF_STATUS.get(error.status_code, "invalid-body")
    headers = dict(error.headers or {})
    if name == "wrong-method":
        headers["Allow"] = ", ".join(allowed_methods(request.app, request.url.path))
    return Problem(name, str(error.detail), headers=headers).response()


async def _answer_bug(request: Request, error: Exception) -> Response:
    # The server logs the error with its traceback.
    del error
    return Problem(
        "internal",
        "the server has an error; its log has the details",
        headers={REQUEST_ID: request.state.request_id},
    ).response()
