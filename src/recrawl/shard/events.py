"""Events of a shard: batches as columns, each kind of event with a numbered schema.

A batch is a `NamedTuple` of equally long arrays, one row per event.  It is exchanged as an Arrow
record batch, and written to a log as the message of that batch alone (`to_record`), with the number
of its schema beside it, so that newer versions can read older logs.  Instants are milliseconds
since 1970, 0 for none.

A page's number consists of its slot and the slot's generation (`page_of`); an event of a page that
has since been removed is void.  Columns that several kinds have mean the same in each:

``page``
    Number of the page.
``group``
    Number of the politeness group.
``kind``
    Number of the kind of page, which determines its prior and weight.
``source``
    Number of the source of signals.
``order``
    Number of the order; orders are numbered consecutively.  0 for none.
``epoch``
    Epoch of the node that decides; rows of another epoch than the owner's are void.
``at_ms``
    Time of the event.
``importance``
    Value of a second of freshness, relative to other pages.
``cost``
    Cost of one fetch, relative to other pages.
``expires_at_ms``
    When the order ends if no report arrives.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.errors import EventError, UnknownEvent
from recrawl.shard.state.tables import F32, F64, I64, U8, U16, U32, U64, dtypes_of
from recrawl.shard.wire import NumberRecords, pack_batch, unpack_batch

__all__ = [
    "SCHEDULE_STALE_SECONDS",
    "SCHEMAS",
    "BudgetSet",
    "Claimed",
    "ClockReset",
    "Closed",
    "CostsSet",
    "CreditSet",
    "CurvesSet",
    "DomainsSet",
    "Event",
    "GroupsBlocked",
    "GroupsSet",
    "GroupsSplit",
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
    "QuotaSet",
    "RequestsSeen",
    "RunBudgetSet",
    "RunChosen",
    "SettingsSet",
    "Signals",
    "SourcesSet",
    "Ticked",
    "WindowsGranted",
    "WindowsSet",
    "arrow_schema_of",
    "decode_events",
    "encode_events",
    "event_of",
    "freeze_columns",
    "from_arrow",
    "from_record",
    "page_of",
    "select_rows",
    "slot_of_page",
    "to_arrow",
    "to_record",
]

TEXT = NDArray[np.str_]

SCHEDULE_STALE_SECONDS = float("inf")
"""``stale_seconds`` of `LimitsSet` that, with probability 0, marks intervals as a schedule: audits
may fetch in between.  As a staleness limit it would limit nothing."""


class PagesAdded(NamedTuple):
    """Adds pages, in slots that `Shard.free_pages` returned.  From users."""

    page: I64
    """Number that `Shard.free_pages` returned."""
    group: U32
    kind: U16
    importance: F32
    cost: F32
    at_ms: I64
    """When the page was found."""


class PagesRemoved(NamedTuple):
    """Stops tracking pages; their slots may be reused.  From users."""

    page: I64


class ImportanceSet(NamedTuple):
    """Sets the importance of pages, relative to each other.  From users."""

    page: I64
    importance: F32


class CostsSet(NamedTuple):
    """Sets the cost of fetching pages, relative to each other.  From users."""

    page: I64
    cost: F32


class KindsSet(NamedTuple):
    """Sets the kind of pages; their beliefs move to the prior of that kind.  From users."""

    page: I64
    kind: U16


class LimitsSet(NamedTuple):
    """Sets shortest and longest intervals and staleness promises of pages.

    With infinite ``stale_seconds`` and probability 0, as hold-outs set them, audits may fetch the
    pages before their shortest interval is over.  From users and hold-outs.
    """

    page: I64
    interval_seconds_min: F64
    """Shortest interval between fetches."""
    interval_seconds_max: F64
    """Longest interval between fetches; inf for unlimited."""
    stale_seconds: F64
    """Staleness promise: the copy is stale for longer than this …"""
    stale_probability: F64
    """… with at most this probability; 0 for no promise."""


class Outcomes(NamedTuple):
    """Reports the outcomes of fetches, with or without (0) an order.  From fetchers."""

    page: I64
    order: I64
    """Order of the fetch; 0 for none."""
    fetched_at_ms: I64
    """When the page was fetched, by the clock of the fetcher."""
    verdict: U8
    """`recrawl.shard.state.status.Verdict`."""
    divergence: F32
    """Outdated share of the previous copy; nan if unknown."""
    last_modified_at_ms: I64
    """Last-Modified date that the site sent."""
    status_class: U8
    """First digit of the HTTP status; 0 for none."""
    retry_after_seconds: F32
    """Wait that the site asks for; 0 for none."""


class Signals(NamedTuple):
    """Reports signals: hints from a source that pages changed.  From sources of signals."""

    page: I64
    source: U32
    at_ms: I64
    """When the signal arrived."""
    claimed_at_ms: I64
    """When the page changed, according to the source; 0 if it does not say."""


class RequestsSeen(NamedTuple):
    """Reports requests for copies of pages, counted up to an instant.  From servers of copies."""

    page: I64
    n_requests: F32
    """Number of requests since the last count."""
    at_ms: I64
    """End of the counting."""


class CurvesSet(NamedTuple):
    """Sets how the copies of pages become outdated.

    From users, or a service that compares copies.
    """

    page: I64
    ceiling: F32
    """Share of a copy that is outdated in the end, 0 to 1."""
    ratio: F32
    """Rate at which it becomes outdated, over the change rate."""
    scroll_items: U8
    """Number of items that scroll through the page; 0 for other pages."""


class GroupsSet(NamedTuple):
    """Sets the politeness of groups.  From users, or fetchers that read the rules of a site."""

    group: U32
    delay_ms: U32
    """Delay between fetches."""
    in_flight_max: U16
    """Largest number of fetches at the same time."""
    burst: U16
    """Number of orders without a delay between them, where several may be in flight."""
    blocked_until_ms: I64
    """End of a wait that the site asked for; 0 for none."""
    is_closed: U8
    """1 if its rules forbid fetching or could not be read, else 0."""


class GroupsSplit(NamedTuple):
    """Says that other partitions have pages of these groups, too.  From the node.

    From here on the groups are ordered from only in windows (`WindowsSet`).
    """

    epoch: I64
    group: U32


class GroupsBlocked(NamedTuple):
    """Lets groups rest, because another partition has found that they must.  From the node."""

    epoch: I64
    group: U32
    until_ms: I64
    """Time before which nothing is ordered; void if the group rests longer already."""


class WindowsGranted(NamedTuple):
    """Grants windows of split groups to partitions, each after the end of the one before.

    From the node, in the home partition of the group.
    """

    epoch: I64
    group: U32
    part: U32
    """Partition that may fetch in the window."""
    from_ms: I64
    """Begin of the window."""
    until_ms: I64
    """End of the window, and of all leases of its orders."""


class WindowsSet(NamedTuple):
    """Sets the windows in which this partition may fetch from split groups.  From the node."""

    epoch: I64
    group: U32
    from_ms: I64
    """Begin of the window."""
    until_ms: I64
    """End of the window; not after its begin if there is no window now."""


class DomainsSet(NamedTuple):
    """Says which hosts belong to one registrable domain.  From the node, and from users."""

    group: U32
    domain: U32
    """Group that keeps the credit of the domain; the group itself for one without others."""
    is_unlimited: U8
    """1 if the pages of the group are never limited as newcomers, else 0."""


class SourcesSet(NamedTuple):
    """Sets the signal quality of sources.  From users."""

    source: U32
    precision: F32
    """Share of its signals that announce a change; nan to learn it."""
    delay_seconds: F32
    """Delay from a change to its signal; nan to learn it."""


class BudgetSet(NamedTuple):
    """Sets the budget and how the price is found; one row.  From users."""

    amount: F64
    """Fetches or cost per period; inf for unlimited."""
    period_seconds: F64
    """Period in seconds; 0 for an amount that may be spent at once, in this run."""
    burst_seconds: F64
    """Seconds of unspent budget that accumulate."""
    unit: U8
    """`recrawl.shard.state.status.BudgetUnit`."""
    price_mode: U8
    """`recrawl.shard.state.status.PriceMode`."""
    price: F64
    """Value that a fetch must reach, if the price is fixed."""


class RunBudgetSet(NamedTuple):
    """Sets a budget for each named run, and how the price is found; one row.  From users."""

    amount: F64
    """Fetches or cost of a run, of all partitions together; above 0 and finite."""
    unit: U8
    """`recrawl.shard.state.status.BudgetUnit`."""
    price_mode: U8
    """`recrawl.shard.state.status.PriceMode`."""
    price: F64
    """Value that a fetch must reach, if the price is fixed."""


class RunChosen(NamedTuple):
    """Begins or continues a named run, from whose budget all later orders are paid; one row.

    Void unless the budget is per run.  From the node.
    """

    epoch: I64
    run: U64
    """Number of the run, made from its name; above 0."""
    amount: F64
    """Fetches or cost that this partition may spend in the run, with what it has spent before."""


class CreditSet(NamedTuple):
    """Sets the unspent budget, which stays within what may be saved up; one row.

    From the node, which moves budget between partitions or begins with a new one.
    """

    credit: F64
    """Fetches or cost that may be spent now."""


class QuotaSet(NamedTuple):
    """Sets what this partition may spend of the budget of a cluster; one row.

    Unspent budget stays as it is, or falls to what may now be saved up.  From the node.
    """

    epoch: I64
    at_ms: I64
    per_second: F64
    """Fetches or cost per second; inf for unlimited."""
    period_seconds: F64
    """Unit of time in which the user gave the budget; 0 for none."""
    burst_seconds: F64
    """Seconds of unspent budget that accumulate."""
    unit: U8
    """`recrawl.shard.state.status.BudgetUnit`."""
    price_mode: U8
    """`recrawl.shard.state.status.PriceMode`."""
    price: F64
    """Value that a fetch must reach, if the price is fixed."""


class SettingsSet(NamedTuple):
    """Sets the settings of the shard; one row.  From users."""

    settings: TEXT
    """`ShardSettings` as JSON."""


class PriorsSet(NamedTuple):
    """Sets the priors that the node learned for kinds of pages.

    From the node (`Shard.learn_priors`).
    """

    epoch: I64
    kind: U16
    shape: F64
    """Shape of the gamma belief about change rates."""
    seconds: F64
    """Seconds of that belief."""


class KindsWeighted(NamedTuple):
    """Sets factors on the importance of all pages of a kind, by which kinds share the budget.

    From the node (`Shard.weigh_kinds`).
    """

    epoch: I64
    kind: U16
    weight: F32
    """Positive factor; 1 leaves importance as it is."""


class Ordered(NamedTuple):
    """Orders fetches of pages: proposed, logged, and only then handed out.

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
    """Extends leases.  From fetchers that need longer."""

    order: I64
    expires_at_ms: I64


class LeasesReleased(NamedTuple):
    """Gives orders back unfetched.  From fetchers."""

    order: I64


class LeasesExpired(NamedTuple):
    """Ends leases without a report in time.  From the node (`Shard.overdue`)."""

    epoch: I64
    at_ms: I64
    order: I64


class Claimed(NamedTuple):
    """Makes a node the owner of the shard; decisions of lower epochs are void from here on.

    One row.  From the node that takes over.
    """

    owner: U64
    """Number of the node."""
    epoch: I64
    """Epoch of the node, higher than that of the previous owner, or the claim is void."""
    at_ms: I64


class Closed(NamedTuple):
    """Ends the log of the shard, because its pages move to other partitions; one row.

    Everything after it is void, also claims.  From the owner.
    """

    epoch: I64
    generation: I64
    """Layout generation that the pages move to."""
    n_partitions: I64
    """Number of partitions that they move to."""


class Ticked(NamedTuple):
    """Advances time and records the price; one row.  From the node (`Shard.tick`)."""

    epoch: I64
    at_ms: I64
    """Time of the node."""
    price: F64
    """Value that a fetch had to reach."""


class ClockReset(NamedTuple):
    """Sets time back to an instant, because the clock of the node was ahead; one row.

    Every instant after it moves back by as much as time does; earlier instants stay.  From users.
    """

    epoch: I64
    at_ms: I64
    """The new time; void unless it is before the present one."""


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
    | DomainsSet
    | RunBudgetSet
    | RunChosen
    | CreditSet
    | ClockReset
    | QuotaSet
    | GroupsSplit
    | GroupsBlocked
    | WindowsGranted
    | WindowsSet
    | Closed
)

# Numbers never change: a kind whose columns change gets a new one, and the old stays readable.
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
    30: DomainsSet,
    35: RunBudgetSet,
    36: RunChosen,
    37: CreditSet,
    43: ClockReset,
    50: QuotaSet,
    60: GroupsSplit,
    61: GroupsBlocked,
    62: WindowsGranted,
    63: WindowsSet,
    70: Closed,
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
    """Return the Arrow schema of a kind of event: its columns in order, none of them null."""
    return _ARROW_SCHEMAS[kind]


def page_of(slot: Any, generation: Any) -> Any:
    """Return the page number of a slot and its generation."""
    return np.asarray(slot, np.int64) | (np.asarray(generation, np.int64) << 32)


def slot_of_page(page: Any) -> Any:
    """Return the slot of a page number."""
    return np.asarray(page, np.int64) & 0xFFFFFFFF


_E = TypeVar("_E", bound=Event)


def event_of(kind: type[_E], /, **columns: Any) -> _E:
    """Return a batch of one kind from arrays, lists or scalars, broadcast against each other.

    Examples
    --------
    >>> event_of(ImportanceSet, page=[0, 1, 2], importance=2.0).importance
    array([2., 2., 2.], dtype=float32)
    """
    names: dict[str, np.dtype[Any]] = DTYPES[kind]  # type: ignore[index]
    if columns.keys() != names.keys():
        wrong = ", ".join(sorted(columns.keys() ^ names.keys()))
        raise TypeError(
            f"{kind.__name__} has columns {', '.join(names)}; missing or unknown: {wrong}"
        )
    arrays = [np.asarray(columns[name], dtype) for name, dtype in names.items()]
    n_rows = max(array.size if array.ndim else 1 for array in arrays)
    if any(array.ndim == 1 and array.size == 0 for array in arrays):
        n_rows = 0
    return _make_event(kind, [_as_column(array, n_rows) for array in arrays])


def _as_column(array: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if array.shape == (n_rows,) and array.flags.c_contiguous:
        return array
    if array.size == 1:
        return np.full(n_rows, array.reshape(()), array.dtype)
    if array.shape != (n_rows,):
        raise ValueError(f"columns must have {n_rows} rows, got {array.shape}")
    return np.ascontiguousarray(array)


def _make_event(kind: type[_E], columns: Iterable[Any]) -> _E:
    make: Any = kind
    event: _E = make(*columns)
    return event


def select_rows(event: _E, rows: Any) -> _E:
    """Return some rows of a batch: a slice, a mask or row numbers."""
    return _make_event(type(event), (column[rows] for column in event))


_flags_of = attrgetter("flags.num")
# Contiguous, aligned or not, not writeable; also contiguous by columns, and owner of its memory.
_FROZEN = {0x001 | aligned | more for aligned in (0, 0x100) for more in (0, 2, 4, 6)}


def freeze_columns(event: _E) -> _E:
    """Return the batch with read-only columns, like those read from a log.

    Kernels are then compiled for one kind of array, not for two.
    """
    if {*map(_flags_of, event)} <= _FROZEN:
        return event
    columns = [np.ascontiguousarray(column).view() for column in event]
    for column in columns:
        column.setflags(write=False)
    return _make_event(type(event), columns)


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
        Batch with the columns of its schema in any order, and perhaps others; null becomes nan,
        0 or an empty string.
    schema_id
        Number of the schema; by default from the metadata of the batch.
    check
        Whether to validate the columns; not needed after ``batch.validate(full=True)``.
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
        raise EventError(f"the batch lacks columns of {kind.__name__}: {error}") from error
    return _make_event(kind, columns)


def _kind_of(schema_id: int) -> type[Event]:
    kind = SCHEMAS.get(schema_id)
    if kind is None:
        raise UnknownEvent(
            f"schema must be one of {_schema_ranges()}, got {schema_id!r}: a newer version of "
            "recrawl wrote this record; upgrade this one"
        )
    return kind


def _schema_ranges() -> str:
    """Return the numbers of all schemas as text, such as "1 to 22, 35 to 37"."""
    numbers = sorted(SCHEMAS)
    firsts = [n for n in numbers if n - 1 not in SCHEMAS]
    ends = [n for n in numbers if n + 1 not in SCHEMAS]
    return ", ".join(f"{first} to {end}" for first, end in zip(firsts, ends, strict=True))


def _column_of(column: pa.Array, type_: pa.DataType, dtype: np.dtype[Any], check: bool) -> Any:
    """Return a column as a numpy array; one of another type is cast if that is lossless."""
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
    """Return the schema number and the bytes of a batch, for a log.

    Examples
    --------
    >>> number, data = to_record(event_of(PagesRemoved, page=[3, 4]))
    >>> from_record(number, data)
    PagesRemoved(page=array([3, 4]))
    """
    kind = type(event)
    numbers = _RECORDS.get(kind)
    data = pack_batch(to_arrow(event)) if numbers is None else numbers.pack(event)
    return SCHEMA_ID[kind], data


def from_record(schema_id: int, data: bytes | memoryview) -> Event:
    """Return the batch in bytes that `to_record` made; numbers are not copied.

    Raises `EventError` for bytes that are not such a batch.  Changed numbers are not detected: logs
    have checksums for that.
    """
    kind = _kind_of(schema_id)
    numbers = _RECORDS.get(kind)
    if numbers is None:
        return from_arrow(unpack_batch(data, _ARROW_SCHEMAS[kind]), schema_id, check=False)
    return _make_event(kind, numbers.unpack(data))


def encode_events(events: Iterable[Event]) -> bytes:
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


def decode_events(data: bytes) -> list[Event]:
    """Return the events in bytes that `encode_events` made."""
    events = []
    position = 0
    view = pa.py_buffer(data)
    while position < len(data):
        size = int.from_bytes(data[position : position + 8], "little")
        position += 8
        if position + size > len(data):
            left = len(data) - position
            raise EventError(f"a batch must have {size} bytes, got {left}: it is truncated")
        try:
            with pa.ipc.open_stream(view.slice(position, size)) as reader:
                events += [from_arrow(batch) for batch in reader]
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise EventError(f"the bytes are not an Arrow stream: {error}") from error
        position += size
    return events
