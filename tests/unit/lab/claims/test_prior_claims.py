"""Prior's recorded sample is read as it should be, and its populations are what they say."""

from collections.abc import Iterator

import numpy as np
import pytest

from lab.change_days import ChangeDays
from lab.claims.p3_prior_of_a_sample import sample
from lab.claims.p3_prior_of_a_sample.sample import sampled_periods
from lab.claims.p4_first_interval.populations import COSTS, RECORDED, population_rates

DAY = 86_400.0


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three pages: changed every second day, every day, and too seldom."""
    days = [np.arange(0, 100, 2), np.arange(100), np.arange(0, 100, 10)]
    traces = ChangeDays(
        kinds=("docs",),
        kind=np.zeros(3, np.int64),
        n_days=np.full(3, 100),
        page=np.repeat(np.arange(3), [day.size for day in days]),
        day=np.concatenate(days),
    )
    monkeypatch.setattr(sample, "trace_days", lambda: traces)
    sampled_periods.cache_clear()
    yield
    sampled_periods.cache_clear()


@pytest.mark.usefixtures("recorded")
def test_a_page_is_watched_until_its_twenty_fifth_change() -> None:
    # 25 of the first 49 daily polls found a change: e^-λ = 24/49.
    assert sampled_periods() == pytest.approx([1 / np.log(49 / 24)])


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("name", [RECORDED, COSTS])
def test_two_samples_of_a_population_are_alike_and_share_no_page(name: str) -> None:
    first = population_rates(name, 200)
    second = population_rates(name, 200, is_second=True)
    assert first.size == second.size == 200
    assert np.median(first) == pytest.approx(np.median(second), rel=0.3)
    assert name == COSTS or not np.isin(first, second).any()


def test_costs_population_ends_at_a_hundred_days() -> None:
    periods = 1 / (population_rates(COSTS, 1_000) * DAY)
    assert 95 < periods.max() <= 100
