"""The league: every policy on every track of RefreshBench, ``python -m lab league``.

Each run is written down as soon as it is done, so that a league that was stopped goes on.
"""

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from lab.league.entries import ENTRIES, Entry, our_policy
from lab.league.files import FOLDER, AsItComes, Files, ship
from lab.league.page import write_figures
from lab.recorded import data_folder
from recrawl.refreshbench import (
    QUICK_BUDGETS,
    TRACKS,
    Score,
    Track,
    digest_of,
    part_weights,
    run_policy,
    score_row,
    time_and_score,
)
from recrawl.sim import Web

__all__ = ["league", "run_league"]

# Rules as they come are run on so many webs of each track that are held out: they differ little
# from web to web.
_N_WEBS_AS_THEY_COME = 1


def _web_row(track: Track, number: int, web: Web) -> dict[str, Any]:
    return {
        "track": track.name,
        "web": number,
        "n_pages": web.n_pages,
        "n_changes": web.changes.at.size,
        "days": f"{web.horizon / 86_400:.6g}",
        "digest": digest_of(web),
        "part_weights": " ".join(f"{share:.6g}" for share in part_weights(track, web)),
    }


def _as_it_comes(track: Track, number: int, web: Web, entry: Entry) -> AsItComes:
    assert entry.as_it_comes is not None
    begun = time.process_time()
    account = entry.as_it_comes(track, web)
    per_second = max(account.n_fetches, 1) / web.horizon
    ours = run_policy(track, web, our_policy(per_second), 0, per_second=per_second)
    return AsItComes(
        track=track.name,
        web=number,
        policy=entry.name,
        n_fetches=account.n_fetches,
        freshness=round(account.freshness, 6),
        very_stale_share=round(account.very_stale_share, 6),
        ours_freshness=round(ours.freshness, 6),
        ours_very_stale_share=round(ours.very_stale_share, 6),
        seconds=round(time.process_time() - begun, 3),
    )


def run_league(
    folder: Path,
    *,
    tracks: Sequence[Track],
    only: Iterable[str] = (),
    quick: bool = False,
    data: Path | None = None,
) -> Iterator[str]:
    """Run what is not yet in a folder, and yield what was run, in words.

    Parameters
    ----------
    folder
        Of the results.
    tracks, only
        Which tracks, and which policies; all policies unless given.
    quick
        The first web of each track that is held out, at the least budget, nothing as it comes.
    data
        Folder of recorded data.
    """
    files = Files(folder)
    wanted = set(only)
    entries = [entry for entry in ENTRIES if not wanted or entry.name in wanted]
    # What is held out comes first, of that the first web of every track; then the open webs.
    for held_out in (True,) if quick else (True, False):
        for track, number in _webs(tracks, held_out=held_out, n_max=1 if quick else None):
            yield from _run_budgets(files, track, number, entries, data, quick=quick)
    if not quick:
        for track, number in _webs(tracks, held_out=True, n_max=_N_WEBS_AS_THEY_COME):
            yield from _run_as_they_come(files, track, number, entries, data)
    files.sort()


def _webs(
    tracks: Sequence[Track], *, held_out: bool, n_max: int | None
) -> Iterator[tuple[Track, int]]:
    """Yield the webs of some tracks, the first of each before the second of any."""
    numbers = [(track, track.webs(held_out=held_out)[:n_max]) for track in tracks]
    for place in range(max((len(webs) for _, webs in numbers), default=0)):
        for track, webs in numbers:
            if place < len(webs):
                yield track, webs[place]


def _run_budgets(
    files: Files,
    track: Track,
    number: int,
    entries: Iterable[Entry],
    data: Path | None,
    *,
    quick: bool,
) -> Iterator[str]:
    runs = [
        (budget, entry)
        for budget in (QUICK_BUDGETS[:1] if quick else range(len(track.fetches_per_page_day)))
        for entry in entries
        if entry.is_in(track) and entry.run is not None
        if not files.scores.has(track.name, number, budget, entry.name)
    ]
    if not runs:
        return
    web = track.web(number, data)
    if not files.webs.has(track.name, number):
        files.webs.add(_web_row(track, number, web))
    for budget, entry in runs:
        score = _scored(track, number, web, budget, entry)
        files.scores.add(score_row(score))
        yield f"{' '.join(map(str, score.key))}: {score.freshness} in {score.seconds} s"


def _run_as_they_come(
    files: Files, track: Track, number: int, entries: Iterable[Entry], data: Path | None
) -> Iterator[str]:
    runs = [
        entry
        for entry in entries
        if entry.is_in(track) and entry.as_it_comes is not None
        if not files.own.has(track.name, number, entry.name)
    ]
    if not runs:
        return
    web = track.web(number, data)
    for entry in runs:
        own = _as_it_comes(track, number, web, entry)
        files.own.add(own._asdict())
        yield f"{' '.join(map(str, own.key))} as it comes in {own.seconds} s"


def _scored(track: Track, number: int, web: Web, budget: int, entry: Entry) -> Score:
    assert entry.run is not None
    return time_and_score(
        track,
        web,
        partial(entry.run, track, web, budget),
        number=number,
        budget=budget,
        policy=entry.name,
    )


@click.command()
@click.option("--quick", is_flag=True, help="One web of each track at one budget.")
@click.option("--track", "names", multiple=True, help="Only this track; may be repeated.")
@click.option("--only", multiple=True, help="Only this policy; may be repeated.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    help="Folder of the results; what is there already is not run again.",
)
@click.option(
    "--take",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    multiple=True,
    help="Take over the rows of a league in another folder, and run nothing; may be repeated.",
)
def league(
    quick: bool,
    names: tuple[str, ...],
    only: tuple[str, ...],
    into: Path,
    take: tuple[Path, ...],
) -> None:
    """Run every policy on every track, and keep the scores.

    Then scores and webs are copied into the package, and figures drawn.  A quick run leaves
    nothing behind, unless it goes into a folder of its own.
    """
    if quick and into == FOLDER:
        with tempfile.TemporaryDirectory() as scratch:
            _run(quick=quick, names=names, only=only, into=Path(scratch))
        return
    if take:
        files = Files(into)
        for folder in take:
            files.take(Files(folder))
        files.sort()
    else:
        _run(quick=quick, names=names, only=only, into=into)
    if into == FOLDER:
        ship()
        write_figures()


def _run(*, quick: bool, names: tuple[str, ...], only: tuple[str, ...], into: Path) -> None:
    data = data_folder()
    chosen = []
    for track in TRACKS:
        if track.name not in names if names else quick and track.is_recorded:
            continue
        if not track.is_there(data):
            click.echo(f"{track.name} is left out: {', '.join(track.needs)} not in {data}")
            continue
        chosen.append(track)
    begun = time.process_time()
    for said in run_league(into, tracks=chosen, only=only, quick=quick, data=data):
        click.echo(said)
    click.echo(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    league()
