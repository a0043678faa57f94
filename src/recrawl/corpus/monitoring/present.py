"""The present state of a corpus: what its partitions say of themselves, added up by name."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.corpus.budget_view import BudgetView
from recrawl.corpus.inspect.hosts import find_largest
from recrawl.giving_way import give_way
from recrawl.messages.samples import (
    DURATION_EDGES_SECONDS,
    FRESHNESS_EDGES,
    HISTOGRAMS,
    HOSTS_SAMPLED_MAX,
    KINDS_SAMPLED_MAX,
    RESULTS,
    SOURCES_SAMPLED_MAX,
    STATES,
    Figures,
    Histogram,
    Sample,
    SourceFigures,
)
from recrawl.node.node import Node
from recrawl.node.sampling.present import FIGURES, NumberedRows, PartitionState, read_state
from recrawl.shard.figures import PAGES_SUMMED_MAX
from recrawl.store import Names

__all__ = ["merge_samples", "read_present"]

_N_PAGES = FIGURES.index("n_pages")


def _figures_of(row: FloatArray) -> Figures:
    value = dict(zip(FIGURES, row.tolist(), strict=True))
    return Figures(
        **{name: value[name] for name in STATES},
        results={name: int(value[name]) for name in RESULTS},
        spent=value["spent"],
        n_audited=int(value["n_audited"]),
        n_audited_fresh=int(value["n_audited_fresh"]),
        audited_modelled=value["audited_modelled"],
        audited_variance=value["audited_variance"],
    )


def _by_name(
    names_of: Callable[[NDArray[np.int64]], Sequence[str | None]], rows: NumberedRows
) -> dict[str, Figures]:
    names = names_of(rows.number)
    return {
        name if name is not None else str(number): _figures_of(row)
        for number, name, row in zip(rows.number.tolist(), names, rows.figures, strict=True)
    }


def _source_figures(node: Node, rows: NumberedRows) -> list[SourceFigures]:
    names = node.store.names_of(Names.SOURCE, rows.number.tolist())
    found = []
    for number, name, row in zip(rows.number.tolist(), names, rows.figures.tolist(), strict=True):
        source, _, host = (name or str(number)).partition("\t")
        n_signals, precision, recall, delay_seconds, n_judged = row
        found.append(
            SourceFigures(
                source=source,
                host=host,
                n_signals=int(n_signals),
                precision=precision,
                recall=recall,
                delay_seconds=delay_seconds,
                n_judged=n_judged,
            )
        )
    return found


def _histograms_of(counts: FloatArray) -> dict[str, Histogram]:
    return {
        name: Histogram(
            edges=FRESHNESS_EDGES if name == "freshness" else DURATION_EDGES_SECONDS,
            counts=tuple(row),
        )
        for name, row in zip(HISTOGRAMS, counts.tolist(), strict=True)
    }


def _sample_of(node: Node, state: PartitionState, unit: BudgetView) -> Sample:
    """Return the state of one partition, with the names of what it numbers."""

    def kinds(numbers: NDArray[np.int64]) -> list[str | None]:
        names = node.store.names_of(Names.KIND, numbers.tolist())
        return ["" if n == 0 else name for n, name in zip(numbers.tolist(), names, strict=True)]

    total = _figures_of(state.total)
    is_limited = math.isfinite(state.budget_per_second)
    return Sample(
        at_ms=state.at_ms,
        total=total,
        partitions={node.partition: total},
        hosts=_by_name(
            lambda numbers: node.store.names_of(Names.GROUP, numbers.tolist()), state.hosts
        ),
        n_hosts=state.n_hosts,
        kinds=_by_name(kinds, state.kinds),
        sources=_source_figures(node, state.sources),
        n_sources=state.n_sources,
        price=state.price,
        budget_unit=unit.unit,
        budget_per_second=state.budget_per_second if is_limited else None,
        in_flight=state.in_flight,
        n_signals=state.n_signals,
        histograms=_histograms_of(state.histograms),
    )


def read_present(nodes: Sequence[Node], now_ms: int) -> Sample:
    """Return the present state of all partitions together.

    Parameters
    ----------
    nodes
        Nodes of one corpus, at least one.
    now_ms
        Present time, in milliseconds since 1970.
    """
    each = max(PAGES_SUMMED_MAX // len(nodes), 1)
    states = [read_state(node.shard, node.lock, now_ms, n_pages_max=each) for node in nodes]
    largest = find_largest(nodes, [state.hosts.number for state in states], HOSTS_SAMPLED_MAX)
    parts = []
    for node, state, numbers in zip(nodes, states, largest, strict=True):
        give_way()
        is_shown = np.isin(state.hosts.number, numbers)
        hosts = NumberedRows(state.hosts.number[is_shown], state.hosts.figures[is_shown])
        unit = BudgetView.of([node.shard], None, now_ms)
        parts.append(_sample_of(node, state._replace(hosts=hosts), unit))
    return merge_samples(parts)


def merge_samples(parts: Sequence[Sample], *, n_away: int = 0) -> Sample:
    """Return the states of several partitions as that of one corpus.

    Parameters
    ----------
    parts
        States of different partitions, at least one.
    n_away
        Number of partitions that could not be reached.
    """
    weights = [max(one.total.n_pages, 1.0) for one in parts]
    budgets = [one.budget_per_second for one in parts]
    hosts = _add_by_name(one.hosts for one in parts)
    sources = [row for one in parts for row in one.sources]
    sources.sort(key=lambda row: (-row.n_signals, row.host, row.source))
    partitions = {number: row for one in parts for number, row in one.partitions.items()}
    return replace(
        parts[0],
        at_ms=max(one.at_ms for one in parts),
        total=_add_figures(one.total for one in parts),
        partitions=dict(sorted(partitions.items())),
        hosts=_most_pages(hosts, HOSTS_SAMPLED_MAX),
        # The parts of a split host are counted once for each of their partitions.
        n_hosts=sum(one.n_hosts for one in parts),
        kinds=_most_pages(_add_by_name(one.kinds for one in parts), KINDS_SAMPLED_MAX),
        sources=sources[:SOURCES_SAMPLED_MAX],
        n_sources=sum(one.n_sources for one in parts),
        price=float(np.average([one.price for one in parts], weights=weights)),
        budget_unit="cost" if all(one.budget_unit == "cost" for one in parts) else "fetches",
        budget_per_second=None if None in budgets else math.fsum(b or 0.0 for b in budgets),
        in_flight=sum(one.in_flight for one in parts),
        n_signals=sum(one.n_signals for one in parts),
        histograms=_add_histograms(one.histograms for one in parts),
        n_partitions_away=n_away,
    )


def _add_figures(rows: Iterable[Figures]) -> Figures:
    first, *others = rows
    for row in others:
        first += row
    return first


def _add_by_name(tables: Iterable[Mapping[str, Figures]]) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for table in tables:
        for name, row in table.items():
            found[name] = found[name] + row if name in found else row
    return found


def _most_pages(table: Mapping[str, Figures], n_max: int) -> dict[str, Figures]:
    rows = sorted(table.items(), key=lambda item: (-item[1].n_pages, item[0]))
    return dict(rows[:n_max])


def _add_histograms(tables: Iterable[Mapping[str, Histogram]]) -> dict[str, Histogram]:
    found: dict[str, Histogram] = {}
    for table in tables:
        for name, histogram in table.items():
            found[name] = found[name] + histogram if name in found else histogram
    return found
