"""The shard orders what the averaged value in full precision would, in batches and politely."""

from dataclasses import replace

import numpy as np
import pytest

from recrawl.core.arrays import FloatArray, RowArray
from recrawl.shard import ShardSettings
from recrawl.sim import (
    AveragedArgmax,
    ShardPolicy,
    make_web,
    papers_web,
    simulate,
    unlimited_settings,
)
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages

pytestmark = pytest.mark.slow_without_jit

HOUR = 3_600.0
DAY = 86_400.0
SETTINGS = ShardSettings(learning="bonus")


class PoliteArgmax(AveragedArgmax):
    """The exact policy among the pages whose group has rested since its last fetch."""

    def __init__(self, delay: FloatArray) -> None:
        super().__init__(SETTINGS.learning_bonus)
        self._delay = delay

    def start(self, pages: KnownPages, at: float) -> None:
        super().start(pages, at)
        self._group = pages.group
        self._ready_at = np.full(self._delay.size, at) + self._delay

    def pick(self, at: float, n: int) -> RowArray:
        resting = self._ready_at[self._group] > at + 1e-6
        under_way = self._is_under_way
        self._is_under_way = under_way | resting
        pages = super().pick(at, n)
        self._is_under_way = under_way
        self._is_under_way[pages] = True
        return pages

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        super().learn(at, page, outcomes)
        self._ready_at[self._group[page]] = at + self._delay[self._group[page]]


def test_a_nightly_batch_over_a_year_is_within_a_percent() -> None:
    """One web; over many the difference is 0.1 % with a deviation of 0.2 %."""
    web = papers_web(0, horizon=365 * DAY, n_pages=300)
    exact = simulate(web, AveragedArgmax(), 30 / DAY, n_per_pick=30)
    shard = simulate(web, ShardPolicy(unlimited_settings(SETTINGS)), 30 / DAY, n_per_pick=30)
    assert shard.freshness == pytest.approx(exact.freshness, rel=0.01)


def test_codes_and_tables_lose_next_to_nothing() -> None:
    """One web; over many the difference is 0.0 % with a deviation of 0.25 %."""
    web = papers_web(1, horizon=600 * HOUR, n_pages=400)
    exact = simulate(web, AveragedArgmax(), 8 / HOUR)
    shard = simulate(web, ShardPolicy(unlimited_settings(SETTINGS)), 8 / HOUR)
    assert shard.freshness == pytest.approx(exact.freshness, rel=0.01)


def test_groups_that_must_rest_are_served_as_well_as_can_be() -> None:
    """Ten groups, of which the slowest may be fetched from once in ten hours."""
    plain = papers_web(2, horizon=600 * HOUR, n_pages=200)
    web = make_web(
        2,
        600 * HOUR,
        plain.change_rate,
        importance=plain.importance,
        group=np.arange(200) % 10,
    )
    delay = np.geomspace(0.2, 10.0, 10) * HOUR
    exact = simulate(web, PoliteArgmax(delay), 4 / HOUR)
    polite = ShardPolicy(replace(SETTINGS, picker="scan"), group_delay=delay)
    shard = simulate(web, polite, 4 / HOUR)
    assert shard.n_fetches == pytest.approx(exact.n_fetches, rel=0.01)
    assert shard.freshness == pytest.approx(exact.freshness, rel=0.01)
