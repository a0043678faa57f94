"""Precision and recall of the sources of signals as learned so far, with intervals."""

import math
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use, which saves importers a second

from recrawl.core.arrays import CountArray, FlagArray, FloatArray
from recrawl.core.belief.codes import decode_of
from recrawl.core.kernel import table_kernel
from recrawl.shard.apply.pages import seconds_of
from recrawl.shard.state.codes import link_row_of, prior_of
from recrawl.shard.state.rules import COUNTS, Rules
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import (
    SOURCE_PRECISION_GIVEN,
    Links,
    Pages,
    Priors,
    Sources,
    Tables,
)
from recrawl.shard.state.trust import precision_of
from recrawl.shard.state.words import number_of

__all__ = [
    "LearnedShare",
    "SourceQuality",
    "evidence_sources",
    "has_ignored_sources",
    "learned_quality",
]

# Bounds of a 90 % interval, as quantiles and in standard deviations.
_LOW, _HIGH = 0.05, 0.95
_DEVIATIONS = 1.645
_FREE = int(PageStatus.FREE)
_NEW = int(PageStatus.NEW)


class LearnedShare(NamedTuple):
    """Estimates of a share for each source, with the bounds of a 90 % interval."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


class SourceQuality(NamedTuple):
    """What a shard has learned about each source that has signalled."""

    source: CountArray
    precision: LearnedShare
    """Share of its signals that announce a change."""
    recall: LearnedShare
    """Share of the changes of its pages that it announces."""


@table_kernel
def _add_changes(
    pages: Pages,
    links: Links,
    sources: Sources,
    priors: Priors,
    rules: Rules,
    span: tuple[int, int, int],
    now: float,
    announced: FloatArray,
    others: FloatArray,
) -> None:
    """Add up the changes that each source announced, and those of its pages with another cause.

    ``span`` is the number of slots, the step from one to the next, and the slot from which on
    beliefs start from the old prior.

    A belief is its prior and the evidence of some unsignalled changes in some seconds.  Only these
    seconds count: of a page that changes several times between fetches, most of which are
    announced, the fetches show little about the other changes, and its belief is mostly the prior.
    """
    n_slots, step, rebased_to = span
    for slot in range(0, n_slots, step):
        n_sources = number_of(pages.n_sources[slot])
        if n_sources == 0 or pages.status[slot] == _FREE or pages.status[slot] == _NEW:
            continue
        shape, seconds = decode_of(pages.belief_shape[slot], pages.belief_seconds[slot])
        prior_shape, prior_seconds = prior_of(priors, pages.kind[slot], slot, rebased_to)
        lived = max(now - float(pages.first_seen[slot]), 1.0)
        seen_share = min(max(seconds - prior_seconds, 0.0) / lived, 1.0)
        all_announced = 0.0
        for k in range(n_sources):
            row = link_row_of(links, slot, k) if k > 0 else 0
            source = number_of(links.source[row]) if k > 0 else number_of(pages.source[slot])
            count = float(links.signal_count[row]) if k > 0 else float(pages.signal_count[slot])
            all_announced += seen_share * count * precision_of(sources, source, rules)
        for k in range(n_sources):
            row = link_row_of(links, slot, k) if k > 0 else 0
            source = number_of(links.source[row]) if k > 0 else number_of(pages.source[slot])
            count = float(links.signal_count[row]) if k > 0 else float(pages.signal_count[slot])
            own = seen_share * count * precision_of(sources, source, rules)
            announced[source] += step * own
            others[source] += step * (shape - prior_shape + all_announced - own)


def evidence_sources(sources: Sources) -> CountArray:
    """Return the sources that have signalled, without those that announce nothing, as was set.

    Signals of a source whose precision was set to 0 are no evidence: recrawl ignores them, and
    nobody need judge the source by its figures.

    Parameters
    ----------
    sources
        Table of sources of a shard.
    """
    return np.flatnonzero((sources.n_signals > 0) & ~_are_ignored(sources))


def has_ignored_sources(sources: Sources) -> bool:
    """Return whether there are sources whose signals are no evidence, see `evidence_sources`."""
    return bool(_are_ignored(sources).any())


def _are_ignored(sources: Sources) -> FlagArray:
    is_given = (sources.flags & SOURCE_PRECISION_GIVEN) > 0
    ignored: FlagArray = is_given & (sources.given_precision == 0.0)
    return ignored


def _precision_estimate(sources: Sources, rules: Rules, numbers: CountArray) -> LearnedShare:
    is_given = (sources.flags[numbers] & SOURCE_PRECISION_GIVEN) > 0
    total = sources.total[numbers] + rules.precision_prior_total
    true = np.clip(sources.true[numbers] + rules.precision_prior_true, 1e-9, total - 1e-9)
    mean = np.array([precision_of(sources, number, rules) for number in numbers.tolist()])
    low, high = (scipy.special.betaincinv(true, total - true, level) for level in (_LOW, _HIGH))
    return LearnedShare(mean, np.where(is_given, mean, low), np.where(is_given, mean, high))


def learned_quality(
    tables: Tables, rules: Rules, *, n_slots_max: int | None = None
) -> SourceQuality:
    """Return the learned precision and recall of all sources in `evidence_sources`.

    The recall follows from the precision, the number of signals, and the evidence about unsignalled
    changes of the pages; with the estimator ``counts`` there is none, and it is nan.

    Parameters
    ----------
    tables, rules
        State and rules of a shard.
    n_slots_max
        Largest number of slots to look at for the recall; all by default.
    """
    sources = tables.sources
    numbers = evidence_sources(sources)
    precision = _precision_estimate(sources, rules, numbers)
    if rules.estimator == COUNTS:
        unknown = np.full(numbers.size, math.nan)
        return SourceQuality(numbers, precision, LearnedShare(unknown, unknown, unknown))
    registers = tables.registers
    now_ms = int(registers.now[0])
    n_slots = int(registers.n_slots[0])
    step = 1 if n_slots_max is None else -(-n_slots // max(n_slots_max, 1))
    announced, others = np.zeros(sources.true.size), np.zeros(sources.true.size)
    _add_changes(
        tables.pages,
        tables.links,
        sources,
        tables.priors,
        rules,
        (n_slots, max(step, 1), int(registers.rebased_to[0])),
        float(seconds_of(now_ms, now_ms)),
        announced,
        others,
    )
    # Half a change more of each: no recall is certain.
    true, missed = announced[numbers] + 0.5, np.maximum(others[numbers], 0.0) + 0.5
    total = sources.total[numbers] + rules.precision_prior_total
    # The logit of the recall is log(true) - log(missed); the variances are relative ones: of the
    # precision, and of both numbers of changes.
    of_precision = (1.0 - precision.mean) / np.maximum(precision.mean * (total + 1.0), 1e-9)
    deviation = np.sqrt(of_precision + 1.0 / true + 1.0 / missed)
    logit = np.log(true) - np.log(missed)
    mean, low, high = (
        1.0 / (1.0 + np.exp(-np.clip(logit + z * deviation, -50.0, 50.0)))
        for z in (0.0, -_DEVIATIONS, _DEVIATIONS)
    )
    return SourceQuality(numbers, precision, LearnedShare(mean, low, high))
