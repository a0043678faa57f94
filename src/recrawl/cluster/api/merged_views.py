"""Put together what several workers say of their partitions: statistics, changes, plans."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.inspect.hosts import HOSTS_SHOWN_MAX, add_host_views
from recrawl.corpus.inspect.source_table import SOURCES_SHOWN_MAX
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.corpus.plan.corpus_plan import PlanCoverage
from recrawl.corpus.plan.planned_partition import PlannedPartition
from recrawl.messages.views import (
    AuditedFreshness,
    Consumer,
    HostTable,
    HostView,
    PageChange,
    SourceTable,
    Stats,
)
from recrawl.node.config.rates import Money

__all__ = [
    "ChangesOfWorker",
    "merge_changes",
    "merge_consumers",
    "merge_coverage",
    "merge_cursors",
    "merge_host_tables",
    "merge_source_tables",
    "merge_stats",
]

_SUMS: Final = (
    *("n_pages", "n_groups", "in_flight", "n_leases", "n_ordered", "n_outcomes", "n_polls"),
    *("n_changed", "n_signals", "n_void", "n_due", "n_early", "backlog"),
    *("n_texts", "n_baselines", "n_template_changes", "n_wrong_answers"),
)


def merge_stats(
    parts: Sequence[tuple[int, Stats]], *, cost_per_fetch: Money | None, n_away: int
) -> Stats:
    """Return the statistics of several workers as those of one corpus.

    Means over pages are weighted by the number of pages, also that of the weighted freshness.

    Parameters
    ----------
    parts
        Number of partitions and statistics of each worker.
    cost_per_fetch
        Configured price of a fetch.
    n_away
        Number of partitions that could not be reached.
    """
    every = [stats for _, stats in parts]
    sums = {name: sum(getattr(one, name) for one in every) for name in _SUMS}
    audited = AuditedFreshness(
        n_audited=(n := sum(one.audited.n_audited for one in every)),
        n_fresh=(n_fresh := sum(one.audited.n_fresh for one in every)),
        ratio=n_fresh / n if n else None,
        ratio_low=(interval := wilson_interval(n_fresh, n))[0],
        ratio_high=interval[1],
    )
    per_second = _sum_or_none(one.budget_per_second for one in every)
    credit = _sum_or_none(one.credit for one in every)
    first = every[0]
    view = BudgetView(
        unit=first.budget_unit,
        per_second=per_second,
        period_seconds=first.budget_period_seconds,
        run_budget=first.run_budget,
        cost_per_fetch=cost_per_fetch if first.budget_unit == "cost" else None,
        credit=credit,
        credit_max=0.0,
    )
    memory = _sum_or_none(
        None if one.memory_changes is None else n * one.memory_changes for n, one in parts
    )
    fetched = [one.oldest_fetch_at_ms for one in every if one.oldest_fetch_at_ms is not None]
    return replace(
        first,
        at_ms=max(one.at_ms for one in every),
        **sums,
        pages_by_status=_add_up(one.pages_by_status for one in every),
        wrong_answers=_add_up(one.wrong_answers for one in every),
        memory_changes=None if memory is None else memory / sum(n for n, _ in parts),
        audited=audited,
        freshness_modelled=_mean(every, "freshness_modelled", empty=0.0),
        weighted_freshness_modelled=_mean(every, "weighted_freshness_modelled", empty=0.0),
        price=_mean(every, "price", empty=first.price),
        is_sampled=any(one.is_sampled for one in every),
        price_is_fixed=all(one.price_is_fixed for one in every),
        budget=view.text,
        budget_per_second=per_second,
        credit=credit,
        credit_text=None if credit is None else view.amount_text(float(int(max(credit, 0.0)))),
        oldest_fetch_at_ms=min(fetched, default=None),
        clock_held_back_seconds=max(one.clock_held_back_seconds for one in every),
        n_partitions_away=n_away,
    )


def _sum_or_none(values: Iterable[float | None]) -> float | None:
    """Return a sum; None if a value is None, which stands for unlimited."""
    found = list(values)
    return None if None in found else sum(one for one in found if one is not None)


def _mean(parts: Sequence[Stats], name: str, *, empty: float) -> float:
    n_pages = sum(one.n_pages for one in parts)
    if not n_pages:
        return empty
    total: float = sum(getattr(one, name) * one.n_pages for one in parts)
    return total / n_pages


def _add_up(tables: Iterable[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in tables:
        for name, n in table.items():
            found[name] = found.get(name, 0) + n
    return found


def merge_coverage(
    parts: Sequence[PlannedPartition], known: Mapping[int, int], n_partitions: int
) -> PlanCoverage:
    """Return which part of a corpus a plan covers.

    Parameters
    ----------
    parts
        Partitions of the plan, at least one.
    known
        Number of pages of the partitions that were reached before, also of those lost since.
    n_partitions
        Number of partitions of the corpus.
    """
    n_away = n_partitions - len(parts)
    if not n_away:
        return PlanCoverage(n_partitions)
    n_pages = {**known, **{part.partition: part.n_pages for part in parts}}
    n_covered = sum(part.n_pages for part in parts)
    n_unknown = n_partitions - len(n_pages)
    n_total = sum(n_pages.values()) * (1 + n_unknown / len(n_pages))
    share = n_covered / n_total if n_total else len(parts) / n_partitions
    return PlanCoverage(n_partitions, n_away, share)


def merge_source_tables(tables: Sequence[SourceTable]) -> SourceTable:
    """Return the sources of several workers with the most signals."""
    rows = [row for table in tables for row in table.rows]
    rows.sort(key=lambda row: (-row.n_signals, row.group, row.source))
    return SourceTable(rows[:SOURCES_SHOWN_MAX], sum(table.n_sources for table in tables))


def merge_host_tables(tables: Sequence[HostTable]) -> HostTable:
    """Return the hosts of several workers with the most pages; a split host has one row."""
    found: dict[str, HostView] = {}
    n_hosts = sum(table.n_hosts for table in tables)
    for row in (row for table in tables for row in table.rows):
        known = found.get(row.host)
        n_hosts -= known is not None
        found[row.host] = row if known is None else add_host_views(known, row)
    rows = sorted(found.values(), key=lambda row: (-row.n_pages, row.host))
    return HostTable(rows[:HOSTS_SHOWN_MAX], n_hosts)


class ChangesOfWorker(NamedTuple):
    """Changes of the partitions of one worker, oldest first."""

    partitions: Sequence[int]
    changes: Sequence[PageChange]


def merge_changes(after: str, parts: Sequence[ChangesOfWorker], limit: int) -> list[PageChange]:
    """Return the changes of several workers, oldest first, with cursors over all partitions.

    Parameters
    ----------
    after
        Cursor after which all workers were asked.
    parts
        Changes of each worker.
    limit
        Largest number of changes.
    """
    places = after.split("_")
    first = _n_before_places(places)
    found: list[PageChange] = []
    rows = (_own_changes(part) for part in parts)
    for change, partitions in heapq.merge(*rows, key=lambda row: row[0].at_ms):
        if len(found) == limit:
            break
        own = change.cursor.split("_")
        # A worker moves the cursor of its own partitions, also by changes that are not shown.
        for i in partitions:
            places[first + i] = own[first + i]
        found.append(change._replace(cursor="_".join(places)))
    return found


def _n_before_places(parts: Sequence[str]) -> int:
    """Return the number of parts of a cursor before its places: the layout generation, or none."""
    return 1 if parts[0].startswith("g") else 0


def merge_cursors(start: str, parts: Iterable[tuple[Iterable[int], str]]) -> str:
    """Return a cursor with the places of several workers, each in partitions of its own.

    Parameters
    ----------
    start
        Cursor with the places in all other partitions.
    parts
        Partitions of each worker, and its cursor; that is empty if the worker has none.
    """
    places = start.split("_")
    first = _n_before_places(places)
    for partitions, cursor in parts:
        own = cursor.split("_")
        for i in partitions if cursor else ():
            places[first + i] = own[first + i]
    return "_".join(places)


def merge_consumers(
    start: str, parts: Sequence[tuple[Sequence[int], Sequence[Consumer]]]
) -> list[Consumer]:
    """Return the consumers of several workers as those of one corpus, by name.

    Changes of partitions that the first commit of a consumer has not reached are not counted.

    Parameters
    ----------
    start
        Cursor of the oldest changes, where a consumer begins that some worker does not know.
    parts
        Partitions of each worker, and what it says of consumers.
    """
    found: dict[str, list[tuple[Sequence[int], Consumer]]] = {}
    for partitions, consumers in parts:
        for one in consumers:
            found.setdefault(one.name, []).append((partitions, one))
    return [
        Consumer(
            name,
            merge_cursors(start, ((partitions, one.cursor) for partitions, one in rows)),
            max(one.committed_at_ms for _, one in rows),
            sum(one.n_behind for _, one in rows),
            sum(one.n_missed for _, one in rows),
            next((one.problem for _, one in rows if one.problem is not None), None),
            max(one.kept_used for _, one in rows),
        )
        for name, rows in sorted(found.items())
    ]


def _own_changes(part: ChangesOfWorker) -> Iterator[tuple[PageChange, Sequence[int]]]:
    """Yield the changes of the partitions that a worker was asked about."""
    known = set(part.partitions)
    for change in part.changes:
        if int(change.sequence.rpartition("-")[2], 16) in known:
            yield change, part.partitions
