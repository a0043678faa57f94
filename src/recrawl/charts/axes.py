"""Axes of a chart: their label and scale, their ends, and the position of values."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.charts.ticks import Tick, linear_ticks, log_ticks, nice_step, time_ticks

__all__ = ["Axis", "FloatArray", "Span", "span_of"]

FloatArray: TypeAlias = NDArray[np.float64]

# Time axes are limited to the years 0 to 9999.
_TIME_MIN, _TIME_MAX = -62_167_219_200_000.0, 253_402_300_799_000.0
# Numbers beyond these would make spans overflow.
_SIZE_MAX, _POSITIVE_MIN = 1e300, 1e-300
# Ends closer together than this, absolutely or as a share of their size, count as equal.
_LENGTH_MIN, _RESOLUTION = 1e-100, 1e-12
# Positions are clipped this far outside the plot, in plot lengths, to keep coordinates small.
_OUTSIDE_MAX = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Label, scale and ends of one axis of a chart."""

    label: str = ""
    """Name and unit, as in "fetches per hour"."""
    scale: Literal["linear", "log", "share", "time"] = "linear"
    """Scale: a share is 0 to 1, drawn in percent; a time is in ms since 1970, drawn in UTC."""
    low: float | None = None
    """Beginning of the axis; by default that of the data."""
    high: float | None = None

    def __post_init__(self) -> None:
        if self.scale not in ("linear", "log", "share", "time"):
            raise ValueError(
                f"scale must be 'linear', 'log', 'share' or 'time', got {self.scale!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An axis with fixed ends."""

    axis: Axis
    low: float
    high: float

    def places(self, values: FloatArray) -> FloatArray:
        """Return positions of values, 0 at the low end and 1 at the high end; nan if undefined."""
        values = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            if self.axis.scale == "log":
                low, high = math.log(self.low), math.log(self.high)
                places = (np.log(np.where(values > 0, values, np.nan)) - low) / (high - low)
            else:
                places = (values - self.low) / (self.high - self.low)
        places = np.where(np.isfinite(values), places, np.nan)
        return np.clip(places, -_OUTSIDE_MAX, 1 + _OUTSIDE_MAX)

    def place(self, value: float) -> float:
        """Return the position of one value."""
        return float(self.places(np.array([value], np.float64))[0])

    def ticks(self, n_max: int) -> list[Tick]:
        """Return about ``n_max`` ticks at most."""
        match self.axis.scale:
            case "log":
                return log_ticks(self.low, self.high, n_max)
            case "time":
                return time_ticks(self.low, self.high, n_max)
            case scale:
                return linear_ticks(self.low, self.high, n_max, is_share=scale == "share")


def span_of(axis: Axis, columns: Iterable[FloatArray], *, n_ticks: int, is_rounded: bool) -> Span:
    """Return an axis with its given ends, or the ends of the data.

    Parameters
    ----------
    axis
        Axis of a chart.
    columns
        All data drawn along the axis.  Values that are not finite, or not positive on a
        logarithmic axis, are ignored.
    n_ticks
        Approximate number of ticks.
    is_rounded
        Whether ends that are not given are moved out to the next tick.
    """
    low, high = _ends(axis, columns)
    given_low, given_high = _valid_end(axis, axis.low), _valid_end(axis, axis.high)
    if axis.scale == "log":
        if is_rounded:
            low, high = _round_log(low, high)
    elif axis.scale != "time" and is_rounded:
        step, largest = nice_step(high - low, n_ticks), high
        # The axis starts at zero if the data begin below a fifth of the highest value.
        low = 0.0 if 0 < low < 0.2 * high else math.floor(low / step + 1e-9) * step
        high = math.ceil(high / step - 1e-9) * step
        if axis.scale == "share":
            low, high = max(low, 0.0), 1.0 if largest <= 1.0 < high else high
    low = low if given_low is None else given_low
    high = high if given_high is None else given_high
    if not (low < high and _are_apart(axis, low, high)):
        low, high = _separate_ends(axis, low, high)
    return Span(axis=replace(axis, low=low, high=high), low=low, high=high)


def _valid_end(axis: Axis, end: float | None) -> float | None:
    """Return a given end if it is valid, otherwise None."""
    if end is None or not math.isfinite(end) or (axis.scale == "log" and end <= 0):
        return None
    return _limit_end(axis, float(end))


def _limit_end(axis: Axis, end: float) -> float:
    """Return an end limited to a range without overflow."""
    if axis.scale == "time":
        return min(max(end, _TIME_MIN), _TIME_MAX)
    return min(max(end, _POSITIVE_MIN if axis.scale == "log" else -_SIZE_MAX), _SIZE_MAX)


def _ends(axis: Axis, columns: Iterable[FloatArray]) -> tuple[float, float]:
    """Return the smallest and largest values that can be drawn, made distinct."""
    low, high = math.inf, -math.inf
    for column in columns:
        is_drawn = np.isfinite(column)
        if axis.scale == "log":
            is_drawn &= column > 0
        values = column[is_drawn]
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    if low > high:
        return (1.0, 10.0) if axis.scale == "log" else (0.0, 1.0)
    low, high = _limit_end(axis, low), _limit_end(axis, high)
    return (low, high) if _are_apart(axis, low, high) else _separate_ends(axis, low, high)


def _separate_ends(axis: Axis, low: float, high: float) -> tuple[float, float]:
    """Return distinct ends around values that are all equal."""
    low, high = min(low, high), max(low, high)
    if _are_apart(axis, low, high):
        return low, high
    match axis.scale:
        case "log":
            return low / 3, high * 3
        case "time":
            return low - 1_800_000.0, high + 1_800_000.0
        case "share" if 0 <= low <= high <= 1:
            return 0.0, 1.0
        case _ if max(abs(low), abs(high)) < _LENGTH_MIN:
            return -1.0, 1.0
        case _:
            return min(0.0, 2 * low), max(0.0, 2 * high)


def _are_apart(axis: Axis, low: float, high: float) -> bool:
    """Return whether two ends are far enough apart for distinct numbers between them."""
    least = _RESOLUTION * max(abs(low), abs(high))
    return high - low > (least if axis.scale == "log" else max(least, _LENGTH_MIN))


def _round_log(low: float, high: float) -> tuple[float, float]:
    """Return ends moved out to 1, 2 or 5 times a power of ten."""
    below, above = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.floor(math.log10(high))
    low = max(f * below for f in (1, 2, 5) if f * below <= low * (1 + 1e-9))
    high = min(f * above for f in (1, 2, 5, 10) if f * above >= high * (1 - 1e-9))
    return low, high
