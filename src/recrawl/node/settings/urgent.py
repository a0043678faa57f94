"""Signals of the operator that pages must be fetched now."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.node.records import LogEntry
from recrawl.shard import Signals, SourcesSet, event_of

__all__ = ["OPERATOR", "urgent_signals"]

OPERATOR = "operator"
"""Name of the source of an operator's signals."""


def urgent_signals(page: NDArray[np.int64], source: NDArray[Any], now_ms: int) -> list[LogEntry]:
    """Return the events by which pages count as certainly changed; the last one are the signals.

    Parameters
    ----------
    page
        Numbers of the pages.
    source
        Number of the operator's source for each page: every host has its own.
    now_ms
        Current time, in milliseconds since 1970.
    """
    sources = np.unique(source)
    return [
        event_of(
            SourcesSet,
            source=sources,
            precision=np.ones(sources.size),
            delay_seconds=np.zeros(sources.size),
        ),
        event_of(
            Signals,
            page=page,
            source=source,
            at_ms=np.full(page.size, now_ms),
            claimed_at_ms=np.zeros(page.size, np.int64),
        ),
    ]
