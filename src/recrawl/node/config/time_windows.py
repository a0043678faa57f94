"""Time windows: the hours of the day in which fetches are allowed, by the clock of a time zone."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, Self
from zoneinfo import ZoneInfo

__all__ = ["TimeWindows", "local_date", "zone_of"]

_WINDOW = re.compile(r"\s*(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})\s*")
_DAY = 24 * 60
# A clock skips three hours at most; a window opens within this many days unless all are skipped.
_SKIPPED_MINUTES_MAX = 3 * 60
_DAYS_AHEAD = 8
WINDOWS_MAX = 24
A_WINDOW = 'a time window (text such as "01:00-05:00", or a list of up to 24 of them)'


@cache
def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of a name such as "Europe/Berlin"; raise ValueError if unknown."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(
            f'must be the name of a time zone, such as "Europe/Berlin" or "UTC", got {name!r}'
        ) from None


def local_date(now_ms: int, zone: ZoneInfo) -> date:
    """Return the date at an instant in a time zone."""
    return datetime.fromtimestamp(now_ms / 1000, zone).date()


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Hours of the day: a window begins at its first minute and ends before its last one.

    A window whose end is before its begin goes over midnight.  Windows follow the clock on the
    wall: on the day on which the clock skips an hour, a window within that hour does not open.

    Parameters
    ----------
    minutes
        Begin and end of each window, in minutes since midnight.

    Examples
    --------
    >>> nights = TimeWindows.of("22:30-05:00")
    >>> noon = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 12 * 3_600_000
    >>> nights.is_open(noon, zone_of("UTC"))
    False
    >>> (nights.opens_at_ms(noon, zone_of("UTC")) - noon) / 3_600_000
    10.5
    """

    minutes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, windows: Any) -> Self:
        """Return the windows that a text or a list of texts describes."""
        if isinstance(windows, cls):
            return windows
        texts = [windows] if isinstance(windows, str) else windows
        matches = (
            [_WINDOW.fullmatch(text) if isinstance(text, str) else None for text in texts]
            if isinstance(texts, list | tuple)
            else []
        )
        minutes = []
        for match in matches:
            begin, end = (
                (60 * int(match[1]) + int(match[2]), 60 * int(match[3]) + int(match[4]))
                if match and int(match[2]) < 60 and int(match[4]) < 60
                else (-1, -1)
            )
            if not (0 <= begin < _DAY and 0 <= end <= _DAY and begin != end):
                raise ValueError(f"must be {A_WINDOW}, got {windows!r}")
            minutes.append((begin, end))
        if not 0 < len(minutes) <= WINDOWS_MAX:
            raise ValueError(f"must be {A_WINDOW}, got {windows!r}")
        return cls(tuple(minutes))

    def texts(self) -> list[str]:
        """Return each window as text that `of` reads."""
        return [
            f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
            for begin, end in self.minutes
        ]

    def __str__(self) -> str:
        """Return the windows as text for people."""
        return " and ".join(self.texts())

    def is_open(self, now_ms: int, zone: ZoneInfo) -> bool:
        """Return whether an instant is within a window."""
        clock = datetime.fromtimestamp(now_ms / 1000, zone)
        minute = 60 * clock.hour + clock.minute
        return any(
            begin <= minute < end if begin < end else minute >= begin or minute < end
            for begin, end in self.minutes
        )

    def opens_at_ms(self, now_ms: int, zone: ZoneInfo) -> int:
        """Return when the next window opens, in milliseconds since 1970; now if one is open."""
        if self.is_open(now_ms, zone):
            return now_ms
        today = local_date(now_ms, zone)
        for days in range(_DAYS_AHEAD):
            day = today + timedelta(days=days)
            at = [_instant_ms(day, begin, zone) for begin, _ in self.minutes]
            opening = [ms for ms in at if ms > now_ms and self.is_open(ms, zone)]
            if opening:
                return min(opening)
        return now_ms + _DAYS_AHEAD * _DAY * 60_000


def _instant_ms(day: date, minute: int, zone: ZoneInfo) -> int:
    """Return when a clock first shows a minute of the day, or the first later one if skipped."""
    wanted = datetime.combine(day, time(minute // 60, minute % 60), zone)
    at = wanted.astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) != wanted.replace(tzinfo=None):
        # The clock skips this minute: find the minute at which it jumps.
        at -= timedelta(minutes=_SKIPPED_MINUTES_MAX)
        while at.astimezone(zone).replace(tzinfo=None) < wanted.replace(tzinfo=None):
            at += timedelta(minutes=1)
    return round(at.timestamp() * 1000)
