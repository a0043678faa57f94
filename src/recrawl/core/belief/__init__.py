"""What is believed of a page's change rate, with its uncertainty, and learned from few polls."""

from recrawl.core.belief.codes import BeliefCodes, decoded, encoded, observe_stored_polls
from recrawl.core.belief.gamma import (
    GammaBelief,
    after_last_modified,
    after_poll,
    after_polls,
    expected_freshness,
    faded,
    mean_rate,
    rate_quantile,
    rebased,
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
    "decoded",
    "encoded",
    "expected_freshness",
    "faded",
    "mean_rate",
    "observe_stored_polls",
    "rate_likelihoods",
    "rate_quantile",
    "rebased",
    "refit_from_beliefs",
    "very_stale_probability",
]
