"""Patterns that changed since a corpus was last opened: applied to the pages that are there.

What patterns a corpus's pages were last matched against is on record, as a digest.  While it is the
same nothing is looked at; otherwise every URL is matched once.
"""

import hashlib
from dataclasses import asdict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.node.config.corpus_config import CorpusConfig, PatternConfig
from recrawl.node.node import Node
from recrawl.node.numbering import Namer, limits_columns
from recrawl.node.records import Happening, Named
from recrawl.shard import CostsSet, ImportanceSet, KindsSet, LimitsSet, event_of
from recrawl.shard.events import slot_of
from recrawl.store import Names
from recrawl.urls import PatternSet

__all__ = ["apply_patterns"]


def _digest(patterns: tuple[PatternConfig, ...]) -> str:
    rows = [{**asdict(pattern), "share": None} for pattern in patterns]
    return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def apply_patterns(
    node: Node, namer: Namer, config: CorpusConfig, before: tuple[PatternConfig, ...]
) -> int:
    """Bring a node's pages in line with the patterns of a configuration; return how many moved.

    Parameters
    ----------
    node, namer
        Of a partition.
    config
        What holds now.
    before
        The patterns that held before, as far as is known: what one of them gave to a page and
        none does any more is taken back.
    """
    store = node.store
    n_applied = store.n_named(Names.PATTERNS)
    digest = f"{n_applied} {_digest(config.patterns)}"
    if n_applied:
        (last,) = store.names_of(Names.PATTERNS, [n_applied - 1])
        if (last or "").partition(" ")[2] == digest.partition(" ")[2]:
            return 0
    n_moved = 0
    if n_applied or config.patterns:
        matcher = PatternSet([row.match for row in before])
        for page, url in node.scan_urls():
            pattern = namer.match(url)
            was = matcher.first_match(url) if before else np.full(page.size, -1, np.int16)
            _take_back(node, config, before, page, pattern, was)
            n_moved += _apply_to(node, namer, config, page, pattern)
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


def _take_back(
    node: Node,
    config: CorpusConfig,
    before: tuple[PatternConfig, ...],
    page: NDArray[np.int64],
    pattern: NDArray[np.int16],
    was: NDArray[np.int16],
) -> None:
    """Undo what patterns gave to pages where no pattern gives it any more."""
    events: tuple[tuple[str, type[ImportanceSet | CostsSet]], ...] = (
        ("importance", ImportanceSet),
        ("cost", CostsSet),
    )
    for name, kind in events:
        gave = np.array([getattr(row, name) is not None for row in before] + [False])
        gives = np.array([getattr(row, name) is not None for row in config.patterns] + [False])
        rows = gave[was] & ~gives[pattern]
        if rows.any():
            node.submit([event_of(kind, **{"page": page[rows], name: 1.0})])
    bound = np.array([limits_columns(row) is not None for row in before] + [False])
    binds = np.array([limits_columns(row) is not None for row in config.patterns] + [False])
    rows = bound[was] & ~binds[pattern]
    if rows.any():
        node.submit([_no_limits(page[rows])])


def _no_limits(page: NDArray[np.int64]) -> LimitsSet:
    return event_of(
        LimitsSet,
        page=page,
        interval_seconds_min=0.0,
        interval_seconds_max=float("inf"),
        stale_seconds=0.0,
        stale_probability=0.0,
    )


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
        told.append(_no_limits(page[has_moved]))
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
