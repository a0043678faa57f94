"""The page of kinds: how fresh each kind of page is kept, and what that takes."""

from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import open_page
from recrawl.dashboard.frame.rendering import render
from recrawl.dashboard.pages.hosts import known_freshness
from recrawl.messages.samples import Figures
from recrawl.service.calls import CorpusName

__all__ = ["router"]

router = APIRouter()


class KindLine(NamedTuple):
    """A kind of pages."""

    name: str
    """Empty for pages without a kind."""
    figures: Figures
    freshness: float | None
    weighted_freshness: float | None
    share: float | None
    """Share of the budget that all fetches have used; None if nothing was spent."""
    change_share: float | None
    """Share of the fetches that found a change; None without fetches."""


@router.get("/ui/{corpus}/kinds")
async def show_kinds(request: Request, corpus: CorpusName) -> Response:
    """Show the kinds of pages."""
    page = open_page(request, corpus)
    sample = await page.read(page.corpus.sample)
    spent = sample.total.spent
    lines = [
        KindLine(
            name,
            one,
            known_freshness(one),
            known_freshness(one, is_weighted=True),
            one.spent / spent if spent else None,
            one.n_changed / one.n_fetches if one.n_fetches else None,
        )
        for name, one in sample.kinds.items()
    ]
    patterns: list[Any] = list(getattr(page.corpus.config, "patterns", ()))
    return render(
        request, "kinds.html", lines=lines, has_patterns=bool(patterns), now_ms=sample.at_ms
    )
