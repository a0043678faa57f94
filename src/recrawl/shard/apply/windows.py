"""Apply the events of split groups: which are split, and the windows in which they are fetched.

The pages of a very large group are in several partitions.  Each of them orders pages of the group
only in windows that the home partition of the group grants.  All leases of the group end with the
window, so nothing is in flight when the window of another partition begins.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray
from recrawl.core.kernel import table_kernel
from recrawl.shard.due import LEASE_MS_MIN, Terms, page_due_of
from recrawl.shard.events import GroupsBlocked, GroupsSplit, WindowsGranted, WindowsSet
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import GROUP_SPLIT, Groups, Limits, Pages
from recrawl.shard.state.words import is_held

__all__ = [
    "WindowEvent",
    "apply_windows",
    "are_over",
    "cap_leases",
    "clear_windows",
    "count_due",
    "find_split_groups",
]

WindowEvent: TypeAlias = GroupsSplit | GroupsBlocked | WindowsGranted | WindowsSet

_FREE = int(PageStatus.FREE)
_RETIRED = int(PageStatus.RETIRED)
# Largest number of slots that are looked at to count the due pages of a group.
_SLOTS_COUNTED_MAX = 1 << 16


def apply_windows(
    groups: Groups, event: WindowEvent, is_known: FlagArray, valid: FlagArray
) -> None:
    """Apply the rows of an event that have the owner's epoch and a known group, in order."""
    for i in np.flatnonzero(is_known):
        group = int(event.group[i])
        if isinstance(event, GroupsSplit):
            groups.flags[group] |= GROUP_SPLIT
            valid[i] = True
            continue
        if isinstance(event, GroupsBlocked):
            valid[i] = event.until_ms[i] > groups.blocked_until[group]
            if valid[i]:
                groups.blocked_until[group] = event.until_ms[i]
            continue
        if not groups.flags[group] & GROUP_SPLIT:
            continue
        first, end = event.from_ms[i], event.until_ms[i]
        if isinstance(event, WindowsGranted):
            valid[i] = groups.granted_until[group] <= first < end
            if valid[i]:
                groups.granted_until[group] = end
        else:
            groups.window_at[group], groups.window_until[group] = first, max(first, end)
            valid[i] = True


def find_split_groups(groups: Groups) -> NDArray[np.int64]:
    """Return the groups that are split over several partitions."""
    return np.flatnonzero(groups.flags & GROUP_SPLIT)


def clear_windows(groups: Groups) -> None:
    """Forget all windows, because time was set back; those that are granted again come later."""
    groups.window_at[:] = 0
    groups.window_until[:] = 0


def cap_leases(
    groups: Groups, group: NDArray[np.uint32], expires_at_ms: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return when leases of groups expire: those of split ones with their window, or before."""
    is_split = (groups.flags[group] & GROUP_SPLIT) > 0
    capped: NDArray[np.int64] = np.where(
        is_split, np.minimum(expires_at_ms, groups.window_until[group]), expires_at_ms
    )
    return capped


def are_over(groups: Groups, group: NDArray[np.uint32], now_ms: int) -> FlagArray:
    """Return which groups are split and have no window for an order now."""
    is_split = (groups.flags[group] & GROUP_SPLIT) > 0
    is_open = (groups.window_at[group] <= now_ms) & (
        now_ms + LEASE_MS_MIN <= groups.window_until[group]
    )
    over: FlagArray = is_split & ~is_open
    return over


@table_kernel
def _count_due(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    n_slots: int,
    step: int,
    group: int,
    log2_price: float,
    now: float,
) -> int:
    n = 0
    for slot in range(0, n_slots, step):
        if pages.group[slot] != group or is_held(pages.word[slot]) or pages.importance[slot] == 0:
            continue
        if pages.status[slot] in (_FREE, _RETIRED) or pages.not_before[slot] > now:
            continue
        if page_due_of(pages, limits, slot, terms, log2_price) <= now:
            n += 1
    return n * step


def count_due(
    pages: Pages,
    limits: Limits,
    terms: Terms,
    n_slots: int,
    group: int,
    log2_price: float,
    now: float,
) -> int:
    """Return about how many pages of a group are due at a price, from a sample of slots."""
    step = max(n_slots // _SLOTS_COUNTED_MAX, 1)
    return int(_count_due(pages, limits, terms, n_slots, step, group, log2_price, now))
