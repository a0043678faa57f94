"""What decides which pages to fetch: the plug that rivals share, and the simplest of them."""

from typing import NamedTuple, Protocol

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray

__all__ = ["KnownPages", "Outcomes", "Policy", "ProportionalToImportance", "Uniform"]


class KnownPages(NamedTuple):
    """What an owner knows of his pages before any fetch."""

    importance: FloatArray
    cost: FloatArray
    group: RowArray
    kind: CountArray
    has_copies: bool  # whether each was fetched just before the start


class Outcomes(NamedTuple):
    """What fetches showed, one row each."""

    changed: FlagArray
    elapsed: FloatArray  # since the last fetch that succeeded; inf for the first
    last_modified_at: FloatArray  # nan where the page does not say
    error: FlagArray  # transient: then the rest says nothing
    reverted: FlagArray  # changed, to a version among the last few fetched
    divergence: FloatArray  # of the page from the copy

    def rows(self, chosen: FlagArray) -> "Outcomes":
        """Return some of the rows."""
        return Outcomes(
            self.changed[chosen],
            self.elapsed[chosen],
            self.last_modified_at[chosen],
            self.error[chosen],
            self.reverted[chosen],
            self.divergence[chosen],
        )


class Policy(Protocol):
    """Decides what to fetch.  Times are seconds from the start; pages are numbered from 0."""

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with these pages, forgetting everything else."""
        ...

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Take note of signals, in order of time."""
        ...

    def pick(self, at: float, n: int) -> RowArray:
        """Return at most ``n`` different pages to fetch now.

        A page picked is under way, and not to be picked again, until `learn` has its outcome.
        """
        ...

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Take note of fetches made, in order of time."""
        ...


def largest(score: FloatArray, n: int) -> RowArray:
    """Return the rows of the ``n`` largest scores above -inf, largest first."""
    if n == 1:
        best = int(np.argmax(score))
        return np.array([best] if score[best] > -np.inf else [], np.int64)
    rows = np.argpartition(score, -n)[-n:] if n < score.size else np.arange(score.size)
    rows = rows[score[rows] > -np.inf]
    return rows[np.lexsort((rows, -score[rows]))]


def spread_phases(n_pages: int, *, first: float = 0.0) -> FloatArray:
    """Return where in its turn each page begins, 0 to 1, so that any number are spread evenly."""
    golden_ratio = 0.6180339887498949
    return np.asarray((first + np.arange(n_pages) * golden_ratio) % 1.0)


class Uniform:
    """Fetches all pages in turn, whatever they are and do."""

    def start(self, pages: KnownPages, at: float) -> None:  # noqa: ARG002
        """Begin with the first page."""
        self._n_pages = pages.importance.size
        self._next = 0

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:  # noqa: ARG002
        """Return the next pages."""
        pages = (self._next + np.arange(min(n, self._n_pages))) % self._n_pages
        self._next = (self._next + pages.size) % self._n_pages
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Learn nothing."""


class ProportionalToImportance:
    """Fetches each page as often as it is important, evenly spaced."""

    def start(self, pages: KnownPages, at: float) -> None:  # noqa: ARG002
        """Begin with no page owed anything."""
        importance = pages.importance
        with np.errstate(divide="ignore"):
            self._stride = np.where(importance > 0, importance.sum() / importance, np.inf)
        # Pages of equal importance take turns.
        phase = spread_phases(importance.size)
        self._turn = np.where(np.isfinite(self._stride), self._stride * (0.5 + 0.5 * phase), np.inf)

    def hear(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:  # noqa: ARG002
        """Return the pages whose turns come first."""
        pages = largest(-self._turn, n)
        self._turn[pages] += self._stride[pages]
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: Outcomes) -> None:
        """Learn nothing."""
