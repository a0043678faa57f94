"""The shard: the pages of one partition, changed by `apply` and read by `decide`."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray, FloatArray, are_all, repeat_value
from recrawl.core.price.due_table import DueCodes, DueTable, build_due_table
from recrawl.core.price.learning_rows import writable_copy, write_learning_rows
from recrawl.core.quick_calls import quick_call
from recrawl.errors import EventError
from recrawl.shard import events, growth
from recrawl.shard.apply import budget, leases, newcomers, outcomes, pages, signals, windows
from recrawl.shard.apply.clock_reset import move_times_back
from recrawl.shard.apply.kind_weights import propose_weights
from recrawl.shard.apply.ordering import apply_orders
from recrawl.shard.apply.priors import is_refit_due, propose_priors
from recrawl.shard.due import Terms
from recrawl.shard.early import Early, early_rule, has_price, is_scanned
from recrawl.shard.events import Event
from recrawl.shard.explain import Explanation, explanation_of
from recrawl.shard.picker import FEW_ORDERS_MAX, Picker, Reserve
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.rules import has_learning_horizon, learning_horizon, log2_bonus, rules_of
from recrawl.shard.state.snapshot import Snapshot, SnapshotRoom, restore_tables
from recrawl.shard.state.status import BudgetUnit, PageStatus, PriceMode, Reason
from recrawl.shard.state.tables import (
    GROUP_CLOSED,
    GROUP_HAS_POLICY,
    GROUP_SPLIT,
    GROUP_UNLIMITED,
    Tables,
)
from recrawl.shard.state.words import EPOCH_SECONDS

__all__ = ["Applied", "Shard", "default_due_table"]

_CODES = DueCodes()
# Number of slots rewritten at once, and of beliefs moved to a new prior with each tick.
_REBASED_AT_ONCE = 1 << 18
_REBASED_PER_TICK = 1 << 16
# Number of slots whose signals are weighed anew with each tick.
_REAGED_PER_TICK = 1 << 16
_EXPIRED_MAX = 1 << 16
# Epochs from here on are those of a shard whose log has ended; no owner counts that far.
_CLOSED_EPOCH = 1 << 62


@cache
def _shared_due_table() -> DueTable:
    return default_due_table()


def default_due_table() -> DueTable:
    """Build the due table of shards: 36 MB, which take seconds.

    A caller that stores the table can pass it to `Shard` instead.
    """
    return build_due_table(_CODES)


_WordEvent: TypeAlias = (
    events.ImportanceSet | events.CostsSet | events.KindsSet | events.LimitsSet | events.CurvesSet
)
_BudgetEvent: TypeAlias = (
    events.BudgetSet | events.RunBudgetSet | events.RunChosen | events.CreditSet | events.QuotaSet
)
_GroupEvent: TypeAlias = events.GroupsSet | events.DomainsSet | windows.WindowEvent
_PageEvent: TypeAlias = events.PagesRemoved | events.RequestsSeen | _WordEvent


class Applied(NamedTuple):
    """Result of applying a batch: which rows were valid, and the transitions of outcomes."""

    valid: FlagArray
    transition: NDArray[np.uint8]
    """`recrawl.shard.state.status.Transition` of each outcome; empty for other events."""

    @property
    def is_all_valid(self) -> bool:
        """Whether every row was valid."""
        return are_all(self.valid)


_NO_TRANSITION = np.zeros(0, np.uint8)
# Read once: before Python 3.12, reading a member of an enumeration takes as long as a small call.
_IN_FETCHES = int(BudgetUnit.FETCHES)
# What every lease and report calls, however few its rows.
_apply_outcomes = quick_call(outcomes.apply_outcomes)
_apply_orders = quick_call(apply_orders)
_forget_leases = quick_call(leases.forget_leases)
_overdue_leases = quick_call(leases.overdue_leases)
_extend_leases = quick_call(leases.extend_leases)
_release_leases = quick_call(leases.release_leases)
_expire_leases = quick_call(leases.expire_leases)


class Shard:
    """All pages of one partition, with what is known of each and when it is worth a fetch.

    State changes only in `apply`, which is a function of the state and the event: the same log
    gives the same bytes.  Time enters with events.  `decide` proposes and changes nothing; a
    proposal takes effect once it has been logged and applied.

    Parameters
    ----------
    settings
        Settings of the shard; a `SettingsSet` event changes them later.
    tables
        State from a snapshot; that of a new shard if not given.
    due_table
        Table that `default_due_table` returned, now or earlier; built if not given.
    copy_table
        Function that returns a copy of the table in which rows may be written.

    Examples
    --------
    Two pages, of which the more important one is ordered first:

    >>> import numpy as np
    >>> from recrawl.shard import Claimed, PagesAdded, Shard, ShardSettings, event_of
    >>> shard = Shard(ShardSettings(group_delay=0, group_in_flight_max=9))
    >>> now = 1_700_000_000_000
    >>> shard.apply(event_of(Claimed, owner=7, epoch=1, at_ms=now)).valid.all()
    np.True_
    >>> page = shard.free_pages(2)
    >>> new = event_of(
    ...     PagesAdded, page=page, group=0, kind=0, importance=[1, 9], cost=1, at_ms=now
    ... )
    >>> shard.apply(new).valid
    array([ True,  True])
    >>> orders = shard.decide(now, 1)
    >>> orders.page
    array([1])
    >>> shard.apply(orders).valid
    array([ True])
    """

    def __init__(
        self,
        settings: ShardSettings | None = None,
        *,
        tables: Tables | None = None,
        due_table: DueTable | None = None,
        copy_table: Callable[[DueTable], DueTable] = writable_copy,
    ) -> None:
        self._due_table = due_table or _shared_due_table()
        self._copy_table = copy_table
        self.settings = settings or ShardSettings()
        self.tables = tables or growth.empty_tables(self.settings)
        self._overdue_from = 0
        self._polls_learned = 0
        self._reserve = Reserve()
        self._snapshot: Snapshot | None = None
        self.split_groups = windows.find_split_groups(self.tables.groups)
        """Groups of which other partitions have pages, too."""
        self._apply_settings()
        self.picker.set_price(float(self.tables.registers.price[0]))

    def _apply_settings(self) -> None:
        """Derive rules, due terms and a new picker from the settings."""
        self.rules = rules_of(self.settings, _CODES)
        table = (
            self._copy_table(self._due_table)
            if has_learning_horizon(self.settings)
            else self._due_table
        )
        self.terms = Terms(table, log2_bonus(self.settings, _CODES))
        self._learning_horizon = 0.0
        self.picker = Picker(self.settings, self.terms)

    # ------------------------------------------------------------------ reading

    @property
    def now_ms(self) -> int:
        """Shard time: the owner's latest tick, in milliseconds since 1970."""
        return int(self.tables.registers.now[0])

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        return int(self.tables.registers.epoch[0])

    @property
    def is_closed(self) -> bool:
        """Whether the log has ended, because the pages have moved to other partitions."""
        return self.epoch >= _CLOSED_EPOCH

    @property
    def closed_for(self) -> tuple[int, int] | None:
        """Layout generation and number of partitions that the pages move to; None if open."""
        if not self.is_closed:
            return None
        moved_to = self.epoch - _CLOSED_EPOCH
        return moved_to >> 32, moved_to & 0xFFFFFFFF

    @property
    def n_pages(self) -> int:
        """Number of pages."""
        return int(self.tables.registers.n_pages[0])

    def has_pages(self, page: NDArray[np.int64]) -> FlagArray:
        """Return which pages are tracked: they exist, and have not been removed."""
        pages, n_slots = self.tables.pages, int(self.tables.registers.n_slots[0])
        slots = page & 0xFFFFFFFF
        is_there: FlagArray = (page >= 0) & (slots < n_slots)
        if n_slots:
            slots = np.where(is_there, slots, 0)
            is_there &= pages.status[slots] != PageStatus.FREE
            is_there &= pages.generation[slots] == page >> 32
        return is_there

    def free_pages(self, n: int) -> NDArray[np.int64]:
        """Return the page numbers that the next ``n`` added pages must have, in this order."""
        registers = self.tables.registers
        slots = np.empty(n, np.int64)
        free, found = int(registers.free_slot[0]), 0
        while free > 0 and found < n:
            slots[found] = free - 1
            free = int(self.tables.pages.word[free - 1] & np.uint64(0x7FFFFFFF))
            found += 1
        first = int(registers.n_slots[0])
        slots[found:] = np.arange(first, first + n - found)
        generation = np.zeros(n, np.int64)
        generation[:found] = self.tables.pages.generation[slots[:found]]
        numbers: NDArray[np.int64] = events.page_of(slots, generation)
        return numbers

    @property
    def memory_changes(self) -> float:
        """Learned number of a page's changes after which evidence about its rate counts half.

        Infinite if the estimator never forgets by changes.
        """
        if self.settings.estimator == "counts":
            return math.inf
        lost = float(self.tables.registers.memory_lost[0])
        return self.settings.memory_changes_max * math.exp2(-lost)

    def n_due_of(self, group: int, now_ms: int) -> int:
        """Return about how many pages of a group are due at the price."""
        price = max(self.price_at(now_ms), 1e-300)
        now = now_ms / 1000 - EPOCH_SECONDS
        t = self.tables
        n_slots = int(t.registers.n_slots[0])
        return int(
            windows.count_due(t.pages, t.limits, self.terms, n_slots, group, math.log2(price), now)
        )

    def credit(self, now_ms: int) -> float:
        """Return the fetches or cost that the budget allows to be spent now."""
        return budget.credit_at(self.tables.registers, now_ms)

    def run_spending(self, run: int) -> float:
        """Return the fetches or cost that a named run has spent; 0 for an unknown run."""
        return budget.run_spending(self.tables.registers, self.tables.runs, run)

    def price_at(self, now_ms: int) -> float:
        """Return the value that a fetch must reach; 0 if there is no price."""
        registers = self.tables.registers
        if registers.price_mode[0] == PriceMode.FIXED:
            return float(registers.fixed_price[0])
        if not has_price(registers):
            return 0.0
        scans = is_scanned(registers, self.settings)
        fall = budget.log2_price_fall(registers, now_ms) if scans else 0.0
        # The picker has a newer price than the latest tick; before its first decision it is the
        # same.
        return self.picker.price * math.exp2(-fall)

    @property
    def early(self) -> Early:
        """Which pages below the price leases return while budget is left."""
        return early_rule(self.tables.registers, self.settings)

    def explain(self, page: int, now_ms: int | None = None) -> Explanation | None:
        """Return what is known of a page and why it is or is not due; None for an unknown page."""
        slot = pages.page_slot_of(self.tables.pages, page, int(self.tables.registers.n_slots[0]))
        if slot < 0:
            return None
        at = self.now_ms if now_ms is None else now_ms
        self._refresh_due_table()
        return explanation_of(
            self.tables, self.rules, self.terms, slot, at, price=self.price_at(at), early=self.early
        )

    # ------------------------------------------------------------------ deciding

    def _refresh_due_table(self) -> None:
        """Update the due table to the learning horizon for the present number of polls."""
        if not has_learning_horizon(self.settings):
            return
        wanted = learning_horizon(int(self.tables.registers.n_polls[0]), self.n_pages)
        if wanted != self._learning_horizon:
            write_learning_rows(self.terms.table, wanted)
            self._learning_horizon = wanted

    def demand_curve(self) -> tuple[FloatArray, FloatArray]:
        """Return prices around the present one, and the spending per second at each.

        See `recrawl.shard.picker.picker.Picker.demand_curve`.
        """
        return self.picker.demand_curve(self.tables)

    def current_terms(self) -> Terms:
        """Return what turns words into due times, at the present learning horizon."""
        self._refresh_due_table()
        return self.terms

    def decide(
        self,
        now_ms: int,
        allowance: int | None = None,
        *,
        lease_seconds: float | None = None,
        exact: bool = False,
        keeps_budget: bool = False,
    ) -> events.Ordered:
        """Propose orders: the pages that are most worth fetching now, within the budget.

        Parameters
        ----------
        now_ms
            Time of the owner; at least the shard's own time.
        allowance
            Largest number of orders, whatever the budget allows.
        lease_seconds
            Seconds for which each order is held for its fetcher; by default from the settings.
        exact
            Whether to look at every page, whatever the settings say, as batches need.
        keeps_budget
            Whether copies that are almost certainly fresh wait although budget is left, because
            it can be spent later.  Otherwise the caller has decided how many pages to fetch now.
        """
        self._refresh_due_table()
        now_ms = max(now_ms, self.now_ms)
        registers = self.tables.registers
        most = self.settings.orders_max
        n = most if allowance is None else min(allowance, most)
        in_fetches = registers.budget_unit[0] == _IN_FETCHES
        n_paid = most
        if in_fetches:  # the picker handles one in cost
            n_paid = int(min(max(self.credit(now_ms) + 1e-6, 0), most))
            n = min(n, n_paid)
        if 0 < n <= FEW_ORDERS_MAX and not exact and in_fetches:
            slot, reason = self._reserve.decide(
                self.picker, self.tables, now_ms, n, n_paid=n_paid, keeps_budget=keeps_budget
            )
            if self.split_groups.size:
                # A window may have ended since the pages were chosen.
                group = self.tables.pages.group[slot]
                is_over = windows.are_over(self.tables.groups, group, now_ms)
                if is_over.any():
                    self._drop_reserve()
                    self.picker.put_back(self.tables, slot[is_over])
                    slot, reason = slot[~is_over], reason[~is_over]
        else:
            self._drop_reserve()
            slot, reason = self.picker.decide(
                self.tables, now_ms, n, exact=exact, keeps_budget=keeps_budget
            )
        return self._propose(now_ms, slot, reason, lease_seconds)

    def take_pages_ahead(self) -> NDArray[np.int64]:
        """Return the pages that a decision has chosen for later leases; each of them once."""
        slot = self._reserve.take_new()
        page: NDArray[np.int64] = events.page_of(slot, self.tables.pages.generation[slot])
        return page

    def _drop_reserve(self) -> None:
        self._reserve.drop(self.picker, self.tables)

    def _propose(
        self,
        now_ms: int,
        slot: NDArray[np.int64],
        reason: NDArray[np.uint8],
        lease_seconds: float | None,
    ) -> events.Ordered:
        """Return orders of slots with the next numbers."""
        registers = self.tables.registers
        length = self.settings.lease_seconds if lease_seconds is None else lease_seconds
        length = min(length, self.settings.lease_seconds_max)
        n, first = slot.size, int(registers.next_order[0])
        expires_at_ms = repeat_value(n, now_ms + round(length * 1000), np.int64)
        if self.split_groups.size:
            expires_at_ms = windows.cap_leases(
                self.tables.groups, self.tables.pages.group[slot], expires_at_ms
            )
        # Without `event_of`, which takes ten times as long for one order.
        return events.Ordered(
            epoch=repeat_value(n, self.epoch, np.int64),
            at_ms=repeat_value(n, now_ms, np.int64),
            order=np.arange(first, first + n),
            page=events.page_of(slot, self.tables.pages.generation[slot]),
            expires_at_ms=expires_at_ms,
            reason=np.ascontiguousarray(reason, np.uint8),
        )

    def decide_given(
        self, now_ms: int, page: NDArray[np.int64], *, lease_seconds: float | None = None
    ) -> tuple[events.Ordered, NDArray[np.uint8]]:
        """Propose orders of given pages, and return the reason of each.

        A page is ordered if it is due at the price, its group allows it, and the budget pays.

        Parameters
        ----------
        now_ms
            Time of the owner; at least the shard's own time.
        page
            Numbers of the pages, -1 for none; those first come first.
        lease_seconds
            Seconds for which each order is held for its fetcher; by default from the settings.

        Returns
        -------
        ordered
            Proposal, in the order of the pages.
        why
            Reason of each given page as its position in ``tuple(Why)``: 0 (`Why.DUE`) if it is in
            the proposal.
        """
        self._refresh_due_table()
        now_ms = max(now_ms, self.now_ms)
        registers = self.tables.registers
        slots = np.empty(page.size, np.int64)
        pages.find_slots(self.tables.pages, registers, page, slots)
        slot, why = self.picker.decide_given(
            self.tables, now_ms, slots, self.credit(now_ms), self.settings.orders_max
        )
        reason = np.full(slot.size, Reason.VALUE, np.uint8)
        return self._propose(now_ms, slot, reason, lease_seconds), why

    def overdue(self, now_ms: int) -> events.LeasesExpired:
        """Propose to end leases that have run out, at most 65,536 at a time."""
        found = np.empty(_EXPIRED_MAX, np.int64)
        n, self._overdue_from = _overdue_leases(
            self.tables.leases,
            self.tables.registers,
            max(now_ms, self.now_ms),
            self._overdue_from,
            found,
        )
        return events.event_of(
            events.LeasesExpired, epoch=self.epoch, at_ms=max(now_ms, self.now_ms), order=found[:n]
        )

    def tick(self, now_ms: int) -> events.Ticked:
        """Propose a tick, which moves time and records the price."""
        return events.event_of(
            events.Ticked, epoch=self.epoch, at_ms=now_ms, price=self.picker.price
        )

    def learn_priors(self) -> events.PriorsSet | None:
        """Propose priors learned from polls; None while there are too few new polls.

        There must be at least fifty, and a quarter more than at the last proposal.
        """
        registers = self.tables.registers
        n_polls = int(registers.n_polls[0])
        if not is_refit_due(n_polls, self._polls_learned):
            return None
        if registers.rebased_to[0] < registers.n_slots[0]:
            return None
        self._polls_learned = n_polls
        return propose_priors(self.tables, self.settings)

    def weigh_kinds(self, shares: Mapping[int, float], now_ms: int) -> events.KindsWeighted | None:
        """Propose weights at which kinds of pages spend given shares of the budget.

        None if they would hardly change.  See `recrawl.shard.apply.kind_weights.propose_weights`.

        Parameters
        ----------
        shares
            Share of the budget by kind, 0 to 1; the other kinds get the rest.
        now_ms
            Present time; pages and groups that must rest beyond it do not count.
        """
        self._refresh_due_table()
        now_ms = max(now_ms, self.now_ms)
        return propose_weights(self.tables, self.terms, self.settings.kinds_max, shares, now_ms)

    # ------------------------------------------------------------------ snapshots

    def snapshot(self, position: str, room: SnapshotRoom | None = None) -> Snapshot:
        """Begin a snapshot; the shard may apply events while its pieces are taken.

        Beginning another snapshot ends the one before.

        Parameters
        ----------
        position
            Position in the log.
        room
            Memory that `recrawl.shard.state.snapshot.reserve_room` returned, for this snapshot.
        """
        self._snapshot = Snapshot(self.tables, self.settings, position, room)
        return self._snapshot

    @classmethod
    def restore(
        cls,
        manifest: str,
        buffer: NDArray[np.uint8],
        *,
        check: bool | Literal["small"] = True,
        due_table: DueTable | None = None,
        copy_table: Callable[[DueTable], DueTable] = writable_copy,
    ) -> tuple[Self, str]:
        """Return the shard of a snapshot, and the log position to continue from.

        See `recrawl.shard.state.snapshot.restore_tables`.
        """
        tables, settings, position = restore_tables(manifest, buffer, check=check)
        shard = cls(settings, tables=tables, due_table=due_table, copy_table=copy_table)
        return shard, position

    def digest(self) -> str:
        """Return a checksum of the whole state; shards with equal logs have equal ones."""
        n_slots = int(self.tables.registers.n_slots[0])
        digest = hashlib.sha256()
        for name, table in zip(self.tables._fields, self.tables, strict=True):
            for column in cast("tuple[NDArray[Any], ...]", table):
                digest.update((column[:n_slots] if name == "pages" else column).tobytes())
        return digest.hexdigest()

    def _preserve_rows(self, slots: NDArray[np.int64]) -> None:
        """Let a snapshot in progress save the rows of pages that are about to change."""
        if self._snapshot is not None:
            if self._snapshot.is_done:
                self._snapshot = None
            else:
                self._snapshot.preserve_rows(self.tables.pages, slots)

    def _preserve_range(self, first: int, end: int) -> None:
        if self._snapshot is not None:
            self._preserve_rows(np.arange(first, end))

    # ------------------------------------------------------------------ applying

    def apply_all(self, batches: Iterable[Event]) -> list[Applied]:
        """Apply batches one after the other."""
        return [self.apply(batch) for batch in batches]

    def apply(self, event: Event) -> Applied:
        """Apply a batch of events, its rows in order."""
        event = events.freeze_columns(event)
        if not self._reserve.is_right_after(event):
            self._drop_reserve()
        valid = np.zeros(event[0].size, np.bool_)
        transition = _NO_TRANSITION
        if self.is_closed:
            return self._ignore(event)
        if self._snapshot is not None:
            self._preserve_rows(self._slots_of(event))
        match event:
            case events.Outcomes():
                transition = self._apply_outcomes(event, valid)
            case events.Signals():
                self._apply_signals(event, valid)
            case events.Ordered():
                self._apply_orders(event, valid)
            case events.Ticked():
                self._apply_tick(event, valid)
            case events.PagesAdded():
                self._add(event, valid)
            case events.LeasesExpired() | events.LeasesReleased() | events.LeasesExtended():
                self._end_leases(event, valid)
            case events.Claimed() | events.Closed() | events.ClockReset():
                self._change_owner(event, valid)
            case (
                events.BudgetSet()
                | events.RunBudgetSet()
                | events.RunChosen()
                | events.CreditSet()
                | events.QuotaSet()
            ):
                self._set_budget(event, valid)
            case (
                events.GroupsSet()
                | events.DomainsSet()
                | events.GroupsSplit()
                | events.GroupsBlocked()
                | events.WindowsGranted()
                | events.WindowsSet()
            ):
                self._set_group_columns(event, valid)
            case events.SourcesSet():
                self._set_sources(event, valid)
            case events.SettingsSet():
                self._set_settings(event, valid)
            case events.PriorsSet():
                self._set_priors(event, valid)
            case events.KindsWeighted():
                self._set_kind_weights(event, valid)
            case _:
                self._set_pages(event, valid)
        n_void = 0 if are_all(valid) else valid.size - int(np.count_nonzero(valid))
        self.tables.registers.n_void[0] += n_void
        return Applied(valid, transition)

    def _slots_of(self, event: Event) -> NDArray[np.int64]:
        """Return the slots that a batch names, by page or by order."""
        if "page" in event._fields:
            page: NDArray[np.int64] = event.page  # type: ignore[union-attr]
            return page & 0xFFFFFFFF
        if "order" in event._fields:
            order: NDArray[np.int64] = event.order  # type: ignore[union-attr]
            held = self.tables.leases.page
            slots: NDArray[np.int64] = held[order & (held.size - 1)] & 0xFFFFFFFF
            return slots
        return np.zeros(0, np.int64)

    def _touch(self, page: NDArray[np.int64], valid: FlagArray) -> None:
        slots = page[valid] & 0xFFFFFFFF
        self.picker.touch(self.tables, slots)

    def _move_time(self, at_ms: int) -> None:
        """Advance time to ``at_ms``, and earn credit for it."""
        registers = self.tables.registers
        if at_ms <= registers.now[0]:
            return
        if registers.credited_at[0] > 0:
            registers.credit[0] = self.credit(at_ms)
        registers.credited_at[0] = registers.now[0] = at_ms

    def _advance_to_latest(self, event: events.Ordered | events.LeasesExpired) -> None:
        """Advance time to the owner's latest decision in a batch."""
        if event.epoch.size == 1:
            if event.epoch[0] == self.epoch:
                self._move_time(int(event.at_ms[0]))
            return
        self._move_time(int(event.at_ms[event.epoch == self.epoch].max(initial=0)))

    def _apply_outcomes(self, event: events.Outcomes, valid: FlagArray) -> NDArray[np.uint8]:
        t = self.tables
        transition = repeat_value(valid.size, outcomes.VOID, np.uint8)
        _apply_outcomes(
            t.pages,
            t.links,
            t.sources,
            t.groups,
            t.leases,
            t.priors,
            t.registers,
            self.rules,
            event,
            transition,
        )
        np.not_equal(transition, outcomes.VOID, out=valid)
        slots = event.page & 0xFFFFFFFF
        if are_all(valid):
            self.picker.touch(t, slots)
        else:
            transition[~valid] = 0
            self._touch(event.page, valid)
            slots = slots[(event.page >= 0) & (slots < t.registers.n_slots[0])]
        # The group of a page removed while in flight is known only from its lease.
        rows = event.order[event.order > 0] & (t.leases.page.size - 1)
        self.picker.wake(t, np.concatenate([t.pages.group[slots], t.leases.group[rows]]))
        return transition

    def _apply_signals(self, event: events.Signals, valid: FlagArray) -> None:
        heard = event.source < self.settings.sources_max
        if not heard.all():
            # Rows whose source number is too large are void; the others count.
            kept = events.freeze_columns(events.select_rows(event, heard))
            part = np.zeros(kept.page.size, np.bool_)
            self._apply_signals(kept, part)
            valid[heard] = part
            return
        self.tables = growth.with_sources(self.tables, int(event.source.max(initial=0)) + 1)
        self.tables = growth.with_links(self.tables, event.page.size)
        t = self.tables
        signals.apply_signals(
            t.pages, t.links, t.sources, t.priors, t.registers, self.rules, event, valid
        )
        self._touch(event.page, valid)

    def _apply_orders(self, event: events.Ordered, valid: FlagArray) -> None:
        if self.epoch not in event.epoch:
            return
        self._advance_to_latest(event)
        n = event.page.size
        if not growth.has_room_for_leases(self.tables, n):
            # There may be room without a larger ring.
            _forget_leases(self.tables.leases, self.tables.registers, self._grace_ms)
            self.tables = growth.with_leases(self.tables, n)
        t = self.tables
        rules = self.rules
        if t.registers.newcomers_until[0] > 0:
            shares = newcomers.shares_in_effect(
                t.groups, t.registers, rules.new_pages_share, rules.new_domain_share
            )
            rules = rules._replace(new_pages_share=shares[0], new_domain_share=shares[1])
        _apply_orders(t.pages, t.groups, t.leases, t.registers, rules, self._grace_ms, event, valid)

    @property
    def _grace_ms(self) -> int:
        return round(self.settings.lease_grace_seconds * 1000)

    def _apply_tick(self, event: events.Ticked, valid: FlagArray) -> None:
        registers = self.tables.registers
        for i in range(valid.size):
            if event.epoch[i] == registers.epoch[0]:
                self._move_time(int(event.at_ms[i]))
                registers.price[0] = event.price[i]
                valid[i] = True
        if valid.any():
            _forget_leases(self.tables.leases, registers, self._grace_ms)
            if registers.rebased_to[0] < registers.n_slots[0]:
                self._rebase(_REBASED_PER_TICK)
            if registers.n_to_reage[0] > 0:
                self._reage()

    def _add(self, event: events.PagesAdded, valid: FlagArray) -> None:
        if event.page.size == 0:
            return
        fits = (event.group < self.settings.groups_max) & (event.kind < self.settings.kinds_max)
        if not fits.all():
            # Slots must be consecutive, so all rows after a void one are void, too.
            n = int(np.argmin(fits))
            part = np.zeros(n, np.bool_)
            self._add(events.select_rows(event, slice(n)), part)
            valid[:n] = part
            return
        n_slots = int(self.tables.registers.n_slots[0]) + event.page.size
        self.tables = growth.with_pages(self.tables, n_slots)
        self.tables = growth.with_groups(self.tables, int(event.group.max()) + 1, self.settings)
        self.tables = growth.with_kinds(self.tables, int(event.kind.max()) + 1)
        t = self.tables
        horizon = float(self.settings.discovery_horizon)
        newness = np.array(
            [
                pages.newness_of(shape, seconds, horizon)
                for shape, seconds in zip(t.priors.shape, t.priors.seconds, strict=True)
            ]
        )
        pages.add_pages(
            t.pages,
            t.groups,
            t.links,
            t.sources,
            t.priors,
            t.registers,
            self.rules,
            newness,
            event,
            valid,
        )
        newcomers.count_added(t.pages, t.groups, t.registers, self.rules, event, valid)
        self._touch(event.page, valid)

    def _end_leases(
        self,
        event: events.LeasesExpired | events.LeasesReleased | events.LeasesExtended,
        valid: FlagArray,
    ) -> None:
        t = self.tables
        slots = np.full(valid.size, -1, np.int64)
        if isinstance(event, events.LeasesExtended):
            longest = round(self.settings.lease_seconds_max * 1000)
            _extend_leases(t.groups, t.leases, t.registers, longest, event, valid)
            return
        if isinstance(event, events.LeasesReleased):
            _release_leases(t.pages, t.groups, t.leases, t.registers, event, slots, valid)
        else:
            self._advance_to_latest(event)
            _expire_leases(t.pages, t.groups, t.leases, t.registers, event, slots, valid)
        rows = event.order[valid] & (t.leases.page.size - 1)
        self.picker.wake(t, t.leases.group[rows])
        self.picker.touch(t, slots[slots >= 0])

    def _ignore(self, event: Event) -> Applied:
        """Return that all rows of an event after the end of the log are void."""
        n_rows = event[0].size
        self.tables.registers.n_void[0] += n_rows
        n_transitions = n_rows if isinstance(event, events.Outcomes) else 0
        return Applied(np.zeros(n_rows, np.bool_), np.zeros(n_transitions, np.uint8))

    def _change_owner(
        self, event: events.Claimed | events.Closed | events.ClockReset, valid: FlagArray
    ) -> None:
        match event:
            case events.Claimed():
                self._claim(event, valid)
            case events.Closed():
                self._close(event, valid)
            case events.ClockReset():
                self._reset_clock(event, valid)

    def _claim(self, event: events.Claimed, valid: FlagArray) -> None:
        registers = self.tables.registers
        for i in range(valid.size):
            if event.epoch[i] > registers.epoch[0]:
                registers.epoch[0] = event.epoch[i]
                registers.owner[0] = event.owner[i]
                self._move_time(int(event.at_ms[i]))
                valid[i] = True

    def _close(self, event: events.Closed, valid: FlagArray) -> None:
        """End the log: no epoch is ever valid again."""
        for i in range(valid.size):
            generation, n_partitions = int(event.generation[i]), int(event.n_partitions[i])
            is_possible = 0 < generation < 1 << 16 and 0 < n_partitions < 1 << 32
            if event.epoch[i] == self.epoch and is_possible:
                self.tables.registers.epoch[0] = _CLOSED_EPOCH + (generation << 32 | n_partitions)
                valid[i] = True

    def _set_budget(self, event: _BudgetEvent, valid: FlagArray) -> None:
        registers, runs = self.tables.registers, self.tables.runs
        match event:
            case events.BudgetSet():
                budget.set_budget(registers, runs, event, valid)
            case events.RunBudgetSet():
                budget.set_run_budget(registers, runs, event, valid)
            case events.RunChosen():
                budget.choose_run(registers, runs, event, valid)
            case events.CreditSet():
                budget.set_credit(registers, event, valid)
            case events.QuotaSet():
                if (event.epoch == self.epoch).all():
                    self._move_time(int(event.at_ms.max(initial=0)))
                budget.set_quota(registers, runs, event, valid)

    def _reset_clock(self, event: events.ClockReset, valid: FlagArray) -> None:
        registers = self.tables.registers
        for i in range(valid.size):
            at_ms = int(event.at_ms[i])
            if event.epoch[i] == self.epoch and 0 < at_ms < self.now_ms:
                self._preserve_range(0, int(registers.n_slots[0]))
                move_times_back(self.tables, at_ms)
                windows.clear_windows(self.tables.groups)
                valid[i] = True
        if valid.any():
            self._overdue_from = 0
            price = self.picker.price
            self.picker = Picker(self.settings, self.terms)
            self.picker.set_price(price)

    def _set_group_columns(self, event: _GroupEvent, valid: FlagArray) -> None:
        match event:
            case events.GroupsSet():
                self._set_groups(event, valid)
            case events.DomainsSet():
                self._set_domains(event, valid)
            case _:
                self._set_windows(event, valid)

    def _set_groups(self, event: events.GroupsSet, valid: FlagArray) -> None:
        valid[:] = (event.group < self.settings.groups_max) & (event.in_flight_max > 0)
        group = event.group[valid].astype(np.int64)
        self.tables = growth.with_groups(self.tables, int(group.max(initial=0)) + 1, self.settings)
        groups = self.tables.groups
        # If a group occurs twice, the last row counts.
        delay_ms, most = event.delay_ms[valid].astype(np.int64), event.in_flight_max[valid]
        burst = np.maximum(event.burst[valid], 1).astype(np.int64)
        growth.set_politeness(groups, group, delay_ms, most.astype(np.int64), burst, self.now_ms)
        groups.blocked_until[group] = event.blocked_until_ms[valid]
        kept = groups.flags[group] & (GROUP_UNLIMITED + GROUP_SPLIT)
        groups.flags[group] = GROUP_HAS_POLICY + GROUP_CLOSED * (event.is_closed[valid] > 0) + kept
        self.picker.wake(self.tables, group)

    def _set_windows(self, event: windows.WindowEvent, valid: FlagArray) -> None:
        is_known = (event.epoch == self.epoch) & (event.group < self.settings.groups_max)
        group = event.group[is_known].astype(np.int64)
        self.tables = growth.with_groups(self.tables, int(group.max(initial=-1)) + 1, self.settings)
        windows.apply_windows(self.tables.groups, event, is_known, valid)
        if isinstance(event, events.GroupsSplit):
            self.split_groups = windows.find_split_groups(self.tables.groups)
        self.picker.wake(self.tables, group)

    def _set_domains(self, event: events.DomainsSet, valid: FlagArray) -> None:
        numbers = np.concatenate([event.group, event.domain]).astype(np.int64)
        numbers = numbers[numbers < self.settings.groups_max]
        self.tables = t = growth.with_groups(
            self.tables, int(numbers.max(initial=0)) + 1, self.settings
        )
        newcomers.set_domains(t.groups, event, self.settings.groups_max, valid)
        freed = event.group[valid & (event.is_unlimited > 0)]
        if freed.size:
            n_slots = int(t.registers.n_slots[0])
            slots = np.flatnonzero(np.isin(t.pages.group[:n_slots], freed))
            slots = slots[t.pages.newcomer_until[slots] > 0]
            self._preserve_rows(slots)
            t.pages.newcomer_until[slots] = 0
            self.picker.touch(t, slots)

    def _set_sources(self, event: events.SourcesSet, valid: FlagArray) -> None:
        fits = event.source < self.settings.sources_max
        kept = events.select_rows(event, fits)
        self.tables = growth.with_sources(self.tables, int(kept.source.max(initial=0)) + 1)
        part = np.zeros(kept.source.size, np.bool_)
        signals.set_sources(self.tables.sources, kept, part)
        valid[fits] = part

    def _set_settings(self, event: events.SettingsSet, valid: FlagArray) -> None:
        if valid.size == 0:
            return
        before = self.settings
        try:
            # All rows are parsed before anything changes; the last one counts.
            self.settings = [ShardSettings.from_json(str(text)) for text in event.settings][-1]
        except (TypeError, ValueError) as error:
            raise EventError(f"the settings are not valid in this version: {error}") from error
        valid[:] = True
        growth.set_group_defaults(self.tables.groups, self.settings, 0, self.now_ms)
        price = self.picker.price
        self._apply_settings()
        self.picker.set_price(price)
        t = self.tables
        if t.registers.epoch[0] == 0 and t.registers.n_slots[0] == 0:
            # A node may have been there before the first record; a replay begins with the settings.
            growth.set_first_priors(t.priors, self.settings)
        t.registers.memory_lost[0] = min(t.registers.memory_lost[0], self.rules.memory_lost_max)
        self._preserve_range(0, int(t.registers.n_slots[0]))
        if (before.estimator == "counts") != (self.settings.estimator == "counts"):
            pages.translate_beliefs(t.pages, t.priors, t.registers, self.rules)
        n_slots = int(t.registers.n_slots[0])
        for first in range(0, n_slots, _REBASED_AT_ONCE):
            self._rebuild_words(np.arange(first, min(first + _REBASED_AT_ONCE, n_slots)))

    def _set_priors(self, event: events.PriorsSet, valid: FlagArray) -> None:
        valid[:] = (
            (event.epoch == self.epoch)
            & (event.kind < self.settings.kinds_max)
            & (event.shape > 0)
            & (event.seconds > 0)
            & np.isfinite(event.shape)
            & np.isfinite(event.seconds)
        )
        if not valid.any():
            return
        self._rebase(
            int(self.tables.registers.n_slots[0])
        )  # finish moving beliefs to the previous priors
        self.tables = growth.with_kinds(self.tables, int(event.kind[valid].max()) + 1)
        priors = self.tables.priors
        priors.old_shape[:], priors.old_seconds[:] = priors.shape, priors.seconds
        priors.shape[event.kind[valid]] = event.shape[valid]
        priors.seconds[event.kind[valid]] = event.seconds[valid]
        self.tables.registers.rebased_to[0] = 0
        self._rebase(_REBASED_AT_ONCE)

    def _set_kind_weights(self, event: events.KindsWeighted, valid: FlagArray) -> None:
        valid[:] = (
            (event.epoch == self.epoch)
            & (event.kind < self.settings.kinds_max)
            & (event.weight > 0)
            & np.isfinite(event.weight)
        )
        if not valid.any():
            return
        kind = event.kind[valid].astype(np.int64)
        self.tables = t = growth.with_kinds(self.tables, int(kind.max()) + 1)
        before = t.priors.weight.copy()
        pages.write_log2_codes(t.priors.weight, kind, event.weight[valid])
        is_moved = t.priors.weight != before
        n_slots = int(t.registers.n_slots[0])
        for first in range(0, n_slots, _REBASED_AT_ONCE):
            of_slot = t.pages.kind[first : min(first + _REBASED_AT_ONCE, n_slots)]
            slots = first + np.flatnonzero(is_moved[of_slot])
            self._preserve_rows(slots)
            self._rebuild_words(slots)

    def _rebase(self, n_slots: int) -> None:
        t = self.tables
        first = int(t.registers.rebased_to[0])
        self._preserve_range(first, min(first + n_slots, int(t.registers.n_slots[0])))
        pages.rebase(t.pages, t.links, t.sources, t.priors, t.registers, self.rules, n_slots)

    def _reage(self) -> None:
        """Weigh the signals of the next pages anew, as their sources have turned out to be."""
        t = self.tables
        n_slots = int(t.registers.n_slots[0])
        first = int(t.registers.reage_from[0])
        n = min(_REAGED_PER_TICK, int(t.registers.n_to_reage[0]))
        if self._snapshot is not None:
            self._preserve_rows((first + np.arange(n)) % max(n_slots, 1))
        changed = np.empty(n, np.int64)
        n_changed = signals.reage_pages(
            t.pages, t.links, t.sources, t.priors, t.registers, self.rules, n, changed
        )
        self.picker.touch(t, changed[:n_changed])

    def _set_pages(self, event: _PageEvent, valid: FlagArray) -> None:
        t = self.tables
        match event:
            case events.PagesRemoved():
                pages.remove_pages(t.pages, t.groups, t.registers, event, valid)
                newcomers.count_removed(t.pages, t.groups, t.registers, self.rules, event, valid)
            case events.RequestsSeen():
                pages.count_requests(
                    t.pages, t.links, t.sources, t.priors, t.registers, self.rules, event, valid
                )
                self._touch(event.page, valid)
            case _:
                self._set_words(event, valid)

    def _set_words(self, event: _WordEvent, valid: FlagArray) -> None:
        """Apply an event that changes what the words of pages depend on."""
        t = self.tables
        slots = np.empty(event.page.size, np.int64)
        pages.find_slots(t.pages, t.registers, event.page, slots)
        valid[:] = slots >= 0
        match event:
            case events.CurvesSet():
                valid &= (event.ceiling > 0) & (event.ratio > 0)
            case events.KindsSet():
                known = event.kind < self.settings.kinds_max
                valid &= known
                self.tables = t = growth.with_kinds(t, int(event.kind[known].max(initial=0)) + 1)
            case events.LimitsSet():
                self.tables, rows = growth.with_limits(t, event, self.settings.limits_max)
                t = self.tables
                valid &= rows >= 0
        slots = slots[valid]
        match event:
            case events.ImportanceSet():
                pages.write_log2_codes(t.pages.importance, slots, event.importance[valid])
            case events.CostsSet():
                pages.write_log2_codes(t.pages.cost, slots, event.cost[valid])
            case events.CurvesSet():
                pages.write_curves(t.pages, slots, events.select_rows(event, valid))
            case events.KindsSet():
                kind = event.kind[valid]
                pages.move_kinds(t.pages, t.priors, t.registers, self.rules, slots, kind)
            case events.LimitsSet():
                t.pages.limits[slots] = rows[valid]
        self._rebuild_words(slots)
        self._touch(event.page, valid)

    def _rebuild_words(self, slots: NDArray[np.int64]) -> None:
        t = self.tables
        pages.rebuild_words(t.pages, t.links, t.sources, t.priors, t.registers, self.rules, slots)
