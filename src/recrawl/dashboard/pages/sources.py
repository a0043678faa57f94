"""The page of sources: how reliable, complete and late the signals of each are."""

import math
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import open_page
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.host_charts import source_charts
from recrawl.dashboard.pages.overview_charts import SPANS
from recrawl.messages.samples import SourceFigures
from recrawl.service.calls import CorpusName

__all__ = ["router"]

router = APIRouter()

_COLUMNS: Final = {
    "hosts": "Hosts",
    "signals": "Signals",
    "correct": "Correct",
    "complete": "Complete",
    "delay": "Delay",
    "judged": "Judged",
}
# The worst come first.
_SORTS: Final = {
    "hosts": lambda line: -line.n_hosts,
    "signals": lambda line: -line.n_signals,
    "correct": lambda line: line.precision,
    "complete": lambda line: math.inf if line.recall is None else line.recall,
    "delay": lambda line: -line.delay_seconds,
    "judged": lambda line: -line.n_judged,
}
_UNRELIABLE_BELOW: Final = 0.2
_JUDGED_MIN: Final = 20.0


class SourceLine(NamedTuple):
    """A source on one host, or on all hosts together."""

    source: str
    host: str
    """Empty for all hosts."""
    n_hosts: int
    n_signals: int
    precision: float
    recall: float | None
    delay_seconds: float
    n_judged: float

    @property
    def state(self) -> str:
        """What its figures mean: "learning", "unreliable" or "reliable"."""
        if self.n_judged < _JUDGED_MIN:
            return "learning"
        return "unreliable" if self.precision < _UNRELIABLE_BELOW else "reliable"


@router.get("/ui/{corpus}/sources")
async def show_sources(
    request: Request,
    corpus: CorpusName,
    source: Annotated[str, Query(max_length=300)] = "",
    host: Annotated[str, Query(max_length=300)] = "",
    span: Annotated[str, Query(max_length=20)] = "day",
    sort: Annotated[str, Query(max_length=20)] = "signals",
) -> Response:
    """Show the sources of signals over all hosts, one source by host, or its past on one host."""
    page = open_page(request, corpus)
    sample = await page.read_current(page.corpus.sample)
    if source:
        lines = [_line_of([one], one.host) for one in sample.sources if one.source == source]
    else:
        by_name: dict[str, list[SourceFigures]] = {}
        for one in sample.sources:
            by_name.setdefault(one.source, []).append(one)
        lines = [_line_of(some, "") for some in by_name.values()]
    sort = sort if sort in _SORTS else "signals"
    lines.sort(key=_SORTS[sort])
    span = span if span in SPANS else "day"
    charts: list[str] = []
    if any(line.host == host for line in lines) and source:
        lines = [line for line in lines if line.host == host]
        charts = await page.read_each_minute(sample, _draw, page.corpus, source, host, span)
    return render(
        request,
        "sources.html",
        host=host,
        charts=[chart_html(one) for one in charts],
        span=span,
        spans=SPANS,
        lines=lines,
        source=source,
        sort=sort,
        columns=_COLUMNS,
        n_shown=len(sample.sources),
        n_sources=sample.n_sources,
        now_ms=sample.at_ms,
    )


def _draw(corpus: Any, source: str, host: str, span: str) -> list[str]:
    wanted = SPANS[span]
    now_ms = corpus.now_ms()
    since_ms = now_ms - wanted.ms
    series = corpus.source_samples(source, host, step=wanted.step, since_ms=since_ms)
    return source_charts(series, now_ms)


def _line_of(some: list[SourceFigures], host: str) -> SourceLine:
    """Return the mean over hosts, weighted by the number of signals."""
    n_signals = sum(one.n_signals for one in some)
    weight = max(n_signals, 1)
    known = [one for one in some if math.isfinite(one.recall)]
    n_known = sum(one.n_signals for one in known)
    recall = sum(one.recall * one.n_signals for one in known) / n_known if n_known else None
    return SourceLine(
        some[0].source,
        host,
        len(some),
        n_signals,
        sum(one.precision * one.n_signals for one in some) / weight,
        recall,
        sum(one.delay_seconds * one.n_signals for one in some) / weight,
        sum(one.n_judged for one in some),
    )
