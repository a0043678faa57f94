"""Reference data shipped with the package: scores of other policies, and digests of the webs."""

import csv
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from recrawl.errors import RecrawlError
from recrawl.refreshbench.scoring import Score, digest_of
from recrawl.refreshbench.tracks import VERSION, Track
from recrawl.sim import Web

__all__ = [
    "ORACLE",
    "KnownWeb",
    "check_web",
    "known_web_of_row",
    "known_webs",
    "reference_scores",
    "score_of_row",
    "score_row",
]

ORACLE = "oracle"
"""Name of the policy that knows all change rates; it is shown, but not ranked."""


class KnownWeb(NamedTuple):
    """Recorded properties of a web, available without making the web."""

    track: str
    web: int
    n_pages: int
    n_changes: int
    days: float
    digest: str
    part_weights: tuple[float, ...]
    """Share of the total importance that each part has."""

    @property
    def page_days(self) -> float:
        """Number of pages times the number of days simulated."""
        return self.n_pages * self.days


def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files("recrawl.refreshbench") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def score_row(score: Score) -> dict[str, Any]:
    """Return a score as a row of a CSV or a results file."""
    row: dict[str, Any] = score._asdict()
    if math.isnan(score.fragment_staleness):
        row["fragment_staleness"] = ""
    # If a web has a single part, its freshness is that of the web.
    parts = score.part_freshness if len(score.part_freshness) > 1 else ()
    row["part_freshness"] = " ".join(f"{share:.6g}" for share in parts)
    return row


def score_of_row(row: dict[str, Any]) -> Score:
    """Read a score from a row of a CSV or a results file."""
    freshness = float(row["freshness"])
    parts = tuple(float(share) for share in str(row["part_freshness"]).split())
    return Score(
        track=str(row["track"]),
        web=int(row["web"]),
        budget=int(row["budget"]),
        policy=str(row["policy"]),
        n_fetches=int(row["n_fetches"]),
        freshness=freshness,
        very_stale_share=float(row["very_stale_share"]),
        fragment_staleness=float(row["fragment_staleness"] or "nan"),
        part_freshness=parts or (freshness,),
        seconds=float(row.get("seconds") or 0.0),
    )


def known_web_of_row(row: dict[str, str]) -> KnownWeb:
    """Read the properties of a web from a row of a CSV."""
    return KnownWeb(
        track=row["track"],
        web=int(row["web"]),
        n_pages=int(row["n_pages"]),
        n_changes=int(row["n_changes"]),
        days=float(row["days"]),
        digest=row["digest"],
        part_weights=tuple(float(share) for share in row["part_weights"].split()),
    )


@cache
def reference_scores() -> tuple[Score, ...]:
    """Return the scores of the policies of the league, at every budget of every track."""
    return tuple(score_of_row(row) for row in _rows("scores.csv"))


@cache
def known_webs() -> dict[tuple[str, int], KnownWeb]:
    """Return the recorded properties of all webs, by track and number."""
    webs = [known_web_of_row(row) for row in _rows("webs.csv")]
    return {(web.track, web.web): web for web in webs}


def check_web(track: Track, number: int, web: Web) -> str:
    """Return the digest of a web; raise if it is not the web that other policies were run on.

    Raises
    ------
    RecrawlError
        If the web differs from the recorded one: because a file of recorded data differs, or the
        simulation has changed without a new version of the benchmark.
    """
    found = digest_of(web)
    known = known_webs().get((track.name, number))
    if known is not None and known.digest != found:
        raise RecrawlError(
            f"web {number} of {track.name} is not the one of RefreshBench {VERSION}: its digest "
            f"must be {known.digest}, got {found}; scores on it cannot be compared"
        )
    return found


def policies_of(scores: Iterable[Score]) -> list[str]:
    """Return the policies of scores, in order of their first appearance."""
    return list(dict.fromkeys(score.policy for score in scores))
