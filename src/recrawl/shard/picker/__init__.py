"""Choose what to order next, with volatile state derived from a shard's tables alone."""

from recrawl.shard.picker.picker import Picker, Proposal
from recrawl.shard.picker.reserve import FEW_ORDERS_MAX, Reserve

__all__ = ["FEW_ORDERS_MAX", "Picker", "Proposal", "Reserve"]
