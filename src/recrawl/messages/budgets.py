"""Budgets: that of a whole corpus, and what each of its partitions uses and could use of it."""

from typing import Final, NamedTuple

__all__ = ["CURVE_POINTS_MAX", "Budget", "Demand", "Quota", "QuotaInUse"]

CURVE_POINTS_MAX: Final = 64
"""Largest number of points of a demand curve."""


class Budget(NamedTuple):
    """What a corpus may spend, and how its price is found."""

    per_second: float
    """Fetches or cost per second; inf if unlimited."""
    period_seconds: float = 0.0
    """Unit of time in which the user gave it; 0 if unlimited."""
    burst_seconds: float = 0.0
    """Time for which unspent budget is saved up."""
    unit: int = 0
    """`recrawl.shard.state.status.BudgetUnit`."""
    price_mode: int = 0
    """`recrawl.shard.state.status.PriceMode`."""
    price: float = 0.0
    """Value that a fetch must reach, if the price is fixed."""


class Quota(NamedTuple):
    """What a partition may spend."""

    epoch: int
    """Epoch of the owner that is to use it; void for any other."""
    per_second: float
    """Fetches or cost per second; inf if unlimited."""


class QuotaInUse(NamedTuple):
    """What a partition spends by its log."""

    epoch: int
    """Epoch of its owner."""
    per_second: float
    """Fetches or cost per second; inf if unlimited."""


class Demand(NamedTuple):
    """What a partition would spend at each price."""

    n_pages: int
    price: tuple[float, ...] = ()
    """Prices, ascending; at most `CURVE_POINTS_MAX`; none before the first decision."""
    spent: tuple[float, ...] = ()
    """Fetches or cost per second at each price."""
