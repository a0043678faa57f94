"""Longevity's online policies on snapshots: they learn how pages change from their own fetches.

All windows step through their snapshots together; a page that is due is fetched at the next
snapshot.  Times are in snapshots, prices in divergence times snapshots.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lab.policies.longevity.snapshots import Snapshots
from lab.text_histories import Counts, Floats
from recrawl.core.divergence import (
    ChangeProfiles,
    CombinedProfiles,
    add_observations,
    combine_profiles,
    start_bases,
)
from recrawl.core.price import due_elapsed
from recrawl.papers.change_rate import PollHistories, irregular_change_rate, substitute_edges
from recrawl.papers.divergence import BoundBasedPolicy, CurveFittingPolicy, Periods, fit_curves
from recrawl.papers.value.longevity import fitted_due
from recrawl.sim.policies.policy import spread_phases

__all__ = ["Bounds", "ChangeRates", "CurveFit", "OnlinePolicy", "WarmUp", "run_online"]

Flags: TypeAlias = NDArray[np.bool_]
Apart: TypeAlias = NDArray[np.float32]
_ROUNDING = 1e-9


class OnlinePolicy(Protocol):
    """Says after each fetch how long to wait for the next."""

    def begin(self, n_pages: int, price: float | Floats) -> Floats:
        """Forget everything; all pages were just fetched.  Return how long to wait.

        Parameters
        ----------
        n_pages
            Pages.
        price
            Value that a fetch must reach (the paper's T).  Where pages differ in weight it is T
            over the weight of each (the paper's W, eq. 1 and 2).
        """
        ...

    def fetched(self, rows: Counts, at: float, apart: Apart, changed: Flags) -> Floats:
        """Take note of a fetch of each row, and return how long to wait for the next.

        Parameters
        ----------
        rows, at
            What was fetched, and when.
        apart
            Divergence of what was fetched from each earlier snapshot.  [row, snapshot]
        changed
            Whether it differs from the copy.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """A learning phase that is the same for every policy: periods of l, 2l, 3l and so on.

    Parameters
    ----------
    first_period
        Snapshots from the first copy to the first refresh (l).
    until
        The snapshot from which policies set their own periods.
    """

    first_period: float
    until: int


def run_online(
    snapshots: Snapshots,
    policy: OnlinePolicy,
    price: float,
    *,
    seen: NDArray[np.float32] | None = None,
    warm_up: WarmUp | None = None,
) -> Flags:
    """Return which pages a policy fetches when, by window and snapshot.

    Parameters
    ----------
    snapshots
        What happens.
    policy
        Begins anew.
    price
        Value that a fetch must reach (the paper's T).
    seen
        The divergences that the policy sees, where they are not the true ones.  [window, a, b]
    warm_up
        A learning phase imposed on the policy; it learns all the same.
    """
    divergence = snapshots.divergence if seen is None else seen
    n_windows, n = snapshots.n_windows, snapshots.n_snapshots
    fetched = np.zeros((n_windows, n), np.bool_)
    copy = np.zeros(n_windows, np.int64)
    n_fetches = np.ones(n_windows, np.int64)
    # Pages are not found all at once: first periods are spread over half to one and a half, lest
    # all pages be fetched in step.
    due = policy.begin(n_windows, price) * (0.5 + spread_phases(n_windows))
    if warm_up is not None:
        due = np.full(n_windows, warm_up.first_period)
    for b in range(1, n):
        rows = np.flatnonzero(due <= b + _ROUNDING)
        if rows.size == 0:
            continue
        changed = snapshots.differs[rows, copy[rows], b]
        wait = policy.fetched(rows, float(b), divergence[rows, :, b], changed)
        fetched[rows, b] = True
        copy[rows] = b
        n_fetches[rows] += 1
        if warm_up is not None and b < warm_up.until:
            wait = warm_up.first_period * n_fetches[rows].astype(np.float64)
            # Whatever the warm-up still had in mind, then the policy's own schedule begins.
            wait = np.minimum(wait, warm_up.until - b)
        due[rows] = b + wait
    return fetched


class _Profiles:
    """Change profiles with the snapshots that are their bases."""

    def __init__(self, n_pages: int, n_bases: int, *, renews_when_full: bool) -> None:
        self.profiles = ChangeProfiles.empty(n_pages, n_bases=n_bases)
        self._base = np.zeros((n_pages, n_bases), np.int64)
        self._renews_when_full = renews_when_full
        self.start(np.arange(n_pages), 0.0)

    def observe(self, rows: Counts, at: float, apart: Apart) -> None:
        add_observations(
            self.profiles, rows, at, np.take_along_axis(apart, self._base[rows], axis=1)
        )

    def start(self, rows: Counts, at: float, keep_at: Floats | float = np.nan) -> None:
        if self._renews_when_full and at > 0.0:
            # The only base must be kept for a while, or there is nothing to fit.
            is_full = self.profiles.n_observed[rows, 0] == self.profiles.ages.shape[2]
            rows = rows[is_full]
        started = start_bases(self.profiles, rows, at, keep_at=keep_at)
        done = started.is_started
        self._base[rows[done], started.slot[done]] = int(at)


@dataclass(kw_only=True)
class CurveFit:
    """Fits a churn or scroll curve to what its fetches showed (§4.2).

    Parameters
    ----------
    n_bases
        Profiles of a page (the paper's h).  A single one is kept for 12 observations, as long
        as the paper's longest, for a profile of one observation shows no curve.
    learning
        The first periods are at most so many prices, then twice, three times as many and so on
        (the paper's l, in units of T): what learning costs is in proportion to what is spent.
    n_items_tried
        Sizes of scroll curves; in 30 snapshots larger ones look the same.
    risk
        Most that may be lost between two fetches, in prices (ρ); the paper names one for the
        bound-based policy only.
    """

    n_bases: int = 5
    learning: float = 10.0
    n_items_tried: tuple[int, ...] = (2, 5, 10)
    risk: float = np.inf

    def begin(self, n_pages: int, price: float | Floats) -> Floats:
        """Forget everything; all pages were just fetched."""
        self._price = np.broadcast_to(np.asarray(price, np.float64), n_pages)
        # Times in prices, so that the first periods are too.
        self._policy = CurveFittingPolicy(learning_seconds=self.learning, risk=self.risk)
        self._known = _Profiles(n_pages, self.n_bases, renews_when_full=self.n_bases == 1)
        self._due = np.full(n_pages, np.inf)
        self._n_fetches = np.ones(n_pages, np.int64)
        return self._period(np.arange(n_pages))

    def fetched(self, rows: Counts, at: float, apart: Apart, changed: Flags) -> Floats:  # noqa: ARG002
        """Fit curves to the profiles of the pages fetched."""
        self._known.observe(rows, at, apart)
        self._fit(rows)
        self._known.start(rows, at)
        self._n_fetches[rows] += 1
        return self._period(rows)

    def _period(self, rows: Counts) -> Floats:
        price = self._price[rows]
        return price * self._policy.period(self._due[rows] / price, self._n_fetches[rows], 1.0)

    def _fit(self, rows: Counts) -> None:
        profile = combine_profiles(self._known.profiles, rows)
        is_point = np.arange(profile.ages.shape[1]) < profile.n_points[:, None]
        moved = (is_point & (profile.divergences > 0.0)).any(axis=1)
        # A page that was never seen to differ has no curve and no due time.
        still = rows[~moved & (profile.n_points > 0)]
        self._due[still] = np.inf
        if moved.any():
            some = CombinedProfiles(
                profile.n_points[moved], profile.ages[moved], profile.divergences[moved]
            )
            curves = fit_curves(some, n_items_tried=self.n_items_tried)
            self._due[rows[moved]] = fitted_due(curves, self._price[rows[moved]])


@dataclass(kw_only=True)
class Bounds:
    """Doubles and halves periods by what its fetches prove (§4.3).

    The paper does not say with which period a page begins; here with T, the shortest that can be
    right.

    Parameters
    ----------
    n_bases
        Profiles of a page (the paper's h).
    risk
        Most that may be lost between two fetches, in prices (ρ).
    """

    n_bases: int = 5
    risk: float = 10.0

    def begin(self, n_pages: int, price: float | Floats) -> Floats:
        """Forget everything; all pages were just fetched."""
        self._price = np.broadcast_to(np.asarray(price, np.float64), n_pages)
        self._policy = BoundBasedPolicy(risk=self.risk)
        self._known = _Profiles(n_pages, self.n_bases, renews_when_full=False)
        self._periods = Periods(np.array(self._price), np.zeros(n_pages))
        return np.array(self._periods.period)

    def fetched(self, rows: Counts, at: float, apart: Apart, changed: Flags) -> Floats:  # noqa: ARG002
        """Move the periods of the pages fetched."""
        self._known.observe(rows, at, apart)
        before = Periods(self._periods.period[rows], self._periods.reference_at[rows])
        bounds = self._policy.bounds(self._known.profiles, at - before.reference_at, rows)
        after = self._policy.step(before, at, bounds, self._price[rows])
        self._periods.period[rows] = after.period
        self._periods.reference_at[rows] = after.reference_at
        self._known.start(rows, at, keep_at=after.reference_at)
        return after.period


@dataclass(kw_only=True)
class ChangeRates:
    """The optimal schedule for pages that are fresh or stale, at CGM's estimates of their rates.

    At a price, that schedule is the interval at which U of 1 - exp(-λt) reaches it: the optimum
    of Cho and Garcia-Molina, with the price as its Lagrange multiplier.  Intervals differ, so
    that the rate is the most likely one; a page found changed at every fetch, of which that is
    infinite, is taken to change once in its shortest interval.

    Parameters
    ----------
    revisits_unchanged
        Whether a page never found changed is taken to change once in the time it was observed.
        Otherwise its rate is 0, as CGM's estimator has it, and it is never fetched again.
    """

    revisits_unchanged: bool = False

    def begin(self, n_pages: int, price: float | Floats) -> Floats:
        """Forget everything; all pages were just fetched."""
        self._price = np.broadcast_to(np.asarray(price, np.float64), n_pages)
        self._fetched_at = np.zeros(n_pages)
        # A column for each time at which pages were fetched; 0 where it was other pages.
        self._elapsed = np.zeros((n_pages, 0))
        self._changed = np.zeros((n_pages, 0), np.bool_)
        return np.array(self._price)

    def fetched(self, rows: Counts, at: float, apart: Apart, changed: Flags) -> Floats:  # noqa: ARG002
        """Estimate the change rates of the pages fetched."""
        elapsed, found = np.zeros(self._fetched_at.size), np.zeros(self._fetched_at.size, np.bool_)
        elapsed[rows] = at - self._fetched_at[rows]
        found[rows] = changed
        self._elapsed = np.column_stack([self._elapsed, elapsed])
        self._changed = np.column_stack([self._changed, found])
        self._fetched_at[rows] = at
        return due_elapsed(self._change_rate(rows), self._price[rows])

    def _change_rate(self, rows: Counts) -> Floats:
        n_polls = self._elapsed.shape[1]
        # Polls of no time are ignored, so that all histories may be equally long.
        polls = PollHistories(
            self._elapsed[rows].ravel(),
            self._changed[rows].ravel(),
            np.arange(rows.size + 1) * n_polls,
        )
        most_likely = irregular_change_rate(polls, tolerance=1e-4).change_rate
        rate = substitute_edges(polls, most_likely)
        return rate if self.revisits_unchanged else np.where(most_likely == 0.0, 0.0, rate)
