"""Set the fixed interval of pages whose hosts are held out, and reset it afterwards.

The interval is logged as the limits of each page, so a replay needs no configuration.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule
from recrawl.node.node import Node
from recrawl.shard.events import slot_of_page
from recrawl.store import Names

__all__ = ["held_out_groups", "held_out_pages"]


def held_out_groups(
    node: Node, group: NDArray[np.int64], config: HoldoutConfig
) -> NDArray[np.bool_]:
    """Return which groups, given by number, keep the old rule."""
    if config.share <= 0:
        return np.zeros(group.size, np.bool_)
    names = node.store.names_of(Names.GROUP, group.tolist())
    return keeps_old_rule(pa.array([name or "" for name in names], pa.string()), config)


def held_out_pages(node: Node, page: NDArray[np.int64], config: HoldoutConfig) -> NDArray[np.bool_]:
    """Return which pages belong to groups that keep the old rule."""
    if config.share <= 0:
        return np.zeros(page.size, np.bool_)
    group = node.shard.tables.pages.group[slot_of_page(page)].astype(np.int64)
    distinct, index = np.unique(group, return_inverse=True)
    held: NDArray[np.bool_] = held_out_groups(node, distinct, config)[index]
    return held
