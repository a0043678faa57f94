"""What a process says about the partitions that it owns."""

from typing import NamedTuple

__all__ = ["OwnedPartition"]


class OwnedPartition(NamedTuple):
    """A partition that a process owns."""

    epoch: int
    """Epoch of its claim."""
    n_pages: int = 0
    """Number of its pages."""
    snapshot_seconds: float | None = None
    """Age of its newest snapshot; None without one."""
