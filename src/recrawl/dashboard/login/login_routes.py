"""Log in with an API key, and out again."""

import re
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import (
    Dashboard,
    dashboard_of,
    read_form,
    see_other,
    take_visitor,
)
from recrawl.dashboard.frame.page_errors import PageError
from recrawl.dashboard.frame.rendering import render
from recrawl.dashboard.login.cookies import can_have_cookies, delete_cookie, set_cookie
from recrawl.service.keys import Scope
from recrawl.service.problems import Problem
from recrawl.service.protection.rates import network_of

__all__ = ["login_path", "router", "safe_path"]

router = APIRouter()

_OWN_PATH: Final = re.compile(r"/ui/[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[!-;=?-\[\]-~]{0,2000}")


def safe_path(path: str | None) -> str:
    """Return a path of the dashboard to go to after the login; ``/`` for anything else.

    Examples
    --------
    >>> safe_path("/ui/news/hosts?order=pages"), safe_path("https://other.example/")
    ('/ui/news/hosts?order=pages', '/')
    """
    return path if path is not None and _OWN_PATH.fullmatch(path) else "/"


def login_path(request: Request) -> str:
    """Return the path of the login that leads back to the page of a request."""
    query = f"?{request.url.query}" if request.url.query else ""
    path = safe_path(request.url.path + query)
    return "/login" if path == "/" else f"/login?next={quote(path, safe='/')}"


@router.get("/login")
async def show_login(request: Request) -> Response:
    """Show the form to log in."""
    take_visitor(request)
    return _login_page(request, safe_path(request.query_params.get("next")))


def _login_page(request: Request, path: str, *, problem: str = "", status: int = 200) -> Response:
    return render(
        request,
        "login.html",
        status=status,
        next=path,
        problem=problem,
        can_log_in=can_have_cookies(request),
    )


def _check_rate(dashboard: Dashboard, client: str) -> None:
    """Raise a problem if too many attempts came from a network."""
    wait = dashboard.logins.wait_seconds(client)
    if wait:
        raise Problem(
            "too-many-requests",
            "this address has tried to log in too often",
            headers={"Retry-After": str(wait)},
        )


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session with the key of a form."""
    dashboard = dashboard_of(request)
    client = network_of("" if request.client is None else request.client.host)
    _check_rate(dashboard, client)
    if not can_have_cookies(request):
        raise PageError(403, "This connection is not encrypted", "Use https to log in.")
    fields = await read_form(request)
    _check_rate(dashboard, client)  # others may have tried while this form arrived
    # Not before: another site could make browsers send attempts, and so keep people out.
    dashboard.logins.charge(client, 1)
    path = safe_path(fields.get("next"))
    found = dashboard.service.access.find_keys(fields.get("key", "").strip()[:200])
    if not found:
        return _login_page(request, path, problem="This is not a valid API key.", status=401)
    readable = {name: key.id for name, key in found.items() if key.allows(Scope.READ)}
    if not readable:
        problem = "This key does not have the scope read, which the dashboard needs."
        return _login_page(request, path, problem=problem, status=403)
    before = dashboard.visitors.find(request).session_id
    session_id = dashboard.visitors.sessions.begin(readable, before)
    key = found[next(iter(readable))]
    request.state.is_admin, request.state.action = True, "dashboard: log in"
    request.state.audited_corpora = list(readable)
    request.state.key_id, request.state.key_name = key.id, key.name
    response = see_other(path)
    set_cookie(request, response, "session", session_id)
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session."""
    dashboard = dashboard_of(request)
    await read_form(request)
    session_id = dashboard.visitors.find(request).session_id
    if session_id is not None:
        dashboard.visitors.sessions.end(session_id)
    response = see_other("/login")
    delete_cookie(request, response, "session")
    # A page that the browser still has must not be shown to the next person.
    response.headers["Clear-Site-Data"] = '"cache"'
    return response
