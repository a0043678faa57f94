"""Due times at a price, the demand for fetches at each price, and control of the budget."""

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
    "interpolate_price",
    "interval_periods_of",
    "knowledge_gradient",
    "latest_elapsed",
    "learning_due_elapsed",
    "noisy_due_elapsed",
]
