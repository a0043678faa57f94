"""The overview: how fresh the copies are, what was spent, what changed, and what is wrong."""

from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from recrawl.corpus import OverviewPart, read_overview_part
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.dashboard.frame.opened_page import OpenedPage, open_page
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.fetch_results import result_rows
from recrawl.dashboard.pages.overview_charts import SPANS, overview_charts
from recrawl.dashboard.pages.problems import PageProblem, find_problems
from recrawl.messages.samples import Sample, Samples
from recrawl.messages.views import PageChange
from recrawl.service.calls import CorpusName

__all__ = ["router"]

router = APIRouter()

_CHANGES_SHOWN: Final = 12


class AuditedShare(NamedTuple):
    """What audits have found in the time that the charts show."""

    share: float
    """Share of fresh copies among those audited."""
    low: float
    high: float
    """Ends of its 95 % interval."""
    n_audits: int


class Overview(NamedTuple):
    """What the overview shows beside the present state."""

    audited: AuditedShare | None
    """None without audits in the time that the charts show."""
    changes: list[PageChange]
    problems: list[PageProblem]
    workers_away: tuple[str, ...]
    """Workers of a cluster whose changes and problems are missing."""
    charts: list[Markup]


def read_overview(corpus: Any, span: str, sample: Sample) -> Overview:
    """Return what the overview of a corpus shows beside its present state.

    Parameters
    ----------
    corpus
        Corpus with all partitions.
    span
        Time that the charts show: a name in `SPANS`.
    sample
        Present state of all partitions.
    """
    chosen = SPANS[span]
    series = corpus.samples(step=chosen.step, since_ms=sample.at_ms - chosen.ms)
    n_due = sample.total.n_due
    if hasattr(corpus, "overview_part"):  # the corpus of a cluster asks all workers
        said: OverviewPart = corpus.overview_part(_CHANGES_SHOWN, n_due=n_due)
    else:
        said = read_overview_part(corpus, _CHANGES_SHOWN, n_due)
    return Overview(
        _audited_share(series),
        said.changes,
        find_problems(said, sample),
        said.workers_away,
        [
            chart_html(one)
            for one in overview_charts(
                series,
                sample.budget_unit,
                sample.at_ms,
                is_freshness_known=sample.total.is_freshness_known,
            )
        ],
    )


def _audited_share(series: Samples) -> AuditedShare | None:
    n_audits, n_fresh = round(series.n_audited.sum()), round(series.n_audited_fresh.sum())
    if not n_audits:
        return None
    return AuditedShare(n_fresh / n_audits, *wilson_interval(n_fresh, n_audits), n_audits)


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
    sample = await page.read_current(page.corpus.sample)

    def read_others(span: str) -> Overview:
        """Return what may be older than the state, if it takes long."""
        return read_overview(page.corpus, span, sample)

    others = await page.read(read_others, span)
    # Meanwhile the state may have become too old.
    sample = await page.read_current(page.corpus.sample)
    return {
        **others._asdict(),
        "sample": sample,
        "results": result_rows(sample.total),
        "now_ms": sample.at_ms,
        "span": span,
        "spans": SPANS,
    }
