"""Dates keep the precision with which they were given."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recrawl.signals import ClaimedTime, parse_date

HOUR_MS = 3_600_000


def ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "earliest", "latest"),
    [
        ("2026-11-16T09:30:05Z", ms(2026, 11, 16, 9, 30, 5), ms(2026, 11, 16, 9, 30, 6)),
        ("2026-11-16T09:30Z", ms(2026, 11, 16, 9, 30), ms(2026, 11, 16, 9, 31)),
        ("2026-11-16T09:30:05+02:00", ms(2026, 11, 16, 7, 30, 5), ms(2026, 11, 16, 7, 30, 6)),
        ("2026-11-16 09:30:05-0130", ms(2026, 11, 16, 11, 0, 5), ms(2026, 11, 16, 11, 0, 6)),
        ("2026-11-16T24:00Z", ms(2026, 11, 17), ms(2026, 11, 17, 0, 1)),
        ("2026-06-30T23:59:60Z", ms(2026, 6, 30, 23, 59, 59), ms(2026, 7, 1)),
        ("Mon, 16 Nov 2026 09:30:05 GMT", ms(2026, 11, 16, 9, 30, 5), ms(2026, 11, 16, 9, 30, 6)),
        ("16 Nov 2026 09:30:05 -0500", ms(2026, 11, 16, 14, 30, 5), ms(2026, 11, 16, 14, 30, 6)),
    ],
)
def test_a_date_with_a_zone_is_as_long_as_its_last_part(
    text: str, earliest: int, latest: int
) -> None:
    assert parse_date(text) == ClaimedTime(earliest, latest)


def test_fractions_of_a_second() -> None:
    start = ms(2026, 11, 16, 9, 30, 5)
    assert parse_date("2026-11-16T09:30:05.5Z") == (start + 500, start + 600)
    assert parse_date("2026-11-16T09:30:05.25Z") == (start + 250, start + 260)
    assert parse_date("2026-11-16T09:30:05.123456Z") == (start + 123, start + 124)


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("2026-11-16", ms(2026, 11, 16), ms(2026, 11, 17)),
        ("2026-12", ms(2026, 12, 1), ms(2027, 1, 1)),
        ("2024-02", ms(2024, 2, 1), ms(2024, 3, 1)),
        ("2026", ms(2026, 1, 1), ms(2027, 1, 1)),
        ("2026-11-16T09:30:05", ms(2026, 11, 16, 9, 30, 5), ms(2026, 11, 16, 9, 30, 6)),
    ],
)
def test_a_date_without_a_zone_may_be_of_any_zone(text: str, first: int, after: int) -> None:
    assert parse_date(text) == ClaimedTime(first - 14 * HOUR_MS, after + 12 * HOUR_MS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "2026-11-16T25:00Z",
        "1969-01-01",
        "2150-01-01",
        "0000",
        "2026-11-16T09:30:05+99:99",
        "\uff12\uff10\uff12\uff16",
        "2026-11-16" * 10,
        "Mon, 99 Nov 2026 09:30:05 GMT",
    ],
)
def test_other_texts_are_not_dates(text: str) -> None:
    assert parse_date(text) is None


@given(st.text(max_size=80) | st.from_regex(r"[0-9T:Z+. -]{0,40}", fullmatch=True))
def test_no_text_raises(text: str) -> None:
    claimed = parse_date(text)
    assert claimed is None or claimed.earliest_ms < claimed.latest_ms
