"""Audits: pages chosen by hash, so that every copy that can be fetched is equally likely.

A page is chosen without looking at whether its host may be fetched from now.  If it may not, the
audit waits for the host: choosing another page instead would leave out the hosts that are busy all
the time, whose copies are the least fresh, and audited freshness would be too high.
"""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import dither_of
from recrawl.core.kernel import table_kernel
from recrawl.shard.events import SCHEDULE_STALE_SECONDS
from recrawl.shard.picker.queue.market import Market, has_bit
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import GROUP_CLOSED, Groups, Limits, Pages, Tables
from recrawl.shard.state.words import EPOCH_SECONDS, is_held

__all__ = ["AUDIT_SALT", "AUDIT_WAIT_SECONDS_MAX", "WAITING_AUDITS_MAX", "WaitingAudits"]

AUDIT_WAIT_SECONDS_MAX = 3_600.0
"""Time that an audit waits for its host; after that the host counts as one that cannot be fetched
from, and the audit is dropped."""
WAITING_AUDITS_MAX = 1_024
"""Number of audits that wait for their hosts; of more, the oldest are dropped."""
AUDIT_SALT = 0x5EED_A0D1
"""Salt of the hashes that choose which orders are audits, and of which pages."""
_N_TRIES = 32
_ACTIVE = int(PageStatus.ACTIVE)
_DROPPED, _WAITS, _ORDERED = 0, 1, 2


@table_kernel
def _is_schedule(limits: Limits, row: int) -> bool:
    """Return whether limits only say when pages are due, so that audits may fetch in between.

    Limits of users forbid fetches before the shortest interval is over, audits too.
    """
    is_marked = limits.stale_for[row] == SCHEDULE_STALE_SECONDS
    return bool(is_marked and limits.stale_probability[row] == 0.0)


@table_kernel
def _can_be_audited(pages: Pages, groups: Groups, limits: Limits, slot: int, now: float) -> bool:
    """Return whether a page has a copy that may be fetched now, or once its host is ready."""
    if pages.status[slot] != _ACTIVE or is_held(pages.word[slot]):
        return False
    if groups.flags[pages.group[slot]] & GROUP_CLOSED:
        return False
    row = pages.limits[slot]
    if row == 0 or _is_schedule(limits, row):
        return True
    return bool(now >= float(pages.fetched_at[slot]) + limits.interval_min[row])


@table_kernel
def _chosen_slot(
    pages: Pages, groups: Groups, limits: Limits, order: int, n_slots: int, now: float
) -> int:
    """Return the slot of the page that an order's number chooses; -1 if none was found."""
    for attempt in range(_N_TRIES):
        slot = int(dither_of(AUDIT_SALT + 1 + attempt, order) * n_slots)
        if _can_be_audited(pages, groups, limits, slot, now):
            return slot
    return -1


@table_kernel
def _order_audit(
    pages: Pages, groups: Groups, limits: Limits, market: Market, slot: int, now_ms: int
) -> int:
    """Order a chosen page if its host and its back-off allow it; there must be a free row."""
    now = now_ms / 1000.0 - EPOCH_SECONDS
    if has_bit(market.taken, slot) or not _can_be_audited(pages, groups, limits, slot, now):
        return _DROPPED
    group = int(pages.group[slot])
    if now < float(pages.not_before[slot]) or not may_order(market, groups, group, now_ms):
        return _WAITS
    order_from(market, groups, group, slot, now_ms)
    return _ORDERED


class WaitingAudits:
    """Chooses pages to audit, and keeps those whose hosts cannot be fetched from yet.

    They are in memory only: a new picker has none, and chooses others.
    """

    def __init__(self) -> None:
        # When each was chosen, by slot, in milliseconds; the oldest first.
        self._chosen_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._chosen_ms)

    def order_waiting(
        self, tables: Tables, market: Market, now_ms: int, n_max: int
    ) -> NDArray[np.int64]:
        """Return the waiting pages that may be ordered now, at most ``n_max``, as ordered.

        The market must have as many free rows.
        """
        found: list[int] = []
        for slot, chosen_ms in list(self._chosen_ms.items()):
            if len(found) == n_max:
                break
            did = _order_audit(tables.pages, tables.groups, tables.limits, market, slot, now_ms)
            if did == _ORDERED:
                found.append(slot)
            if did != _WAITS or now_ms - chosen_ms > 1000.0 * AUDIT_WAIT_SECONDS_MAX:
                del self._chosen_ms[slot]
        return np.array(found, np.int64)

    def choose(self, tables: Tables, order: int, now_ms: int) -> int:
        """Return the slot of the page that an order's number chooses; -1 if none was found."""
        now = now_ms / 1000.0 - EPOCH_SECONDS
        n_slots = int(tables.registers.n_slots[0])
        return int(_chosen_slot(tables.pages, tables.groups, tables.limits, order, n_slots, now))

    def order(self, tables: Tables, market: Market, now_ms: int, slot: int) -> bool:
        """Order a chosen page, or let it wait for its host; return whether it was ordered.

        The market must have a free row.
        """
        did = _order_audit(tables.pages, tables.groups, tables.limits, market, slot, now_ms)
        if did == _WAITS:
            self._chosen_ms.setdefault(slot, now_ms)
            if len(self._chosen_ms) > WAITING_AUDITS_MAX:
                del self._chosen_ms[next(iter(self._chosen_ms))]
        return bool(did == _ORDERED)
