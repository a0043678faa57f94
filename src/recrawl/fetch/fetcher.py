"""What a fetcher is asked for, and what it answers.

A fetcher is anything with the two methods of `PageFetcher`.  Whatever a site does becomes an
answer: `PageFetcher.fetch` raises nothing but `asyncio.CancelledError`.  To check the promises of a
fetcher of your own, run `recrawl.testing.FETCHER_CHECKS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

__all__ = [
    "FetchAnswer",
    "FetchKind",
    "FetchProblem",
    "FetchRedirect",
    "FetchRequest",
    "PageFetcher",
]


class FetchKind(StrEnum):
    """What a URL leads to; limits and rules depend on it."""

    PAGE = "page"
    ROBOTS = "robots"
    """A robots.txt file, which may always be fetched and is cut at its limit."""
    SITEMAP = "sitemap"
    FEED = "feed"


class FetchProblem(StrEnum):
    """Why a fetch has no usable answer."""

    BAD_URL = "bad_url"
    """The URL cannot be parsed, or is not http or https."""
    ROBOTS = "robots"
    """The robots.txt file of the host disallows the URL, or is unreachable."""
    HOST_DELAY = "host_delay"
    """The host may not be contacted yet; nothing was sent.  ``retry_after_seconds`` says when."""
    REFUSED_ADDRESS = "refused_address"
    """The host has no public address, or the port is one of another protocol."""
    DNS = "dns"
    """The name of the host cannot be resolved."""
    CONNECT = "connect"
    """The host, or the proxy, refuses connections or is unreachable."""
    TLS = "tls"
    """The certificate is not valid, or the handshake failed."""
    TIMED_OUT = "timed_out"
    """The answer, or a part of it, took too long."""
    DROPPED = "dropped"
    """The connection ended before the answer was complete."""
    BAD_ANSWER = "bad_answer"
    """The answer is not HTTP, or its headers are beyond the limits."""
    BAD_ENCODING = "bad_encoding"
    """The body cannot be unpacked, or has a coding that was not asked for."""
    TOO_LARGE = "too_large"
    """The body is larger than the limit for its kind."""
    BOMB = "bomb"
    """The body expands too much when it is unpacked."""
    REDIRECT_LOOP = "redirect_loop"
    """A redirect leads to a URL that was already visited in this fetch."""
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_REDIRECT = "bad_redirect"
    """A redirect names no URL, or one that cannot be fetched."""
    CLOSED = "closed"
    """The fetcher has been closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A request to fetch one URL.

    Parameters
    ----------
    url
        Absolute URL, http or https.
    etag, last_modified
        Validators of the copy that you have, exactly as a server sent them; None if it sent none.
    conditional
        Whether the validators may be sent.  A fetcher leaves them out of a small share of requests
        anyway, which shows whether "not modified" answers are true.
    kind
        Kind of the document.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None
    conditional: bool = True
    kind: FetchKind = FetchKind.PAGE


@dataclass(frozen=True, slots=True)
class FetchRedirect:
    """One redirect that was followed: the URL that answered with it, and its status."""

    url: str
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What a fetch found, and what it cost.

    Parameters
    ----------
    url
        URL that was asked for.
    final_url
        URL that gave the answer, after redirects.
    status
        Status of the last answer; 0 if there was none.
    body
        Body, unpacked; empty if there is a problem with it.
    headers
        Headers of the last answer, with lower-case names and values in Latin-1; the values of
        repeated headers are joined with a comma.
    retry_after_seconds
        Seconds for which the host asked to be left alone, or until a robots.txt file that was
        unreachable is fetched again; None if neither.
    was_conditional
        Whether validators were sent to the URL that answered.
    is_audit
        Whether the fetcher left the validators out on purpose.
    fetched_at_ms
        Instant at which the last request was sent, or the fetch was given up.
    seconds
        Seconds from the first request to the end of the last answer, without delays between them.
    n_bytes_received
        Bytes received for this fetch: headers and packed bodies of all answers, redirects included.
    n_requests
        Number of requests sent, redirects included; requests for robots.txt files are not.
    problem
        Problem that left the fetch without a usable answer; None if there is none.
    detail
        Sentence about the problem, for people.
    redirects
        Redirects that were followed.
    """

    url: str
    final_url: str
    status: int = 0
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_seconds: float | None = None
    was_conditional: bool = False
    is_audit: bool = False
    fetched_at_ms: int
    seconds: float = 0.0
    n_bytes_received: int = 0
    n_requests: int = 0
    problem: FetchProblem | None = None
    detail: str = ""
    redirects: tuple[FetchRedirect, ...] = ()

    @property
    def content_type(self) -> str | None:
        """Value of ``Content-Type``; None if the answer has none."""
        return self.headers.get("content-type")

    @property
    def etag(self) -> bytes | None:
        """Value of ``ETag``, exactly as received."""
        return self._validator("etag")

    @property
    def last_modified(self) -> bytes | None:
        """Value of ``Last-Modified``, exactly as received."""
        return self._validator("last-modified")

    def _validator(self, name: str) -> bytes | None:
        value = self.headers.get(name)
        return value.encode("latin-1", "replace") if value else None


@runtime_checkable
class PageFetcher(Protocol):
    """Fetches URLs politely: robots.txt, delays of hosts and limits are its own business."""

    async def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Fetch one URL; whatever the web does becomes an answer."""
        ...

    async def close(self) -> None:
        """Close all connections; a second call has no effect."""
        ...
