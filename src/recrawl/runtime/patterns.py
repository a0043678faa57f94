"""Patterns that changed since a corpus was last opened: applied to the pages that are there.

What patterns a corpus's pages were last matched against is on record, as a digest.  While it is the
same nothing is looked at; otherwise every URL is matched once.
"""

import hashlib
from dataclasses import asdict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.runtime.config import CorpusConfig, PatternConfig
from recrawl.runtime.naming import Namer
from recrawl.runtime.node import Node
from recrawl.runtime.records import Happening, Named
from recrawl.shard import CostsSet, ImportanceSet, KindsSet, LimitsSet, event_of
from recrawl.shard.events import slot_of
from recrawl.store import Names

__all__ = ["apply_patterns"]

_ROWS_PER_SCAN = 16_384


def _digest(patterns: tuple[PatternConfig, ...]) -> str:
    rows = [{**asdict(pattern), "share": None} for pattern in patterns]
    return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def apply_patterns(node: Node, namer: Namer, config: CorpusConfig) -> int:
    """Bring a node's pages in line with the patterns of a configuration; return how many moved."""
    store = node.store
    n_applied = store.n_named(Names.PATTERNS)
    digest = f"{n_applied} {_digest(config.patterns)}"
    if n_applied:
        (last,) = store.names_of(Names.PATTERNS, [n_applied - 1])
        if (last or "").partition(" ")[2] == digest.partition(" ")[2]:
            return 0
    n_moved = 0
    if n_applied or config.patterns:
        for slot in range(0, int(node.shard.tables.registers.n_slots[0]), _ROWS_PER_SCAN):
            page, url = store.scan_urls(slot, _ROWS_PER_SCAN)
            n_moved += _apply_to(node, namer, config, page, namer.match(url))
    # Last, so that one cut off begins again.
    node.submit(
        [
            Named(
                np.full(1, node.shard.epoch, np.int64),
                np.full(1, Names.PATTERNS, np.uint8),
                np.full(1, n_applied, np.uint32),
                pa.array([digest], pa.string()),
            )
        ]
    )
    return n_moved


def _apply_to(
    node: Node,
    namer: Namer,
    config: CorpusConfig,
    page: NDArray[np.int64],
    pattern: NDArray[np.int16],
) -> int:
    kind = namer.kinds_of(pattern)
    has_moved = node.shard.tables.pages.kind[slot_of(page)] != kind
    told: list[Happening] = []
    if has_moved.any():
        told.append(event_of(KindsSet, page=page[has_moved], kind=kind[has_moved]))
        # What the pattern before had promised does not hold any more.
        told.append(
            event_of(
                LimitsSet,
                page=page[has_moved],
                interval_seconds_min=0.0,
                interval_seconds_max=float("inf"),
                stale_seconds=0.0,
                stale_probability=0.0,
            )
        )
    for i in np.unique(pattern[pattern >= 0]):
        own = page[pattern == i]
        row = config.patterns[i]
        if row.importance is not None:
            told.append(event_of(ImportanceSet, page=own, importance=row.importance))
        if row.cost is not None:
            told.append(event_of(CostsSet, page=own, cost=row.cost))
    told += namer.limits_events(page, pattern)
    node.submit(told)
    return int(np.count_nonzero(has_moved))
