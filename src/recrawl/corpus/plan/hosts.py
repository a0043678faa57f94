"""What hosts cost and how fresh they are, and what freshness their delays cost.

A host that is asked once per delay sells no more than that, to its own best pages, however much
the budget would buy.  What that costs is the difference to the same pages at the same price
without a delay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.plan.priced_pages import LookedAt, PricedPages, allowed_rate, weights_of

__all__ = ["GroupNames", "HostPlan", "HostPlans", "host_plans"]

GroupNames = Callable[[int, Sequence[int]], Sequence[str | None]]
"""The names of groups, given the place of their shard and their numbers in it."""

_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """The part of a plan that is about one host, or whatever pages are grouped by, at one price."""

    host: str
    n_pages: int
    n_counted: int
    """Pages looked at: of a few, take the rest of the row with caution."""
    importance: float
    """Of all its pages together."""
    fetches_per_hour: float
    fetches_per_hour_wanted: float
    """What its pages would be worth fetching at the price, were there no delay."""
    fetches_per_hour_max: float
    """What its delay allows: infinite without one, 0 for a host that is closed."""
    delay_seconds: float
    freshness: float
    """Weighted by importance, unless none of its pages has any."""
    freshness_without_delay: float

    @property
    def is_slowed(self) -> bool:
        """Whether the delay, not the price, decides how often its pages are fetched."""
        return self.fetches_per_hour_wanted > self.fetches_per_hour_max


class HostPlans(NamedTuple):
    """Hosts of a corpus at one price."""

    largest: tuple[HostPlan, ...]
    """By importance of their pages."""
    slowed: tuple[HostPlan, ...]
    """Those whose delay costs the corpus most freshness."""
    n_hosts: int
    """Whose pages were looked at."""
    n_slowed: int
    """Of those."""
    freshness_lost: float
    """By all delays together, of the whole corpus, weighted by importance."""


def host_plans(
    looked_at: LookedAt,
    priced: PricedPages,
    price: FloatArray,
    place: float,
    *,
    names: GroupNames,
    n_max: int,
) -> HostPlans:
    """Return what hosts cost and how fresh they are.

    Parameters
    ----------
    looked_at, priced, price
        Pages, and what becomes of them at falling prices.
    place
        Where among the prices, as a number of columns: a half is between the first two.
    names
        Of groups.
    n_max
        Hosts in each list.
    """
    k = min(int(place), price.size - 2)
    share = min(place - k, 1.0)
    free = looked_at.at(price[k : k + 2], is_capped=False)
    fetches, fresh = (_between(column[:, k : k + 2], share) for column in priced[-2:])
    wanted, fresh_without = (_between(column, share) for column in free[-2:])
    part, group = _groups_of(looked_at)
    host, of_page = np.unique((part << 32) | group, return_inverse=True)
    n_counted = np.bincount(of_page, minlength=host.size)
    n_pages, allowed, delay = _told(looked_at, host)
    each = n_pages / np.maximum(n_counted, 1)

    def total(column: FloatArray) -> FloatArray:
        out: FloatArray = each * np.bincount(of_page, column, minlength=host.size)
        return out

    importance = total(priced.importance)
    spent, asked = total(fetches), total(wanted)
    weight = weights_of(priced)
    per_page = weight / priced.n_pages
    lost = np.maximum(total(per_page * (fresh_without - fresh)), 0.0)
    lost[asked <= allowed] = 0.0
    # Of a host without importance each page counts the same.
    own = np.where(importance[of_page] > 0, priced.importance, 1.0)
    counted, kept, kept_without = total(own), total(own * fresh), total(own * fresh_without)

    def rows_of(order: CountArray) -> tuple[HostPlan, ...]:
        chosen = order[:n_max]
        known = _named(host[chosen], names)
        return tuple(
            HostPlan(
                host=name,
                n_pages=int(n_pages[i]),
                n_counted=int(n_counted[i]),
                importance=float(importance[i]),
                fetches_per_hour=_HOUR * float(spent[i]),
                fetches_per_hour_wanted=_HOUR * float(asked[i]),
                fetches_per_hour_max=_HOUR * float(allowed[i]),
                delay_seconds=float(delay[i]),
                freshness=float(kept[i] / counted[i]),
                freshness_without_delay=float(kept_without[i] / counted[i]),
            )
            for name, i in zip(known, chosen, strict=True)
        )

    slowed = np.argsort(-lost, kind="stable")
    return HostPlans(
        rows_of(np.argsort(-importance, kind="stable")),
        rows_of(slowed[lost[slowed] > 0]),
        host.size,
        int(np.count_nonzero(asked > allowed)),
        float(max(weight @ (fresh_without - fresh) / max(weight.sum(), 1e-300), 0.0)),
    )


def _between(columns: FloatArray, share: float) -> FloatArray:
    """Return what lies between two columns."""
    between: FloatArray = columns[:, 0] + share * (columns[:, 1] - columns[:, 0])
    return between


def _groups_of(looked_at: LookedAt) -> tuple[CountArray, CountArray]:
    """Return the shard and the group in it of each page looked at."""
    pairs = list(zip(looked_at.shards, looked_at.slots, strict=True))
    part = np.repeat(np.arange(len(pairs)), [slot.size for _, slot in pairs])
    group = [shard.tables.pages.group[slot].astype(np.int64) for shard, slot in pairs]
    return part, np.concatenate(group)


def _told(looked_at: LookedAt, host: CountArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the pages of groups, the fetches per second they allow, and their delays."""
    n_pages, allowed, delay = np.empty((3, host.size))
    for i, shard in enumerate(looked_at.shards):
        rows = np.flatnonzero(host >> 32 == i)
        groups, number = shard.tables.groups, (host[rows] & 0xFFFFFFFF).astype(np.uint32)
        n_pages[rows] = groups.n_pages[number]
        allowed[rows] = allowed_rate(groups, number)
        delay[rows] = groups.delay_ms[number] / 1_000
    return n_pages, allowed, delay


def _named(host: CountArray, names: GroupNames) -> list[str]:
    known = [""] * host.size
    for part in np.unique(host >> 32):
        rows = np.flatnonzero(host >> 32 == part)
        numbers = [int(number) for number in host[rows] & 0xFFFFFFFF]
        for row, number, name in zip(rows, numbers, names(int(part), numbers), strict=True):
            known[row] = name or f"group {number}"
    return known
