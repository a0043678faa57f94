"""The overview: how fresh the copies are, what was spent, what changed, and what is wrong."""

from collections.abc import Hashable
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from recrawl.corpus import OverviewPart, read_overview_part
from recrawl.corpus.doctor.fetcher_checks import ASKED_SECONDS_MAX
from recrawl.corpus.inspect.stats import wilson_interval
from recrawl.dashboard.frame.opened_page import OpenedPage, open_page
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.fetch_results import result_rows
from recrawl.dashboard.pages.overview_charts import SPANS, overview_charts
from recrawl.dashboard.pages.problems import find_problems
from recrawl.messages.samples import Sample, Samples
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


class CorpusPast(NamedTuple):
    """What the overview shows of the time that its charts show."""

    audited: AuditedShare | None
    """None without audits in that time."""
    charts: list[Markup]


def read_past(
    corpus: Any,
    span: str,
    unit: str,
    is_freshness_known: bool,
) -> CorpusPast:
    """Return what the overview of a corpus shows of its past.

    Parameters
    ----------
    corpus
        Corpus with all partitions.
    span
        Time that the charts show: a name in `SPANS`.
    unit
        Unit of the budget: fetches or cost.
    is_freshness_known
        Whether to show the freshness by the model.
    """
    chosen, now_ms = SPANS[span], corpus.now_ms()
    series = corpus.samples(step=chosen.step, since_ms=now_ms - chosen.ms)
    charts = overview_charts(series, unit, now_ms, is_freshness_known=is_freshness_known)
    return CorpusPast(_audited_share(series), [chart_html(one) for one in charts])


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
    past = await page.read_each_minute(
        sample,
        read_past,
        page.corpus,
        span,
        sample.budget_unit,
        sample.total.is_freshness_known,
    )
    latest = await page.read_current(_read_part, page.corpus, _CHANGES_SHOWN)
    checked = await _check(page, sample, latest.workers_away)
    # Meanwhile the state may have become too old.
    sample = await page.read_current(page.corpus.sample)
    return {
        **past._asdict(),
        "changes": latest.changes,
        "workers_away": latest.workers_away,
        "problems": find_problems(checked, sample),
        "sample": sample,
        "results": result_rows(sample.total),
        "now_ms": sample.at_ms,
        "span": span,
        "spans": SPANS,
    }


async def _check(page: OpenedPage, sample: Sample, workers_away: tuple[str, ...]) -> OverviewPart:
    """Return the problems of the corpus, which may be a few minutes old."""

    def check(version: Hashable) -> OverviewPart:
        """Check the corpus; results of another version are not shown."""
        del version
        return _read_part(page.corpus, 0, sample.total.n_due)

    asked_ms = page.local.lease_asked_at_ms or 0
    # A fetcher or a worker that begins, or goes away, changes the results at once.
    is_asked = sample.at_ms - asked_ms < 1_000 * ASKED_SECONDS_MAX
    n_changes = page.hosted.settings_lock.n_changes
    version = (n_changes, sample.budget_per_second, is_asked, workers_away)
    return await page.read_slow(None, check, version)


def _read_part(corpus: Any, n_changes: int, n_due: float | None = None) -> OverviewPart:
    """Return latest changes, and problems if the number of due pages is given, of all workers."""
    if hasattr(corpus, "overview_part"):  # the corpus of a cluster asks all workers
        found: OverviewPart = corpus.overview_part(n_changes, n_due=n_due)
        return found
    return read_overview_part(corpus, n_changes, n_due)
