"""What a policy achieved on one web at one budget, and whether that was the web we mean."""

import hashlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.refreshbench.tracks import Track
from recrawl.sim import Account, Policy, Web, simulate

__all__ = [
    "Score",
    "digest_of",
    "part_weights",
    "parts_of",
    "run_policy",
    "score_of",
    "time_and_score",
]

# About so many batches spend a budget.  More would help no policy, and take longer.
_N_PICKS = 2_000
_DIGITS = 6


class Score(NamedTuple):
    """What one policy achieved on one web at one budget."""

    track: str
    web: int
    budget: int
    """Its number, from scarce (0) to ample."""
    policy: str
    n_fetches: int
    freshness: float
    """Share of time that copies equal their pages, weighted by importance."""
    very_stale_share: float
    """Share of time that copies have been stale for longer than the track's limit."""
    fragment_staleness: float
    """Share of copies that is wrong; nan where pages change as a whole."""
    part_freshness: tuple[float, ...]
    """Freshness of each part of the web (see `parts_of`)."""
    seconds: float
    """Of processor time that the run took, which depends on the machine."""

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What was run."""
        return self.track, self.web, self.budget, self.policy


def run_policy(
    track: Track, web: Web, policy: Policy, budget: int, *, per_second: float | None = None
) -> Account:
    """Let a policy spend one of a track's budgets on a web, in batches.

    There are about 2000, and more where a batch would exceed a tenth of the pages.

    Parameters
    ----------
    track, web
        The web must be one of the track's.
    policy
        Starts anew, and knows what an owner knows; every page was fetched just before.
    budget
        Number of the budget.
    per_second
        Another budget than the track's, in fetches per second.
    """
    spent = track.budget(budget, web) if per_second is None else per_second
    n_per_pick = max(round(spent * web.horizon / _N_PICKS), 1)
    # More than a tenth of all pages could not be told apart in time.
    n_per_pick = min(n_per_pick, max(web.n_pages // 10, 1))
    return simulate(
        web,
        policy,
        spent,
        n_per_pick=n_per_pick,
        n_parts=1,
        very_stale_seconds=track.very_stale_seconds,
    )


def parts_of(track: Track, web: Web) -> RowArray:
    """Return the part of each page: whole hosts, such that parts have about as many pages.

    Examples
    --------
    >>> from recrawl.refreshbench import track_named
    >>> from recrawl.sim import make_web
    >>> web = make_web(0, 1.0, [0.0] * 40, group=[i // 2 for i in range(40)])
    >>> parts_of(track_named("terms"), web)[:6]
    array([0, 0, 1, 1, 2, 2])
    """
    sizes = np.bincount(web.group)
    part_of_group = np.zeros(sizes.size, np.int64)
    filled = np.zeros(track.n_parts, np.int64)
    # The largest first, each to the part that has fewest.
    for group in np.argsort(-sizes, kind="stable"):
        part_of_group[group] = part = int(np.argmin(filled))
        filled[part] += sizes[group]
    return part_of_group[web.group]


def part_weights(track: Track, web: Web) -> FloatArray:
    """Return each part's share of all importance."""
    weight = np.bincount(parts_of(track, web), web.importance, track.n_parts)
    return np.asarray(weight / weight.sum())


def score_of(
    track: Track, web: Web, account: Account, *, number: int, budget: int, policy: str
) -> Score:
    """Return the score of a run, rounded to six digits.

    Parameters
    ----------
    track, web, account
        Track, web and account of the run.
    number, budget, policy
        The web's number, the budget's, and the policy's name.
    """
    parts = parts_of(track, web)
    whole = np.bincount(parts, web.importance, track.n_parts) * web.horizon
    fresh = np.bincount(parts, web.importance * account.page_fresh_seconds, track.n_parts)
    staleness = account.fragment_staleness if track.has_content else math.nan
    return Score(
        track=track.name,
        web=number,
        budget=budget,
        policy=policy,
        n_fetches=account.n_fetches,
        freshness=round(account.freshness, _DIGITS),
        very_stale_share=round(account.very_stale_share, _DIGITS),
        fragment_staleness=round(staleness, _DIGITS),
        part_freshness=tuple(round(float(share), _DIGITS) for share in fresh / whole),
        seconds=0.0,
    )


def time_and_score(
    track: Track, web: Web, run: Callable[[], Account], *, number: int, budget: int, policy: str
) -> Score:
    """Return the score of a run yet to be made, with the seconds that it takes."""
    begun = time.process_time()
    account = run()
    seconds = time.process_time() - begun
    score = score_of(track, web, account, number=number, budget=budget, policy=policy)
    return score._replace(seconds=round(seconds, 3))


def digest_of(web: Web) -> str:
    """Return what tells one web from another: hosts, changes and signals to the second.

    Seconds are whole, because the last digits of an instant depend on the machine.
    """
    digest = hashlib.sha256()
    weights = np.rint(1e6 * web.importance / web.importance.sum())
    columns = (
        *(web.group, weights, web.changes.offsets, np.rint(web.changes.at), web.version),
        *(web.signals.offsets, np.rint(web.signals.at)),
    )
    for column in columns:
        digest.update(np.asarray(column).astype("<i8").tobytes())
        digest.update(b"|")
    return digest.hexdigest()[:16]
