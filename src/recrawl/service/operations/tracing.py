"""Spans of OpenTelemetry: one for each request, as a part of the trace that its client began.

The standard variables of OpenTelemetry say where spans go, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``
and ``OTEL_SERVICE_NAME``.  A span has the route of the request, not its path or query, because
these may name pages.

References
----------
OpenTelemetry, semantic conventions of HTTP spans 1.23; W3C Trace Context
"""

from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["TracingLayer", "start_tracing"]

_SERVER_ERROR = 500
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


def start_tracing() -> Any:
    """Return a provider of tracers that sends spans by OTLP; ``shutdown`` sends the last ones."""
    # Only here, because most servers have no OpenTelemetry.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    found = Resource.create()
    if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": "recrawl"}))
    provider = TracerProvider(resource=found)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class TracingLayer:
    """Records a span for each request.

    Parameters
    ----------
    app
        Application behind this layer.
    provider
        Provider of tracers.
    find_route
        Function that returns a path with the names of its parameters; None for unknown paths.
    """

    def __init__(
        self, app: ASGIApp, provider: Any, find_route: Callable[[str], str | None]
    ) -> None:
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._app = app
        self._tracer = provider.get_tracer("recrawl")
        self._find_route = find_route
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.SERVER
        self._error = StatusCode.ERROR

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and record its span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        given = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(given),
            kind=self._kind,
            attributes={"http.request.method": method, "url.scheme": scope.get("scheme", "http")},
            record_exception=False,
        ) as span:

            async def send_on(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _SERVER_ERROR:
                        span.set_status(self._error)
                await send(message)

            try:
                await self._app(scope, receive, send_on)
            finally:
                route = self._find_route(scope["path"])
                if route is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                request_id = scope.get("state", {}).get("request_id")
                if request_id is not None:
                    span.set_attribute("recrawl.request_id", request_id)
