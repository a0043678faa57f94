"""Orders for fetchers, and the outcomes that fetchers report."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pyarrow as pa

from recrawl.messages.enums import Reason

__all__ = [
    "GONE_STATUSES",
    "INFORMATIVE_STATUSES",
    "MOVED_STATUSES",
    "NOT_MODIFIED",
    "ORDER_SCHEMA",
    "OUTCOME_FIELDS",
    "Order",
    "Outcome",
]

NOT_MODIFIED = 304


MOVED_STATUSES = (301, 308)
"""Permanent redirects."""


GONE_STATUSES = (404, 410)


INFORMATIVE_STATUSES = (NOT_MODIFIED, *MOVED_STATUSES, *GONE_STATUSES)
"""Statuses that say something about a page, beside those of success."""


_WHOLE_MAX = 1 << 63


class Order(NamedTuple):
    """One page to fetch, and when the order for it ends."""

    handle: int
    """Identifier by which to report, extend or release the order."""
    url: str
    """Canonical URL of the page."""
    fetch_url: str
    """URL to request."""
    etag: bytes | None
    """Value for ``If-None-Match``, as the server sent it.  None also if signals say that the page
    has changed: see ``last_modified``."""
    last_modified: bytes | None
    """Value for ``If-Modified-Since``, as the server sent it.

    An order has neither value if the page has changed, more likely than not, by its signals, or if
    it tests a new source of signals.  A conditional request would save nothing then, and some
    servers notice a change hours after their sitemap does: their answer "not modified" would hide
    the change, and make a right sitemap look wrong."""
    reason: Reason
    """Why it is fetched now: it is worth the price, a limit was reached, never fetched, …"""
    expires_at_ms: int
    """Instant at which the order ends, in milliseconds since 1970: begin to fetch before, and
    report or extend the order before.  After that another fetcher may get the page.  A late report
    counts all the same, for the time ``leases.grace`` of the configuration."""
    doc_id: str | None = None
    """Name that you gave the page."""
    metadata: dict[str, Any] | None = None
    """JSON object that you gave with the page."""
    key: str | None = None
    """Key of the page, in a corpus grouped by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a fetch.

    Parameters
    ----------
    handle
        Handle of the order; 0 for a fetch without an order.
    url
        URL of the page; not needed with a handle.  If the page is leased and was fetched after
        that, the outcome ends the lease.
    status
        Status of the HTTP response; 0 if there was none (time-out, refused connection).
    body
        Body of the response, without content encoding.  recrawl finds the text in it that counts,
        and compares that with the previous version.
    content_type
        Header of the response that says what ``body`` is.
    text
        Text that you extracted yourself, one passage per line; used instead of ``body``.
    observation
        Result of `recrawl.content.observe`, if you read the body yourself; used instead of
        ``body``.  Not a column of a table.
    changed
        Whether the content differs from the previous copy; None to compare it.
    digest
        Digest of the relevant content, of any length; equal digests mean equal content.  Used if
        there is no body, text or observation.
    etag, last_modified
        Headers as the server sent them, for the next conditional request.  A value with control
        characters, or one that is too long, is not stored.
    fetched_at_ms
        Instant of the fetch; now unless given.
    retry_after_seconds
        Delay that the server asked for.
    moved_to
        Target of a permanent redirect.
    disallowed
        Whether the site's rules forbid fetching the page; no request was sent.
    divergence
        Share of the previous copy that is no longer right, 0 to 1; NaN if not known.  Not needed
        with ``sketch``.
    sketch
        Sketch of the content, as `recrawl.core.divergence.pack_sketch` returns it, up to 4 096
        bytes.  recrawl compares it with those of earlier versions, to learn how much of the page a
        change replaces.  Other bytes are stored and never compared.
    key
        Key of the page, needed with ``url`` in a corpus grouped by key.
    """

    handle: int = 0
    url: str | None = None
    status: int = 200
    changed: bool | None = None
    digest: bytes | None = None
    etag: bytes | None = None
    last_modified: bytes | None = None
    fetched_at_ms: int = 0
    retry_after_seconds: float = 0.0
    moved_to: str | None = None
    disallowed: bool = False
    divergence: float = float("nan")
    sketch: bytes | None = None
    key: str | None = None
    body: bytes | None = None
    content_type: str | None = None
    text: str | None = None
    # A `recrawl.content.Observation`, whose module loads compiled code.
    observation: Any = None

    def __post_init__(self) -> None:
        for name in ("handle", "status", "fetched_at_ms"):
            value = getattr(self, name)
            if isinstance(value, int) and not -_WHOLE_MAX <= value < _WHOLE_MAX:
                raise ValueError(f"{name} must be a whole number of up to 63 bits, got {value!r}")

    @property
    def is_failure(self) -> bool:
        """Whether the fetch failed, so that it says nothing about the page."""
        # As `is_failed_fetch`, which takes a hundred times as long for one status.
        is_informative = self.status // 100 == 2 or self.status in INFORMATIVE_STATUSES
        return not (self.disallowed or is_informative)


OUTCOME_FIELDS = tuple(field.name for field in fields(Outcome) if field.name != "observation")
"""Names of the columns of a table of outcomes."""

ORDER_SCHEMA = pa.schema(
    [
        ("handle", pa.int64()),
        ("url", pa.string()),
        ("fetch_url", pa.string()),
        ("etag", pa.binary()),
        ("last_modified", pa.binary()),
        ("reason", pa.dictionary(pa.int8(), pa.string())),
        ("expires_at_ms", pa.int64()),
        ("doc_id", pa.string()),
        ("metadata", pa.string()),
        ("key", pa.string()),
    ]
)
"""Columns of a table of orders: the fields of `Order`, with metadata as JSON text."""
