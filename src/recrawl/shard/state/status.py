"""Enumerations used in a shard's columns, events and answers."""

from enum import IntEnum

from recrawl.messages.enums import Reason, Transition, Why

__all__ = [
    "BudgetUnit",
    "LeaseStage",
    "Objective",
    "PageStatus",
    "PriceMode",
    "Reason",
    "Transition",
    "Verdict",
    "Why",
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
    """Changed back to a recent version, or the page itself after a first answer that was not the
    page; does not count as a change."""
    GONE = 3
    MOVED = 4
    DISALLOWED = 5
    TRANSIENT_ERROR = 6
    """The page was not seen: status 429 or 5xx, or a time-out."""
    WRONG_ANSWER = 7
    """The response was not the page, although its status says so: a block or consent page, a login
    form, "not found" with status 200.  The page waits as after an error; its host does not."""


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
