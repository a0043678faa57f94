"""Limit how fast one API key or one address may use the server."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["RateLimit", "RequestRates", "network_of"]

BURST_SECONDS = 5.0
"""Time for which a client that was idle may use its rate at once."""


class RateLimit:
    """A bucket for each name, which fills up at a rate and may be overdrawn once.

    The size of a request is known only after it was taken, so a large one is taken as soon as
    anything is left, and the next has to wait until the bucket is no longer empty.

    Parameters
    ----------
    per_second
        Rate of a name that has none of its own.
    n_names_max
        Number of names to remember; the one that was heard of longest ago is forgotten.
    now
        Time source, in seconds.
    """

    def __init__(
        self,
        per_second: float,
        n_names_max: int = 10_000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._n_names_max = n_names_max
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def _level(self, name: str, per_second: float) -> float:
        full = max(per_second * BURST_SECONDS, 1.0)
        now = self._now()
        level, at = self._buckets.get(name, (full, now))
        return min(level + (now - at) * per_second, full)

    def wait_seconds(self, name: str, per_second: float | None = None) -> int:
        """Return 0, or in how many seconds the next request is taken.

        Parameters
        ----------
        name
            Name of the client.
        per_second
            Rate of its own; None for the common one.
        """
        rate = self._per_second if per_second is None else per_second
        missing = 1.0 - self._level(name, rate)
        return max(math.ceil(missing / rate), 1) if missing > 0 else 0

    def charge(self, name: str, n: int, per_second: float | None = None) -> None:
        """Take a number of requests or rows from a bucket, also if it has fewer.

        Parameters
        ----------
        name
            Name of the client.
        n
            Number to take.
        per_second
            Rate of its own; None for the common one.
        """
        rate = self._per_second if per_second is None else per_second
        level = self._level(name, rate) - n
        self._buckets.pop(name, None)
        self._buckets[name] = (level, self._now())
        while len(self._buckets) > self._n_names_max:
            self._buckets.popitem(last=False)

    def take(self, name: str, detail: str) -> None:
        """Count one request; raise a problem if there were too many.

        Parameters
        ----------
        name
            Name of the client.
        detail
            Description of the problem; the time to wait is added to it.
        """
        seconds = self.wait_seconds(name)
        if seconds:
            raise _too_many(f"{detail}; wait {seconds} s", seconds)
        self.charge(name, 1)


class RequestRates:
    """The rates of all clients of a server.

    Parameters
    ----------
    limits
        Limits of the server.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._requests = RateLimit(limits.key_requests_per_second)
        self._rows = RateLimit(limits.key_rows_per_second)
        self._keyless = RateLimit(limits.keyless_requests_per_second)

    def take_request(
        self, key_id: str, requests_per_second: float | None, rows_per_second: float | None
    ) -> None:
        """Count a request of a key; raise if the key has sent too many requests or rows.

        Parameters
        ----------
        key_id
            Id of the key.
        requests_per_second
            Limit of this key; None for that of the server.
        rows_per_second
            Limit of this key; None for that of the server.
        """
        seconds = self._requests.wait_seconds(key_id, requests_per_second)
        if seconds:
            raise _too_many("this API key has sent too many requests", seconds)
        seconds = self._rows.wait_seconds(key_id, rows_per_second)
        if seconds:
            raise _too_many("this API key has sent or read too many rows", seconds)
        self._requests.charge(key_id, 1, requests_per_second)

    def count_rows(self, key_id: str, n: int, rows_per_second: float | None) -> None:
        """Count rows that a key has sent or read.

        Parameters
        ----------
        key_id
            Id of the key.
        n
            Number of rows.
        rows_per_second
            Limit of this key; None for that of the server.
        """
        if n:
            self._rows.charge(key_id, n, rows_per_second)

    def take_keyless(self, client: str) -> None:
        """Count a request that needs no key; raise if its address has sent too many."""
        self._keyless.take(network_of(client), "this address has sent too many requests")


def _too_many(detail: str, seconds: int) -> Problem:
    return Problem("too-many-requests", detail, headers={"Retry-After": str(seconds)})


def network_of(client: str) -> str:
    """Return the network of an address that one client may have: a /64 of IPv6."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if address.version == 4:
        return client
    return str(ipaddress.ip_network((address, 64), strict=False))
