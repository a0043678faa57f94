"""What the pages of a partition have in common: learned now and then, logged, kept in the store."""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.belief.gamma import GammaBelief, mean_rate
from recrawl.core.divergence import (
    CurvePopulation,
    DivergencePrior,
    PageCurveLearner,
    is_pooling_due,
)
from recrawl.kernel_mode import kernel_mode
from recrawl.node.longevity.stored_profiles import BASE_HASHES, read_profiles
from recrawl.node.records import CurvePriorSet
from recrawl.shard import Shard
from recrawl.shard.state.codes import rate_of
from recrawl.shard.state.status import PageStatus
from recrawl.store import Store

__all__ = [
    "LEARNER",
    "beliefs_of",
    "population_bytes",
    "population_of",
    "propose_population",
]

LEARNER = PageCurveLearner()
"""Learner of the divergence curves of all nodes."""

# Largest number of pages, evenly spread over the slots, that the population is learned from: each
# takes microseconds with compiled kernels, and milliseconds with interpreted ones.
_SAMPLE_MAX = 1_000
_SAMPLE_INTERPRETED_MAX = 100

# Median ratio and its deviation, median ceiling and its deviation, mean divergence, polls.
_LAYOUT = struct.Struct("<5dq")
_FIRST = CurvePopulation(prior=DivergencePrior(sketch_size=BASE_HASHES))


def population_bytes(entry: CurvePriorSet) -> bytes:
    """Return the bytes that the store keeps of a population."""
    _, *columns = entry
    return _LAYOUT.pack(*(column[-1] for column in columns))


def population_of(store: Store) -> tuple[CurvePopulation, int]:
    """Return the latest population, and the number of polls then; 0 if none was learned yet."""
    value = store.curve_prior
    if value is None or len(value) != _LAYOUT.size:
        return _FIRST, 0
    ratio, ratio_sd, ceiling, ceiling_sd, mean, n_polls = _LAYOUT.unpack(value)
    prior = DivergencePrior(
        ratio_median=ratio,
        log_ratio_sd=ratio_sd,
        ceiling_median=ceiling,
        logit_ceiling_sd=ceiling_sd,
        sketch_size=BASE_HASHES,
    )
    return CurvePopulation(prior=prior, mean_divergence=mean), n_polls


def beliefs_of(shard: Shard, slots: NDArray[np.int64]) -> GammaBelief:
    """Return the beliefs about the change rates of pages; a sharp one where a page has counts."""
    pages = shard.tables.pages
    if shard.settings.estimator == "counts":
        rate = np.array([rate_of(pages, shard.rules, slot)[0] for slot in slots.tolist()])
        return GammaBelief.with_mean_rate(rate, np.full(slots.size, 1e3))
    return decode_beliefs(BeliefCodes(pages.belief_shape[slots], pages.belief_seconds[slots]))


def propose_population(shard: Shard, store: Store) -> CurvePriorSet | None:
    """Return what a sample of pages has in common; None while there is too little new.

    Only for the objective *fragments*.
    """
    n_polls = int(shard.tables.registers.n_polls[0])
    if shard.settings.objective != "fragments":
        return None
    population, n_pooled = population_of(store)
    if not is_pooling_due(n_polls, n_pooled):
        return None
    pages, n_slots = shard.tables.pages, int(shard.tables.registers.n_slots[0])
    n_max = _SAMPLE_MAX if kernel_mode() == "compiled" else _SAMPLE_INTERPRETED_MAX
    slots = np.arange(0, n_slots, max(1, math.ceil(n_slots / n_max)))
    slots = slots[(pages.status[slots] != PageStatus.FREE) & (pages.fetched_at[slots] > 0)]
    page = slots | pages.generation[slots].astype(np.int64) << 32
    evidence = read_profiles(store.records_of(page).profile).evidence
    rate = mean_rate(beliefs_of(shard, slots))
    learned = LEARNER.pool(evidence, population, rate)
    prior = learned.prior
    numbers = (
        prior.ratio_median,
        prior.log_ratio_sd,
        prior.ceiling_median,
        prior.logit_ceiling_sd,
        learned.mean_divergence,
    )
    # Pages without evidence say nothing about the population.
    if not (evidence.profiles.n_observed.any() or (evidence.totals.n_changed > 0).any()):
        return None
    if not all(0.0 < number < math.inf for number in numbers):
        return None
    ratio, ratio_sd, ceiling, ceiling_sd, mean = (np.array([number]) for number in numbers)
    return CurvePriorSet(
        epoch=np.array([shard.epoch], np.int64),
        ratio_median=ratio,
        log_ratio_sd=ratio_sd,
        ceiling_median=ceiling,
        logit_ceiling_sd=ceiling_sd,
        mean_divergence=mean,
        n_polls=np.array([n_polls], np.int64),
    )
