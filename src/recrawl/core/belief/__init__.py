"""Beliefs about a page's change rate: probability distributions, learned from few polls."""

from typing import TYPE_CHECKING

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
from recrawl.deprecated_names import find_moved_names

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

# Names of recrawl 0.1.0.
_MOVED = {
    "GridBelief": "recrawl.papers.belief.GridBelief",
    "decoded": "recrawl.core.belief.decode_beliefs",
    "encoded": "recrawl.core.belief.encode_beliefs",
    "faded": "recrawl.core.belief.fade_beliefs",
    "rebased": "recrawl.core.belief.rebase_beliefs",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
