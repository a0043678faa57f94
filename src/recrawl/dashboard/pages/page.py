"""The page about one URL: search, explanation, timeline, last change and actions."""

import math
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.dashboard.frame.opened_page import OpenedPage, open_action, open_page, see_other
from recrawl.dashboard.frame.page_errors import PageError, not_done_error, say_not_done
from recrawl.dashboard.frame.rendering import chart_html, render
from recrawl.dashboard.pages.page_sight import PageSight, read_page_past, read_page_present
from recrawl.messages.results import RowStatus, find_unavailable
from recrawl.service.calls import CorpusName
from recrawl.service.keys import Scope
from recrawl.service.protection.audit_layer import note_new_values

__all__ = ["router"]

router = APIRouter()

_MATCHES_MAX: Final = 20
_IMPORTANCE_MAX: Final = 1e6
_ACTIONS: Final = {
    "fetch": "fetch a page now",
    "importance": "set the importance of a page",
    "stop": "stop tracking a page",
}

_NOT_DONE: Final = {
    "fetch": "have the page fetched now",
    "importance": "set the importance of the page",
    "stop": "stop tracking the page",
}

Url = Annotated[str, Query(max_length=4_000)]
Key = Annotated[str | None, Query(max_length=512)]


@router.get("/ui/{corpus}/page")
async def show_page(
    request: Request,
    corpus: CorpusName,
    url: Url = "",
    key: Key = None,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """Show everything about one page, or the form to search for one."""
    page = open_page(request, corpus)
    url, key = url.strip(), key or None
    context: dict[str, Any] = {"url": url, "key": key, "done": done, "is_keyed": _is_keyed(page)}
    if not url:
        return render(request, "page_search.html", similar=[], matches=[], **context)
    sight = await _see(page, url, key)
    if sight is None:
        similar, matches = await page.read(_suggest, page.corpus, url)
        status = 200 if done == "stop" else 404
        return render(
            request,
            "page_search.html",
            status=status,
            similar=similar,
            matches=matches,
            **context,
        )
    return render(request, "page.html", **context, **_context_of(sight))


@router.get("/ui/{corpus}/page/live")
async def show_live_part(
    request: Request, corpus: CorpusName, url: Url, key: Key = None
) -> Response:
    """Show the part of the page that changes, for a page that brings itself up to date."""
    page = open_page(request, corpus)
    sight = await _see(page, url, key or None)
    if sight is None:
        raise PageError(404, "The page is not tracked", "Somebody has stopped tracking it.")
    return render(request, "page_live.html", url=url, key=key or None, **_context_of(sight))


async def _see(page: OpenedPage, url: str, key: str | None) -> PageSight | None:
    try:
        present = await page.read_current(read_page_present, page.corpus, url, key)
        if present is None:
            return None
        past = await page.read_slow(present.version, read_page_past, page.corpus, present.url, key)
    except ValueError:
        return None
    return PageSight.of(present, past)


def _is_keyed(page: OpenedPage) -> bool:
    return bool(page.corpus.config.corpus.group_by == "key")


def _context_of(sight: PageSight) -> dict[str, Any]:
    return {
        "sight": sight,
        "members": sight.members,
        "chart": None if sight.svg is None else chart_html(sight.svg),
        "now_ms": sight.members["now_ms"],
    }


def _suggest(corpus: Any, url: str) -> tuple[list[str], list[str]]:
    """Return URLs of tracked pages that are spelled much alike, and those that begin alike."""
    try:
        similar: list[str] = corpus.similar_urls(url)
    except ValueError:
        similar = []
    matches: list[str] = []
    try:
        host = urlsplit(url if "//" in url else f"https://{url}").netloc
        if host:
            prefix = url if "//" in url else url.removeprefix(host)
            batch, _ = corpus.pages_of_host(
                host, prefix=prefix, columns=("url",), limit=_MATCHES_MAX
            )
            matches = batch.column("url").to_pylist()
    except ValueError:
        pass
    return similar, [one for one in matches if one not in similar]


@router.post("/ui/{corpus}/page")
async def change_page(request: Request, corpus: CorpusName) -> Response:
    """Have a page fetched now, set its importance, or stop tracking it."""
    page, form = await open_action(request, corpus, Scope.ADMIN, "change a page")
    url, key = form.get("url", "")[:4_000], form.get("key") or None
    action = form.get("action", "")
    if action not in _ACTIONS:
        raise PageError(422, "The form is not complete", "Go back and send it again.")
    # The audit log shows the parameters of the path.
    request.scope["path_params"]["url"] = url
    request.state.action = f"dashboard: {_ACTIONS[action]}"
    settings: dict[str, Any] = {}
    if action == "importance":
        settings["importance"] = _importance_in(form.get("importance", ""))
        note_new_values(request.scope, settings)
    corpus_calls = {
        "fetch": page.corpus.fetch_now,
        "importance": page.corpus.set,
        "stop": page.corpus.remove,
    }
    with say_not_done(_NOT_DONE[action], "page"):
        found = await page.change(corpus_calls[action], [url], key=key, **settings)
    if found.rows[0] in (RowStatus.UNKNOWN, RowStatus.REFUSED):
        raise PageError(404, "The page is not tracked", "Search for it again.")
    if find_unavailable(found.rows).size:
        raise not_done_error(_NOT_DONE[action], "page")
    query = {"url": url, "done": action} | ({} if key is None else {"key": key})
    return see_other(f"/ui/{corpus}/page?{urlencode(query)}")


def _importance_in(text: str) -> float:
    try:
        importance = float(text)
    except ValueError:
        importance = math.nan
    if not 0 < importance <= _IMPORTANCE_MAX:
        limit = f"{_IMPORTANCE_MAX:,.0f}"
        raise PageError(
            422, "The importance is not valid", f"Give a number above 0, up to {limit}."
        )
    return importance
