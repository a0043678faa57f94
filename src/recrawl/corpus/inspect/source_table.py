"""What a corpus has learned of those who signal: how often each is right, and how late."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recrawl.node.node import Node
from recrawl.shard.state.trust import delay_of, precision_of
from recrawl.store import Names

__all__ = ["SOURCES_SHOWN_MAX", "SourceRow", "source_table"]

SOURCES_SHOWN_MAX = 1_000
"""Sources beyond this many, those with the fewest signals, are counted and not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One source on one host."""

    source: str
    group: str
    n_signals: int
    precision: float
    """The share of its signals that announce a change; before it has been judged, a prior's."""
    n_judged: float
    """Signals that fetches have judged, discounted by age."""
    is_given: bool
    """Whether the precision was set by the owner."""
    delay_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row for a program."""
        return asdict(self)


def source_table(nodes: Iterable[Node]) -> tuple[list[SourceRow], int]:
    """Return the sources with the most signals, and how many there are in all."""
    rows: list[SourceRow] = []
    n_sources = 0
    for node in nodes:
        sources, rules = node.shard.tables.sources, node.shard.rules
        heard = np.flatnonzero(sources.n_signals > 0)
        n_sources += heard.size
        order = np.argsort(-sources.n_signals[heard], kind="stable")[:SOURCES_SHOWN_MAX]
        numbers = heard[order].tolist()
        for number, name in zip(numbers, node.store.names_of(Names.SOURCE, numbers), strict=True):
            source, _, group = (name or str(number)).partition("\t")
            rows.append(
                SourceRow(
                    source=source,
                    group=group,
                    n_signals=int(sources.n_signals[number]),
                    precision=precision_of(sources, number, rules),
                    n_judged=max(float(sources.total[number]), 0.0),
                    is_given=bool(sources.flags[number] & 2),
                    delay_seconds=delay_of(sources, number, rules),
                )
            )
    rows.sort(key=lambda row: (-row.n_signals, row.group, row.source))
    return rows[:SOURCES_SHOWN_MAX], n_sources
