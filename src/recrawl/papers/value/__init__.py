"""Values of a fetch that nodes do not use: Longevity's utilities, several signal sources."""

from recrawl.papers.value.longevity import (
    churn_due,
    churn_value,
    fitted_due,
    fitted_value,
    mean_divergence,
    regions_value,
    value_of_curve,
    value_of_samples,
)
from recrawl.papers.value.several_sources import several_sources_value

__all__ = [
    "churn_due",
    "churn_value",
    "fitted_due",
    "fitted_value",
    "mean_divergence",
    "regions_value",
    "several_sources_value",
    "value_of_curve",
    "value_of_samples",
]
