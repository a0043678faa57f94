"""The cookies of the dashboard: the session of a person, and a random text of each browser."""

import re
from typing import Final, Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from recrawl.service.access import is_loopback_name
from recrawl.service.protection.proxies import is_forwarded

__all__ = ["can_have_cookies", "delete_cookie", "host_of", "read_cookie", "set_cookie"]

CookieName = Literal["session", "browser"]

_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{16,100}")


def host_of(request: Request) -> tuple[str, int | None]:
    """Return the host and the port that the browser asked for."""
    try:
        found = urlsplit(f"//{request.headers.get('host', '')}")
        return found.hostname or "", found.port
    except ValueError:
        return "", None


def _is_secure(request: Request) -> bool:
    return request.scope.get("scheme") == "https"


def can_have_cookies(request: Request) -> bool:
    """Return whether a cookie stays secret: over https, or on the person's own machine.

    A proxy may write ``localhost`` as the host of requests from elsewhere.
    """
    is_own = is_loopback_name(host_of(request)[0]) and not is_forwarded(request.scope)
    return _is_secure(request) or is_own


def _name_of(request: Request, name: CookieName) -> str:
    # Servers on other ports of this machine share its cookies, and would replace them.
    port = host_of(request)[1] or (443 if _is_secure(request) else 80)
    prefix = "__Host-" if _is_secure(request) else ""
    return f"{prefix}recrawl-{name}-{port}"


def read_cookie(request: Request, name: CookieName) -> str | None:
    """Return the value of a cookie; None if there is none of the right form."""
    value = request.cookies.get(_name_of(request, name))
    return value if value is not None and _VALUE.fullmatch(value) else None


def set_cookie(request: Request, response: Response, name: CookieName, value: str) -> None:
    """Set a cookie, which scripts cannot read and other sites do not send.

    Parameters
    ----------
    request
        Request of the browser.
    response
        Answer to it.
    name
        Name of the cookie.
    value
        Random text.
    """
    response.set_cookie(
        _name_of(request, name),
        value,
        path="/",
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )


def delete_cookie(request: Request, response: Response, name: CookieName) -> None:
    """Delete a cookie.

    Parameters
    ----------
    request
        Request of the browser.
    response
        Answer to it.
    name
        Name of the cookie.
    """
    response.delete_cookie(
        _name_of(request, name),
        path="/",
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
