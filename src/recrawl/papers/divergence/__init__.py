"""Fitting divergence curves, and the policies of Longevity that use them."""

from recrawl.papers.divergence.fit import N_ITEMS_TRIED, CurveKind, FittedCurves, fit_curves
from recrawl.papers.divergence.policies import (
    BoundBasedPolicy,
    CurveFittingPolicy,
    Periods,
    ValueBounds,
    risk_cap,
)
from recrawl.papers.divergence.regions import PageRegions, regions_divergence

__all__ = [
    "N_ITEMS_TRIED",
    "BoundBasedPolicy",
    "CurveFittingPolicy",
    "CurveKind",
    "FittedCurves",
    "PageRegions",
    "Periods",
    "ValueBounds",
    "fit_curves",
    "regions_divergence",
    "risk_cap",
]
