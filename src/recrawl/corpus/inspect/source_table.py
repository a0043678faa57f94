"""The sources of signals: how often each is right on each host, and how late."""

from collections.abc import Iterable

import numpy as np

from recrawl.messages.views import SourceRow, SourceTable
from recrawl.node.node import Node
from recrawl.shard.source_quality import evidence_sources
from recrawl.shard.state.tables import SOURCE_PRECISION_GIVEN
from recrawl.shard.state.trust import delay_of, precision_of
from recrawl.store import Names

__all__ = ["SOURCES_SHOWN_MAX", "SourceRow", "SourceTable", "find_source", "source_table"]

SOURCES_SHOWN_MAX = 1_000
"""Largest number of rows in a `SourceTable`; sources with fewer signals are only counted."""


def source_table(nodes: Iterable[Node]) -> SourceTable:
    """Return the sources of a corpus with the most signals, and the number of all sources."""
    rows: list[SourceRow] = []
    n_sources = 0
    for node in nodes:
        sources = node.shard.tables.sources
        with_signals = evidence_sources(sources)
        n_sources += with_signals.size
        order = np.argsort(-sources.n_signals[with_signals], kind="stable")[:SOURCES_SHOWN_MAX]
        numbers = with_signals[order].tolist()
        for number, name in zip(numbers, node.store.names_of(Names.SOURCE, numbers), strict=True):
            rows.append(_source_row(node, number, name))
    rows.sort(key=lambda row: (-row.n_signals, row.group, row.source))
    return SourceTable(rows[:SOURCES_SHOWN_MAX], n_sources)


def find_source(node: Node, source: str, group: str) -> SourceRow | None:
    """Return a source on one host; None if it has never signalled a page there.

    Parameters
    ----------
    node
        Node of the host.
    source
        Name of the source.
    group
        Host, or the domain or key that pages are grouped by.
    """
    name = f"{source}\t{group}"
    with node.lock:
        number = int(node.store.numbers_of(Names.SOURCE, [name])[0])
        return None if number < 0 else _source_row(node, number, name)


def _source_row(node: Node, number: int, name: str | None) -> SourceRow:
    sources, rules = node.shard.tables.sources, node.shard.rules
    source, _, group = (name or str(number)).partition("\t")
    return SourceRow(
        source=source,
        group=group,
        n_signals=int(sources.n_signals[number]),
        precision=precision_of(sources, number, rules),
        n_judged=max(float(sources.total[number]), 0.0),
        is_given=bool(sources.flags[number] & SOURCE_PRECISION_GIVEN),
        delay_seconds=delay_of(sources, number, rules),
    )
