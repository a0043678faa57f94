"""The first page: the corpora of the server, or the overview of the only one."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from recrawl.dashboard.frame.opened_page import take_visitor, usable_corpora
from recrawl.dashboard.frame.rendering import render

__all__ = ["router"]

router = APIRouter()


@router.get("/")
async def show_corpora(request: Request) -> Response:
    """Show the corpora that the person may look at."""
    take_visitor(request)
    usable = usable_corpora(request)
    if not usable:
        return RedirectResponse("/login", 303)
    if len(usable) == 1:
        return RedirectResponse(f"/ui/{usable[0]}/", 303)
    return render(request, "corpora.html", corpora=usable)
