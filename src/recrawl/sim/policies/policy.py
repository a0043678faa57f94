"""The interface of policies, which choose the pages to fetch, and the simplest policies."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray

__all__ = ["FetchOutcomes", "KnownPages", "Policy", "ProportionalToImportance", "Uniform"]


class KnownPages(NamedTuple):
    """What is known about pages before any fetch."""

    importance: FloatArray
    cost: FloatArray
    group: RowArray
    kind: CountArray
    has_copies: bool  # whether each page was fetched just before the start


class FetchOutcomes(NamedTuple):
    """Outcomes of fetches, one row each."""

    changed: FlagArray
    elapsed: FloatArray  # since the last successful fetch; inf for the first
    last_modified_at: FloatArray  # nan if the page does not say
    error: FlagArray  # transient; the other columns are then meaningless
    reverted: FlagArray  # changed, to a version among the last few fetched
    divergence: FloatArray  # of the page from its copy

    def rows(self, is_kept: FlagArray) -> "FetchOutcomes":
        """Return the rows where ``is_kept`` is true."""
        return FetchOutcomes(
            self.changed[is_kept],
            self.elapsed[is_kept],
            self.last_modified_at[is_kept],
            self.error[is_kept],
            self.reverted[is_kept],
            self.divergence[is_kept],
        )


class Policy(Protocol):
    """Chooses pages to fetch.  Times are seconds from the start; pages are numbered from 0."""

    def start(self, pages: KnownPages, at: float) -> None:
        """Start anew with these pages."""
        ...

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Receive signals, in order of time."""
        ...

    def pick(self, at: float, n: int) -> RowArray:
        """Return at most ``n`` different pages to fetch now.

        A picked page must not be picked again until `learn` has received its outcome.
        """
        ...

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Receive the outcomes of fetches, in order of time."""
        ...


def signal_method(
    policy: Policy,
) -> Callable[[FloatArray, RowArray, CountArray, FloatArray], None]:
    """Return a policy's `Policy.on_signals`, or its ``hear``, as recrawl 0.1.0 called it."""
    if hasattr(policy, "on_signals"):
        return policy.on_signals
    warnings.warn(
        f"{type(policy).__name__}.hear is deprecated since 0.2 and will not be called from 0.4 on; "
        "rename the method to on_signals",
        DeprecationWarning,
        stacklevel=3,
    )
    old: Any = policy
    method: Callable[[FloatArray, RowArray, CountArray, FloatArray], None] = old.hear
    return method


def largest(score: FloatArray, n: int) -> RowArray:
    """Return the rows of the ``n`` largest scores above -inf, largest first."""
    if n == 1:
        best = int(np.argmax(score))
        return np.array([best] if score[best] > -np.inf else [], np.int64)
    rows = np.argpartition(score, -n)[-n:] if n < score.size else np.arange(score.size)
    rows = rows[score[rows] > -np.inf]
    return rows[np.lexsort((rows, -score[rows]))]


def spread_phases(n_pages: int, *, first: float = 0.0) -> FloatArray:
    """Return a phase from 0 to 1 for each page; the phases of the first n are spread evenly."""
    golden_ratio = 0.6180339887498949
    return np.asarray((first + np.arange(n_pages) * golden_ratio) % 1.0)


class Uniform:
    """Fetches all pages in turn."""

    def start(self, pages: KnownPages, at: float) -> None:  # noqa: ARG002
        """Begin with the first page."""
        self._n_pages = pages.importance.size
        self._next = 0

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:  # noqa: ARG002
        """Return the next pages."""
        pages = (self._next + np.arange(min(n, self._n_pages))) % self._n_pages
        self._next = (self._next + pages.size) % self._n_pages
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Learn nothing."""


class ProportionalToImportance:
    """Fetches each page at a rate proportional to its importance, evenly spaced."""

    def start(self, pages: KnownPages, at: float) -> None:  # noqa: ARG002
        """Begin with all pages at a different phase of their turn."""
        importance = pages.importance
        with np.errstate(divide="ignore"):
            self._stride = np.where(importance > 0, importance.sum() / importance, np.inf)
        # Pages of equal importance take turns.
        phase = spread_phases(importance.size)
        self._turn = np.where(np.isfinite(self._stride), self._stride * (0.5 + 0.5 * phase), np.inf)

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> RowArray:  # noqa: ARG002
        """Return the pages whose turns come first."""
        pages = largest(-self._turn, n)
        self._turn[pages] += self._stride[pages]
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Learn nothing."""
