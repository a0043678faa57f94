"""The small vocabularies of a shard's columns and events."""

from enum import IntEnum

__all__ = [
    "BudgetUnit",
    "LeaseStage",
    "Objective",
    "PageStatus",
    "PriceMode",
    "Reason",
    "Transition",
    "Verdict",
]


class PageStatus(IntEnum):
    """What a slot holds."""

    FREE = 0
    NEW = 1
    """Added and never fetched."""
    ACTIVE = 2
    GONE = 3
    """Not found when last fetched; a version like any other."""
    MOVED = 4
    DISALLOWED = 5
    """Closed to us by the site's rules."""
    RETIRED = 6
    """Given up, until the owner adds it again or a fetch without an order finds it."""


class Verdict(IntEnum):
    """What a fetch found."""

    UNCHANGED = 0
    CHANGED = 1
    REVERTED = 2
    """Changed back to a recent version: no new change."""
    GONE = 3
    MOVED = 4
    DISALLOWED = 5
    TRANSIENT_ERROR = 6
    """Nothing was seen of the page: 429, 5xx, time-outs."""


class Transition(IntEnum):
    """What an outcome means to whoever follows the changes of a corpus."""

    NONE = 0
    NEW = 1
    CHANGED = 2
    REVERTED = 3
    GONE = 4
    MOVED = 5
    RETURNED = 6
    RETIRED = 7


class LeaseStage(IntEnum):
    """What became of an order."""

    EMPTY = 0
    IN_FLIGHT = 1
    EXPIRED = 2
    CLOSED = 3


class PriceMode(IntEnum):
    """What sets the price of a fetch."""

    BUDGET = 0
    FIXED = 1
    """By hand, or as a cost ratio: what a fetch costs over what a second of staleness does."""


class BudgetUnit(IntEnum):
    """What a budget counts."""

    FETCHES = 0
    COST = 1


class Objective(IntEnum):
    """What is kept low: stale copies, or the stale share of copies."""

    FRESHNESS = 0
    FRAGMENTS = 1


class Reason(IntEnum):
    """Why a page was ordered."""

    VALUE = 0
    """Worth the price."""
    CEILING = 1
    """A limit of its own says by when."""
    DISCOVERY = 2
    """Never fetched, by the share kept for such pages."""
    AUDIT = 3
    """Chosen by hash, to measure what is claimed."""
    SPARE = 4
    """Below the price, but the budget was not spent otherwise."""
