"""Pages chosen ahead, for callers that lease a few pages at a time.

A decision takes about as long for one page as for a hundred.  When small leases follow each other
closely, one decision therefore chooses pages for the next of them as well.  They are handed out in
the same order, each logged when it is leased, and dropped after a tenth of a second, or as soon as
an event could make one of them a wrong choice: then they wait for their turn again.
"""

import numpy as np
from numpy.typing import NDArray

from recrawl.shard import events
from recrawl.shard.picker.picker import Picker, Proposal
from recrawl.shard.state.status import Reason, Verdict
from recrawl.shard.state.tables import Tables

__all__ = ["FEW_ORDERS_MAX", "Reserve"]

FEW_ORDERS_MAX = 64
"""Larger leases are decided by themselves."""

_PAGES_MAX = 128
_AGE_MS_MAX = 100
# Leases that follow each other within this time are worth choosing ahead for.
_CLOSE_MS = 50
# Events after which the pages chosen ahead are still right: they concern other pages, or nothing
# that is not also looked at a tenth of a second later.  An order for other pages ends the reserve
# by its number.
_HARMLESS = (
    events.Ordered,
    events.Ticked,
    events.Signals,
    events.RequestsSeen,
    events.PagesAdded,
    events.LeasesReleased,
    events.LeasesExtended,
    events.LeasesExpired,
)
_DISALLOWED = int(Verdict.DISALLOWED)
_SPARE = int(Reason.SPARE)
_NO_SLOTS = np.empty(0, np.int64)
_NO_REASONS = np.empty(0, np.uint8)


class Reserve:
    """Pages that a picker has chosen, and that nobody has leased yet."""

    def __init__(self) -> None:
        self._slot = _NO_SLOTS
        self._reason = _NO_REASONS
        self._at_ms = self._leased_ms = 0
        self._next_order = 0
        self._keeps_budget = False
        self._n_ahead = 0
        self._has_new = False

    @property
    def n_pages(self) -> int:
        """Number of pages chosen ahead."""
        return self._slot.size

    def take_new(self) -> NDArray[np.int64]:
        """Return the slots chosen ahead since the last call, so that they can be read at once."""
        slot = self._slot if self._has_new else _NO_SLOTS
        self._has_new = False
        return slot

    def decide(
        self,
        picker: Picker,
        tables: Tables,
        now_ms: int,
        n: int,
        *,
        n_paid: int,
        keeps_budget: bool,
    ) -> Proposal:
        """Return at most ``n`` orders, best first; see `Picker.decide`.

        Parameters
        ----------
        picker
            Picker that chooses.
        tables
            State of the shard, which stays unchanged.
        now_ms
            Time in milliseconds since 1970.
        n
            Largest number of orders, at most `FEW_ORDERS_MAX`.
        n_paid
            Number of orders that the budget pays for.
        keeps_budget
            Whether copies that are almost certainly fresh wait although budget is left.
        """
        next_order = int(tables.registers.next_order[0])
        is_same = next_order == self._next_order and keeps_budget == self._keeps_budget
        age_ms, pause_ms = now_ms - self._at_ms, now_ms - self._leased_ms
        self._leased_ms = now_ms
        if is_same and 0 <= age_ms <= _AGE_MS_MAX and n <= self._slot.size:
            return self._take(n)
        # As many as were leased meanwhile, or twice as many if that was all of them.
        n_left = self._slot.size
        n_used = self._n_ahead - n_left if n_left else 2 * self._n_ahead
        self.drop(picker, tables)
        is_close = 0 <= pause_ms <= _CLOSE_MS
        self._n_ahead = min(max(n_used, 4 * n), _PAGES_MAX) if is_close else 0
        self._at_ms, self._keeps_budget = now_ms, keeps_budget
        n_chosen = min(n + self._n_ahead, max(n_paid, n))
        slot, reason = picker.decide(tables, now_ms, n_chosen, keeps_budget=keeps_budget)
        # Pages below the price are the last, and there are none to choose ahead.
        is_spare = reason == _SPARE
        n_kept = max(int(is_spare.argmax()) if is_spare.any() else reason.size, n)
        picker.put_back(tables, slot[n_kept:])
        self._slot, self._reason = slot[:n_kept], reason[:n_kept]
        self._next_order = next_order
        self._has_new = n_kept > n
        return self._take(min(n, self._slot.size))

    def _take(self, n: int) -> Proposal:
        taken = Proposal(self._slot[:n], self._reason[:n])
        self._slot, self._reason = self._slot[n:], self._reason[n:]
        self._next_order += n
        return taken

    def is_right_after(self, event: events.Event) -> bool:
        """Return whether the pages chosen ahead are still right after an event."""
        if self._slot.size == 0 or isinstance(event, _HARMLESS):
            return True
        # An error may let a host rest; an outcome without an order may be of any page.
        if not isinstance(event, events.Outcomes):
            return False
        verdict, order = event.verdict, event.order
        if order.size == 1:
            return bool(verdict[0] < _DISALLOWED and order[0] > 0)
        return bool(verdict.max(initial=0) < _DISALLOWED and order.min(initial=1) > 0)

    def drop(self, picker: Picker, tables: Tables) -> None:
        """Let the pages chosen ahead wait for their turn again."""
        slot = self._slot
        if slot.size:
            self._slot, self._reason = _NO_SLOTS, _NO_REASONS
            picker.put_back(tables, slot)
