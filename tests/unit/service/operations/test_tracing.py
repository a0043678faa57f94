"""Tests of spans of OpenTelemetry."""

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from recrawl.corpus import Corpus
from recrawl.service.operations.tracing import TracingLayer, start_tracing
from tests.unit.service.running_server import RunningServer

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def test_a_request_is_a_span_with_its_route(corpus: Corpus) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with RunningServer({"news": corpus}, tracing=provider) as server:
        server.post("/orders?n=1", traceparent=f"00-{TRACE}-{PARENT}-01")
        server.get("/page?url=https://secret.example/")
        server.request("GET", "/nowhere/secret", headers={"traceparent": "nonsense"})
    spans: list[Any] = list(memory.get_finished_spans())
    lease, page, lost = spans
    assert lease.name == "POST /v1/corpora/{corpus}/orders"
    assert lease.kind == SpanKind.SERVER
    assert f"{lease.context.trace_id:032x}" == TRACE
    assert lease.parent is not None
    assert f"{lease.parent.span_id:016x}" == PARENT
    assert lease.attributes["http.response.status_code"] == 200
    assert len(lease.attributes["recrawl.request_id"]) == 16
    assert page.name == "GET /v1/corpora/{corpus}/page"
    assert page.attributes["http.response.status_code"] == 404
    assert lost.name == "GET"
    assert lost.parent is None
    assert "secret" not in f"{page.name} {page.attributes} {lost.name} {lost.attributes}"


def test_an_error_of_the_server_marks_the_span() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))

    async def fail(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})
        raise RuntimeError("broken")

    async def ignore(_: Any) -> None:
        pass

    layer = TracingLayer(fail, provider, lambda _: "/healthz")
    scope = {"type": "http", "method": "BREW", "path": "/healthz", "headers": []}
    with pytest.raises(RuntimeError):
        asyncio.run(layer(scope, ignore, ignore))  # type: ignore[arg-type]
    (span,) = memory.get_finished_spans()
    assert span.status.status_code == StatusCode.ERROR
    assert span.name == "_OTHER /healthz"


def test_spans_go_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    provider = start_tracing()
    try:
        provider.get_tracer("test").start_span("one").end()
    finally:
        provider.shutdown()
        server.shutdown()
        server.server_close()
    (body,) = bodies
    sent = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    names = {one.key: one.value.string_value for one in sent.resource.attributes}
    assert names["service.name"] == "recrawl"
    assert sent.scope_spans[0].spans[0].name == "one"
