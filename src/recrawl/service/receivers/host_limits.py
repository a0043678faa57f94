"""Limit how many URLs each host may announce, so that one site cannot crowd out others."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["HostLimits"]

_HOUR = 3_600.0


class HostLimits:
    """A bucket for each host, which fills up within an hour.

    Parameters
    ----------
    n_per_hour
        Number of URLs of a host in an hour, and at once.
    n_hosts_max
        Number of hosts to remember; the one that was heard of longest ago is forgotten.
    now
        Time source, in seconds.
    """

    def __init__(
        self,
        n_per_hour: int,
        n_hosts_max: int = 10_000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._n_per_hour = n_per_hour
        self._n_hosts_max = n_hosts_max
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, host: str, n: int) -> int:
        """Count URLs of a host; return 0, or in how many seconds they may be sent again.

        Parameters
        ----------
        host
            Name of the host.
        n
            Number of URLs.
        """
        left, now = self._take_out(host)
        is_enough = left >= n
        self._buckets[host] = (left - n if is_enough else left, now)
        while len(self._buckets) > self._n_hosts_max:
            self._buckets.popitem(last=False)
        return 0 if is_enough else math.ceil((n - left) * _HOUR / self._n_per_hour)

    def give_back(self, host: str, n: int) -> None:
        """Count URLs no longer, because the server could not take them.

        Parameters
        ----------
        host
            Name of the host.
        n
            Number of URLs.
        """
        left, now = self._take_out(host)
        self._buckets[host] = (min(left + n, float(self._n_per_hour)), now)

    def _take_out(self, host: str) -> tuple[float, float]:
        """Return how many URLs a host may announce now, and the time; forget both."""
        now = self._now()
        left, at = self._buckets.pop(host, (float(self._n_per_hour), now))
        return min(left + (now - at) * self._n_per_hour / _HOUR, float(self._n_per_hour)), now
