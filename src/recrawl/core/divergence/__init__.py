"""How much of a copy is wrong, how that grows with its age, and how to learn it for each page."""

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
    combine_profiles,
    start_bases,
)
from recrawl.core.divergence.sketch import (
    SketchComparison,
    Sketches,
    compare_pair,
    compare_sketches,
    unseen_probability,
)

__all__ = [
    "ChangeProfiles",
    "CombinedProfiles",
    "CurveLearner",
    "DivergencePrior",
    "DivergenceTotals",
    "OnlineCurves",
    "OnlineFit",
    "SketchComparison",
    "Sketches",
    "StartedBases",
    "add_observations",
    "churn_ceiling",
    "churn_divergence",
    "churn_lifetime",
    "combine_profiles",
    "compare_pair",
    "compare_sketches",
    "pooled_prior",
    "scroll_divergence",
    "scroll_lifetime",
    "start_bases",
    "unseen_probability",
]
