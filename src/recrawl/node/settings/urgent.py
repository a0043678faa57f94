"""Have pages fetched now without saying that they have changed.

A signal of certain precision makes its page due, and is evidence: it would raise the change rate
of the page, and the fetch after it would be judged by it.  That a person wants a page fetched says
nothing about the page.  So the precision of the source is 1 while its signals are applied, and 0
from then on: the pages stay due until they are fetched, and nothing is learned from the signals.
All of this is in events that older versions read in the same way.

A page also stops being due early if the signals of all pages are weighed anew before it is fetched
(`recrawl.shard.apply.signals`); that happens seldom, and not to pages that can be leased at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.node.records import LogEntry
from recrawl.shard import Signals, SourcesSet, event_of

__all__ = ["OPERATOR", "urgent_signals"]

OPERATOR = "operator"
"""Name of the source by which a person has pages fetched now; it is no evidence of changes."""


def urgent_signals(page: NDArray[np.int64], source: NDArray[Any], now_ms: int) -> list[LogEntry]:
    """Return the events by which pages become due without evidence; the second are the signals.

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
    delay_seconds = np.zeros(sources.size)
    certain, no_evidence = (
        event_of(SourcesSet, source=sources, precision=precision, delay_seconds=delay_seconds)
        for precision in (np.ones(sources.size), np.zeros(sources.size))
    )
    return [
        certain,
        event_of(
            Signals,
            page=page,
            source=source,
            at_ms=np.full(page.size, now_ms),
            claimed_at_ms=np.zeros(page.size, np.int64),
        ),
        no_evidence,
    ]
