"""The page of kinds: how fresh each kind of page is kept, and what that takes."""

import math
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import open_page
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.host_charts import kind_charts
from recrawl.dashboard.pages.hosts import known_freshness
from recrawl.dashboard.pages.overview_charts import SPANS
from recrawl.messages.samples import Figures
from recrawl.service.calls import CorpusName

__all__ = ["router"]

router = APIRouter()

KINDS_DRAWN_MAX: Final = 5
"""Largest number of kinds in a chart: those with the most pages."""
_COLUMNS: Final = {
    "pages": "Pages",
    "fresh": "Fresh",
    "weighted": "Fresh, by importance",
    "due": "Due",
    "budget": "Budget",
    "fetches": "Fetches",
    "changes": "Found a change",
}
# The least fresh come first.
_SORTS: Final = {
    "pages": lambda line: -line.figures.n_pages,
    "fresh": lambda line: math.inf if line.freshness is None else line.freshness,
    "weighted": lambda line: math.inf if line.freshness is None else line.weighted_freshness,
    "due": lambda line: -line.figures.n_due,
    "budget": lambda line: -(line.share or 0.0),
    "fetches": lambda line: -line.figures.n_fetches,
    "changes": lambda line: -(line.change_share or 0.0),
}


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
async def show_kinds(
    request: Request,
    corpus: CorpusName,
    sort: Annotated[str, Query(max_length=20)] = "pages",
    span: Annotated[str, Query(max_length=20)] = "day",
) -> Response:
    """Show the kinds of pages."""
    page = open_page(request, corpus)
    sample = await page.read_current(page.corpus.sample)
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
    lines.sort(key=_SORTS["pages"])
    drawn = tuple(line.name for line in lines[:KINDS_DRAWN_MAX])
    sort = sort if sort in _SORTS else "pages"
    lines.sort(key=_SORTS[sort])
    span = span if span in SPANS else "day"
    charts = await page.read_each_minute(sample, _draw, page.corpus, drawn, span)
    patterns: list[Any] = list(getattr(page.corpus.config, "patterns", ()))
    return render(
        request,
        "kinds.html",
        lines=lines,
        columns=_COLUMNS,
        sort=sort,
        charts=[chart_html(one) for one in charts],
        span=span,
        spans=SPANS,
        has_patterns=bool(patterns),
        now_ms=sample.at_ms,
    )


def _draw(corpus: Any, kinds: tuple[str, ...], span: str) -> list[str]:
    wanted = SPANS[span]
    now_ms = corpus.now_ms()
    since_ms = now_ms - wanted.ms
    series = {
        name or "other pages": corpus.samples(step=wanted.step, since_ms=since_ms, kind=name)
        for name in kinds
    }
    return kind_charts(series, now_ms)
