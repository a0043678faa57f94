"""The whole state of a shard as tables of named columns; a snapshot contains just these.

A table is a `NamedTuple` of equally long arrays, so that kernels take it as one
argument.  Tables grow by doubling.  The operating system allocates no memory for columns that are
still zero: a corpus without signals or requests does not pay for their columns.
"""

from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AUDIT_COLUMNS",
    "GROUP_CLOSED",
    "GROUP_HAS_POLICY",
    "GROUP_SPLIT",
    "GROUP_UNLIMITED",
    "RESULT_COLUMNS",
    "RUNS_MAX",
    "SOURCE_DELAY_GIVEN",
    "SOURCE_HEARD",
    "SOURCE_PRECISION_GIVEN",
    "TABLES",
    "Groups",
    "Leases",
    "Limits",
    "Links",
    "Pages",
    "Priors",
    "Registers",
    "Runs",
    "Sources",
    "Tables",
    "bytes_per_row",
    "dtypes_of",
    "grow_table",
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
    """Pages, one row per slot: 8 hot, 8 warm, 4 group and 58 cold bytes a page.

    The sweep reads the hot column of all pages and other columns only of pages that are about to be
    due.  An event reads the columns of its own pages.  The columns of signals (23 bytes), curves
    (3), requests (12) and newcomers (4) take memory only in a corpus that has any.  Instants are
    shard seconds, 0 for never.
    """

    word: U64
    """Hot: what the sweep needs, packed into 8 bytes; see `recrawl.shard.state.words`."""
    fetched_at: U32
    """Warm: time of the last fetch; the word has the effective time, which signals move."""
    belief_shape: U16
    """Warm: shape of the belief about the rate of unsignalled changes, coded."""
    belief_seconds: U16
    """Warm: seconds of that belief, coded."""
    group: U32
    """The politeness group."""
    surprise: I8
    """Cold: surprise of the last poll (`recrawl.core.belief.memory`) in 1/127; 0 for no poll."""
    generation: U8
    """Cold: number of times the slot was reused for another page, modulo 256."""
    status: U8
    """Cold: `recrawl.shard.state.status.PageStatus`."""
    errors: U8
    """Cold: number of transient errors, or of polls that found the page gone, in a row."""
    importance: U16
    """Cold: importance set by the user, log2 in steps of 1/1024."""
    cost: U16
    """Cold: cost set by the user, coded likewise."""
    kind: U16
    """Cold: the kind of page, which determines its prior."""
    limits: U16
    """Cold: row of `Limits`."""
    first_seen: U32
    """Cold: when the page was added."""
    not_before: U32
    """Cold: earliest time to order it again after an error."""
    ceiling: U8
    """Cold: share of the copy that becomes outdated in the end, in 1/255; 0 for unknown (all)."""
    ratio: U8
    """Cold: rate of divergence over change rate, log2 in steps of 1/16; 0 for unknown (1)."""
    curve: U8
    """Cold: number of items that scroll through the page; 0 for other pages."""
    n_sources: U8
    """Cold: number of sources that ever signalled the page."""
    source: U32
    """Cold: the first of these sources; the others are in `Links`."""
    n_signals: U16
    """Cold: number of signals of that source since the last fetch."""
    signal_count: F32
    """Cold: number of all signals of that source."""
    claimed_at: U32
    """Cold: latest time of change that one of its signals claimed."""
    heard_at: U32
    """Cold: arrival of the last signal of any source."""
    requests: F32
    """Cold: requests counted, discounted to ``requested_at``."""
    request_seconds: F32
    """Cold: seconds during which requests were counted, discounted likewise."""
    requested_at: U32
    """Cold: when requests were last counted."""
    newcomer_until: U32
    """Cold: until when the page is a newcomer (`recrawl.shard.apply.newcomers`); 0 for never."""


class Links(NamedTuple):
    """Sources of pages beyond the first: 22 bytes a row, a hash table with open addressing.

    ``key`` is 1 + slot × 8 + k for the k-th further source of a page; 0 is an empty row.
    """

    key: U64
    source: U32
    n_signals: U16
    signal_count: F32
    claimed_at: U32


class Groups(NamedTuple):
    """Groups of pages that share a politeness policy: 148 bytes each; instants in milliseconds.

    The hosts of one registrable domain share the credit of their newcomers: the columns from
    ``domain_pages`` to ``credited_order`` count only in the row of the group that keeps the credit.
    """

    ready_at: I64
    """When the next fetch may begin, unless the limit of fetches in flight is reached."""
    blocked_until: I64
    """Time before which nothing is ordered: the site asked for it, or returned too many errors."""
    delay_ms: U32
    """Delay from a report to the next order, or between orders where several may be in flight."""
    in_flight: U16
    in_flight_max: U16
    burst: U16
    """Number of orders without a delay between them, where several may be in flight."""
    n_errors: U8
    """Number of transient errors in a row."""
    flags: U8
    """Bits: `GROUP_HAS_POLICY`, `GROUP_CLOSED`, `GROUP_UNLIMITED`, `GROUP_SPLIT`."""
    n_pages: U32
    domain: U32
    """1 + the group that keeps the credit of the domain; 0 for the group itself."""
    domain_pages: U32
    """Number of pages of the domain."""
    growth_pages: U32
    """Number of pages that the domain's normal growth is a share of."""
    growth_until: I64
    """Time until which the normal growth of the domain is used up."""
    newcomer_credit: F32
    """Number of orders that newcomers of the domain may have, when it was last updated."""
    credited_order: I64
    """``Registers.n_ordered`` when the credit was last updated."""
    window_at: I64
    """Begin of the window in which this part of a split group may fetch; 0 for none."""
    window_until: I64
    """End of that window: no lease of the group lasts longer."""
    granted_until: I64
    """End of the last window that was granted to any part; only in the home partition."""
    n_audited: U32
    """Number of audits of the group's pages that showed whether the copy was fresh."""
    n_audited_fresh: U32
    """Number of those that found it fresh."""
    audited_modelled: F64
    """Sum of the modelled freshness of the audited copies, just before they were fetched."""
    audited_variance: F64
    """Sum of f(1 - f), where f is that modelled freshness: variance of ``n_audited_fresh``."""
    n_first: U32
    """Number of fetches that got the first copy of a page."""
    n_unchanged: U32
    """Number of fetches that found no change."""
    n_changed: U32
    """Number of fetches that found a change of a page, or a page that was gone."""
    n_gone: U32
    """Number of fetches that did not find the page, or found that it has moved."""
    n_disallowed: U32
    """Number of outcomes of pages that the site's rules forbid to fetch."""
    n_failed: U32
    """Number of transient errors."""
    n_wrong_answer: U32
    """Number of answers that were not the page."""
    spent: F64
    """Budget that reported fetches have used, in fetches or cost."""


class Sources(NamedTuple):
    """Sources of signals and their quality: 69 bytes a source."""

    true: F64
    """Signals that announced a change, without the prior's (`SourceCounts`)."""
    total: F64
    delay_seconds: F64
    n_delays: F64
    n_signals: F64
    given_precision: F32
    given_delay: F32
    flags: U8
    """Bits: `SOURCE_HEARD`, `SOURCE_PRECISION_GIVEN`, `SOURCE_DELAY_GIVEN`."""
    n_tested: F32
    """Number of fetches that showed whether its signals about a page were true."""
    n_untested: F32
    """Number of pages that signals moved forward before the source was tested enough."""
    precision_used: F32
    """Largest precision since its signals were last weighed anew; 0 if they never were."""
    worse_evidence: F32
    """Evidence that the precision has fallen (`recrawl.core.signal_quality.shift`); 0 for none."""
    better_evidence: F32
    """Evidence that the precision has risen."""


class Leases(NamedTuple):
    """Orders handed out and still remembered: a ring buffer by order number, 30 bytes a row."""

    page: I64
    ordered_at: I64
    expires_at: I64
    stage: U8
    """`recrawl.shard.state.status.LeaseStage`."""
    reason: U8
    """`recrawl.shard.state.status.Reason`."""
    group: U32


class Limits(NamedTuple):
    """Interval limits and staleness limits of pages, one row of 32 bytes per distinct set.

    Row 0 has no limits.
    """

    interval_min: F64
    interval_max: F64
    """Infinite for none."""
    stale_for: F64
    stale_probability: F64
    """0 for no staleness limit."""


class Priors(NamedTuple):
    """Prior belief about a page of each kind, weight and counts of the kind: 130 bytes a kind.

    Beliefs of slots below the register ``rebased_to`` start from the new prior, those of the other
    slots from the old one.
    """

    old_shape: F64
    old_seconds: F64
    shape: F64
    seconds: F64
    weight: U16
    """Factor on the importance of pages of the kind, log2 in steps of 1/1024."""
    n_audited: I64
    """Number of audits of pages of the kind, as in `Groups`."""
    n_audited_fresh: I64
    audited_modelled: F64
    audited_variance: F64
    n_first: I64
    """Results of fetches of pages of the kind, and the budget spent on them, as in `Groups`."""
    n_unchanged: I64
    n_changed: I64
    n_gone: I64
    n_disallowed: I64
    n_failed: I64
    n_wrong_answer: I64
    spent: F64


class Runs(NamedTuple):
    """The latest named runs and what each has spent: 24 bytes a run, `RUNS_MAX` rows.

    The spending of the present run is in the registers: ``credit_max`` less ``credit``.
    """

    run: U64
    """Number of the run, made from its name; 0 for an empty row."""
    spent: F64
    """Fetches or cost, without that of the present run since it was chosen."""
    used_at: I64
    """Shard time in milliseconds when the run was last chosen; the oldest run makes room."""


class Registers(NamedTuple):
    """Single values of a shard; each column has one row."""

    now: I64
    """Shard time in milliseconds since 1970: the latest tick."""
    epoch: I64
    """Epoch of the owner."""
    owner: U64
    n_slots: I64
    """Number of slots ever used."""
    n_pages: I64
    free_slot: I64
    """1 + the first free slot, 0 for none; the word of a free slot holds the next one."""
    n_free: I64
    first_order: I64
    next_order: I64
    lease_ms_min: I64
    """Length of the shortest lease ever given."""
    n_limits: I64
    n_links: I64
    rebased_to: I64
    """First slot whose belief starts from the old prior; see `Priors`."""
    price: F64
    """Price at the latest tick, in value per fetch."""
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
    """Number of outcomes that showed whether a page had changed."""
    n_changed: I64
    memory_lost: F64
    """log2 of ``memory_changes_max`` over the present length of memory."""
    n_signals: I64
    n_audited: I64
    """Number of audit orders that showed whether the copy was fresh."""
    n_audited_fresh: I64
    """Number of those that found it fresh."""
    audited_modelled: F64
    """Sum of the modelled freshness of the audited copies, as in `Groups`."""
    audited_variance: F64
    n_void: I64
    """Number of rows of events that were ignored."""
    growth_pages: I64
    """Number of pages that the normal growth of the shard is a share of."""
    growth_until: I64
    """Time until which the normal growth of the shard is used up, in milliseconds."""
    newcomers_until: I64
    """When the last newcomer stops to be one, in shard seconds."""
    newcomer_credit: F64
    """Number of orders that all newcomers together may have now."""
    n_newcomers_ordered: I64
    """Number of orders of newcomers."""
    reage_from: I64
    """Slot of the next page whose signals are weighed anew."""
    n_to_reage: I64
    """Number of slots, from that one on, whose signals are still to be weighed anew."""
    budget_period: F64
    """Unit of time in which the user gave the budget, in seconds; 0 for none or unknown."""
    run_budget: F64
    """Fetches or cost of each named run of the whole corpus; 0 for a budget per unit of time."""
    run: U64
    """Number of the present run; 0 for none."""


class Tables(NamedTuple):
    """The whole state of a shard."""

    pages: Pages
    links: Links
    groups: Groups
    sources: Sources
    leases: Leases
    limits: Limits
    priors: Priors
    runs: Runs
    registers: Registers


TABLES: dict[str, type] = dict(
    zip(
        Tables._fields,
        (Pages, Links, Groups, Sources, Leases, Limits, Priors, Runs, Registers),
        strict=True,
    )
)

RUNS_MAX = 256
"""Number of named runs whose spending a shard remembers."""
GROUP_HAS_POLICY = 1
"""Bit of `Groups.flags`: the group has a politeness policy of its own."""
GROUP_CLOSED = 2
"""Bit of `Groups.flags`: no page of the group may be ordered."""
GROUP_UNLIMITED = 4
"""Bit of `Groups.flags`: pages added to the group are never newcomers."""
GROUP_SPLIT = 8
"""Bit of `Groups.flags`: other partitions have pages of the group, so it is ordered from only in
granted windows."""
SOURCE_HEARD = 1
"""Bit of `Sources.flags`: a signal of the source has arrived."""
SOURCE_PRECISION_GIVEN = 2
"""Bit of `Sources.flags`: the user gave the precision; it is not learned."""
SOURCE_DELAY_GIVEN = 4
"""Bit of `Sources.flags`: the user gave the delay; it is not learned."""

RESULT_COLUMNS = (
    *("n_first", "n_unchanged", "n_changed", "n_gone"),
    *("n_disallowed", "n_failed", "n_wrong_answer"),
)
"""Columns of `Groups` and `Priors` that count fetches by their result."""
AUDIT_COLUMNS = ("n_audited", "n_audited_fresh", "audited_modelled", "audited_variance")
"""Columns of `Groups`, `Priors` and `Registers` that count audits."""

T = TypeVar("T", bound=tuple)  # type: ignore[type-arg]


def dtypes_of(table: type) -> "dict[str, np.dtype[Any]]":
    """Return the type of each column of a table class."""
    # NDArray[np.uint8] is ndarray[shape, dtype[np.uint8]].
    columns = table.__annotations__.items()
    return {name: np.dtype(get_args(get_args(array)[1])[0]) for name, array in columns}


def zeros(table: type[T], n_rows: int) -> T:
    """Return a table of ``n_rows`` rows of zeros."""
    return table(*(np.zeros(n_rows, dtype) for dtype in dtypes_of(table).values()))


def grow_table(table: T, n_rows: int) -> T:
    """Return the table with room for ``n_rows``: itself, or a copy of twice the size or more."""
    size = table[0].size
    if n_rows <= size:
        return table
    larger = zeros(type(table), max(n_rows, 2 * size))
    for old, new in zip(table, larger, strict=True):
        new[:size] = old
    return larger


def bytes_per_row(table: type) -> dict[str, int]:
    """Return the bytes per row of each column of a table class."""
    return {name: dtype.itemsize for name, dtype in dtypes_of(table).items()}
