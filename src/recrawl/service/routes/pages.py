"""Paths of pages: add, remove, set, list, explain."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from numpy.typing import NDArray

from recrawl.client.details import ServiceDetails
from recrawl.corpus import PAGE_COLUMNS, LastChange, Passage, RowStatus, explanation_words
from recrawl.messages.results import find_unavailable
from recrawl.service.calls import (
    CorpusName,
    RequestBody,
    check_at_most,
    check_row_count,
    enter,
    hold_body,
    json_body,
    rows_body,
    service_of,
)
from recrawl.service.formats.answers import json_answer, rows_answer, status_answer
from recrawl.service.formats.row_kinds import PAGE_ROWS, URL_ROWS
from recrawl.service.formats.rows import BodyRows, decode_json, read_rows
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.keys import Scope
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem
from recrawl.service.protection.audit_layer import note_new_values

__all__ = ["PageChangeBody", "router"]

router = APIRouter(tags=["pages"])
_LISTED_BY_DEFAULT = (
    "url,fetch_url,group,kind,status,importance,fetched_at_ms,due_at_ms,doc_id,metadata,key"
)

_PartCursor = Annotated[
    str | None,
    Query(
        max_length=100,
        description="With a pattern: change pages for about a second, and return the cursor with "
        "which the next request continues, null when all are changed. Begin with an empty one. "
        "Without a cursor, the answer comes when all are changed.",
    ),
]


class PageChangeBody(msgspec.Struct, forbid_unknown_fields=True):
    """New settings of pages, given by URL or by pattern."""

    settings: dict[str, Any]
    """importance, cost, kind, min_age, max_age, stale_for, stale_probability, doc_id, metadata."""
    urls: list[str] | None = None
    pattern: str | None = None
    key: str | None = None


@router.post("/pages", summary="Add pages to track", openapi_extra=rows_body(PAGE_ROWS))
async def add_pages(
    request: Request,
    corpus: CorpusName,
    check: Annotated[bool, Query(description="Add nothing; say which rows are refused.")] = False,
) -> Response:
    """Add pages.  Those that are tracked already keep their values; their status is duplicate."""
    hosted, limits = enter(request, corpus, Scope.REPORT), service_of(request).limits
    async with hold_body(request) as body:
        if check:
            return await hosted.read(_check, hosted.corpus, request, body, limits)
        return await hosted.change(_add, hosted.corpus, request, body, limits)


@router.patch("/pages", summary="Set values of each page", openapi_extra=rows_body(PAGE_ROWS))
async def set_pages(request: Request, corpus: CorpusName) -> Response:
    """Set importance, cost, doc_id or metadata of each page; what a row lacks stays as it is."""
    hosted, limits = enter(request, corpus, Scope.ADMIN), service_of(request).limits
    async with hold_body(request) as body:
        status = await hosted.change(_set_each, hosted.corpus, body, limits)
    return status_answer(request, status)


@router.post(
    "/pages/settings",
    summary="Change settings of pages by URL or pattern",
    openapi_extra=json_body("PageChangeBody"),
)
async def set_page_settings(
    request: Request, corpus: CorpusName, cursor: _PartCursor = None
) -> Response:
    """Give pages the same settings, such as ``{"pattern": "/news/*", "settings": {…}}``."""
    hosted, limits = enter(request, corpus, Scope.ADMIN), service_of(request).limits
    async with hold_body(request, only_json=True) as body:
        wanted: PageChangeBody = decode_json(body.data, PageChangeBody)
        note_new_values(request.scope, {"pattern": wanted.pattern, **wanted.settings})
        check_row_count(wanted.urls or (), limits)
        if cursor is not None:
            if wanted.pattern is None or wanted.urls is not None or wanted.key is not None:
                raise Problem("invalid-value", "a cursor needs a pattern, without urls or key")
            return await _change_part(hosted, wanted.pattern, wanted.settings, cursor)
        found = await hosted.change(
            hosted.corpus.set,
            wanted.urls,
            pattern=wanted.pattern,
            key=wanted.key,
            **wanted.settings,
        )
    return status_answer(request, found.rows, {"n_pages": int(found)})


@router.post(
    "/pages/remove",
    summary="Stop tracking pages",
    openapi_extra=rows_body(URL_ROWS, is_needed=False),
)
async def remove_pages(
    request: Request,
    corpus: CorpusName,
    pattern: Annotated[
        str | None, Query(max_length=2_000, description="Pattern of URLs, instead of rows.")
    ] = None,
    cursor: _PartCursor = None,
) -> Response:
    """Stop tracking pages, given by rows with URLs or by a pattern."""
    hosted, limits = enter(request, corpus, Scope.ADMIN), service_of(request).limits
    if pattern is not None:
        note_new_values(request.scope, {"pattern": pattern})
        if cursor is not None:
            return await _change_part(hosted, pattern, None, cursor)
        found = await hosted.change(hosted.corpus.remove, pattern=pattern)
        return status_answer(request, found.rows, {"n_pages": int(found)})
    if "content-type" not in request.headers:
        raise Problem("invalid-value", "give rows with URLs, or a pattern")
    async with hold_body(request) as body:
        status, n_pages = await hosted.change(_remove, hosted.corpus, body, limits)
    return status_answer(request, status, {"n_pages": n_pages})


async def _change_part(
    hosted: HostedCorpus, pattern: str, settings: dict[str, Any] | None, cursor: str
) -> Response:
    """Change some pages of a pattern, and say where the next request continues."""
    part = await hosted.change(
        hosted.corpus.change_matching, pattern, settings, cursor=cursor or None
    )
    return json_answer({"n_pages": part.n_pages, "cursor": part.cursor})


@router.get("/pages", summary="List pages")
async def list_pages(
    request: Request,
    corpus: CorpusName,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1)] = 1_000,
    columns: Annotated[
        str,
        Query(max_length=2_000, description=f"all, or some of {', '.join(PAGE_COLUMNS.names)}."),
    ] = _LISTED_BY_DEFAULT,
) -> Response:
    """List all pages in portions: give the cursor of an answer to get the next one."""
    hosted, limits = enter(request, corpus, Scope.READ), service_of(request).limits
    check_at_most("limit", limit, limits.listed_max)
    names = None if columns == "all" else columns.split(",")
    return await hosted.read(_list, hosted.corpus, request, cursor, names, limit)


def _list(
    corpus: Any, request: Request, cursor: str | None, columns: list[str] | None, limit: int
) -> Response:
    batch, following = corpus.pages_after(cursor, columns=columns, limit=limit)
    return rows_answer(request, "pages", batch, following)


@router.get("/page", summary="Explain one page")
async def explain_page(
    request: Request,
    corpus: CorpusName,
    url: Annotated[str, Query(max_length=4_000)],
    key: Annotated[str | None, Query(max_length=512)] = None,
) -> Response:
    """Return everything known of a page, and why it is due or is not."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(_explain, hosted.corpus, url, key)
    return json_answer(found)


def _explain(corpus: Any, url: str, key: str | None) -> dict[str, Any]:
    page = corpus.explain(url, key=key)
    if page is None:
        raise Problem(
            "unknown-page", "the page is not tracked", similar_urls=corpus.similar_urls(url)
        )
    # A page of another worker comes with the words of that worker.
    is_forwarded = isinstance(page, ServiceDetails)
    words = " ".join(page.words) if is_forwarded else explanation_words(page, None)
    return {"words": words, **page.as_dict()}


@router.get("/page/history", summary="Show the fetches and signals of one page")
async def show_history(
    request: Request,
    corpus: CorpusName,
    url: Annotated[str, Query(max_length=4_000)],
    key: Annotated[str | None, Query(max_length=512)] = None,
    with_beliefs: Annotated[
        bool, Query(description="Also the probability that the copy was fresh.")
    ] = True,
    n_records_max: Annotated[
        int | None, Query(ge=1, description="Number of records of the log to read.")
    ] = None,
) -> Response:
    """Return what the log says of a page; of a long log, only its last records are read."""
    hosted, limits = enter(request, corpus, Scope.READ), service_of(request).limits
    most = limits.history_records_max
    check_at_most("n_records_max", n_records_max or 1, most)
    found = await hosted.read(
        hosted.corpus.history,
        url,
        key=key,
        with_beliefs=with_beliefs,
        n_records_max=n_records_max or most,
    )
    if found is None:
        raise Problem("unknown-page", "the page is not tracked")
    return json_answer({"url": found.url, **found.as_dict()})


@router.get("/page/last-change", summary="Show the last change of one page")
async def show_last_change(
    request: Request,
    corpus: CorpusName,
    url: Annotated[str, Query(max_length=4_000)],
    key: Annotated[str | None, Query(max_length=512)] = None,
) -> Response:
    """Return the last change with the passages that it added and removed; null if not known."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(hosted.corpus.last_change, url, key=key)
    return json_answer({"change": None if found is None else _last_change(found)})


def _last_change(change: LastChange) -> dict[str, Any]:
    return change._asdict() | {
        "what": change.what.name.lower(),
        "removed": _passages(change.removed),
        "added": _passages(change.added),
    }


def _passages(passages: tuple[Passage, ...] | None) -> list[dict[str, Any]] | None:
    # A hash has more digits than some readers of JSON keep.
    if passages is None:
        return None
    return [{"number": str(one.number), "text": one.text} for one in passages]


@router.post(
    "/pages/fetch-now",
    summary="Have pages fetched as soon as possible",
    openapi_extra=rows_body(URL_ROWS),
)
async def fetch_now(request: Request, corpus: CorpusName) -> Response:
    """Treat the copies of pages as certainly outdated, so that they are leased soon."""
    hosted, limits = enter(request, corpus, Scope.ADMIN), service_of(request).limits
    async with hold_body(request) as body:
        status = await hosted.change(_fetch_now, hosted.corpus, body, limits)
    return status_answer(request, status)


def _fetch_now(corpus: Any, body: RequestBody, limits: ServiceLimits) -> NDArray[np.uint8]:
    rows = read_rows(body.data, body.format, URL_ROWS, limits)
    status: NDArray[np.uint8] = corpus.fetch_now(
        rows.column_or_nulls("url"), key=rows.column("key")
    ).rows
    return status


def _as_numbers(column: pa.Array | None) -> Any:
    return None if column is None else column.to_numpy(zero_copy_only=False)


def _with_same_values(rows: BodyRows, names: tuple[str, ...]) -> Iterator[NDArray[np.int64]]:
    """Yield row numbers in groups: within one, a column has a value in all rows or in none."""
    code = np.zeros(len(rows), np.int64)
    for place, name in enumerate(names):
        column = rows.column(name)
        if column is not None and column.null_count:
            code |= column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64) << place
    for one in np.unique(code):
        yield np.flatnonzero(code == one)


def _take(column: pa.Array | None, index: NDArray[np.int64], n_rows: int) -> pa.Array | None:
    if column is None or index.size == n_rows:
        return column
    part = column.take(pa.array(index))
    return None if part.null_count == len(part) else part


def _add(corpus: Any, request: Request, body: RequestBody, limits: ServiceLimits) -> Response:
    """Add the pages of a body; return the answer, with the status of each row."""
    rows = read_rows(body.data, body.format, PAGE_ROWS, limits)
    n_rows = len(rows)
    status = np.full(n_rows, RowStatus.REFUSED, np.uint8)
    columns = {name: rows.column(name) for name in PAGE_ROWS.columns}
    url = rows.column_or_nulls("url")
    n_limited = limited_until_ms = 0
    for index in _with_same_values(rows, ("importance", "cost")):
        part = {name: _take(column, index, n_rows) for name, column in columns.items()}
        added = corpus.add(
            url if index.size == n_rows else url.take(pa.array(index)),
            importance=_as_numbers(part["importance"]),
            cost=_as_numbers(part["cost"]),
            doc_id=part["doc_id"],
            metadata=part["metadata"],
            key=part["key"],
        )
        status[index] = added.rows
        n_limited += added.n_limited
        limited_until_ms = max(limited_until_ms, added.limited_until_ms)
    members: dict[str, Any] = {"n_limited": n_limited, "limited_until_ms": limited_until_ms or None}
    refused = np.flatnonzero(status == RowStatus.REFUSED)[: limits.reasons_max]
    if refused.size:
        index = pa.array(refused)
        names = ("doc_id", "metadata", "key")
        some = {name: one.take(index) for name in names if (one := columns[name]) is not None}
        why = corpus.why_refused(url.take(index), **some)
        members["reasons"] = {int(refused[row]): reason for row, reason in why.items()}
    return status_answer(request, status, members)


def _check(corpus: Any, request: Request, body: RequestBody, limits: ServiceLimits) -> Response:
    """Answer as `_add` would, as far as rows are refused; those that are not are done."""
    rows = read_rows(body.data, body.format, PAGE_ROWS, limits)
    own = {name: rows.column(name) for name in ("doc_id", "metadata", "key")}
    why: dict[int, str] = corpus.why_refused(rows.column_or_nulls("url"), **own)
    status = np.full(len(rows), RowStatus.DONE, np.uint8)
    status[list(why)] = RowStatus.REFUSED
    reasons = dict(list(why.items())[: limits.reasons_max])
    return status_answer(request, status, {"reasons": reasons})


def _set_each(corpus: Any, body: RequestBody, limits: ServiceLimits) -> NDArray[np.uint8]:
    rows = read_rows(body.data, body.format, PAGE_ROWS, limits)
    url, key = rows.column_or_nulls("url"), rows.column("key")
    own = {name: rows.column(name) for name in ("doc_id", "metadata")}
    status: NDArray[np.uint8] = corpus.set_each(url, key=key, **own).rows
    for name in ("importance", "cost"):
        column = rows.column(name)
        if column is not None:
            index = column.is_valid().to_numpy(zero_copy_only=False) & (status == RowStatus.DONE)
            mask = pa.array(index)
            part = None if key is None else key.filter(mask)
            values = _as_numbers(column.filter(mask))
            found = corpus.set_each(url.filter(mask), key=part, **{name: values}).rows
            status[np.flatnonzero(index)[find_unavailable(found)]] = RowStatus.UNAVAILABLE
    return status


def _remove(corpus: Any, body: RequestBody, limits: ServiceLimits) -> tuple[NDArray[np.uint8], int]:
    rows = read_rows(body.data, body.format, URL_ROWS, limits)
    removed = corpus.remove(rows.column_or_nulls("url"), key=rows.column("key"))
    return removed.rows, int(removed)
