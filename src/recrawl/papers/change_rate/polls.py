"""Records of polls: counts for pages polled regularly, whole histories for the others."""

from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import ArrayLike, CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.core.poll_columns import as_poll_columns, as_rows

__all__ = ["PollCounts", "PollHistories", "count_polls"]

SmallCountArray: TypeAlias = NDArray[np.uint32]


class PollCounts(NamedTuple):
    """Polls made, polls that found a change, and the time they cover: 16 bytes a page."""

    n_polls: SmallCountArray
    n_changed: SmallCountArray
    polled_seconds: FloatArray

    @classmethod
    def zeros(cls, n_pages: int) -> Self:
        """Return the counts of pages never polled."""
        return cls(np.zeros(n_pages, np.uint32), np.zeros(n_pages, np.uint32), np.zeros(n_pages))


class PollHistories(NamedTuple):
    """Every poll of many pages, page by page: 9 bytes a poll and 8 a page.

    The polls of page ``row`` are entries ``offsets[row]`` to ``offsets[row + 1]``, in the order
    in which they were made and without gaps: each interval begins where the one before ended.
    """

    elapsed: FloatArray
    changed: FlagArray
    offsets: RowArray

    @classmethod
    def from_rows(
        cls, rows: ArrayLike, elapsed: ArrayLike, changed: ArrayLike, *, n_pages: int
    ) -> Self:
        """Return the histories of polls listed in order of time, each with the row of its page.

        Parameters
        ----------
        rows
            Row of the page polled, 0 to ``n_pages - 1``, once per poll.
        elapsed
            Seconds since the previous poll; 0 or more.
        changed
            Whether the poll found a change.
        n_pages
            Number of pages, including those never polled.

        Examples
        --------
        >>> histories = PollHistories.from_rows([1, 0, 1], [5.0, 9.0, 7.0], [1, 0, 0], n_pages=2)
        >>> histories.elapsed, histories.offsets
        (array([9., 5., 7.]), array([0, 1, 3]))
        """
        page, seconds, found = as_poll_columns(rows, elapsed, changed, n_pages)
        order = np.argsort(page, kind="stable")
        offsets = np.zeros(n_pages + 1, np.int64)
        np.cumsum(np.bincount(page, minlength=n_pages), out=offsets[1:])
        return cls(seconds[order], found[order], offsets)

    @classmethod
    def of_one_page(cls, elapsed: ArrayLike, changed: ArrayLike) -> Self:
        """Return the history of a single page."""
        seconds = np.asarray(elapsed, dtype=np.float64)
        return cls.from_rows(np.zeros(seconds.size, np.int64), seconds, changed, n_pages=1)

    @property
    def n_pages(self) -> int:
        """Number of pages."""
        return self.offsets.size - 1

    @property
    def n_polls(self) -> CountArray:
        """Polls of each page."""
        return np.diff(self.offsets)

    def counts(self) -> PollCounts:
        """Return the counts of these polls, which no longer show the time between them."""
        counts = PollCounts.zeros(self.n_pages)
        count_polls(
            counts, np.repeat(np.arange(self.n_pages), self.n_polls), self.elapsed, self.changed
        )
        return counts


@kernel
def _count_polls(
    n_polls: SmallCountArray,
    n_changed: SmallCountArray,
    polled_seconds: FloatArray,
    rows: RowArray,
    elapsed: FloatArray,
    changed: FlagArray,
) -> None:
    for i in range(rows.size):
        # Two fetches within the same second say nothing about the rate.
        if elapsed[i] > 0.0:
            n_polls[rows[i]] += 1
            n_changed[rows[i]] += changed[i]
            polled_seconds[rows[i]] += elapsed[i]


def count_polls(
    counts: PollCounts, rows: ArrayLike, elapsed: ArrayLike, changed: ArrayLike
) -> None:
    """Add one poll per entry of ``rows`` to ``counts``; a page may occur many times.

    A poll after 0 seconds says nothing and is not counted.

    Parameters
    ----------
    counts
        Counts, changed in place.
    rows
        Rows of the pages polled.
    elapsed
        Seconds since the previous poll.
    changed
        Whether the poll found a change.

    Examples
    --------
    >>> counts = PollCounts.zeros(2)
    >>> count_polls(counts, [0, 0, 1], [60.0, 60.0, 30.0], [True, False, True])
    >>> counts.n_polls, counts.n_changed, counts.polled_seconds
    (array([2, 1], dtype=uint32), array([1, 1], dtype=uint32), array([120.,  30.]))
    """
    page = as_rows(rows, counts.n_polls.size)
    seconds = np.ascontiguousarray(np.broadcast_to(elapsed, page.shape), dtype=np.float64)
    found = np.ascontiguousarray(np.broadcast_to(changed, page.shape), dtype=np.bool_)
    _count_polls(*counts, page, seconds, found)
