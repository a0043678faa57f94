"""Tests of durations and rates."""

import math

import pytest

from recrawl.errors import ConfigError
from recrawl.node.config.values import Rate, duration_text, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("15m", 900),
        ("6h", 21_600),
        ("2d", 172_800),
        ("1w", 604_800),
        ("2 months", 5_259_600),
        ("1.5h", 5_400),
        (" 2 H ", 7_200),
        ("1e3s", 1_000),
        (12, 12),
        (0.25, 0.25),
        (math.inf, math.inf),
    ],
)
def test_a_duration_is_read(text: str | float, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "5", "5y", "-5s", "5s5s", "5 s s", "ten s", True, None])
def test_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        seconds(text)


@pytest.mark.parametrize(
    "text", ["90s", "15m", "6h", "2d", "1w", "0.5s", "0s", "36h", "1 month", "2 months"]
)
def test_duration_text_reads_back_as_the_same_duration(text: str) -> None:
    assert duration_text(seconds(text)) == text


@pytest.mark.parametrize(
    ("text", "amount", "per_seconds"),
    [
        ("30/h", 30, 3_600),
        ("1000/d", 1_000, 86_400),
        ("5/s", 5, 1),
        ("100/run", 100, None),
        ("0.5 / m", 0.5, 60),
        ("2/W", 2, 604_800),
        ("20000/day", 20_000, 86_400),
        ("20,000/Days", 20_000, 86_400),
        ("7/sec", 7, 1),
        ("7/second", 7, 1),
        ("7/min", 7, 60),
        ("7/minute", 7, 60),
        ("7 per hour", 7, 3_600),
        ("7/week", 7, 604_800),
        ("100/month", 100, 30.4375 * 86_400),
        ("unlimited", math.inf, 1),
    ],
)
def test_a_rate_is_read(text: str, amount: float, per_seconds: float | None) -> None:
    assert Rate.of(text) == Rate(amount=amount, per_seconds=per_seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "/h", "30/y", "-1/h", "30/h/h", "30/2h", "2,00/h", "1 EURO/h", 30, None]
)
def test_text_that_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a rate"):
        Rate.of(text)


@pytest.mark.parametrize(
    ("amount", "per_seconds"), [(-1, 1), (math.nan, 1), (1, 0), (1, math.inf), (1, -1)]
)
def test_an_impossible_rate_is_refused(amount: float, per_seconds: float) -> None:
    with pytest.raises(ConfigError, match="must"):
        Rate(amount=amount, per_seconds=per_seconds)


@pytest.mark.parametrize(
    ("rate", "text", "stored"),
    [
        ("20000 per day", "20,000/day", "20000/d"),
        ("2.5/min", "2.5/min", "2.5/m"),
        ("100/MONTH", "100/month", "100/month"),
        ("1500/run", "1,500/run", "1500/run"),
        ("50 eur/month", "50 EUR/month", "50 EUR/month"),
        ("unlimited", "unlimited", "unlimited"),
    ],
)
def test_a_rate_is_printed_in_the_unit_of_the_user(rate: str, text: str, stored: str) -> None:
    assert (Rate.of(rate).text, str(Rate.of(rate))) == (text, stored)
    assert Rate.of(text) == Rate.of(stored) == Rate.of(rate)
