"""Turn the errors of a service into the exceptions that a corpus raises."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from recrawl.errors import (
    AccessDenied,
    ChangesLost,
    CorpusError,
    NotInCluster,
    PageElsewhere,
    RecrawlError,
    RequestKeyReused,
    ServiceError,
    ServiceUnavailable,
    StorageError,
    TimeLost,
)

__all__ = ["Failure", "RequestTooLarge", "UnknownName", "failure_of"]

_PREFIX = "urn:recrawl:problem:"
_DETAIL_MAX = 500
_ADDRESS_HINT = "; the address of a corpus is such as https://example.com/v1/corpora/NAME"
_RETRY_SECONDS_MAX = 60.0


class RequestTooLarge(ValueError):  # noqa: N818 - names a condition
    """A request has more rows or bytes than the server takes; the client divides it."""


class UnknownName(LookupError):  # noqa: N818 - names a condition
    """The server has no page or consumer with a name; clients return None or False."""


class Failure(NamedTuple):
    """An answer that says what went wrong."""

    error: Exception
    is_worth_repeating: bool
    retry_after_seconds: float


_ERRORS: dict[str, type[Exception]] = {
    "invalid-body": ValueError,
    "key-needed": AccessDenied,
    "not-allowed": AccessDenied,
    "unknown-path": ServiceError,
    "unknown-corpus": CorpusError,
    "unknown-page": UnknownName,
    "unknown-consumer": UnknownName,
    "wrong-method": ServiceError,
    "body-too-slow": ServiceUnavailable,
    "changes-lost": ChangesLost,
    "time-lost": TimeLost,
    "other-version": ServiceError,
    "body-too-large": RequestTooLarge,
    "too-many-rows": RequestTooLarge,
    "unknown-format": ServiceError,
    "wrong-host": ServiceError,
    "wrong-owner": ServiceError,
    "page-elsewhere": PageElsewhere,
    "invalid-value": ValueError,
    "idempotency-key-reused": RequestKeyReused,
    "too-busy": ServiceUnavailable,
    "too-many-requests": ServiceUnavailable,
    "internal": ServiceError,
    "not-in-cluster": NotInCluster,
    "unavailable": ServiceUnavailable,
    "storage": StorageError,
}
# Errors of servers and proxies in between that another attempt may not have.
_PASSING_STATUSES = (408, 425, 429, 502, 503, 504)


def failure_of(status: int, headers: Mapping[str, str], data: bytes, server: str) -> Failure:
    """Return what an answer with an error stands for.

    Parameters
    ----------
    status
        HTTP status of the answer.
    headers
        Headers of the answer.
    data
        Body of the answer.
    server
        Address of the server, for the message.
    """
    document = _document(data)
    name = str(document.get("type", "")).removeprefix(_PREFIX)
    kind = _ERRORS.get(name)
    detail = str(document.get("detail") or document.get("title") or "")[:_DETAIL_MAX]
    if kind is None:
        is_passing = status in _PASSING_STATUSES
        kind = ServiceUnavailable if is_passing else ServiceError
        detail = detail or f"{server} answered with HTTP status {status}"
        if not is_passing:
            detail += _ADDRESS_HINT
    elif issubclass(kind, RecrawlError) and not issubclass(kind, ValueError):
        detail = f"{server}: {detail}"
        if name == "unknown-path":
            detail += _ADDRESS_HINT
    return Failure(
        kind(detail), issubclass(kind, ServiceUnavailable), _retry_after(headers, status)
    )


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _retry_after(headers: Mapping[str, str], status: int) -> float:
    """Return the seconds that a busy server asks to wait, within reason."""
    if status not in (429, 503):
        return 0.0
    seconds = headers.get("Retry-After", "").strip()
    return min(float(seconds), _RETRY_SECONDS_MAX) if seconds.isdecimal() else 0.0
