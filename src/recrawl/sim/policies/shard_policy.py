"""recrawl's shard as a policy, so that simulations run the same code as users."""

import math
from dataclasses import replace

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray, RowArray
from recrawl.core.price.due_table import DueTable
from recrawl.shard import (
    BudgetSet,
    Claimed,
    GroupsSet,
    PagesAdded,
    Shard,
    ShardSettings,
    Signals,
    Verdict,
    event_of,
)
from recrawl.shard import Outcomes as OutcomesEvent
from recrawl.sim.policies.policy import FetchOutcomes, KnownPages

__all__ = ["SOURCES_PER_GROUP", "START_MS", "ShardPolicy", "unlimited_settings"]

# Where virtual time begins, in milliseconds since 1970.
START_MS = 1_700_000_000_000
_UNLIMITED = 65_535
# The simulation limits the orders per pick itself; the budget only sets the price.
_BURST_SECONDS = 30 * 86_400.0
# A shard learns the reliability of each source separately for each group.
SOURCES_PER_GROUP = 8


def unlimited_settings(settings: ShardSettings | None = None) -> ShardSettings:
    """Return settings without politeness limits of groups."""
    return replace(settings or ShardSettings(), group_delay=0.0, group_in_flight_max=_UNLIMITED)


class ShardPolicy:
    """Lets a shard choose the pages, and sends it outcomes and signals as events.

    Parameters
    ----------
    settings
        Settings of the shard; by default without politeness limits.
    budget
        Fetches per second, which sets the price if the shard uses the sweep; unlimited if not
        given.
    group_delay
        Seconds between fetches of each group; by default those of the settings.
    due_table
        Due table of the shard; see `recrawl.shard.Shard`.
    """

    def __init__(
        self,
        settings: ShardSettings | None = None,
        *,
        budget: float | None = None,
        group_delay: FloatArray | None = None,
        due_table: DueTable | None = None,
    ) -> None:
        self._settings = settings or unlimited_settings()
        self._budget = budget
        self._group_delay = group_delay
        self._due_table = due_table

    def start(self, pages: KnownPages, at: float) -> None:
        """Add all pages to a new shard."""
        self.shard = shard = Shard(self._settings, due_table=self._due_table)
        now = self._ms(at)
        n_pages = pages.importance.size
        shard.apply(event_of(Claimed, owner=1, epoch=1, at_ms=now))
        self._set_limits(now)
        self._page = shard.free_pages(n_pages)
        added = event_of(
            PagesAdded,
            page=self._page,
            group=pages.group,
            kind=pages.kind,
            importance=pages.importance,
            cost=pages.cost,
            at_ms=now,
        )
        shard.apply(added)
        self._order = np.zeros(n_pages, np.int64)
        self._group = pages.group
        if pages.has_copies:
            self._report(np.full(n_pages, now), np.arange(n_pages), int(Verdict.CHANGED))

    def _set_limits(self, now: int) -> None:
        if self._budget is not None:
            event = event_of(
                BudgetSet,
                amount=self._budget,
                period_seconds=1.0,
                burst_seconds=_BURST_SECONDS,
                unit=0,
                price_mode=0,
                price=0.0,
            )
            self.shard.apply(event)
        if self._group_delay is not None:
            delay_ms = np.rint(1000 * self._group_delay).astype(np.uint32)
            event_groups = event_of(
                GroupsSet,
                group=np.arange(delay_ms.size),
                delay_ms=delay_ms,
                in_flight_max=1,
                burst=1,
                blocked_until_ms=0,
                is_closed=0,
            )
            self.shard.apply(event_groups)
        self.shard.apply(self.shard.tick(now))

    @staticmethod
    def _ms(at: float) -> int:
        return START_MS + round(1000 * at)

    def _tick(self, now: int) -> None:
        self.shard.apply(self.shard.tick(now))

    def on_signals(
        self, at: FloatArray, page: RowArray, source: CountArray, claimed_at: FloatArray
    ) -> None:
        """Send signals to the shard."""
        at_ms = START_MS + np.rint(1000 * at).astype(np.int64)
        claimed = np.where(np.isnan(claimed_at), -START_MS, np.rint(1000 * claimed_at))
        self._tick(int(at_ms[-1]))
        event = event_of(
            Signals,
            page=self._page[page],
            source=self._group[page] * SOURCES_PER_GROUP + source,
            at_ms=at_ms,
            claimed_at_ms=START_MS + claimed.astype(np.int64),
        )
        self.shard.apply(event)

    def pick(self, at: float, n: int) -> RowArray:
        """Let the shard choose pages, and apply its orders."""
        orders = self.shard.decide(self._ms(at), n, lease_seconds=math.inf)
        valid = self.shard.apply(orders).valid
        slots = orders.page[valid] & 0xFFFFFFFF
        self._order[slots] = orders.order[valid]
        return slots

    def learn(self, at: FloatArray, page: RowArray, outcomes: FetchOutcomes) -> None:
        """Report outcomes, and update the shard's prior."""
        at_ms = START_MS + np.rint(1000 * at).astype(np.int64)
        self._tick(int(at_ms[-1]))
        verdict = np.where(outcomes.changed, int(Verdict.CHANGED), int(Verdict.UNCHANGED))
        verdict[outcomes.reverted] = int(Verdict.REVERTED)
        verdict[outcomes.error] = int(Verdict.TRANSIENT_ERROR)
        modified = np.nan_to_num(np.rint(1000 * outcomes.last_modified_at), nan=-START_MS)
        self._report(at_ms, page, verdict, START_MS + modified.astype(np.int64))
        priors = self.shard.learn_priors()
        if priors is not None:
            self.shard.apply(priors)

    def _report(
        self,
        at_ms: CountArray,
        page: RowArray,
        verdict: CountArray | int,
        last_modified_at_ms: CountArray | int = 0,
    ) -> None:
        event = event_of(
            OutcomesEvent,
            page=self._page[page],
            order=self._order[page],
            fetched_at_ms=at_ms,
            verdict=verdict,
            divergence=np.nan,
            last_modified_at_ms=last_modified_at_ms,
            status_class=2,
            retry_after_seconds=0.0,
        )
        self.shard.apply(event)
        self._order[page] = 0
