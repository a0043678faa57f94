"""The pages of hosts: how each is fetched from, how fresh it is kept, and how to change that."""

import math
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import OpenedPage, open_action, open_page, see_other
from recrawl.dashboard.frame.page_errors import PageError, say_not_done
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.fetch_results import result_rows
from recrawl.dashboard.pages.host_charts import host_charts
from recrawl.dashboard.pages.overview_charts import SPANS
from recrawl.messages.robots import ROBOTS_CLOSES, ROBOTS_RESULTS, RobotsNote
from recrawl.messages.samples import Figures, Sample, SourceFigures
from recrawl.messages.views import HostView
from recrawl.service.calls import CorpusName
from recrawl.service.keys import Scope
from recrawl.service.protection.audit_layer import note_new_values

__all__ = ["PAGES_PER_LIST", "router"]

router = APIRouter()

PAGES_PER_LIST: Final = 50
"""Number of pages in a list of a host's pages."""
_COLUMNS: Final = (
    *("url", "key", "status", "importance", "freshness_probability"),
    *("change_rate_per_second", "fetched_at_ms", "due_at_ms"),
)
_SORTS: Final = {
    "pages": lambda row: -row.view.n_pages,
    "share": lambda row: -(row.share or 0.0),
    "freshness": lambda row: 2.0 if row.freshness is None else row.freshness,
    "due": lambda row: -(row.n_due or 0.0),
    "delay": lambda row: -(row.view.delay_seconds or 0.0),
    "errors": lambda row: (
        not row.view.is_closed,
        -row.view.n_errors,
        -(row.view.blocked_until_ms or 0),
    ),
    "robots": lambda row: _robots_rank(row.robots),
}
_BLOCK_SECONDS: Final = {"1h": 3_600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
_DELAY_SECONDS_MAX: Final = 86_400.0


class HostRow(NamedTuple):
    """A host in the table of hosts."""

    view: HostView
    share: float | None
    """Share of the budget that all fetches have used; None if nothing was spent."""
    freshness: float | None
    n_due: float | None
    n_fetches: int | None
    robots: list[RobotsNote]
    """What robots.txt files say, the newest first; empty if it is not known."""


@router.get("/ui/{corpus}/hosts")
async def show_hosts(
    request: Request,
    corpus: CorpusName,
    sort: Annotated[str, Query(max_length=20)] = "pages",
    find: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """Show the hosts with the most pages, or find one."""
    page = open_page(request, corpus)
    similar: dict[str, int] | None = None
    if find.strip():
        name, similar = await page.read(_find_host, page.corpus, find.strip())
        if name is not None:
            return see_other(f"/ui/{corpus}/hosts/{quote(name, safe='')}")
    table = await page.read(page.corpus.hosts)
    sample = await page.read_current(page.corpus.sample)
    robots = await page.read(page.corpus.robots, tuple(view.host for view in table.rows))
    rows = [_row(view, sample, robots.get(view.host, [])) for view in table.rows]
    sort = sort if sort in _SORTS else "pages"
    rows.sort(key=_SORTS[sort])
    return render(
        request,
        "hosts.html",
        rows=rows,
        n_hosts=table.n_hosts,
        sort=sort,
        find=find.strip(),
        similar=similar,
        now_ms=sample.at_ms,
    )


def _find_host(corpus: Any, text: str) -> tuple[str | None, dict[str, int]]:
    """Return the host that a person means, or hosts with similar names."""
    bare = text.partition("://")[2] or text
    for name in dict.fromkeys((text, bare.partition("/")[0])):
        try:
            if corpus.n_pages_of_host(name):
                return name, {}
        except ValueError:
            continue
    similar: dict[str, int] = {}
    if hasattr(corpus, "similar_hosts"):
        similar = corpus.similar_hosts(bare.partition("/")[0])
    return None, similar


def _row(view: HostView, sample: Sample, robots: list[RobotsNote]) -> HostRow:
    own = sample.hosts.get(view.host)
    if own is None:
        return HostRow(view, None, None, None, None, robots)
    share = own.spent / sample.total.spent if sample.total.spent else None
    return HostRow(view, share, known_freshness(own), own.n_due, own.n_fetches, robots)


def _robots_rank(notes: list[RobotsNote]) -> tuple[int, int]:
    """Return the place of a host by its robots.txt: what closes most comes first."""
    ranks = [(-ROBOTS_CLOSES.index(one.closes), -ROBOTS_RESULTS.index(one.result)) for one in notes]
    return min(ranks, default=(1, 0))


def known_freshness(figures: Figures | None, *, is_weighted: bool = False) -> float | None:
    """Return the modelled share of fresh copies; None if it is not known yet.

    Parameters
    ----------
    figures
        Figures of a corpus, a host or a kind; None if there are none.
    is_weighted
        Whether copies count by their importance.
    """
    if figures is None or not figures.is_freshness_known:
        return None
    value = figures.weighted_freshness if is_weighted else figures.freshness
    return value if math.isfinite(value) else None


@router.get("/ui/{corpus}/hosts/{host:path}")
async def show_host(
    request: Request,
    corpus: CorpusName,
    host: str,
    prefix: Annotated[str, Query(max_length=2_000)] = "",
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    done: Annotated[str, Query(max_length=20)] = "",
    span: Annotated[str, Query(max_length=20)] = "day",
) -> Response:
    """Show one host: its settings, its figures, its sources and its pages."""
    page = open_page(request, corpus)
    view, figures, sources, sample = await _figures_of(page, host)
    rows, following = await page.read(_list_pages, page.corpus, view.host, prefix, cursor)
    span = span if span in SPANS else "day"
    is_known = figures is not None and figures.is_freshness_known
    charts = await page.read_each_minute(sample, _draw, page.corpus, view.host, span, is_known)
    robots = await page.read(page.corpus.robots, (view.host,))
    share = None
    if figures is not None and sample.total.spent:
        share = figures.spent / sample.total.spent
    return render(
        request,
        "host.html",
        host=view,
        figures=figures,
        freshness=known_freshness(figures),
        share=share,
        results=[] if figures is None else result_rows(figures),
        sources=sources,
        robots=robots.get(view.host, []),
        charts=[chart_html(one) for one in charts],
        span=span,
        spans=SPANS,
        rows=rows,
        cursor=following,
        is_first=cursor is None,
        prefix=prefix,
        done=done,
        blocks=list(_BLOCK_SECONDS),
        now_ms=sample.at_ms,
    )


async def _figures_of(
    page: OpenedPage, host: str
) -> tuple[HostView, Figures | None, list[SourceFigures], Sample]:
    try:
        view: HostView = await page.read(page.corpus.host, host)
    except ValueError:
        raise PageError(404, "This is not a host", "Search for it on the page of hosts.") from None
    sample: Sample = await page.read_current(page.corpus.sample)
    sources = [one for one in sample.sources if one.host == view.host]
    return view, sample.hosts.get(view.host), sources, sample


def _draw(corpus: Any, host: str, span: str, is_freshness_known: bool) -> list[str]:
    wanted = SPANS[span]
    now_ms = corpus.now_ms()
    series = corpus.samples(step=wanted.step, since_ms=now_ms - wanted.ms, host=host)
    return host_charts(series, now_ms, is_freshness_known=is_freshness_known)


def _list_pages(
    corpus: Any, host: str, prefix: str, cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    batch, following = corpus.pages_of_host(
        host, prefix=prefix, cursor=cursor, columns=_COLUMNS, limit=PAGES_PER_LIST
    )
    return batch.to_pylist(), following


_NOT_DONE: Final = {
    "delay": "set the delay of the host",
    "block": "block the host",
    "unblock": "take back that the host is blocked",
    "close": "close the host",
    "open": "open the host again",
}


@router.post("/ui/{corpus}/hosts/{host:path}")
async def change_host(request: Request, corpus: CorpusName, host: str) -> Response:
    """Set the delay of a host, block it for a while, close it, or take that back."""
    page, form = await open_action(request, corpus, Scope.ADMIN, "change a host")
    action = form.get("action", "")
    settings = _settings_of(action, form, page.corpus.now_ms())
    request.state.action = f"dashboard: {action} a host"
    note_new_values(request.scope, settings)
    async with page.hosted.settings_lock:
        with say_not_done(_NOT_DONE[action], "host"):
            await page.change(page.corpus.set_host, host, **settings)
    return see_other(f"/ui/{corpus}/hosts/{quote(host, safe='')}?done={action}")


def _settings_of(action: str, form: dict[str, str], now_ms: int) -> dict[str, Any]:
    """Return the settings that a form asks for."""
    match action:
        case "delay":
            return {"delay": _seconds_in(form.get("delay", ""))}
        case "block":
            seconds = _BLOCK_SECONDS.get(form.get("time", ""))
            if seconds is not None:
                return {"blocked_until_ms": now_ms + 1_000 * seconds}
        case "unblock":
            return {"blocked_until_ms": 0}
        case "close" | "open":
            return {"is_closed": action == "close"}
    raise PageError(422, "The form is not complete", "Go back and send it again.")


def _seconds_in(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _DELAY_SECONDS_MAX:
        limit = f"{_DELAY_SECONDS_MAX:,.0f}"
        raise PageError(422, "The delay is not valid", f"Give 0 to {limit} seconds.")
    return seconds
