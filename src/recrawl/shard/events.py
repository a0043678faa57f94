"""What can happen to a shard: batches of events as columns, each kind with a numbered schema.

A batch is a `NamedTuple` of equally long arrays, one row per event.  It travels as an Arrow record
batch, and in a log as the message of that alone (`to_record`); the number of its schema goes with
it, so that a log written by an older version is read by a newer one.  Instants are milliseconds
since 1970, 0 where there is none.

A *page* is named by its slot and the slot's generation (`page_of`); an event for a page that has
since been removed is void.  Columns that several kinds have mean the same in each:

``page``
    The page's number.
``group``
    Number of the politeness group.
``kind``
    Number of the kind of page, whose prior and weight it has.
``source``
    Number of who signals.
``order``
    Number of the order; the next one is one more.  0 for none.
``epoch``
    Of the node that decides; rows of another epoch than the owner's are void.
``at_ms``
    When it happened.
``importance``
    Worth of a second's freshness, relative to other pages.
``cost``
    Of one fetch, relative to other pages.
``expires_at_ms``
    When the order is given up, if nothing is heard of it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import EventError
from recrawl.shard.state.tables import F32, F64, I64, U8, U16, U32, U64, dtypes_of
from recrawl.shard.wire import NumberRecords, packed, unpacked

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
    "KindsWeighted",
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
    "arrow_schema_of",
    "decoded",
    "encoded",
    "event_of",
    "from_arrow",
    "from_record",
    "frozen",
    "page_of",
    "rows_of",
    "slot_of",
    "to_arrow",
    "to_record",
]

TEXT = NDArray[np.str_]


class PagesAdded(NamedTuple):
    """Pages to keep, in slots that `Shard.free_pages` named.  From users."""

    page: I64
    """As `Shard.free_pages` named it."""
    group: U32
    kind: U16
    importance: F32
    cost: F32
    at_ms: I64
    """When it was found."""


class PagesRemoved(NamedTuple):
    """Pages to forget; their slots may be used again.  From users."""

    page: I64


class ImportanceSet(NamedTuple):
    """What pages are worth to their owner, relative to each other.  From users."""

    page: I64
    importance: F32


class CostsSet(NamedTuple):
    """What fetching pages costs, relative to each other.  From users."""

    page: I64
    cost: F32


class KindsSet(NamedTuple):
    """Which kind pages are of; their beliefs move to the prior of it.  From users."""

    page: I64
    kind: U16


class LimitsSet(NamedTuple):
    """Floors, ceilings (inf for none) and staleness promises (probability 0 for none) of pages.

    From users.
    """

    page: I64
    interval_seconds_min: F64
    """Not fetched again before."""
    interval_seconds_max: F64
    """Fetched again at the latest; inf for no ceiling."""
    stale_seconds: F64
    """Of the promise: not stale for longer than this …"""
    stale_probability: F64
    """… but with this probability; 0 for no promise."""


class Outcomes(NamedTuple):
    """What fetches found, with the order that asked for them or without (0).  From fetchers."""

    page: I64
    order: I64
    """That asked for the fetch; 0 for none."""
    fetched_at_ms: I64
    """By the clock of the fetcher."""
    verdict: U8
    """`recrawl.shard.state.status.Verdict`."""
    divergence: F32
    """Share that is wrong of the copy before, nan if not known."""
    last_modified_at_ms: I64
    """As the site says."""
    status_class: U8
    """First digit of the HTTP status, 0 for none."""
    retry_after_seconds: F32
    """As the site asks; 0 for nothing."""


class Signals(NamedTuple):
    """Hints that pages changed: who says so, when it was heard, and the time it claims if any.

    From sources of signals.
    """

    page: I64
    source: U32
    at_ms: I64
    """When it was heard."""
    claimed_at_ms: I64
    """When the page changed, as the source says."""


class RequestsSeen(NamedTuple):
    """Requests for pages, counted up to an instant.  From whoever serves the copies."""

    page: I64
    n_requests: F32
    """Since the last count."""
    at_ms: I64
    """Up to when they were counted."""


class CurvesSet(NamedTuple):
    """How the copies of pages go wrong: the share in the end, its rate over the change rate.

    From users, or whoever compares copies.
    """

    page: I64
    ceiling: F32
    """Share of a copy that is wrong in the end, 0 to 1."""
    ratio: F32
    """Rate at which it goes wrong, over the change rate."""
    scroll_items: U8
    """Items that scroll through the page; 0 where content churns."""


class GroupsSet(NamedTuple):
    """Politeness of groups.  From users, or fetchers that read the rules of a site."""

    group: U32
    delay_ms: U32
    """Between fetches."""
    in_flight_max: U16
    """Fetches at the same time."""
    burst: U16
    """Orders that may follow each other at once, where several may be in flight."""
    blocked_until_ms: I64
    """Asked to wait until then."""
    is_closed: U8
    """By its rules, or because they could not be read."""


class SourcesSet(NamedTuple):
    """Signal quality that is given; nan for learned.  From users."""

    source: U32
    precision: F32
    """Share of its signals that announce a change; nan for learned."""
    delay_seconds: F32
    """From a change to its signal; nan for learned."""


class BudgetSet(NamedTuple):
    """What may be spent, and what sets the price; one row.  From users."""

    amount: F64
    """Fetches or cost per period; inf for no limit."""
    period_seconds: F64
    """0: the amount is for this run, all at once."""
    burst_seconds: F64
    """How much of what was not spent is kept."""
    unit: U8
    """`recrawl.shard.state.status.BudgetUnit`."""
    price_mode: U8
    """`recrawl.shard.state.status.PriceMode`."""
    price: F64
    """Value that a fetch must reach, where the price is fixed."""


class SettingsSet(NamedTuple):
    """How the shard behaves, as JSON; one row.  From users."""

    settings: TEXT
    """`ShardSettings` as JSON."""


class PriorsSet(NamedTuple):
    """What the owner's node learned of kinds of pages.  From the node (`Shard.learn_priors`)."""

    epoch: I64
    kind: U16
    shape: F64
    """Of the gamma belief about change rates."""
    seconds: F64
    """Likewise."""


class KindsWeighted(NamedTuple):
    """Factors on the importance of all pages of a kind: the owner's node shares out the budget.

    From the node (`Shard.weigh_kinds`).
    """

    epoch: I64
    kind: U16
    weight: F32
    """Positive; 1 is none."""


class Ordered(NamedTuple):
    """The decision to fetch pages: proposed, logged, and only then handed out.

    From the node (`Shard.decide`).
    """

    epoch: I64
    at_ms: I64
    order: I64
    page: I64
    expires_at_ms: I64
    reason: U8
    """`recrawl.shard.state.status.Reason`."""


class LeasesExtended(NamedTuple):
    """Fetchers need longer.  From fetchers."""

    order: I64
    expires_at_ms: I64


class LeasesReleased(NamedTuple):
    """Fetchers give orders back, nothing fetched.  From fetchers."""

    order: I64


class LeasesExpired(NamedTuple):
    """Fetchers were not heard of in time.  From the node (`Shard.overdue`)."""

    epoch: I64
    at_ms: I64
    order: I64


class Claimed(NamedTuple):
    """Somebody takes over the shard; decisions of lower epochs are void from here on.  One row.

    From a node that takes over.
    """

    owner: U64
    """Number of the node."""
    epoch: I64
    """Higher than that of the owner before, or the claim is void."""
    at_ms: I64


class Ticked(NamedTuple):
    """Time as the owner has it, and its price; one row.  From the node (`Shard.tick`)."""

    epoch: I64
    at_ms: I64
    """The time of the node."""
    price: F64
    """Value that a fetch had to reach."""


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
    | KindsWeighted
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
    22: KindsWeighted,
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
_COLUMNS = {
    kind: tuple((field.name, field.type, DTYPES[kind][field.name]) for field in schema)
    for kind, schema in _ARROW_SCHEMAS.items()
}
_RECORDS = {
    kind: NumberRecords(_ARROW_SCHEMAS[kind], columns.values())
    for kind, columns in DTYPES.items()
    if all(dtype.kind != "U" for dtype in columns.values())
}


def arrow_schema_of(kind: type[Event]) -> pa.Schema:
    """Return the Arrow schema of a kind: its columns in order, none of them null."""
    return _ARROW_SCHEMAS[kind]


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


def from_arrow(batch: pa.RecordBatch, schema_id: int | None = None, *, check: bool = True) -> Event:
    """Return the events of an Arrow record batch; numbers are not copied.

    Parameters
    ----------
    batch
        With the columns of its schema, in any order and beside others; null counts as none.
    schema_id
        As it travelled beside the batch; otherwise the one in the batch's own metadata.
    check
        Whether to look at the columns first; not needed after ``batch.validate(full=True)``.
    """
    if schema_id is None:
        number = (batch.schema.metadata or {}).get(b"recrawl.schema", b"")
        schema_id = int(number) if number.isdigit() else 0
    kind = _kind_of(schema_id)
    try:
        columns = [
            _column_of(batch.column(name), type_, dtype, check)
            for name, type_, dtype in _COLUMNS[kind]
        ]
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise EventError(f"not columns of {kind.__name__}: {error}") from error
    return _of_columns(kind, columns)


def _kind_of(schema_id: int) -> type[Event]:
    kind = SCHEMAS.get(schema_id)
    if kind is None:
        raise EventError(f"schema must be one of 1 to {len(SCHEMAS)}, got {schema_id!r}")
    return kind


def _column_of(column: pa.Array, type_: pa.DataType, dtype: np.dtype[Any], check: bool) -> Any:
    """Return a column as a numpy array; one of another type is cast, if that loses nothing."""
    if check:
        column.validate(full=True)
    if column.type != type_:
        column = column.cast(type_)
    if column.null_count:
        none = {"f": float("nan"), "U": ""}
        column = column.fill_null(none.get(dtype.kind, 0))
    array = column.to_numpy(zero_copy_only=False)
    return array if array.dtype == dtype else np.ascontiguousarray(array.astype(dtype))


def to_record(event: Event) -> tuple[int, bytes]:
    """Return the number of a batch's schema and its bytes, as a log keeps them.

    Examples
    --------
    >>> number, data = to_record(event_of(PagesRemoved, page=[3, 4]))
    >>> from_record(number, data)
    PagesRemoved(page=array([3, 4]))
    """
    kind = type(event)
    numbers = _RECORDS.get(kind)
    data = packed(to_arrow(event)) if numbers is None else numbers.pack(event)
    return SCHEMA_ID[kind], data


def from_record(schema_id: int, data: bytes | memoryview) -> Event:
    """Return the batch in bytes that `to_record` made; numbers are not copied.

    Bytes that cannot be such a batch are an `EventError`.  Numbers that were changed are not
    noticed: logs have checksums for that.
    """
    kind = _kind_of(schema_id)
    numbers = _RECORDS.get(kind)
    if numbers is None:
        return from_arrow(unpacked(data, _ARROW_SCHEMAS[kind]), schema_id, check=False)
    return _of_columns(kind, numbers.unpack(data))


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
