"""The picker: chooses orders by an exact scan or a rolling sweep, within price and limits."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray
from recrawl.core.quick_calls import quick_call
from recrawl.shard.apply.budget import credit_at, log2_price_fall
from recrawl.shard.due import CEILING_BONUS, Terms
from recrawl.shard.early import Early, early_rule, has_price, is_scanned
from recrawl.shard.picker.discovery import UnfetchedPages
from recrawl.shard.picker.forecast import SampledDemand, sample_demand
from recrawl.shard.picker.given import Allowed, order_given_pages
from recrawl.shard.picker.newcomers import NO_NEWCOMERS, Newcomers, are_fresh
from recrawl.shard.picker.pricing import BudgetPrice
from recrawl.shard.picker.queue.audits import WaitingAudits
from recrawl.shard.picker.queue.market import (
    M_BACKLOG,
    M_SIZE,
    Market,
    empty_market,
    fit_market,
    grow_rows,
    n_free_rows,
)
from recrawl.shard.picker.queue.turns import end_decision, unmark_ordered, wake_groups
from recrawl.shard.picker.rolling import (
    SWEEP_SECONDS_MAX,
    SWEEP_SECONDS_MIN,
    SWEEP_SHARE,
    RollingSweep,
)
from recrawl.shard.picker.scan import Ranked, order_exactly, write_purposes
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
_FIXED = int(PriceMode.FIXED)
_IN_COST = int(BudgetUnit.COST)

# Weight of the latest marginal page in the price that scans maintain.
_SMOOTHING = 0.1
# Newcomers are ordered if they are worth the price, up to this many octaves below it.
_NEWCOMER_OCTAVES = 1.0
# Price to begin a demand curve at if there is none: an hour of one page's staleness.
_PRICE_ANYWHERE = 3_600.0
# Seconds between two computations of a price from the demand curve where the sweep does not control
# one, and the number of pages that it is computed from.
_CURVE_PRICE_SECONDS = 60.0
_CURVE_PAGES_COUNTED = 4_096
# Number of pages that the price is computed from before the first sweep has ended.
_FIRST_PAGES_COUNTED = 8_192
# Share of the most that can be kept of a budget: kept budget is called full if less than this, or
# less than one fetch, is missing.
_FULL_SHARE = 0.01
# Codes of costs in `Pages`: log2 in steps of 1/1024.
_COST_CODES_PER_OCTAVE = 1024.0
_COST_OCTAVES = 32.0
# Factor on the number of orders that the mean cost suggests, as their costs are not known yet.
_COST_ROOM = 1.5
# Number of waiting pages and of groups revalued, per decision at least and per order.
_REVALUED_MIN = 1_024
_REVALUED_PER_ORDER = 8
# Mean number of pages scanned per second when no page is soon due.
_RESTOCKED_PER_SECOND = 50_000.0
# Largest number of pages that such a scan finds beside those ordered.
_RESTOCK_MAX = 100_000

_wake_groups = quick_call(wake_groups)
_end_decision = quick_call(end_decision)
_n_free_rows = quick_call(n_free_rows)


class Proposal(NamedTuple):
    """Orders that a picker proposes, best first."""

    slot: NDArray[np.int64]
    reason: NDArray[np.uint8]
    """`recrawl.shard.state.status.Reason`."""


class Picker:
    """Chooses orders; reads tables and never changes them.

    All its state but the audits that wait for their hosts is derived from the tables: a new picker
    finds everything again.  So is a page that was proposed and whose order was not applied.

    Parameters
    ----------
    settings
        Settings of the shard.
    terms
        Parameters that turn words into due times.
    """

    def __init__(self, settings: ShardSettings, terms: Terms) -> None:
        self._settings = settings
        self._terms = terms
        self._budget_price = BudgetPrice()
        self._sweep = RollingSweep(terms, empty_market(), settings.pool_max)
        self._new_pages = UnfetchedPages(terms)
        self._audits = WaitingAudits()
        self._newcomers = Newcomers(settings, terms)
        self._newcomers_after = NO_NEWCOMERS
        self._looked_to = 0
        self._n_to_revalue = 0
        self._fixed_price = 0.0
        self._is_fixed = False
        self._log2_marginal = math.inf
        self._restocked_at = -math.inf
        self._now_ms = 0
        self._is_sweeping = False
        self._has_decided = False
        self._mean_cost = 1.0
        self._curve_price = 0.0
        self._curve_price_at = -math.inf
        self._keeps_budget = False
        self._log2_fall = 0.0

    @property
    def price(self) -> float:
        """Value that a fetch must reach."""
        return self._fixed_price if self._is_fixed else self._budget_price.price

    @property
    def backlog(self) -> int:
        """Number of pages that could be ordered within seconds if the budget allowed it."""
        return int(self._market.gauge[M_BACKLOG])

    @property
    def sweep_seconds(self) -> float:
        """Seconds of one sweep, the time between two looks at a page without events."""
        return self._sweep.sweep_seconds

    @property
    def n_touched(self) -> int:
        """Number of entries ever added to or removed from the wheel or the waiting pages."""
        return self._sweep.n_touched

    @property
    def _market(self) -> Market:
        return self._sweep.market

    def set_price(self, price: float) -> None:
        """Begin at the price that the latest tick logged; 0 for none.

        This resets the correction of the price; the demand curve stays.
        """
        self._budget_price.set_price(price)

    def demand_curve(self, tables: Tables) -> tuple[FloatArray, FloatArray]:
        """Return prices around the present one, and the spending per second at each.

        Spending is in fetches or cost, like the budget.  While sweeping, it is the curve of the
        latest sweep: 16 prices a quarter octave apart.  Otherwise it is computed from a sample of
        pages, at 64 prices.  Empty before the first decision.

        Parameters
        ----------
        tables
            Present tables of the shard; those of the last decision may be too small by now.
        """
        demand = self._budget_price.demand
        if not self._is_sweeping or demand is None:
            if not self._has_decided:
                return np.empty(0), np.empty(0)
            demand = self._sample_demand(tables, self.price or _PRICE_ANYWHERE)
        return demand.price, demand.spent

    def _sample_demand(self, tables: Tables, price: float) -> SampledDemand:
        return sample_demand(tables, self._terms, price, newcomers_after=self._newcomers_after)

    def _first_demand(self, tables: Tables, price: float) -> SampledDemand:
        """Return a curve of fewer pages, to begin with; the first sweep counts more of them."""
        return sample_demand(
            tables,
            self._terms,
            price,
            n_counted=_FIRST_PAGES_COUNTED,
            newcomers_after=self._newcomers_after,
        )

    def decide(
        self,
        tables: Tables,
        now_ms: int,
        n: int,
        *,
        exact: bool = False,
        keeps_budget: bool = False,
    ) -> Proposal:
        """Return at most ``n`` orders, best first.

        Parameters
        ----------
        tables
            State of the shard, which stays unchanged.
        now_ms
            Time in milliseconds since 1970.
        n
            Largest number of orders.
        exact
            Whether to look at every page, whatever the settings say, as batches need.
        keeps_budget
            Whether copies that are almost certainly fresh wait although budget is left, because
            it can be spent later.
        """
        self._has_decided = True
        self._now_ms = max(now_ms, self._now_ms)
        self._fit(tables)
        registers = tables.registers
        self._is_fixed = int(registers.price_mode[0]) == _FIXED
        self._fixed_price = float(registers.fixed_price[0])
        self._is_sweeping = not is_scanned(registers, self._settings)
        self._keeps_budget = keeps_budget
        self._log2_fall = 0.0
        if keeps_budget and not self._is_sweeping:
            self._find_curve_price(tables, now_ms / 1000.0)
            self._log2_fall = log2_price_fall(registers, now_ms)
        self._newcomers_after = self._newcomers.limited_after(tables, now_ms)
        moment = None
        if self._is_sweeping:
            moment = self._advance(tables, now_ms, n)
            self._revalue_waiting(tables, moment, n)
        by_cost = int(registers.budget_unit[0]) == _IN_COST
        credit = credit_at(registers, now_ms) if by_cost else math.inf
        if by_cost:
            n = math.ceil(min(_COST_ROOM * max(credit, 0.0) / self._mean_cost, float(n)))
        wanted = np.empty(max(n, 0), np.uint8)
        settings = self._settings
        first_order = int(registers.next_order[0])
        write_purposes(first_order, settings.audit_share, settings.discovery_share, wanted)
        slot, reason = self._orders(tables, now_ms, wanted, None if exact else moment)
        _end_decision(self._market, slot)
        if by_cost:
            n_kept = self._n_affordable(tables, slot, credit)
            if moment is not None:
                self._sweep.queue_pages(tables, moment, slot[n_kept:])
            slot, reason = slot[:n_kept], reason[:n_kept]
        return Proposal(slot, reason)

    def decide_given(
        self, tables: Tables, now_ms: int, slots: NDArray[np.int64], credit: float, n_max: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the given pages that may be ordered now, and the reason of every given page.

        Parameters
        ----------
        tables
            State of the shard, which stays unchanged.
        now_ms
            Time in milliseconds since 1970.
        slots
            Slots of the pages, -1 for none; judged in this order.
        credit
            Fetches or cost that may be spent.
        n_max
            Largest number of orders.

        Returns
        -------
        ordered
            Slots of the pages to order.
        why
            Reason of each given page, its position in ``tuple(Why)``.
        """
        self._has_decided = True
        self._now_ms = max(now_ms, self._now_ms)
        self._fit(tables)
        registers = tables.registers
        self._is_fixed = int(registers.price_mode[0]) == _FIXED
        self._fixed_price = float(registers.fixed_price[0])
        self._find_curve_price(tables, now_ms / 1000.0)
        scans = is_scanned(registers, self._settings)
        self._log2_fall = log2_price_fall(registers, now_ms) if scans else 0.0
        self._make_rows(int(np.unique(tables.pages.group[slots[slots >= 0]]).size))
        why = np.empty(slots.size, np.uint8)
        in_cost = int(registers.budget_unit[0]) == _IN_COST
        order_given_pages(
            tables.pages,
            tables.groups,
            tables.limits,
            self._terms,
            self._market,
            Allowed(
                now_ms=now_ms,
                log2_price=self._log2_price(),
                credit=float(credit),
                credit_min=1e-9 if in_cost else 1.0 - 1e-6,
                in_cost=in_cost,
                n_max=n_max,
                only_stale=self._early(tables) == Early.STALE and not has_price(registers),
            ),
            slots,
            why,
        )
        ordered = slots[why == 0]
        _end_decision(self._market, ordered)
        return ordered, why

    def _find_curve_price(self, tables: Tables, now: float) -> None:
        """Compute the price from the demand curve, unless the sweep has found one."""
        if self._is_fixed:
            return
        scans = is_scanned(tables.registers, self._settings)
        if not has_price(tables.registers):
            if scans:
                self._budget_price = BudgetPrice()
            return
        is_own = scans or self.price in (0.0, self._curve_price)
        if not is_own or 0.0 <= now - self._curve_price_at < _CURVE_PRICE_SECONDS:
            return
        self._curve_price_at = now
        price = self.price or _PRICE_ANYWHERE
        for _ in range(2):  # the first curve may not reach far enough
            demand = sample_demand(tables, self._terms, price, n_counted=_CURVE_PAGES_COUNTED)
            price = demand.price_for(float(tables.registers.budget[0]))
        self._budget_price.set_price(price)
        self._curve_price = self.price

    def put_back(self, tables: Tables, slots: NDArray[np.int64]) -> None:
        """Let pages wait again that were chosen, but are not ordered after all."""
        if slots.size:
            self.touch(tables, slots)
            self.wake(tables, tables.pages.group[slots])

    def touch(self, tables: Tables, slots: NDArray[np.int64]) -> None:
        """Look at pages that an event changed: they may be due before the next sweep."""
        self._fit(tables)
        slots = np.ascontiguousarray(slots, np.int64)
        if self._settings.discovery_share > 0.0:
            self._new_pages.offer(tables, self._now(tables), slots)
        if self._is_sweeping and not self._sweep.queue_few(slots):
            self._sweep.queue_pages(tables, self._moment(tables, self._now(tables)), slots)

    def wake(self, tables: Tables, groups: NDArray[np.integer[Any]]) -> None:
        """Update groups that may be ordered from earlier than before."""
        self._fit(tables)
        rows = groups.astype(np.int64)
        _wake_groups(self._market, tables.groups, rows, rows.size, self._now(tables))

    def _now(self, tables: Tables) -> int:
        return max(self._now_ms, int(tables.registers.now[0]))

    def _fit(self, tables: Tables) -> None:
        self._sweep.market = fit_market(
            self._market, tables.pages.word.size, tables.groups.ready_at.size
        )

    def _n_affordable(self, tables: Tables, slot: NDArray[np.int64], credit: float) -> int:
        """Return the number of orders that the credit pays for, the last one perhaps in part."""
        cost = np.exp2(tables.pages.cost[slot] / _COST_CODES_PER_OCTAVE - _COST_OCTAVES)
        if slot.size:
            self._mean_cost += _SMOOTHING * (float(cost.mean()) - self._mean_cost)
        return int((np.cumsum(cost) - cost < credit).sum())

    def _moment(self, tables: Tables, now_ms: int) -> Moment:
        after = self._newcomers.limited_after(tables, now_ms)
        return self._sweep.moment(tables, now_ms, self._log2_price(), after)

    def _log2_price(self) -> float:
        if not self.price > 0.0:
            return -1e3
        return math.log2(self.price) - (0.0 if self._is_fixed else self._log2_fall)

    def _early(self, tables: Tables) -> Early:
        return early_rule(tables.registers, self._settings)

    # ---- the rolling sweep

    def _planned_sweep_seconds(self, tables: Tables) -> float:
        if self._settings.sweep_seconds is not None:
            return max(self._settings.sweep_seconds, 1.0)
        rate = float(tables.registers.budget[0]) / self._mean_cost
        demand = self._budget_price.demand
        if self._is_fixed and demand is not None:
            rate = demand.spending_at(max(self.price, 1e-30))
        seconds = SWEEP_SHARE * float(tables.registers.n_pages[0]) / max(rate, 1e-9)
        return min(max(seconds, SWEEP_SECONDS_MIN), SWEEP_SECONDS_MAX)

    def _advance(self, tables: Tables, now_ms: int, n_orders: int) -> Moment:
        """Move price, sweep and wheel to a moment."""
        budget = float(tables.registers.budget[0])
        price = self._budget_price
        if price.demand is None or (not self._is_fixed and budget > 0.0 and self.price == 0.0):
            guess = self.price or _PRICE_ANYWHERE
            if not self._is_fixed and budget > 0.0 and self.price == 0.0:
                # A second curve around the price found: the first may not reach that far.
                guess = self._first_demand(tables, guess).price_for(budget)
            price.update_demand(self._first_demand(tables, guess), budget)
        now = now_ms / 1000.0
        # The first sweep finds pages long due; the price must not follow that backlog.
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
        moment = self._moment(tables, now_ms)
        self._sweep.set_sweep_seconds(moment.now, self._planned_sweep_seconds(tables))
        if self._settings.discovery_share > 0.0:
            self._look_for_new(tables, now_ms)
        moment = moment._replace(sweep_seconds=self._sweep.sweep_seconds)
        counted = self._sweep.advance(tables, moment, n_orders)
        if counted is not None:
            price.update_demand(counted, budget)
        return moment

    def _revalue_waiting(self, tables: Tables, moment: Moment, n_orders: int) -> None:
        """Revalue the waiting pages of some groups, so that all have their turn.

        Most pages come in when they are just worth the price.  Ordered by their worth at that time,
        they would be served first come, first served.
        """
        self._n_to_revalue += max(_REVALUED_MIN, _REVALUED_PER_ORDER * n_orders)
        # A large group has its turn once enough has been saved for it.
        self._n_to_revalue = self._sweep.revalue(tables, moment, self._n_to_revalue)

    def _look_for_new(self, tables: Tables, now_ms: int) -> None:
        """Scan the slots that the sweep has passed since the last call for new pages."""
        end = self._sweep.cursor
        if end < self._looked_to:
            self._new_pages.scan_slots(
                tables, now_ms, self._looked_to, int(tables.registers.n_slots[0])
            )
            self._looked_to = 0
        self._new_pages.scan_slots(tables, now_ms, self._looked_to, end)
        self._looked_to = end

    # ---- orders

    def _orders(
        self, tables: Tables, now_ms: int, wanted: NDArray[np.uint8], moment: Moment | None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return orders by purpose; one that finds no page of its purpose is ordered by value."""
        if self._is_fixed and moment is not None:
            # Shares count only pages that are due.
            share = self._settings.audit_share + self._settings.discovery_share
            n_due = int(self._market.gauge[M_SIZE]) + 1
            wanted = wanted[: math.ceil(n_due / max(1.0 - share, 0.01))]
        slot = np.full(wanted.size, -1, np.int64)
        reason = wanted.copy()
        is_audit = self._order_waiting_audits(tables, now_ms, wanted, slot, reason)
        at = np.flatnonzero((wanted == _DISCOVERY) & (slot < 0))
        if at.size:
            found = self._discovery_orders(tables, now_ms, at.size, moment is None)
            slot[at[: found.size]] = found
        at = np.flatnonzero((slot < 0) & ~is_audit)
        found, why = self._orders_with_newcomers(tables, now_ms, at.size, moment)
        slot[at[: found.size]] = found
        reason[at[: found.size]] = why
        n_kept = wanted.size
        if found.size < at.size:
            # No more pages reach the price, so later orders for audit or discovery are dropped;
            # but not all of them, as they may have taken the hosts that others would need.
            others = np.flatnonzero(slot >= 0)
            n_kept = max(int(at[found.size]), int(others[0]) + 1 if others.size else 0)
            unmark_ordered(self._market, slot[n_kept:][slot[n_kept:] >= 0])
        slot, reason = slot[:n_kept], reason[:n_kept]
        self._order_audits(tables, now_ms, np.flatnonzero(is_audit[:n_kept]), slot, reason)
        at = np.flatnonzero(is_audit[:n_kept] & (slot < 0))
        if at.size and n_kept == wanted.size:
            found, why = self._orders_with_newcomers(tables, now_ms, at.size, moment)
            slot[at[: found.size]], reason[at[: found.size]] = found, why
        is_had = slot >= 0
        return slot[is_had], reason[is_had]

    def _order_waiting_audits(
        self,
        tables: Tables,
        now_ms: int,
        wanted: NDArray[np.uint8],
        slot: NDArray[np.int64],
        reason: NDArray[np.uint8],
    ) -> FlagArray:
        """Order audits that waited for their hosts; return which orders are to be new audits."""
        is_audit: FlagArray = wanted == _AUDIT
        if len(self._audits):
            places = np.flatnonzero(~is_audit)
            self._make_rows(min(len(self._audits), places.size))
            ready = self._audits.order_waiting(tables, self._market, now_ms, places.size)
            slot[places[: ready.size]], reason[places[: ready.size]] = ready, _AUDIT
        return is_audit

    def _order_audits(
        self,
        tables: Tables,
        now_ms: int,
        at: NDArray[np.int64],
        slot: NDArray[np.int64],
        reason: NDArray[np.uint8],
    ) -> None:
        """Write the orders of new audits, after those of other pages.

        A chosen page that this decision orders anyway is audited by that order.
        """
        for i in at.tolist():
            self._make_rows(1)
            order = int(tables.registers.next_order[0]) + i
            chosen = self._audits.choose(tables, order, now_ms)
            if chosen < 0:
                continue
            is_ordered = slot == chosen
            if is_ordered.any():
                reason[is_ordered] = _AUDIT
            elif self._audits.order(tables, self._market, now_ms, chosen):
                slot[i] = chosen

    def _make_rows(self, n: int) -> None:
        while _n_free_rows(self._market, n) < n:
            self._sweep.market = grow_rows(self._market)

    def _discovery_orders(
        self, tables: Tables, now_ms: int, n: int, by_scan: bool
    ) -> NDArray[np.int64]:
        if by_scan:
            ranked, self._sweep.market = order_exactly(
                tables, self._terms, self._market, now_ms, n, only_new=True
            )
            return ranked.slot
        self._make_rows(n)
        return self._new_pages.order(tables, self._market, now_ms, n)

    def _orders_with_newcomers(
        self, tables: Tables, now_ms: int, n: int, moment: Moment | None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return newcomers within their shares, then other pages, then more newcomers if need be.

        Newcomers beyond their shares come only in place of copies that are almost certainly fresh,
        or if there are no other pages to order.
        """
        if self._newcomers_after == NO_NEWCOMERS or n == 0:
            return self._keep_budget(tables, now_ms, *self._value_orders(tables, now_ms, n, moment))
        least = self._log2_price() if self.price > 0.0 else -math.inf
        if not self._is_fixed:
            least -= _NEWCOMER_OCTAVES
        self._make_rows(n)
        within = self._newcomers.order(
            tables,
            self._market,
            now_ms,
            self._newcomers.n_allowed(tables, n),
            log2_least=least,
            n_deciding=n,
        )
        n_left = n - within.size
        slot, why = self._value_orders(tables, now_ms, n_left, moment)
        may_wait = are_fresh(tables, slot, now_ms) & (why != _CEILING)
        n_missing = n_left - slot.size
        self._make_rows(n_missing + int(may_wait.sum()))
        beyond = self._newcomers.order(
            tables,
            self._market,
            now_ms,
            n_missing + int(may_wait.sum()),
            log2_least=least,
            n_deciding=n,
            is_free=True,
        )
        if beyond.size > n_missing:
            waiting = np.flatnonzero(may_wait)[n_missing - beyond.size :]
            unmark_ordered(self._market, slot[waiting])
            if moment is not None:
                self._sweep.queue_pages(tables, moment, slot[waiting])
            slot, why = np.delete(slot, waiting), np.delete(why, waiting)
        slot, why = self._keep_budget(tables, now_ms, slot, why)
        reasons = [np.full(within.size, _VALUE, np.uint8), why]
        reasons.append(np.full(beyond.size, _SPARE, np.uint8))
        return np.concatenate([within, slot, beyond]), np.concatenate(reasons)

    def _keep_budget(
        self, tables: Tables, now_ms: int, slot: NDArray[np.int64], why: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Leave out copies that are almost certainly fresh, unless the kept budget is full."""
        registers = tables.registers
        if not self._keeps_budget or self._early(tables) != Early.STALE:
            return slot, why
        may_wait = are_fresh(tables, slot, now_ms)
        may_wait &= why == _SPARE if has_price(registers) else why != _CEILING
        if has_price(registers):
            most = float(registers.credit_max[0])
            lost = credit_at(registers, now_ms) - most + max(_FULL_SHARE * most, 1.0)
            n_free = max(int(lost / self._mean_cost + 1e-6), 0)
            may_wait[np.flatnonzero(may_wait)[:n_free]] = False
        unmark_ordered(self._market, slot[may_wait])
        return slot[~may_wait], why[~may_wait]

    def _value_orders(
        self, tables: Tables, now_ms: int, n: int, moment: Moment | None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        if moment is None:
            ranked = self._scan(tables, now_ms, n)
            why = np.where(ranked.log2_worth >= CEILING_BONUS / 2, _CEILING, _VALUE)
            if self._keeps_budget and not self._is_sweeping:
                why[ranked.log2_worth < self._log2_price()] = _SPARE
            self._update_marginal(ranked, n)
            return ranked.slot, why.astype(np.uint8)
        slot, reason = np.empty(n, np.int64), np.empty(n, np.uint8)
        # The most valuable page not yet due is better than the one due next.
        restocks = not self._is_fixed and self._may_restock(tables, moment)
        n_found = self._sweep.order(
            tables, moment, slot, reason, only_due=self._is_fixed, pulls_ahead=not restocks
        )
        if n_found < n and restocks:
            n_found += self._restock(tables, moment, slot[n_found:], reason[n_found:])
        self._budget_price.count_spare_orders(int((reason[:n_found] == _SPARE).sum()))
        return slot[:n_found], reason[:n_found]

    def _restock_wait(self, tables: Tables) -> float:
        """Return the seconds between two scans of all pages, so that they cost next to nothing."""
        return float(tables.registers.n_slots[0]) / _RESTOCKED_PER_SECOND

    def _may_restock(self, tables: Tables, moment: Moment) -> bool:
        is_time = moment.now >= self._restocked_at + self._restock_wait(tables)
        return is_time and self._sweep.n_passes > 0

    def _restock(
        self, tables: Tables, moment: Moment, slot: NDArray[np.int64], reason: NDArray[np.uint8]
    ) -> int:
        """Order the best pages not yet due, by a scan; adjust the price if it is too high."""
        self._restocked_at = moment.now
        rate = float(tables.registers.budget[0]) / self._mean_cost
        wait = max(self._restock_wait(tables), SWEEP_SECONDS_MIN)
        n_ahead = math.ceil(min(rate * wait, float(_RESTOCK_MAX)))
        ranked = self._scan(tables, moment.now_ms, slot.size + n_ahead)
        unmark_ordered(self._market, ranked.slot[slot.size :])
        n = min(ranked.slot.size, slot.size)
        worth = ranked.log2_worth[:n]
        slot[:n] = ranked.slot[:n]
        reason[:n] = _SPARE
        reason[:n][worth >= moment.log2_price] = _VALUE
        reason[:n][worth >= CEILING_BONUS / 2] = _CEILING
        if n == slot.size and n > 0 and ranked.log2_worth[-1] < moment.log2_price:
            # So many pages below the price were needed: the price is far too high.
            self._budget_price.set_price(math.exp2(float(ranked.log2_worth[-1])))
            self._sweep.restart()
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
            newcomers_after=self._newcomers_after,
        )
        return ranked

    def _update_marginal(self, ranked: Ranked, n: int) -> None:
        worth = ranked.log2_worth[ranked.log2_worth < CEILING_BONUS / 2]
        if worth.size == 0:
            return
        self._log2_marginal = float(worth[-1])
        if self._is_fixed or self._is_sweeping or ranked.slot.size < n or self._keeps_budget:
            return
        price = self._budget_price.price
        marginal = math.exp2(self._log2_marginal)
        if price > 0.0:
            marginal = price * (marginal / price) ** _SMOOTHING
        self._budget_price.set_price(marginal)
