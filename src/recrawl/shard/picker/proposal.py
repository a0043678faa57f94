"""What a picker hands to its shard."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Proposal"]


class Proposal(NamedTuple):
    """Orders that a picker would give, best first; nothing has changed by it."""

    slot: NDArray[np.int64]
    reason: NDArray[np.uint8]
    """`recrawl.shard.status.Reason`."""
