"""Learn the priors of kinds of pages from beliefs about the pages polled so far."""

import numpy as np

from recrawl.core.belief.codes import BeliefCodes, decode_beliefs
from recrawl.core.belief.gamma import GammaBelief
from recrawl.core.belief.population import BROAD, refit_from_beliefs
from recrawl.shard.events import PriorsSet, event_of
from recrawl.shard.settings import ShardSettings
from recrawl.shard.state.status import PageStatus
from recrawl.shard.state.tables import Tables

__all__ = ["WHOLE_PAGES", "is_refit_due", "propose_priors", "refit_prior"]

# Size of the sample of pages, evenly spread over the slots.
_SAMPLE_MAX = 1 << 18
# Number of pages that the broad prior counts for, and that the corpus counts for in each kind.
WHOLE_PAGES = 1.0
_KIND_PAGES = 10.0
# Number of polls before priors are learned, and growth needed before they are learned again.
_POLLS_MIN = 50
_POLLS_GROWTH = 1.25
# Shapes outside this range are artefacts of few pages; real corpora have 0.4 to 0.9.
_SHAPE_MIN, _SHAPE_MAX = 0.15, 3.0


def is_refit_due(n_polls: int, n_learned: int) -> bool:
    """Return whether there are enough polls, or enough new ones, to learn priors from."""
    return n_polls >= max(_POLLS_MIN, _POLLS_GROWTH * n_learned)


def refit_prior(belief: GammaBelief, towards: GammaBelief, n_towards: float) -> GammaBelief:
    """Return the prior fitted to beliefs about pages and ``n_towards`` pages like ``towards``."""
    both = GammaBelief(
        np.append(belief.shape, towards.shape), np.append(belief.seconds, towards.seconds)
    )
    weight = np.ones(both.shape.size)
    weight[-1] = n_towards
    fitted = refit_from_beliefs(both, weight)
    mean_rate = float(fitted.shape / fitted.seconds)
    return GammaBelief.with_mean_rate(mean_rate, np.clip(fitted.shape, _SHAPE_MIN, _SHAPE_MAX))


def propose_priors(tables: Tables, settings: ShardSettings) -> PriorsSet | None:
    """Return the priors of all kinds, from beliefs about polled pages; None if there are none.

    This is one step of expectation maximisation; repeated as polls come in, it converges to the
    priors of the corpus.
    """
    n_slots = int(tables.registers.n_slots[0])
    if settings.estimator == "counts" or n_slots == 0:
        return None
    slots = np.arange(0, n_slots, max(1, n_slots // _SAMPLE_MAX))
    pages = tables.pages
    kinds = pages.kind[slots]
    old = GammaBelief(tables.priors.shape[kinds], tables.priors.seconds[kinds])
    belief = decode_beliefs(BeliefCodes(pages.belief_shape[slots], pages.belief_seconds[slots]))
    # A belief without polls equals its prior and says nothing about the corpus.
    is_polled = (np.abs(belief.seconds - old.seconds) > 0.01 * old.seconds) & (
        pages.status[slots] > PageStatus.NEW
    )
    if not is_polled.any():
        return None
    kinds = kinds[is_polled]
    belief = GammaBelief(belief.shape[is_polled], belief.seconds[is_polled])
    whole = refit_prior(belief, BROAD, WHOLE_PAGES)
    n_kinds = tables.priors.shape.size
    fitted = [whole] * n_kinds
    if n_kinds > 1:
        for kind in np.unique(kinds):
            of_kind = GammaBelief(belief.shape[kinds == kind], belief.seconds[kinds == kind])
            fitted[kind] = refit_prior(of_kind, whole, _KIND_PAGES)
    return event_of(
        PriorsSet,
        epoch=tables.registers.epoch[0],
        kind=np.arange(n_kinds),
        shape=[float(prior.shape) for prior in fitted],
        seconds=[float(prior.seconds) for prior in fitted],
    )
