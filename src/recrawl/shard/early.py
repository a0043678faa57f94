"""Whether a lease returns pages before they are worth the price, while budget is left.

A scan compares all pages, so a lease can spend budget that is left on the best pages below the
price.  Budget spent on copies that are almost certainly fresh would be missing when something
changes, so such copies wait.
"""

import math
from enum import IntEnum

import numpy as np

from recrawl.core.kernel import table_kernel
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import PriceMode
from recrawl.shard.state.tables import Registers
from recrawl.shard.state.words import last_of, log2_period_of

__all__ = ["STALE_CHANCE_MIN", "Early", "early_rule", "has_price", "is_scanned", "stale_from_of"]

STALE_CHANCE_MIN = 0.02
"""Chance of a change below which a copy is called almost certainly fresh.  The chance is at most
the age over the mean period of changes."""

# Read once: before Python 3.12, reading a member of an enumeration takes as long as a small call.
_FIXED = int(PriceMode.FIXED)


class Early(IntEnum):
    """Which pages below the price a lease returns while budget is left."""

    NONE = 0
    STALE = 1
    """Those that are not almost certainly fresh."""
    ALL = 2
    """All of them: there is no budget to save, or little is known about the pages yet."""


def is_scanned(registers: Registers, settings: ShardSettings) -> bool:
    """Return whether leases compare all pages, as in small corpora."""
    if settings.picker == "auto":
        return int(registers.n_pages[0]) <= settings.scan_pages_max
    return settings.picker == "scan"


def has_price(registers: Registers) -> bool:
    """Return whether pages must be worth a price: one that is fixed, or of a budget per time."""
    is_fixed = int(registers.price_mode[0]) == _FIXED
    return bool(is_fixed or 0.0 < registers.budget[0] < math.inf)


def early_rule(registers: Registers, settings: ShardSettings) -> Early:
    """Return which pages below the price leases return."""
    if int(registers.price_mode[0]) == _FIXED or not is_scanned(registers, settings):
        return Early.NONE
    # Early fetches teach how often pages change, which nobody knows before.
    is_learning = registers.n_polls[0] < registers.n_pages[0]
    return Early.ALL if is_learning or registers.budget[0] == math.inf else Early.STALE


@table_kernel
def stale_from_of(word: np.uint64) -> float:
    """Return until when a copy is almost certainly fresh, in shard seconds."""
    return last_of(word) + STALE_CHANCE_MIN * math.exp2(log2_period_of(word))
