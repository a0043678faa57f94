"""Limit how many pages a person, or an address without a login, opens in a second."""

import time
from collections.abc import Callable

from starlette.requests import Request

from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.visitors import Visitor
from recrawl.service.protection.rates import RateLimit, network_of

__all__ = ["PageRates"]


class PageRates:
    """The rates of all who look at pages of a server.

    Parameters
    ----------
    limits
        Limits of the dashboard.
    now
        Time source, in seconds.
    """

    def __init__(self, limits: DashboardLimits, now: Callable[[], float] = time.monotonic) -> None:
        n_sessions = limits.sessions_max
        self._sessions = RateLimit(limits.pages_per_second, n_sessions, now)
        self._addresses = RateLimit(limits.address_pages_per_second, now=now)

    def take(self, request: Request, visitor: Visitor) -> None:
        """Count a page; raise a problem if the visitor has opened too many.

        Parameters
        ----------
        request
            Request of the browser.
        visitor
            Visitor that sends it.
        """
        if visitor.session is not None:
            self._sessions.take(visitor.session.token, "you have opened too many pages")
            return
        client = "" if request.client is None else request.client.host
        self._addresses.take(network_of(client), "this address has opened too many pages")
