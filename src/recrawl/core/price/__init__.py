"""The value above which a fetch is worth it: thresholds, optimum, demand and its control."""

from recrawl.core.price.budget import price_of_budget
from recrawl.core.price.controller import PriceController
from recrawl.core.price.cost import (
    asymptotic_interval,
    cost_price,
    cost_rate,
    freshness_at_interval,
    optimal_interval,
)
from recrawl.core.price.demand import DemandCells, demand_at, price_for_budget
from recrawl.core.price.due import (
    averaged_due_elapsed,
    averaged_noisy_due_elapsed,
    due_elapsed,
    noisy_due_elapsed,
)
from recrawl.core.price.due_table import (
    DueCodes,
    DueTable,
    build_due_table,
    due_periods_of,
    interval_periods_of,
)
from recrawl.core.price.optimum import (
    ContinuousOptimum,
    continuous_optimum,
    thresholds_at_price,
)
from recrawl.core.price.promise import latest_elapsed
from recrawl.core.price.teaching import best_net_freshness, teaching_due_elapsed, teaching_gain

__all__ = [
    "ContinuousOptimum",
    "DemandCells",
    "DueCodes",
    "DueTable",
    "PriceController",
    "asymptotic_interval",
    "averaged_due_elapsed",
    "averaged_noisy_due_elapsed",
    "best_net_freshness",
    "build_due_table",
    "continuous_optimum",
    "cost_price",
    "cost_rate",
    "demand_at",
    "due_elapsed",
    "due_periods_of",
    "freshness_at_interval",
    "interval_periods_of",
    "latest_elapsed",
    "noisy_due_elapsed",
    "optimal_interval",
    "price_for_budget",
    "price_of_budget",
    "teaching_due_elapsed",
    "teaching_gain",
    "thresholds_at_price",
]
