"""What to order next: volatile state beside a shard's tables, and derived from them alone."""

from recrawl.shard.picker.picker import Picker, Proposal

__all__ = ["Picker", "Proposal"]
