"""Limits of a crawl, each with a default."""

import math
from dataclasses import dataclass, fields

from recrawl.errors import ConfigError

__all__ = ["CrawlSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """How a crawl works through what is due.

    Parameters
    ----------
    orders_max
        Number of orders that are held at a time.
    batch_max
        Number of orders that are leased, and of outcomes that are reported, at once.
    bytes_waiting_max
        Size of the bodies that may wait to be reported before no more are leased.
    lease_seconds
        Length of a lease.  Leases of fetches that take longer are extended.
    idle_seconds_max
        Longest time between two leases while nothing is due.
    for_seconds
        Time after which the crawl ends.
    is_single_pass
        Whether the crawl ends when everything that is due now has been fetched.
    pass_wait_seconds_max
        Longest time for which a single pass waits for the delay of a host.
    grace_seconds
        Time for fetches that have begun when the crawl is stopped; the others are given back.
    is_conditional
        Whether validators are sent, so that servers can answer "not modified".
    is_shared
        Whether other workers lease pages, too.  A fetch is then cancelled when its lease ends.
    """

    orders_max: int = 200
    batch_max: int = 100
    bytes_waiting_max: int = 256 << 20
    lease_seconds: float = 120.0
    idle_seconds_max: float = 1.0
    for_seconds: float = math.inf
    is_single_pass: bool = False
    pass_wait_seconds_max: float = 60.0
    grace_seconds: float = 5.0
    is_conditional: bool = True
    is_shared: bool = False

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.type is int and value < 1:
                raise ConfigError(f"{one.name} must be at least 1, got {value}")
            if one.type is float and not value >= 0:
                raise ConfigError(f"{one.name} must not be negative, got {value}")
        if not 0 < self.lease_seconds < math.inf:
            raise ConfigError(f"lease_seconds must be positive, got {self.lease_seconds}")
