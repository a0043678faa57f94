"""Write the audit log of the requests to a server."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recrawl.service.protection.audit import AuditEntry, append_audit_entry

__all__ = ["AuditLayer", "note_new_values"]

_LOG = logging.getLogger(__name__)
_BUG = 500
_PREFIX = "/v1/corpora/{corpus}"


def note_new_values(scope: Scope, values: Mapping[str, object]) -> None:
    """Remember what a request sets, for its entry in the audit log.

    Parameters
    ----------
    scope
        Scope of the request.
    values
        New values by name; None for those that stay as they are.
    """
    given = [f"{name}={value}" for name, value in values.items() if value is not None]
    scope.setdefault("state", {})["new_values"] = ", ".join(given)


class AuditLayer:
    """Appends an entry for each administrative request, before the client has its answer.

    Parameters
    ----------
    app
        Application behind this layer; it marks a request by ``state["is_admin"]``, and may name
        what the request does in ``state["action"]``, and in ``state["audited_corpora"]`` the
        corpora that it is about, if its path does not.
    folders
        Folder of each corpus by its name.
    find_route
        Function that returns a path with the names of its parameters.
    """

    def __init__(
        self,
        app: ASGIApp,
        folders: Mapping[str, Path],
        find_route: Callable[[str], str | None],
    ) -> None:
        self._app = app
        self._folders = folders
        self._find_route = find_route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        is_answered = False

        async def send_on(message: Message) -> None:
            nonlocal is_answered
            state = scope.get("state", {})
            if message["type"] == "http.response.start":
                is_answered = True
                if state.get("is_admin"):
                    await self._append(scope, state, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            # It may have changed something before; the answer is made outside of this layer.
            state = scope.get("state", {})
            if state.get("is_admin") and not is_answered:
                await self._append(scope, state, _BUG)
            raise

    async def _append(self, scope: Scope, state: Mapping[str, Any], status: int) -> None:
        names = dict(scope.get("path_params", {}))
        corpora = state.get("audited_corpora") or [names.pop("corpus", "")]
        folders = [self._folders[name] for name in corpora if name in self._folders]
        if not folders:
            return
        route = self._find_route(scope["path"]) or scope["path"]
        entry = AuditEntry(
            time.time_ns() // 1_000_000,
            state.get("key_name") or state.get("key_id") or "without key",
            state.get("action") or f"{scope['method']} {route.removeprefix(_PREFIX)}",
            ", ".join(map(str, names.values())),
            state.get("n_rows"),
            status,
            state.get("key_id"),
            (scope.get("client") or (None,))[0],
            state.get("request_id"),
            state.get("new_values", ""),
        )
        for folder in folders:
            try:
                await asyncio.to_thread(append_audit_entry, folder, entry)
            except OSError as error:
                _LOG.error("the audit log cannot be written (%s): %s", error, entry)
