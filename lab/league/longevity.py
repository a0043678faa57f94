"""Longevity's online policies on a web, looked at once a day: the league's experts on fragments."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lab.policies.longevity.online import OnlinePolicy
from recrawl.refreshbench import Track
from recrawl.sim import Account, Bookkeeper, Fetcher, Web
from recrawl.sim.policies.learned_curves import WebContents
from recrawl.sim.policies.policy import spread_phases

__all__ = ["run_longevity"]

DAY = 86_400.0
_ROUNDING = 1e-9
# The price is found to this step of its logarithm, from these ends on, in days.
_STEP = 0.03
# So that a page without importance has a price.
_WEIGHT_MIN = 1e-9
_LOG_PRICE_MIN, _LOG_PRICE_MAX = math.log(1e-4), math.log(1e4)

Counts = NDArray[np.int64]


class _Daily:
    """A policy of the paper let loose on a web, pages fetched on the day on which they are due."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._contents = WebContents(web)
        self._n_days = int(web.horizon / DAY)
        self._weight = np.maximum(web.importance / web.importance.mean(), _WEIGHT_MIN)

    def run(self, policy: OnlinePolicy, price: float, n_max: int) -> list[tuple[Counts, Counts]]:
        """Return the pages fetched on each day and which fetches failed; cut short if too many."""
        n_pages = self._web.n_pages
        fetcher = Fetcher(self._web)
        was_fetched = np.zeros((n_pages, self._n_days + 1), np.bool_)
        was_fetched[:, 0] = True
        fetches: list[tuple[Counts, Counts]] = []
        # Not all pages in step, as on the paper's snapshots.
        spread = 0.5 + spread_phases(n_pages)
        due = policy.begin(n_pages, price / self._weight) * spread
        n_fetches = 0
        for day in range(1, self._n_days + 1):
            rows = np.flatnonzero(due <= day + _ROUNDING)
            outcomes = fetcher.fetch(rows, np.full(rows.size, day * DAY))
            fetches.append((rows, outcomes.error.astype(np.int64)))
            n_fetches += rows.size
            if n_fetches > n_max:
                break
            done = rows[~outcomes.error]
            if done.size:
                apart = self._apart(done, day, was_fetched)
                changed = outcomes.changed[~outcomes.error]
                due[done] = day + policy.fetched(done, float(day), apart, changed)
                was_fetched[done, day] = True
        return fetches

    def _apart(self, rows: Counts, day: int, was_fetched: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return divergences from what was there on earlier days, of days with a fetch only.

        What was there on other days the policy has not seen, and may not ask for.
        """
        apart = np.full((rows.size, self._n_days + 1), np.nan, np.float32)
        row, before = np.nonzero(was_fetched[rows, :day])
        page = rows[row]
        now = self._contents.read(page, np.full(page.size, day * DAY))
        then = self._contents.read(page, np.multiply(before, DAY))
        apart[row, before] = self._contents.divergence(page, then, now)
        return apart


def run_longevity(make: Callable[[], OnlinePolicy], track: Track, web: Web, budget: int) -> Account:
    """Spend a budget by one of the paper's policies, at the least price that keeps to it.

    Like the rules, they know a price and no budget, so the price is found with hindsight.
    Pages are weighed by importance, as in the paper's equations 1 and 2; in its experiments all
    weigh the same.
    """
    n_max = int(track.budget(budget, web) * web.horizon)
    daily = _Daily(web)
    low, high = _LOG_PRICE_MIN, _LOG_PRICE_MAX
    while high - low > _STEP:
        middle = 0.5 * (low + high)
        fetches = daily.run(make(), math.exp(middle), n_max)
        if sum(rows.size for rows, _ in fetches) > n_max:
            low = middle
        else:
            high = middle
    books = Bookkeeper(web, n_parts=1, very_stale_seconds=track.very_stale_seconds)
    for day, (rows, error) in enumerate(daily.run(make(), math.exp(high), n_max), start=1):
        books.record(rows, np.full(rows.size, day * DAY), error)
    return books.close()
