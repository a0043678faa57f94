"""A policy on all tracks, and the file that says what came out, so that others can check it."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recrawl.errors import ReadError, RecrawlError
from recrawl.refreshbench.reference import check_web, known_webs, score_of_row
from recrawl.refreshbench.scoring import Score, run_policy, time_and_score
from recrawl.refreshbench.tracks import QUICK_BUDGETS, QUICK_WEBS, TRACKS, VERSION, Track
from recrawl.sim import Account, Policy, Web

__all__ = ["Results", "bench_policy", "check_results", "read_results", "runs_of", "write_results"]

_WHAT = "RefreshBench"
# Two machines may differ in the last digits of a score, and by a fetch in some thousands.
_TOLERANCE = 2e-4
_N_CHARACTERS_MAX = 200
# What is compared within it, by its name in a sentence.
_COMPARED = {
    "Freshness": "freshness",
    "The very stale share": "very_stale_share",
    "Fragment staleness": "fragment_staleness",
}

MakePolicy = Callable[[float], Policy]
"""Makes a policy for a budget in fetches per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What came out of a benchmark, as it stands in a file.

    Parameters
    ----------
    policy, policy_digest
        Name of the policy, and digest of its file; empty if it has no file.
    scores
        Score of each run.
    webs
        Digest of each web by track and number: ``"signals 0"``.
    version, package_version
        Version of the benchmark, and of the package that ran it.
    """

    policy: str
    policy_digest: str
    scores: tuple[Score, ...]
    webs: dict[str, str]
    version: str = VERSION
    package_version: str = field(default_factory=lambda: version("recrawl"))


def runs_of(
    tracks: Sequence[Track], *, quick: bool, held_out: bool = True
) -> Iterator[tuple[Track, int, int]]:
    """Yield tracks, webs and budgets to run; web by web, because one may take long to make."""
    for track in tracks:
        webs = track.webs(held_out=held_out)
        for number in webs[:QUICK_WEBS] if quick else webs:
            for budget in QUICK_BUDGETS if quick else range(len(track.fetches_per_page_day)):
                yield track, number, budget


def bench_policy(
    make: MakePolicy,
    name: str,
    *,
    tracks: Sequence[Track],
    quick: bool = False,
    held_out: bool = True,
    folder: Path | None = None,
    policy_digest: str = "",
    progress: Callable[[Score], None] | None = None,
) -> Results:
    """Run a policy on all webs and budgets of some tracks.

    Parameters
    ----------
    make
        Makes the policy for a budget in fetches per second.
    name
        Name of the policy in the results.
    tracks, quick
        Tracks to run, and whether to run only their first webs at two budgets.
    held_out
        Whether on the webs that are held out, or on the open ones.
    folder
        Folder with the recorded data.
    policy_digest
        See `Results`.
    progress
        Is told each score as it is there.

    Raises
    ------
    RecrawlError
        If the policy fails, or picks what it must not; the cause is what it raised.

    Examples
    --------
    >>> from recrawl.refreshbench import track_named
    >>> from recrawl.sim import Uniform
    >>> tracks = [track_named("unlike-rates")]
    >>> results = bench_policy(lambda budget: Uniform(), "in turn", tracks=tracks, quick=True)
    >>> len(results.scores), results.scores[0].n_fetches
    (4, 4166)
    """
    scores: list[Score] = []
    webs: dict[str, str] = {}
    made: tuple[str, Any] = ("", None)
    for track, number, budget in runs_of(tracks, quick=quick, held_out=held_out):
        key = f"{track.name} {number}"
        if made[0] != key:
            made = (key, track.web(number, folder))
            webs[key] = check_web(track, number, made[1])
        web = made[1]
        run = partial(_made_and_run, make, track, web, budget)
        try:
            score = time_and_score(track, web, run, number=number, budget=budget, policy=name)
        except (Exception, SystemExit) as error:
            run_text = _run_text(track.name, number, budget)
            raise RecrawlError(f"{name} failed on {run_text}: {_reason(error)}") from error
        scores.append(score)
        if progress is not None:
            progress(score)
    return Results(policy=name, policy_digest=policy_digest, scores=tuple(scores), webs=webs)


def _made_and_run(make: MakePolicy, track: Track, web: Web, budget: int) -> Account:
    return run_policy(track, web, make(track.budget(budget, web)), budget)


def _reason(error: BaseException) -> str:
    """Return what went wrong in a line: a policy may have returned a long column."""
    text = " ".join(str(error).split())
    if len(text) > _N_CHARACTERS_MAX:
        text = text[:_N_CHARACTERS_MAX] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _settings(names: set[str]) -> dict[str, Any]:
    return {
        track.name: {
            "n_webs": track.n_webs,
            "n_held_out": track.n_held_out,
            "fetches_per_page_day": list(track.fetches_per_page_day),
            "very_stale_seconds": track.very_stale_seconds,
            "n_parts": track.n_parts,
        }
        for track in TRACKS
        if track.name in names
    }


def write_results(results: Results, path: Path) -> None:
    """Write results as JSON, one line for each score."""
    head = {
        "what": _WHAT,
        "version": results.version,
        "package_version": results.package_version,
        "policy": results.policy,
        "policy_sha256": results.policy_digest,
        "settings": _settings({score.track for score in results.scores}),
        "webs": results.webs,
    }
    lines = ",\n".join("  " + json.dumps(_json_row(score)) for score in results.scores)
    text = json.dumps(head, indent=1)[:-2] + ',\n "scores": [\n' + lines + "\n ]\n}\n"
    path.write_text(text, encoding="utf-8")


def _json_row(score: Score) -> dict[str, Any]:
    row: dict[str, Any] = score._asdict()
    if math.isnan(score.fragment_staleness):
        row["fragment_staleness"] = None
    return row


def _score_of_json(row: dict[str, Any]) -> Score:
    parts = " ".join(str(share) for share in row["part_freshness"])
    return score_of_row({**row, "part_freshness": parts})


def read_results(path: Path) -> Results:
    """Return the results in a file.

    Raises
    ------
    ReadError
        If it is not a results file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["what"] != _WHAT:
            raise ValueError(f"what must be {_WHAT}, got {found['what']!r}")
        return Results(
            policy=str(found["policy"]),
            policy_digest=str(found["policy_sha256"]),
            scores=tuple(_score_of_json(row) for row in found["scores"]),
            webs={str(key): str(digest) for key, digest in found["webs"].items()},
            version=str(found["version"]),
            package_version=str(found["package_version"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{path} is no results file of {_WHAT}: {error}") from error


def check_results(results: Results, again: Results | None = None) -> list[str]:
    """Return what is wrong with results, in sentences; nothing if they can be trusted.

    Parameters
    ----------
    results
        Results read from a file.
    again
        Some of the same runs made anew, to be compared score by score.
    """
    wrong = []
    if results.version != VERSION:
        wrong.append(f"The version must be {VERSION}, got {results.version}.")
    for key, digest in results.webs.items():
        track, _, number = key.rpartition(" ")
        known = known_webs().get((track, int(number) if number.isdigit() else -1))
        if known is None or known.digest != digest:
            wrong.append(f"Web {key} is not one of RefreshBench {VERSION}.")
    told = {f"{score.track} {score.web}" for score in results.scores} - set(results.webs)
    wrong += [f"Web {key} has scores and no digest." for key in sorted(told)]
    wrong += _wrong_rows(results)
    if again is not None:
        wrong += _wrong_policy(results, again)
        claimed = {score.key[:3]: score for score in results.scores}
        for score in again.scores:
            wrong += _wrong_scores(score, claimed.get(score.key[:3]))
    return wrong


def _wrong_rows(results: Results) -> list[str]:
    """Return what cannot be in a results file, whatever was run."""
    if not results.scores:
        return ["There are no scores."]
    wrong = []
    others = sorted({score.policy for score in results.scores} - {results.policy})
    if others:
        wrong.append(f"Scores must be those of {results.policy}, got {', '.join(others)}, too.")
    n_times = Counter(score.key[:3] for score in results.scores)
    wrong += [f"There are {n} scores of {_run_text(*run)}." for run, n in n_times.items() if n > 1]
    return wrong


def _wrong_policy(results: Results, again: Results) -> list[str]:
    wrong = []
    if results.policy != again.policy:
        wrong.append(f"The policy is {again.policy}, the file says {results.policy}.")
    if results.policy_digest != again.policy_digest:
        digests = [each.policy_digest or "empty" for each in (again, results)]
        wrong.append(f"The policy's digest is {digests[0]}, the file says {digests[1]}.")
    return wrong


def _wrong_scores(found: Score, theirs: Score | None) -> list[str]:
    """Return what of a run's score does not agree with the file's."""
    run = _run_text(*found.key[:3])
    if theirs is None:
        return [f"The file has no score of {run}."]
    wrong = []
    for what, name in _COMPARED.items():
        value, said = getattr(found, name), getattr(theirs, name)
        if not _agree(value, said, _TOLERANCE):
            wrong.append(f"{what} on {run} is {value:.4f}, the file says {said:.4f}.")
    if not _agree(found.n_fetches, theirs.n_fetches, max(1.0, _TOLERANCE * found.n_fetches)):
        wrong.append(
            f"The number of fetches on {run} is {found.n_fetches}, the file says "
            f"{theirs.n_fetches}."
        )
    # A part has the fewer pages, the more parts there are, so one page weighs the more.
    n_parts = len(found.part_freshness)
    if len(theirs.part_freshness) != n_parts or not all(
        _agree(*shares, _TOLERANCE * n_parts)
        for shares in zip(found.part_freshness, theirs.part_freshness, strict=True)
    ):
        wrong.append(f"Freshness of the parts of {run} is not what the file says.")
    return wrong


def _agree(found: float, said: float, tolerance: float) -> bool:
    """Return whether two numbers are the same; what is no number agrees only with its like."""
    if math.isnan(found) or math.isnan(said):
        return math.isnan(found) and math.isnan(said)
    return abs(found - said) <= tolerance


def _run_text(track: str, web: int, budget: int) -> str:
    return f"web {web} of {track} at budget {budget + 1}"
