"""The OpenAPI document: FastAPI's, with the schemas of rows and problems."""

import re
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from recrawl.service.formats.answers import STATUS_NAMES, OrderAnswer
from recrawl.service.formats.row_kinds import OutcomeRow, PageRow, RequestRow, SignalRow, UrlRow
from recrawl.service.formats.rows import ARROW, JSON, NDJSON
from recrawl.service.limits import ServiceLimits
from recrawl.service.routes.changes import CommitBody
from recrawl.service.routes.orders import ExtendBody, ReleaseBody
from recrawl.service.routes.pages import PageChangeBody
from recrawl.service.routes.robots import RobotsBody
from recrawl.service.routes.settings import BudgetBody, HostBody
from recrawl.service.routes.turns import TurnsBody
from recrawl.service.routes.webhooks import (
    LettersBody,
    RotateBody,
    WebhookBody,
    WebhookChangeBody,
)

__all__ = ["allowed_methods", "openapi_document", "route_of_path"]

_TYPES = [
    *(PageRow, UrlRow, OutcomeRow, SignalRow, RequestRow, OrderAnswer, PageChangeBody),
    *(ExtendBody, ReleaseBody, TurnsBody, RobotsBody, BudgetBody, HostBody, CommitBody),
    *(WebhookBody, WebhookChangeBody, RotateBody, LettersBody),
]
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "Stable name of the problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_PROBLEM_CONTENT = {
    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
}
_STATUSES = {
    "type": "object",
    "description": "What became of each row.",
    "required": ["status", "counts"],
    "properties": {
        "status": {"type": "array", "items": {"type": "string", "enum": STATUS_NAMES}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "reasons": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_ORDERS = {
    "type": "object",
    "required": ["orders", "shortfall"],
    "properties": {
        "orders": {"type": "array", "items": {"$ref": "#/components/schemas/OrderAnswer"}},
        "shortfall": {"description": "Why there are fewer orders than asked for."},
    },
}
# Answers that are not a plain JSON object, by method and end of the path.
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_LINES = {"schema": {"type": "string"}}
_OF_PATH: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/orders"): {
        JSON: {"schema": {"$ref": "#/components/schemas/Orders"}},
        NDJSON: _LINES,
        ARROW: _BINARY,
    },
    ("get", "/pages"): {JSON: {"schema": {"type": "object"}}, NDJSON: _LINES, ARROW: _BINARY},
    ("get", "/hosts/{host}/pages"): {
        JSON: {"schema": {"type": "object"}},
        NDJSON: _LINES,
        ARROW: _BINARY,
    },
    ("get", "/changes"): {JSON: {"schema": {"type": "object"}}, "text/event-stream": _LINES},
}
_STATUS_PATHS = (
    *(("post", "/pages"), ("patch", "/pages"), ("post", "/pages/settings")),
    *(("post", "/pages/fetch-now"),),
    *(("post", "/pages/remove"), ("post", "/orders/extend"), ("post", "/orders/release")),
    *(("post", "/outcomes"), ("post", "/signals"), ("post", "/requests")),
)
_KEYED_PATHS = ("/orders", "/orders/by-url", "/signals", "/requests")
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A text of yours; a repeated request with the same one has no second effect.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_UNDOCUMENTED = ("/metrics", "/v1/openapi.json")
_PREFIX = "/v1/corpora/{corpus}"
_KEY_REFUSED = "rows have a key, and the corpus is not grouped by key"
_REUSED = "the idempotency key belongs to another request"
_CURSOR = "the cursor is not one that this corpus gave"
# When a request of the right form is refused: that depends on the corpus, on earlier requests, or
# on a grammar that a schema cannot express.
_REFUSED_WHEN: dict[tuple[str, str], str] = {
    ("get", "/changes"): f"{_CURSOR}, or both a cursor and a consumer are given",
    ("get", "/page"): "the URL is not valid, or a key is given in a corpus not grouped by key",
    ("get", "/page/history"): "the URL is not valid, or a key is given in a corpus not grouped "
    "by key",
    ("get", "/page/last-change"): "the URL is not valid, or a key is given in a corpus not grouped "
    "by key",
    ("get", "/hosts/{host}/pages"): f"the host is not one, {_CURSOR}, or a column is not known",
    ("post", "/pages/fetch-now"): _KEY_REFUSED,
    ("get", "/pages"): f"{_CURSOR}, or a column is not known",
    ("get", "/plan"): "a target is not understood",
    ("get", "/samples"): "both a host and a kind are given, or a source without its host",
    ("post", "/orders"): f"{_REUSED}, or the name of the run is not possible",
    ("post", "/orders/by-url"): f"{_REUSED}, {_KEY_REFUSED}, or the run is not possible",
    ("post", "/outcomes"): _KEY_REFUSED,
    ("post", "/pages"): _KEY_REFUSED,
    ("patch", "/pages"): _KEY_REFUSED,
    ("post", "/pages/remove"): "neither rows nor a pattern are given, the pattern is "
    f"not valid, or {_KEY_REFUSED}",
    ("post", "/pages/settings"): "not exactly one of urls and pattern is given, the pattern or a "
    "setting is not valid, or a key is given in a corpus not grouped by key",
    ("post", "/requests"): f"{_REUSED}, or {_KEY_REFUSED}",
    ("post", "/signals"): f"{_REUSED}, or {_KEY_REFUSED}",
    ("post", "/turns"): "the name of a host to rest is not valid",
    ("patch", "/hosts/{host}"): "the delay is a text that is not one such as 5s",
    ("put", "/budget"): "the rate is not one such as 30/h",
    ("put", "/consumers/{consumer}"): _CURSOR,
    ("post", "/webhooks"): "there is such a webhook already, or its URL or a pattern is not valid",
    ("post", "/webhooks/{webhook}/rotate"): "as many secrets as possible are still valid",
    ("patch", "/webhooks/{webhook}"): "the URL or a pattern is not valid",
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description="Share a corpus of recrawl between fetchers in any language.",
        routes=app.routes,
    )
    limits: ServiceLimits = app.state.service.limits
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    document["components"] = {
        "schemas": schemas | {"Problem": _PROBLEM, "RowStatuses": _STATUSES, "Orders": _ORDERS},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _describe_answers(path.removeprefix(_PREFIX), method, operation)
            _describe_limits(operation, limits)
            if path.startswith("/v1/"):
                operation["security"] = [{"key": []}, {}]
    app.openapi_schema = document
    return document


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods that a path takes; the framework knows only those of its first route."""
    return sorted(
        method.upper()
        for template, operations in openapi_document(app)["paths"].items()
        if _pattern_of(template).fullmatch(path)
        for method in operations
    )


def route_of_path(app: FastAPI, path: str) -> str | None:
    """Return a path with the names of its parameters; None if the application has no such path.

    Parameters
    ----------
    app
        Application.
    path
        Path of a request, which need not have been routed.
    """
    templates = (*_UNDOCUMENTED, *openapi_document(app)["paths"])
    return next((one for one in templates if _pattern_of(one).fullmatch(path)), None)


@cache
def _pattern_of(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)))


def _describe_limits(operation: dict[str, Any], limits: ServiceLimits) -> None:
    """Add the limits of this server to the parameters of an operation."""
    most = {
        "n": limits.orders_max,
        "wait": limits.wait_seconds_max,
        "limit": limits.listed_max,
    }
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in most:
            parameter["schema"]["maximum"] = most[parameter["name"]]
        elif parameter["name"] == "target":
            parameter["schema"]["anyOf"][0]["maxItems"] = limits.targets_max
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {})
    if body.get("type") == "array":
        body["maxItems"] = limits.rows_max


def _describe_answers(path: str, method: str, operation: dict[str, Any]) -> None:
    content = _OF_PATH.get((method, path))
    if content is None and (method, path) in _STATUS_PATHS:
        content = {JSON: {"schema": {"$ref": "#/components/schemas/RowStatuses"}}, ARROW: _BINARY}
    operation["responses"] = {
        "201" if (method, path) == ("post", "/webhooks") else "200": {
            "description": "Done.",
            "content": content or {JSON: {"schema": {"type": "object"}}},
        },
        "default": {"description": "A problem.", "content": _PROBLEM_CONTENT},
    }
    if when := _REFUSED_WHEN.get((method, path)):
        description = f"A value is not valid; also if {when}."
        operation["responses"]["422"] = {"description": description, "content": _PROBLEM_CONTENT}
    if method == "post" and path in _KEYED_PATHS:
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
