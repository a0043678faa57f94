"""Optimal prices and fetch rates when everything about the pages is known."""

from recrawl.papers.price.budget import price_of_budget
from recrawl.papers.price.cost import (
    asymptotic_interval,
    cost_price,
    cost_rate,
    freshness_at_interval,
    optimal_interval,
)
from recrawl.papers.price.optimum import ContinuousOptimum, continuous_optimum, thresholds_at_price

__all__ = [
    "ContinuousOptimum",
    "asymptotic_interval",
    "continuous_optimum",
    "cost_price",
    "cost_rate",
    "freshness_at_interval",
    "optimal_interval",
    "price_of_budget",
    "thresholds_at_price",
]
