"""Each rule against numbers worked by hand from its source."""

import numpy as np
import pytest

from recrawl.sim import (
    CC_NEWS,
    ChangeRatio,
    FixedInterval,
    Heritrix,
    IntervalRule,
    NutchAdaptive,
    Polls,
    StormCrawler,
    YaCy,
)

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


def waits(
    rule: IntervalRule, interval: float, changed: bool, age: float = 0.0, n_changed: float = 0.0
) -> tuple[float, float]:
    column = [np.array([value]) for value in (age, 10.0, n_changed, 10 * DAY)]
    result = rule.next_waits(Polls(np.array([interval]), np.array([changed]), *column))
    return float(result.interval[0]), float(result.wait[0])


@pytest.mark.parametrize(
    ("interval", "changed", "age", "expected"),
    [
        (10 * DAY, True, 99 * DAY, (8 * DAY, 8 * DAY)),  # ×.8, the age counts as 0
        (10 * DAY, False, 10 * DAY, (14 * DAY, 11 * DAY)),  # ×1.4, less .3 × 10
        (10 * DAY, False, 20 * DAY, (20 * DAY, 14 * DAY)),  # the age is longer
        (70.0, True, 0.0, (60.0, 60.0)),  # never below a minute
        (300 * DAY, False, 10 * DAY, (365 * DAY, 362 * DAY)),  # nor above a year
    ],
)
def test_nutch_adapts_and_draws_towards_the_last_change(
    interval: float, changed: bool, age: float, expected: tuple[float, float]
) -> None:
    assert waits(NutchAdaptive(), interval, changed, age) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("interval", "changed", "minutes"),
    [
        (1_440, False, 2_160),  # ×1.5
        (1_440, True, 750),  # .5 × 1440 + .5 × 60
        (61, False, 91),  # 91.5, cut to whole minutes
        (61, True, 60),  # 60.5
        (14_000, False, 20_160),  # two weeks at most
    ],
)
def test_stormcrawler_moves_towards_its_least(interval: int, changed: bool, minutes: int) -> None:
    expected = (minutes * MINUTE, minutes * MINUTE)
    assert waits(StormCrawler(), interval * MINUTE, changed) == expected


@pytest.mark.parametrize(
    ("interval", "changed", "minutes"),
    [(720, False, 1_080), (720, True, 594), (100_000, False, 129_600), (90, True, 90)],
)
def test_the_news_crawl_shrinks_more_slowly(interval: int, changed: bool, minutes: int) -> None:
    assert waits(CC_NEWS, interval * MINUTE, changed)[0] == minutes * MINUTE


@pytest.mark.parametrize(
    ("interval", "changed", "expected"),
    [
        (DAY, False, 1.5 * DAY),
        (DAY, True, DAY / 1.5),
        (HOUR, True, HOUR),
        (20 * DAY, False, 28 * DAY),
    ],
)
def test_heritrix_multiplies_and_divides(interval: float, changed: bool, expected: float) -> None:
    assert waits(Heritrix(), interval, changed)[1] == pytest.approx(expected)


def test_yacy_waits_half_the_age_of_the_version() -> None:
    assert waits(YaCy(), DAY, False, 10 * DAY)[1] == 5 * DAY
    assert waits(YaCy(), DAY, True, 0.0)[1] == HOUR


def test_the_change_ratio_is_one_change_per_poll() -> None:
    assert waits(ChangeRatio(), DAY, True, n_changed=4.5)[1] == 2 * DAY
    assert waits(ChangeRatio(), DAY, False, n_changed=0.0)[1] == 20 * DAY


def test_a_fixed_interval_stays() -> None:
    assert waits(FixedInterval(first_seconds=DAY), DAY, True) == (DAY, DAY)
    assert FixedInterval().first_seconds == 30 * DAY


@pytest.mark.parametrize(
    ("rule", "days"),
    [(NutchAdaptive(), 30), (StormCrawler(), 1), (CC_NEWS, 0.5), (Heritrix(), 1)],
    ids=repr,
)
def test_rules_start_as_their_crawlers_do(rule: IntervalRule, days: float) -> None:
    assert rule.first_seconds == days * DAY


def test_a_fixed_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="first_seconds must be positive, got 0"):
        FixedInterval(first_seconds=0)
