"""Headers that keep other sites, and texts of crawled pages, from using the dashboard."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recrawl.dashboard.login.cookies import host_of
from recrawl.service.access import is_loopback_name

__all__ = ["SECURITY_HEADERS", "SecurityHeaders", "security_headers"]

_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types recrawl",
)

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing, and our own forms still carry an Origin.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of every answer of the dashboard."""

_HTTPS_ALONE: Final = {"Strict-Transport-Security": "max-age=2592000"}


def security_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of an answer to a request, with one more over https.

    Parameters
    ----------
    scope
        Scope of the request.
    """
    if scope.get("scheme") != "https":
        return SECURITY_HEADERS
    host = host_of(Request(scope))[0]
    # The header is for all ports of a host: other servers of this machine may have no https.
    return SECURITY_HEADERS if is_loopback_name(host) else {**SECURITY_HEADERS, **_HTTPS_ALONE}


class SecurityHeaders:
    """Adds `SECURITY_HEADERS` to every answer, and forbids to store it unless it says otherwise.

    Parameters
    ----------
    app
        Application behind this layer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(security_headers(scope))
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_on)
