"""Run a policy on a simulated web, on virtual time, with an exact account of freshness."""

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.sim.accounting import Account, Bookkeeper
from recrawl.sim.policies.interval_policy import IntervalPolicy
from recrawl.sim.policies.interval_rules import IntervalRule
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages, Policy, signal_method
from recrawl.sim.web.content import NO_COPY, divergence_of, version_at_start
from recrawl.sim.web.failures import fails_at
from recrawl.sim.web.webs import Web, version_after

__all__ = [
    "Fetcher",
    "OnFetches",
    "check_pick",
    "least_scale",
    "run_freely",
    "scale_for_budget",
    "simulate",
]

# Versions remembered for each page, to notice that it returned to one of them.
_N_RECENT = 4
# Fetches that are accounted for at once.
_N_LOGGED = 8_192


OnFetches = Callable[[RowArray, FloatArray, FetchOutcomes], None]
"""Called with the pages, instants and outcomes of fetches as they are made."""


class _Copies(NamedTuple):
    """The stored copy of each page: 56 bytes a page."""

    version: CountArray
    fetched_at: FloatArray
    change_row: CountArray  # the first change after the last fetch
    recent: CountArray


@kernel
def _fetch(
    web: Web,
    copies: _Copies,
    pages: RowArray,
    at: FloatArray,
    changed: FlagArray,
    elapsed: FloatArray,
    last_modified_at: FloatArray,
    error: FlagArray,
    reverted: FlagArray,
    divergence: FloatArray,
) -> None:
    for i in range(pages.size):
        page = pages[i]
        if fails_at(web.errors, page, at[i]) or fails_at(web.outages, web.group[page], at[i]):
            error[i] = True
            continue
        row = copies.change_row[page]
        while row < web.changes.offsets[page + 1] and web.changes.at[row] <= at[i]:
            row += 1
        copies.change_row[page] = row
        version = version_after(web, page, row)
        copy = copies.version[page]
        if web.has_date[page] and row > web.changes.offsets[page]:
            last_modified_at[i] = web.changes.at[row - 1]
        if copy == NO_COPY:
            elapsed[i] = math.inf
            divergence[i] = 1.0
        else:
            elapsed[i] = at[i] - copies.fetched_at[page]
        if copy not in (NO_COPY, version):
            changed[i] = True
            divergence[i] = divergence_of(web.content, web.seed, page, copy, version)
            for k in range(_N_RECENT):
                reverted[i] |= copies.recent[page, k] == version
        if version != copy:
            for k in range(_N_RECENT - 1, 0, -1):
                copies.recent[page, k] = copies.recent[page, k - 1]
            copies.recent[page, 0] = version
        copies.version[page] = version
        copies.fetched_at[page] = at[i]


class Fetcher:
    """Fetches pages of a simulated web and returns the outcomes.

    Parameters
    ----------
    web
        The web, which is not modified.
    has_copies
        Whether every page has just been fetched at the start.
    """

    def __init__(self, web: Web, *, has_copies: bool = True) -> None:
        self._web = web
        n_pages = web.n_pages
        version = version_at_start() if has_copies else NO_COPY
        recent = np.full((n_pages, _N_RECENT), NO_COPY, np.int64)
        recent[:, 0] = version
        self._copies = _Copies(
            np.full(n_pages, version, np.int64),
            np.zeros(n_pages),
            web.changes.offsets[:-1].copy(),
            recent,
        )

    def fetch(self, page: RowArray, at: FloatArray) -> FetchOutcomes:
        """Fetch pages, each at its own instant; a page's fetches must come in order."""
        n = page.size
        outcomes = FetchOutcomes(
            np.zeros(n, np.bool_),
            np.zeros(n),
            np.full(n, np.nan),
            np.zeros(n, np.bool_),
            np.zeros(n, np.bool_),
            np.zeros(n),
        )
        _fetch(self._web, self._copies, page, at, *outcomes)
        return outcomes


class _Log:
    """Fetches not yet accounted for; accounting many at once is much cheaper."""

    def __init__(self, books: Bookkeeper, on_fetches: OnFetches | None) -> None:
        self._books = books
        self._on_fetches = on_fetches
        self._rows: list[tuple[RowArray, FloatArray, FlagArray]] = []
        self._n_rows = 0

    def add(self, page: RowArray, at: FloatArray, outcomes: FetchOutcomes) -> None:
        if self._on_fetches is not None:
            self._on_fetches(page, at, outcomes)
        self._rows.append((page, at, outcomes.error))
        self._n_rows += page.size
        if self._n_rows >= _N_LOGGED:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            page, at, error = (np.concatenate(column) for column in zip(*self._rows, strict=True))
            self._books.record(page, at, error)
        self._rows = []
        self._n_rows = 0


def simulate(  # noqa: PLR0913 (all but three are keywords)
    web: Web,
    policy: Policy,
    budget: float,
    *,
    horizon: float | None = None,
    n_per_pick: int = 1,
    latency_seconds: float = 0.0,
    burn_in_seconds: float = 0.0,
    n_parts: int = 2,
    very_stale_seconds: float = 86_400.0,
    has_copies: bool = True,
    on_fetches: OnFetches | None = None,
) -> Account:
    """Run a policy on a web at a budget, and return the account of its freshness.

    The same web, policy and budget give the same account, bit by bit.  Before each pick the policy
    receives the signals that have arrived and the outcomes of finished fetches.

    Parameters
    ----------
    web
        The web, which is not modified, so that all policies see the same one.
    policy
        Policy to run; it is started anew.
    budget
        Fetches per second.
    horizon
        Seconds to run; the web's own by default.
    n_per_pick
        Number of fetches per pick.  1 is a slot every 1/``budget`` seconds;
        ``round(budget * 86_400)`` is a nightly batch.
    latency_seconds
        Delay from the pick to the fetch, at which the page is read and the outcome is known.
    burn_in_seconds, n_parts, very_stale_seconds, has_copies
        See `Bookkeeper`.
    on_fetches
        Function called with all fetches.

    Examples
    --------
    >>> from recrawl.sim import Oracle, Uniform, papers_web
    >>> hour = 3_600.0
    >>> web = papers_web(0, horizon=200 * hour, n_pages=50)
    >>> oracle = simulate(web, Oracle(web), 2 / hour)
    >>> uniform = simulate(web, Uniform(), 2 / hour)
    >>> oracle.n_fetches, oracle.freshness > uniform.freshness
    (400, True)
    """
    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget!r}")
    if n_per_pick < 1:
        raise ValueError(f"n_per_pick must be at least 1, got {n_per_pick!r}")
    if not latency_seconds >= 0:
        raise ValueError(f"latency_seconds must not be negative, got {latency_seconds!r}")
    end = web.horizon if horizon is None else float(horizon)
    books = Bookkeeper(
        web,
        burn_in_seconds=burn_in_seconds,
        horizon=end,
        n_parts=n_parts,
        very_stale_seconds=very_stale_seconds,
        has_copies=has_copies,
    )
    fetcher = Fetcher(web, has_copies=has_copies)
    log = _Log(books, on_fetches)
    policy.start(KnownPages(web.importance, web.cost, web.group, web.kind, has_copies), 0.0)
    n_picks = int(end * budget / n_per_pick * (1 + 1e-12))
    picks_at = np.arange(1, n_picks + 1) * (n_per_pick / budget)
    order = np.argsort(web.signals.at, kind="stable")
    arrives_at = web.signals.at[order]
    signal_page = web.signals.pages()[order]
    source = web.signals.source[order]
    claimed_at = web.signals.claimed_at[order]
    n_arrived = np.concatenate([[0], np.searchsorted(arrives_at, picks_at, side="right")]).tolist()
    on_signals = signal_method(policy)
    under_way: deque[tuple[float, RowArray]] = deque()
    for k, now in enumerate(picks_at.tolist()):
        first, last = n_arrived[k], n_arrived[k + 1]
        if last > first:
            new = slice(first, last)
            on_signals(arrives_at[new], signal_page[new], source[new], claimed_at[new])
        while under_way and under_way[0][0] <= now:
            _fetch_and_learn(fetcher, policy, log, *under_way.popleft())
        pages = check_pick(policy.pick(now, n_per_pick), web.n_pages, n_per_pick)
        if pages.size == 0:
            continue
        if latency_seconds > 0.0:
            under_way.append((now + latency_seconds, pages))
        else:
            _fetch_and_learn(fetcher, policy, log, now, pages)
    while under_way and under_way[0][0] <= end:
        _fetch_and_learn(fetcher, policy, log, *under_way.popleft())
    log.flush()
    return books.close()


def check_pick(pages: object, n_pages: int, n_max: int) -> RowArray:
    """Return the pages a policy picked, or raise: kernels do not check indices."""
    if not isinstance(pages, np.ndarray) or pages.ndim != 1 or pages.dtype.kind not in "iu":
        raise ValueError(f"pick must return a column of page numbers, got {pages!r}")
    if pages.size > n_max:
        raise ValueError(f"pick must return at most {n_max} pages, got {pages.size}")
    if pages.size and not 0 <= int(pages.min()) <= int(pages.max()) < n_pages:
        raise ValueError(f"pick must return pages from 0 to {n_pages - 1}, got {pages!r}")
    return pages.astype(np.int64, copy=False)


def _fetch_and_learn(
    fetcher: Fetcher, policy: Policy, log: _Log, at: float, pages: RowArray
) -> None:
    instants = np.full(pages.size, at)
    outcomes = fetcher.fetch(pages, instants)
    log.add(pages, instants, outcomes)
    policy.learn(instants, pages, outcomes)


def run_freely(
    web: Web,
    rule: IntervalRule,
    *,
    scale: float | FloatArray = 1.0,
    horizon: float | None = None,
    burn_in_seconds: float = 0.0,
    n_parts: int = 2,
    very_stale_seconds: float = 86_400.0,
    n_fetches_max: int | None = None,
    on_fetches: OnFetches | None = None,
) -> Account:
    """Run a rule without a budget, fetching each page exactly when it is due.

    Pages are independent then, so all of them take one step at a time.  With the factor of
    `scale_for_budget` this compares rules at an equal number of fetches, to the rule's advantage:
    it may make them at any time.

    Parameters
    ----------
    web, horizon, burn_in_seconds, n_parts, very_stale_seconds
        See `simulate`.
    rule, scale
        See `IntervalPolicy`.
    n_fetches_max
        Number of fetches after which the run stops early.
    on_fetches
        Function called with all fetches; those of one page come in order of time, those of
        different pages do not.
    """
    end = web.horizon if horizon is None else float(horizon)
    policy = IntervalPolicy(rule, scale=scale)
    policy.start(KnownPages(web.importance, web.cost, web.group, web.kind, True), 0.0)
    fetcher = Fetcher(web)
    books = Bookkeeper(
        web,
        burn_in_seconds=burn_in_seconds,
        horizon=end,
        n_parts=n_parts,
        very_stale_seconds=very_stale_seconds,
    )
    n_fetches = 0
    while n_fetches_max is None or n_fetches <= n_fetches_max:
        pages = np.flatnonzero(policy.due_at <= end)
        if pages.size == 0:
            break
        at = policy.due_at[pages]
        outcomes = fetcher.fetch(pages, at)
        books.record(pages, at, outcomes.error)
        if on_fetches is not None:
            on_fetches(pages, at, outcomes)
        policy.learn(at, pages, outcomes)
        n_fetches += pages.size
    return books.close()


def scale_for_budget(
    web: Web, rule: IntervalRule, budget: float, *, horizon: float | None = None
) -> float:
    """Return the factor on a rule's clock at which it spends just the budget.

    Rules have no budget; this is the fairest comparison at an equal number of fetches.  The
    factor is accurate to 1 %, and the rule makes no more fetches than the budget allows.
    """
    end = web.horizon if horizon is None else float(horizon)
    n_allowed = int(budget * end)

    def exceeds_budget(scale: float) -> bool:
        account = run_freely(web, rule, scale=scale, horizon=end, n_fetches_max=n_allowed)
        return account.n_fetches > n_allowed

    return least_scale(exceeds_budget)


def least_scale(exceeds_budget: Callable[[float], bool]) -> float:
    """Return the smallest factor, to 1 %, at which a rule stays within the budget."""
    low, high = -1.0, 1.0
    while not exceeds_budget(math.exp(low)) and low > -30.0:
        low -= 1.0
    while exceeds_budget(math.exp(high)) and high < 30.0:
        high += 1.0
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        if exceeds_budget(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(high)
