"""How much of a copy is wrong, how that grows with its age, and how to learn it for each page."""

from typing import TYPE_CHECKING

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
from recrawl.core.divergence.page_curves import (
    ComparedPolls,
    CurveEvidence,
    CurvePopulation,
    PageCurveLearner,
    is_pooling_due,
)
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
from recrawl.core.divergence.sketch_bytes import (
    ReadSketches,
    compare_read_sketches,
    pack_sketch,
    read_sketches,
)
from recrawl.deprecated_names import find_moved_names

__all__ = [
    "ChangeProfiles",
    "CombinedProfiles",
    "ComparedPolls",
    "CurveEvidence",
    "CurveLearner",
    "CurvePopulation",
    "DivergencePrior",
    "DivergenceTotals",
    "OnlineCurves",
    "OnlineFit",
    "PageCurveLearner",
    "ReadSketches",
    "SketchComparison",
    "Sketches",
    "StartedBases",
    "add_observations",
    "churn_ceiling",
    "churn_divergence",
    "churn_lifetime",
    "combine_profiles",
    "compare_pair",
    "compare_read_sketches",
    "compare_sketches",
    "is_pooling_due",
    "pack_sketch",
    "pooled_prior",
    "read_sketches",
    "scroll_divergence",
    "scroll_lifetime",
    "start_bases",
    "unseen_probability",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "BoundBasedPolicy": "recrawl.papers.divergence.BoundBasedPolicy",
    "Comparison": "recrawl.core.divergence.SketchComparison",
    "CurveFittingPolicy": "recrawl.papers.divergence.CurveFittingPolicy",
    "CurveKind": "recrawl.papers.divergence.CurveKind",
    "FittedCurves": "recrawl.papers.divergence.FittedCurves",
    "N_ITEMS_TRIED": "recrawl.papers.divergence.N_ITEMS_TRIED",
    "PageRegions": "recrawl.papers.divergence.PageRegions",
    "Periods": "recrawl.papers.divergence.Periods",
    "ValueBounds": "recrawl.papers.divergence.ValueBounds",
    "combined": "recrawl.core.divergence.combine_profiles",
    "fit_curves": "recrawl.papers.divergence.fit_curves",
    "regions_divergence": "recrawl.papers.divergence.regions_divergence",
    "risk_cap": "recrawl.papers.divergence.risk_cap",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
