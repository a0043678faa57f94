"""All pages of a corpus as a stream of Arrow batches, with what `Corpus.explain` says of each.

Memory holds one batch at a time, and the numbers come from the kernels that `explain` uses.  Other
threads continue between two batches, so a page added or removed meanwhile may or may not appear.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.core.belief.codes import decode_of
from recrawl.core.kernel import table_kernel
from recrawl.messages.views import PageRows
from recrawl.node.node import Node
from recrawl.node.open_nodes import OpenNodes
from recrawl.shard import Shard
from recrawl.shard.due import Terms, log2_value_of, page_due_of
from recrawl.shard.state.codes import evident_last_of, log2_of_code, rate_of, signal_totals_of
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import LeaseStage, PageStatus
from recrawl.shard.state.tables import Limits, Links, Pages, Sources
from recrawl.shard.state.words import EPOCH_SECONDS, log2_period_of, shape_of
from recrawl.store import Names
from recrawl.urls import split_page_names

__all__ = [
    "PAGE_COLUMNS",
    "ROWS_PER_BATCH_MAX",
    "PageRows",
    "page_batches",
    "page_cursor",
    "page_rows_after",
    "page_rows_of",
    "parse_page_cursor",
]

ROWS_PER_BATCH_MAX = 1 << 20
"""Largest number of slots in one batch."""
PAGE_COLUMNS = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("fetch_url", pa.string()),
        pa.field("group", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("importance", pa.float64(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("added_at_ms", pa.int64(), nullable=False),
        pa.field("fetched_at_ms", pa.int64()),
        pa.field("errors", pa.int64(), nullable=False),
        pa.field("is_in_flight", pa.bool_(), nullable=False),
        pa.field("interval_seconds_min", pa.float64(), nullable=False),
        pa.field("interval_seconds_max", pa.float64()),
        pa.field("stale_seconds", pa.float64()),
        pa.field("stale_probability", pa.float64()),
        pa.field("belief_shape", pa.float64(), nullable=False),
        pa.field("belief_seconds", pa.float64(), nullable=False),
        pa.field("change_rate_per_second", pa.float64(), nullable=False),
        pa.field("freshness_probability", pa.float64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("due_at_ms", pa.int64()),
        pa.field("etag", pa.binary()),
        pa.field("last_modified", pa.binary()),
        pa.field("digest", pa.binary()),
        pa.field("moved_to", pa.string()),
        pa.field("doc_id", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("key", pa.string()),
    ]
)
"""Columns of all pages, with names as in `recrawl.shard.Explanation`; null for never, none or not
set.  ``digest`` is the latest one, ``metadata`` a JSON object as text."""

_STATUSES = pa.array([status.name.lower() for status in sorted(PageStatus)], pa.string())
_RECORD_NAMES = {"etag", "last_modified", "digest", "moved_to"}
_USER_DATA_NAMES = {"doc_id", "metadata"}


class _Modelled(NamedTuple):
    """Columns that the model computes, one row per page."""

    importance: FloatArray
    cost: FloatArray
    belief_shape: FloatArray
    belief_seconds: FloatArray
    change_rate_per_second: FloatArray
    freshness_probability: FloatArray
    value: FloatArray
    due_at: FloatArray
    """Shard seconds; inf for never."""


_MODEL_NAMES = {*_Modelled._fields, "due_at_ms"}


@table_kernel
def _model(
    pages: Pages,
    links: Links,
    sources: Sources,
    limits: Limits,
    rules: Rules,
    terms: Terms,
    log2_price: float,
    now: float,
    slots: RowArray,
    out: _Modelled,
) -> None:
    for i in range(slots.size):
        slot = slots[i]
        word = pages.word[slot]
        out.importance[i] = math.exp2(log2_of_code(pages.importance[slot]))
        out.cost[i] = math.exp2(log2_of_code(pages.cost[slot]))
        shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
        out.belief_shape[i] = shape
        out.belief_seconds[i] = seconds
        true_rate, _ = signal_totals_of(pages, links, sources, rules, slot, now)
        out.change_rate_per_second[i] = rate_of(pages, rules, slot)[0] + true_rate
        out.freshness_probability[i] = 0.0
        if pages.fetched_at[slot] > 0:
            coded = float(rules.shapes[shape_of(word)])
            last = evident_last_of(pages, links, sources, rules, slot)
            age = max(now - last, 0.0) * math.exp2(-log2_period_of(word))
            out.freshness_probability[i] = math.exp(-coded * math.log1p(age / coded))
        out.value[i] = math.exp2(log2_value_of(word, terms, now))
        out.due_at[i] = page_due_of(pages, limits, slot, terms, log2_price)


def _model_columns(shard: Shard, terms: Terms, slots: RowArray, now_ms: int) -> dict[str, pa.Array]:
    tables = shard.tables
    out = _Modelled(*(np.empty(slots.size) for _ in _Modelled._fields))
    _model(
        tables.pages,
        tables.links,
        tables.sources,
        tables.limits,
        shard.rules,
        terms,
        math.log2(max(shard.price_at(now_ms), 1e-300)),
        now_ms / 1000 - EPOCH_SECONDS,
        slots,
        out,
    )
    columns = {name: pa.array(column) for name, column in out._asdict().items()}
    is_never = ~np.isfinite(out.due_at)
    # A page never fetched is not due before it was added, as in `page_explanation`.
    first = np.where(tables.pages.fetched_at[slots] == 0, tables.pages.first_seen[slots], 0)
    due_at = np.maximum(np.where(is_never, 0.0, out.due_at), first)
    due_ms = np.rint((due_at + EPOCH_SECONDS) * 1000)
    columns["due_at_ms"] = pa.array(due_ms.astype(np.int64), mask=is_never)
    return columns


def _instants(seconds: NDArray[Any]) -> pa.Array:
    """Return shard seconds as milliseconds since 1970, null for never."""
    at_ms = (seconds.astype(np.int64) + EPOCH_SECONDS) * 1000
    return pa.array(at_ms, mask=seconds == 0)


def _table_columns(shard: Shard, page: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns that are in the shard's tables as they are."""
    pages, limits, leases = shard.tables.pages, shard.tables.limits, shard.tables.leases
    slots = page & 0xFFFFFFFF
    row = pages.limits[slots]
    longest = limits.interval_max[row]
    stale = limits.stale_probability[row].astype(np.float64)
    held = leases.page[leases.stage == LeaseStage.IN_FLIGHT]
    return {
        "status": _STATUSES.take(pa.array(pages.status[slots])),
        "added_at_ms": pa.array((pages.first_seen[slots].astype(np.int64) + EPOCH_SECONDS) * 1000),
        "fetched_at_ms": _instants(pages.fetched_at[slots]),
        "errors": pa.array(pages.errors[slots].astype(np.int64)),
        "is_in_flight": pa.array(np.isin(page, held)),
        "interval_seconds_min": pa.array(limits.interval_min[row]),
        "interval_seconds_max": pa.array(longest, mask=~np.isfinite(longest)),
        "stale_seconds": pa.array(limits.stale_for[row].astype(np.float64), mask=stale == 0),
        "stale_probability": pa.array(stale, mask=stale == 0),
    }


def _names(node: Node, what: Names, numbers: NDArray[Any], *, first: int) -> pa.Array:
    """Return the name of each number; numbers below ``first`` have none."""
    found, of_row = np.unique(numbers, return_inverse=True)
    known = found[found >= first].tolist()
    names = [None] * (found.size - len(known)) + node.store.names_of(what, known)
    return pa.array(names, pa.string()).take(pa.array(of_row.ravel()))


def _record_columns(node: Node, page: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns that the store has of the last responses."""
    record = node.store.records_of(page)
    digest = [known[0] if known else None for known in record.digests]
    return {
        "etag": pa.array(record.etag, pa.binary()),
        "last_modified": pa.array(record.last_modified, pa.binary()),
        "digest": pa.array(digest, pa.binary()),
        "moved_to": pa.array(record.moved_to, pa.string()),
    }


class _Partition:
    """The pages of one partition, batch by batch."""

    def __init__(self, node: Node, wanted: Sequence[str], now_ms: int) -> None:
        self._node = node
        self._wanted = wanted
        self._schema = pa.schema([PAGE_COLUMNS.field(name) for name in wanted])
        self._now_ms = max(now_ms, node.shard.now_ms)
        # The shard's own table, which changes in place as fetches show more: a copy has 36 MB.
        with node.lock:
            self._terms = node.shard.current_terms() if _MODEL_NAMES & {*wanted} else None

    def batch(self, first: int, n_slots: int) -> pa.RecordBatch:
        """Return the pages in a range of slots."""
        node, shard = self._node, self._node.shard
        name: pa.Array | None = None
        if {"url", "fetch_url", "key"} & {*self._wanted}:
            page, name = node.store.scan_names(first, n_slots)
        else:
            end = min(first + n_slots, int(shard.tables.registers.n_slots[0]))
            slots = np.arange(first, end)
            page = slots | shard.tables.pages.generation[slots].astype(np.int64) << 32
        # The store may be earlier or later than the shard.
        rows = np.flatnonzero(shard.has_pages(page))
        if rows.size != page.size:
            page, name = page[rows], None if name is None else name.take(pa.array(rows))
        return self.rows_of(page, name)

    def rows_of(self, page: NDArray[np.int64], name: pa.Array | None) -> pa.RecordBatch:
        """Return pages that the shard has; their names may be left out if no column needs them."""
        columns = self._columns(page, name)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._wanted], schema=self._schema
        )

    def _columns(self, page: NDArray[np.int64], name: pa.Array | None) -> dict[str, pa.Array]:
        node, shard, wanted = self._node, self._node.shard, self._wanted
        slots = page & 0xFFFFFFFF
        columns = _table_columns(shard, page)
        url: pa.Array | None = None
        if name is not None:
            key, url = split_page_names(name)
            columns["url"] = url
            columns["key"] = pa.nulls(page.size, pa.string()) if key is None else key
        if "fetch_url" in wanted:
            columns["fetch_url"] = node.store.fetch_urls_of(page, url)
        if "group" in wanted:
            groups = shard.tables.pages.group[slots]
            columns["group"] = _names(node, Names.GROUP, groups, first=0)
        if "kind" in wanted:
            columns["kind"] = _names(node, Names.KIND, shard.tables.pages.kind[slots], first=1)
        if _RECORD_NAMES & {*wanted}:
            columns |= _record_columns(node, page)
        if _USER_DATA_NAMES & {*wanted}:
            found = node.store.user_data_of(page)._asdict()
            columns |= {name: pa.array(rows, pa.string()) for name, rows in found.items()}
        if self._terms is not None:
            columns |= _model_columns(shard, self._terms, slots, self._now_ms)
        return columns


def page_batches(
    nodes: Iterable[Node], columns: Sequence[str] | None, batch: int, now_ms: int
) -> Iterator[pa.RecordBatch]:
    """Yield all pages of a corpus in batches; no batch is empty.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    columns
        Names of `PAGE_COLUMNS`, in the order wanted; all columns by default.
    batch
        Largest number of rows in a batch.
    now_ms
        Current time, in milliseconds since 1970.
    """
    wanted = _check_columns(columns)
    if not 1 <= batch <= ROWS_PER_BATCH_MAX:
        raise ValueError(f"batch must be 1 to {ROWS_PER_BATCH_MAX}, got {batch!r}")
    return _batches(nodes, wanted, batch, now_ms)


def _check_columns(columns: Sequence[str] | None) -> list[str]:
    """Return the names of columns; all of them if None."""
    wanted = list(PAGE_COLUMNS.names if columns is None else columns)
    unknown = [name for name in wanted if name not in PAGE_COLUMNS.names]
    if unknown or not wanted:
        raise ValueError(f"columns must be some of {PAGE_COLUMNS.names}, got {unknown or wanted}")
    return wanted


def page_rows_after(
    nodes: OpenNodes,
    cursor: str | None,
    columns: Sequence[str] | None,
    limit: int,
    now_ms: int,
    *,
    is_one_partition: bool = False,
) -> PageRows:
    """Return at most ``limit`` pages after a cursor; none only if there are no more.

    Parameters
    ----------
    nodes
        Nodes of the open partitions.
    cursor
        Cursor of the rows before; None to begin.
    columns
        Names of `PAGE_COLUMNS`, in the order wanted; all columns if None.
    limit
        Largest number of rows.
    now_ms
        Current time, in milliseconds since 1970.
    is_one_partition
        Whether to list the partition of the cursor alone, which must be open.
    """
    wanted = _check_columns(columns)
    if not 1 <= limit <= ROWS_PER_BATCH_MAX:
        raise ValueError(f"limit must be 1 to {ROWS_PER_BATCH_MAX}, got {limit!r}")
    start, first = parse_page_cursor(cursor, nodes.n_partitions, nodes.generation)
    others = [node for node in nodes if node.partition >= start]
    if is_one_partition:
        others = [nodes[start]]
    for node, after in zip(others, [*others[1:], None], strict=True):
        if node.partition > start:
            first = 0  # the partition of the cursor is not open any more
        part = _Partition(node, wanted, now_ms)
        while first < (n_slots := int(node.shard.tables.registers.n_slots[0])):
            with node.lock:
                found = part.batch(first, limit)
            first += limit
            if found.num_rows:
                has_more = first < n_slots
                if has_more:
                    return PageRows(found, page_cursor(node.partition, first, nodes.generation))
                if after is None:
                    return PageRows(found, None)
                return PageRows(found, page_cursor(after.partition, 0, nodes.generation))
        first = 0
    nothing = pa.schema([PAGE_COLUMNS.field(name) for name in wanted]).empty_table()
    return PageRows(
        pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in nothing.schema], schema=nothing.schema
        ),
        None,
    )


def page_rows_of(
    node: Node, page: NDArray[np.int64], columns: Sequence[str] | None, now_ms: int
) -> pa.RecordBatch:
    """Return some pages of a partition with the columns of `PAGE_COLUMNS`.

    Parameters
    ----------
    node
        Node of the partition.
    page
        Numbers of the pages; those that are no longer tracked are left out.
    columns
        Names of `PAGE_COLUMNS`, in the order wanted; all columns if None.
    now_ms
        Current time, in milliseconds since 1970.
    """
    part = _Partition(node, _check_columns(columns), now_ms)
    names = node.store.page_names_of(page)
    is_named = np.array([name is not None for name in names], np.bool_)
    with node.lock:
        rows = np.flatnonzero(node.shard.has_pages(page) & is_named)
        text = pa.array([names[row] for row in rows.tolist()], pa.binary()).cast(pa.string())
        return part.rows_of(page[rows], text)


def page_cursor(partition: int, slot: int, generation: int) -> str:
    """Return the cursor at which a list of pages continues."""
    return f"{generation}_{partition}_{slot}"


_PAGE_CURSOR = re.compile(r"([0-9]{1,2})_([0-9]{1,4})_([0-9]{1,10})")


def parse_page_cursor(cursor: str | None, n_partitions: int, generation: int) -> tuple[int, int]:
    """Return the partition and the slot at which a list of pages continues."""
    if cursor is None:
        return 0, 0
    found = _PAGE_CURSOR.fullmatch(cursor)
    if found is None or int(found[1]) != generation or int(found[2]) >= n_partitions:
        raise ValueError(f"cursor must be one that a list of this corpus's pages gave: {cursor!r}")
    return int(found[2]), int(found[3])


def _batches(
    nodes: Iterable[Node], wanted: Sequence[str], batch: int, now_ms: int
) -> Iterator[pa.RecordBatch]:
    for node in nodes:
        part = _Partition(node, wanted, now_ms)
        first = 0
        while first < int(node.shard.tables.registers.n_slots[0]):
            with node.lock:
                node.check_open()
                found = part.batch(first, batch)
            first += batch
            if found.num_rows:
                yield found
