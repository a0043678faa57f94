"""The spending and freshness of hosts in a plan, and the freshness that their delays cost.

A host allows one fetch per delay, whatever the budget; its own best pages get these fetches.  The
cost of the delay is the difference to the same pages at the same price without a delay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.plan.merged_hosts import MergedHosts
from recrawl.corpus.plan.priced_pages import PricedPages, SampledPages, weights_of

__all__ = ["GroupNames", "HostPlan", "HostPlans", "host_plans"]

GroupNames = Callable[[int, Sequence[int]], Sequence[str | None]]
"""A function that returns the names of groups, given the place of their partition and their numbers
in it."""

_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """The part of a plan about one host (or domain, as pages are grouped), at one price."""

    host: str
    n_pages: int
    n_counted: int
    """Number of its pages in the sample; with few, the other numbers are inaccurate."""
    importance: float
    """Total importance of its pages."""
    fetches_per_hour: float
    fetches_per_hour_wanted: float
    """Fetches per hour that its pages would get at the price without the delay."""
    fetches_per_hour_max: float
    """Fetches per hour that its delay allows: infinite without one, 0 for a closed host."""
    delay_seconds: float
    freshness: float
    """Freshness weighted by importance; unweighted if none of its pages has any."""
    freshness_without_delay: float

    @property
    def is_slowed(self) -> bool:
        """Whether the delay, not the price, limits how often its pages are fetched."""
        return self.fetches_per_hour_wanted > self.fetches_per_hour_max


class HostPlans(NamedTuple):
    """The hosts of a corpus at one price."""

    largest: tuple[HostPlan, ...]
    """Hosts with the most important pages."""
    slowed: tuple[HostPlan, ...]
    """Hosts whose delay costs the corpus most freshness."""
    n_hosts: int
    """Number of hosts with sampled pages."""
    n_slowed: int
    """Number of hosts among those that their delay slows down."""
    freshness_lost: float
    """Freshness of the whole corpus that all delays together cost, weighted by importance."""


def host_plans(
    pages: SampledPages,
    priced: PricedPages,
    price: FloatArray,
    place: float,
    *,
    names: GroupNames | None = None,
    n_max: int,
) -> HostPlans:
    """Return the spending and freshness of hosts.

    Parameters
    ----------
    pages, priced, price
        Sampled pages, and their fetch rates and freshness at falling prices.
    place
        Place among the prices, as a number of columns: 0.5 is between the first two.
    names
        Names of groups that the partitions came without.
    n_max
        Largest number of hosts in each list.
    """
    k = min(int(place), price.size - 2)
    share = min(place - k, 1.0)
    free = pages.at(price[k : k + 2], is_capped=False)
    fetches, fresh = (_interpolate(column[:, k : k + 2], share) for column in priced[-2:])
    wanted, fresh_without = (_interpolate(column, share) for column in free[-2:])
    hosts = pages.hosts
    of_page, total = hosts.of_page, hosts.total
    importance = total(priced.importance)
    spent, asked = total(fetches), total(wanted)
    weight = weights_of(priced)
    per_page = weight / priced.n_pages
    lost = np.maximum(total(per_page * (fresh_without - fresh)), 0.0)
    lost[asked <= hosts.allowed_rate] = 0.0
    # If no page of a host has importance, all its pages count the same.
    own = np.where(importance[of_page] > 0, priced.importance, 1.0)
    counted, fresh_sum, fresh_sum_without = (
        total(own),
        total(own * fresh),
        total(own * fresh_without),
    )

    def rows_of(order: CountArray) -> tuple[HostPlan, ...]:
        chosen = order[:n_max]
        known = _host_names(pages, hosts, chosen.tolist(), names)
        return tuple(
            HostPlan(
                host=name,
                n_pages=int(hosts.n_pages[i]),
                n_counted=int(hosts.n_counted[i]),
                importance=float(importance[i]),
                fetches_per_hour=_HOUR * float(spent[i]),
                fetches_per_hour_wanted=_HOUR * float(asked[i]),
                fetches_per_hour_max=_HOUR * float(hosts.allowed_rate[i]),
                delay_seconds=float(hosts.delay_seconds[i]),
                freshness=float(fresh_sum[i] / counted[i]),
                freshness_without_delay=float(fresh_sum_without[i] / counted[i]),
            )
            for name, i in zip(known, chosen, strict=True)
        )

    slowed = np.argsort(-lost, kind="stable")
    return HostPlans(
        rows_of(np.argsort(-importance, kind="stable")),
        rows_of(slowed[lost[slowed] > 0]),
        hosts.size,
        int(np.count_nonzero(asked > hosts.allowed_rate)),
        float(max(weight @ (fresh_without - fresh) / max(weight.sum(), 1e-300), 0.0)),
    )


def _interpolate(columns: FloatArray, share: float) -> FloatArray:
    """Return the values between two columns."""
    between: FloatArray = columns[:, 0] + share * (columns[:, 1] - columns[:, 0])
    return between


def _host_names(
    pages: SampledPages, hosts: MergedHosts, chosen: Sequence[int], names: GroupNames | None
) -> list[str]:
    """Return the names of hosts: those that partitions came with, or else those of a function."""
    known = []
    for host in chosen:
        part, row = hosts.place_of(host)
        own = pages.parts[part].hosts
        number, name = int(own.number[row]), own.name[row]
        if name is None and names is not None:
            (name,) = names(part, [number])
        known.append(name or f"group {number}")
    return known
