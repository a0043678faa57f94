"""Time windows follow the clock of their time zone, over midnight and when it is changed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from recrawl.node.config.time_windows import TimeWindows, local_date, zone_of

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("windows", "open_at", "closed_at"),
    [
        ("01:00-05:00", ["01:00", "04:59:59"], ["00:59:59", "05:00", "13:00"]),
        ("22:30-02:00", ["22:30", "00:00", "01:59"], ["02:00", "22:29"]),
        ("12:00-24:00", ["12:00", "23:59:59"], ["00:00"]),
        (["01:00-02:00", " 3:00 – 4:00 "], ["01:30", "03:00"], ["02:30", "04:00"]),
    ],
)
def test_a_window_is_open_from_its_begin_until_before_its_end(
    windows: str | list[str], open_at: list[str], closed_at: list[str]
) -> None:
    found = TimeWindows.of(windows)
    for text in open_at:
        assert found.is_open(ms(f"2024-06-15T{text}"), BERLIN), text
    for text in closed_at:
        assert not found.is_open(ms(f"2024-06-15T{text}"), BERLIN), text
    assert TimeWindows.of(found.texts()) == found


@pytest.mark.parametrize(
    ("windows", "now", "opens"),
    [
        ("01:00-05:00", "2024-06-15T00:10", "2024-06-15T01:00"),
        ("01:00-05:00", "2024-06-15T05:00", "2024-06-16T01:00"),
        ("22:00-02:00", "2024-12-31T03:00", "2024-12-31T22:00"),
        (["12:00-13:00", "01:00-02:00"], "2024-06-15T02:00", "2024-06-15T12:00"),
        # On 2024-03-31 the clock of Berlin skips 02:00 to 03:00.
        ("02:30-03:30", "2024-03-31T01:00", "2024-03-31T03:00"),
        ("02:00-03:00", "2024-03-31T01:00", "2024-04-01T02:00"),
        ("04:00-05:00", "2024-03-31T01:00", "2024-03-31T04:00"),
    ],
)
def test_the_next_opening(windows: str | list[str], now: str, opens: str) -> None:
    found = TimeWindows.of(windows)
    assert found.opens_at_ms(ms(now), BERLIN) == ms(opens)
    assert found.is_open(ms(opens), BERLIN)


def test_a_window_in_the_hour_that_comes_twice_is_open_for_both() -> None:
    night = TimeWindows.of("02:00-03:00")
    first, second = ms("2024-10-27T02:30"), ms("2024-10-27T02:30", fold=1)
    assert second - first == 3_600_000
    assert night.is_open(first, BERLIN)
    assert night.is_open(second, BERLIN)
    assert not night.is_open(second + 1_800_000, BERLIN)


@pytest.mark.parametrize(
    "windows",
    [
        *("", "1-5", "25:00-26:00", "01:60-02:00", "01:00-01:00", "24:00-01:00"),
        *([], 5, ["a"], [5], ["01:00-02:00"] * 25),
    ],
)
def test_other_windows_are_refused(windows: object) -> None:
    with pytest.raises(ValueError, match="must be a time window"):
        TimeWindows.of(windows)


def test_an_unknown_time_zone_is_refused() -> None:
    for name in ("Mars/Olympus", "", "../etc/passwd"):
        with pytest.raises(ValueError, match="must be the name of a time zone"):
            zone_of(name)


def test_the_date_is_that_of_the_time_zone() -> None:
    midnight = ms("2024-06-16T00:00")
    assert local_date(midnight, BERLIN).isoformat() == "2024-06-16"
    assert local_date(midnight, zone_of("UTC")).isoformat() == "2024-06-15"
