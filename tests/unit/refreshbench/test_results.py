"""Results files can be written, read and checked."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recrawl.core.arrays import RowArray
from recrawl.errors import ReadError, RecrawlError
from recrawl.refreshbench import (
    Results,
    Score,
    bench_policy,
    check_results,
    check_web,
    known_webs,
    read_results,
    track_named,
    write_results,
)
from recrawl.sim import Uniform
from tests.unit.refreshbench.small import SMALL


@pytest.fixture(scope="module")
def results() -> Results:
    return bench_policy(lambda _: Uniform(), "mine", tracks=[SMALL], policy_digest="ab12")


def test_all_webs_and_budgets_are_run(results: Results) -> None:
    assert [(score.web, score.budget) for score in results.scores] == [
        (web, budget) for web in (2, 3) for budget in range(4)
    ]
    assert set(results.webs) == {"small 2", "small 3"}


def test_the_open_webs_are_run_where_that_is_asked_for() -> None:
    ran = bench_policy(lambda _: Uniform(), "mine", tracks=[SMALL], quick=True, held_out=False)
    assert {score.web for score in ran.scores} == {0, 1}


def test_a_quick_run_is_part_of_a_whole_one(results: Results) -> None:
    told: list[Score] = []
    quick = bench_policy(
        lambda _: Uniform(), "mine", tracks=[SMALL], quick=True, progress=told.append
    )
    assert list(quick.scores) == told
    whole = {score.key: score.freshness for score in results.scores}
    assert {score.key: score.freshness for score in quick.scores}.items() <= whole.items()


def test_a_policy_is_made_for_each_budget() -> None:
    budgets: list[float] = []

    def make(budget: float) -> Uniform:
        budgets.append(budget)
        return Uniform()

    bench_policy(make, "mine", tracks=[SMALL], quick=True)
    assert budgets[1] / budgets[0] == pytest.approx(4.0)


def test_results_are_the_same_after_a_file(results: Results, tmp_path: Path) -> None:
    write_results(results, tmp_path / "r.json")
    again = read_results(tmp_path / "r.json")
    assert repr(again) == repr(results)


def test_what_is_no_results_file_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", '{"what": "else"}', '{"what": "RefreshBench"}'):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(ReadError, match="no results file"):
            read_results(tmp_path / "r.json")


def known(results: Results) -> Results:
    """The same, as if it had been run on webs that everybody has."""
    digest = known_webs()["signals", 0].digest
    scores = tuple(
        score._replace(track="signals", web=0) for score in results.scores if score.web == 2
    )
    return replace(results, scores=scores, webs={"signals 0": digest})


def test_results_on_other_webs_are_found_out(results: Results) -> None:
    good = known(results)
    assert check_results(good) == []
    assert check_results(replace(good, webs={"signals 0": "other"})) == [
        "Web signals 0 is not one of RefreshBench 2."
    ]
    assert check_results(replace(good, webs={})) == ["Web signals 0 has scores and no digest."]
    assert "The version must be 2, got 7." in check_results(replace(good, version="7"))


def test_scores_that_cannot_be_reproduced_are_found_out(results: Results) -> None:
    good = known(results)
    assert check_results(good, good) == []
    first = good.scores[0]
    better = replace(good, scores=(first._replace(freshness=0.999), *good.scores[1:]))
    (said,) = check_results(better, good)
    assert "the file says 0.9990" in said


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ({"very_stale_share": 0.0}, "The very stale share on web 0 of signals at budget 1"),
        ({"very_stale_share": math.nan}, "the file says nan"),
        ({"freshness": math.nan}, "the file says nan"),
        ({"fragment_staleness": 0.0}, "Fragment staleness on web 0"),
        ({"n_fetches": 3}, "the file says 3"),
        ({"part_freshness": (1.0, 0.0, 0.5, 0.5)}, "Freshness of the parts"),
        ({"part_freshness": (0.5,)}, "Freshness of the parts"),
        ({"budget": 7}, "The file has no score of web 0 of signals at budget 1"),
        ({"budget": 1}, "There are 2 scores of web 0 of signals at budget 2"),
        ({"policy": "theirs"}, "Scores must be those of mine, got theirs"),
    ],
)
def test_every_number_is_compared(results: Results, forged: dict[str, Any], said: str) -> None:
    good = known(results)
    first = good.scores[0]._replace(**forged)
    wrong = check_results(replace(good, scores=(first, *good.scores[1:])), good)
    assert said in " ".join(wrong)


def test_results_of_another_policy_are_found_out(results: Results) -> None:
    good = known(results)
    assert check_results(replace(good, policy_digest="deadbeef"), good) == [
        "The policy's digest is ab12, the file says deadbeef."
    ]
    other = replace(
        good, policy="b", scores=tuple(score._replace(policy="b") for score in good.scores)
    )
    assert check_results(other, good) == ["The policy is mine, the file says b."]
    assert check_results(replace(good, scores=())) == ["There are no scores."]


def test_a_policy_that_fails_is_named_with_its_run() -> None:
    class Fails(Uniform):
        def pick(self, at: float, n: int) -> RowArray:
            raise KeyError

    with pytest.raises(RecrawlError, match=r"^mine failed on web 2 of small at budget 1: KeyError"):
        bench_policy(lambda _: Fails(), "mine", tracks=[SMALL], quick=True)


def test_another_web_than_the_known_one_is_an_error() -> None:
    track = track_named("signals")
    with pytest.raises(RecrawlError, match="not the one of RefreshBench 2"):
        check_web(track, 0, track.web(1))
