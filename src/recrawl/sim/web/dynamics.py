"""Change times of simulated pages: a renewal process on a clock that may run unevenly.

Each page has a clock that runs at its change rate, faster when the page is new or its site busy.
On that clock the intervals between changes are Gamma with mean 1: shape 1 is a Poisson process,
below 1 bursty, above 1 regular.  The process is stationary: the expected number of changes is
the time that has passed on the clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from recrawl.core.arrays import ArrayLike, FloatArray, RowArray
from recrawl.core.kernel import kernel
from recrawl.sim.web.draws import Stream, exponential_of, gamma_of, key_of, normal_of, uniform_of
from recrawl.sim.web.times import Times, offsets_of

__all__ = ["Drift", "HotStart", "Pace", "SiteWide", "WeeklyCycle", "change_times"]

DAY = 86_400.0
_WEEK_DAYS = 7
_WORKING_DAYS = 5
# Kernels treat module-level names as constants, but not attributes of a class.
_INTERVALS = Stream.INTERVALS
_DRIFT = Stream.DRIFT


class Pace(NamedTuple):
    """Modulations of the speed of each page's clock: 48 bytes a page.

    The speed is constant within a day.
    """

    hot_factor: FloatArray
    hot_seconds: FloatArray
    age_at_start: FloatArray
    drift_sigma: FloatArray
    drift_seconds: FloatArray
    weekend_factor: FloatArray

    @classmethod
    def steady(cls, n_pages: int) -> "Pace":
        """Return clocks that run evenly."""
        one, zero = np.ones(n_pages), np.zeros(n_pages)
        return cls(one, one.copy(), zero, zero.copy(), one.copy(), one.copy())


class Modulation(Protocol):
    """A modulation of the speed of pages' clocks."""

    def apply_to(self, pace: Pace) -> Pace:
        """Return ``pace`` with this modulation added."""
        ...


def _column(quantity: ArrayLike, like: FloatArray) -> FloatArray:
    return np.broadcast_to(np.asarray(quantity, np.float64), like.shape).copy()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HotStart:
    """New pages change more often: ``factor`` times at birth, decaying with age.

    The rate is raised by the factor 1 + (factor - 1) exp(-age / seconds).

    Parameters
    ----------
    factor
        Rate of a newly created page as a multiple of its later rate, at least 1.
    seconds
        Age at which the excess has fallen to a third.
    age_at_start
        Seconds since each page was created, when the simulation starts.
    """

    factor: ArrayLike = 10.0
    seconds: ArrayLike = 30 * DAY
    age_at_start: ArrayLike = 0.0

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.factor) < 1) or np.any(np.asarray(self.seconds) <= 0):
            raise ValueError("factor must be at least 1 and seconds positive")

    def apply_to(self, pace: Pace) -> Pace:
        """Return ``pace`` with this modulation added."""
        return pace._replace(
            hot_factor=_column(self.factor, pace.hot_factor),
            hot_seconds=_column(self.seconds, pace.hot_factor),
            age_at_start=_column(self.age_at_start, pace.hot_factor),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drift:
    """Rates drift: their logarithm is a stationary Gaussian process around a constant mean rate.

    Parameters
    ----------
    sigma
        Standard deviation of the log rate over a long time.
    seconds
        Time after which the correlation has fallen to a third.
    """

    sigma: ArrayLike = 0.7
    seconds: ArrayLike = 90 * DAY

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.sigma) < 0) or np.any(np.asarray(self.seconds) <= 0):
            raise ValueError("sigma must not be negative and seconds must be positive")

    def apply_to(self, pace: Pace) -> Pace:
        """Return ``pace`` with this modulation added."""
        return pace._replace(
            drift_sigma=_column(self.sigma, pace.hot_factor),
            drift_seconds=_column(self.seconds, pace.hot_factor),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeeklyCycle:
    """Weekends are quieter; the simulation starts on a Monday at midnight.

    Parameters
    ----------
    weekend_factor
        Changes on a Saturday or Sunday, as a multiple of those on a working day.
    """

    weekend_factor: ArrayLike = 0.5

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.weekend_factor) < 0):
            raise ValueError(f"weekend_factor must not be negative, got {self.weekend_factor!r}")

    def apply_to(self, pace: Pace) -> Pace:
        """Return ``pace`` with this modulation added."""
        return pace._replace(weekend_factor=_column(self.weekend_factor, pace.hot_factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteWide:
    """Changes of many pages of a group at once: a new template, a bulk edit.

    Parameters
    ----------
    rate
        Site-wide changes per second of each group.
    share
        Share of the group's pages that a site-wide change affects.
    """

    rate: float
    share: float = 1.0

    def __post_init__(self) -> None:
        if not self.rate >= 0:
            raise ValueError(f"rate must not be negative, got {self.rate!r}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must be from 0 to 1, got {self.share!r}")


@kernel
def _speed(pace: Pace, page: int, day: int, drift: float) -> float:
    """Return how fast a page's clock runs on one day, as a factor of its rate."""
    speed = 1.0
    if pace.hot_factor[page] > 1.0:
        # The mean of the excess over the day.
        unit = DAY / pace.hot_seconds[page]
        start = math.exp(-(pace.age_at_start[page] + day * DAY) / pace.hot_seconds[page])
        speed += (pace.hot_factor[page] - 1.0) * start * -math.expm1(-unit) / unit
    if pace.drift_sigma[page] > 0.0:
        speed *= math.exp(drift - 0.5 * pace.drift_sigma[page] ** 2)
    weekend = pace.weekend_factor[page]
    if weekend != 1.0:
        mean = (_WORKING_DAYS + (_WEEK_DAYS - _WORKING_DAYS) * weekend) / _WEEK_DAYS
        speed *= (1.0 if day % _WEEK_DAYS < _WORKING_DAYS else weekend) / mean
    return speed


@kernel
def _is_steady(pace: Pace, page: int) -> bool:
    return bool(
        pace.hot_factor[page] == 1.0
        and pace.drift_sigma[page] == 0.0
        and pace.weekend_factor[page] == 1.0
    )


@kernel
def _page_changes(
    seed: int,
    page: int,
    rate: float,
    shape: float,
    pace: Pace,
    horizon: float,
    out: FloatArray,
) -> int:
    """Write one page's changes into ``out`` as far as they fit, and return their number."""
    if not rate > 0.0:
        return 0
    key = key_of(seed, _INTERVALS, page)
    # In equilibrium the first interval is a uniform part of a length-biased one.
    part = uniform_of(key, 0)
    length, counter = gamma_of(key, 1, shape + 1.0)
    due = part * length / shape if shape != 1.0 else exponential_of(key, 1)
    n = 0
    if _is_steady(pace, page):
        while due < rate * horizon:
            if n < out.size:
                out[n] = due / rate
            n += 1
            length, counter = gamma_of(key, counter, shape)
            due += length / shape
        return n
    drift_key = key_of(seed, _DRIFT, page)
    keep = math.exp(-DAY / pace.drift_seconds[page])
    sigma = pace.drift_sigma[page]
    drift = sigma * normal_of(drift_key, 0)
    clock = 0.0
    n_days = math.ceil(horizon / DAY)
    for day in range(n_days):
        per_second = rate * _speed(pace, page, day, drift)
        seconds = min(DAY, horizon - day * DAY)
        while per_second > 0.0 and due < clock + per_second * seconds:
            if n < out.size:
                out[n] = day * DAY + (due - clock) / per_second
            n += 1
            length, counter = gamma_of(key, counter, shape)
            due += length / shape
        clock += per_second * seconds
        if sigma > 0.0:
            drift = keep * drift + sigma * math.sqrt(1.0 - keep * keep) * normal_of(
                drift_key, day + 1
            )
    return n


@kernel
def _all_changes(
    seed: int,
    rate: FloatArray,
    shape: FloatArray,
    pace: Pace,
    horizon: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the number of changes of each page, and their instants page by page."""
    n_pages = rate.size
    counts = np.zeros(n_pages)
    at = np.empty(int(1.2 * rate.sum() * horizon) + 1024)
    used = 0
    for page in range(n_pages):
        n = _page_changes(seed, page, rate[page], shape[page], pace, horizon, at[used:])
        if used + n > at.size:
            grown = np.empty(2 * (used + n))
            grown[:used] = at[:used]
            at = grown
            _page_changes(seed, page, rate[page], shape[page], pace, horizon, at[used:])
        counts[page] = n
        used += n
    return counts, at[:used].copy()


def change_times(
    seed: int,
    rate: ArrayLike,
    horizon: float,
    *,
    interval_shape: ArrayLike = 1.0,
    modulations: Sequence[Modulation] = (),
) -> Times:
    """Return when pages change, up to the horizon.

    A page's changes depend on the seed, its number and its own parameters only.

    Parameters
    ----------
    seed
        Random seed of the web.
    rate
        Changes per second of each page.
    horizon
        Seconds to simulate.
    interval_shape
        Shape of the Gamma distribution of intervals: 1 is a Poisson process, 0.6 is typical of
        bursty pages of the real web, 10 is nearly regular.
    modulations
        Modulations of the rate: `HotStart`, `Drift`, `WeeklyCycle`, in any combination.

    Examples
    --------
    >>> day = 86_400.0
    >>> times = change_times(0, [1 / day, 0.1 / day], 1_000 * day)
    >>> times.counts()
    array([980, 111])
    """
    rates = np.ascontiguousarray(np.atleast_1d(np.asarray(rate, np.float64)))
    shapes = _column(interval_shape, rates)
    if np.any(rates < 0) or not np.all(np.isfinite(rates)):
        raise ValueError("rate must be finite and not negative")
    if np.any(shapes <= 0):
        raise ValueError("interval_shape must be positive")
    pace = Pace.steady(rates.size)
    for modulation in modulations:
        pace = modulation.apply_to(pace)
    counts, at = _all_changes(seed, rates, shapes, pace, float(horizon))
    offsets = np.zeros(rates.size + 1, np.int64)
    np.cumsum(counts.astype(np.int64), out=offsets[1:])
    return Times(offsets, at)


def site_wide_times(seed: int, setting: SiteWide, group: RowArray, horizon: float) -> Times:
    """Return when site-wide changes of its group change each page."""
    n_pages = group.size
    if n_pages == 0 or setting.rate == 0.0:
        return Times.none(n_pages)
    n_groups = int(group.max()) + 1
    events = poisson_times(seed, Stream.SITE_WIDE, np.full(n_groups, setting.rate), horizon)
    page = np.repeat(np.arange(n_pages), events.counts()[group])
    nth = np.arange(page.size) - np.repeat(
        np.cumsum(events.counts()[group]) - events.counts()[group], events.counts()[group]
    )
    at = events.at[events.offsets[group[page]] + nth]
    takes_part = np.empty(page.size)
    write_uniforms(seed, Stream.TAKES_PART, page, nth, takes_part)
    kept = takes_part < setting.share
    return Times(offsets_of(page[kept], n_pages), at[kept])


@kernel
def write_uniforms(
    seed: int,
    stream: int,
    entity: RowArray,
    counter: RowArray,
    out: FloatArray,
) -> None:
    """Write one uniform draw per row: number ``counter`` of the entity's stream."""
    for row in range(out.size):
        out[row] = uniform_of(key_of(seed, stream, entity[row]), counter[row])


@kernel
def _poisson_rows(
    seed: int, stream: int, rate: FloatArray, horizon: float
) -> tuple[FloatArray, FloatArray]:
    counts = np.zeros(rate.size)
    at = np.empty(int(1.2 * rate.sum() * horizon) + 1024)
    used = 0
    for entity in range(rate.size):
        if not rate[entity] > 0.0:
            continue
        key = key_of(seed, stream, entity)
        instant = exponential_of(key, 0) / rate[entity]
        n = 0
        while instant < horizon:
            if used == at.size:
                grown = np.empty(2 * used)
                grown[:used] = at
                at = grown
            at[used] = instant
            used += 1
            n += 1
            instant += exponential_of(key, n) / rate[entity]
        counts[entity] = n
    return counts, at[:used].copy()


def poisson_times(seed: int, stream: int, rate: FloatArray, horizon: float) -> Times:
    """Return the instants of independent Poisson processes, one for each entity."""
    counts, at = _poisson_rows(seed, stream, rate, float(horizon))
    offsets = np.zeros(rate.size + 1, np.int64)
    np.cumsum(counts.astype(np.int64), out=offsets[1:])
    return Times(offsets, at)


def merge_times(first: Times, second: Times) -> Times:
    """Return the instants of both arguments, merged page by page."""
    n_pages = first.offsets.size - 1
    page = np.concatenate([first.pages(), second.pages()])
    return Times.from_rows(page, np.concatenate([first.at, second.at]), n_pages)
