"""``recrawl bench``: run a user's policy on the webs of RefreshBench, and rank it."""

import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from recrawl.cli.support.corpus_access import prepare_kernels
from recrawl.cli.support.examples import CommandExample, example_command
from recrawl.cli.support.kernels import kernels_exist, require_compiled
from recrawl.cli.support.output import CHECK_FAILED, Output, output_option
from recrawl.cli.support.policies import METHODS, check_methods, make_policy
from recrawl.cli.support.reports.comparison_output import check_report
from recrawl.errors import RecrawlError

if TYPE_CHECKING:
    from recrawl.refreshbench import Results, Score, Standing, Track
    from recrawl.sim import Policy

__all__ = ["command"]

_NAME = "POLICY"
_OURS = "recrawl"


@example_command(
    "bench",
    examples=(
        CommandExample("recrawl bench my_policy.py --quick", needs_corpus=False, is_run=False),
        CommandExample("recrawl bench my_policy.py:Newest -o results.json", is_run=False),
        CommandExample(
            "recrawl bench my_policy.py --check results.json",
            "check that a results file can be reproduced",
            is_run=False,
        ),
        CommandExample("recrawl bench --tracks", "list the tracks", needs_corpus=False),
    ),
    short_help="Rank your own scheduling rule in a benchmark.",
)
@click.argument("policy", metavar=f"[{_NAME}]", required=False)
@click.option(
    "--quick", is_flag=True, help="Run fewer webs and budgets, to get a first result fast."
)
@click.option(
    "--open",
    "on_open",
    is_flag=True,
    help="Run the webs for developing a policy, not those on which it is ranked.",
)
@click.option(
    "--track",
    "names",
    multiple=True,
    metavar="NAME",
    help="Run only this track.  May be repeated.",
)
@click.option("--tracks", "lists", is_flag=True, help="List the tracks, and run nothing.")
@click.option(
    "-o",
    "--output",
    "--out",
    "into",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write the results to, for others to check.",
)
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Check this results file; with POLICY, also repeat some of its runs.",
)
@output_option
def command(
    policy: str | None,
    quick: bool,
    on_open: bool,
    names: tuple[str, ...],
    lists: bool,
    into: Path | None,
    checked: Path | None,
    out: Output,
) -> None:
    """Run a policy of your own on RefreshBench, and rank it among those of crawlers and papers.

    A policy is a rule that decides which pages to fetch next: a Python class with the methods
    start, on_signals, pick and learn.  POLICY is a file with one such class, FILE.py:CLASS or
    MODULE:CLASS; the file is executed.

    RefreshBench is a set of simulated and recorded webs (sets of pages that change).  Webs of one
    kind are a track.  While you develop a policy, use --open; without it, the policy is ranked on
    webs that are not used for development.  For recorded webs, set the environment variable
    RECRAWL_DATA to the folder with their data.  Exit code 3 if a results file fails its check.
    """
    if policy is None and checked is None and not lists:
        raise click.UsageError("name a POLICY, or give --tracks or --check FILE.")
    if into is not None:
        _check_writable(into)
    if lists:
        prepare_kernels(Path())
    elif not kernels_exist():
        require_compiled("bench")
    from recrawl.refreshbench import data_folder  # noqa: PLC0415

    tracks = _select_tracks(names, quick=quick or checked is not None)
    if lists:
        _list_tracks(tracks, out)
        return
    there = [track for track in tracks if track.is_there(data_folder())]
    if checked is not None:
        _check_results_file(checked, policy, there, out)
    elif policy is not None:
        for track in tracks:
            if track not in there:
                out.note(f"Skipping {track.name}: {_missing_data_text(track)}.")
        if not there:
            raise click.UsageError("there is nothing to run; --tracks lists the tracks.")
        results = _run_policy(policy, there, out, quick=quick, held_out=not on_open)
        for track in there:
            _show_standings(track, results, out)
        if into is not None:
            from recrawl.refreshbench import write_results  # noqa: PLC0415

            write_results(results, into)
            out.say(f"The results are in {into}.")
            out.row({"what": "results", "path": str(into)})


def _check_writable(into: Path) -> None:
    try:
        check_report(into)
    except click.BadParameter as error:
        error.param_hint = "--output"
        raise


def _missing_data_text(track: "Track") -> str:
    return f"RECRAWL_DATA does not name a folder with {', '.join(track.needs)}"


def _select_tracks(names: Sequence[str], *, quick: bool) -> "list[Track]":
    """Return the tracks with these names, or all; a quick run skips recorded tracks."""
    from recrawl.refreshbench import TRACKS  # noqa: PLC0415

    known = [track.name for track in TRACKS]
    for name in names:
        if name not in known:
            raise click.BadParameter(
                f"must be one of {', '.join(known)}, got {name!r}", param_hint="--track"
            )
    if names:
        return [track for track in TRACKS if track.name in names]
    return [track for track in TRACKS if not (quick and track.is_recorded)]


def _list_tracks(tracks: "Sequence[Track]", out: Output) -> None:
    for track in tracks:
        out.row(
            {
                "what": "track",
                "name": track.name,
                "about": track.about,
                "n_webs": track.n_webs,
                "n_held_out": track.n_held_out,
                "fetches_per_page_day": track.fetches_per_page_day,
                "very_stale_seconds": track.very_stale_seconds,
                "oracle_knows": track.oracle_knows,
                "needs": track.needs,
            }
        )
    out.facts((track.name, track.about) for track in tracks)


# ---------------------------------------------------------------------- the policy


class _LoadedPolicy(NamedTuple):
    """A user's policy."""

    name: str
    digest: str
    """Digest of its file; empty if there is no file."""
    path: str
    make: "Callable[[float], Policy]"


def _load_policy(name: str) -> _LoadedPolicy:
    place, _, class_name = name.partition(":")
    path = Path(place)
    if path.suffix == ".py":
        if not path.is_file():
            raise click.BadParameter(f"there is no file {path}", param_hint=_NAME)
        module = _run_file_as_module(path)
        class_name = class_name or _only_policy(module, path)
    elif place and class_name:
        module = _import_module(place)
    else:
        raise click.BadParameter(
            f"must be FILE.py, FILE.py:CLASS or MODULE:CLASS, got {name!r}", param_hint=_NAME
        )
    made: Any = getattr(module, class_name, None)
    if made is None:
        raise click.BadParameter(f"{place} has no {class_name}", param_hint=_NAME)
    check_methods(made, name, _NAME)
    _check_name(class_name)
    source = getattr(module, "__file__", None) or ""
    digest = hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else ""
    return _LoadedPolicy(class_name, digest, source, partial(make_policy, made))


def _check_name(name: str) -> None:
    """Raise a usage error for the name of a policy that the league has already."""
    from recrawl.refreshbench import ORACLE, reference_scores  # noqa: PLC0415

    if name in {_OURS, ORACLE, *(score.policy for score in reference_scores())}:
        raise click.BadParameter(
            f"{name} is the name of a policy of the league; give your class another name",
            param_hint=_NAME,
        )


def _run_file_as_module(path: Path) -> Any:
    """Execute a file as a module, under a name that no other module has."""
    name = f"_recrawl_bench_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # At the end of the path, modules beside the file can be imported but hide no others.
    sys.path.append(str(path.resolve().parent))
    with _usage_errors(f"{path} cannot be run"):
        spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")
    with _usage_errors(f"{name} cannot be imported"):
        return importlib.import_module(name)


@contextmanager
def _usage_errors(what: str) -> Iterator[None]:
    """Turn errors of a user's module into usage errors, even if it exits the process."""
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise click.BadParameter(f"{what}: {reason}", param_hint=_NAME) from error


def _only_policy(module: Any, path: Path) -> str:
    policies: list[str] = [
        name
        for name, made in vars(module).items()
        if inspect.isclass(made)
        and made.__module__ == module.__name__
        and all(hasattr(made, method) for method in METHODS)
    ]
    if len(policies) != 1:
        having = f"{len(policies)} ({', '.join(policies)})" if policies else "none"
        raise click.BadParameter(
            f"{path} must have one class with {', '.join(METHODS)}, got {having}; "
            f"name it: {path}:CLASS",
            param_hint=_NAME,
        )
    return policies[0]


def _run_policy(
    name: str, tracks: "Sequence[Track]", out: Output, *, quick: bool, held_out: bool
) -> "Results":
    from recrawl.refreshbench import bench_policy, data_folder, runs_of  # noqa: PLC0415

    policy = _load_policy(name)
    total = sum(1 for _ in runs_of(tracks, quick=quick, held_out=held_out))
    with out.progress("running", total, unit="runs") as advance:

        def on_score(score: "Score") -> None:
            out.row({"what": "score", **score._asdict()})
            advance(1)

        try:
            return bench_policy(
                policy.make,
                policy.name,
                tracks=tracks,
                quick=quick,
                held_out=held_out,
                folder=data_folder(),
                policy_digest=policy.digest,
                progress=on_score,
            )
        except RecrawlError as error:
            line = _line_of(error.__cause__, policy.path)
            if line is None:
                raise
            where = f"line {line} of {Path(policy.path).name}"
            raise RecrawlError(f"{error} ({where})") from error.__cause__


def _line_of(error: BaseException | None, path: str) -> int | None:
    """Return the last line of a file in the traceback of an error; None if it is not there."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.lineno for frame in frames if frame.filename == path]
    return lines[-1] if lines else None


# ---------------------------------------------------------------------- the result


def _show_standings(track: "Track", results: "Results", out: Output) -> None:
    from recrawl.refreshbench import ORACLE, reference_scores, standings_of  # noqa: PLC0415

    name = results.policy
    others = [score for score in reference_scores() if score.track == track.name]
    standings = standings_of(track.name, [*others, *results.scores], name)
    for standing in standings:
        out.row(
            {
                "what": "standing",
                "track": track.name,
                **standing._asdict(),
                "ahead": standing.ahead._asdict(),
            }
        )
    own = next(standing for standing in standings if standing.policy == name)
    n_placed = sum(standing.place is not None for standing in standings)
    n_in_part = sum(standing.n_runs < own.n_runs for standing in standings)
    n_left_out = len({score.policy for score in others}) - (len(standings) - 1)
    out.row(
        {
            "what": "place",
            "track": track.name,
            "place": own.place,
            "n_placed": n_placed,
            "n_compared_in_part": n_in_part,
            "n_not_compared": n_left_out,
        }
    )
    place = "no rank, because there are no scores to compare with"
    if own.place is not None:
        place = f"rank {own.place} of {n_placed}"
    out.say(f"{track.name}: {place}", style="bold")
    has_fragments = track.has_content
    columns = ("", "policy", "fresh", "of oracle", "yours is better by", "very stale")
    out.table(
        (*columns, "wrong") if has_fragments else columns,
        [_cells(standing, name, has_fragments=has_fragments) for standing in standings],
    )
    if n_in_part:
        out.say(
            f"{n_in_part} of them have no scores on some of these webs and budgets; they are "
            "compared with yours on the others."
        )
    if n_left_out:
        out.say(f"Not shown, without scores on these webs and budgets: {n_left_out} policies.")
    if any(standing.policy == ORACLE for standing in standings):
        out.say(f"The oracle knows {track.oracle_knows}.", style="dim")


def _cells(standing: "Standing", own: str, *, has_fragments: bool) -> list[str]:
    ahead = standing.ahead
    difference = f"{ahead.value:+.4f}".replace("-", "−")
    if standing.policy == own:
        difference = ""
    elif not math.isnan(ahead.low):
        difference += f" ± {(ahead.high - ahead.low) / 2:.4f}"
    cells = [
        _place_text(standing),
        f"▶ {standing.policy}" if standing.policy == own else standing.policy,
        f"{standing.freshness:.4f}",
        "–" if math.isnan(standing.ratio_to_oracle) else f"{standing.ratio_to_oracle:.3f}",
        difference,
        f"{standing.very_stale_share:.4f}",
    ]
    return [*cells, f"{standing.fragment_staleness:.4f}"] if has_fragments else cells


def _place_text(standing: "Standing") -> str:
    from recrawl.refreshbench import ORACLE  # noqa: PLC0415

    if standing.policy == ORACLE:
        return "oracle"
    return "–" if standing.place is None else str(standing.place)


def _check_results_file(
    path: Path, policy: str | None, tracks: "Sequence[Track]", out: Output
) -> None:
    from recrawl.refreshbench import check_results, read_results  # noqa: PLC0415

    results = read_results(path)
    again = None
    wrong = check_results(results)
    if policy is not None and not wrong:
        ran = {score.track for score in results.scores}
        repeated = [track for track in tracks if track.name in ran]
        left_out = sorted(ran - {track.name for track in repeated})
        if not repeated:
            raise click.UsageError(
                f"no run of {', '.join(left_out)} can be repeated.  Recorded tracks need --track "
                "and a folder with their data, named by RECRAWL_DATA."
            )
        if left_out:
            out.note(f"Not repeated: {', '.join(left_out)}.")
        webs = {(score.track, score.web) for score in results.scores}
        held_out = any(
            (track.name, number) in webs
            for track in repeated
            for number in track.webs(held_out=True)
        )
        again = _run_policy(policy, repeated, out, quick=True, held_out=held_out)
        wrong = check_results(results, again)
    n_again = 0 if again is None else len(again.scores)
    out.row({"what": "check", "policy": results.policy, "n_again": n_again, "wrong": wrong})
    for text in wrong:
        out.say(f"- {text}")
    if wrong:
        click.get_current_context().exit(CHECK_FAILED)
    repeated_text = f", and {n_again} repeated runs agree" if n_again else ""
    out.say(
        f"{path} is valid: it has {len(results.scores)} scores of {results.policy} on known webs"
        f"{repeated_text}."
    )
