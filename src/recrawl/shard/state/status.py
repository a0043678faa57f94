"""Enumerations used in a shard's columns and events."""

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
    """State of the page in a slot."""

    FREE = 0
    NEW = 1
    """Added and never fetched."""
    ACTIVE = 2
    GONE = 3
    """Not found when last fetched; counts as a version of the page."""
    MOVED = 4
    DISALLOWED = 5
    """The site's rules forbid fetching it."""
    RETIRED = 6
    """Given up until the user adds it again, or a fetch without an order finds it."""


class Verdict(IntEnum):
    """Result of a fetch."""

    UNCHANGED = 0
    CHANGED = 1
    REVERTED = 2
    """Changed back to a recent version; does not count as a change."""
    GONE = 3
    MOVED = 4
    DISALLOWED = 5
    TRANSIENT_ERROR = 6
    """The page was not seen: status 429 or 5xx, or a time-out."""


class Transition(IntEnum):
    """Change of a page's state that an outcome causes, as reported in the feed of changes."""

    NONE = 0
    NEW = 1
    CHANGED = 2
    REVERTED = 3
    GONE = 4
    MOVED = 5
    RETURNED = 6
    RETIRED = 7


class LeaseStage(IntEnum):
    """Stage of an order's lease."""

    EMPTY = 0
    IN_FLIGHT = 1
    EXPIRED = 2
    CLOSED = 3


class PriceMode(IntEnum):
    """How the price of a fetch is set."""

    BUDGET = 0
    FIXED = 1
    """Set by the user: the cost of a fetch, relative to that of a second of staleness."""


class BudgetUnit(IntEnum):
    """Unit that a budget counts."""

    FETCHES = 0
    COST = 1


class Objective(IntEnum):
    """Quantity to minimise: stale copies, or the stale share of copies."""

    FRESHNESS = 0
    FRAGMENTS = 1


class Reason(IntEnum):
    """Why a page was ordered."""

    VALUE = 0
    """Its value reaches the price."""
    CEILING = 1
    """Its longest interval or its staleness promise has run out."""
    DISCOVERY = 2
    """Never fetched; uses the share of orders reserved for such pages."""
    AUDIT = 3
    """Chosen by hash, to measure freshness without bias."""
    SPARE = 4
    """Below the price, but the budget would have been left unspent."""
