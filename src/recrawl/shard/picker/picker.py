"""A picker: what to order next, by the exact scan or the rolling sweep, within price and limits."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FloatArray
from recrawl.shard.apply.budget import credit_at
from recrawl.shard.due import CEILING_BONUS, Terms
from recrawl.shard.picker.discovery import NewPages
from recrawl.shard.picker.forecast import sampled_demand
from recrawl.shard.picker.pricing import BudgetPrice
from recrawl.shard.picker.queue.market import (
    M_BACKLOG,
    M_SIZE,
    Market,
    empty_market,
    fit_market,
    n_free_rows,
    roomier_rows,
)
from recrawl.shard.picker.queue.turns import end_decision, forget_orders, wake_groups
from recrawl.shard.picker.rolling import (
    SWEEP_SECONDS_MAX,
    SWEEP_SECONDS_MIN,
    SWEEP_SHARE,
    RollingSweep,
)
from recrawl.shard.picker.scan import Ranked, order_exactly
from recrawl.shard.picker.shares import audit_page, purposes
from recrawl.shard.picker.sweep import Moment
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import BudgetUnit, PriceMode, Reason
from recrawl.shard.state.tables import Tables

__all__ = ["Picker", "Proposal"]

_AUDIT = int(Reason.AUDIT)
_CEILING = int(Reason.CEILING)
_DISCOVERY = int(Reason.DISCOVERY)
_SPARE = int(Reason.SPARE)
_VALUE = int(Reason.VALUE)

# Weight of the latest marginal page in the price that a scan reports.
_SMOOTHING = 0.1
# Where a demand curve begins that has no price to begin at: an hour of one page's staleness.
_PRICE_ANYWHERE = 3_600.0
# Costs as `Pages` has them: log2 in steps of 1/1024.
_COST_CODES_PER_OCTAVE = 1024.0
_COST_OCTAVES = 32.0
# Orders proposed before their costs are known, over those that the mean cost tells.
_COST_ROOM = 1.5
# Waiting pages valued anew, per decision at least and per order.
_REVALUED_MIN = 1_024
_REVALUED_PER_ORDER = 8
# Pages looked at per second, on average, because nothing soon due is left.
_RESTOCKED_PER_SECOND = 50_000.0
# Pages that such a look finds beside those ordered, at most.
_RESTOCK_MAX = 100_000


class Proposal(NamedTuple):
    """Orders that a picker would give, best first; nothing has changed by it."""

    slot: NDArray[np.int64]
    reason: NDArray[np.uint8]
    """`recrawl.shard.state.status.Reason`."""


class Picker:
    """Chooses orders; reads tables and never changes them.

    All that it remembers is derived: a new one finds everything again.  What was proposed and
    not applied is found again, too.

    Parameters
    ----------
    settings
        Of the shard.
    terms
        What turns words into due times.
    """

    def __init__(self, settings: ShardSettings, terms: Terms) -> None:
        self._settings = settings
        self._terms = terms
        self._budget_price = BudgetPrice()
        self._sweep = RollingSweep(terms, empty_market(), settings.pool_max)
        self._new_pages = NewPages(terms)
        self._looked_to = 0
        self._n_unordered = 0
        self._fixed_price = 0.0
        self._is_fixed = False
        self._log2_marginal = math.inf
        self._restocked_at = -math.inf
        self._now_ms = 0
        self._is_sweeping = False
        self._tables: Tables | None = None
        self._mean_cost = 1.0

    @property
    def price(self) -> float:
        """Value that a fetch must reach."""
        return self._fixed_price if self._is_fixed else self._budget_price.price

    @property
    def backlog(self) -> int:
        """Pages that could be ordered at once, were there a budget."""
        return int(self._market.gauge[M_BACKLOG])

    @property
    def sweep_seconds(self) -> float:
        """Between two looks at a page to which nothing happens."""
        return self._sweep.sweep_seconds

    @property
    def n_touched(self) -> int:
        """Entries that came into the near-term wheel or among the waiting, or left, ever."""
        return self._sweep.n_touched

    @property
    def _market(self) -> Market:
        return self._sweep.market

    def set_price(self, price: float) -> None:
        """Begin at a price, as it was logged with the latest tick; 0 says that there was none.

        What was learned of it by correction begins anew; the demand curve stays.
        """
        self._budget_price.set_price(price)

    def demand_curve(self) -> tuple[FloatArray, FloatArray]:
        """Return prices around the present one, and what would be spent per second at each.

        Fetches or cost, as the budget has it.  While sweeping it is the curve of the latest
        sweep: 16 prices a quarter octave apart.  Otherwise it is made from a sample of pages
        when asked for, with 64 prices.  Empty before the first decision.
        """
        demand = self._budget_price.demand
        if not self._is_sweeping or demand is None:
            if self._tables is None:
                return np.empty(0), np.empty(0)
            demand = sampled_demand(self._tables, self._terms, self.price or _PRICE_ANYWHERE)
        return demand.price, demand.spent

    def decide(self, tables: Tables, now_ms: int, n: int, *, exact: bool = False) -> Proposal:
        """Return at most ``n`` orders, best first.

        Parameters
        ----------
        tables
            As they are; nothing is changed.
        now_ms
            Milliseconds since 1970.
        n
            At most so many.
        exact
            Look at every page whatever the settings say, as for a batch.
        """
        self._tables = tables
        self._now_ms = max(now_ms, self._now_ms)
        self._fit(tables)
        registers = tables.registers
        self._is_fixed = bool(registers.price_mode[0] == PriceMode.FIXED)
        self._fixed_price = float(registers.fixed_price[0])
        self._is_sweeping = self._sweeps(tables)
        moment = None
        if self._is_sweeping:
            moment = self._advance(tables, now_ms)
            self._put_in_order(tables, moment, n)
        by_cost = bool(registers.budget_unit[0] == BudgetUnit.COST)
        credit = credit_at(registers, now_ms) if by_cost else math.inf
        if by_cost:
            n = math.ceil(min(_COST_ROOM * max(credit, 0.0) / self._mean_cost, float(n)))
        wanted = np.empty(max(n, 0), np.uint8)
        settings = self._settings
        first_order = int(registers.next_order[0])
        purposes(first_order, settings.audit_share, settings.discovery_share, wanted)
        slot, reason = self._orders(tables, now_ms, wanted, None if exact else moment)
        end_decision(self._market, slot)
        if by_cost:
            n_kept = self._n_affordable(tables, slot, credit)
            if moment is not None:
                self._sweep.consider(tables, moment, slot[n_kept:])
            slot, reason = slot[:n_kept], reason[:n_kept]
        return Proposal(slot, reason)

    def touch(self, tables: Tables, slots: NDArray[np.int64]) -> None:
        """Look at pages to which something happened: they may be due before the next sweep."""
        self._fit(tables)
        slots = np.ascontiguousarray(slots, np.int64)
        if self._settings.discovery_share > 0.0:
            self._new_pages.offer(tables, self._now(tables), slots)
        if self._is_sweeping:
            moment = self._sweep.moment(tables, self._now(tables), self._log2_price())
            self._sweep.consider(tables, moment, slots)

    def wake(self, tables: Tables, groups: NDArray[np.int64]) -> None:
        """Look again at groups that may be ordered from earlier than they could."""
        self._fit(tables)
        rows = np.ascontiguousarray(groups, np.int64)
        wake_groups(self._market, tables.groups, rows, rows.size, self._now(tables))

    def _now(self, tables: Tables) -> int:
        return max(self._now_ms, int(tables.registers.now[0]))

    def _fit(self, tables: Tables) -> None:
        self._sweep.market = fit_market(
            self._market, tables.pages.word.size, tables.groups.ready_at.size
        )

    def _n_affordable(self, tables: Tables, slot: NDArray[np.int64], credit: float) -> int:
        """Return how many orders the credit pays for, the last one perhaps in part."""
        cost = np.exp2(tables.pages.cost[slot] / _COST_CODES_PER_OCTAVE - _COST_OCTAVES)
        if slot.size:
            self._mean_cost += _SMOOTHING * (float(cost.mean()) - self._mean_cost)
        return int((np.cumsum(cost) - cost < credit).sum())

    def _log2_price(self) -> float:
        return math.log2(self.price) if self.price > 0.0 else -1e3

    def _sweeps(self, tables: Tables) -> bool:
        if self._settings.picker == "auto":
            return int(tables.registers.n_pages[0]) > self._settings.scan_pages_max
        return self._settings.picker == "sweep"

    # ---- the rolling sweep

    def _pace(self, tables: Tables) -> float:
        if self._settings.sweep_seconds is not None:
            return max(self._settings.sweep_seconds, 1.0)
        rate = float(tables.registers.budget[0]) / self._mean_cost
        demand = self._budget_price.demand
        if self._is_fixed and demand is not None:
            rate = demand.spent_at(max(self.price, 1e-30))
        seconds = SWEEP_SHARE * float(tables.registers.n_pages[0]) / max(rate, 1e-9)
        return min(max(seconds, SWEEP_SECONDS_MIN), SWEEP_SECONDS_MAX)

    def _advance(self, tables: Tables, now_ms: int) -> Moment:
        """Move price, sweep and wheel to a moment."""
        budget = float(tables.registers.budget[0])
        price = self._budget_price
        if price.demand is None or (not self._is_fixed and budget > 0.0 and self.price == 0.0):
            demand = sampled_demand(tables, self._terms, self.price or _PRICE_ANYWHERE)
            if not self._is_fixed and budget > 0.0 and self.price == 0.0:
                # Once more around the price found: the first curve may not reach it.
                demand = sampled_demand(tables, self._terms, demand.price_for(budget))
            price.see_demand(demand, budget)
        now = now_ms / 1000.0
        # The first sweep finds what has waited for it; the price is not to follow that.
        if not self._is_fixed and self._sweep.n_passes > 0:
            n_pages = int(tables.registers.n_pages[0])
            price.step(
                now,
                budget,
                backlog=self.backlog,
                n_pages=n_pages,
                sweep_seconds=self.sweep_seconds,
                cost=self._mean_cost,
            )
        moment = self._sweep.moment(tables, now_ms, self._log2_price())
        self._sweep.set_pace(moment.now, self._pace(tables))
        if self._settings.discovery_share > 0.0:
            self._look_for_new(tables, now_ms)
        moment = moment._replace(sweep_seconds=self._sweep.sweep_seconds)
        counted = self._sweep.advance(tables, moment)
        if counted is not None:
            price.see_demand(counted, budget)
        return moment

    def _put_in_order(self, tables: Tables, moment: Moment, n_orders: int) -> None:
        """Value what waits anew: all of it while it is little, and the more seldom the more it is.

        Most pages come when they are just worth the price.  Best first by what each was worth
        then would be first come, first served.
        """
        self._n_unordered += max(_REVALUED_MIN, _REVALUED_PER_ORDER * n_orders)
        n_waiting = int(self._market.gauge[M_SIZE])
        if 0 < n_waiting <= self._n_unordered:
            self._n_unordered = 0
            self._sweep.put_in_order(tables, moment)

    def _look_for_new(self, tables: Tables, now_ms: int) -> None:
        """Look where the sweep has been since the last time."""
        end = self._sweep.cursor
        if end < self._looked_to:
            self._new_pages.look(tables, now_ms, self._looked_to, int(tables.registers.n_slots[0]))
            self._looked_to = 0
        self._new_pages.look(tables, now_ms, self._looked_to, end)
        self._looked_to = end

    # ---- orders

    def _orders(
        self, tables: Tables, now_ms: int, wanted: NDArray[np.uint8], moment: Moment | None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return orders by what each is wanted for; one that cannot be had goes to value."""
        if self._is_fixed and moment is not None:
            # No more than is due, lest shares are of what might have been.
            share = self._settings.audit_share + self._settings.discovery_share
            n_due = int(self._market.gauge[M_SIZE]) + 1
            wanted = wanted[: math.ceil(n_due / max(1.0 - share, 0.01))]
        slot = np.full(wanted.size, -1, np.int64)
        reason = wanted.copy()
        for i in np.flatnonzero(wanted == _AUDIT):
            self._make_rows(1)
            order = int(tables.registers.next_order[0]) + int(i)
            n_slots = int(tables.registers.n_slots[0])
            slot[i] = audit_page(tables.pages, tables.groups, self._market, order, n_slots, now_ms)
        at = np.flatnonzero(wanted == _DISCOVERY)
        if at.size:
            found = self._discoveries(tables, now_ms, at.size, moment is None)
            slot[at[: found.size]] = found
        at = np.flatnonzero(slot < 0)
        found, why = self._values(tables, now_ms, at.size, moment)
        slot[at[: found.size]] = found
        reason[at[: found.size]] = why
        is_had = slot >= 0
        if found.size < at.size:
            # Nothing more is worth it: what was set apart beyond that is not either.
            is_had[at[found.size] :] = False
            forget_orders(self._market, slot[(slot >= 0) & ~is_had])
        return slot[is_had], reason[is_had]

    def _make_rows(self, n: int) -> None:
        while n_free_rows(self._market, n) < n:
            self._sweep.market = roomier_rows(self._market)

    def _discoveries(self, tables: Tables, now_ms: int, n: int, by_scan: bool) -> NDArray[np.int64]:
        if by_scan:
            ranked, self._sweep.market = order_exactly(
                tables, self._terms, self._market, now_ms, n, only_new=True
            )
            return ranked.slot
        self._make_rows(n)
        return self._new_pages.order(tables, self._market, now_ms, n)

    def _values(
        self, tables: Tables, now_ms: int, n: int, moment: Moment | None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        if moment is None:
            ranked = self._scan(tables, now_ms, n)
            why = np.where(ranked.log2_worth >= CEILING_BONUS / 2, _CEILING, _VALUE)
            self._see_marginal(ranked, n)
            return ranked.slot, why.astype(np.uint8)
        slot, reason = np.empty(n, np.int64), np.empty(n, np.uint8)
        # What is worth most of all that is not due is better than what is due next.
        restocks = not self._is_fixed and self._may_restock(tables, moment)
        n_found = self._sweep.order(
            tables, moment, slot, reason, only_due=self._is_fixed, pulls_ahead=not restocks
        )
        if n_found < n and restocks:
            n_found += self._restock(tables, moment, slot[n_found:], reason[n_found:])
        self._budget_price.see_orders(int((reason[:n_found] == _SPARE).sum()))
        return slot[:n_found], reason[:n_found]

    def _restock_wait(self, tables: Tables) -> float:
        """Return the seconds between two looks at all pages, so that they cost next to nothing."""
        return float(tables.registers.n_slots[0]) / _RESTOCKED_PER_SECOND

    def _may_restock(self, tables: Tables, moment: Moment) -> bool:
        is_time = moment.now >= self._restocked_at + self._restock_wait(tables)
        return is_time and self._sweep.n_passes > 0

    def _restock(
        self, tables: Tables, moment: Moment, slot: NDArray[np.int64], reason: NDArray[np.uint8]
    ) -> int:
        """Look at all pages for the best that are not soon due, now and for some time to come."""
        self._restocked_at = moment.now
        rate = float(tables.registers.budget[0]) / self._mean_cost
        wait = max(self._restock_wait(tables), SWEEP_SECONDS_MIN)
        n_ahead = math.ceil(min(rate * wait, float(_RESTOCK_MAX)))
        ranked = self._scan(tables, moment.now_ms, slot.size + n_ahead)
        forget_orders(self._market, ranked.slot[slot.size :])
        n = min(ranked.slot.size, slot.size)
        worth = ranked.log2_worth[:n]
        slot[:n] = ranked.slot[:n]
        reason[:n] = _SPARE
        reason[:n][worth >= moment.log2_price] = _VALUE
        reason[:n][worth >= CEILING_BONUS / 2] = _CEILING
        if n == slot.size and n > 0 and ranked.log2_worth[-1] < moment.log2_price:
            # The price is far too high, or this would not have been needed.
            self._budget_price.set_price(math.exp2(float(ranked.log2_worth[-1])))
            self._sweep.hurry()
        return n

    def _scan(self, tables: Tables, now_ms: int, n: int) -> Ranked:
        ranked, self._sweep.market = order_exactly(
            tables,
            self._terms,
            self._market,
            now_ms,
            n,
            log2_guess=self._log2_marginal,
            log2_least=self._log2_price() if self._is_fixed else -math.inf,
        )
        return ranked

    def _see_marginal(self, ranked: Ranked, n: int) -> None:
        worth = ranked.log2_worth[ranked.log2_worth < CEILING_BONUS / 2]
        if worth.size == 0:
            return
        self._log2_marginal = float(worth[-1])
        if self._is_fixed or self._is_sweeping or ranked.slot.size < n:
            return
        price = self._budget_price.price
        marginal = math.exp2(self._log2_marginal)
        if price > 0.0:
            marginal = price * (marginal / price) ** _SMOOTHING
        self._budget_price.set_price(marginal)
