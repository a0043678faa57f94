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


@pytest.mark.parametrize("text", ["90s", "15m", "6h", "2d", "1w", "0.5s", "0s", "36h"])
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
        ("unlimited", math.inf, 1),
    ],
)
def test_a_rate_is_read(text: str, amount: float, per_seconds: float | None) -> None:
    assert Rate.of(text) == Rate(amount=amount, per_seconds=per_seconds)


@pytest.mark.parametrize("text", ["", "30", "/h", "30/y", "-1/h", "30/h/h", "30/2h", 30, None])
def test_text_that_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a rate"):
        Rate.of(text)


@pytest.mark.parametrize(
    ("amount", "per_seconds"), [(-1, 1), (math.nan, 1), (1, 0), (1, math.inf), (1, -1)]
)
def test_an_impossible_rate_is_refused(amount: float, per_seconds: float) -> None:
    with pytest.raises(ConfigError, match="must"):
        Rate(amount=amount, per_seconds=per_seconds)
