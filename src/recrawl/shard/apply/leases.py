"""Apply the events of orders and their leases: ordered, extended, released, expired.

The leases are a ring buffer: the row of an order is its number modulo the size of the table.
"""

import numpy as np

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.apply.pages import page_slot_of
from recrawl.shard.events import LeasesExpired, LeasesExtended, LeasesReleased, Ordered
from recrawl.shard.state.codes import log2_of_code
from recrawl.shard.state.rules import Rules
from recrawl.shard.state.status import BudgetUnit, LeaseStage
from recrawl.shard.state.tables import GROUP_SPLIT, I64, Groups, Leases, Pages, Registers
from recrawl.shard.state.words import is_held, number_of, with_held

__all__ = [
    "charge_of",
    "close_lease",
    "expire_leases",
    "extend_leases",
    "forget_leases",
    "lease_row_of",
    "order_pages",
    "overdue_leases",
    "refund_order",
    "release_group",
    "release_leases",
    "trip_breaker",
]


_EMPTY = int(LeaseStage.EMPTY)
_IN_FLIGHT = int(LeaseStage.IN_FLIGHT)
_EXPIRED = int(LeaseStage.EXPIRED)
_CLOSED = int(LeaseStage.CLOSED)
_FETCHES = int(BudgetUnit.FETCHES)


@table_kernel
def lease_row_of(leases: Leases, registers: Registers, order: int) -> int:
    """Return the row of an order, or -1 if the order is not in the ring buffer."""
    if order < registers.first_order[0] or order >= registers.next_order[0]:
        return -1
    return order & (leases.page.size - 1)


@table_kernel
def order_pages(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    event: Ordered,
    valid: FlagArray,
) -> None:
    """Start the leases of ordered pages; a page is held while its lease is in flight.

    A row is void if its epoch is an older one, its order number is out of sequence, or its page has
    been removed or held meanwhile.  In the last case the order still uses up its number.
    """
    for i in range(event.page.size):
        if event.epoch[i] != registers.epoch[0] or event.order[i] != registers.next_order[0]:
            continue
        at = max(event.at_ms[i], registers.now[0])
        row = event.order[i] & (leases.page.size - 1)
        registers.next_order[0] += 1
        leases.page[row] = event.page[i]
        leases.ordered_at[row] = at
        leases.expires_at[row] = at
        leases.reason[row] = event.reason[i]
        leases.group[row] = 0
        leases.stage[row] = _CLOSED
        slot = page_slot_of(pages, event.page[i], registers.n_slots[0])
        if slot < 0 or is_held(pages.word[slot]):
            continue
        leases.expires_at[row] = max(event.expires_at_ms[i], at)
        leases.stage[row] = _IN_FLIGHT
        pages.word[slot] = with_held(pages.word[slot], True)
        lease_ms = leases.expires_at[row] - at
        if registers.lease_ms_min[0] == 0 or lease_ms < registers.lease_ms_min[0]:
            registers.lease_ms_min[0] = max(lease_ms, 1)
        group = pages.group[slot]
        leases.group[row] = group
        groups.in_flight[group] += np.uint16(1)
        if groups.in_flight_max[group] > 1:
            groups.ready_at[group] = max(groups.ready_at[group], at) + groups.delay_ms[group]
        registers.in_flight[0] += 1
        registers.n_ordered[0] += 1
        registers.credit[0] -= charge_of(pages, registers, slot)
        valid[i] = True


@table_kernel
def charge_of(pages: Pages, registers: Registers, slot: int) -> float:
    """Return what an order of a page takes from the budget, in fetches or cost."""
    if registers.budget_unit[0] == _FETCHES:
        return 1.0
    return float(np.exp2(log2_of_code(pages.cost[slot])))


@table_kernel
def refund_order(pages: Pages, registers: Registers, slot: int) -> None:
    """Give back to the budget what an order of a page took, because nothing was fetched."""
    credit = registers.credit[0] + charge_of(pages, registers, slot)
    registers.credit[0] = min(credit, registers.credit_max[0])


@table_kernel
def release_group(groups: Groups, group: int, ended_ms: int) -> None:
    """Count one fetch less in flight; start the delay of a group that allows one at a time."""
    if groups.in_flight[group] > 0:
        groups.in_flight[group] -= np.uint16(1)
    if groups.in_flight_max[group] <= 1:
        groups.ready_at[group] = max(groups.ready_at[group], ended_ms + groups.delay_ms[group])


@table_kernel
def trip_breaker(groups: Groups, group: int, now_ms: int, rules: Rules, retry_after: float) -> None:
    """Count a transient error; after too many in a row the group rests, longer each time.

    A wait that the site asks for (``retry_after``) begins at once.  Errors are not counted while
    the group rests, because fetches that were in flight together fail for the same cause.
    """
    is_resting = groups.blocked_until[group] > now_ms
    if retry_after > 0.0:
        until = now_ms + int(min(retry_after, rules.breaker_max) * 1000.0)
        groups.blocked_until[group] = max(groups.blocked_until[group], until)
    if is_resting:
        return
    if groups.n_errors[group] < 255:
        groups.n_errors[group] += np.uint8(1)
    beyond = number_of(groups.n_errors[group]) - rules.breaker_errors
    if beyond >= 0:
        rest = min(rules.breaker * 2.0 ** min(beyond, 30), rules.breaker_max)
        until = now_ms + int(rest * 1000.0)
        groups.blocked_until[group] = max(groups.blocked_until[group], until)


@table_kernel
def close_lease(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    row: int,
    stage: int,
    ended_ms: int,
) -> int:
    """End a lease in flight; return the slot of its page, or -1 if the page was removed.

    The delay of the group begins at ``ended_ms``.
    """
    leases.stage[row] = stage
    registers.in_flight[0] -= 1
    release_group(groups, leases.group[row], ended_ms)
    slot = page_slot_of(pages, leases.page[row], registers.n_slots[0])
    if slot >= 0:
        pages.word[slot] = with_held(pages.word[slot], False)
    return slot


@table_kernel
def extend_leases(
    groups: Groups,
    leases: Leases,
    registers: Registers,
    lease_max_ms: int,
    event: LeasesExtended,
    valid: FlagArray,
) -> None:
    """Change when leases in flight expire; no lease gets longer than ``lease_max_ms``.

    A lease of a split group ends with the window in which it began, at the latest.
    """
    for i in range(event.order.size):
        row = lease_row_of(leases, registers, event.order[i])
        if row < 0 or leases.stage[row] != _IN_FLIGHT:
            continue
        latest = leases.ordered_at[row] + lease_max_ms
        group = leases.group[row]
        if groups.flags[group] & GROUP_SPLIT:
            latest = min(latest, groups.window_until[group])
        leases.expires_at[row] = max(min(event.expires_at_ms[i], latest), leases.ordered_at[row])
        valid[i] = True


@table_kernel
def release_leases(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    event: LeasesReleased,
    slots: I64,
    valid: FlagArray,
) -> None:
    """End the leases of orders that a fetcher returns without fetching."""
    for i in range(event.order.size):
        row = lease_row_of(leases, registers, event.order[i])
        if row < 0 or leases.stage[row] != _IN_FLIGHT:
            continue
        now_ms = registers.now[0]
        slots[i] = close_lease(pages, groups, leases, registers, row, _CLOSED, now_ms)
        valid[i] = True


@table_kernel
def expire_leases(
    pages: Pages,
    groups: Groups,
    leases: Leases,
    registers: Registers,
    event: LeasesExpired,
    slots: I64,
    valid: FlagArray,
) -> None:
    """End leases that ran out without a report; one late report will still count."""
    for i in range(event.order.size):
        row = lease_row_of(leases, registers, event.order[i])
        if event.epoch[i] != registers.epoch[0] or row < 0 or leases.stage[row] != _IN_FLIGHT:
            continue
        now_ms = registers.now[0]
        slots[i] = close_lease(pages, groups, leases, registers, row, _EXPIRED, now_ms)
        valid[i] = True


@table_kernel
def forget_leases(leases: Leases, registers: Registers, grace_ms: int) -> None:
    """Remove the oldest orders from the ring, up to the first that may still be reported."""
    mask = leases.page.size - 1
    while registers.first_order[0] < registers.next_order[0]:
        row = registers.first_order[0] & mask
        if leases.stage[row] == _IN_FLIGHT:
            break
        if leases.expires_at[row] + grace_ms > registers.now[0]:
            break
        leases.stage[row] = _EMPTY
        leases.page[row] = 0
        leases.ordered_at[row] = 0
        leases.expires_at[row] = 0
        leases.reason[row] = 0
        leases.group[row] = 0
        registers.first_order[0] += 1


@table_kernel
def overdue_leases(
    leases: Leases, registers: Registers, now_ms: int, first: int, out: I64
) -> tuple[int, int]:
    """Write the orders whose leases have run out, until ``out`` is full.

    Returns their number, and the first order that may still be in flight, where the next call
    may begin.
    """
    n = 0
    mask = leases.page.size - 1
    first = max(first, registers.first_order[0])
    is_prefix = True
    for order in range(first, registers.next_order[0]):
        row = order & mask
        # From here on, orders are younger than the shortest lease, so none has expired.
        if n == out.size or leases.ordered_at[row] + registers.lease_ms_min[0] > now_ms:
            break
        if leases.stage[row] == _IN_FLIGHT:
            is_prefix = False
            if leases.expires_at[row] <= now_ms:
                out[n] = order
                n += 1
        elif is_prefix:
            first = order + 1
    return n, first
