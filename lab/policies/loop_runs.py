"""Loops let loose: every page polled just when it is due, and all that happens written down.

Compiled, page by page, because a loop without a budget never weighs one page against another.
"""

import math
from typing import NamedTuple

import numpy as np

from lab.policies.loops import Loop, Waiting, estimated_period, wait_of
from recrawl.core.arrays import CountArray, FlagArray, FloatArray
from recrawl.core.kernel import kernel
from recrawl.sim import Web
from recrawl.sim.driver import least_scale
from recrawl.sim.policies.policy import spread_phases
from recrawl.sim.web.content import version_at_start
from recrawl.sim.web.failures import fails_at
from recrawl.sim.web.webs import version_after

__all__ = [
    "IntervalLog",
    "cost_until",
    "fetches_until",
    "fixed_log",
    "joined_log",
    "loop_log",
    "loop_scale_for_budget",
    "stale_until",
]


HOUR = 3_600.0


class IntervalLog(NamedTuple):
    """Every interval between fetches, page by page, in order; page i's rows begin at offsets[i].

    The last row of each page is cut off by the horizon and ends without a fetch.  Failed fetches
    end none.
    """

    offsets: CountArray
    ended_at: FloatArray
    elapsed: FloatArray
    stale_seconds: FloatArray  # time in the interval in which the copy was not the page
    changed: FlagArray
    is_fetch: FlagArray
    n_failed: CountArray  # failed fetches of each page

    @property
    def n_pages(self) -> int:
        """Number of pages."""
        return int(self.offsets.size) - 1

    @property
    def page_fetches(self) -> CountArray:
        """Fetches of each page, failed ones among them."""
        return np.add.reduceat(self.is_fetch.astype(np.int64), self.offsets[:-1]) + self.n_failed


class _Rows(NamedTuple):
    """Columns of a log under way."""

    ended_at: FloatArray
    elapsed: FloatArray
    stale_seconds: FloatArray
    changed: FlagArray
    is_fetch: FlagArray


@kernel
def _grown(rows: _Rows) -> _Rows:
    n = rows.ended_at.size
    room, flags = np.empty(n), np.empty(n, np.bool_)
    return _Rows(
        np.concatenate((rows.ended_at, room)),
        np.concatenate((rows.elapsed, room)),
        np.concatenate((rows.stale_seconds, room)),
        np.concatenate((rows.changed, flags)),
        np.concatenate((rows.is_fetch, flags)),
    )


class _Numbers(NamedTuple):
    """A loop in numbers."""

    waiting: Waiting
    scale: float
    retry: float
    pseudo_changed: float
    pseudo_unchanged: float
    is_fixed: bool


@kernel
def _run_page(
    web: Web,
    page: int,
    loop: _Numbers,
    first: float,
    rows: _Rows,
    n_rows: int,
    n_rows_max: int,
) -> tuple[_Rows, int, int]:
    """Append one page's intervals; return the columns, their rows, and failed fetches."""
    row = web.changes.offsets[page]
    last_row = web.changes.offsets[page + 1]
    changed_after = np.empty(64)
    changed_after[0] = loop.pseudo_changed
    n_changed = 1 if loop.pseudo_changed > 0.0 else 0
    changed_seconds = loop.pseudo_changed
    unchanged_seconds = loop.pseudo_unchanged
    shortest = math.inf
    n_failed = 0
    due = first
    fetched = 0.0
    wait = first
    copy = version_at_start()
    at, stale = 0.0, 0.0  # accounted for up to this instant
    while True:
        end = min(due, web.horizon)
        while row < last_row and web.changes.at[row] <= end:
            if version_after(web, page, row) != copy:
                stale += web.changes.at[row] - at
            at = web.changes.at[row]
            row += 1
        version = version_after(web, page, row)
        if version != copy:
            stale += end - at
        at = end
        is_over = due > web.horizon or n_rows >= n_rows_max
        if not is_over and (
            fails_at(web.errors, page, due) or fails_at(web.outages, web.group[page], due)
        ):
            n_failed += 1
            due += loop.scale * loop.retry
            continue
        if n_rows == rows.ended_at.size:
            rows = _grown(rows)
        elapsed = end - fetched
        rows.ended_at[n_rows] = end
        rows.elapsed[n_rows] = elapsed
        rows.stale_seconds[n_rows] = stale
        rows.changed[n_rows] = version != copy
        rows.is_fetch[n_rows] = not is_over
        n_rows += 1
        if is_over:
            return rows, n_rows, n_failed
        if not loop.is_fixed:
            if elapsed > 0.0:
                shortest = min(shortest, elapsed)
            if version != copy:
                if n_changed == changed_after.size:
                    changed_after = np.concatenate((changed_after, np.empty(n_changed)))
                if elapsed > 0.0:
                    changed_after[n_changed] = elapsed
                    n_changed += 1
                    changed_seconds += elapsed
            else:
                unchanged_seconds += elapsed
            period = estimated_period(
                changed_after, n_changed, changed_seconds, unchanged_seconds, shortest
            )
            wait = loop.scale * wait_of(period, loop.waiting)
        copy = version
        stale = 0.0
        fetched = due
        due += wait


@kernel
def _run_pages(
    web: Web, loop: _Numbers, first: FloatArray, n_rows_max: int, offsets: CountArray
) -> tuple[_Rows, CountArray]:
    n_pages = offsets.size - 1
    rows = _Rows(
        np.empty(4_096),
        np.empty(4_096),
        np.empty(4_096),
        np.empty(4_096, np.bool_),
        np.empty(4_096, np.bool_),
    )
    n_failed = np.zeros(n_pages, np.int64)
    n_rows = 0
    for page in range(n_pages):
        rows, n_rows, n_failed[page] = _run_page(
            web, page, loop, first[page], rows, n_rows, n_rows_max
        )
        offsets[page + 1] = n_rows
    cut = _Rows(
        rows.ended_at[:n_rows].copy(),
        rows.elapsed[:n_rows].copy(),
        rows.stale_seconds[:n_rows].copy(),
        rows.changed[:n_rows].copy(),
        rows.is_fetch[:n_rows].copy(),
    )
    return cut, n_failed


def _log(web: Web, numbers: _Numbers, first: FloatArray, n_rows_max: int | None) -> IntervalLog:
    offsets = np.zeros(web.n_pages + 1, np.int64)
    most = np.iinfo(np.int64).max if n_rows_max is None else n_rows_max
    rows, n_failed = _run_pages(web, numbers, first, most, offsets)
    return IntervalLog(offsets, *rows, n_failed)


def loop_log(
    web: Web,
    loop: Loop,
    *,
    scale: float = 1.0,
    is_spread: bool = False,
    n_rows_max: int | None = None,
) -> IntervalLog:
    """Let a loop poll each page just when it is due, and return every interval.

    Parameters
    ----------
    web
        On which every page has just been fetched.
    loop, scale
        The loop, and a factor on all its waits.
    is_spread
        Whether pages are somewhere in their first interval at the start, as for `LoopPolicy`,
        instead of at its beginning, as in the papers.
    n_rows_max
        After so many intervals no more are begun.
    """
    pseudo = loop.pseudo_seconds
    numbers = _Numbers(
        waiting=loop.waiting,
        scale=float(scale),
        retry=float(loop.retry_seconds),
        pseudo_changed=float(pseudo[0]),
        pseudo_unchanged=float(pseudo[1]),
        is_fixed=False,
    )
    phase = spread_phases(web.n_pages, first=0.5) if is_spread else np.ones(web.n_pages)
    return _log(web, numbers, scale * loop.first_seconds * phase, n_rows_max)


def fixed_log(web: Web, interval: FloatArray | float) -> IntervalLog:
    """Poll each page at its own fixed interval, as when its period is known."""
    numbers = _Numbers(Waiting(1.0, 0.0, math.inf, 0.0), 1.0, HOUR, 0.0, 0.0, is_fixed=True)
    first = np.ascontiguousarray(np.broadcast_to(np.asarray(interval, np.float64), web.n_pages))
    return _log(web, numbers, first, None)


def joined_log(logs: list[IntervalLog]) -> IntervalLog:
    """Return the logs of different pages as one."""
    counts = np.concatenate([np.diff(log.offsets) for log in logs])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    columns = zip(*(log[1:] for log in logs), strict=True)
    return IntervalLog(offsets, *(np.concatenate(column) for column in columns))


def stale_until(log: IntervalLog, edges: FloatArray) -> FloatArray:
    """Return the seconds that each page was stale before each instant: pages by instants.

    Exact where copies, once stale, stay so until they are fetched.
    """
    stale = np.empty((log.n_pages, edges.size))
    for page in range(log.n_pages):
        rows = slice(log.offsets[page], log.offsets[page + 1])
        ended = log.ended_at[rows]
        total = np.cumsum(log.stale_seconds[rows])
        # Flat until the copy turns stale, then as steep as time.
        at = np.column_stack([ended - log.stale_seconds[rows], ended]).reshape(-1)
        until = np.column_stack([total - log.stale_seconds[rows], total]).reshape(-1)
        stale[page] = np.interp(edges, at, until, left=0.0)
    return stale


def fetches_until(log: IntervalLog, edges: FloatArray) -> FloatArray:
    """Return the fetches of each page up to each instant: pages by instants."""
    fetches = np.empty((log.n_pages, edges.size))
    for page in range(log.n_pages):
        rows = slice(log.offsets[page], log.offsets[page + 1])
        at = log.ended_at[rows][log.is_fetch[rows]]
        fetches[page] = np.searchsorted(at, edges, side="right")
    return fetches


def cost_until(
    log: IntervalLog, edges: FloatArray, *, fetch_cost: float = 1.0, hour_cost: float = 1.0
) -> FloatArray:
    """Return what each page has cost before each instant: its fetches and its stale hours."""
    return fetch_cost * fetches_until(log, edges) + hour_cost / HOUR * stale_until(log, edges)


def loop_scale_for_budget(web: Web, loop: Loop, budget: float) -> float:
    """Return the factor on a loop's waits at which it wants just the budget, found to 1 %.

    `recrawl.sim.scale_for_budget` for loops: the largest demand no more than the budget.
    """
    n_allowed = int(budget * web.horizon)

    def exceeds_budget(scale: float) -> bool:
        most = n_allowed + web.n_pages + 1
        log = loop_log(web, loop, scale=scale, is_spread=True, n_rows_max=most)
        return int(log.page_fetches.sum()) > n_allowed

    return least_scale(exceeds_budget)
