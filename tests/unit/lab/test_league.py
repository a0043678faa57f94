"""The league runs what is missing, and its numbers follow from its files."""

import math
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import lab.league.run as running
from lab.league import files, numbers
from lab.league.entries import ENTRIES, OURS, TUNED, importance_factors
from lab.league.files import FOLDER, Files, ship
from lab.league.numbers import fetches_for, places, read_league
from lab.league.page import lead_text, league_markdown
from lab.league.run import run_league
from recrawl.refreshbench import ORACLE, TRACKS, Interval, Track, run_policy, track_named
from recrawl.sim import Uniform, papers_web
from tests.unit.refreshbench.small import SMALL

BY_NAME = {entry.name: entry for entry in ENTRIES}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Track:
    """A track that is over in a moment, and recrawl that only takes turns."""

    def taking_turns(track: Track, web: object, budget: int) -> object:
        return run_policy(track, web, Uniform(), budget)  # type: ignore[arg-type]

    ours = replace(BY_NAME[OURS], run=taking_turns)  # type: ignore[arg-type]
    entries = (ours, BY_NAME["Nutch adaptive"], BY_NAME["round robin"], BY_NAME[ORACLE])
    for module in (running, numbers, files):
        monkeypatch.setattr(module, "ENTRIES", entries)
        monkeypatch.setattr(module, "TRACKS", (SMALL,))
    monkeypatch.setattr(running, "our_policy", lambda _budget: Uniform())
    return SMALL


@pytest.mark.slow_without_jit
def test_stored_runs_are_not_repeated(small: Track, tmp_path: Path) -> None:
    run = partial(run_league, tmp_path, tracks=[small])
    assert len(list(run(only=["round robin"]))) == 16
    assert read_league(tmp_path).scores == ()
    everything = list(run())
    # Four policies at four budgets on two open webs and two that are held out, and Nutch as it
    # comes on the first of the latter.
    assert len(everything) == 3 * 16 + 1
    assert list(run()) == []
    league = read_league(tmp_path)
    assert [score.policy for score in league.scores][:3] == [OURS, "Nutch adaptive", "round robin"]
    assert {row["policy"] for row in league.own} == {"Nutch adaptive"}
    assert {score.web for score in league.scores} == {2, 3}
    on_open = read_league(tmp_path, held_out=False)
    assert {score.web for score in on_open.scores} == {0, 1}
    assert on_open.own == ()


def _without_seconds(path: Path) -> list[str]:
    return [line.rpartition(",")[0] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow_without_jit
def test_two_halves_give_the_same_results_as_one_run(small: Track, tmp_path: Path) -> None:
    whole, part, rest = tmp_path / "whole", tmp_path / "part", tmp_path / "rest"
    list(run_league(whole, tracks=[small], only=["round robin", ORACLE]))
    list(run_league(part, tracks=[small], only=["round robin"]))
    list(run_league(rest, tracks=[small], only=[ORACLE]))
    files = Files(part)
    files.take(Files(rest))
    files.sort()
    for name in ("scores.csv", "webs.csv"):
        taken, run = (_without_seconds(folder / name) for folder in (part, whole))
        assert taken == run


@pytest.mark.slow_without_jit
def test_shipped_scores_do_not_depend_on_the_machine(small: Track, tmp_path: Path) -> None:
    list(run_league(tmp_path, tracks=[small], only=["round robin"]))
    package = tmp_path / "package"
    package.mkdir()
    ship(tmp_path, package)
    assert "seconds" not in (package / "scores.csv").read_text()
    assert (package / "webs.csv").read_text() == (tmp_path / "webs.csv").read_text()


@pytest.mark.slow_without_jit
def test_rules_spend_the_budget_and_no_more() -> None:
    track = track_named("signals")
    web = track.web(0)
    for name in ("Nutch adaptive", "YaCy", "fixed interval", "third of the period"):
        run = BY_NAME[name].run
        assert run is not None
        n_fetches = run(track, web, 0).n_fetches
        allowed = track.budget(0, web) * web.horizon
        assert 0.9 * allowed < n_fetches <= allowed + 1e-6


@pytest.mark.slow_without_jit
def test_no_rule_in_use_beats_the_best_in_hindsight() -> None:
    track = track_named("signals")
    web = track.web(0)
    best = BY_NAME[TUNED].run
    assert best is not None
    freshness = best(track, web, 0).freshness
    names = ("Nutch adaptive", "StormCrawler", "Heritrix", "fixed interval")
    for name in (*names, "Nutch by importance", "fixed interval by importance"):
        run = BY_NAME[name].run
        assert run is not None
        assert run(track, web, 0).freshness <= freshness + 0.002


@pytest.mark.slow_without_jit
def test_rules_by_importance_fetch_what_matters_more_often() -> None:
    track = track_named("unlike-rates")
    web = track.web(0)
    plain, weighed = (
        BY_NAME[name].run for name in ("fixed interval", "fixed interval by importance")
    )
    assert plain is not None
    assert weighed is not None
    alike, apart = plain(track, web, 1), weighed(track, web, 1)
    assert apart.n_fetches <= track.budget(1, web) * web.horizon
    assert apart.freshness > alike.freshness + 0.05
    assert np.ptp(alike.page_fetches) <= 1
    order = np.argsort(web.importance)
    assert (np.diff(apart.page_fetches[order]) >= -1).all()


def test_the_factor_of_a_page_depends_on_importance_and_is_at_most_ten() -> None:
    web = papers_web(0, horizon=3_600.0, n_pages=4)
    web = web._replace(importance=np.array([1000.0, 20.0, 10.0, 1.0]))
    mean = 1031 / 4
    assert importance_factors(web, 0.0).tolist() == [1.0] * 4
    expected = [mean / 1000, 10.0, 10.0, 10.0]
    assert importance_factors(web, 1.0) == pytest.approx(expected)
    assert importance_factors(web, 0.5) == pytest.approx(np.sqrt(expected))


def test_policies_that_need_content_or_importance_skip_tracks_without_it() -> None:
    assert BY_NAME["recrawl, fragments"].is_in(track_named("texts"))
    assert not BY_NAME["recrawl, fragments"].is_in(track_named("signals"))
    assert BY_NAME["importance alone"].is_in(track_named("signals"))
    assert not BY_NAME["importance alone"].is_in(track_named("terms"))


def test_fetches_for_a_freshness_follow_the_curve() -> None:
    n_fetches, freshness = np.array([100.0, 400.0, 200.0]), np.array([0.8, 0.95, 0.9])
    wanted = np.array([0.8, 0.9, 0.95, 0.7, 0.99])
    found = fetches_for(n_fetches, freshness, wanted)
    assert found[:3].tolist() == pytest.approx([100.0, 200.0, 400.0])
    assert np.isnan(found[3:]).all()
    # A point that is worse than a cheaper one says nothing.
    again = fetches_for(np.append(n_fetches, 300.0), np.append(freshness, 0.5), wanted)
    assert again[:3].tolist() == pytest.approx(found[:3].tolist())


# ---------------------------------------------------------------------- what is kept


def test_the_package_contains_the_scores_of_the_league(tmp_path: Path) -> None:
    ship(FOLDER, tmp_path)
    for name in ("scores.csv", "webs.csv"):
        shipped = (resources.files("recrawl.refreshbench") / name).read_text(encoding="utf-8")
        assert shipped == (tmp_path / name).read_text(encoding="utf-8")


def test_every_track_ranks_all_policies_except_the_oracle() -> None:
    league = read_league(FOLDER)
    assert [track.name for track in league.tracks()] == [track.name for track in TRACKS]
    for track in league.tracks():
        standings = league.standings(track)
        placed = places(standings, "freshness")
        assert ORACLE not in placed
        assert sorted(placed.values()) == list(range(1, len(placed) + 1))
        ratio = league.fetches_ratio(track, "Nutch adaptive", "Nutch adaptive")
        assert ratio.value == pytest.approx(1.0)
        assert not math.isnan(league.freshness(track, OURS).sum())


def test_the_page_has_a_section_and_a_figure_for_each_track() -> None:
    page = league_markdown()
    for track in read_league(FOLDER).tracks():
        assert f"\n### {track.name}\n" in page
        assert f"(figures/league-{track.name}.svg)" in page
    assert "nan" not in page


def test_tables_are_narrow_and_leads_are_said_in_words() -> None:
    page = league_markdown()
    heads = [line for line in page.splitlines() if line.startswith("| ")]
    assert max(line.count("|") for line in heads) <= 10
    assert "ahead of it by" not in page
    assert "ahead by −" not in page


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (Interval(0.0013, 0.0001, 0.0025), "ahead by 0.0013 ± 0.0012"),
        (Interval(-0.0009, -0.0033, 0.0015), "behind by 0.0009 ± 0.0024 (not significant)"),
        (Interval(-0.01, -0.02, -0.005), "behind by 0.0100 ± 0.0075"),
        (Interval(0.004, math.nan, math.nan), "ahead by 0.0040"),
    ],
)
def test_a_lead_says_its_direction_and_whether_it_is_significant(
    interval: Interval, said: str
) -> None:
    assert lead_text(interval) == said
