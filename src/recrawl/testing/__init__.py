"""Checks that any implementation of a recrawl interface can run."""

from importlib import import_module
from typing import TYPE_CHECKING

from recrawl.testing.ledgers import LEDGER_CHECKS, LedgerCheck, OpenLog

if TYPE_CHECKING:
    from recrawl.testing.fetchers import FETCHER_CHECKS, FetcherCheck, OpenFetcher
    from recrawl.testing.sinks import SINK_CHECKS, SinkCheck, SinkTarget

__all__ = [
    "FETCHER_CHECKS",
    "LEDGER_CHECKS",
    "SINK_CHECKS",
    "FetcherCheck",
    "LedgerCheck",
    "OpenFetcher",
    "OpenLog",
    "SinkCheck",
    "SinkTarget",
]

# These need the extra ``recrawl[run]``, so they are imported when they are used.
_LATER = {
    "FETCHER_CHECKS": "recrawl.testing.fetchers",
    "FetcherCheck": "recrawl.testing.fetchers",
    "OpenFetcher": "recrawl.testing.fetchers",
    "SINK_CHECKS": "recrawl.testing.sinks",
    "SinkCheck": "recrawl.testing.sinks",
    "SinkTarget": "recrawl.testing.sinks",
}


def __getattr__(name: str) -> object:
    """Import the checks of fetchers and sinks when they are used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
