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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from recrawl.messages.orders import (
    GONE_STATUSES,
    INFORMATIVE_STATUSES,
    MOVED_STATUSES,
    NOT_MODIFIED,
    ORDER_SCHEMA,
    Order,
    Outcome,
)
from recrawl.node.config.values import PARTITION_BITS, PARTITIONS_MAX
from recrawl.shard import Ordered, Reason
from recrawl.store import Store, metadata_object

if TYPE_CHECKING:
    pass

__all__ = [
    "GONE_STATUSES",
    "MOVED_STATUSES",
    "NOT_MODIFIED",
    "ORDERS_MAX",
    "ORDER_SCHEMA",
    "Order",
    "OrderRows",
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


_ORDER_BITS = 47
ORDERS_MAX = 1 << _ORDER_BITS
"""Limit of the order numbers of a partition: a million per second for four years."""
_GENERATION_SHIFT = PARTITION_BITS + _ORDER_BITS

_REASONS = tuple(Reason)
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


def is_success(status: ArrayLike) -> NDArray[np.bool_]:
    """Return which HTTP statuses come with content: 2xx."""
    return np.asarray(np.floor_divide(status, 100) == 2)


def is_failed_fetch(status: ArrayLike) -> NDArray[np.bool_]:
    """Return which HTTP statuses say nothing about the page; 0 stands for no response."""
    return ~(is_success(status) | np.isin(status, INFORMATIVE_STATUSES))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderRows(Sequence[Order]):
    """A sequence of orders, kept as columns: an `Order` is made only when it is asked for.

    Each column has the values of the field of `Order` with its name.
    """

    handle: NDArray[np.int64]
    url: list[str | None]
    fetch_url: list[str | None]
    etag: list[bytes | None]
    last_modified: list[bytes | None]
    reason: NDArray[np.uint8]
    """Numbers of the reasons."""
    expires_at_ms: NDArray[np.int64]
    doc_id: list[str | None]
    metadata: list[str | None]
    """JSON objects as text."""
    key: list[str | None]

    @staticmethod
    def none() -> "OrderRows":
        """Return an empty sequence."""
        return _NO_ORDERS

    def __len__(self) -> int:
        return len(self.url)

    def __iter__(self) -> Iterator[Order]:
        objects: list[Any] = self.metadata
        if any(objects):
            objects = [metadata_object(text) for text in self.metadata]
        columns: tuple[list[Any], ...] = (
            self.handle.tolist(),
            self.url,
            self.fetch_url,
            self.etag,
            self.last_modified,
            [_REASONS[reason] for reason in self.reason.tolist()],
            self.expires_at_ms.tolist(),
            self.doc_id,
            objects,
            self.key,
        )
        return map(Order._make, zip(*columns, strict=True))

    @overload
    def __getitem__(self, place: int) -> Order: ...
    @overload
    def __getitem__(self, place: slice) -> "OrderRows": ...
    def __getitem__(self, place: int | slice) -> "Order | OrderRows":
        if isinstance(place, slice):
            if place.indices(len(self.url)) == (0, len(self.url), 1):
                return self
            return OrderRows(**{name: getattr(self, name)[place] for name in Order._fields})
        one = range(len(self))[place]
        return next(iter(self[one : one + 1]))

    def __add__(self, others: "OrderRows") -> "OrderRows":
        return OrderRows.join([self, others])

    @staticmethod
    def join(parts: "Sequence[OrderRows]") -> "OrderRows":
        """Return the orders of several sequences, one after the other."""
        parts = [part for part in parts if part.url]
        if len(parts) <= 1:
            return parts[0] if parts else _NO_ORDERS
        columns: dict[str, Any] = {
            name: [*chain.from_iterable(getattr(part, name) for part in parts)] for name in _TEXTS
        }
        for name in ("handle", "reason", "expires_at_ms"):
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        return OrderRows(**columns)

    def table(self) -> pa.Table:
        """Return the orders as an Arrow table with the columns of `ORDER_SCHEMA`."""
        url = pa.array(self.url, pa.string())
        reason = pa.DictionaryArray.from_arrays(
            pa.array(self.reason.astype(np.int8)), pa.array(_REASON_NAMES)
        )
        return pa.Table.from_arrays(
            [
                pa.array(self.handle),
                url,
                url if self.fetch_url is self.url else pa.array(self.fetch_url, pa.string()),
                _array_of(self.etag, pa.binary()),
                _array_of(self.last_modified, pa.binary()),
                reason,
                pa.array(self.expires_at_ms),
                _array_of(self.doc_id, pa.string()),
                _array_of(self.metadata, pa.string()),
                _array_of(self.key, pa.string()),
            ],
            schema=ORDER_SCHEMA,
        )


_TEXTS = ("url", "fetch_url", "etag", "last_modified", "doc_id", "metadata", "key")
_NO_ORDERS = OrderRows(
    handle=np.empty(0, np.int64),
    reason=np.empty(0, np.uint8),
    expires_at_ms=np.empty(0, np.int64),
    **{name: [] for name in _TEXTS},
)
_REASON_NAMES = [reason.name.lower() for reason in _REASONS]


def _array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array; most columns of most corpora have none."""
    return pa.array(values, kind) if any(values) else pa.nulls(len(values), kind)


def orders_of(
    store: Store,
    partition: int,
    ordered: Ordered,
    is_announced: NDArray[np.bool_],
    generation: int = 0,
) -> OrderRows:
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
    url, fetch_url, key = store.texts_of(ordered.page)
    etag, last_modified = store.validators_of(ordered.page)
    own = store.user_data_of(ordered.page)
    return OrderRows(
        handle=handle_of(ordered.order, partition, generation),
        url=url,
        fetch_url=fetch_url,
        etag=_validators(etag, is_announced),
        last_modified=_validators(last_modified, is_announced),
        reason=ordered.reason,
        expires_at_ms=ordered.expires_at_ms,
        doc_id=own.doc_id,
        metadata=own.metadata,
        key=key,
    )


def _validators(values: list[bytes | None], is_announced: NDArray[np.bool_]) -> list[bytes | None]:
    """Return the values that may be sent.

    Version 0.1.0 stored values with control characters, which must not be.
    """
    if not any(values):
        return values
    return [
        None if is_without or value is None or has_controls(value) else value
        for value, is_without in zip(values, is_announced.tolist(), strict=True)
    ]
