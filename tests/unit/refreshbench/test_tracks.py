"""Tracks are what their version says."""

from pathlib import Path

import numpy as np
import pytest

from recrawl.errors import ReadError
from recrawl.refreshbench import TRACKS, Track, check_web, known_webs, track_named

MADE_UP = [track for track in TRACKS if not track.is_recorded]
names = pytest.mark.parametrize("track", MADE_UP, ids=lambda track: track.name)


def test_budgets_go_from_scarce_to_ample() -> None:
    for track in TRACKS:
        budgets = np.array(track.fetches_per_page_day)
        assert budgets.size == 4
        assert (np.diff(budgets) > 0).all()


def test_names_are_those_of_files_and_links() -> None:
    assert len({track.name for track in TRACKS}) == len(TRACKS)
    assert all(track.name.replace("-", "").isalpha() for track in TRACKS)
    with pytest.raises(ValueError, match="name must be one of"):
        track_named("unheard-of")


@pytest.mark.slow_without_jit
@names
def test_webs_are_the_ones_that_others_were_run_on(track: Track) -> None:
    """If this fails, what is simulated has changed, and the version must change with it."""
    for number in (track.webs(held_out=False)[0], track.webs(held_out=True)[0]):
        web = track.web(number)
        assert check_web(track, number, web) == known_webs()[track.name, number].digest
        assert web.n_pages == known_webs()[track.name, number].n_pages


def test_what_is_held_out_is_none_of_the_open_webs() -> None:
    for track in TRACKS:
        n_webs = track.n_webs + track.n_held_out
        digests = {known_webs()[track.name, number].digest for number in range(n_webs)}
        assert len(digests) == n_webs


def test_the_open_made_up_webs_are_those_of_version_1() -> None:
    """Seeds from 1000 on, with which ADR 0020 says defaults were chosen."""
    assert known_webs()["unlike-rates", 0].digest == "29bffe4237362131"
    assert known_webs()["lively", 4].digest == "c1741ac722c5a5f9"


def test_every_web_is_known() -> None:
    for track in TRACKS:
        assert [number for name, number in known_webs() if name == track.name] == [
            *track.webs(held_out=False),
            *track.webs(held_out=True),
        ]
        for number in range(track.n_webs + track.n_held_out):
            known = known_webs()[track.name, number]
            assert len(known.part_weights) == track.n_parts
            assert sum(known.part_weights) == pytest.approx(1.0, abs=1e-4)


def test_a_budget_is_for_all_pages_together() -> None:
    track = track_named("papers-signals")
    web = track.web(1)
    assert track.budget(3, web) == pytest.approx(1.0 * 200 / 86_400)


def test_the_papers_web_is_in_days_and_has_no_hosts() -> None:
    web = track_named("papers-signals").web(0)
    assert web.horizon == 400 * 86_400
    assert np.unique(web.group).size == web.n_pages
    changes_per_day = web.changes.counts() / 400
    assert changes_per_day.mean() == pytest.approx(web.change_rate.mean() * 86_400, rel=0.05)
    assert web.signals.at.max() <= web.horizon


def test_recorded_tracks_need_their_files(tmp_path: Path) -> None:
    track = track_named("hourly")
    assert not track.is_there(None)
    assert not track.is_there(tmp_path)
    with pytest.raises(ValueError, match="folder must have nolan_cache500"):
        track.web(0, tmp_path)
    with pytest.raises(ValueError, match="number must be from 0 to 1"):
        track.web(2, tmp_path)


def test_what_an_oracle_is_told_ends_a_sentence() -> None:
    assert all(track.oracle_knows[-1].isalpha() for track in TRACKS)


def test_files_that_are_no_such_data_are_said(tmp_path: Path) -> None:
    (tmp_path / "nolan_cache500.csv").write_text("page,changes\n0,1\n")
    with pytest.raises(ReadError, match=r"hourly cannot be made of nolan_cache500.csv in .*: Key"):
        track_named("hourly").web(0, tmp_path)
