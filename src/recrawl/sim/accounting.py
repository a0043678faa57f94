"""Exact accounts of freshness, integrated from one change of a page to the next."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import ArrayLike, CountArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.content import NO_COPY, divergence_of, version_at_start
from recrawl.sim.web.webs import Web, version_after

__all__ = ["Account", "Bookkeeper", "Sum"]


class Sum(IntEnum):
    """Quantities that are summed over pages and time."""

    SECONDS = 0
    FRESH = 1
    WRONG = 2  # divergence × seconds
    VERY_STALE = 3
    WEIGHTED = 4
    WEIGHTED_FRESH = 5
    WEIGHTED_WRONG = 6
    WEIGHTED_VERY_STALE = 7
    REQUESTS = 8
    FRESH_REQUESTS = 9
    CHANGES = 10
    NOTICE_SECONDS = 11
    LATE = 12
    UNNOTICED = 13
    FETCHES = 14
    FOUND_CHANGED = 15
    ERRORS = 16
    COST = 17


_SECONDS, _FRESH, _WRONG, _VERY_STALE = range(4)
_WEIGHTED = int(Sum.WEIGHTED)
_REQUESTS, _FRESH_REQUESTS = int(Sum.REQUESTS), int(Sum.FRESH_REQUESTS)
_CHANGES, _NOTICE_SECONDS = int(Sum.CHANGES), int(Sum.NOTICE_SECONDS)
_LATE, _UNNOTICED = int(Sum.LATE), int(Sum.UNNOTICED)
_FETCHES, _FOUND_CHANGED = int(Sum.FETCHES), int(Sum.FOUND_CHANGED)
_ERRORS, _COST = int(Sum.ERRORS), int(Sum.COST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Account:
    """Freshness and fetches of a policy, in one or more parts of the time.

    All shares are from 0 to 1 and over all parts; `part` gives one of them.

    Parameters
    ----------
    sums
        Sums, with a row for each part and a column for each `Sum`.
    edges
        Beginnings of the parts and end of the last one, in seconds.
    page_fresh_seconds, page_fetches
        Fresh seconds and fetches of each page, over all parts.
    """

    sums: FloatArray
    edges: FloatArray
    page_fresh_seconds: FloatArray
    page_fetches: CountArray

    def part(self, number: int) -> "Account":
        """Return the account of one part of the time, without the columns of single pages."""
        return Account(
            sums=self.sums[number : number + 1],
            edges=self.edges[number : number + 2],
            page_fresh_seconds=np.empty(0),
            page_fetches=np.empty(0, np.int64),
        )

    def total(self, what: Sum) -> float:
        """Return one sum over all parts."""
        return float(self.sums[:, what].sum())

    def _share(self, of: Sum, among: Sum) -> float:
        whole = self.total(among)
        return self.total(of) / whole if whole > 0 else float("nan")

    @property
    def freshness(self) -> float:
        """Share of time that copies equal their page, weighted by importance."""
        return self._share(Sum.WEIGHTED_FRESH, Sum.WEIGHTED)

    @property
    def unweighted_freshness(self) -> float:
        """Share of time that copies equal their page."""
        return self._share(Sum.FRESH, Sum.SECONDS)

    @property
    def seen_freshness(self) -> float:
        """Share of requests that were served a fresh copy; nan without requests."""
        return self._share(Sum.FRESH_REQUESTS, Sum.REQUESTS)

    @property
    def fragment_staleness(self) -> float:
        """Share of copies that is wrong (mean divergence), weighted by importance."""
        return self._share(Sum.WEIGHTED_WRONG, Sum.WEIGHTED)

    @property
    def unweighted_fragment_staleness(self) -> float:
        """Share of copies that is wrong."""
        return self._share(Sum.WRONG, Sum.SECONDS)

    @property
    def very_stale_share(self) -> float:
        """Share of time that copies have been stale for longer than the limit, weighted."""
        return self._share(Sum.WEIGHTED_VERY_STALE, Sum.WEIGHTED)

    @property
    def late_share(self) -> float:
        """Share of changes that were not noticed within the limit."""
        return self._share(Sum.LATE, Sum.CHANGES)

    @property
    def notice_seconds(self) -> float:
        """Mean time from a change to the next fetch, or to the end if there was none."""
        return self._share(Sum.NOTICE_SECONDS, Sum.CHANGES)

    @property
    def n_fetches(self) -> int:
        """Fetches made, those that failed included."""
        return int(self.total(Sum.FETCHES))

    @property
    def changed_share(self) -> float:
        """Share of fetches that found another version than their copy."""
        return self._share(Sum.FOUND_CHANGED, Sum.FETCHES)

    def summary(self) -> dict[str, float]:
        """Return all figures by name, for a table or a file."""
        names = (
            *("freshness", "unweighted_freshness", "seen_freshness", "fragment_staleness"),
            *("unweighted_fragment_staleness", "very_stale_share", "late_share"),
            *("notice_seconds", "n_fetches", "changed_share"),
        )
        return {name: getattr(self, name) for name in names}


class Books(NamedTuple):
    """State of each page and its copy: 48 bytes a page."""

    fetched_at: FloatArray
    copy: CountArray
    change_row: CountArray  # the first change after the last fetch
    request_row: CountArray
    fresh_seconds: FloatArray
    n_fetches: CountArray


@kernel
def _part_of(edges: FloatArray, at: float) -> int:
    """Return the part in which an instant lies, -1 outside all; the end is in the last part."""
    if at == edges[-1]:
        return edges.size - 2
    for part in range(edges.size - 1):
        if edges[part] <= at < edges[part + 1]:
            return part
    return -1


@kernel
def _add_span(
    sums: FloatArray, edges: FloatArray, start: float, end: float, column: int, weight: float
) -> None:
    """Add the seconds of a span to a column of each part, and ``weight`` of them further on."""
    for part in range(edges.size - 1):
        seconds = min(end, edges[part + 1]) - max(start, edges[part])
        if seconds > 0.0:
            sums[part, column] += seconds
            sums[part, _WEIGHTED + column] += weight * seconds


@kernel
def _add_divergence(
    sums: FloatArray, edges: FloatArray, start: float, end: float, divergence: float, weight: float
) -> None:
    for part in range(edges.size - 1):
        seconds = min(end, edges[part + 1]) - max(start, edges[part])
        if seconds > 0.0:
            sums[part, _WRONG] += divergence * seconds
            sums[part, _WEIGHTED + _WRONG] += weight * divergence * seconds


@kernel
def _walk(
    web: Web,
    books: Books,
    page: int,
    until: float,
    limit: float,
    edges: FloatArray,
    sums: FloatArray,
) -> int:
    """Account for a page from its last fetch until an instant; return its version then."""
    weight = web.importance[page]
    copy = books.copy[page]
    row = books.change_row[page]
    version = version_after(web, page, row)
    at = books.fetched_at[page]
    stale_since = at if version != copy else np.inf
    last_row = web.changes.offsets[page + 1]
    request = books.request_row[page]
    last_request = web.requests.offsets[page + 1]
    fresh_seconds = books.fresh_seconds[page]
    _add_span(sums, edges, at, until, _SECONDS, weight)
    while True:
        end = web.changes.at[row] if row < last_row else np.inf
        is_last = not end <= until
        if is_last:
            end = until
        fresh = version == copy
        if fresh:
            _add_span(sums, edges, at, end, _FRESH, weight)
            fresh_seconds += max(min(end, edges[-1]) - max(at, edges[0]), 0.0)
        else:
            divergence = divergence_of(web.content, web.seed, page, copy, version)
            _add_divergence(sums, edges, at, end, divergence, weight)
            _add_span(sums, edges, max(at, stale_since + limit), end, _VERY_STALE, weight)
        while request < last_request and web.requests.at[request] < end:
            part = _part_of(edges, web.requests.at[request])
            if part >= 0:
                sums[part, _REQUESTS] += 1.0
                sums[part, _FRESH_REQUESTS] += 1.0 if fresh else 0.0
            request += 1
        if is_last:
            break
        part = _part_of(edges, end)
        if part >= 0:
            sums[part, _CHANGES] += 1.0
            sums[part, _NOTICE_SECONDS] += until - end
            sums[part, _LATE] += 1.0 if until - end > limit else 0.0
        at = end
        row += 1
        version = version_after(web, page, row)
        if version == copy:
            stale_since = np.inf
        elif stale_since == np.inf:
            stale_since = at
    books.change_row[page] = row
    books.request_row[page] = request
    books.fresh_seconds[page] = fresh_seconds
    return version


@kernel
def _record(
    web: Web,
    books: Books,
    pages: RowArray,
    fetched_at: FloatArray,
    is_error: RowArray,
    limit: float,
    edges: FloatArray,
    sums: FloatArray,
) -> None:
    for i in range(pages.size):
        page = pages[i]
        at = fetched_at[i]
        part = _part_of(edges, at)
        if part >= 0:
            sums[part, _FETCHES] += 1.0
            books.n_fetches[page] += 1
            sums[part, _COST] += web.cost[page]
            sums[part, _ERRORS] += 1.0 if is_error[i] else 0.0
        if is_error[i]:
            continue
        version = _walk(web, books, page, at, limit, edges, sums)
        if part >= 0 and version != books.copy[page] and books.copy[page] != NO_COPY:
            sums[part, _FOUND_CHANGED] += 1.0
        books.copy[page] = version
        books.fetched_at[page] = at


@kernel
def _close(
    web: Web, books: Books, until: float, limit: float, edges: FloatArray, sums: FloatArray
) -> None:
    for page in range(web.importance.size):
        before = books.change_row[page]
        _walk(web, books, page, until, limit, edges, sums)
        for row in range(before, books.change_row[page]):
            part = _part_of(edges, web.changes.at[row])
            if part >= 0:
                sums[part, _UNNOTICED] += 1.0


class Bookkeeper:
    """Keeps the account of one policy on one web, batch by batch of fetches.

    Parameters
    ----------
    web
        The web, which is not modified.
    burn_in_seconds
        Time at the start that does not count.
    horizon
        End of the account in seconds; by default the end of the web.
    n_parts
        Number of equal parts of the time, each with its own sums.
    very_stale_seconds
        Limit beyond which a stale copy is very stale, and an unnoticed change is late.
    has_copies
        Whether every page has just been fetched at the start; otherwise copies are stale, with
        divergence 1, until their first fetch.

    Examples
    --------
    One page that changes at the hours 2 and 5, fetched at the hours 4 and 6:

    >>> from recrawl.sim import Times, make_web
    >>> hour = 3_600.0
    >>> times = Times(np.array([0, 2]), np.array([2 * hour, 5 * hour]))
    >>> web = make_web(0, 8 * hour, [0.0], changes=times)
    >>> books = Bookkeeper(web)
    >>> books.record([0, 0], [4 * hour, 6 * hour])
    >>> account = books.close()
    >>> account.freshness, account.part(0).freshness, account.notice_seconds / hour
    (0.625, 0.5, 1.5)
    """

    def __init__(
        self,
        web: Web,
        *,
        burn_in_seconds: float = 0.0,
        horizon: float | None = None,
        n_parts: int = 2,
        very_stale_seconds: float = 86_400.0,
        has_copies: bool = True,
    ) -> None:
        self._web = web
        self._horizon = web.horizon if horizon is None else float(horizon)
        if not 0 <= burn_in_seconds < self._horizon <= web.horizon:
            raise ValueError(
                f"horizon must be above the burn-in and at most {web.horizon}, got {horizon!r}"
            )
        if n_parts < 1:
            raise ValueError(f"n_parts must be at least 1, got {n_parts!r}")
        self._limit = float(very_stale_seconds)
        self._edges = np.linspace(burn_in_seconds, self._horizon, n_parts + 1)
        self._sums = np.zeros((n_parts, len(Sum)))
        n_pages = web.n_pages
        self._books = Books(
            np.zeros(n_pages),
            np.full(n_pages, version_at_start() if has_copies else NO_COPY, np.int64),
            web.changes.offsets[:-1].copy(),
            web.requests.offsets[:-1].copy(),
            np.zeros(n_pages),
            np.zeros(n_pages, np.int64),
        )

    def record(self, page: ArrayLike, at: ArrayLike, is_error: ArrayLike | None = None) -> None:
        """Account for fetches of ``page`` at ``at``; a page's fetches must come in order."""
        pages = np.asarray(page, np.int64)
        errors = np.zeros(pages.size, np.int64) if is_error is None else is_error
        _record(
            self._web,
            self._books,
            pages,
            np.asarray(at, np.float64),
            np.asarray(errors, np.int64),
            self._limit,
            self._edges,
            self._sums,
        )

    def close(self) -> Account:
        """Account for every page up to the horizon, and return the account."""
        _close(self._web, self._books, self._horizon, self._limit, self._edges, self._sums)
        self._books.fetched_at[:] = self._horizon
        return Account(
            sums=self._sums.copy(),
            edges=self._edges.copy(),
            page_fresh_seconds=self._books.fresh_seconds.copy(),
            page_fetches=self._books.n_fetches.copy(),
        )
