"""Apply patterns and a hold-out that changed since the corpus was last opened to tracked pages.

The log holds a digest of the patterns and the hold-out that were applied last.  If the digest is
unchanged, nothing is done; otherwise every URL is matched once.
"""

import hashlib
from dataclasses import asdict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.node.config.corpus_config import CorpusConfig, PatternConfig
from recrawl.node.config.holdout_section import HoldoutConfig
from recrawl.node.node import Node
from recrawl.node.numbering import Namer, held_out_limits, limits_columns
from recrawl.node.records import LogEntry, NamesNumbered
from recrawl.node.settings.holdout import held_out_pages
from recrawl.shard import CostsSet, ImportanceSet, KindsSet, LimitsSet, event_of
from recrawl.shard.events import slot_of_page
from recrawl.store import Names
from recrawl.urls import PatternSet

__all__ = ["apply_patterns"]


def _patterns_digest(config: CorpusConfig) -> str:
    rows = [{**asdict(pattern), "share": None} for pattern in config.patterns]
    # Without a hold-out the digest is that of older versions.
    text = repr(rows) + config.holdout.experiment
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def apply_patterns(
    node: Node,
    namer: Namer,
    config: CorpusConfig,
    before: tuple[PatternConfig, ...],
    holdout_before: HoldoutConfig | None = None,
) -> int:
    """Apply the patterns of a configuration to a node's pages; return how many changed kind.

    The hold-out is applied, too: pages of held-out hosts get its interval as their limits.

    Parameters
    ----------
    node, namer
        Node of a partition and its namer.
    config
        Current configuration.
    before
        Previous patterns, if known: settings that only they gave to a page are reset.
    holdout_before
        Previous hold-out, if known: hosts that are held out no longer follow recrawl again.
    """
    store = node.store
    n_applied = store.n_names(Names.PATTERNS)
    digest = f"{n_applied} {_patterns_digest(config)}"
    if n_applied:
        (last,) = store.names_of(Names.PATTERNS, [n_applied - 1])
        if (last or "").partition(" ")[2] == digest.partition(" ")[2]:
            return 0
    n_moved = 0
    if n_applied or config.patterns or config.holdout.share > 0:
        matcher = PatternSet([row.match for row in before])
        for page, url in node.scan_urls():
            pattern = namer.match(url)
            was = matcher.first_match(url) if before else np.full(page.size, -1, np.int16)
            _reset_dropped_settings(node, config, before, page, pattern, was)
            n_moved += _apply_to_pages(node, namer, config, page, pattern)
            _apply_holdout(node, namer, page, pattern, config.holdout, holdout_before)
    # Logged last, so that an interrupted run starts again.
    node.submit(
        [
            NamesNumbered(
                np.full(1, node.shard.epoch, np.int64),
                np.full(1, Names.PATTERNS, np.uint8),
                np.full(1, n_applied, np.uint32),
                pa.array([digest], pa.string()),
            )
        ]
    )
    return n_moved


def _reset_dropped_settings(
    node: Node,
    config: CorpusConfig,
    before: tuple[PatternConfig, ...],
    page: NDArray[np.int64],
    pattern: NDArray[np.int16],
    was: NDArray[np.int16],
) -> None:
    """Reset settings of pages that the previous patterns gave and the current ones do not."""
    events: tuple[tuple[str, type[ImportanceSet | CostsSet]], ...] = (
        ("importance", ImportanceSet),
        ("cost", CostsSet),
    )
    for name, kind in events:
        gave_before = np.array([getattr(row, name) is not None for row in before] + [False])
        gives_now = np.array([getattr(row, name) is not None for row in config.patterns] + [False])
        rows = gave_before[was] & ~gives_now[pattern]
        if rows.any():
            node.submit([event_of(kind, **{"page": page[rows], name: 1.0})])
    limited_before = np.array([limits_columns(row) is not None for row in before] + [False])
    limited_now = np.array([limits_columns(row) is not None for row in config.patterns] + [False])
    rows = limited_before[was] & ~limited_now[pattern]
    if rows.any():
        node.submit([_no_limits(page[rows])])


def _apply_holdout(
    node: Node,
    namer: Namer,
    page: NDArray[np.int64],
    pattern: NDArray[np.int16],
    holdout: HoldoutConfig,
    before: HoldoutConfig | None,
) -> None:
    """Set the interval of pages of held-out hosts; reset that of hosts held out no longer."""
    held = held_out_pages(node, page, holdout)
    entries: list[LogEntry] = []
    if before is not None:
        back = held_out_pages(node, page, before) & ~held
        if back.any():
            entries.append(_no_limits(page[back]))
            entries += namer.limits_events(page[back], pattern[back])
    if held.any():
        entries.append(held_out_limits(page[held], holdout))
    node.submit(entries)


def _no_limits(page: NDArray[np.int64]) -> LimitsSet:
    return event_of(
        LimitsSet,
        page=page,
        interval_seconds_min=0.0,
        interval_seconds_max=float("inf"),
        stale_seconds=0.0,
        stale_probability=0.0,
    )


def _apply_to_pages(
    node: Node,
    namer: Namer,
    config: CorpusConfig,
    page: NDArray[np.int64],
    pattern: NDArray[np.int16],
) -> int:
    kind = namer.kinds_of(pattern)
    has_moved = node.shard.tables.pages.kind[slot_of_page(page)] != kind
    entries: list[LogEntry] = []
    if has_moved.any():
        entries.append(event_of(KindsSet, page=page[has_moved], kind=kind[has_moved]))
        # The limits of the previous pattern no longer apply.
        entries.append(_no_limits(page[has_moved]))
    for i in np.unique(pattern[pattern >= 0]):
        own = page[pattern == i]
        row = config.patterns[i]
        if row.importance is not None:
            entries.append(event_of(ImportanceSet, page=own, importance=row.importance))
        if row.cost is not None:
            entries.append(event_of(CostsSet, page=own, cost=row.cost))
    entries += namer.limits_events(page, pattern)
    node.submit(entries)
    return int(np.count_nonzero(has_moved))
