"""Tests of times, durations and rates in options."""

import math

import click
import pytest

from recrawl.cli.support.instants import duration_option, instant_of, rate_problem


@pytest.mark.parametrize("text", ["9" * 400 + " days ago", "99999 years ago", "soon", "9999999"])
def test_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        instant_of(text, 0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("15m", 900.0), ("2 hours", 7_200.0), ("inf", math.inf)]
)
def test_a_duration_option_is_read_in_seconds(text: str, seconds: float) -> None:
    context = click.Context(click.Command("test"))
    option = click.Option(["--wait"])
    assert duration_option(context, option, text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan"])
def test_text_that_is_not_a_duration_is_a_usage_error(text: str) -> None:
    context = click.Context(click.Command("test"))
    with pytest.raises(click.BadParameter, match="is not a duration; write 90s"):
        duration_option(context, click.Option(["--wait"]), text)


def test_a_rate_problem_names_the_accepted_forms() -> None:
    assert rate_problem("30 per hour") is None
    assert "write 5/s, 30/h, 20000/day" in (rate_problem("30/year") or "")
