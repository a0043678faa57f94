"""Beliefs about a page's change rate: probability distributions, learned from few polls."""

from recrawl.core.belief.codes import (
    BeliefCodes,
    decode_beliefs,
    encode_beliefs,
    observe_stored_polls,
)
from recrawl.core.belief.gamma import (
    GammaBelief,
    after_last_modified,
    after_poll,
    after_polls,
    expected_freshness,
    fade_beliefs,
    mean_rate,
    rate_quantile,
    rebase_beliefs,
    very_stale_probability,
)
from recrawl.core.belief.population import (
    BROAD,
    PopulationPrior,
    rate_likelihoods,
    refit_from_beliefs,
)

__all__ = [
    "BROAD",
    "BeliefCodes",
    "GammaBelief",
    "PopulationPrior",
    "after_last_modified",
    "after_poll",
    "after_polls",
    "decode_beliefs",
    "encode_beliefs",
    "expected_freshness",
    "fade_beliefs",
    "mean_rate",
    "observe_stored_polls",
    "rate_likelihoods",
    "rate_quantile",
    "rebase_beliefs",
    "refit_from_beliefs",
    "very_stale_probability",
]
