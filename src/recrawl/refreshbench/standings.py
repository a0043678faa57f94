"""Places among policies, with paired differences: the same webs, or the same hosts of one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import t as students_t

from recrawl.core.arrays import FloatArray
from recrawl.refreshbench.reference import ORACLE, KnownWeb, known_webs, policies_of
from recrawl.refreshbench.scoring import Score

__all__ = ["Interval", "Standing", "paired_interval", "standings_of"]

_LEVEL = 0.95
# With fewer pairs an interval would be wider than what it is about.
_PAIRS_MIN = 3

# A web and a budget, and what a policy achieved on each.
_Run: TypeAlias = tuple[int, int]
_Runs: TypeAlias = dict[_Run, Score]


class Interval(NamedTuple):
    """A mean, and where it lies 19 times in 20; the ends are nan where there are too few pairs."""

    value: float
    low: float
    high: float


class Standing(NamedTuple):
    """One policy of a track, over the runs that it shares with the one asked about."""

    policy: str
    place: int | None
    """None for who is told what others must learn, and where there is nobody else."""
    n_runs: int
    """Webs and budgets that both were run on."""
    freshness: float
    ratio_to_oracle: float
    very_stale_share: float
    fragment_staleness: float
    ahead: Interval
    """Freshness of the policy asked about, less this one's."""


def paired_interval(differences: FloatArray, weights: FloatArray) -> Interval:
    """Return the weighted mean of paired differences, with Student's interval.

    Examples
    --------
    >>> interval = paired_interval(np.array([0.1, 0.2, 0.3]), np.full(3, 1 / 3))
    >>> [round(number, 3) for number in interval]
    [0.2, -0.048, 0.448]
    """
    share = weights / weights.sum()
    # Not by a product of vectors, whose last bit is the processor's.
    mean = math.fsum(share * differences)
    n = differences.size
    if n < _PAIRS_MIN:
        return Interval(mean, float("nan"), float("nan"))
    error = float(np.sqrt(n / (n - 1) * np.sum((share * (differences - mean)) ** 2)))
    reach = float(students_t.ppf(0.5 + _LEVEL / 2, n - 1)) * error
    return Interval(mean, mean - reach, mean + reach)


def standings_of(
    track: str,
    scores: Iterable[Score],
    asked: str,
    webs: Mapping[tuple[str, int], KnownWeb] | None = None,
) -> list[Standing]:
    """Return the policies of a track by freshness, best first, compared with the one asked about.

    Each is compared on the webs and budgets that both were run on, and left out where there are
    none.  The place of the one asked about is by these comparisons; it has none if there are none.

    Parameters
    ----------
    track
        Name of the track.
    scores
        Scores of all policies; those of other tracks, webs and budgets are ignored.
    asked
        The policy that others are compared with.
    webs
        Where the weights of a web's parts stand; as they come with the package by default.
    """
    by_policy: dict[str, _Runs] = {}
    listed = [score for score in scores if score.track == track]
    for score in listed:
        by_policy.setdefault(score.policy, {})[score.web, score.budget] = score
    if asked not in by_policy:
        raise ValueError(f"asked must be one of {policies_of(listed)}, got {asked!r}")
    known = known_webs() if webs is None else webs
    own = by_policy[asked]
    own_freshness = float(np.mean([own[run].freshness for run in sorted(own)]))
    found = []
    for policy, theirs in by_policy.items():
        shared = sorted(own.keys() & theirs.keys())
        if not shared:
            continue
        standing = Standing(
            policy=policy,
            place=None,
            n_runs=len(shared),
            freshness=_mean(theirs, shared, "freshness"),
            ratio_to_oracle=_ratio(theirs, by_policy.get(ORACLE, {}), shared),
            very_stale_share=_mean(theirs, shared, "very_stale_share"),
            fragment_staleness=_mean(theirs, shared, "fragment_staleness"),
            ahead=_ahead(own, theirs, shared, known),
        )
        # On other runs than all, what is comparable is the difference.
        missed = own_freshness - _mean(own, shared, "freshness") if len(shared) < len(own) else 0.0
        found.append((standing.freshness + missed, standing))
    return _rank(found)


def _mean(scores: _Runs, runs: Sequence[_Run], what: str) -> float:
    return float(np.mean([getattr(scores[run], what) for run in runs]))


def _ratio(scores: _Runs, oracle: _Runs, runs: Sequence[_Run]) -> float:
    ratios = [scores[run].freshness / oracle[run].freshness for run in runs if run in oracle]
    return float(np.mean(ratios)) if ratios else float("nan")


def _ahead(
    own: _Runs, theirs: _Runs, runs: Sequence[_Run], known: Mapping[tuple[str, int], KnownWeb]
) -> Interval:
    """Return own freshness less theirs: a pair for each part of each web, mean over budgets."""
    differences, weights = [], []
    for web in sorted({web for web, _ in runs}):
        of_web = [run for run in runs if run[0] == web]
        fresh = [
            np.mean([scores[run].part_freshness for run in of_web], axis=0)
            for scores in (own, theirs)
        ]
        differences.append(fresh[0] - fresh[1])
        # Webs count by their runs; all have as many, unless some of them are missing.
        share = len(of_web) / len(runs)
        weights.append(share * _weights(known, own[of_web[0]]))
    return paired_interval(np.concatenate(differences), np.concatenate(weights))


def _weights(known: Mapping[tuple[str, int], KnownWeb], score: Score) -> FloatArray:
    of_web = known.get((score.track, score.web))
    n_parts = len(score.part_freshness)
    if of_web is None or len(of_web.part_weights) != n_parts:
        return np.full(n_parts, 1.0 / n_parts)
    return np.array(of_web.part_weights)


def _rank(levels: list[tuple[float, Standing]]) -> list[Standing]:
    ordered = [standing for _, standing in sorted(levels, key=lambda level: -level[0])]
    if len([standing for standing in ordered if standing.policy != ORACLE]) == 1:
        return ordered  # a place among nobody says nothing
    placed = []
    place = 0
    for standing in ordered:
        if standing.policy == ORACLE:
            placed.append(standing)
        else:
            place += 1
            placed.append(standing._replace(place=place))
    return placed
