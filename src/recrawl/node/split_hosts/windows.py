"""Which part of a split host may fetch next, and for how long; plain computations."""

from collections.abc import Mapping
from typing import NamedTuple

from recrawl.shard.due import LEASE_MS_MIN

__all__ = [
    "AHEAD_MS",
    "CLOCKS_MS_MAX",
    "WINDOW_MS_MAX",
    "HostGrants",
    "HostRules",
    "PartNeeds",
    "TurnOrder",
    "Window",
    "next_window",
    "window_ms",
]

WINDOW_MS_MAX = 60_000
"""Longest window, apart from the first, which outlasts the leases from before."""
AHEAD_MS = 30_000
"""Between processes, a window is granted this long before it begins, so that messages arrive."""
CLOCKS_MS_MAX = 1_000
"""Time by which the clocks of processes may differ; windows are that much further apart."""
# A fetch takes about this long, so a part with few due pages needs a window of so much for each.
_FETCH_MS = 1_000
# Every part gets at least this share of the windows that equal parts would get.
_SHARE_MIN = 0.125


class Window(NamedTuple):
    """Time in which one partition may fetch from a split host."""

    part: int
    from_ms: int
    until_ms: int


class HostRules(NamedTuple):
    """Politeness of a split host, as its home partition has it."""

    delay_ms: int
    in_flight_max: int
    burst: int

    @property
    def gap_ms(self) -> int:
        """Time between two windows, after which all that a host asks for has passed."""
        return self.delay_ms * (self.burst if self.in_flight_max > 1 else 1)


class HostGrants(NamedTuple):
    """What the home partition of a split host tells its parts."""

    host: str
    home: int
    epoch: int
    """Epoch of the owner of the home partition."""
    number: int
    """Number of the message; a later one of the same epoch has a higher number."""
    rules: HostRules
    void_until_ms: int
    """Windows that begin before this instant are withdrawn, because the host must rest."""
    windows: tuple[Window, ...]
    """Windows that are not over, in order."""


class PartNeeds(NamedTuple):
    """What a part of a split host tells the home partition."""

    host: str
    part: int
    epoch: int
    """Epoch of the owner of the part."""
    n_due: int
    """Number of due pages, about."""
    blocked_until_ms: int
    """Time before which the host asked this part not to fetch; 0 for none."""


def window_ms(rules: HostRules, n_due: int) -> int:
    """Return the length of a window for a part with a number of due pages.

    It has room for one fetch at least, and ends about when the last fetch that fits begins.
    """
    longest = WINDOW_MS_MAX - 2 * LEASE_MS_MIN
    step = max(rules.delay_ms, 1)
    n_delays = longest // step
    needed = min(n_due * (rules.delay_ms + _FETCH_MS), longest)
    length = min(n_delays * step, needed) if rules.delay_ms else needed
    return 2 * LEASE_MS_MIN + length


def next_window(
    rules: HostRules, *, granted_until_ms: int, blocked_until_ms: int, now_ms: int, ahead_ms: int
) -> int | None:
    """Return when the next window of a host begins; None if it is too early to grant one.

    Parameters
    ----------
    rules
        Politeness of the host.
    granted_until_ms
        End of the last window that was granted; 0 for none.
    blocked_until_ms
        Time before which the host must rest.
    now_ms
        Time in milliseconds since 1970.
    ahead_ms
        How long before its begin a window is granted.
    """
    begin = max(granted_until_ms + rules.gap_ms if granted_until_ms else 0, blocked_until_ms)
    return max(begin, now_ms) if begin <= now_ms + ahead_ms else None


class TurnOrder:
    """Chooses the part that gets the next window: in proportion to what parts need.

    Each part gets some windows, even if it has nothing due.
    """

    def __init__(self) -> None:
        self._lead: dict[int, float] = {}

    def next_part(self, n_due: Mapping[int, int]) -> int:
        """Return the part whose turn it is.

        Parameters
        ----------
        n_due
            Number of due pages of each part that can fetch now; not empty.
        """
        total = sum(n_due.values())
        least = _SHARE_MIN / len(n_due)
        share = {part: max(n / total if total else 1.0, least) for part, n in n_due.items()}
        whole = sum(share.values())
        self._lead = {
            part: min(self._lead.get(part, 0.0) + share[part] / whole, 1.0) for part in n_due
        }
        best = max(sorted(self._lead), key=self._lead.__getitem__)
        self._lead[best] -= 1.0
        return best
