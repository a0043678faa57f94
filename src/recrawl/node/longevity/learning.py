"""Compare the content of fetches with earlier versions, and learn the divergence curves of pages.

All of this happens before an outcome is logged: its record has the divergence and the new profile
of the page, and a `CurvesSet` follows it.  A replay reads them and computes nothing again.
"""

from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.belief.gamma import after_poll, mean_rate
from recrawl.core.divergence import (
    ComparedPolls,
    CurvePopulation,
    ReadSketches,
    compare_read_sketches,
    read_sketches,
)
from recrawl.node.longevity.population import LEARNER, beliefs_of, population_of
from recrawl.node.longevity.stored_profiles import (
    N_BASES,
    PageProfiles,
    read_profiles,
    write_profiles,
)
from recrawl.shard import CurvesSet, Shard, Verdict, event_of
from recrawl.shard.events import slot_of_page
from recrawl.shard.state.codes import ratio_code_of
from recrawl.store import Store

__all__ = ["CurveLearning", "LearnedPolls", "ReportedPolls"]


class ReportedPolls(NamedTuple):
    """Outcomes of fetches as far as they matter here, each page at most once."""

    page: NDArray[np.int64]
    fetched: NDArray[np.int64]
    """Time of the fetch, in shard seconds."""
    verdict: NDArray[np.uint8]
    divergence: NDArray[np.float32]
    """Divergence from the previous version as reported; nan if not known."""
    sketch: pa.BinaryArray
    is_settled: NDArray[np.bool_]
    """Whether the outcome has no order, or is the first to report its order."""


class LearnedPolls(NamedTuple):
    """What polls show about the content of their pages."""

    divergence: NDArray[np.float32]
    """Divergence from the previous version; nan if not known."""
    profile: pa.BinaryArray
    """New profiles of the pages, null where a profile stays as it is."""
    curves: CurvesSet | None
    """New curves, of the pages whose curve differs from the present one."""


class _Known(NamedTuple):
    """What is known of a page before a poll."""

    sketch: bytes | None
    profile: bytes | None
    fetched: int


class CurveLearning:
    """Learns from the outcomes of one report; a page may occur in several calls, in turn.

    With the objective *freshness*, which does not need curves, a profile has only totals over the
    changed polls of its page, so that `explain` can say how much a change replaces.

    Parameters
    ----------
    shard, store
        Shard and store of the partition; neither is changed.
    """

    def __init__(self, shard: Shard, store: Store) -> None:
        self._shard = shard
        self._store = store
        self._is_fragments = shard.settings.objective == "fragments"
        self._population: tuple[CurvePopulation, int] | None = None
        self._earlier: dict[int, _Known] = {}

    def learn(self, polls: ReportedPolls) -> LearnedPolls:
        """Return what some outcomes show."""
        divergence = np.where(
            (polls.divergence >= 0) & (polls.divergence <= 1), polls.divergence, np.nan
        ).astype(np.float32)
        profile: list[bytes | None] = [None] * polls.page.size
        rows = self._rows_to_learn_from(polls, divergence)
        if rows.size == 0:
            return LearnedPolls(polls.divergence, pa.array(profile, pa.binary()), None)
        known = self._stored_pages(polls.page[rows])
        # An outcome no later than the last one of its page will not count.
        is_later = polls.fetched[rows] > np.array([one.fetched for one in known])
        rows, known = rows[is_later], list(compress(known, is_later.tolist()))
        page, verdict = polls.page[rows], polls.verdict[rows]
        given = polls.sketch.take(pa.array(rows)).to_pylist()
        # A page that has not changed still has the version of the last fetch.
        present = [
            one.sketch if sketch is None and of_poll == Verdict.UNCHANGED else sketch
            for sketch, one, of_poll in zip(given, known, verdict.tolist(), strict=True)
        ]
        new = read_sketches(present)
        compared = compare_read_sketches(read_sketches([one.sketch for one in known]), new)
        divergence[rows] = np.where(np.isnan(compared), divergence[rows], compared)
        pages = read_profiles([one.profile for one in known])
        last = np.array([one.fetched for one in known], np.int64)
        belief = beliefs_of(self._shard, slot_of_page(page))
        elapsed = np.where(last > 0, polls.fetched[rows] - last, 0).astype(np.float64)
        changed = verdict == Verdict.CHANGED
        is_first = last == 0
        belief = after_poll(belief, elapsed, changed & ~is_first)
        compared_polls = ComparedPolls(
            at=polls.fetched[rows].astype(np.float64),
            elapsed=elapsed,
            belief=belief,
            changed=changed & ~is_first,
            divergence=divergence[rows].astype(np.float64),
            from_bases=np.full((rows.size, N_BASES), np.nan),
            has_version=new.is_known,
        )
        self._add_polls(pages, compared_polls, new)
        written = write_profiles(pages)
        for row, at, one, sketch, value in zip(
            rows.tolist(), polls.fetched[rows].tolist(), known, present, written, strict=True
        ):
            is_kept = _has_evidence(value) and value != one.profile
            profile[row] = value if is_kept else None
            self._earlier[int(polls.page[row])] = _Known(
                sketch, value if is_kept else one.profile, at
            )
        curves = self._curves(page, pages, mean_rate(belief)) if self._is_fragments else None
        return LearnedPolls(divergence, pa.array(profile, pa.binary()), curves)

    def _rows_to_learn_from(
        self, polls: ReportedPolls, divergence: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        is_seen = polls.is_settled & (polls.verdict <= Verdict.REVERTED)
        if not self._is_fragments:
            has_sketch = polls.sketch.is_valid().to_numpy(zero_copy_only=False)
            is_seen &= (polls.verdict == Verdict.CHANGED) & (has_sketch | ~np.isnan(divergence))
        return np.flatnonzero(is_seen)

    def _stored_pages(self, page: NDArray[np.int64]) -> list[_Known]:
        records = self._store.records_of(page)
        fetched_at = self._shard.tables.pages.fetched_at[slot_of_page(page)].tolist()
        stored = map(_Known, records.sketch, records.profile, fetched_at)
        return [
            self._earlier.get(one, found) for one, found in zip(page.tolist(), stored, strict=True)
        ]

    def _add_polls(self, pages: PageProfiles, polls: ComparedPolls, new: ReadSketches) -> None:
        """Add polls to the evidence about their pages; with *freshness*, only to the totals."""
        rows = np.arange(polls.at.size)
        if not self._is_fragments:
            LEARNER.learner.observe(
                pages.evidence.totals,
                rows,
                polls.belief,
                polls.elapsed,
                polls.changed,
                polls.divergence,
            )
            return
        from_bases = compare_read_sketches(new, pages.base_sketches()).reshape(-1, N_BASES)
        slot, is_started = LEARNER.observe(
            pages.evidence, rows, polls._replace(from_bases=from_bases)
        )
        started = np.flatnonzero(is_started)
        pages.keep_sketches(started, slot[started], new.take(started))

    def _curves(
        self, page: NDArray[np.int64], pages: PageProfiles, change_rate: NDArray[np.float64]
    ) -> CurvesSet | None:
        """Return the curves of pages that differ from the shard's."""
        if self._population is None:
            self._population = population_of(self._store)
        population, n_pooled = self._population
        curves = LEARNER.curves(pages.evidence, population, change_rate)
        slots, table = slot_of_page(page), self._shard.tables.pages
        ceiling = np.clip((curves.ceiling * 255.0 + 0.5).astype(np.int64), 1, 255)
        ratio = np.array([ratio_code_of(one) for one in curves.ratio.tolist()])
        differs = (table.ceiling[slots] != ceiling) | (table.ratio[slots] != ratio)
        if n_pooled == 0:
            # A corpus that nobody reports content of has no use for curves.
            evidence = pages.evidence
            has_base = ~np.isnan(evidence.profiles.base_at).all(axis=1)
            differs &= has_base | (evidence.totals.n_changed > 0)
        if not differs.any():
            return None
        return event_of(
            CurvesSet,
            page=page[differs],
            ceiling=curves.ceiling[differs],
            ratio=curves.ratio[differs],
            scroll_items=0,
        )


def _has_evidence(profile: bytes) -> bool:
    """Return whether a profile says anything: a base, or a total."""
    return any(profile[1:])
