"""The rows that clients send, with the type and the range of each field.

Each kind of row is one class: it decodes JSON, describes itself in the OpenAPI document, and says
which columns an Arrow table may have.
"""

from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Meta

from recrawl.service.formats.handles import HANDLE_MAX, Handle, handle_number

__all__ = [
    "OUTCOME_ROWS",
    "PAGE_ROWS",
    "REQUEST_ROWS",
    "SIGNAL_ROWS",
    "URL_ROWS",
    "Column",
    "Instant",
    "OutcomeRow",
    "PageRow",
    "RequestRow",
    "RowKind",
    "SignalRow",
    "UrlRow",
]

_AMOUNT_MAX = 1e12
# The end of the year 9999, in milliseconds since 1970.
_INSTANT_MAX = 253_402_300_799_999
_STATUS_MAX = 999

_Amount = Annotated[float, Meta(ge=0, le=_AMOUNT_MAX)]
Instant = Annotated[int, Meta(ge=0, le=_INSTANT_MAX)]
"""Type of a time in milliseconds since 1970."""
_Status = Annotated[int, Meta(ge=0, le=_STATUS_MAX)]


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A row of a body."""


class UrlRow(_Row):
    """A page, given by its URL."""

    url: str
    key: str | None = None
    """Key of the page's group, in a corpus grouped by key."""


class PageRow(_Row):
    """A page to track, or new values of one."""

    url: str
    importance: _Amount | None = None
    cost: _Amount | None = None
    doc_id: str | None = None
    """Your own name of the page."""
    metadata: dict[str, Any] | None = None
    """Your own data of the page."""
    key: str | None = None


class SignalRow(_Row):
    """A hint that a page may have changed."""

    url: str
    at_ms: Instant = 0
    """Time of the signal, in milliseconds since 1970; 0 for now."""
    claimed_at_ms: Instant = 0
    """Time at which the page changed, according to the source; 0 if it does not say."""
    key: str | None = None


class RequestRow(_Row):
    """How often users requested a page."""

    url: str
    n_requests: _Amount = 1.0
    at_ms: Instant = 0
    """End of the period that was counted, in milliseconds since 1970; 0 for now."""
    key: str | None = None


class OutcomeRow(_Row):
    """The result of a fetch."""

    handle: Handle = 0
    """Handle of the order; 0 for a fetch without one, which needs url and fetched_at_ms."""
    url: str | None = None
    status: _Status | None = None
    """HTTP status; 0 if there was no answer."""
    changed: bool | None = None
    digest: str | None = None
    """Digest of what counts; equal texts mean equal content."""
    etag: str | None = None
    last_modified: str | None = None
    fetched_at_ms: Instant = 0
    retry_after_seconds: _Amount = 0.0
    moved_to: str | None = None
    disallowed: bool = False
    divergence: Annotated[float, Meta(ge=0, le=1)] | None = None
    sketch_base64: str | None = None
    key: str | None = None
    body: str | None = None
    """Body of the answer as text."""
    body_base64: str | None = None
    """Body of the answer in base64, instead of ``body``."""
    content_type: str | None = None
    text: str | None = None
    """Text that you extracted yourself, one passage per line, instead of a body."""

    def __post_init__(self) -> None:
        self.handle = handle_number(self.handle)


class Column(NamedTuple):
    """A column of an Arrow table."""

    type: pa.DataType
    low: float | None = None
    high: float | None = None
    is_needed: bool = False


class RowKind(NamedTuple):
    """One kind of rows: the class of a JSON row, and the columns of a table."""

    row: type[_Row]
    columns: dict[str, Column]

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.row.__name__


_TEXT = Column(pa.string())
_BYTES = Column(pa.binary())
_URL = Column(pa.string(), is_needed=True)
_AMOUNT = Column(pa.float64(), 0.0, _AMOUNT_MAX)
_INSTANT = Column(pa.int64(), 0, _INSTANT_MAX)

URL_ROWS = RowKind(UrlRow, {"url": _URL, "key": _TEXT})
PAGE_ROWS = RowKind(
    PageRow,
    {
        "url": _URL,
        "importance": _AMOUNT,
        "cost": _AMOUNT,
        "doc_id": _TEXT,
        "metadata": _TEXT,
        "key": _TEXT,
    },
)
SIGNAL_ROWS = RowKind(
    SignalRow, {"url": _URL, "at_ms": _INSTANT, "claimed_at_ms": _INSTANT, "key": _TEXT}
)
REQUEST_ROWS = RowKind(
    RequestRow, {"url": _URL, "n_requests": _AMOUNT, "at_ms": _INSTANT, "key": _TEXT}
)
OUTCOME_ROWS = RowKind(
    OutcomeRow,
    {
        "handle": Column(pa.int64(), 0, HANDLE_MAX),
        "url": _TEXT,
        "status": Column(pa.int64(), 0, _STATUS_MAX),
        "changed": Column(pa.bool_()),
        "digest": _BYTES,
        "etag": _BYTES,
        "last_modified": _BYTES,
        "fetched_at_ms": _INSTANT,
        "retry_after_seconds": _AMOUNT,
        "moved_to": _TEXT,
        "disallowed": Column(pa.bool_()),
        "divergence": Column(pa.float64(), 0.0, 1.0),
        "sketch": _BYTES,
        "key": _TEXT,
        "body": _BYTES,
        "content_type": _TEXT,
        "text": _TEXT,
    },
)
