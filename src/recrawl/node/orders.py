"""What a corpus hands to fetchers, and what they bring back.

An order's `handle` names it in the whole corpus: its number in the partition and the partition.
Rows for many outcomes at once may come as an Arrow table with the fields of `Outcome` as columns.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.node.config.values import PARTITION_BITS, PARTITIONS_MAX
from recrawl.shard import Ordered, Reason
from recrawl.store import Store

__all__ = [
    "Order",
    "Outcome",
    "handle_of",
    "order_of",
    "orders_of",
    "partition_of",
]

_REASONS = tuple(Reason)


def handle_of(order: NDArray[np.int64], partition: int) -> NDArray[np.int64]:
    """Return what orders of a partition are called in the corpus."""
    return order << PARTITION_BITS | partition


def order_of(handle: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of orders in their partitions."""
    return handle >> PARTITION_BITS


def partition_of(handle: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the partitions of orders."""
    return handle & (PARTITIONS_MAX - 1)


class Order(NamedTuple):
    """One page to fetch: what to ask for, and by when to report."""

    handle: int
    """To report, extend or release it by."""
    url: str
    """What the page is known by."""
    fetch_url: str
    """What to ask for."""
    etag: bytes | None
    """For ``If-None-Match``, as the server gave it."""
    last_modified: bytes | None
    """For ``If-Modified-Since``, as the server gave it."""
    reason: Reason
    expires_at_ms: int
    """After which others may get the page."""


def orders_of(store: Store, partition: int, ordered: Ordered) -> list[Order]:
    """Return orders as fetchers get them, with what the store knows of their pages."""
    url = store.urls_of(ordered.page)
    etag, last_modified = store.validators_of(ordered.page)
    return [
        Order(*row)
        for row in zip(
            handle_of(ordered.order, partition).tolist(),
            url.to_pylist(),
            store.fetch_urls_of(ordered.page, url).to_pylist(),
            etag,
            last_modified,
            [_REASONS[reason] for reason in ordered.reason.tolist()],
            ordered.expires_at_ms.tolist(),
            strict=True,
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a fetch found.

    Parameters
    ----------
    handle
        Of the order that asked for it; 0 for a fetch that nobody ordered.
    url
        Of the page; not needed with a handle.
    status
        Of the HTTP answer; 0 where there was none (time-out, refused connection).
    changed
        Whether the content differs from the copy before; None to go by ``digest``.
    digest
        Of the content that matters, of any length; equal digests are equal versions.
    etag, last_modified
        Headers as the server wrote them, for the next conditional request.
    fetched_at_ms
        When; now unless given.
    retry_after_seconds
        As the server asked.
    moved_to
        Where a permanent redirect led.
    disallowed
        The site's rules forbid to fetch the page; nothing was asked.
    divergence
        Share of the copy before that is no longer right; nan if not known.
    sketch
        Of the content, to measure divergence by; kept as it is.
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


OUTCOME_FIELDS = tuple(field.name for field in fields(Outcome))
