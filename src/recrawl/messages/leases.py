"""Answers to leases: orders, or the reasons why there are fewer than requested."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.messages.enums import Why
from recrawl.messages.orders import Order
from recrawl.units import count_text, seconds_text

__all__ = [
    "LEASE_SECONDS_MAX",
    "WHYS",
    "LeasedUrl",
    "LeasedUrls",
    "Orders",
    "Shortfall",
    "ShortfallReason",
    "is_run_over",
    "reason_text",
]

LEASE_SECONDS_MAX = 366 * 86_400.0
"""Longest time for which a page can be leased."""

WHYS = tuple(Why)
"""Reasons by number."""


_PAGE_TEXTS = {
    Why.DUE: ("it is due", ""),
    Why.EARLY: ("it is not due yet, but a lease returns it while budget is left", ""),
    Why.NOT_YET: ("it is not worth a fetch yet", "due in about {}"),
    Why.NEVER: ("it is never worth a fetch at the current price", ""),
    Why.IN_FLIGHT: ("a fetcher has it already", "its lease ends in {}"),
    Why.BACKING_OFF: ("it waits after its last fetch", "tried again in {}"),
    Why.FLOOR: ("its min_age is not over", "due in {}"),
    Why.GROUP_BUSY: ("its host has as many fetches in flight as it may", ""),
    Why.GROUP_RESTING: ("its host waits between two fetches", "free in {}"),
    Why.GROUP_BLOCKED: ("its host is paused", "fetched from again in {}"),
    Why.GROUP_CLOSED: ("its host is closed", ""),
    Why.RETIRED: ("it was gone too often and has been given up", ""),
    Why.BUDGET_SPENT: ("the budget is spent for now", "the next fetch is possible in {}"),
    Why.RUN_SPENT: ("the budget of the run is spent", ""),
    Why.NO_BUDGET: ("the budget is 0", ""),
    Why.OUTSIDE_WINDOW: ("it is outside the budget's hours", "they begin in {}"),
    Why.SHARE_SPENT: ("its host has used its share of the budget for new pages", ""),
    Why.NOT_TRACKED: ("the URL is not tracked", ""),
    Why.INVALID_URL: ("it is not a valid URL", ""),
    Why.PART_WAITS: (
        "its host is split over partitions, and another one may fetch from it now",
        "its turn begins in {}",
    ),
    Why.UNAVAILABLE: ("its partition cannot be reached now; try again", ""),
}


def reason_text(why: Why, seconds: float | None = None) -> str:
    """Return why one page is not leased, in words, and when that ends.

    Parameters
    ----------
    why
        Reason.
    seconds
        Seconds until it ends; None if unknown.

    Examples
    --------
    >>> reason_text(Why.GROUP_RESTING, 3.0), reason_text(Why.NOT_TRACKED)
    ('its host waits between two fetches; free in 3 s', 'the URL is not tracked')
    """
    text, end = _PAGE_TEXTS.get(why, (str(why), "until then {}"))
    if seconds is None or not end or not math.isfinite(seconds):
        return text
    return f"{text}; {end.format(seconds_text(max(seconds, 0.0)))}"


_REASONS_MAX = 4


# Longest time for which a run waits for a page.
_RUN_WAIT_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortfallReason:
    """One reason why a lease has fewer pages than requested."""

    why: Why
    n_pages: int | None
    """Number of pages that wait for this reason; None if it concerns the whole corpus."""
    seconds: float | None
    """Seconds until the first of them may be leased; None if unknown or never."""
    text: str
    """The reason in words, without a full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why a lease has fewer pages than requested."""

    n_requested: int
    n_leased: int
    reasons: tuple[ShortfallReason, ...]
    """Reasons, the most important first."""
    is_sampled: bool
    """Whether numbers of pages are estimated from a sample."""

    @property
    def seconds(self) -> float | None:
        """Seconds until more pages may be leased; None if unknown or never."""
        return min((one.seconds for one in self.reasons if one.seconds is not None), default=None)

    @property
    def text(self) -> str:
        """All reasons as one sentence."""
        if self.n_leased == 0:
            head = "Nothing to fetch now"
        else:
            head = f"{self.n_leased:,} of {count_text(self.n_requested, 'page')}"
        reasons = "; ".join(one.text for one in self.reasons[:_REASONS_MAX])
        about = " (numbers of pages are estimates)" if self.is_sampled else ""
        return f"{head}: {reasons}{about}."

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries and numbers, for JSON."""
        return {
            "n_requested": self.n_requested,
            "n_leased": self.n_leased,
            "seconds": self.seconds,
            "text": self.text,
            "is_sampled": self.is_sampled,
            "reasons": [asdict(one) | {"why": one.why.name.lower()} for one in self.reasons],
        }


class Orders(list[Order]):
    """The orders of a lease, and why there are fewer than requested.

    Parameters
    ----------
    orders
        Orders of the lease.
    shortfall
        Why there are fewer than requested; None if there are not.
    """

    def __init__(self, orders: Iterable[Order] = (), shortfall: Shortfall | None = None) -> None:
        super().__init__(orders)
        self.shortfall = shortfall


def is_run_over(orders: Orders) -> bool:
    """Return whether a run can end, because no page can be leased within the next ten minutes.

    Parameters
    ----------
    orders
        Orders of a lease that returned none.
    """
    shortfall = orders.shortfall
    if shortfall is None or any(one.why == Why.OUTSIDE_WINDOW for one in shortfall.reasons):
        return False
    return shortfall.seconds is not None and shortfall.seconds > _RUN_WAIT_SECONDS_MAX


class LeasedUrl(NamedTuple):
    """The answer for one URL: an order, or the reason why there is none."""

    url: str
    """URL as it was given."""
    order: Order | None
    why: Why
    """`Why.DUE` with an order, otherwise the reason."""
    seconds: float | None
    """Seconds until the reason ends; None if unknown or never."""

    @property
    def text(self) -> str:
        """The reason in words."""
        return reason_text(self.why, self.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer without the order, for JSON."""
        return {
            "url": self.url,
            "why": self.why.name.lower(),
            "seconds": self.seconds,
            "text": self.text,
        }


class LeasedUrls(Sequence[LeasedUrl]):
    """The answers for given URLs, in their order; also as columns.

    Parameters
    ----------
    urls
        URLs as they were given.
    order
        Order of each URL; None for a URL without one.
    why
        Reason of each URL, as its position in ``tuple(Why)``.
    seconds
        Seconds until each reason ends; infinite if unknown or never.
    """

    def __init__(
        self,
        urls: pa.StringArray,
        order: list[Order | None],
        why: NDArray[np.uint8],
        seconds: NDArray[np.float64],
    ) -> None:
        self.urls = urls
        self.order = order
        self.why = why
        self.seconds = seconds

    @property
    def orders(self) -> list[Order]:
        """The orders alone."""
        return [order for order in self.order if order is not None]

    def counts(self) -> dict[Why, int]:
        """Return the number of URLs by reason, the most frequent first."""
        n = np.bincount(self.why, minlength=len(WHYS))
        return {WHYS[code]: int(n[code]) for code in np.argsort(-n, kind="stable") if n[code]}

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {why.name.lower()}" for why, n in self.counts().items())
        return f"<LeasedUrls of {len(self)} URLs: {counts or 'none'}>"

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, row: int) -> LeasedUrl: ...

    @overload
    def __getitem__(self, row: slice) -> list[LeasedUrl]: ...

    def __getitem__(self, row: int | slice) -> LeasedUrl | list[LeasedUrl]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        seconds = float(self.seconds[row])
        # -1 counts from the end, which Arrow does not do.
        url = self.urls[range(len(self))[row]].as_py()
        return LeasedUrl(
            "" if url is None else url,
            self.order[row],
            WHYS[self.why[row]],
            seconds if math.isfinite(seconds) else None,
        )

    def __iter__(self) -> Iterator[LeasedUrl]:
        return (self[i] for i in range(len(self)))
