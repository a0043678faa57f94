"""Longevity's offline policies, which are told how pages change, and what any policy achieves.

A policy of the paper fetches a page as soon as a value reaches a threshold.  Offline the value
follows from the copy and the snapshot alone, so a policy is a table of values, and the threshold
sets how much is spent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.policies.longevity.snapshots import Snapshots
from lab.text_histories import Floats
from recrawl.core.value import crawl_value
from recrawl.papers.value.longevity import value_of_samples
from recrawl.sim.policies.policy import spread_phases

__all__ = [
    "OFFLINE",
    "Spent",
    "dynamic_divergence",
    "fetched_above",
    "fetched_evenly",
    "fragment_dynamic_value",
    "fragment_static_value",
    "holistic_dynamic_value",
    "holistic_static_value",
    "spent_of",
    "static_divergence",
]

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spent:
    """What a schedule cost and missed in each cluster.

    Parameters
    ----------
    n_fetches
        Refreshes made; the first copies are given.
    n_chances
        Refreshes that could have been made.
    fragment_staleness, stale_time
        Divergence, and time stale, summed over snapshots.
    n_intervals
        Over how many snapshots these are summed.
    """

    n_fetches: Floats
    n_chances: Floats
    fragment_staleness: Floats
    stale_time: Floats
    n_intervals: Floats


def spent_of(snapshots: Snapshots, fetched: Flags, *, first: int = 0, last: int = 0) -> Spent:
    """Return what a schedule cost and missed from snapshot ``first`` to before ``last``.

    Parameters
    ----------
    snapshots
        What happened.
    fetched
        Whether each page was fetched at each snapshot.  [window, snapshot]
    first, last
        The part that counts; all if ``last`` is 0.  The copies of snapshot 0 cost nothing.
    """
    n_windows, n = fetched.shape
    end = last or n
    k = np.arange(n)
    copy = np.maximum.accumulate(np.where(fetched, k, 0), axis=1)
    window = np.arange(n_windows)[:, None]
    part = slice(first, end)
    fragments = snapshots.mean_divergence[window, copy, k][:, part].sum(axis=1, dtype=np.float64)
    stale = snapshots.stale_share[window, copy, k][:, part].sum(axis=1, dtype=np.float64)
    costly = slice(max(first, 1), end)
    size = np.bincount(snapshots.cluster).astype(np.float64)

    def by_cluster(quantity: Floats) -> Floats:
        return np.bincount(snapshots.cluster, quantity, size.size).astype(np.float64)

    return Spent(
        n_fetches=by_cluster(fetched[:, costly].sum(axis=1).astype(np.float64)),
        n_chances=size * (end - max(first, 1)),
        fragment_staleness=by_cluster(fragments),
        stale_time=by_cluster(stale),
        n_intervals=size * (end - first),
    )


def fetched_above(value: NDArray[np.floating], threshold: float) -> Flags:
    """Return which pages are fetched when, by window and snapshot.

    Parameters
    ----------
    value
        Of fetching the page at snapshot b, of which the copy is snapshot a.  [window, a, b]
    threshold
        That the value must reach.
    """
    n_windows, n = value.shape[:2]
    window = np.arange(n_windows)
    copy = np.zeros(n_windows, np.int64)
    fetched = np.zeros((n_windows, n), np.bool_)
    for b in range(1, n):
        fetched[:, b] = value[window, copy, b] >= threshold
        copy[fetched[:, b]] = b
    return fetched


def fetched_evenly(share: float, n_snapshots: int, is_followed: Flags) -> Flags:
    """Return the schedule that fetches pages at an equal ``share`` of snapshots.

    Parameters
    ----------
    share
        Of all snapshots, 0 to 1.
    n_snapshots
        Of each window.
    is_followed
        The pages that are fetched at all.  [window]
    """
    phase = spread_phases(is_followed.size)
    turns = np.floor(share * np.arange(n_snapshots) + phase[:, None])
    fetched = np.diff(turns, axis=1, prepend=turns[:, :1]) > 0
    return np.asarray(fetched & is_followed[:, None])


def _by_age(value: Floats) -> Floats:
    """Return values by age as values of copy a at snapshot b."""
    n = value.shape[1]
    age = np.arange(n)[None, :] - np.arange(n)[:, None]
    return np.where(age >= 0, value[:, np.maximum(age, 0)], 0.0)


def fragment_static_value(snapshots: Snapshots) -> Floats:
    """Return U of each page's mean divergence curve (FS-S)."""
    curve = snapshots.mean_curve()
    ages = np.arange(curve.shape[1], dtype=np.float64)
    return _by_age(np.stack([value_of_samples(ages[1:], row[1:], ages) for row in curve]))


def holistic_static_value(snapshots: Snapshots) -> Floats:
    """Return U of a page that is fresh or stale and changes at its mean rate (HS-S)."""
    ages = np.arange(snapshots.n_snapshots, dtype=np.float64)
    return _by_age(crawl_value(snapshots.change_share[:, None], ages[None, :]))


def _dynamic_value(now: NDArray[np.floating], mean: NDArray[np.floating]) -> Floats:
    # Longevity eq. 4 with the curve that occurred: (b - a) D(a, b) less the area up to b.
    n = now.shape[1]
    area = np.zeros(now.shape)
    np.cumsum(mean[:, :, :-1], axis=2, out=area[:, :, 1:])
    age = np.maximum(np.arange(n)[None, :] - np.arange(n)[:, None], 0)
    return np.asarray(age * now - area)


def fragment_dynamic_value(snapshots: Snapshots) -> Floats:
    """Return U of the divergence that occurred since the copy was fetched (FS-D)."""
    return _dynamic_value(snapshots.divergence, snapshots.mean_divergence)


def holistic_dynamic_value(snapshots: Snapshots) -> Floats:
    """Return U of the staleness that occurred since the copy was fetched (HS-D)."""
    return _dynamic_value(snapshots.differs.astype(np.float32), snapshots.stale_share)


def static_divergence(snapshots: Snapshots) -> Floats:
    """Return each page's mean divergence at the age of the copy, instead of its U (§2.3)."""
    return _by_age(snapshots.mean_curve())


def dynamic_divergence(snapshots: Snapshots) -> Floats:
    """Return the divergence of the copy as it is, instead of its U (§2.3)."""
    return snapshots.divergence.astype(np.float64)


OFFLINE = {
    "FS-S": fragment_static_value,
    "HS-S": holistic_static_value,
    "FS-D": fragment_dynamic_value,
    "HS-D": holistic_dynamic_value,
    "D, static": static_divergence,
    "D, dynamic": dynamic_divergence,
}
"""The values of the paper's offline policies by name."""


def thresholds_of(value: Floats, n: int) -> Floats:
    """Return ``n`` thresholds that lead from all that is worth anything to next to nothing."""
    positive = value[value > 0]
    if positive.size == 0:
        return np.ones(1)
    return np.unique(np.quantile(positive, 1 - np.linspace(1, 0, n) ** 2))
