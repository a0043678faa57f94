"""Checks that any implementation of a recrawl interface can run."""

from typing import TYPE_CHECKING

from recrawl.testing.ledgers import LEDGER_CHECKS, LedgerCheck, OpenLog

if TYPE_CHECKING:
    from recrawl.testing.fetchers import FETCHER_CHECKS, FetcherCheck, OpenFetcher

__all__ = [
    "FETCHER_CHECKS",
    "LEDGER_CHECKS",
    "FetcherCheck",
    "LedgerCheck",
    "OpenFetcher",
    "OpenLog",
]


def __getattr__(name: str) -> object:
    """Import the checks of fetchers when they are used: they need the extra ``recrawl[run]``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recrawl.testing import fetchers  # noqa: PLC0415

    return getattr(fetchers, name)
