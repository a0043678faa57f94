"""The application of the dashboard: its pages, its errors, its headers."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from recrawl.dashboard.frame import asset_files
from recrawl.dashboard.frame.opened_page import Dashboard, PageSection
from recrawl.dashboard.frame.page_errors import PageError
from recrawl.dashboard.frame.page_rates import PageRates
from recrawl.dashboard.frame.page_reads import PageReads
from recrawl.dashboard.frame.rendering import render
from recrawl.dashboard.frame.security import SecurityHeaders, security_headers
from recrawl.dashboard.limits import DashboardLimits
from recrawl.dashboard.login import login_routes
from recrawl.dashboard.login.login_routes import login_path
from recrawl.dashboard.login.visitors import LIVE_HEADER, Visitors
from recrawl.dashboard.pages import corpora, hosts, kinds, overview, page, plan, sources
from recrawl.dashboard.proof import proof_page
from recrawl.service.calls import Service
from recrawl.service.problems import PROBLEMS, Problem
from recrawl.service.protection.rates import RateLimit

__all__ = ["create_dashboard"]

_SECTIONS: Final = (
    PageSection("Overview", ""),
    PageSection("Plan", "plan"),
    PageSection("Hosts", "hosts"),
    PageSection("Sources", "sources"),
    PageSection("Kinds", "kinds"),
    PageSection("Page", "page"),
    PageSection("Proof", "proof"),
)
# In the order of the navigation; each module has a router.
_PAGES: Final = (corpora, overview, plan, hosts, sources, kinds, page, proof_page)
_ROUTED: Final = (asset_files, login_routes, *_PAGES)
_WRONG_METHOD: Final = 405
_TITLES: Final = {404: "There is no such page", 405: "This page takes no such request"}


def create_dashboard(service: Service, limits: DashboardLimits | None = None) -> FastAPI:
    """Return the application that answers the paths of the dashboard.

    Parameters
    ----------
    service
        State that the service shares: corpora, keys, limits.
    limits
        Limits of the dashboard; the defaults unless given.
    """
    limits = limits or DashboardLimits()
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.dashboard = Dashboard(
        service,
        limits,
        Visitors(limits),
        PageReads(limits),
        RateLimit(limits.logins_per_second),
        PageRates(limits),
        _SECTIONS,
    )
    app.add_middleware(SecurityHeaders)
    for part in _ROUTED:
        app.include_router(part.router)
    app.add_exception_handler(Problem, _show_problem)
    app.add_exception_handler(PageError, _show_page_error)
    app.add_exception_handler(RequestValidationError, _show_invalid)
    app.add_exception_handler(HTTPException, _show_http_error)
    app.add_exception_handler(Exception, _show_bug)
    return app


def _error_page(request: Request, status: int, title: str, detail: str) -> Response:
    return render(request, "error.html", status=status, title=title, detail=detail)


async def _show_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    if error.name == "key-needed" and LIVE_HEADER not in request.headers:
        return RedirectResponse(login_path(request) if request.method == "GET" else "/login", 303)
    detail = error.detail[:1].upper() + error.detail[1:]
    response = _error_page(request, error.status, PROBLEMS[error.name].title, detail)
    response.headers.update(error.headers)
    return response


async def _show_page_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PageError)
    response = _error_page(request, error.status, error.title, error.detail)
    response.headers.update(error.headers)
    return response


async def _show_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()[:5])
    return _error_page(request, 422, "A value is not valid", wrong)


async def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = _TITLES.get(error.status_code, "This does not work")
    detail = "The overview has links to all pages."
    response = _error_page(request, error.status_code, title, detail)
    if error.status_code == _WRONG_METHOD:
        response.headers["Allow"] = ", ".join(_allowed_methods(request))
    return response


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods that a path takes; the framework knows only those of its first route."""
    return sorted(
        {
            method
            for part in _ROUTED
            for route in part.router.routes
            if isinstance(route, Route) and route.path_regex.fullmatch(request.url.path)
            for method in route.methods or ()
        }
    )


async def _show_bug(request: Request, error: Exception) -> Response:
    # The server logs the error with its traceback.
    del error
    detail = f"The log of the server has the details of request {request.state.request_id}."
    response = _error_page(request, 500, "The dashboard has an error", detail)
    # This handler runs outside of the layer that adds them.
    response.headers.update({**security_headers(request.scope), "Cache-Control": "no-store"})
    return response
