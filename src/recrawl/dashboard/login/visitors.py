"""Who sends a request: a person with or without a session, from a form of ours or not."""

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.requests import Request

from recrawl.dashboard.frame.page_errors import PageError
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login.cookies import host_of, read_cookie
from recrawl.dashboard.login.sessions import Session, Sessions

__all__ = ["LIVE_HEADER", "Visitor", "Visitors"]

LIVE_HEADER = "X-Recrawl-Live"
"""Header of requests by which a page brings itself up to date, without a click."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The browser that sends a request."""

    session: Session | None
    session_id: str | None
    browser: str
    """Random text of the browser's cookie."""
    is_new: bool
    """Whether the browser has no such cookie yet."""
    token: str
    """Text that the forms of this browser carry."""

    def key_id(self, corpus: str) -> str | None:
        """Return the id of the key with which the person logged in to a corpus; None without."""
        return None if self.session is None else self.session.key_ids.get(corpus)


class Visitors:
    """Recognises browsers, and forms that came from pages of this server.

    A form carries a text that only pages of this server can have: that of the session, or without
    one a hash of the browser's cookie that only this server can compute.

    Parameters
    ----------
    limits
        Limits of the dashboard.
    """

    def __init__(self, limits: DashboardLimits) -> None:
        self.sessions = Sessions(limits)
        self._secret = secrets.token_bytes(32)

    def find(self, request: Request) -> Visitor:
        """Return who sends a request."""
        known: Visitor | None = request.scope.setdefault("state", {}).get("visitor")
        if known is not None:
            return known
        session_id = read_cookie(request, "session")
        is_used = LIVE_HEADER not in request.headers
        session = None
        if session_id is not None:
            session = self.sessions.find(session_id, is_used=is_used)
        browser = read_cookie(request, "browser")
        is_new = browser is None
        browser = browser or secrets.token_urlsafe(24)
        token = self._token_of(browser) if session is None else session.token
        found = Visitor(session, None if session is None else session_id, browser, is_new, token)
        request.scope["state"]["visitor"] = found
        return found

    def _token_of(self, browser: str) -> str:
        return hmac.new(self._secret, browser.encode(), sha256).hexdigest()

    def check_form(self, request: Request, token: str) -> None:
        """Raise unless a page of this server has sent a form.

        Parameters
        ----------
        request
            Request with the form.
        token
            Text of the form's field ``token``.
        """
        if not _is_from_here(request):
            raise PageError(403, "The form came from elsewhere", "Send it from this dashboard.")
        visitor = self.find(request)
        given, own = token.encode(), visitor.token.encode()
        if visitor.is_new or not hmac.compare_digest(given, own):
            raise PageError(
                403, "The form is too old", "Go back, load the page again, and send it again."
            )


def _is_from_here(request: Request) -> bool:
    """Return whether a browser says that a page of this server sends a request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    # Browsers send Sec-Fetch-Site only over https and to their own machine.
    origin = request.headers.get("origin")
    if origin is None:
        return False
    try:
        found = urlsplit(origin)
        is_same_scheme = found.scheme == request.scope.get("scheme")
        return is_same_scheme and (found.hostname or "", found.port) == host_of(request)
    except ValueError:
        return False
