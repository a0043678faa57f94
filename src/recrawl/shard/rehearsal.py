"""Run the kernels of a lease and a report once, on a small shard that is thrown away.

A process loads compiled kernels one by one, when they are first called, which takes longer than
many decisions.  So a large corpus does that while it is opened, not in its first lease.
"""

from dataclasses import replace

import numpy as np

from recrawl.core.belief.population import BROAD
from recrawl.core.kernel import IS_COMPILED
from recrawl.core.price.due_table import DueTable
from recrawl.shard.announced import find_announced
from recrawl.shard.apply.priors import WHOLE_PAGES, refit_prior
from recrawl.shard.events import Claimed, Outcomes, PagesAdded, PriorsSet, event_of
from recrawl.shard.picker.queue.market import empty_market
from recrawl.shard.picker.queue.turns import unmark_ordered
from recrawl.shard.picker.wheel import empty_wheel, take_ahead
from recrawl.shard.settings import ShardSettings
from recrawl.shard.shard import Shard
from recrawl.shard.state.status import Verdict

__all__ = ["rehearse_decisions"]

# More pages than the queues hold, so that they are trimmed.
_N_PAGES = 1_600
_POOL_MAX = 1_024
_N_ORDERS = 100
_START_MS = 1_700_000_000_000
_STEP_MS = 10_000


def rehearse_decisions(settings: ShardSettings, due_table: DueTable) -> None:
    """Add pages to a new shard, order them and report outcomes, while a snapshot is taken.

    Parameters
    ----------
    settings
        Settings of the real shard.
    due_table
        Table of due times of the real shard.
    """
    if not IS_COMPILED:
        return
    own = replace(
        settings, picker="sweep", pool_max=_POOL_MAX, group_delay=0.0, group_in_flight_max=_N_PAGES
    )
    shard = Shard(own, due_table=due_table)
    shard.apply(event_of(Claimed, owner=1, epoch=1, at_ms=_START_MS))
    added = event_of(
        PagesAdded,
        page=shard.free_pages(_N_PAGES),
        group=np.arange(_N_PAGES) % 2,
        kind=0,
        importance=1.0 + np.arange(_N_PAGES),  # the queues take the later pages as well
        cost=1.0,
        at_ms=_START_MS,
    )
    shard.apply(added)
    snapshot = shard.snapshot("0")
    # Every page counts as a newcomer until then; the first page is not one.
    shard.tables.registers.newcomers_until[0] = 1 << 31
    shard.tables.pages.newcomer_until[1:_N_ORDERS] = (1 << 32) - 1
    for at_ms in range(_START_MS, _START_MS + 3 * _STEP_MS, _STEP_MS):
        shard.apply(shard.tick(at_ms))
        shard.overdue(at_ms)
        orders = shard.decide(at_ms, _N_ORDERS, exact=at_ms == _START_MS, keeps_budget=True)
        shard.apply(orders)
        find_announced(shard.tables, shard.rules, orders.page)
        outcomes = event_of(
            Outcomes,
            page=orders.page,
            order=orders.order,
            fetched_at_ms=at_ms,
            verdict=int(Verdict.CHANGED),
            divergence=np.nan,
            last_modified_at_ms=0,
            status_class=2,
            retry_after_seconds=0.0,
        )
        shard.apply(outcomes)
    refit_prior(BROAD, BROAD, WHOLE_PAGES)  # loads scipy
    shard.apply(event_of(PriorsSet, epoch=1, kind=0, shape=1.0, seconds=1.0))
    end_ms = _START_MS + 10 * _STEP_MS
    shard.apply(shard.decide(end_ms, _N_ORDERS, lease_seconds=1.0))
    shard.apply(shard.overdue(end_ms + _STEP_MS))
    for _ in snapshot:
        pass
    unmark_ordered(empty_market(), np.empty(0, np.int64))
    take_ahead(empty_wheel(1.0, 0.0), 1, 1, np.empty(1, np.int64))
