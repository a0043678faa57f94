"""Enumerations used in a shard's columns, events and answers."""

from enum import IntEnum, StrEnum

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
    """Changed back to a recent version; does not count as a change."""
    GONE = 3
    MOVED = 4
    DISALLOWED = 5
    TRANSIENT_ERROR = 6
    """The page was not seen: status 429 or 5xx, or a time-out."""
    WRONG_ANSWER = 7
    """The response was not the page, although its status says so: a block or consent page, a login
    form, "not found" with status 200.  The page waits as after an error; its host does not."""


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
