"""Enumerations in orders, reports and answers."""

from enum import IntEnum, StrEnum

__all__ = [
    "Reason",
    "Transition",
    "Why",
]


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
    """Below the price, or beyond the share of newcomers, but the budget would have been left
    unspent."""


class Why(StrEnum):
    """Reason why a page is or is not ordered now, and why a lease has fewer pages than requested.

    The numbers that kernels write are positions in ``tuple(Why)``, so new reasons come last.
    """

    DUE = "due"
    NOT_YET = "its value has not reached the price"
    NEVER = "its value never reaches the price"
    IN_FLIGHT = "a fetcher has it"
    BACKING_OFF = "it waits after an error"
    FLOOR = "it was fetched less than its shortest interval ago"
    GROUP_BUSY = "its group has as many fetches in flight as it may"
    GROUP_RESTING = "its group waits between fetches"
    GROUP_BLOCKED = "its group is blocked"
    GROUP_CLOSED = "its group is closed"
    RETIRED = "it was gone too often and has been given up"
    BUDGET_SPENT = "the budget is spent for now"
    RUN_SPENT = "the budget of the run is spent"
    NO_BUDGET = "the budget is 0"
    OUTSIDE_WINDOW = "the time of day is outside the budget's time window"
    NO_PAGES = "no page is tracked"
    LEASE_FULL = "one lease has no more pages than this"
    NOT_TRACKED = "the URL is not tracked"
    INVALID_URL = "the text is not a valid URL"
    SHARE_SPENT = "its host has used its share of the budget for new pages"
    EARLY = "its value has not reached the price, but a lease returns it while budget is left"
    UNAVAILABLE = "its partition is not open in this process"
    PART_WAITS = "its group is split over partitions, and another one may fetch from it now"
