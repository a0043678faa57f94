"""Scores say what a run achieved, and digests what it was run on."""

import math

import numpy as np
import pytest

from recrawl.refreshbench import (
    digest_of,
    part_weights,
    parts_of,
    run_policy,
    score_of,
    score_of_row,
    score_row,
    time_and_score,
)
from recrawl.sim import Times, Uniform
from tests.unit.refreshbench.small import SMALL


def test_parts_are_whole_hosts_of_about_equal_size() -> None:
    web = SMALL.web(0)
    parts = parts_of(SMALL, web)
    for group in np.unique(web.group):
        assert np.unique(parts[web.group == group]).size == 1
    assert np.bincount(parts).tolist() == [6, 6, 6, 6]


def test_freshness_is_that_of_its_parts_by_weight() -> None:
    web = SMALL.web(0)
    account = run_policy(SMALL, web, Uniform(), 1)
    score = score_of(SMALL, web, account, number=0, budget=1, policy="in turn")
    assert score.n_fetches == 60
    of_parts = float(part_weights(SMALL, web) @ np.array(score.part_freshness))
    assert of_parts == pytest.approx(score.freshness, abs=2e-6)
    assert 0 < score.very_stale_share < 1 - score.freshness
    assert math.isnan(score.fragment_staleness)


def test_a_score_is_the_same_after_a_file() -> None:
    web = SMALL.web(1)
    score = time_and_score(
        SMALL,
        web,
        lambda: run_policy(SMALL, web, Uniform(), 0),
        number=1,
        budget=0,
        policy="in turn",
    )
    row = {name: str(cell) for name, cell in score_row(score).items()}
    again = score_of_row(row)
    assert again._replace(fragment_staleness=0.0) == score._replace(fragment_staleness=0.0)
    assert score.seconds > 0


def test_another_budget_can_be_spent() -> None:
    web = SMALL.web(0)
    account = run_policy(SMALL, web, Uniform(), 0, per_second=1 / 3_600)
    assert account.n_fetches == 60


def test_a_digest_tells_webs_apart_but_not_by_their_last_digits() -> None:
    web = SMALL.web(0)
    found = digest_of(web)
    assert found != digest_of(SMALL.web(1))
    at = web.changes.at.copy()
    assert digest_of(web._replace(changes=Times(web.changes.offsets, at * (1 + 1e-14)))) == found
    at[0] += 2.0
    assert digest_of(web._replace(changes=Times(web.changes.offsets, at))) != found
