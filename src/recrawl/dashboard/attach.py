"""Attach the dashboard to the application of a service."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from recrawl.dashboard.limits import DashboardLimits

__all__ = ["attach_dashboard"]

logger = logging.getLogger(__name__)

_PATHS: Final = ("/", "/login", "/logout")
_PREFIXES: Final = ("/ui/", "/assets/")


def attach_dashboard(app: FastAPI, limits: "DashboardLimits | None" = None) -> None:
    """Let an application answer the paths of the dashboard.

    Parameters
    ----------
    app
        Application of the service, see `recrawl.service.create_app`.
    limits
        Limits of the dashboard; the defaults unless given.
    """
    app.router.routes.append(_DashboardRoute(app, limits))


class _DashboardRoute(BaseRoute):
    """The paths of the dashboard, which is loaded when somebody first asks for one of them.

    Parameters
    ----------
    app
        Application of the service.
    limits
        Limits of the dashboard; the defaults unless given.
    """

    def __init__(self, app: FastAPI, limits: "DashboardLimits | None" = None) -> None:
        self._app = app
        self._limits = limits
        self._dashboard: ASGIApp | None = None
        self._loading = asyncio.Lock()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for the dashboard."""
        path = scope.get("path", "")
        is_page = scope["type"] == "http" and (path in _PATHS or path.startswith(_PREFIXES))
        return (Match.FULL if is_page else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._dashboard is None:
            async with self._loading:
                if self._dashboard is None:
                    # In a thread: fetchers must not wait for it.
                    self._dashboard = await asyncio.to_thread(self._load)
        await self._dashboard(scope, receive, send)

    def _load(self) -> ASGIApp:
        began = time.perf_counter()
        from recrawl.dashboard.application import create_dashboard  # noqa: PLC0415

        dashboard = create_dashboard(self._app.state.service, self._limits)
        logger.info("the dashboard was loaded in %.2f s", time.perf_counter() - began)
        return dashboard
