"""The fast engine for policies that always fetch the page of greatest value.

A scan of all pages for every fetch is exact and slow.  Here only pages near the top are looked
at: values only grow between fetches, so the instant at which a page will be worth a certain
*floor* is known, and until then it cannot win while somebody else is above the floor.  The result
is the same, fetch by fetch.
"""

import heapq
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.kernel import kernel, table_kernel
from recrawl.core.value.no_signals import crawl_value_of
from recrawl.core.value.noisy import value_and_interval_of
from recrawl.core.value.signal_terms import sum_signal_terms
from recrawl.sim import Web

__all__ = [
    "GreedyRun",
    "Rule",
    "Told",
    "even_instants",
    "low_discrepancy",
    "run_greedy",
    "run_schedule",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
# A heap of (instant, page, stamp): when pages will be worth the floor.
_Waiting = list[tuple[float, int, int]]

# The pool of pages near the top begins with so many, and one in so many of all; at twice as many
# the floor is raised.
_POOL_MIN = 64
_PAGES_PER_POOLED = 256
# How far a page's threshold may lie before the exponent at which it reaches the floor, as a share.
_EARLY = 0.02
# With so little chance of being fresh a page is worth its limit to the last bit.
_EXPONENT_MAX = 100.0
# From so many fetches an instant on, all pages are looked at once for all of them.
_BATCH_MIN = 16
# Stands for no unsignalled change, so that times stay finite.
_UNSIGNALLED_SHARE_MIN = 1e-12
# Of Signals' §6.6: signals that GREEDY-CIS+ believes.
_PLUS_PRECISION, _PLUS_RECALL = 0.7, 0.6


class Rule(IntEnum):
    """The values of Signals by which pages are compared."""

    GREEDY = 0
    """No signals."""
    CIS = 1
    """Every signal is believed to be true."""
    CIS_PLUS = 2
    """As CIS for pages of good signals; the others' signals are ignored."""
    NCIS = 3
    """Signals are as noisy as they are: the exact value."""
    APPROX_1 = 4
    """The first term of the exact value."""
    APPROX_2 = 5
    """Its first two terms."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """What a policy believes of each page; rates are per unit of the web's time."""

    change_rate: Floats
    recall: Floats
    false_rate: Floats

    @classmethod
    def truth(cls, web: Web) -> "Told":
        """Return what is so, of a web with at most one source of signals."""
        n_sources = web.recall.shape[1]
        if n_sources > 1:
            raise ValueError(f"web must have at most one source of signals, got {n_sources}")
        none = np.zeros(web.n_pages)
        return cls(
            change_rate=web.change_rate,
            recall=web.recall[:, 0].copy() if n_sources else none,
            false_rate=web.false_rate[:, 0].copy() if n_sources else none,
        )

    @property
    def precision(self) -> Floats:
        """The share of signals that are true; 0 without signals."""
        true_rate = self.recall * self.change_rate
        rate = true_rate + self.false_rate
        return np.divide(true_rate, rate, out=np.zeros_like(rate), where=rate > 0)


class _Pages(NamedTuple):
    """The parameters of each page's value."""

    weight: Floats
    unsignalled_rate: Floats
    signal_rate: Floats
    precision: Floats
    ageing: Floats  # what a signal adds to the exponent
    n_terms: int  # of the exact value; 0 is all


class _Changes(NamedTuple):
    """What happens to pages and who tells of it, whoever fetches."""

    offsets: Rows
    at: Floats
    signal_page: Rows
    signal_at: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GreedyRun:
    """What a policy achieved.

    Parameters
    ----------
    accuracy
        Share of time that copies are fresh, weighted by importance, in each part of the time.
    page_fetches
        Of each page, over all the time.
    fetched
        The pages in the order in which they were fetched.
    """

    accuracy: Floats
    page_fetches: Rows
    fetched: Rows


@table_kernel
def _value(pages: _Pages, page: int, exponent: float) -> float:
    """Return what fetching a page is worth, -log P(fresh) being ``exponent``."""
    alpha = pages.unsignalled_rate[page]
    gamma = pages.signal_rate[page]
    precision = pages.precision[page]
    if gamma <= 0.0:
        return float(pages.weight[page] * crawl_value_of(alpha, exponent / alpha))
    if pages.n_terms > 0 and 0.0 < exponent < math.inf and precision < 1.0:
        # Signals App. A.1: APPROX-j.
        ageing = pages.ageing[page]
        n_terms = int(min(float(pages.n_terms), exponent / ageing + 1.0))
        value = sum_signal_terms(n_terms, exponent, ageing, gamma / alpha)[0] / gamma
        return float(pages.weight[page] * value)
    value, _ = value_and_interval_of(alpha, gamma, precision, exponent)
    return float(pages.weight[page] * value)


@table_kernel
def _growth_at_most(pages: _Pages, page: int, exponent: float) -> float:
    """Return how fast a value can grow from here on, as long as no signal comes."""
    # V' = α e^{-αι} ψ(ι) and ψ(ι) <= ι, so V' <= x e^{-x} with x = αι, which falls beyond 1.
    x = max(exponent, 1.0)
    return pages.weight[page] * x * math.exp(-x) if x < math.inf else 0.0


@table_kernel
def _exponent_below(pages: _Pages, page: int, floor: float) -> float:
    """Return an exponent at which the value is still below the floor, but hardly; or inf."""
    low, high = 0.0, 1.0
    while _value(pages, page, high) < floor:
        low = high
        high *= 2.0
        if high > _EXPONENT_MAX:
            return math.inf
    while high - low > _EARLY * high:
        middle = 0.5 * (low + high)
        if _value(pages, page, middle) < floor:
            low = middle
        else:
            high = middle
    return low


@table_kernel
def _add_fresh(fresh: Floats, edges: Floats, weight: float, start: float, end: float) -> None:
    for part in range(edges.size - 1):
        seconds = min(end, edges[part + 1]) - max(start, edges[part])
        if seconds > 0.0:
            fresh[part] += weight * seconds


@table_kernel
def _first_change_after(changes: _Changes, row: Rows, page: int, at: float) -> float:
    while row[page] < changes.offsets[page + 1] and changes.at[row[page]] <= at:
        row[page] += 1
    return changes.at[row[page]] if row[page] < changes.offsets[page + 1] else math.inf


@table_kernel
def _end_copy(
    weight: Floats,
    changes: _Changes,
    row: Rows,
    last: Floats,
    page: int,
    now: float,
    edges: Floats,
    fresh: Floats,
) -> None:
    """Account for the copy that a page has had since its last fetch, and begin a new one."""
    stale_at = _first_change_after(changes, row, page, last[page])
    _add_fresh(fresh, edges, weight[page], last[page], min(stale_at, now))
    last[page] = now


class _Standing(NamedTuple):
    """Where each page stands; those near the top are in the pool, the others wait."""

    last: Floats
    signalled: Floats  # what signals since the last fetch have added to the exponent
    # The exponent at which a page is worth the floor, or hardly less, and of which floor.
    threshold: Floats
    threshold_floor: Floats
    # What it was worth when last looked at, when that was, and how fast it can have grown.
    seen: Floats
    seen_at: Floats
    growth: Floats
    stamp: Rows  # an entry of the heap with an older one is void
    in_pool: NDArray[np.bool_]
    pool: Rows


def _standing_of(n_pages: int) -> _Standing:
    return _Standing(
        np.zeros(n_pages),
        np.zeros(n_pages),
        np.full(n_pages, np.inf),
        np.full(n_pages, -1.0),
        np.full(n_pages, np.inf),
        np.zeros(n_pages),
        np.zeros(n_pages),
        np.zeros(n_pages, np.int64),
        np.ones(n_pages, np.bool_),
        np.arange(n_pages),
    )


@table_kernel
def _look(pages: _Pages, standing: _Standing, page: int, now: float) -> float:
    """Return what a page is worth now."""
    if standing.seen_at[page] < now or standing.seen[page] == math.inf:
        elapsed = now - standing.last[page]
        exponent = pages.unsignalled_rate[page] * elapsed + standing.signalled[page]
        standing.seen[page] = _value(pages, page, exponent)
        standing.seen_at[page] = now
        standing.growth[page] = _growth_at_most(pages, page, exponent)
    return float(standing.seen[page])


@table_kernel
def _best(pages: _Pages, standing: _Standing, n_pool: int, now: float) -> int:
    """Return the place in the pool of the page of greatest value."""
    pool, seen, seen_at, growth = standing.pool, standing.seen, standing.seen_at, standing.growth
    # Whoever was best when last looked at is a good mark to begin with.
    best = 0
    for k in range(1, n_pool):
        if seen[pool[k]] > seen[pool[best]]:
            best = k
    value = _look(pages, standing, pool[best], now)
    for k in range(n_pool):
        page = pool[k]
        if seen[page] + growth[page] * (now - seen_at[page]) <= value:
            continue
        if _look(pages, standing, page, now) > value:
            value = seen[page]
            best = k
    return best


@kernel
def _wait(pages: _Pages, standing: _Standing, waiting: _Waiting, page: int, floor: float) -> None:
    """Take a page out of the running until it is worth the floor, or hardly less."""
    standing.in_pool[page] = False
    if standing.threshold_floor[page] != floor:
        standing.threshold[page] = _exponent_below(pages, page, floor)
        standing.threshold_floor[page] = floor
    standing.stamp[page] += 1
    missing = standing.threshold[page] - standing.signalled[page]
    if missing < math.inf:
        at = standing.last[page] + missing / pages.unsignalled_rate[page]
        heapq.heappush(waiting, (at, page, standing.stamp[page]))


@kernel
def _n_pooled(n_pages: int) -> int:
    return _POOL_MIN + n_pages // _PAGES_PER_POOLED


@kernel
def _raised_floor(
    pages: _Pages,
    standing: _Standing,
    waiting: _Waiting,
    n_pool: int,
    now: float,
    floor: float,
) -> tuple[int, float]:
    """Leave the best of the pool; return how many these are, and the floor above which they are."""
    pool = standing.pool
    n_left = _n_pooled(pool.size)
    value = np.empty(n_pool)
    for k in range(n_pool):
        value[k] = _look(pages, standing, pool[k], now)
    floor = max(floor, np.partition(value, n_pool - n_left)[n_pool - n_left])
    n_kept = 0
    for k in range(n_pool):
        page = pool[k]
        if value[k] >= floor:
            pool[n_kept] = page
            n_kept += 1
        else:
            _wait(pages, standing, waiting, page, floor)
    return n_kept, floor


@kernel
def _run(
    pages: _Pages,
    changes: _Changes,
    standing: _Standing,
    fetch_at: Floats,
    edges: Floats,
    discard_within: float,
    fetched: Rows,
    fresh: Floats,
) -> None:
    n_pages = pages.weight.size
    last, pool, in_pool = standing.last, standing.pool, standing.in_pool
    row = changes.offsets[:-1].copy()
    waiting = [(math.inf, 0, 0)]
    n_pool = n_pages
    floor = 0.0
    next_signal = 0
    for fetch in range(fetch_at.size):
        now = fetch_at[fetch]
        while next_signal < changes.signal_at.size and changes.signal_at[next_signal] <= now:
            page = changes.signal_page[next_signal]
            is_heard = changes.signal_at[next_signal] - last[page] >= discard_within
            next_signal += 1
            if pages.ageing[page] > 0.0 and is_heard:
                standing.signalled[page] += pages.ageing[page]
                standing.seen[page] = math.inf
                if not in_pool[page]:
                    _wait(pages, standing, waiting, page, standing.threshold_floor[page])
        while waiting[0][0] <= now:
            _, page, stamped = heapq.heappop(waiting)
            if stamped == standing.stamp[page] and not in_pool[page]:
                in_pool[page] = True
                pool[n_pool] = page
                n_pool += 1
        best = _best(pages, standing, n_pool, now) if n_pool > 0 else -1
        if best < 0 or standing.seen[pool[best]] < floor:
            # Nobody is above the floor: all pages are in the running.
            floor = 0.0
            waiting = [(math.inf, 0, 0)]
            for page in range(n_pages):
                pool[page] = page
                in_pool[page] = True
            n_pool = n_pages
            best = _best(pages, standing, n_pool, now)
        if n_pool > 2 * _n_pooled(n_pages):
            # Too many to look at each time.
            n_pool, floor = _raised_floor(pages, standing, waiting, n_pool, now, floor)
            best = _best(pages, standing, n_pool, now)
        winner = pool[best]
        fetched[fetch] = winner
        _end_copy(pages.weight, changes, row, last, winner, now, edges, fresh)
        standing.signalled[winner] = 0.0
        standing.seen[winner] = math.inf
        if floor > 0.0:
            n_pool -= 1
            pool[best] = pool[n_pool]
            _wait(pages, standing, waiting, winner, floor)
    for page in range(n_pages):
        _end_copy(pages.weight, changes, row, last, page, edges[-1], edges, fresh)


@kernel
def _run_batches(
    pages: _Pages,
    changes: _Changes,
    standing: _Standing,
    fetch_at: Floats,
    edges: Floats,
    discard_within: float,
    fetched: Rows,
    fresh: Floats,
) -> None:
    """As `_run`, looking at all pages once for all fetches of one instant."""
    n_pages = pages.weight.size
    last = standing.last
    row = changes.offsets[:-1].copy()
    value = np.empty(n_pages)
    next_signal = 0
    first = 0
    while first < fetch_at.size:
        now = fetch_at[first]
        end = first
        while end < fetch_at.size and fetch_at[end] == now:
            end += 1
        while next_signal < changes.signal_at.size and changes.signal_at[next_signal] <= now:
            page = changes.signal_page[next_signal]
            if changes.signal_at[next_signal] - last[page] >= discard_within:
                standing.signalled[page] += pages.ageing[page]
            next_signal += 1
        for page in range(n_pages):
            elapsed = now - last[page]
            exponent = pages.unsignalled_rate[page] * elapsed + standing.signalled[page]
            value[page] = _value(pages, page, exponent)
        order = np.argsort(-value, kind="mergesort")
        for k in range(end - first):
            page = order[k]
            fetched[first + k] = page
            _end_copy(pages.weight, changes, row, last, page, now, edges, fresh)
            standing.signalled[page] = 0.0
        first = end
    for page in range(n_pages):
        _end_copy(pages.weight, changes, row, last, page, edges[-1], edges, fresh)


@kernel
def _account(
    importance: Floats,
    changes: _Changes,
    page: Rows,
    fetch_at: Floats,
    edges: Floats,
    fresh: Floats,
) -> None:
    n_pages = importance.size
    last = np.zeros(n_pages)
    row = changes.offsets[:-1].copy()
    for i in range(fetch_at.size):
        _end_copy(importance, changes, row, last, page[i], fetch_at[i], edges, fresh)
    for p in range(n_pages):
        _end_copy(importance, changes, row, last, p, edges[-1], edges, fresh)


@kernel
def _low_discrepancy(rates: Floats, phase: Floats, out: Rows) -> None:
    turns = [((phase[page] / rates[page]), page) for page in range(rates.size) if rates[page] > 0.0]
    heapq.heapify(turns)
    for k in range(out.size):
        at, page = turns[0]
        out[k] = page
        heapq.heapreplace(turns, (at + 1.0 / rates[page], page))


def low_discrepancy(fetch_rate: Floats, n_fetches: int, *, seed: int = 0) -> Rows:
    """Return the pages of a schedule in which each has its rate, spread as evenly as can be.

    Of all pages the one whose next turn comes first is fetched next; its turns are one over its
    rate apart, and begin at a random phase.

    References
    ----------
    Signals §6.2 (LDS, after Azar et al., algorithm 3)
    """
    phase = np.random.default_rng(seed).random(fetch_rate.size)
    out = np.empty(n_fetches, np.int64)
    _low_discrepancy(np.ascontiguousarray(fetch_rate, np.float64), phase, out)
    return out


def even_instants(fetch_rate: float, horizon: float) -> Floats:
    """Return instants one over ``fetch_rate`` apart."""
    return np.asarray(np.arange(1, int(fetch_rate * horizon) + 1) / fetch_rate)


def _changes_of(web: Web) -> _Changes:
    order = np.argsort(web.signals.at, kind="stable")
    return _Changes(
        web.changes.offsets,
        web.changes.at,
        np.ascontiguousarray(web.signals.pages()[order]),
        np.ascontiguousarray(web.signals.at[order]),
    )


def _pages_of(web: Web, rule: Rule, told: Told) -> _Pages:
    change_rate, recall, false_rate = told.change_rate, told.recall, told.false_rate
    if rule is Rule.GREEDY:
        recall = np.zeros_like(recall)
    if rule is Rule.CIS_PLUS:
        is_good = (told.precision > _PLUS_PRECISION) & (recall > _PLUS_RECALL)
        recall = np.where(is_good, recall, 0.0)
    if rule in (Rule.CIS, Rule.CIS_PLUS):
        false_rate = np.zeros_like(false_rate)
    true_rate = recall * change_rate
    signal_rate = np.where(true_rate > 0, true_rate + false_rate, 0.0)
    precision = np.divide(
        true_rate, signal_rate, out=np.zeros_like(true_rate), where=signal_rate > 0
    )
    with np.errstate(divide="ignore"):
        ageing = -np.log1p(-precision)
    return _Pages(
        np.ascontiguousarray(web.importance),
        np.maximum(change_rate - true_rate, _UNSIGNALLED_SHARE_MIN * change_rate),
        signal_rate,
        precision,
        ageing,
        {Rule.APPROX_1: 1, Rule.APPROX_2: 2}.get(rule, 0),
    )


def run_greedy(
    web: Web,
    rule: Rule,
    fetch_at: Floats,
    *,
    edges: Floats,
    told: Told | None = None,
    discard_within: float = 0.0,
) -> GreedyRun:
    """Fetch, at each instant, the page of greatest value, and account for it exactly.

    Parameters
    ----------
    web
        With at most one source of signals; every page has just been fetched at the start.
    rule
        Which value.
    fetch_at
        Instants, in order; one repeated is a batch of different pages, of which there must be
        enough.
    edges
        Where the parts of the time begin, and the last one ends.
    told
        What the policy believes; the truth by default.
    discard_within
        Signals that arrive so soon after a fetch of their page are taken to speak of before it.
    """
    fetched = np.empty(fetch_at.size, np.int64)
    edges = np.asarray(edges, np.float64)
    fresh = np.zeros(edges.size - 1)
    pages = _pages_of(web, rule, told or Told.truth(web))
    standing = _standing_of(web.n_pages)
    n_instants = np.unique(fetch_at).size
    run = _run_batches if fetch_at.size > _BATCH_MIN * n_instants else _run
    run(pages, _changes_of(web), standing, fetch_at, edges, discard_within, fetched, fresh)
    return _run_of(web, fetched, edges, fresh)


def run_schedule(web: Web, page: Rows, fetch_at: Floats, *, edges: Floats) -> GreedyRun:
    """Fetch given pages at given instants, in order, and account for it exactly."""
    edges = np.asarray(edges, np.float64)
    fresh = np.zeros(edges.size - 1)
    _account(np.ascontiguousarray(web.importance), _changes_of(web), page, fetch_at, edges, fresh)
    return _run_of(web, page, edges, fresh)


def _run_of(web: Web, fetched: Rows, edges: Floats, fresh: Floats) -> GreedyRun:
    return GreedyRun(
        accuracy=fresh / (web.importance.sum() * np.diff(edges)),
        page_fetches=np.bincount(fetched, minlength=web.n_pages),
        fetched=fetched,
    )
