"""Orders set apart by their numbers: for pages never fetched, and for pages chosen by hash."""

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import dither_of
from recrawl.core.kernel import table_kernel
from recrawl.shard.picker.queue.market import Market, has_bit, has_free_row
from recrawl.shard.picker.queue.turns import may_order, order_from
from recrawl.shard.state.status import PageStatus, Reason
from recrawl.shard.state.tables import Groups, Pages
from recrawl.shard.state.words import is_held

__all__ = ["audit_page", "purposes"]

_AUDIT_SALT = 0x5EED_A0D1
_DISCOVERY_SALT = 0x5EED_D15C
_N_TRIES = 32
_ACTIVE = int(PageStatus.ACTIVE)
_VALUE = int(Reason.VALUE)
_DISCOVERY = int(Reason.DISCOVERY)
_AUDIT = int(Reason.AUDIT)


@table_kernel
def purposes(
    first_order: int, audit_share: float, discovery_share: float, out: NDArray[np.uint8]
) -> None:
    """Write what each order is for, by its number: value, discovery or audit."""
    for i in range(out.size):
        out[i] = _VALUE
        if dither_of(_AUDIT_SALT, first_order + i) < audit_share:
            out[i] = _AUDIT
        elif dither_of(_DISCOVERY_SALT, first_order + i) < discovery_share:
            out[i] = _DISCOVERY


@table_kernel
def audit_page(
    pages: Pages, groups: Groups, market: Market, order: int, n_slots: int, now_ms: int
) -> int:
    """Order the page that an order's number chooses, and return it; -1 if none was found."""
    for attempt in range(_N_TRIES):
        slot = int(dither_of(_AUDIT_SALT + 1 + attempt, order) * n_slots)
        if (
            pages.status[slot] != _ACTIVE
            or is_held(pages.word[slot])
            or has_bit(market.taken, slot)
        ):
            continue
        group = int(pages.group[slot])
        if has_free_row(market) and may_order(market, groups, group, now_ms):
            order_from(market, groups, group, slot, now_ms)
            return slot
    return -1
