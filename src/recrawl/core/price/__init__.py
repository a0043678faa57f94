"""Due times at a price, the demand for fetches at each price, and control of the budget."""

from typing import TYPE_CHECKING

from recrawl.core.price.common_price import CommonPrice, split_at_common_price
from recrawl.core.price.controller import PriceController
from recrawl.core.price.demand import DemandCells, demand_at, interpolate_price
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
from recrawl.core.price.knowledge_gradient import (
    best_net_freshness,
    knowledge_gradient,
    learning_due_elapsed,
)
from recrawl.core.price.promise import latest_elapsed
from recrawl.deprecated_names import find_moved_names

__all__ = [
    "CommonPrice",
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
    "interpolate_price",
    "interval_periods_of",
    "knowledge_gradient",
    "latest_elapsed",
    "learning_due_elapsed",
    "noisy_due_elapsed",
    "split_at_common_price",
]

# Names of recrawl 0.1.0.
_MOVED = {
    "ContinuousOptimum": "recrawl.papers.price.ContinuousOptimum",
    "asymptotic_interval": "recrawl.papers.price.asymptotic_interval",
    "continuous_optimum": "recrawl.papers.price.continuous_optimum",
    "cost_price": "recrawl.papers.price.cost_price",
    "cost_rate": "recrawl.papers.price.cost_rate",
    "freshness_at_interval": "recrawl.papers.price.freshness_at_interval",
    "optimal_interval": "recrawl.papers.price.optimal_interval",
    "price_for_budget": "recrawl.core.price.interpolate_price",
    "price_of_budget": "recrawl.papers.price.price_of_budget",
    "teaching_due_elapsed": "recrawl.core.price.learning_due_elapsed",
    "teaching_gain": "recrawl.core.price.knowledge_gradient",
    "thresholds_at_price": "recrawl.papers.price.thresholds_at_price",
}
# mypy would accept any attribute of a module that has this function.
if not TYPE_CHECKING:
    __getattr__ = find_moved_names(__name__, _MOVED)
