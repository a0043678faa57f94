"""Fetch rates and freshness of pages at prices agree with integrals of the belief."""

import numpy as np
import pytest
from scipy.integrate import quad

from recrawl.core.price import DueCodes
from recrawl.corpus.plan.priced_pages import SampledPages
from recrawl.shard import PriorsSet, SourcesSet, event_of
from tests.reference.shards import DAY, HOUR, Story

CODES = DueCodes()
# A period that stands for itself: the code of a word is exact there.
PERIOD = float(np.exp2(5.4 + 12.0))


def looked_at(shape: float) -> SampledPages:
    story = Story(estimator="gamma", learning="bonus", learning_bonus=0.0)
    prior = event_of(PriorsSet, epoch=1, kind=0, shape=shape, seconds=shape * PERIOD)
    assert story.apply(prior).valid.all()
    story.add(1)
    return SampledPages.of_shards([story.shard], 100)


def late_share(shape: float, interval: float, late: float) -> float:
    """Return in which share of the time a copy has been stale for longer, by integration."""
    seconds = shape * PERIOD

    def is_late(age: float) -> float:
        return 1 - (1 + max(age - late, 0.0) / seconds) ** -shape

    return float(quad(is_late, 0, interval, points=[min(late, interval)], limit=200)[0]) / interval


@pytest.mark.slow_without_jit
@pytest.mark.parametrize("shape", CODES.shapes()[[8, 15, 25]])
@pytest.mark.parametrize("late", [0.0, 0.1, 1.0, 30.0])
def test_a_copy_is_late_as_often_as_the_belief_says(shape: float, late: float) -> None:
    pages = looked_at(shape)
    price = pages.prices(12)
    found = pages.at(price, late_seconds=late * PERIOD)
    for k in range(3, 12, 2):
        interval = 1 / found.fetch_rate[0, k]
        expected = 1 - late_share(shape, interval, late * PERIOD)
        assert found.freshness[0, k] == pytest.approx(expected, abs=1e-6)


def test_allowing_more_staleness_never_lowers_the_share() -> None:
    pages = looked_at(float(CODES.shapes()[10]))
    price = pages.prices(10)
    kept = [pages.at(price, late_seconds=s).freshness[0] for s in (0.0, HOUR, DAY, 100 * DAY)]
    assert (np.diff(kept, axis=0) >= -1e-12).all()
    assert (np.diff(kept[1]) >= -1e-12).all()


@pytest.mark.slow_without_jit
def test_pages_with_signals_are_late_no_more_often_than_stale_nor_than_without_signals() -> None:
    story = Story(signal_rate_seconds=0.0)
    shape = float(CODES.shapes()[-1])
    story.apply(event_of(PriorsSet, epoch=1, kind=0, shape=shape, seconds=shape * DAY))
    story.apply(event_of(SourcesSet, source=0, precision=0.8, delay_seconds=0.0))
    page = story.add(5)
    story.report(page, at=0.0)
    for day in range(1, 31):
        story.tick(day * DAY)
        story.signal(page)
    pages = SampledPages.of_shards([story.shard], 100)
    price = pages.prices(10)
    fresh, kept = (pages.at(price, late_seconds=s).freshness for s in (0.0, 6 * HOUR))
    assert (kept >= fresh - 1e-12).all()
    assert (kept <= 1 + 1e-12).all()
    assert (kept[:, 5] > fresh[:, 5]).all()


def test_without_delays_hosts_get_more_fetches() -> None:
    story = Story()
    story.add(50)
    story.set_group(0, delay_ms=6_000_000)
    pages = SampledPages.of_shards([story.shard], 100)
    price = pages.prices(20)
    held, free = pages.at(price), pages.at(price, is_capped=False)
    assert held.fetch_rate.sum(axis=0).max() == pytest.approx(1 / 6_000)
    assert free.fetch_rate.sum(axis=0).max() > 2 / 6_000
