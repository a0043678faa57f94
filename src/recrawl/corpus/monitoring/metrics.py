"""Figures of a corpus for monitoring, read often and without holding up its callers.

Each piece is read under the lock of its node, and none takes longer than a few milliseconds,
however large the corpus is: freshness is estimated from a fixed number of pages, and pages are
counted in parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.inspect.page_sample import PageSample, sample_slots
from recrawl.corpus.inspect.stats import demand_curve, n_leases_held, page_totals
from recrawl.errors import LedgerError
from recrawl.node.node import Node
from recrawl.shard.state.status import PageStatus, Verdict

__all__ = ["CorpusMetrics", "read_metrics"]

_PAGES_SAMPLED = 1 << 14
# Pages estimated, and pages counted, while the lock is held once.
_PAGES_AT_ONCE = 1 << 12
_SLOTS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusMetrics:
    """Figures of a corpus for monitoring; counts of events are from its creation on."""

    at_ms: int
    n_pages: int
    pages_by_status: dict[str, int]
    """Number of pages by status: names of `recrawl.shard.PageStatus` in lower case."""
    freshness_modelled: float
    """Estimated share of fresh copies; a page that was never fetched counts as not fresh."""
    weighted_freshness_modelled: float
    """The same, each copy weighted by its importance."""
    n_audited: int
    n_audited_fresh: int
    audited_modelled: float
    """Sum of the modelled freshness of audited copies, each just before it was fetched."""
    audited_variance: float
    """Variance of ``n_audited_fresh`` if the model is right."""
    price: float
    """Price that the value of a fetch must reach; the mean over partitions, weighted by pages."""
    demand_per_second: float | None
    """Fetches or cost per second that pages would spend at this price; None before the first
    lease."""
    budget_unit: Literal["fetches", "cost"]
    budget_per_second: float | None
    """None if unlimited; 0 if the budget is per run."""
    run_budget: float | None
    """Budget of each named run; None if the budget is not per run."""
    credit: float | None
    """Budget that may be spent at once; None if unlimited."""
    n_due: int
    """Pages that are worth the price now or have reached a limit, without those in flight."""
    in_flight: int
    """Orders that a fetcher holds; those whose lease has run out do not count."""
    n_ordered: int
    n_outcomes: int
    n_polls: int
    """Outcomes that showed whether a page had changed."""
    n_changed: int
    n_signals: int
    n_void: int
    """SampleRows of events that were ignored."""
    outcomes_by_verdict: dict[str, int]
    """Number of outcomes since the corpus was opened: names of `recrawl.shard.Verdict` in lower
    case."""
    log_lag_records: int | None
    """Records in the log that other writers appended and this process has not applied yet; None if
    the log does not answer."""
    snapshot_age_seconds: float | None = None
    """Age of the oldest of the partitions' newest snapshots; None if a partition has none."""
    shared_snapshot_age_seconds: float | None = None
    """Time since a snapshot was copied to shared storage, or since the partition was opened if none
    was, of the partition that waits longest; None without such storage."""
    n_records_since_snapshot: int = 0
    """Log records after the snapshots, which a restart replays."""


class _NodeFigures(NamedTuple):
    """What is read of a node while its lock is held once."""

    registers: dict[str, int]
    audited_modelled: float
    audited_variance: float
    price: float
    n_pages: int
    in_flight: int
    n_by_verdict: NDArray[np.int64]
    position: int


_COUNTERS = (
    *("n_ordered", "n_outcomes", "n_polls", "n_changed", "n_signals", "n_void"),
    *("n_audited", "n_audited_fresh"),
)


def _page_totals(node: Node, now_ms: int, n_pages_max: int) -> NDArray[np.float64]:
    """Return the sums of `page_totals` over a sample of the pages, computed in parts."""
    with node.lock:
        terms = node.shard.current_terms()
        slot, n_pages = sample_slots(node.shard.tables, n_pages_max)
    totals = np.zeros(6)
    for first in range(0, slot.size, _PAGES_AT_ONCE):
        part = slice(first, first + _PAGES_AT_ONCE)
        with node.lock:
            sample = PageSample(slot[part], n_pages[part])
            totals += page_totals(node.shard, sample, now_ms, terms)
    return totals


def _read_node(node: Node, now_ms: int) -> _NodeFigures:
    with node.lock:
        shard = node.shard
        registers = shard.tables.registers
        return _NodeFigures(
            {name: int(getattr(registers, name)[0]) for name in _COUNTERS},
            float(registers.audited_modelled[0]),
            float(registers.audited_variance[0]),
            shard.price_at(now_ms),
            shard.n_pages,
            n_leases_held(shard, now_ms),
            node.n_by_verdict.copy(),
            node.position,
        )


def _count_statuses(node: Node) -> NDArray[np.int64]:
    n_by_status = np.zeros(max(PageStatus) + 1, np.int64)
    first = 0
    while True:
        with node.lock:
            tables = node.shard.tables
            end = min(first + _SLOTS_AT_ONCE, int(tables.registers.n_slots[0]))
            if first >= end:
                return n_by_status
            status = tables.pages.status[first:end]
            n_by_status += np.bincount(status, minlength=n_by_status.size)
        first = end


def _demand_at(nodes: Sequence[Node], price: float) -> float | None:
    """Return the spending per second at a price; None if no curve covers it."""
    spent = 0.0
    for node in nodes:
        with node.lock:
            curve = demand_curve([node.shard])
        if not curve.price.size or price <= 0:
            return None
        spent += float(np.interp(np.log(price), np.log(curve.price), curve.spent_per_second))
    return spent


def _log_lag(node: Node, position: int) -> int | None:
    if not node.is_shared and not node.is_reader:
        return 0
    try:
        return max(node.ledger.end - position, 0)
    except LedgerError:
        return None


def read_metrics(nodes: Sequence[Node], *, now_ms: int) -> CorpusMetrics:
    """Return the figures of all partitions together.

    Parameters
    ----------
    nodes
        Nodes of one corpus.
    now_ms
        Current time, in milliseconds since 1970.
    """
    each = max(_PAGES_SAMPLED // len(nodes), 1)
    parts = [_read_node(node, now_ms) for node in nodes]
    totals = np.sum([_page_totals(node, now_ms, each) for node in nodes], axis=0)
    n, importance, fresh, weighted, n_due, _ = totals.tolist()
    by_status = np.sum([_count_statuses(node) for node in nodes], axis=0)
    by_verdict = np.sum([one.n_by_verdict for one in parts], axis=0)
    weight = [max(one.n_pages, 1) for one in parts]
    price = float(np.average([one.price for one in parts], weights=weight))
    lags = [_log_lag(node, one.position) for node, one in zip(nodes, parts, strict=True)]
    budget = BudgetView.of([node.shard for node in nodes], None, now_ms)
    return CorpusMetrics(
        at_ms=now_ms,
        n_pages=sum(one.n_pages for one in parts),
        pages_by_status={
            one.name.lower(): int(by_status[one]) for one in PageStatus if one != PageStatus.FREE
        },
        freshness_modelled=fresh / max(n, 1.0),
        weighted_freshness_modelled=weighted / importance if importance > 0 else 0.0,
        price=price,
        demand_per_second=_demand_at(nodes, price),
        budget_unit=budget.unit,
        budget_per_second=budget.per_second,
        run_budget=budget.run_budget,
        credit=budget.credit,
        n_due=round(n_due),
        in_flight=sum(one.in_flight for one in parts),
        outcomes_by_verdict={one.name.lower(): int(by_verdict[one]) for one in Verdict},
        audited_modelled=sum(one.audited_modelled for one in parts),
        audited_variance=sum(one.audited_variance for one in parts),
        log_lag_records=None if None in lags else sum(filter(None, lags)),
        **{name: sum(one.registers[name] for one in parts) for name in _COUNTERS},
    )
