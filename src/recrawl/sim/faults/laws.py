"""Invariants of a shard that must hold under all faults, checked after every batch of its log.

`Laws` computes budget, politeness and leases independently, from the events alone, and compares the
shard's counters with its tables.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recrawl.shard import events
from recrawl.shard.events import Event
from recrawl.shard.shard import Applied, Shard
from recrawl.shard.state.status import LeaseStage, PageStatus, Verdict
from recrawl.shard.state.tables import GROUP_CLOSED

__all__ = ["BrokenLawError", "Laws"]

_EPOCH_EVENTS = (
    events.Ordered,
    events.LeasesExpired,
    events.Ticked,
    events.PriorsSet,
    events.QuotaSet,
    events.GroupsSplit,
    events.GroupsBlocked,
    events.WindowsGranted,
    events.WindowsSet,
    events.Closed,
)
_SLACK = 1e-6


class BrokenLawError(AssertionError):
    """Raised when an invariant of the shard is violated."""


@dataclass(slots=True)
class _GroupBook:
    """Politeness settings of a group and its fetches, as computed from events.

    Groups with several fetches at a time have a token bucket: a delay earns one token, up to
    ``burst``.
    """

    delay_ms: int
    in_flight_max: int
    burst: int
    in_flight: int = 0
    ended_at: int = -(1 << 62)
    """When the last fetch ended."""
    tokens_at: int = 0
    tokens: float = 0.0


class Laws:
    """Applies a log to a shard of its own and raises at the first violated invariant.

    Parameters
    ----------
    shard
        New shard to apply the log to.
    """

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.handed_out: set[int] = set()
        """Orders given to fetchers."""
        self.orders: dict[int, int] = {}
        """Page of each valid order."""
        self.n_rows = 0
        self.n_batches = 0
        # Group of each order in flight.
        self._in_flight: dict[int, int] = {}
        self._order_of_page: dict[int, int] = {}
        self._refunded: set[int] = set()
        self._groups: dict[int, _GroupBook] = {}
        self._rate = self._credit = self._credit_max = np.inf
        self._credited_at = 0

    def follow(self, event: Event) -> Applied:
        """Apply a batch and check all invariants."""
        before = self._state_before_old_epoch(event)
        ended = self._ended_leases(event)
        groups_before = self.shard.tables.groups
        is_closed = (groups_before.flags & GROUP_CLOSED) > 0
        blocked_until = groups_before.blocked_until.copy()
        applied = self.shard.apply(event)
        self.n_rows += applied.valid.size
        self.n_batches += 1
        if before is not None and before != self._state():
            raise self._violation("an event of an old epoch changed something")
        match event:
            case events.Ordered():
                self._check_orders(event, applied, is_closed, blocked_until)
            case events.Outcomes():
                self._record_ends(ended)
                self._refund(event, applied)
            case events.LeasesReleased() | events.LeasesExpired():
                self._record_ends(ended)
            case events.BudgetSet():
                self._set_budget(event)
            case events.GroupsSet():
                self._set_groups(event, applied)
        self._check_counters()
        if isinstance(event, events.PagesAdded | events.PagesRemoved):
            self._check_slots()
        return applied

    def hand_out(self, order: int, page: int) -> None:
        """Check that an order given to a fetcher is logged, and given out for the first time."""
        if self.orders.get(order) != page:
            raise self._violation(f"order {order} was handed out but is not in the log")
        if order in self.handed_out:
            raise self._violation(f"order {order} was handed out twice")
        self.handed_out.add(order)

    def _violation(self, what: str) -> BrokenLawError:
        return BrokenLawError(f"batch {self.n_batches}: {what}")

    # ---------------------------------------------------------------- old epochs

    def _state(self) -> tuple[str, int]:
        """Return the digest of the shard without its count of void rows, and its time."""
        n_void = self.shard.tables.registers.n_void
        n_before = int(n_void[0])
        n_void[0] = 0
        digest = self.shard.digest()
        n_void[0] = n_before
        return digest, self.shard.now_ms

    def _state_before_old_epoch(self, event: Event) -> tuple[str, int] | None:
        """Return the state before a batch whose epochs are all old, and which must not change it.

        Return None for any other batch.
        """
        if not isinstance(event, _EPOCH_EVENTS) or (event.epoch == self.shard.epoch).any():
            return None
        return self._state()

    # ---------------------------------------------------------------- orders

    def _check_orders(
        self,
        event: events.Ordered,
        applied: Applied,
        is_closed: NDArray[np.bool_],
        blocked_until: NDArray[np.int64],
    ) -> None:
        now, pages = self.shard.now_ms, self.shard.tables.pages
        for row in np.flatnonzero(applied.valid):
            page, order = int(event.page[row]), int(event.order[row])
            slot = page & 0xFFFFFFFF
            if page in self._order_of_page:
                raise self._violation(f"page {page} is in flight twice")
            self.orders[order] = page
            self._order_of_page[page] = order
            group = int(pages.group[slot])
            self._in_flight[order] = group
            self._spend(slot)
            if is_closed[group] or blocked_until[group] > now:
                raise self._violation(f"group {group} is closed or blocked")
            self._check_politeness(group, now)

    def _earn(self) -> None:
        now = self.shard.now_ms
        if now > self._credited_at and np.isfinite(self._credit_max):
            earned = self._rate * (now - self._credited_at) / 1000
            self._credit = min(self._credit + earned, self._credit_max)
        self._credited_at = now

    def _is_by_cost(self) -> bool:
        return bool(self.shard.tables.registers.budget_unit[0] == 1)

    def _charge(self, slot: int) -> float:
        """Return what an order of a page costs."""
        code = self.shard.tables.pages.cost[slot]
        return float(np.exp2(code / 1024 - 32)) if self._is_by_cost() else 1.0

    def _refund(self, event: events.Outcomes, applied: Applied) -> None:
        """Give back what orders of pages took that robots.txt forbids, once for each order."""
        is_forbidden = (event.verdict == Verdict.DISALLOWED) & (event.order > 0)
        for row in np.flatnonzero(applied.valid & is_forbidden):
            order = int(event.order[row])
            if order in self._refunded:
                raise self._violation(f"order {order} was given back twice")
            self._refunded.add(order)
            self._earn()
            charge = self._charge(int(event.page[row]) & 0xFFFFFFFF)
            self._credit = min(self._credit + charge, self._credit_max)

    def _spend(self, slot: int) -> None:
        amount, is_by_cost = self._charge(slot), self._is_by_cost()
        self._earn()
        # With a budget in cost, the last order may exceed what is left.
        if (self._credit if is_by_cost else self._credit - amount) < -_SLACK:
            raise self._violation(f"the budget is overspent by {amount - self._credit}")
        self._credit -= amount

    def _set_budget(self, event: events.BudgetSet) -> None:
        self._earn()
        amount, period = float(event.amount[-1]), float(event.period_seconds[-1])
        self._rate = amount / period if period > 0 else 0.0
        most = max(self._rate * float(event.burst_seconds[-1]), 1.0) if period > 0 else amount
        self._credit = min(self._credit, most) if period > 0 else amount
        self._credit_max = most

    # ---------------------------------------------------------------- politeness

    def _book(self, group: int) -> _GroupBook:
        if group not in self._groups:
            own = self.shard.settings
            delay_ms = round(own.group_delay * 1000)
            self._groups[group] = _GroupBook(delay_ms, own.group_in_flight_max, own.group_burst)
        return self._groups[group]

    def _set_groups(self, event: events.GroupsSet, applied: Applied) -> None:
        for row in np.flatnonzero(applied.valid):
            book = self._book(int(event.group[row]))
            policy = int(event.delay_ms[row]), int(event.in_flight_max[row])
            burst = max(int(event.burst[row]), 1)
            if (book.delay_ms, book.in_flight_max, book.burst) != (*policy, burst):
                (book.delay_ms, book.in_flight_max), book.burst = policy, burst
                book.tokens, book.tokens_at = burst, self.shard.now_ms

    def _check_politeness(self, group: int, now: int) -> None:
        book = self._book(group)
        book.in_flight += 1
        if book.in_flight > book.in_flight_max:
            raise self._violation(f"group {group} has {book.in_flight} in flight")
        if book.in_flight_max == 1:
            if now < book.ended_at + book.delay_ms:
                raise self._violation(f"the delay of group {group} was not kept")
        elif book.delay_ms > 0:
            earned = (now - book.tokens_at) / book.delay_ms
            book.tokens = min(book.tokens + earned, book.burst) - 1
            book.tokens_at = now
            if book.tokens < -_SLACK:
                raise self._violation(f"group {group} was fetched too often")

    def _ended_leases(self, event: Event) -> list[int]:
        """Return the orders in flight that a batch may end."""
        if not isinstance(event, events.Outcomes | events.LeasesReleased | events.LeasesExpired):
            return []
        return [order for order in set(event.order.tolist()) if order in self._in_flight]

    def _record_ends(self, ended: list[int]) -> None:
        leases = self.shard.tables.leases
        mask = leases.stage.size - 1
        for order in ended:
            if leases.stage[order & mask] == LeaseStage.IN_FLIGHT:
                continue
            book = self._book(self._in_flight.pop(order))
            book.in_flight -= 1
            book.ended_at = self.shard.now_ms
            del self._order_of_page[self.orders[order]]

    # ---------------------------------------------------------------- counters

    def _check_counters(self) -> None:
        t = self.shard.tables
        registers = t.registers
        rows = np.flatnonzero(t.leases.stage == LeaseStage.IN_FLIGHT)
        if not rows.size == registers.in_flight[0] == len(self._in_flight):
            raise self._violation("orders in flight are miscounted")
        by_group = np.bincount(t.leases.group[rows], minlength=t.groups.in_flight.size)
        if not np.array_equal(by_group, t.groups.in_flight):
            raise self._violation("orders in flight are miscounted in a group")
        n_slots = int(registers.n_slots[0])
        status = t.pages.status[:n_slots]
        if np.count_nonzero(status) != registers.n_pages[0]:
            raise self._violation("pages are miscounted")
        if registers.n_pages[0] + registers.n_free[0] != n_slots:
            raise self._violation("a slot is lost")
        # Bit 31 of the word marks a held page.
        is_held = (t.pages.word[:n_slots] & np.uint64(0x80000000)) > 0
        expected = (status == PageStatus.FREE) | (status == PageStatus.RETIRED)
        page = t.leases.page[rows]
        slot = page & 0xFFFFFFFF
        is_live = (t.pages.generation[slot] == page >> 32) & (status[slot] != PageStatus.FREE)
        if np.unique(slot[is_live]).size != np.count_nonzero(is_live):
            raise self._violation("a page has two leases")
        expected[slot[is_live]] = True
        if not np.array_equal(is_held, expected):
            raise self._violation("a page is held without a lease, or not held despite its lease")

    def _check_slots(self) -> None:
        t = self.shard.tables
        free, seen = int(t.registers.free_slot[0]), set()
        while free > 0 and free not in seen:
            seen.add(free)
            if t.pages.status[free - 1] != PageStatus.FREE:
                raise self._violation(f"slot {free - 1} is in the free list but has a page")
            free = int(t.pages.word[free - 1]) & 0x7FFFFFFF
        if free > 0 or len(seen) != t.registers.n_free[0]:
            raise self._violation("the list of free slots is broken")
        live = np.flatnonzero(t.pages.status[: int(t.registers.n_slots[0])])
        by_group = np.bincount(t.pages.group[live], minlength=t.groups.n_pages.size)
        if not np.array_equal(by_group, t.groups.n_pages):
            raise self._violation("the pages of a group are miscounted")
