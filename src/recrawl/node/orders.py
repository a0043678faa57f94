"""Orders for fetchers, and the outcomes that fetchers report.

The `handle` of an order identifies it in the whole corpus: it combines the order's number in the
partition with the number of the partition and the layout generation of the corpus, which changes
whenever the division into partitions does:

    bits 59 to 62   layout generation
    bits 12 to 58   number of the order in its partition
    bits 0 to 11    partition

Many outcomes at once may also be an Arrow table whose
columns are the fields of `Outcome`.
"""

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recrawl.node.config.values import PARTITION_BITS, PARTITIONS_MAX
from recrawl.shard import Ordered, Reason
from recrawl.store import Store, metadata_object

if TYPE_CHECKING:
    from recrawl.content import Observation

__all__ = [
    "GONE_STATUSES",
    "MOVED_STATUSES",
    "NOT_MODIFIED",
    "ORDERS_MAX",
    "Order",
    "Outcome",
    "handle_of",
    "has_controls",
    "is_failed_fetch",
    "is_success",
    "order_in",
    "order_of",
    "orders_of",
    "partition_in",
    "partition_of",
]

NOT_MODIFIED = 304
MOVED_STATUSES = (301, 308)
"""Permanent redirects."""
GONE_STATUSES = (404, 410)

_ORDER_BITS = 47
ORDERS_MAX = 1 << _ORDER_BITS
"""Limit of the order numbers of a partition: a million per second for four years."""
_GENERATION_SHIFT = PARTITION_BITS + _ORDER_BITS

_REASONS = tuple(Reason)
_WHOLE_MAX = 1 << 63
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def handle_of(order: NDArray[np.int64], partition: int, generation: int = 0) -> NDArray[np.int64]:
    """Return the handles of orders of a partition."""
    return generation << _GENERATION_SHIFT | order << PARTITION_BITS | partition


def order_of(handle: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of orders in their partitions, from their handles."""
    return handle >> PARTITION_BITS & (ORDERS_MAX - 1)


def partition_of(handle: NDArray[np.int64], generation: int = 0) -> NDArray[np.int64]:
    """Return the partitions of orders, from their handles.

    It is -1 for what is not a handle, and for handles of another layout generation, whose
    partitions no longer exist.
    """
    is_ours = (handle > 0) & (handle >> _GENERATION_SHIFT == generation)
    return np.where(is_ours, handle & (PARTITIONS_MAX - 1), -1)


def partition_in(handle: int, generation: int = 0) -> int:
    """Return the partition of one order, as `partition_of` does for many."""
    is_ours = handle > 0 and handle >> _GENERATION_SHIFT == generation
    return handle & (PARTITIONS_MAX - 1) if is_ours else -1


def order_in(handle: int) -> int:
    """Return the number of one order in its partition, as `order_of` does for many."""
    return handle >> PARTITION_BITS & (ORDERS_MAX - 1)


def has_controls(value: bytes) -> bool:
    """Return whether a header has a control character of ASCII, and must not be sent."""
    return _CONTROL.search(value) is not None


# Statuses that say something about a page, beside those of success.
_INFORMATIVE_STATUSES = (NOT_MODIFIED, *MOVED_STATUSES, *GONE_STATUSES)


def is_success(status: ArrayLike) -> NDArray[np.bool_]:
    """Return which HTTP statuses come with content: 2xx."""
    return np.asarray(np.floor_divide(status, 100) == 2)


def is_failed_fetch(status: ArrayLike) -> NDArray[np.bool_]:
    """Return which HTTP statuses say nothing about the page; 0 stands for no response."""
    return ~(is_success(status) | np.isin(status, _INFORMATIVE_STATUSES))


class Order(NamedTuple):
    """One page to fetch, and the time by which to report it."""

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
    """Instant after which another fetcher may get the page."""
    doc_id: str | None = None
    """Name that you gave the page."""
    metadata: dict[str, Any] | None = None
    """JSON object that you gave with the page."""
    key: str | None = None
    """Key of the page, in a corpus grouped by key."""


def orders_of(
    store: Store,
    partition: int,
    ordered: Ordered,
    is_announced: NDArray[np.bool_],
    generation: int = 0,
) -> list[Order]:
    """Return orders for fetchers, with the URLs and validators of their pages.

    Parameters
    ----------
    store
        Store of the pages.
    partition
        Number of the partition.
    ordered
        Orders as the log has them.
    is_announced
        Whether signals announce a change of each page (`Node.find_announced`): it gets no
        validators.
    generation
        Layout generation of the corpus.
    """
    without = is_announced.tolist()
    url, fetch_url, key = store.texts_of(ordered.page)
    etag, last_modified = (
        _validators(values, without) for values in store.validators_of(ordered.page)
    )
    own = store.user_data_of(ordered.page)
    return [
        Order(*row)
        for row in zip(
            handle_of(ordered.order, partition, generation).tolist(),
            url,
            fetch_url,
            etag,
            last_modified,
            [_REASONS[reason] for reason in ordered.reason.tolist()],
            ordered.expires_at_ms.tolist(),
            own.doc_id,
            [metadata_object(text) for text in own.metadata],
            key,
            strict=True,
        )
    ]


def _validators(values: list[bytes | None], without: list[bool]) -> list[bytes | None]:
    """Return the values that may be sent.

    Version 0.1.0 stored values with control characters, which must not be.
    """
    return [
        None if is_without or value is None or has_controls(value) else value
        for value, is_without in zip(values, without, strict=True)
    ]


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
    observation: "Observation | None" = None

    def __post_init__(self) -> None:
        for name in ("handle", "status", "fetched_at_ms"):
            value = getattr(self, name)
            if isinstance(value, int) and not -_WHOLE_MAX <= value < _WHOLE_MAX:
                raise ValueError(f"{name} must be a whole number of up to 63 bits, got {value!r}")

    @property
    def is_failure(self) -> bool:
        """Whether the fetch failed, so that it says nothing about the page."""
        # As `is_failed_fetch`, which takes a hundred times as long for one status.
        is_informative = self.status // 100 == 2 or self.status in _INFORMATIVE_STATUSES
        return not (self.disallowed or is_informative)


OUTCOME_FIELDS = tuple(field.name for field in fields(Outcome) if field.name != "observation")
"""Names of the columns of a table of outcomes."""
