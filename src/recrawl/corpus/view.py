"""The interface of `recrawl.corpus.corpus.Corpus` that the modules which it imports may use.

These modules take a `CorpusView` instead of a `Corpus`, which avoids circular imports: the class
imports them and offers their functions as methods.
"""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition
from recrawl.node.node import Node
from recrawl.node.routing import Urls

__all__ = ["Added", "CorpusView", "CountedRows", "RowStatus", "Signalled"]

_NO_ROWS = np.zeros(0, np.uint8)


class RowStatus(IntEnum):
    """Result of one row of a call with many rows."""

    DONE = 0
    DUPLICATE = 1
    """Already done by an earlier row or call, so this one changed nothing."""
    REFUSED = 2
    """The URL or another value of the row is not valid."""
    UNAVAILABLE = 3
    """The partition of the page cannot be reached now; try the row again."""
    UNKNOWN = 4
    """The page is not tracked, or the order does not exist."""


class CountedRows(int):
    """Number of rows that counted, with the status of each row.

    Parameters
    ----------
    n_counted
        Number of pages or orders that counted.
    rows
        `RowStatus` of each row; none if pages were given by a pattern.
    """

    rows: NDArray[np.uint8]

    def __new__(cls, n_counted: int, *, rows: NDArray[np.uint8] = _NO_ROWS) -> Self:
        """Return the number, with the status of each row as an attribute."""
        counted = super().__new__(cls, n_counted)
        counted.rows = rows
        return counted


class Signalled(CountedRows):
    """Number of signals that counted, with the number of those for unknown pages.

    Parameters
    ----------
    n_counted
        Number of signals that counted.
    n_unknown
        Number of signals for pages that are not tracked, or with URLs that are not valid.
    rows
        `RowStatus` of each signal.
    """

    n_unknown: int

    def __new__(
        cls, n_counted: int, *, n_unknown: int = 0, rows: NDArray[np.uint8] = _NO_ROWS
    ) -> Self:
        """Return the number of signals that counted, with the others as attributes."""
        signalled = super().__new__(cls, n_counted, rows=rows)
        signalled.n_unknown = n_unknown
        return signalled


class _AddedCounts(NamedTuple):
    n_added: int
    n_known: int
    """Duplicates: tracked already, or given twice."""
    n_refused: int
    """Rows whose URL, doc_id, metadata or key is not valid."""


class Added(_AddedCounts):
    """Counts of the URLs that `Corpus.add` was given: a tuple of the first three.

    Parameters
    ----------
    n_added
        Number of pages added.
    n_known
        Duplicates: tracked already, or given twice.
    n_refused
        Rows whose URL, doc_id or metadata is not valid.
    n_limited
        Number of added pages that are newcomers: their share of fetches is limited while other
        pages are due; see the section "protection" of the configuration.
    limited_until_ms
        When the last of them stops being one, in milliseconds since 1970; 0 for none.
    rows
        `RowStatus` of each row.
    """

    n_limited: int
    limited_until_ms: int
    rows: NDArray[np.uint8]

    def __new__(
        cls,
        n_added: int,
        n_known: int,
        n_refused: int,
        *,
        n_limited: int = 0,
        limited_until_ms: int = 0,
        rows: NDArray[np.uint8] = _NO_ROWS,
    ) -> Self:
        """Return the counts as a tuple of three, with the others as attributes."""
        added = super().__new__(cls, n_added, n_known, n_refused)
        added.n_limited = n_limited
        added.limited_until_ms = limited_until_ms
        added.rows = rows
        return added


class CorpusView(Protocol):
    """An open corpus, as seen by functions that read it or import into it."""

    folder: Path
    config: CorpusConfig
    time: NodeTime

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, one per partition."""
        ...

    @property
    def partitions(self) -> Sequence[Partition]:
        """The log, store and snapshots of each partition."""
        ...

    def add(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> Added:
        """Add pages to track."""
        ...
