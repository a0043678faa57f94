"""Longevity's curve fit as a policy that spends a budget, to stand beside others in simulations."""

import numpy as np

from lab.text_histories import Counts, Floats
from recrawl.core.divergence import (
    ChangeProfiles,
    CombinedProfiles,
    FittedCurves,
    add_observations,
    combined,
    fit_curves,
    start_bases,
)
from recrawl.core.value.longevity import fitted_value
from recrawl.sim import KnownPages, Outcomes
from recrawl.sim.curves import Contents
from recrawl.sim.policies import largest

__all__ = ["LongevityOnline"]

# Above all that a fetch can be worth: a page that must be learned about comes first.
_FIRST = 1e30


class LongevityOnline:
    """Fetches the pages whose fitted divergence curves make a fetch worth most.

    A fetch is compared with the last few versions fetched; these points make the page's curve,
    churn or scroll.  Distances to the copy alone would not do: a page fetched at one interval
    never shows whether its curve has levelled off.  The period of a page is at most so many mean
    periods as it was fetched times, which is the paper's learning phase: at first all pages take
    turns, later the pages that are not worth following are looked at ever more rarely.

    Parameters
    ----------
    contents
        Of the web that the policy is run on.
    n_bases
        Versions of each page that are kept (the paper's h).
    learning
        The longest period, in mean periods of all pages, per fetch made (the paper's l).
    risk
        The longest period at all, in mean periods.  It stands for the paper's ρT, for with a
        budget there is no T.
    n_items_tried
        Sizes of scroll curves.
    """

    def __init__(
        self,
        contents: Contents,
        *,
        n_bases: int = 5,
        learning: float = 1.0,
        risk: float = 3.0,
        n_items_tried: tuple[int, ...] = (2, 5, 10),
    ) -> None:
        if not learning > 0:
            raise ValueError(f"learning must be positive, got {learning!r}")
        self._contents = contents
        self._n_bases = n_bases
        self._learning = learning
        self._risk = risk
        self._n_items_tried = n_items_tried

    def start(self, pages: KnownPages, at: float) -> None:
        """Begin with no curve of any page."""
        n_pages = pages.importance.size
        self._weight = pages.importance / pages.cost
        self._profiles = ChangeProfiles.empty(n_pages, n_bases=self._n_bases)
        self._base = np.zeros((n_pages, self._n_bases), np.int64)
        self._fetched_at = np.full(n_pages, at if pages.has_copies else -np.inf)
        self._n_fetches = np.zeros(n_pages, np.int64)
        self._is_under_way = np.zeros(n_pages, np.bool_)
        # Pages are followed by a curve once they were seen to differ.
        self._ceiling, self._rate = np.zeros(n_pages), np.zeros(n_pages)
        self._n_items = np.ones(n_pages, np.int64)
        self._started_at = at
        self._n_picked = 0
        if pages.has_copies:
            everything, now = np.arange(n_pages), np.full(n_pages, at)
            self._start_bases(everything, now, self._contents.read(everything, now))

    def hear(self, at: Floats, page: Counts, source: Counts, claimed_at: Floats) -> None:
        """Ignore signals."""

    def pick(self, at: float, n: int) -> Counts:
        """Return the pages worth most, those that must be learned about first."""
        self._n_picked += n
        n_pages = self._weight.size
        mean_period = max(at - self._started_at, 1e-9) * n_pages / self._n_picked
        elapsed = at - self._fetched_at
        learning = self._learning * np.maximum(self._n_fetches, 1)
        allowed = mean_period * np.minimum(learning, self._risk)
        with np.errstate(over="ignore"):
            score = self._value(elapsed)
            late = elapsed >= allowed
            score[late] = _FIRST * np.minimum(elapsed[late] / allowed[late], _FIRST)
        score[self._is_under_way] = -np.inf
        pages = largest(score, n)
        self._is_under_way[pages] = True
        return pages

    def _value(self, elapsed: Floats) -> Floats:
        value = np.zeros(elapsed.size)
        rows = np.flatnonzero((self._rate > 0) & np.isfinite(elapsed))
        if rows.size:
            none = np.full(rows.size, np.nan)
            curves = FittedCurves(
                self._ceiling[rows],
                self._rate[rows],
                self._n_items[rows],
                none,
                none,
                np.ones(rows.size, np.bool_),
            )
            value[rows] = fitted_value(curves, elapsed[rows], importance=self._weight[rows])
        return value

    def learn(self, at: Floats, page: Counts, outcomes: Outcomes) -> None:
        """Add a point to the profiles of the pages fetched, and fit their curves anew."""
        self._is_under_way[page] = False
        at, page = at[~outcomes.error], page[~outcomes.error]
        version = self._contents.read(page, at)
        # Slots that hold no base yet have no age, and are passed over.
        apart = self._contents.divergence(
            np.repeat(page, self._n_bases),
            self._base[page].ravel(),
            np.repeat(version, self._n_bases),
        )
        add_observations(self._profiles, page, at, apart.reshape(-1, self._n_bases))
        self._fit(page)
        self._start_bases(page, at, version)
        self._fetched_at[page] = at
        self._n_fetches[page] += 1

    def _start_bases(self, page: Counts, at: Floats, version: Counts) -> None:
        self._base[page, start_bases(self._profiles, page, at).slot] = version

    def _fit(self, page: Counts) -> None:
        profile = combined(self._profiles, page)
        is_point = np.arange(profile.ages.shape[1]) < profile.n_points[:, None]
        moved = (is_point & (profile.divergences > 0)).any(axis=1)
        self._rate[page[~moved]] = 0.0
        if moved.any():
            some = CombinedProfiles(
                profile.n_points[moved], profile.ages[moved], profile.divergences[moved]
            )
            curves = fit_curves(some, n_items_tried=self._n_items_tried)
            rows = page[moved]
            self._ceiling[rows], self._rate[rows] = curves.ceiling, curves.rate
            self._n_items[rows] = curves.n_items
