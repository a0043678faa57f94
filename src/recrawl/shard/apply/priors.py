"""What a corpus shows of its kinds of pages: the prior that a page's belief starts from."""

import numpy as np

from recrawl.core.belief.codes import BeliefCodes, decoded
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.belief.population import BROAD, refit_from_beliefs
from recrawl.shard.events import PriorsSet, event_of
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Tables

__all__ = ["WHOLE_PAGES", "propose_priors", "refitted", "teaches_priors"]

# Pages looked at, evenly spread over the slots.
_SAMPLE_MAX = 1 << 18
# What is assumed of the whole counts for one page, and the whole for so many of each kind.
WHOLE_PAGES = 1.0
_KIND_PAGES = 10.0
# Polls before priors are learned from them, and how much they must grow in between.
_POLLS_MIN = 50
_POLLS_GROWTH = 1.25
# Beyond these a shape is an artefact of few pages; real corpora have 0.4 to 0.9.
_SHAPE_MIN, _SHAPE_MAX = 0.15, 3.0


def teaches_priors(n_polls: int, n_learned: int) -> bool:
    """Return whether so many polls say more of priors than those already learned from did."""
    return n_polls >= max(_POLLS_MIN, _POLLS_GROWTH * n_learned)


def refitted(belief: GammaBelief, towards: GammaBelief, n_towards: float) -> GammaBelief:
    """Return the prior of pages believed so, as if some more were like ``towards``."""
    both = GammaBelief(
        np.append(belief.shape, towards.shape), np.append(belief.seconds, towards.seconds)
    )
    weight = np.ones(both.shape.size)
    weight[-1] = n_towards
    fitted = refit_from_beliefs(both, weight)
    mean_rate = float(fitted.shape / fitted.seconds)
    return GammaBelief.with_mean_rate(mean_rate, np.clip(fitted.shape, _SHAPE_MIN, _SHAPE_MAX))


def propose_priors(tables: Tables, settings: ShardSettings) -> PriorsSet | None:
    """Return the priors of all kinds, from beliefs about pages polled; None if there are none.

    One step of expectation maximisation, from the priors that the beliefs began with: repeated as
    polls come in, it moves a corpus to its own.
    """
    n_slots = int(tables.registers.n_slots[0])
    if settings.estimator == "counts" or n_slots == 0:
        return None
    slots = np.arange(0, n_slots, max(1, n_slots // _SAMPLE_MAX))
    pages = tables.pages
    kinds = pages.kind[slots]
    old = GammaBelief(tables.priors.shape[kinds], tables.priors.seconds[kinds])
    belief = decoded(BeliefCodes(pages.belief_shape[slots], pages.belief_seconds[slots]))
    # Without a poll a belief is its prior, and says nothing of the corpus.
    is_polled = (np.abs(belief.seconds - old.seconds) > 0.01 * old.seconds) & (
        pages.status[slots] > PageStatus.NEW
    )
    if not is_polled.any():
        return None
    kinds = kinds[is_polled]
    belief = GammaBelief(belief.shape[is_polled], belief.seconds[is_polled])
    whole = refitted(belief, BROAD, WHOLE_PAGES)
    n_kinds = tables.priors.shape.size
    fitted = [whole] * n_kinds
    if n_kinds > 1:
        for kind in np.unique(kinds):
            of_kind = GammaBelief(belief.shape[kinds == kind], belief.seconds[kinds == kind])
            fitted[kind] = refitted(of_kind, whole, _KIND_PAGES)
    return event_of(
        PriorsSet,
        epoch=tables.registers.epoch[0],
        kind=np.arange(n_kinds),
        shape=[float(prior.shape) for prior in fitted],
        seconds=[float(prior.seconds) for prior in fitted],
    )
