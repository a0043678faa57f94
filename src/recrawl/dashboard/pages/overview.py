"""The overview: how fresh the copies are, what was spent, what changed, and what is wrong."""

from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from recrawl.corpus import latest_changes
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.dashboard.frame.opened_page import OpenedPage, open_page
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.overview_charts import SPANS, overview_charts
from recrawl.dashboard.pages.problems import PageProblem, find_problems
from recrawl.messages.samples import RESULTS, Sample
from recrawl.messages.views import PageChange
from recrawl.service.calls import CorpusName

__all__ = ["RESULT_WORDS", "router"]

router = APIRouter()

_CHANGES_SHOWN: Final = 12
RESULT_WORDS: Final = {
    "first": "First copies",
    "unchanged": "Unchanged",
    "changed": "Changed",
    "gone": "Gone or moved",
    "disallowed": "Disallowed by robots.txt",
    "failed": "Failed",
    "wrong_answer": "Not the page",
}
"""Results of fetches for people."""


class ResultRow(NamedTuple):
    """Fetches with one result."""

    words: str
    n: int
    share: float


class Overview(NamedTuple):
    """What the overview shows."""

    sample: Sample
    audited: tuple[float, float, float] | None
    """Share of fresh copies among those audited, and the ends of its 95 % interval."""
    results: list[ResultRow]
    changes: list[PageChange]
    problems: list[PageProblem]
    charts: list[Markup]


def read_overview(corpus: Any, local: Any, span: str = "day") -> Overview:
    """Return what the overview of a corpus shows.

    Parameters
    ----------
    corpus
        Corpus with all partitions.
    local
        Corpus with the partitions that are open in this process, perhaps the same.
    span
        Time that the charts show: a name in `SPANS`.
    """
    sample: Sample = corpus.sample()
    total = sample.total
    audited = None
    if total.n_audited:
        low, high = wilson_interval(total.n_audited_fresh, total.n_audited)
        audited = (total.n_audited_fresh / total.n_audited, low, high)
    chosen = SPANS[span]
    series = corpus.samples(step=chosen.step, since_ms=sample.at_ms - chosen.ms)
    n = max(total.n_fetches, 1)
    results = [
        ResultRow(RESULT_WORDS[name], total.results[name], total.results[name] / n)
        for name in RESULTS
    ]
    return Overview(
        sample,
        audited,
        results,
        latest_changes(local.nodes, _CHANGES_SHOWN),
        find_problems(local, sample),
        [chart_html(one) for one in overview_charts(series, sample.budget_unit)],
    )


_Span = Annotated[str, Query(alias="span", pattern="^(day|month|years)$")]


@router.get("/ui/{corpus}/")
async def show_overview(request: Request, corpus: CorpusName, span: _Span = "day") -> Response:
    """Show the overview of a corpus."""
    page = open_page(request, corpus)
    return render(request, "overview.html", **await _context(page, span))


@router.get("/ui/{corpus}/live")
async def show_live_part(request: Request, corpus: CorpusName, span: _Span = "day") -> Response:
    """Show the part of the overview that changes, for a page that brings itself up to date."""
    page = open_page(request, corpus)
    return render(request, "overview_live.html", **await _context(page, span))


async def _context(page: OpenedPage, span: str) -> dict[str, Any]:
    found = await page.read(read_overview, page.corpus, page.local, span)
    return {**found._asdict(), "now_ms": found.sample.at_ms, "span": span, "spans": SPANS}
