"""What can happen to a shard: batches of events as columns, each kind with a numbered schema.

A batch is a `NamedTuple` of equally long arrays, one row per event.  It travels as an Arrow record
batch; the number of its schema goes with it, so that a log written by an older version is read
by a newer one.  Instants are milliseconds since 1970, 0 where there is none.

A *page* is named by its slot and the slot's generation (`page_of`); an event for a page that has
since been removed is void.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import EventError
from recrawl.shard.tables import F32, F64, I64, U8, U16, U32, U64, dtypes_of

__all__ = [
    "SCHEMAS",
    "BudgetSet",
    "Claimed",
    "CostsSet",
    "CurvesSet",
    "Event",
    "GroupsSet",
    "ImportanceSet",
    "KindsSet",
    "LeasesExpired",
    "LeasesExtended",
    "LeasesReleased",
    "LimitsSet",
    "Ordered",
    "Outcomes",
    "PagesAdded",
    "PagesRemoved",
    "PriorsSet",
    "RequestsSeen",
    "SettingsSet",
    "Signals",
    "SourcesSet",
    "Ticked",
    "decoded",
    "encoded",
    "event_of",
    "from_arrow",
    "frozen",
    "page_of",
    "rows_of",
    "slot_of",
    "to_arrow",
]

TEXT = NDArray[np.str_]


class PagesAdded(NamedTuple):
    """Pages to keep, in slots that `Shard.free_pages` named."""

    page: I64
    group: U32
    kind: U16
    importance: F32
    cost: F32
    at_ms: I64


class PagesRemoved(NamedTuple):
    """Pages to forget; their slots may be used again."""

    page: I64


class ImportanceSet(NamedTuple):
    """What pages are worth to their owner, relative to each other."""

    page: I64
    importance: F32


class CostsSet(NamedTuple):
    """What fetching pages costs, relative to each other."""

    page: I64
    cost: F32


class KindsSet(NamedTuple):
    """Which kind pages are of; their beliefs move to the prior of it."""

    page: I64
    kind: U16


class LimitsSet(NamedTuple):
    """Floors, ceilings (inf for none) and staleness promises (probability 0 for none) of pages."""

    page: I64
    interval_seconds_min: F64
    interval_seconds_max: F64
    stale_seconds: F64
    stale_probability: F64


class Outcomes(NamedTuple):
    """What fetches found, with the order that asked for them or without (0)."""

    page: I64
    order: I64
    fetched_at_ms: I64
    verdict: U8
    divergence: F32
    """From the copy before, nan if not known."""
    last_modified_at_ms: I64
    status_class: U8
    """First digit of the HTTP status, 0 for none."""
    retry_after_seconds: F32


class Signals(NamedTuple):
    """Hints that pages changed: who says so, when it was heard, and the time it claims if any."""

    page: I64
    source: U32
    at_ms: I64
    claimed_at_ms: I64


class RequestsSeen(NamedTuple):
    """Requests for pages, counted up to an instant."""

    page: I64
    n_requests: F32
    at_ms: I64


class CurvesSet(NamedTuple):
    """How the copies of pages go wrong: the share in the end, its rate over the change rate."""

    page: I64
    ceiling: F32
    ratio: F32
    scroll_items: U8
    """0 where content churns."""


class GroupsSet(NamedTuple):
    """Politeness of groups."""

    group: U32
    delay_ms: U32
    in_flight_max: U16
    burst: U16
    blocked_until_ms: I64
    is_closed: U8
    """By its rules, or because they could not be read."""


class SourcesSet(NamedTuple):
    """Signal quality that is given; nan for learned."""

    source: U32
    precision: F32
    delay_seconds: F32


class BudgetSet(NamedTuple):
    """What may be spent, and what sets the price; one row."""

    amount: F64
    period_seconds: F64
    """0: the amount is for this run, all at once."""
    burst_seconds: F64
    """How much of what was not spent is kept."""
    unit: U8
    price_mode: U8
    price: F64


class SettingsSet(NamedTuple):
    """How the shard behaves, as JSON; one row."""

    settings: TEXT


class PriorsSet(NamedTuple):
    """What the owner's node learned of kinds of pages."""

    epoch: I64
    kind: U16
    shape: F64
    seconds: F64


class Ordered(NamedTuple):
    """The decision to fetch pages: proposed, logged, and only then handed out."""

    epoch: I64
    at_ms: I64
    order: I64
    page: I64
    expires_at_ms: I64
    reason: U8


class LeasesExtended(NamedTuple):
    """Fetchers need longer."""

    order: I64
    expires_at_ms: I64


class LeasesReleased(NamedTuple):
    """Fetchers give orders back, nothing fetched."""

    order: I64


class LeasesExpired(NamedTuple):
    """Fetchers were not heard of in time."""

    epoch: I64
    at_ms: I64
    order: I64


class Claimed(NamedTuple):
    """Somebody takes over the shard; decisions of lower epochs are void from here on.  One row."""

    owner: U64
    epoch: I64
    at_ms: I64


class Ticked(NamedTuple):
    """Time as the owner has it, and its price; one row."""

    epoch: I64
    at_ms: I64
    price: F64


Event: TypeAlias = (
    PagesAdded
    | PagesRemoved
    | ImportanceSet
    | CostsSet
    | KindsSet
    | LimitsSet
    | Outcomes
    | Signals
    | RequestsSeen
    | CurvesSet
    | GroupsSet
    | SourcesSet
    | BudgetSet
    | SettingsSet
    | PriorsSet
    | Ordered
    | LeasesExtended
    | LeasesReleased
    | LeasesExpired
    | Claimed
    | Ticked
)

# Numbers are for ever: a kind whose columns change gets a new one, and the old one stays readable.
SCHEMAS: dict[int, type[Event]] = {
    1: PagesAdded,
    2: PagesRemoved,
    3: ImportanceSet,
    4: CostsSet,
    5: KindsSet,
    6: LimitsSet,
    7: Outcomes,
    8: Signals,
    9: RequestsSeen,
    10: CurvesSet,
    11: GroupsSet,
    12: SourcesSet,
    13: BudgetSet,
    14: SettingsSet,
    15: PriorsSet,
    16: Ordered,
    17: LeasesExtended,
    18: LeasesReleased,
    19: LeasesExpired,
    20: Claimed,
    21: Ticked,
}
SCHEMA_ID: dict[type[Event], int] = {kind: number for number, kind in SCHEMAS.items()}


DTYPES: dict[type[Event], dict[str, np.dtype[Any]]] = {kind: dtypes_of(kind) for kind in SCHEMA_ID}
_ARROW_SCHEMAS = {
    kind: pa.schema(
        [
            pa.field(name, pa.string() if dtype.kind == "U" else pa.from_numpy_dtype(dtype), False)
            for name, dtype in columns.items()
        ],
        metadata={"recrawl.event": kind.__name__, "recrawl.schema": str(SCHEMA_ID[kind])},
    )
    for kind, columns in DTYPES.items()
}


def page_of(slot: Any, generation: Any) -> Any:
    """Return the page number of a slot's generation."""
    return np.asarray(slot, np.int64) | (np.asarray(generation, np.int64) << 32)


def slot_of(page: Any) -> Any:
    """Return the slot of a page number."""
    return np.asarray(page, np.int64) & 0xFFFFFFFF


_E = TypeVar("_E", bound=Event)


def event_of(kind: type[_E], /, **columns: Any) -> _E:
    """Return a batch of one kind from columns, lists or scalars, broadcast against each other.

    Examples
    --------
    >>> event_of(ImportanceSet, page=[0, 1, 2], importance=2.0).importance
    array([2., 2., 2.], dtype=float32)
    """
    names: dict[str, np.dtype[Any]] = DTYPES[kind]  # type: ignore[index]
    if columns.keys() != names.keys():
        wrong = ", ".join(sorted(columns.keys() ^ names.keys()))
        raise TypeError(f"{kind.__name__} has columns {', '.join(names)}; wrong: {wrong}")
    arrays = [np.asarray(columns[name], dtype) for name, dtype in names.items()]
    n_rows = max(array.size if array.ndim else 1 for array in arrays)
    if any(array.ndim == 1 and array.size == 0 for array in arrays):
        n_rows = 0
    return _of_columns(kind, [_column(array, n_rows) for array in arrays])


def _column(array: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if array.shape == (n_rows,) and array.flags.c_contiguous:
        return array
    if array.size == 1:
        return np.full(n_rows, array.reshape(()), array.dtype)
    if array.shape != (n_rows,):
        raise ValueError(f"columns must have {n_rows} rows, got {array.shape}")
    return np.ascontiguousarray(array)


def _of_columns(kind: type[_E], columns: Iterable[Any]) -> _E:
    make: Any = kind
    event: _E = make(*columns)
    return event


def rows_of(event: _E, rows: Any) -> _E:
    """Return some rows of a batch: a slice, a mask or row numbers."""
    return _of_columns(type(event), (column[rows] for column in event))


def frozen(event: _E) -> _E:
    """Return the batch with columns that cannot be written to, as those read from a log are.

    Kernels are compiled for one kind of array, then, not for two.
    """
    columns = [np.ascontiguousarray(column).view() for column in event]
    for column in columns:
        column.flags.writeable = False
    return _of_columns(type(event), columns)


def to_arrow(event: Event) -> pa.RecordBatch:
    """Return a batch of events as an Arrow record batch; numbers are not copied."""
    schema = _ARROW_SCHEMAS[type(event)]
    columns = [pa.array(column, field.type) for column, field in zip(event, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_arrow(batch: pa.RecordBatch, schema_id: int | None = None) -> Event:
    """Return the events of an Arrow record batch; numbers are not copied.

    Parameters
    ----------
    batch
        With the columns of its schema, in any order; null counts as none.
    schema_id
        As it travelled beside the batch; otherwise the one in the batch's own metadata.
    """
    if schema_id is None:
        number = (batch.schema.metadata or {}).get(b"recrawl.schema", b"")
        schema_id = int(number) if number.isdigit() else 0
    kind = SCHEMAS.get(schema_id)
    if kind is None:
        raise EventError(f"schema must be one of 1 to {len(SCHEMAS)}, got {schema_id!r}")
    try:
        batch.validate(full=True)
        columns = [
            _column_of(batch.column(field.name), field.type, DTYPES[kind][field.name])
            for field in _ARROW_SCHEMAS[kind]
        ]
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise EventError(f"not columns of {kind.__name__}: {error}") from error
    return _of_columns(kind, columns)


def _column_of(column: pa.Array, type_: pa.DataType, dtype: np.dtype[Any]) -> Any:
    """Return a column as a numpy array; one of another type is cast, if that loses nothing."""
    if column.type != type_:
        column = column.cast(type_)
    if column.null_count:
        none = {"f": float("nan"), "U": ""}
        column = column.fill_null(none.get(dtype.kind, 0))
    array = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(array.astype(dtype, copy=False))


def encoded(events: Iterable[Event]) -> bytes:
    """Return events as bytes: for each batch its length and an Arrow stream."""
    pieces = []
    for event in events:
        sink = pa.BufferOutputStream()
        record = to_arrow(event)
        with pa.ipc.new_stream(sink, record.schema) as writer:
            writer.write_batch(record)
        piece = sink.getvalue().to_pybytes()
        pieces += [len(piece).to_bytes(8, "little"), piece]
    return b"".join(pieces)


def decoded(data: bytes) -> list[Event]:
    """Return the events in bytes that `encoded` made."""
    events = []
    position = 0
    view = pa.py_buffer(data)
    while position < len(data):
        size = int.from_bytes(data[position : position + 8], "little")
        position += 8
        if position + size > len(data):
            raise EventError(f"a batch of {size} bytes is cut short at {len(data) - position}")
        try:
            with pa.ipc.open_stream(view.slice(position, size)) as reader:
                events += [from_arrow(batch) for batch in reader]
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise EventError(f"not an Arrow stream: {error}") from error
        position += size
    return events
