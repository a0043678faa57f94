"""Choose what to order next, with volatile state derived from a shard's tables alone."""

from recrawl.shard.picker.picker import Picker, Proposal

__all__ = ["Picker", "Proposal"]
