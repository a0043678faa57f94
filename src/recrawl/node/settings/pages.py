"""Change the settings of tracked pages, by page or by URL pattern."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recrawl.node.config.corpus_config import duration
from recrawl.node.node import Node
from recrawl.node.numbering import Namer
from recrawl.node.records import LogEntry
from recrawl.node.routing import AMOUNT_MAX
from recrawl.node.user_data import set_user_data, user_columns
from recrawl.shard import CostsSet, ImportanceSet, KindsSet, LimitsSet, PagesRemoved, event_of
from recrawl.shard.events import slot_of_page
from recrawl.store import Names

__all__ = ["PageSettings", "set_pages", "stop_tracking"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """New settings of pages; None leaves a setting unchanged.

    Parameters
    ----------
    importance, cost
        Importance of the page and cost of fetching it, relative to other pages.
    kind
        Name of the kind of page, whose change rates are learned together.
    min_age, max_age
        Minimum and maximum time between two fetches, the latter as far as the budget allows.
        Seconds, or text such as ``"6h"``.
    stale_for, stale_probability
        Staleness limit: maximum probability of being stale for longer than this time.
    doc_id, metadata
        Name that you give the page, and a JSON object; an empty one removes it.
    """

    importance: float | None = None
    cost: float | None = None
    kind: str | None = None
    min_age: float | str | None = None
    max_age: float | str | None = None
    stale_for: float | str | None = None
    stale_probability: float | None = None
    doc_id: str | None = None
    metadata: Mapping[str, Any] | str | None = None

    def __post_init__(self) -> None:
        for name in ("importance", "cost"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= AMOUNT_MAX:
                raise ValueError(f"{name} must be 0 to {AMOUNT_MAX:g}, got {value!r}")
        if self.stale_probability is not None and not 0 <= self.stale_probability < 1:
            raise ValueError(
                f"stale_probability must be at least 0 and less than 1, got "
                f"{self.stale_probability!r}"
            )
        for name in ("min_age", "max_age", "stale_for"):
            value = getattr(self, name)
            if value is not None:
                try:
                    object.__setattr__(self, name, duration(value))
                except ValueError as error:
                    raise ValueError(f"{name} {error}") from None
        ages = (self.min_age, self.max_age)
        if None not in ages and float(ages[1] or 0) < float(ages[0] or 0):
            raise ValueError(
                f"max_age must be at least min_age ({self.min_age} s), got {self.max_age} s"
            )
        if (self.stale_for is None) != (self.stale_probability is None):
            raise ValueError("stale_for must be given together with stale_probability")
        own = user_columns(1, doc_id=self.doc_id, metadata=self.metadata)
        if own is not None and own.problems:
            raise ValueError(own.problems[0])

    @property
    def has_limits(self) -> bool:
        """Whether a minimum age, a maximum age or a staleness limit is set."""
        limits = (self.min_age, self.max_age, self.stale_for, self.stale_probability)
        return any(value is not None for value in limits)


def set_pages(node: Node, namer: Namer, page: NDArray[np.int64], settings: PageSettings) -> int:
    """Change the settings of pages of a node; return how many of them are tracked."""
    if page.size == 0:
        return 0
    with node.lock:
        entries: list[LogEntry] = []
        if settings.importance is not None:
            entries.append(event_of(ImportanceSet, page=page, importance=settings.importance))
        if settings.cost is not None:
            entries.append(event_of(CostsSet, page=page, cost=settings.cost))
        if settings.kind is not None:
            (kind,) = namer.numbers(Names.KIND, [settings.kind])
            entries.append(event_of(KindsSet, page=page, kind=int(kind)))
        if settings.has_limits:
            entries.append(_limits_event(node, page, settings))
        node.submit(entries)
        own = user_columns(page.size, doc_id=settings.doc_id, metadata=settings.metadata)
        if own is not None:
            set_user_data(node, page, own)
        return int(np.count_nonzero(node.shard.has_pages(page)))


def _limits_event(node: Node, page: NDArray[np.int64], settings: PageSettings) -> LimitsSet:
    """Return the event that sets the limits of pages; limits not given keep their old values."""
    limits = node.shard.tables.limits
    row = node.shard.tables.pages.limits[slot_of_page(page)]
    # What the user limits is no longer the schedule of a hold-out, which audits need not respect.
    stale_seconds = np.where(limits.stale_probability[row] > 0, limits.stale_for[row], 0.0)
    return event_of(
        LimitsSet,
        page=page,
        interval_seconds_min=_value_or_old(settings.min_age, limits.interval_min[row]),
        interval_seconds_max=_value_or_old(settings.max_age, limits.interval_max[row]),
        stale_seconds=_value_or_old(settings.stale_for, stale_seconds),
        stale_probability=_value_or_old(settings.stale_probability, limits.stale_probability[row]),
    )


def _value_or_old(
    value: float | str | None, old: NDArray[np.float64]
) -> NDArray[np.float64] | float:
    return old if value is None else float(value)


def stop_tracking(node: Node, page: NDArray[np.int64]) -> int:
    """Remove pages of a node; return how many there were.  Negative numbers are ignored."""
    page = page[page >= 0]
    if page.size == 0:
        return 0
    (applied,) = node.submit([event_of(PagesRemoved, page=page)])
    return int(np.count_nonzero(applied.valid))
