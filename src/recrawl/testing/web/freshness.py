"""How fresh copies are, and which reported changes are false, by the truth of the local web."""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from recrawl.testing.web.local_web import LocalWeb, WebPage
from recrawl.testing.web.request_log import LoggedRequest, RequestLog

__all__ = ["ChangeVerdicts", "CopyMade", "copies_made", "judge_changes", "mean_freshness"]


class CopyMade(NamedTuple):
    """A copy of a page that a crawler got: from an instant on it has this version."""

    host: str
    page: int
    at_ms: int
    version: int


class ChangeVerdicts(NamedTuple):
    """How many changes a crawler has reported rightly and falsely, and how many it has missed.

    A change is right if the answer showed another version than the good answer before it.
    """

    n_right: int
    n_false: int
    n_missed: int

    @property
    def false_ratio(self) -> float:
        """Share of the reported changes that are false; 0 if none was reported."""
        n_reported = self.n_right + self.n_false
        return self.n_false / n_reported if n_reported else 0.0


def copies_made(log: Iterable[LoggedRequest]) -> list[CopyMade]:
    """Return the copies that a crawler got, by the log of the server.

    An answer that does not show the page, or that the crawler has not read to its end, makes no
    copy.  An answer 304 leaves the copy as it was, even if it is wrong.
    """
    return [
        CopyMade(row.host, row.page, row.ended_at_ms, row.version)
        for row in log
        if row.page >= 0 and row.version >= 0
    ]


def mean_freshness(
    web: LocalWeb,
    copies: Iterable[CopyMade],
    *,
    from_ms: int,
    until_ms: int,
    pages: Iterable[WebPage] | None = None,
    importance: Mapping[str, float] | None = None,
) -> float:
    """Return the share of copies that equal their page, on average over time.

    Parameters
    ----------
    web
        Hosts and the truth about their pages.
    copies
        Copies in any order; see `copies_made`.
    from_ms, until_ms
        Interval over which the mean is taken, in milliseconds since 1970.
    pages
        Pages to look at; by default those that a crawler can get
        (`LocalWeb.reachable_pages`).  A page without a copy is not fresh.
    importance
        Importance of pages by URL; 1 where it names none.
    """
    if from_ms >= until_ms:
        raise ValueError(f"from_ms must be less than until_ms, got {from_ms!r} and {until_ms!r}")
    by_page: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for copy in copies:
        by_page.setdefault((copy.host, copy.page), []).append((copy.at_ms, copy.version))
    total, weight_total = 0.0, 0.0
    for page in web.reachable_pages() if pages is None else pages:
        weight = 1.0 if importance is None else importance.get(page.url, 1.0)
        weight_total += weight
        held = sorted(by_page.get((page.host, page.page), ()))
        if held:
            truth = web.hosts[page.host].versions(page.page, until_ms)
            total += weight * _fresh_ms(held, truth, from_ms, until_ms) / (until_ms - from_ms)
    return total / weight_total if weight_total else 0.0


def _fresh_ms(
    held: list[tuple[int, int]], truth: list[tuple[int, int]], from_ms: int, until_ms: int
) -> int:
    """Return for how long the version that was held was the true one."""
    marks = sorted({from_ms, until_ms, *(at for at, _ in held), *(at for at, _ in truth)})
    marks = [at for at in marks if from_ms <= at <= until_ms]
    fresh = 0
    for start, end in itertools.pairwise(marks):
        row = bisect_right(held, (start, 1 << 60)) - 1
        true_row = bisect_right(truth, (start, 1 << 60)) - 1
        if row >= 0 and held[row][1] == truth[max(true_row, 0)][1]:
            fresh += end - start
    return fresh


def judge_changes(
    web: LocalWeb, log: RequestLog, reported: Iterable[tuple[str, int]]
) -> ChangeVerdicts:
    """Compare the changes that a crawler has reported with what the server has sent.

    Parameters
    ----------
    web
        Hosts and the truth about their pages.
    log
        Log of the server.
    reported
        URL of each page that was reported as changed, with the instant of the fetch in milliseconds
        since 1970.  First copies of pages are not changes.
    """
    answers: dict[tuple[str, int], list[LoggedRequest]] = {}
    for row in sorted(log, key=lambda row: row.at_ms):
        if row.page >= 0 and row.status == 200:
            answers.setdefault((row.host, row.page), []).append(row)
    n_right, n_false = 0, 0
    noticed: set[tuple[str, int, int]] = set()
    for url, at_ms in reported:
        page = web.find_page(url)
        rows = [] if page is None else answers.get((page.host, page.page), [])
        place = bisect_right([row.at_ms for row in rows], at_ms) - 1
        if page is not None and place > 0 and _is_change(rows, place):
            n_right += 1
            noticed.add((page.host, page.page, place))
        else:
            n_false += 1
    n_missed = sum(
        (host, page, place) not in noticed and _is_change(rows, place)
        for (host, page), rows in answers.items()
        for place in range(1, len(rows))
    )
    return ChangeVerdicts(n_right, n_false, n_missed)


def _is_change(rows: list[LoggedRequest], place: int) -> bool:
    """Return whether an answer shows another version than the good answer before it."""
    version = rows[place].version
    before = next((row.version for row in reversed(rows[:place]) if row.version >= 0), -1)
    return version >= 0 and before >= 0 and version != before
