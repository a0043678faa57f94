"""The errors of the service: problem documents (RFC 9457) whose ``type`` never changes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from recrawl.errors import (
    ChangesLost,
    LedgerError,
    NotInCluster,
    OwnershipLost,
    PageElsewhere,
    PartitionAway,
    RecrawlError,
    RequestKeyReused,
    StorageError,
    TimeLost,
)

__all__ = [
    "PROBLEMS",
    "RETRY_AWAY_SECONDS",
    "Problem",
    "ProblemType",
    "corpus_problems",
    "problem_of",
    "too_busy",
    "unavailable",
]

_RETRY_SECONDS = 1
RETRY_AWAY_SECONDS = 5
"""Seconds after which to ask again for what cannot be reached or written now."""


class ProblemType(NamedTuple):
    """One kind of error."""

    status: int
    title: str


PROBLEMS: dict[str, ProblemType] = {
    "invalid-body": ProblemType(400, "The body cannot be read"),
    "key-needed": ProblemType(401, "A valid API key is needed"),
    "signature-not-valid": ProblemType(401, "The signature is not valid"),
    "not-allowed": ProblemType(403, "The API key does not allow this"),
    "key-not-verified": ProblemType(403, "The site does not have this key"),
    "unknown-path": ProblemType(404, "There is nothing at this path"),
    "unknown-corpus": ProblemType(404, "This server has no such corpus"),
    "unknown-page": ProblemType(404, "The page is not tracked"),
    "unknown-webhook": ProblemType(404, "There is no such webhook"),
    "unknown-consumer": ProblemType(404, "There is no such consumer"),
    "wrong-method": ProblemType(405, "The path does not take this method"),
    "body-too-slow": ProblemType(408, "The body did not arrive in time"),
    "changes-lost": ProblemType(410, "The change feed no longer has these changes"),
    "subscription-ended": ProblemType(410, "The subscription has ended"),
    "time-lost": ProblemType(410, "The log no longer reaches back to this time"),
    "other-version": ProblemType(412, "The settings have changed meanwhile"),
    "body-too-large": ProblemType(413, "The body is too large"),
    "too-many-rows": ProblemType(413, "There are too many rows"),
    "unknown-format": ProblemType(415, "The format of the body is not supported"),
    "wrong-host": ProblemType(421, "The request was meant for another host"),
    "wrong-owner": ProblemType(421, "Another worker owns the partition"),
    "page-elsewhere": ProblemType(421, "Another part of the host may have the page"),
    "invalid-value": ProblemType(422, "A value is not valid"),
    "idempotency-key-reused": ProblemType(422, "The idempotency key belongs to another request"),
    "too-busy": ProblemType(429, "The server is busy"),
    "too-many-requests": ProblemType(429, "The client has sent too much"),
    "headers-too-large": ProblemType(431, "The headers are too large"),
    "internal": ProblemType(500, "The server has an error"),
    "not-in-cluster": ProblemType(501, "A cluster does not answer this"),
    "unavailable": ProblemType(503, "The service is not available now"),
    "storage": ProblemType(507, "The corpus cannot be written now"),
}
"""All types of problems by name; ``urn:recrawl:problem:`` and the name is the ``type``."""


class Problem(Exception):  # noqa: N818 - the term of RFC 9457
    """An answer that says what went wrong.

    Parameters
    ----------
    name
        Name of the type, a key of `PROBLEMS`.
    detail
        Description for the developer of the client.
    headers
        Headers of the answer.
    **members
        Further members of the document.
    """

    def __init__(
        self, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.name = name
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return PROBLEMS[self.name].status

    def response(self) -> Response:
        """Return the answer."""
        document = {
            "type": f"urn:recrawl:problem:{self.name}",
            "title": PROBLEMS[self.name].title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }
        return Response(
            msgspec.json.encode(document),
            self.status,
            headers=self.headers,
            media_type="application/problem+json",
        )


def too_busy(detail: str) -> Problem:
    """Return the problem of a full queue, which asks the client to try again soon."""
    return Problem("too-busy", detail, headers={"Retry-After": str(_RETRY_SECONDS)})


_RETRY_AWAY = {"Retry-After": str(RETRY_AWAY_SECONDS)}


def unavailable(detail: str) -> Problem:
    """Return the problem of something that cannot be reached now."""
    return Problem("unavailable", detail, headers=_RETRY_AWAY)


# Subclasses before their base classes: the first match counts.
_OF_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (RequestKeyReused, "idempotency-key-reused"),
    (ChangesLost, "changes-lost"),
    (TimeLost, "time-lost"),
    (NotInCluster, "not-in-cluster"),
    (OwnershipLost, "unavailable"),
    (PageElsewhere, "page-elsewhere"),
    (PartitionAway, "unavailable"),
    (StorageError, "storage"),
    (LedgerError, "storage"),
    (ValueError, "invalid-value"),
    (TypeError, "invalid-value"),
    (OverflowError, "invalid-value"),
)


def problem_of(error: Exception) -> Problem | None:
    """Return the problem that an error of a corpus stands for; None if it is a bug."""
    for kind, name in _OF_ERROR:
        if isinstance(error, kind):
            headers = _RETRY_AWAY if name in ("unavailable", "storage") else None
            return Problem(name, str(error) or PROBLEMS[name].title, headers=headers)
    if isinstance(error, RecrawlError):
        return unavailable(str(error))
    return None


@contextmanager
def corpus_problems() -> Iterator[None]:
    """Turn the errors of a call to a corpus into problems."""
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        problem = problem_of(error)
        if problem is None:
            raise
        raise problem from error
