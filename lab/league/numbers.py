"""What the league's scores say: places, leads with intervals, and fetches for equal freshness.

Everything is computed from the files that the league wrote, and nothing else.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.league.entries import ENTRIES, FRAGMENTS, OURS
from recrawl.refreshbench import (
    ORACLE,
    TRACKS,
    KnownWeb,
    Score,
    Standing,
    Track,
    known_web_of_row,
    paired_interval,
    score_of_row,
    standings_of,
)

__all__ = ["AsTheyCome", "Floats", "League", "Mean", "places", "read_league"]

Floats = NDArray[np.float64]
_STALE_MIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AsTheyCome:
    """A rule with its own waits on the webs of a track, and recrawl beside it."""

    policy: str
    fetches_per_page_day: float
    freshness: float
    ours_freshness: float
    """At as many fetches."""
    very_stale_share: float
    ours_very_stale_share: float
    ours_fetches_ratio: float
    """Fetches with which recrawl is as fresh, over the rule's; nan outside what was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean over webs, with the half-width of its interval; nan for a single web."""

    value: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class League:
    """All that was written down.

    Parameters
    ----------
    scores
        One for each run at a budget.
    own
        Rows of rules as they come.
    webs
        What is known of each web.
    held_out
        Whether of the webs that are held out, or of the open ones.
    """

    scores: tuple[Score, ...]
    own: tuple[dict[str, str], ...]
    webs: dict[tuple[str, int], KnownWeb]
    held_out: bool = True

    def first_web(self, track: Track) -> KnownWeb:
        """Return what is known of the first web of a track."""
        return self.webs[track.name, track.webs(held_out=self.held_out)[0]]

    def tracks(self) -> list[Track]:
        """Return the tracks of which there are scores."""
        names = {score.track for score in self.scores}
        return [track for track in TRACKS if track.name in names]

    def standings(self, track: Track) -> list[Standing]:
        """Return all policies of a track, the freshest first, compared with recrawl."""
        return standings_of(track.name, self.scores, OURS, self.webs)

    def table(self, track: Track, policy: str) -> dict[tuple[int, int], Score]:
        """Return a policy's scores by web and budget."""
        return {
            (score.web, score.budget): score
            for score in self.scores
            if score.track == track.name and score.policy == policy
        }

    def n_webs(self, track: Track) -> int:
        """Return on how many webs of a track recrawl was run at all budgets."""
        return len(self._webs_of(track, OURS))

    def _webs_of(self, track: Track, policy: str) -> list[int]:
        runs = self.table(track, policy)
        n_budgets = len(track.fetches_per_page_day)
        webs = sorted({web for web, _ in runs})
        return [web for web in webs if all((web, k) in runs for k in range(n_budgets))]

    def freshness(self, track: Track, policy: str) -> Floats:
        """Return mean freshness at each budget."""
        return self._means(track, policy, "freshness")

    def fetches(self, track: Track, policy: str) -> Floats:
        """Return mean fetches of an average page and day at each budget."""
        return self._means(track, policy, "n_fetches") / self.first_web(track).page_days

    def _means(self, track: Track, policy: str, what: str) -> Floats:
        runs = self.table(track, policy)
        webs = self._webs_of(track, OURS)
        budgets = range(len(track.fetches_per_page_day))
        return np.array([np.mean([getattr(runs[web, k], what) for web in webs]) for k in budgets])

    def fetches_ratio(self, track: Track, policy: str, rival: str, budget: int = -1) -> Mean:
        """Return the fetches with which a policy is as fresh as a rival, over the rival's.

        Mean over webs; nan where that freshness lies outside the policy's own budgets on one of
        them, and infinite where it lies above.

        Parameters
        ----------
        track, policy, rival
            Whom to compare, and where.
        budget
            Of the rival; the most ample by default.
        """
        ratios = []
        for web in self._webs_of(track, OURS):
            own, theirs = self._curve(track, policy, web), self._curve(track, rival, web)
            wanted = theirs[1][budget]
            needed = fetches_for(*own, np.array([wanted]))[0]
            is_out_of_reach = wanted > own[1].max()
            ratios.append(math.inf if is_out_of_reach else float(needed / theirs[0][budget]))
        if not np.isfinite(ratios).all():
            return Mean(value=math.inf if math.inf in ratios else math.nan, half_width=math.nan)
        interval = paired_interval(np.array(ratios), np.ones(len(ratios)))
        return Mean(value=interval.value, half_width=interval.high - interval.value)

    def _curve(self, track: Track, policy: str, web: int) -> tuple[Floats, Floats]:
        runs = self.table(track, policy)
        ran = [runs[web, k] for k in range(len(track.fetches_per_page_day))]
        return (
            np.array([float(score.n_fetches) for score in ran]),
            np.array([score.freshness for score in ran]),
        )

    def as_they_come(self, track: Track) -> list[AsTheyCome]:
        """Return the rules with their own waits, those that fetch most first."""
        rows = [row for row in self.own if row["track"] == track.name]
        found = []
        for policy in dict.fromkeys(row["policy"] for row in rows):
            of_policy = [row for row in rows if row["policy"] == policy]
            ratios = [self._matched(track, row, rows) for row in of_policy]
            spent = _column(of_policy, "n_fetches") / self.first_web(track).page_days
            found.append(
                AsTheyCome(
                    policy=policy,
                    fetches_per_page_day=float(np.mean(spent)),
                    freshness=float(np.mean(_column(of_policy, "freshness"))),
                    ours_freshness=float(np.mean(_column(of_policy, "ours_freshness"))),
                    very_stale_share=float(np.mean(_column(of_policy, "very_stale_share"))),
                    ours_very_stale_share=float(
                        np.mean(_column(of_policy, "ours_very_stale_share"))
                    ),
                    ours_fetches_ratio=float(np.mean(ratios)),
                )
            )
        return sorted(found, key=lambda each: -each.fetches_per_page_day)

    def _matched(self, track: Track, row: dict[str, str], rows: Sequence[dict[str, str]]) -> float:
        """Return recrawl's fetches for a rule's freshness over the rule's, on one web."""
        own_fetches, own_freshness = self._curve(track, OURS, int(row["web"]))
        beside = [each for each in rows if each["web"] == row["web"]]
        n_fetches = np.concatenate([own_fetches, _column(beside, "n_fetches")])
        freshness = np.concatenate([own_freshness, _column(beside, "ours_freshness")])
        needed = fetches_for(n_fetches, freshness, np.array([float(row["freshness"])]))[0]
        return float(needed / float(row["n_fetches"]))


def _column(rows: Sequence[dict[str, str]], name: str) -> Floats:
    return np.array([float(row[name]) for row in rows])


def fetches_for(n_fetches: Floats, freshness: Floats, wanted: Floats) -> Floats:
    """Return the fetches that reach a freshness, along a curve; nan beyond its ends.

    Between points the log of fetches goes with the log of the stale share, as it does for pages
    that change at random and are fetched often.

    Examples
    --------
    >>> fetches_for(np.array([1.0, 4.0]), np.array([0.6, 0.9]), np.array([0.8, 0.95]))
    array([ 2.,  nan])
    """
    order = np.argsort(n_fetches, kind="stable")
    n_fetches, freshness = n_fetches[order], freshness[order]
    better = freshness > np.maximum.accumulate(np.append(-np.inf, freshness[:-1]))
    log_fetches = np.log(n_fetches[better])
    log_stale = np.log(np.maximum(1 - freshness[better], _STALE_MIN))
    target = np.log(np.maximum(1 - wanted, _STALE_MIN))
    found = np.exp(np.interp(-target, -log_stale, log_fetches))
    inside = (target <= log_stale[0]) & (target >= log_stale[-1])
    return np.where(inside, found, np.nan)


def places(standings: Sequence[Standing], what: str) -> dict[str, int]:
    """Return the place of each policy by freshness, or by something of which less is better.

    Who is told the truth has none.  recrawl counts once: with the objective *fragments* where
    fragments are judged, else with its default.
    """
    aside = {ORACLE, OURS if what == "fragment_staleness" else FRAGMENTS}
    placed = [each for each in standings if each.policy not in aside]
    sign = -1 if what == "freshness" else 1
    ordered = sorted(placed, key=lambda each: sign * float(getattr(each, what)))
    return {each.policy: place + 1 for place, each in enumerate(ordered)}


def _read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _of_complete_webs(scores: Sequence[Score], *, held_out: bool) -> tuple[Score, ...]:
    """Return the scores of webs of a half on which everybody was run at all budgets."""
    done = {score.key for score in scores}
    complete = {
        (track.name, web)
        for track in TRACKS
        for web in track.webs(held_out=held_out)
        if all(
            (track.name, web, budget, entry.name) in done
            for entry in ENTRIES
            if entry.run is not None and entry.is_in(track)
            for budget in range(len(track.fetches_per_page_day))
        )
    }
    return tuple(score for score in scores if (score.track, score.web) in complete)


def read_league(folder: Path, *, held_out: bool = True) -> League:
    """Return the league in a folder; a web on which not everybody was run yet is left out.

    Parameters
    ----------
    folder
        Of the files.
    held_out
        Whether to read of the webs that are held out, or of the open ones.
    """
    webs = [known_web_of_row(row) for row in _read(folder / "webs.csv")]
    scores = [score_of_row(row) for row in _read(folder / "scores.csv")]
    halves = {track.name: track.webs(held_out=held_out) for track in TRACKS}
    own = _read(folder / "as_they_come.csv")
    return League(
        scores=_of_complete_webs(scores, held_out=held_out),
        own=tuple(row for row in own if int(row["web"]) in halves[row["track"]]),
        webs={(web.track, web.web): web for web in webs},
        held_out=held_out,
    )
