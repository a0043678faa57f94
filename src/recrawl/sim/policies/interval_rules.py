"""The rules that crawlers run today, with their own defaults: a wait per page, moved by polls.

Nutch, StormCrawler, Common Crawl and Heritrix were read from their sources, and what a rule
forgets or rounds is kept; YaCy is known from a description of it.  `ChangeRatio` is nobody's own.
Waits after errors are those sources' for StormCrawler and Common Crawl, else plausible ones.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from recrawl.core.arrays import FlagArray, FloatArray

__all__ = [
    "CC_NEWS",
    "ChangeRatio",
    "FixedInterval",
    "Heritrix",
    "IntervalRule",
    "NutchAdaptive",
    "Polls",
    "StormCrawler",
    "Waits",
    "YaCy",
]

MINUTE = 60.0
HOUR = 3_600.0
DAY = 86_400.0


class Polls(NamedTuple):
    """What a rule may know of fetches just made, one row each; never a page's first fetch."""

    interval: FloatArray  # the rule's own, as of the last poll
    changed: FlagArray
    version_age: FloatArray  # since the page's date, or since this version was first seen
    n_polls: FloatArray  # this one included
    n_changed: FloatArray
    polled_seconds: FloatArray


class Waits(NamedTuple):
    """What a rule decides: the interval it goes on from, and how long to wait now."""

    interval: FloatArray
    wait: FloatArray


class IntervalRule(Protocol):
    """Turns polls into waits."""

    @property
    def first_seconds(self) -> float:
        """Return the interval after a page's first fetch."""
        ...

    @property
    def retry_seconds(self) -> float:
        """Return the wait after a fetch that failed."""
        ...

    @property
    def restarts_after_error(self) -> bool:
        """Return whether a failed fetch makes the rule forget its interval."""
        ...

    def next_waits(self, polls: Polls) -> Waits:
        """Return what follows from polls."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedInterval:
    """The same interval always: Nutch's default schedule (30 days), a daily cron job.

    StormCrawler's default scheduler is this with 1 day.
    """

    first_seconds: float = 30 * DAY
    retry_seconds: float = DAY
    restarts_after_error: bool = False

    def __post_init__(self) -> None:
        if not self.first_seconds > 0:
            raise ValueError(f"first_seconds must be positive, got {self.first_seconds!r}")

    def next_waits(self, polls: Polls) -> Waits:
        """Return the same interval."""
        return Waits(polls.interval, polls.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class NutchAdaptive:
    """Apache Nutch's ``AdaptiveFetchSchedule`` with the values of ``nutch-default.xml``.

    A changed page's interval shrinks by ``decrease``; an unchanged one's grows by ``increase``,
    but to no less than the age of its version, and the next fetch is drawn towards the last
    change by ``sync`` of that age.  Seconds are whole.  (Nutch also refetches at once what is not
    due within 90 days, which is left out.)
    """

    increase: float = 0.4
    decrease: float = 0.2
    sync: float = 0.3
    seconds_min: float = 60.0
    seconds_max: float = 365 * DAY
    first_seconds: float = 30 * DAY
    retry_seconds: float = DAY
    restarts_after_error: bool = False

    def next_waits(self, polls: Polls) -> Waits:
        """Return what Nutch would write into its database."""
        grown = polls.interval * np.where(polls.changed, 1 - self.decrease, 1 + self.increase)
        # A changed page's modification time is set to that of the fetch.
        age = np.where(polls.changed, 0.0, np.floor(polls.version_age))
        interval = np.clip(np.maximum(grown, age), self.seconds_min, self.seconds_max)
        wait = np.maximum(np.round(interval) - self.sync * age, 0.0)
        return Waits(np.round(interval), wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class StormCrawler:
    """StormCrawler's ``AdaptiveScheduler``; `CC_NEWS` is the same with other numbers.

    Unchanged, the interval grows by ``increase``; changed, it moves towards the least by
    ``decrease``.  Minutes are whole.  After a failed fetch it starts afresh.
    """

    increase: float = 0.5
    decrease: float = 0.5
    seconds_min: float = HOUR
    seconds_max: float = 14 * DAY
    first_seconds: float = DAY
    retry_seconds: float = 2 * HOUR
    restarts_after_error: bool = True

    def next_waits(self, polls: Polls) -> Waits:
        """Return the interval in whole minutes."""
        minutes = polls.interval / MINUTE
        low = self.seconds_min / MINUTE
        shrunk = np.trunc((1 - self.decrease) * minutes + self.decrease * low)
        grown = np.trunc(minutes * (1 + self.increase))
        grown = np.minimum(grown, self.seconds_max / MINUTE)
        interval = MINUTE * np.where(polls.changed, shrunk, grown)
        return Waits(interval, interval)


# Common Crawl's news crawl: feeds start at half a day and are retried after two.
CC_NEWS = StormCrawler(
    increase=0.5,
    decrease=0.2,
    seconds_min=90 * MINUTE,
    seconds_max=90 * DAY,
    first_seconds=12 * HOUR,
    retry_seconds=3 * DAY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heritrix:
    """Heritrix's ``WaitEvaluator`` of its adaptive revisiting frontier."""

    unchanged_factor: float = 1.5
    changed_factor: float = 1.5
    seconds_min: float = HOUR
    seconds_max: float = 28 * DAY
    first_seconds: float = DAY
    retry_seconds: float = 15 * MINUTE
    restarts_after_error: bool = False

    def next_waits(self, polls: Polls) -> Waits:
        """Return the interval times or divided by its factor."""
        factor = np.where(polls.changed, 1 / self.changed_factor, self.unchanged_factor)
        interval = np.clip(polls.interval * factor, self.seconds_min, self.seconds_max)
        return Waits(interval, interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class YaCy:
    """YaCy's date until which a page counts as fresh: half as long again as it has not changed.

    load + (load - last modified) / 2.  A page that has just changed would be due at once, so a
    least wait is needed.
    """

    seconds_min: float = HOUR
    first_seconds: float = DAY
    retry_seconds: float = DAY
    restarts_after_error: bool = False

    def next_waits(self, polls: Polls) -> Waits:
        """Return half the age of the version."""
        wait = np.maximum(polls.version_age / 2, self.seconds_min)
        return Waits(wait, wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRatio:
    """The interval that the share of changed polls suggests: one change per poll on average.

    The seconds polled over the changes seen, with half a change more for pages that never
    changed.  Several changes between polls are seen as one, which is the rule's weakness.
    """

    seconds_min: float = HOUR
    seconds_max: float = 30 * DAY
    first_seconds: float = DAY
    retry_seconds: float = HOUR
    restarts_after_error: bool = False

    def next_waits(self, polls: Polls) -> Waits:
        """Return seconds polled per change seen."""
        interval = polls.polled_seconds / (polls.n_changed + 0.5)
        interval = np.clip(interval, self.seconds_min, self.seconds_max)
        return Waits(interval, interval)
