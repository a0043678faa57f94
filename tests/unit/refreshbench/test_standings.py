"""Places and paired differences."""

import math

import numpy as np
import pytest

from recrawl.refreshbench import ORACLE, KnownWeb, Score, paired_interval, standings_of


def score(policy: str, web: int, freshness: float, *, budget: int = 0) -> Score:
    return Score(
        track="t",
        web=web,
        budget=budget,
        policy=policy,
        n_fetches=10,
        freshness=freshness,
        very_stale_share=0.1,
        fragment_staleness=math.nan,
        part_freshness=(freshness,),
        seconds=0.0,
    )


def test_the_freshest_is_first_and_who_is_told_has_no_place() -> None:
    scores = [
        score(policy, web, freshness + 0.1 * web)
        for policy, freshness in (("a", 0.5), (ORACLE, 0.8), ("b", 0.6))
        for web in range(4)
    ]
    found = standings_of("t", scores, "a", {})
    assert [(each.policy, each.place) for each in found] == [(ORACLE, None), ("b", 1), ("a", 2)]
    b = found[1]
    # Webs differ much and policies by the same on each, so the difference is certain.
    assert b.ahead.value == pytest.approx(-0.1)
    assert b.ahead.high - b.ahead.low == pytest.approx(0.0, abs=1e-9)
    ratios = [(0.6 + 0.1 * web) / (0.8 + 0.1 * web) for web in range(4)]
    assert b.ratio_to_oracle == pytest.approx(np.mean(ratios))


def test_only_what_the_one_asked_about_ran_is_compared() -> None:
    scores = [score("a", 0, 0.5), score("b", 0, 0.4), score("b", 1, 0.9), score("c", 1, 0.9)]
    found = standings_of("t", scores, "a", {})
    assert [each.policy for each in found] == ["a", "b"]
    assert found[1].freshness == 0.4
    assert math.isnan(found[1].ahead.low)
    assert [each.place for each in found] == [1, 2]
    with pytest.raises(ValueError, match="asked must be one of"):
        standings_of("t", scores, "d", {})


def test_who_was_run_on_less_is_compared_on_what_both_were_run_on() -> None:
    scores = [
        *(score("a", web, freshness) for web, freshness in enumerate((0.2, 0.8))),
        # On the difficult web only: less fresh than "a" over all, and yet ahead of it.
        score("b", 0, 0.3),
        # On the easy one: fresher than "a" over all, and behind it.
        score("c", 1, 0.7),
        score(ORACLE, 1, 0.9),
    ]
    found = standings_of("t", scores, "a", {})
    assert [(each.policy, each.place, each.n_runs) for each in found] == [
        ("b", 1, 1),
        (ORACLE, None, 1),
        ("a", 2, 2),
        ("c", 3, 1),
    ]
    assert [each.ahead.value for each in found] == pytest.approx([-0.1, -0.1, 0.0, 0.1])
    assert math.isnan(found[0].ratio_to_oracle)
    assert found[2].ratio_to_oracle == pytest.approx(0.8 / 0.9)


def test_there_is_no_place_among_nobody() -> None:
    scores = [score("a", 0, 0.0), score(ORACLE, 0, 0.9), score("b", 1, 0.5)]
    found = standings_of("t", scores, "a", {})
    assert [(each.policy, each.place) for each in found] == [(ORACLE, None), ("a", None)]


def test_parts_of_a_web_count_by_their_weight() -> None:
    known = {("t", 0): KnownWeb("t", 0, 4, 9, 1.0, "", (0.5, 0.25, 0.25))}
    own = score("a", 0, 0.5)._replace(part_freshness=(0.6, 0.4, 0.4))
    other = score("b", 0, 0.4)._replace(part_freshness=(0.4, 0.4, 0.4))
    ahead = standings_of("t", [own, other], "a", known)[1].ahead
    assert ahead.value == pytest.approx(0.1)
    assert ahead.low < 0.1 < ahead.high


def test_intervals_hold_the_truth_19_times_in_20() -> None:
    rng = np.random.default_rng(7)
    n_held = 0
    for _ in range(2_000):
        interval = paired_interval(rng.normal(1.0, 2.0, 5), np.ones(5))
        n_held += interval.low <= 1.0 <= interval.high
    # 1900 are expected, with a standard deviation of 10.
    assert 1_860 <= n_held <= 1_940
