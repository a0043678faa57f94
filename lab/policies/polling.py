"""What policies that estimate rates share: a log of polls, turns to take, when to refit."""

from typing import Literal, TypeAlias

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.papers.change_rate import (
    LastModifiedChangeRate,
    LastModifiedCounts,
    PolledChangeRate,
    PollHistories,
    irregular_change_rate,
    naive_change_rate,
    substitute_edges,
)
from recrawl.papers.signal_quality import SignalledPolls
from recrawl.sim.policies.policy import FetchOutcomes, largest
from recrawl.sim.web.times import offsets_of

__all__ = ["Estimator", "PollLog", "Refits", "Turns", "estimated_rates"]

Estimator: TypeAlias = Literal["naive", "improved", "irregular", "last_modified"]
"""X/T; CGM's for regular polls; CGM's for irregular ones; CGM's with dates where pages have one."""

# A refit reads the whole log, so the log must have grown by this share since the last one.
_GROWTH = 0.02


class PollLog:
    """Every poll so far, in columns that grow: 33 bytes a poll."""

    def __init__(self, n_pages: int) -> None:
        self.n_pages = n_pages
        self.n_polls = 0
        self._page = np.empty(1_024, np.int64)
        self._elapsed = np.empty(1_024)
        self._changed = np.empty(1_024, np.bool_)
        self._age = np.empty(1_024)
        self._n_signals = np.empty(1_024)

    def add(
        self,
        at: FloatArray,
        page: RowArray,
        outcomes: FetchOutcomes,
        n_signals: FloatArray | None = None,
    ) -> None:
        """Add fetches, but for those that failed and the first of a page."""
        seen = ~outcomes.error & np.isfinite(outcomes.elapsed)
        first, last = self.n_polls, self.n_polls + int(np.count_nonzero(seen))
        while last > self._page.size:
            for name in ("_page", "_elapsed", "_changed", "_age", "_n_signals"):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.empty_like(column)]))
        self._page[first:last] = page[seen]
        self._elapsed[first:last] = outcomes.elapsed[seen]
        self._changed[first:last] = outcomes.changed[seen]
        self._age[first:last] = (at - outcomes.last_modified_at)[seen]
        self._n_signals[first:last] = 0.0 if n_signals is None else n_signals[seen]
        self.n_polls = last

    @property
    def page(self) -> RowArray:
        """The page of each poll."""
        return self._page[: self.n_polls]

    @property
    def elapsed(self) -> FloatArray:
        """Seconds since the poll before."""
        return self._elapsed[: self.n_polls]

    @property
    def changed(self) -> FlagArray:
        """Whether the poll found a change."""
        return self._changed[: self.n_polls]

    @property
    def age(self) -> FloatArray:
        """Seconds since the last change, by the page's own word; nan where it says nothing."""
        return self._age[: self.n_polls]

    @property
    def n_signals(self) -> FloatArray:
        """Signals since the poll before."""
        return self._n_signals[: self.n_polls]

    def histories(self) -> PollHistories:
        """Return the polls page by page."""
        return PollHistories.from_rows(self.page, self.elapsed, self.changed, n_pages=self.n_pages)

    def signalled(self) -> SignalledPolls:
        """Return the polls page by page, with their signals."""
        order = np.argsort(self.page, kind="stable")
        offsets = offsets_of(self.page, self.n_pages)
        return SignalledPolls(
            offsets, self.elapsed[order], self.n_signals[order], self.changed[order]
        )


def estimated_rates(
    log: PollLog, estimator: Estimator, *, revisits_unchanged: bool = True
) -> FloatArray:
    """Return each page's change rate, per second, as an estimator has it.

    Parameters
    ----------
    log
        The polls.
    estimator
        Which one.
    revisits_unchanged
        Whether a page never found changed has the time it was polled for as its period (Prior
        and Cost do so).  Otherwise its rate is 0, as CGM's estimators have it, and it is never
        fetched again.
    """
    histories = log.histories()
    counts = histories.counts()
    all_seconds = float(counts.polled_seconds.sum())
    # Of a page never polled nothing is known but what the others do.
    prior_rate = max(float(counts.n_changed.sum()), 1.0) / max(all_seconds, 1e-300)
    if estimator == "naive":
        rate = naive_change_rate(counts.n_changed, counts.polled_seconds)
    elif estimator == "improved":
        rate = PolledChangeRate(prior_rate=prior_rate).change_rate(counts)
    else:
        most_likely = irregular_change_rate(histories, tolerance=1e-4).change_rate
        always_changed = np.isinf(most_likely)
        rate = np.where(always_changed, substitute_edges(histories, most_likely), most_likely)
        if estimator == "last_modified":
            dated = _dated_rates(log, prior_rate)
            rate = np.where(np.isnan(dated), rate, dated)
    if revisits_unchanged:
        with np.errstate(divide="ignore"):
            rate = np.where((rate == 0) & (counts.n_polls > 0), 1 / counts.polled_seconds, rate)
    return np.where(np.isfinite(rate), rate, prior_rate)


def _dated_rates(log: PollLog, prior_rate: float) -> FloatArray:
    """Return rates of pages that said when they changed whenever they had; nan for the others."""
    is_mute = np.zeros(log.n_pages, np.bool_)
    is_mute[log.page[log.changed & np.isnan(log.age)]] = True
    counts = LastModifiedCounts.zeros(log.n_pages)
    estimator = LastModifiedChangeRate(prior_rate=prior_rate)
    # Without a change there may be no date, and the page stood for the whole interval.
    age = np.where(log.changed, np.nan_to_num(log.age), log.elapsed)
    estimator.observe(counts, log.page, log.elapsed, age)
    return np.where(is_mute | (counts.n_changed == 0), np.nan, estimator.change_rate(counts))


class Refits:
    """Says when estimates are to be made anew, and what budget there was since the last time."""

    def __init__(self, n_pages: int, at: float) -> None:
        self._every = n_pages
        self._n_polls = 0
        self._n_asked = 0
        self._since = at

    def ask(self, n: int) -> None:
        """Take note that so many fetches were asked for."""
        self._n_asked += n

    def is_due(self, n_polls: int) -> bool:
        """Return whether the log has grown enough."""
        return n_polls - self._n_polls >= max(self._every, _GROWTH * self._n_polls)

    def begin(self, n_polls: int, at: float) -> float:
        """Begin a refit, and return the fetches per second asked for since the last one."""
        budget = self._n_asked / (at - self._since)
        self._n_polls, self._n_asked, self._since = n_polls, 0, at
        return budget


@kernel
def _scores(
    at: float, weight: FloatArray, tried_at: FloatArray, is_out: FlagArray, out: FloatArray
) -> None:
    for page in range(out.size):
        if is_out[page] or not weight[page] > 0.0:
            out[page] = -np.inf
        else:
            out[page] = weight[page] * (at - tried_at[page])


class Turns:
    """Lets pages take turns so that each is fetched in proportion to its weight, evenly spaced.

    The page of greatest weight × elapsed comes first: each then comes whenever that product
    reaches the same level, whatever the budget.  Pages of weight 0 never come.  A fetch that
    failed was a turn.
    """

    def __init__(self, n_pages: int, at: float) -> None:
        self.weight = np.ones(n_pages)
        self._tried_at = np.full(n_pages, at)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        self._score = np.empty(n_pages)

    def pick(self, at: float, n: int) -> RowArray:
        """Return the pages whose turn it is; they are under way until `end`."""
        _scores(at, self.weight, self._tried_at, self._is_under_way, self._score)
        pages = largest(self._score, n)
        self._is_under_way[pages] = True
        return pages

    def take(self, pages: RowArray) -> RowArray:
        """Return those of some pages that are not under way, and put them there."""
        free = pages[~self._is_under_way[pages]]
        self._is_under_way[free] = True
        return free

    def end(self, at: FloatArray, page: RowArray) -> None:
        """Take note that fetches have ended."""
        self._is_under_way[page] = False
        self._tried_at[page] = at
