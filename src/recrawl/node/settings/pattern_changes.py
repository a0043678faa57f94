"""Change the pages whose URLs match a pattern, in parts that each take a bounded time.

Whoever changes all pages of a large corpus waits for minutes, which no request over a network
should.  So a caller asks for one part after the other, each from the place where the last one
ended.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recrawl.node.node import Node
from recrawl.urls import PatternSet

__all__ = ["PART_SECONDS", "PatternPart", "ScanPlace", "change_part"]

PART_SECONDS: Final = 1.0
"""Time after which a part ends; its last few thousand pages may take a little longer."""


class ScanPlace(NamedTuple):
    """A place in the pages of all partitions."""

    partition: int
    slot: int


class PatternPart(NamedTuple):
    """What a part has changed."""

    n_pages: int
    following: ScanPlace | None
    """Where the next part begins; None if this was the last one."""


def change_part(
    nodes: Sequence[Node],
    pattern: str,
    change: Callable[[Node, NDArray[np.int64]], int],
    start: ScanPlace,
    *,
    seconds: float = PART_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> PatternPart:
    """Change some of the pages whose URLs match a pattern.

    Parameters
    ----------
    nodes
        Nodes of the partitions from the start on, in their order.
    pattern
        Pattern that the URLs match.
    change
        Function that changes pages of a node, and returns how many there were.
    start
        Place where the part begins.
    seconds
        Time after which the part ends.
    monotonic
        Clock that never jumps, in seconds.
    """
    matcher = PatternSet([pattern])
    ends_at = monotonic() + seconds
    n_pages, has_begun = 0, False
    for node in nodes:
        slot: int | None = start.slot if node.partition == start.partition else 0
        while slot is not None:
            if has_begun and monotonic() >= ends_at:
                return PatternPart(n_pages, ScanPlace(node.partition, slot))
            has_begun = True
            page, url, slot = node.scan_urls_from(slot)
            if page.size:
                n_pages += change(node, page[matcher.first_match(url) >= 0])
    return PatternPart(n_pages, None)
