"""What all routes share: the corpus of a request, its body, its idempotency key, its documents."""

from collections.abc import Sized
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

from fastapi import Path, Request

from recrawl.corpus import FirstRequestKey, RequestKey
from recrawl.messages.forwarding import FIRST_ATTEMPT
from recrawl.service.access import Access
from recrawl.service.formats.body_memory import BodyMemory, HeldBody
from recrawl.service.formats.row_kinds import RowKind
from recrawl.service.formats.rows import ARROW, JSON, NDJSON, body_format
from recrawl.service.forwarded import find_forwarded
from recrawl.service.hosting.hosted import HostedCorpora, HostedCorpus
from recrawl.service.keys import Scope
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = [
    "CorpusName",
    "RequestBody",
    "Service",
    "check_at_most",
    "check_row_count",
    "enter",
    "hold_body",
    "json_body",
    "request_key",
    "rows_body",
    "service_of",
]

CorpusName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="Name of the corpus.")
]


class Service(NamedTuple):
    """Everything that the routes of a server use."""

    corpora: HostedCorpora
    access: Access
    memory: BodyMemory
    limits: ServiceLimits


class RequestBody(NamedTuple):
    """The body of a request, decompressed."""

    data: bytes
    format: str


def service_of(request: Request) -> Service:
    """Return the service that a request was sent to."""
    service: Service = request.app.state.service
    return service


def enter(request: Request, name: str, scope: Scope) -> HostedCorpus:
    """Return the corpus of a request, after checking that it may use it.

    Parameters
    ----------
    request
        Request of the client.
    name
        Name of the corpus in its path.
    scope
        Scope that it needs.
    """
    service = service_of(request)
    request.state.key_id = service.access.check(request, name, scope)
    forwarded = find_forwarded(request)
    is_forwarded = forwarded is not None
    request.state.is_admin = scope is Scope.ADMIN and not is_forwarded
    in_parts = forwarded is not None and forwarded.in_parts
    return service.corpora.find(name, is_forwarded=is_forwarded, in_parts=in_parts)


class HeldRequestBody:
    """The body of a request, read and held by ``async with``.

    Parameters
    ----------
    body
        Bytes of the body.
    format
        Format of the body.
    """

    __slots__ = ("_body", "_format")

    def __init__(self, body: HeldBody, format: str) -> None:
        self._body = body
        self._format = format

    async def __aenter__(self) -> RequestBody:
        return RequestBody(await self._body.__aenter__(), self._format)

    async def __aexit__(self, *_: object) -> None:
        self._body.forget()


def hold_body(
    request: Request, *, only_json: bool = False, is_keyless: bool = False
) -> HeldRequestBody:
    """Return a block that begins with reading the body of a request, and holds it."""
    format = body_format(request.headers.get("content-type"), only_json=only_json)
    memory = service_of(request).memory
    return HeldRequestBody(memory.hold(request, is_keyless=is_keyless), format)


def request_key(request: Request, *parts: object) -> RequestKey | None:
    """Return the idempotency key of a request with a digest of what it asks; None without one.

    Parameters
    ----------
    request
        Request of the client.
    *parts
        Body and options, which a repeated request must have in common.
    """
    forwarded = find_forwarded(request)
    if forwarded is not None:
        return None if forwarded.request is None else RequestKey(*forwarded.request)
    text = request.headers.get("idempotency-key")
    if text is None:
        return None
    n_max = service_of(request).limits.idempotency_key_bytes_max
    if not 1 <= len(text) <= n_max or not text.isascii() or not text.isprintable():
        raise Problem(
            "invalid-value",
            f"Idempotency-Key must have 1 to {n_max} printable ASCII characters",
        )
    digest = blake2b(digest_size=16)
    for part in (request.method, request.url.path, *parts):
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    # Clients with different keys may choose the same text.
    kind = FirstRequestKey if FIRST_ATTEMPT in request.headers else RequestKey
    return kind(f"{request.state.key_id} {text}".encode(), digest.digest())


def check_at_most(name: str, value: float, most: float) -> None:
    """Raise unless an argument of a request is within its limit.

    Parameters
    ----------
    name
        Name of the argument.
    value
        Value that the client gave.
    most
        Largest value.
    """
    if value > most:
        text = f"{most:,}" if isinstance(most, int) else f"{most:g}"
        got = value if isinstance(value, int) else f"{value:g}"
        raise Problem("invalid-value", f"{name} must be at most {text}, got {got}")


def check_row_count(rows: Sized, limits: ServiceLimits) -> None:
    """Raise if a request has too many rows."""
    if len(rows) > limits.rows_max:
        raise Problem("too-many-rows", f"a request has at most {limits.rows_max:,} rows")


def rows_body(kind: RowKind, *, is_needed: bool = True) -> dict[str, Any]:
    """Return the description of a body of rows for the OpenAPI document."""
    row = {"$ref": f"#/components/schemas/{kind.name}"}
    columns = ", ".join(f"{name} ({one.type})" for name, one in kind.columns.items())
    return {
        "requestBody": {
            "required": is_needed,
            "content": {
                JSON: {"schema": {"type": "array", "items": row}},
                NDJSON: {"schema": {"type": "string", "description": f"One {kind.name} per line."}},
                ARROW: {
                    "schema": {
                        "type": "string",
                        "format": "binary",
                        "description": f"An Arrow IPC stream with columns among: {columns}.",
                    }
                },
            },
        }
    }


def json_body(name: str) -> dict[str, Any]:
    """Return the description of a JSON body for the OpenAPI document."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
