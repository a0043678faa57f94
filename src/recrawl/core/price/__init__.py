"""The value above which a fetch is worth it: thresholds, optimum, demand and its control."""

from recrawl.core.price.controller import PriceController
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
from recrawl.core.price.promise import latest_elapsed
from recrawl.core.price.teaching import best_net_freshness, teaching_due_elapsed, teaching_gain

__all__ = [
    "DemandCells",
    "DueCodes",
    "DueTable",
    "PriceController",
    "averaged_due_elapsed",
    "averaged_noisy_due_elapsed",
    "best_net_freshness",
    "build_due_table",
    "demand_at",
    "due_elapsed",
    "due_periods_of",
    "interval_periods_of",
    "latest_elapsed",
    "noisy_due_elapsed",
    "price_for_budget",
    "teaching_due_elapsed",
    "teaching_gain",
]
