"""With the objective *fragments* a shard fetches pages that keep their content less often."""

from typing import Literal

import numpy as np
import pytest

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.shard import ShardSettings
from recrawl.sim import Account, Content, FetchOutcomes, Replaces, Times, Web, make_web, simulate
from recrawl.sim.policies.learned_curves import LearningCurves, WebContents
from recrawl.sim.policies.shard_policy import ShardPolicy, unlimited_settings

pytestmark = pytest.mark.slow_without_jit

DAY = 86_400.0


class Counting:
    """Counts the fetches of each page, for a policy."""

    def __init__(self, web: Web, objective: Literal["freshness", "fragments"]) -> None:
        shard = ShardPolicy(unlimited_settings(ShardSettings(objective=objective)))
        policy = LearningCurves(shard, WebContents(web)) if objective == "fragments" else shard
        self.start, self.on_signals, self.pick = policy.start, policy.on_signals, policy.pick
        self._policy = policy
        self.n_fetches = np.zeros(web.n_pages, np.int64)

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Count, and pass on."""
        self.n_fetches[page] += 1
        self._policy.learn(at, page, outcomes)


def like_and_unlike(n_pages: int) -> Web:
    """Pages that change every other day: even ones are replaced, odd ones lose an item of 60."""
    replaces = np.where(np.arange(n_pages) % 2 == 0, Replaces.ALL, Replaces.ANY)
    n_changes = 100
    at = 2 * DAY * (np.arange(n_changes) + np.linspace(0.1, 0.9, n_pages)[:, np.newaxis])
    changes = Times(n_changes * np.arange(n_pages + 1), at.ravel())
    content = Content.of(n_pages, replaces=replaces, n_items=np.where(replaces == 0, 1, 60))
    return make_web(
        0, 2 * n_changes * DAY, np.full(n_pages, 0.5 / DAY), content=content, changes=changes
    )


def test_pages_that_change_as_often_but_keep_their_content_are_fetched_less_often() -> None:
    web = like_and_unlike(20)
    budget = 10 / DAY
    for_freshness, for_fragments = Counting(web, "freshness"), Counting(web, "fragments")
    simulate(web, for_freshness, budget)
    simulate(web, for_fragments, budget)
    replaced, kept = for_freshness.n_fetches.reshape(-1, 2).sum(axis=0)
    assert kept == pytest.approx(replaced, rel=0.1)
    replaced, kept = for_fragments.n_fetches.reshape(-1, 2).sum(axis=0)
    assert kept < 0.5 * replaced


def churn_and_scroll(seed: int, n_pages: int) -> Web:
    """Pages of unlike change rates that are replaced, or lose their oldest item of up to 60."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(np.log(0.2), 1.0, n_pages)) / DAY
    replaces = rng.choice([Replaces.ALL, Replaces.OLDEST], n_pages)
    n_items = rng.integers(2, 61, n_pages)
    content = Content.of(
        n_pages, replaces=replaces, n_items=n_items, static_items=rng.integers(0, 61 - n_items)
    )
    return make_web(seed, 200 * DAY, rate, content=content)


def test_curves_learned_from_polls_alone_keep_less_of_the_copies_wrong() -> None:
    web = churn_and_scroll(0, 100)

    def account(objective: Literal["freshness", "fragments"]) -> Account:
        return simulate(web, Counting(web, objective), 20 / DAY, n_per_pick=4)

    for_freshness, for_fragments = account("freshness"), account("fragments")
    assert for_fragments.n_fetches == for_freshness.n_fetches
    assert for_fragments.fragment_staleness < 0.9 * for_freshness.fragment_staleness
    assert for_fragments.freshness < for_freshness.freshness
