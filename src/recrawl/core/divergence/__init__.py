"""How much of a copy is wrong, how that grows with its age, and learning it page by page."""

from recrawl.core.divergence.curves import (
    churn_ceiling,
    churn_divergence,
    churn_lifetime,
    scroll_divergence,
    scroll_lifetime,
)
from recrawl.core.divergence.online_curves import (
    CurveLearner,
    DivergenceTotals,
    OnlineCurves,
    pooled_prior,
)
from recrawl.core.divergence.online_fit import DivergencePrior, OnlineFit
from recrawl.core.divergence.profile import (
    ChangeProfiles,
    CombinedProfiles,
    StartedBases,
    add_observations,
    combined,
    start_bases,
)
from recrawl.core.divergence.sketch import (
    Comparison,
    Sketches,
    compare_pair,
    compare_sketches,
    unseen_probability,
)

__all__ = [
    "ChangeProfiles",
    "CombinedProfiles",
    "Comparison",
    "CurveLearner",
    "DivergencePrior",
    "DivergenceTotals",
    "OnlineCurves",
    "OnlineFit",
    "Sketches",
    "StartedBases",
    "add_observations",
    "churn_ceiling",
    "churn_divergence",
    "churn_lifetime",
    "combined",
    "compare_pair",
    "compare_sketches",
    "pooled_prior",
    "scroll_divergence",
    "scroll_lifetime",
    "start_bases",
    "unseen_probability",
]
