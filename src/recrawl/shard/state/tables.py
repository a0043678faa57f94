"""The state of a shard as tables of named columns: what a snapshot holds and nothing else.

A table is a `NamedTuple` of equally long arrays, so that kernels take it whole.  Tables grow by
doubling.  Columns that nothing has written to are zeros, which the operating system keeps no
memory for: a corpus without signals or requests does not pay for their columns.
"""

from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TABLES",
    "Groups",
    "Leases",
    "Limits",
    "Links",
    "Pages",
    "Priors",
    "Registers",
    "Sources",
    "Tables",
    "bytes_per_row",
    "dtypes_of",
    "grown",
    "zeros",
]

U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class Pages(NamedTuple):
    """One row per slot.  Hot 8, warm 8, group 4, cold 54 bytes a page.

    Instants are shard seconds, 0 for never.  Cold columns are touched when something happens to
    their page, and those of signals (23 bytes), curves (3) and requests (12) only where a corpus
    has any.
    """

    word: U64
    """Hot: see `recrawl.shard.state.words`."""
    fetched_at: U32
    """Warm: the true last fetch."""
    belief_shape: U16
    """Warm: code of the belief about the rate of unsignalled changes."""
    belief_seconds: U16
    """Warm."""
    group: U32
    """The politeness group."""
    surprise: I8
    """Cold: of the last poll (`recrawl.core.belief.memory`), in 1/127; 0 without one."""
    generation: U8
    """Cold: how often the slot was given to another page, modulo 256."""
    status: U8
    """Cold: `recrawl.shard.state.status.PageStatus`."""
    errors: U8
    """Cold: transient errors, or polls that found it gone, in a row."""
    importance: U16
    """Cold: as the owner set it, log2 in steps of 1/1024."""
    cost: U16
    """Cold: likewise."""
    kind: U16
    """Cold: the kind of page, whose prior it starts from."""
    limits: U16
    """Cold: row of `Limits`."""
    first_seen: U32
    """Cold: when it was added."""
    not_before: U32
    """Cold: not to be ordered before, after an error."""
    ceiling: U8
    """Cold: share of the copy that goes wrong in the end, in 1/255; 0 for not known (all)."""
    ratio: U8
    """Cold: rate of divergence over change rate, log2 in steps of 1/16; 0 for not known (1)."""
    curve: U8
    """Cold: items that scroll through the page; 0 where its content churns."""
    n_sources: U8
    """Cold: sources that ever signalled the page."""
    source: U32
    """Cold: the first of them; the others stand in `Links`."""
    n_signals: U16
    """Cold: its signals since the last fetch."""
    signal_count: F32
    """Cold: its signals ever."""
    claimed_at: U32
    """Cold: the latest time that one of them claimed."""
    heard_at: U32
    """Cold: when the last signal of any source arrived."""
    requests: F32
    """Cold: requests seen, discounted to ``requested_at``."""
    request_seconds: F32
    """Cold: time they were watched for, discounted."""
    requested_at: U32
    """Cold."""


class Links(NamedTuple):
    """Further sources of pages that have several: 22 bytes a row, open addressing by ``key``.

    ``key`` is 1 + slot × 8 + k for the k-th further source of a page; 0 is an empty row.
    """

    key: U64
    source: U32
    n_signals: U16
    signal_count: F32
    claimed_at: U32


class Groups(NamedTuple):
    """Pages that one politeness rule covers: 32 bytes a group; instants in milliseconds."""

    ready_at: I64
    """When the next fetch may begin, if not more are in flight than may be."""
    blocked_until: I64
    """Asked to wait, or broken until then."""
    delay_ms: U32
    """Between a report and the next order, or between orders where several may be in flight."""
    in_flight: U16
    in_flight_max: U16
    burst: U16
    """Orders that may follow each other at once where several may be in flight."""
    n_errors: U8
    """Transient errors in a row."""
    flags: U8
    """1: has a policy of its own; 2: closed."""
    n_pages: U32


class Sources(NamedTuple):
    """Who signals, and what is known of it: 49 bytes a source."""

    true: F64
    """Signals that announced a change, beyond the prior's (`SourceCounts`)."""
    total: F64
    delay_seconds: F64
    n_delays: F64
    n_signals: F64
    given_precision: F32
    given_delay: F32
    flags: U8
    """1: heard of; 2: precision is given, not learned; 4: delay is given."""


class Leases(NamedTuple):
    """Orders handed out and not yet forgotten: a ring of 30 bytes a row, by order number."""

    page: I64
    ordered_at: I64
    expires_at: I64
    stage: U8
    """`recrawl.shard.state.status.LeaseStage`."""
    reason: U8
    """`recrawl.shard.state.status.Reason`."""
    group: U32


class Limits(NamedTuple):
    """Floors, ceilings and promises, one row per distinct set: 32 bytes; row 0 has none."""

    interval_min: F64
    interval_max: F64
    """Infinite for none."""
    stale_for: F64
    stale_probability: F64
    """0 for no promise."""


class Priors(NamedTuple):
    """What is believed of a page of each kind before any poll, and its weight: 34 bytes a kind.

    Beliefs of slots below the register ``rebased_to`` are relative to the new prior, those of the
    others to the old one.
    """

    old_shape: F64
    old_seconds: F64
    shape: F64
    seconds: F64
    weight: U16
    """Factor on the importance of pages of the kind, log2 in steps of 1/1024."""


class Registers(NamedTuple):
    """What a shard has one of; each column has one row."""

    now: I64
    """Shard time in milliseconds since 1970: the latest tick."""
    epoch: I64
    """Of the owner."""
    owner: U64
    n_slots: I64
    """Slots ever used."""
    n_pages: I64
    free_slot: I64
    """1 + the first free slot; each names the next in its word.  0 for none."""
    n_free: I64
    first_order: I64
    next_order: I64
    lease_ms_min: I64
    """The shortest lease ever given."""
    n_limits: I64
    n_links: I64
    rebased_to: I64
    price: F64
    """At the latest tick, value per fetch."""
    price_mode: I64
    fixed_price: F64
    budget: F64
    """Fetches or cost per second."""
    budget_unit: I64
    credit: F64
    """Fetches or cost that may be spent now."""
    credit_max: F64
    credited_at: I64
    in_flight: I64
    n_ordered: I64
    n_outcomes: I64
    n_polls: I64
    """Outcomes that showed whether a page had changed."""
    n_changed: I64
    memory_lost: F64
    """By how many octaves memory is shorter than it may be."""
    n_signals: I64
    n_audited: I64
    """Audit orders that saw whether the copy was fresh, and how many were."""
    n_audited_fresh: I64
    n_void: I64


class Tables(NamedTuple):
    """All of a shard's state."""

    pages: Pages
    links: Links
    groups: Groups
    sources: Sources
    leases: Leases
    limits: Limits
    priors: Priors
    registers: Registers


TABLES: dict[str, type] = dict(
    zip(
        Tables._fields,
        (Pages, Links, Groups, Sources, Leases, Limits, Priors, Registers),
        strict=True,
    )
)

T = TypeVar("T", bound=tuple)  # type: ignore[type-arg]


def dtypes_of(table: type) -> "dict[str, np.dtype[Any]]":
    """Return the type of each column of a kind of table."""
    # NDArray[np.uint8] is ndarray[shape, dtype[np.uint8]].
    columns = table.__annotations__.items()
    return {name: np.dtype(get_args(get_args(array)[1])[0]) for name, array in columns}


def zeros(table: type[T], n_rows: int) -> T:
    """Return a table of so many rows, all zero."""
    return table(*(np.zeros(n_rows, dtype) for dtype in dtypes_of(table).values()))


def grown(table: T, n_rows: int) -> T:
    """Return the table with room for ``n_rows``: itself, or a copy of twice the size or more."""
    size = table[0].size
    if n_rows <= size:
        return table
    larger = zeros(type(table), max(n_rows, 2 * size))
    for old, new in zip(table, larger, strict=True):
        new[:size] = old
    return larger


def bytes_per_row(table: type) -> dict[str, int]:
    """Return the bytes of each column of a kind of table, per row."""
    return {name: dtype.itemsize for name, dtype in dtypes_of(table).items()}
