"""Results of calls with many rows: the status of each row, and counts."""

from enum import IntEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recrawl.messages.enums import Transition

__all__ = [
    "Added",
    "ChangedPart",
    "CountedRows",
    "Reported",
    "RowStatus",
    "Signalled",
    "find_unavailable",
]

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
    ELSEWHERE = 5
    """The page is on a host that is split, and its part is not open in this process.  Workers of a
    cluster tell each other so; clients never get it."""


_UNAVAILABLE = (int(RowStatus.UNAVAILABLE), int(RowStatus.ELSEWHERE))


def find_unavailable(status: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of the rows whose partitions cannot be reached now.

    Parameters
    ----------
    status
        `RowStatus` of each row.
    """
    return np.flatnonzero(np.isin(status, _UNAVAILABLE))


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


class ChangedPart(NamedTuple):
    """What one of several calls has changed that together change all pages of a pattern."""

    n_pages: int
    """Number of pages that this call has changed."""
    cursor: str | None
    """Where the next call continues; None if this was the last one."""


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


class _ReportedColumns(NamedTuple):
    counted: NDArray[np.bool_]
    transition: NDArray[np.uint8]
    has_dropped: NDArray[np.bool_]


class Reported(_ReportedColumns):
    """The effect of each reported outcome, one row per outcome: a tuple of the first three.

    Parameters
    ----------
    counted
        False for an outcome that was ignored: reported before, for an unknown page or order, or
        not later than the last outcome of its page.
    transition
        Meaning of the outcome for the page, a `recrawl.corpus.Transition`: new, changed, gone …
    has_dropped
        True for an outcome of which a value (etag, last_modified, moved_to, sketch) was not
        stored, because it is too long or has control characters.
    wrong_answer
        Kind of wrong answer, a `recrawl.content.WrongAnswer`, if the body was not the page; else 0.
    is_known
        False for an outcome of a page that is not tracked, or of an order that does not exist.
    is_unavailable
        True for an outcome whose partition cannot be reached now; report it again.
    is_elsewhere
        True for one of these whose page is in another part of a split host; only workers of a
        cluster tell each other so.
    """

    wrong_answer: NDArray[np.uint8]
    is_known: NDArray[np.bool_]
    is_unavailable: NDArray[np.bool_]
    is_elsewhere: NDArray[np.bool_]

    def __new__(
        cls,
        counted: NDArray[np.bool_],
        transition: NDArray[np.uint8],
        has_dropped: NDArray[np.bool_],
        *,
        wrong_answer: NDArray[np.uint8] | None = None,
        is_known: NDArray[np.bool_] | None = None,
        is_unavailable: NDArray[np.bool_] | None = None,
        is_elsewhere: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Return the columns as a tuple of three, with the others as attributes."""
        reported = super().__new__(cls, counted, transition, has_dropped)
        nothing = np.zeros(counted.size, np.uint8)
        reported.wrong_answer = nothing if wrong_answer is None else wrong_answer
        reported.is_known = np.ones(counted.size, np.bool_) if is_known is None else is_known
        if is_unavailable is None:
            is_unavailable = np.zeros(counted.size, np.bool_)
        reported.is_unavailable = is_unavailable
        if is_elsewhere is None:
            is_elsewhere = np.zeros(counted.size, np.bool_)
        reported.is_elsewhere = is_elsewhere
        return reported

    def part(self, first: int, end: int) -> "Reported":
        """Return the rows of a range."""
        counted, transition, has_dropped = self
        part = slice(first, end)
        return Reported(
            counted[part],
            transition[part],
            has_dropped[part],
            wrong_answer=self.wrong_answer[part],
            is_known=self.is_known[part],
            is_unavailable=self.is_unavailable[part],
            is_elsewhere=self.is_elsewhere[part],
        )

    @property
    def rows(self) -> NDArray[np.uint8]:
        """The `RowStatus` of each outcome."""
        ignored = np.where(self.is_known, RowStatus.DUPLICATE, RowStatus.UNKNOWN)
        ignored = np.where(self.is_unavailable, RowStatus.UNAVAILABLE, ignored)
        ignored = np.where(self.is_elsewhere, RowStatus.ELSEWHERE, ignored)
        return np.where(self.counted, RowStatus.DONE, ignored).astype(np.uint8)

    def __repr__(self) -> str:
        """Return the counts; the columns may be long."""
        n = int(np.count_nonzero(self.counted))
        found = np.bincount(self.transition[self.counted], minlength=len(Transition))
        kinds = ", ".join(f"{found[t]} {t.name.lower()}" for t in Transition if found[t] and t)
        if n_wrong := np.count_nonzero(self.wrong_answer[self.counted]):
            kinds += f"{', ' if kinds else ''}{n_wrong} not the page"
        text = f"{n} of {self.counted.size} outcomes counted"
        return f"<Reported: {text}: {kinds}>" if kinds else f"<Reported: {text}>"
