"""Ticks of an axis and their labels, for numbers, shares and times."""

import math
from typing import NamedTuple

import numpy as np

__all__ = ["Tick", "linear_ticks", "log_ticks", "number_label", "share_label", "time_ticks"]

TICKS_MAX = 400
"""Largest number of ticks of an axis."""

_SECOND = 1_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3_600 * _SECOND, 86_400 * _SECOND
_STEPS_MS = (
    *(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14)),
)
_STEPS_MONTHS = (1, 2, 3, 6, *(12 * n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)))
_MONTH_MS = 30.44 * _DAY
# The first Monday of 1970, which began on a Thursday.
_FIRST_MONDAY = 4 * _DAY
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Tick(NamedTuple):
    """One tick of an axis."""

    at: float
    text: str
    """Label; empty for a tick without one."""
    context: str = ""
    """Text below the label: the day of an hour, the year of a month; empty if as before."""


def number_label(value: float, *, digits: int = 3) -> str:
    """Return a number in a few significant digits, with k, M, G or T.

    Examples
    --------
    >>> [number_label(x) for x in (0, 0.025, 7, 1_500, 41_234, 2e6, 3e-7)]
    ['0', '0.025', '7', '1.5k', '41.2k', '2M', '3×10⁻⁷']
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if value == 0:
        return "0"
    sign, size = "−" if value < 0 else "", float(f"{abs(value):.{digits - 1}e}")
    if math.isinf(size):  # the largest floats are rounded up to infinity
        size = abs(value)
    if size < 1e-4 or size >= 1e15:
        mantissa, _, exponent = f"{size:.{digits - 1}e}".partition("e")
        power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
        mantissa = _without_trailing_zeros(mantissa)
        return sign + (power if mantissa == "1" else f"{mantissa}×{power}")
    for unit, prefix in _PREFIXES:
        if size >= unit:
            return sign + _significant(size / unit, digits) + prefix
    return sign + _significant(size, digits)


def share_label(share: float, *, decimals: int = 0) -> str:
    """Return a share of 0 to 1 in percent.

    Examples
    --------
    >>> share_label(0.915), share_label(0.915, decimals=1)
    ('92 %', '91.5 %')
    """
    if not math.isfinite(share):
        return "–"
    if abs(share) >= 1e6:
        return f"{number_label(min(max(share, -1e300), 1e300) * 100)} %"
    # Halves are rounded up; 1e-9 compensates for floating-point error.
    scaled = math.floor(abs(share) * 100 * 10**decimals + 0.5 + 1e-9) / 10**decimals
    return f"{'−' if share < 0 and scaled else ''}{scaled:.{decimals}f} %"


def _significant(value: float, digits: int) -> str:
    decimals = max(digits - 1 - math.floor(math.log10(value)), 0)
    return _without_trailing_zeros(f"{value:.{decimals}f}")


def _without_trailing_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def nice_step(span: float, n_max: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten for at most ``n_max`` ticks."""
    rough = span / max(n_max, 1)
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    for factor in (1.0, 2.0, 5.0):
        if factor * power >= rough * (1 - 1e-9):
            return factor * power
    return 10.0 * power


def linear_ticks(low: float, high: float, n_max: int, *, is_share: bool = False) -> list[Tick]:
    """Return ticks between two ends at steps of 1, 2 or 5 times a power of ten."""
    step = nice_step(high - low, n_max)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if not 0 <= last - first < TICKS_MAX:
        return []
    at = [n * step for n in range(first, last + 1)]
    if is_share:
        decimals = min(max(-math.floor(math.log10(step * 100) + 1e-9), 0), 12)
        return [Tick(value, share_label(value, decimals=decimals)) for value in at]
    largest = max((abs(value) for value in at), default=1.0)
    # Enough digits to distinguish neighbouring ticks.
    digits = max(math.ceil(math.log10(max(largest / step, 1.0)) + 1e-9) + 1, 3)
    return [Tick(value, number_label(value, digits=digits)) for value in at]


def log_ticks(low: float, high: float, n_max: int) -> list[Tick]:
    """Return ticks of a logarithmic axis: decades, with 2 and 5 if there is room."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    n_decades = max(last - first, 1)
    if n_decades == 1 or high / low < 8:
        ticks = linear_ticks(low, high, n_max)
        if len(ticks) >= 2 and high / low < 4:
            return [tick for tick in ticks if tick.at > 0]
    factors = (1, 2, 5) if n_decades == 1 or 3 * n_decades <= n_max + 3 else (1,)
    every = max(-(-n_decades // max(n_max, 1)), 1)
    ticks = []
    for decade in range(first, last + 1):
        for factor in range(1, 10):
            at = factor * 10.0**decade
            if not low * (1 - 1e-9) <= at <= high * (1 + 1e-9):
                continue
            is_labelled = factor in factors and decade % every == 0
            if is_labelled:
                ticks.append(Tick(at, number_label(at)))
            elif n_decades <= 4:
                ticks.append(Tick(at, ""))
    return ticks[:TICKS_MAX]


def time_ticks(low: float, high: float, n_max: int) -> list[Tick]:
    """Return ticks at round UTC times between two instants in milliseconds since 1970."""
    rough = (high - low) / max(n_max, 1)
    for step in _STEPS_MS:
        if step >= rough:
            return _time_labels(_every(low, high, step), step)
    for n_months in _STEPS_MONTHS:
        if n_months * _MONTH_MS >= rough:
            return _time_labels(_every_months(low, high, n_months), n_months * _MONTH_MS)
    return []


def _every(low: float, high: float, step: int) -> list[int]:
    """Return the multiples of a step in milliseconds; weeks begin on Mondays."""
    origin = _FIRST_MONDAY if step >= 7 * _DAY else 0
    first = math.ceil((low - origin) / step) * step + origin
    return list(range(first, math.floor(high) + 1, step))[:TICKS_MAX]


def _every_months(low: float, high: float, n_months: int) -> list[int]:
    """Return the first instant of every ``n_months``-th month."""
    ends = np.array([low, high]).astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
    # Months are counted from the year 0, so that decades are round.
    first = -(-(int(ends[0]) + 1970 * 12) // n_months) * n_months - 1970 * 12
    months = np.arange(first, int(ends[1]) + 1, n_months)[:TICKS_MAX]
    at = months.astype("datetime64[M]").astype("datetime64[ms]").astype(np.int64)
    return [int(a) for a in at if low <= a <= high]


def _time_labels(at_ms: list[int], step: float) -> list[Tick]:
    """Return ticks with labels and, where it changes, their context.

    The context of days and months is the year, that of hours is the day.
    """
    ticks, before = [], ""
    for at in at_ms:
        year, month, day, clock = _date_and_time(at)
        if step < _DAY:
            is_short = step >= _MINUTE
            text = clock[:5] if is_short else clock[:8] if step >= _SECOND else clock
            context = f"{day} {_MONTHS[month - 1]} {year}"
        elif step < 28 * _DAY:
            text, context = f"{day} {_MONTHS[month - 1]}", str(year)
        elif step < 11.5 * _MONTH_MS:
            text, context = _MONTHS[month - 1], str(year)
        else:
            text, context = str(year), ""
        ticks.append(Tick(float(at), text, context if context != before else ""))
        before = context
    return ticks


def _date_and_time(at_ms: int) -> tuple[int, int, int, str]:
    """Return year, month, day and time of day of an instant, UTC."""
    instant = np.datetime64(at_ms, "ms")
    month = int(instant.astype("datetime64[M]").astype(np.int64))
    first = instant.astype("datetime64[M]").astype("datetime64[D]")
    day = int((instant.astype("datetime64[D]") - first).astype(np.int64)) + 1
    return month // 12 + 1970, month % 12 + 1, day, str(instant).partition("T")[2]
