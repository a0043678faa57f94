"""Paths of what clients have learned: outcomes of fetches, signals, requests of users."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from numpy.typing import NDArray

from recrawl.corpus import Reported, RequestKey, RowStatus, Transition
from recrawl.service.calls import (
    CorpusName,
    RequestBody,
    enter,
    hold_body,
    request_key,
    rows_body,
    service_of,
)
from recrawl.service.formats.answers import status_answer
from recrawl.service.formats.outcome_rows import (
    ReadOutcomes,
    are_few,
    few_outcomes,
    outcome_table,
)
from recrawl.service.formats.row_kinds import OUTCOME_ROWS, REQUEST_ROWS, SIGNAL_ROWS
from recrawl.service.formats.rows import ARROW, read_rows
from recrawl.service.keys import Scope
from recrawl.service.limits import ServiceLimits

__all__ = ["router"]

router = APIRouter(tags=["reports"])
# A body up to this size is decoded at once; that takes less time than handing it to a thread.
_SMALL_BODY_BYTES = 1 << 15
_DONE, _DUPLICATE = int(RowStatus.DONE), int(RowStatus.DUPLICATE)
_REFUSED, _UNKNOWN = int(RowStatus.REFUSED), int(RowStatus.UNKNOWN)
_UNAVAILABLE, _ELSEWHERE = int(RowStatus.UNAVAILABLE), int(RowStatus.ELSEWHERE)
_TRANSITIONS = {int(one): one.name.lower() for one in Transition}


@router.post(
    "/outcomes", summary="Report what fetches found", openapi_extra=rows_body(OUTCOME_ROWS)
)
async def report(request: Request, corpus: CorpusName) -> Response:
    """Report outcomes, with or without bodies.  A second report of an order is a duplicate."""
    hosted, limits = enter(request, corpus, Scope.REPORT), service_of(request).limits
    async with hold_body(request) as body:
        if len(body.data) <= _SMALL_BODY_BYTES and body.format != ARROW:
            rows = read_rows(body.data, body.format, OUTCOME_ROWS, limits)
            if are_few(rows):
                read = few_outcomes(rows)
                found = await hosted.report_few(read.outcomes) if read.outcomes else None
                return _answer(request, len(rows), read, found, limits)
        return await hosted.report(_report, hosted.corpus, request, body, limits)


def _report(corpus: Any, request: Request, body: RequestBody, limits: ServiceLimits) -> Response:
    rows = read_rows(body.data, body.format, OUTCOME_ROWS, limits)
    read = outcome_table(rows)
    found = corpus.report(read.outcomes) if read.kept.size else None
    return _answer(request, len(rows), read, found, limits)


def _answer(
    request: Request,
    n_rows: int,
    read: ReadOutcomes,
    found: Reported | None,
    limits: ServiceLimits,
) -> Response:
    status = [_REFUSED] * n_rows
    transition: list[str | None] = [None] * n_rows
    members: dict[str, Any] = {"transition": transition}
    if found is not None:
        # Lists: most answers have one row, for which columns take several times as long.
        kept = read.kept.tolist()
        known = found.is_known.tolist()
        counted, codes, dropped = (column.tolist() for column in found)
        wrong, away = found.wrong_answer.tolist(), found.is_unavailable.tolist()
        for i, row in enumerate(kept):
            if counted[i]:
                status[row] = _DONE
                transition[row] = _TRANSITIONS[codes[i]]
            else:
                status[row] = _UNAVAILABLE if away[i] else _DUPLICATE if known[i] else _UNKNOWN
        if any(away):
            for i in np.flatnonzero(found.is_elsewhere).tolist():
                status[kept[i]] = _ELSEWHERE
        if any(dropped):
            members["dropped"] = [row for row, is_so in zip(kept, dropped, strict=True) if is_so]
        if any(wrong):
            members["wrong_answers"] = {
                row: kind for row, kind in zip(kept, wrong, strict=True) if kind
            }
    if read.reasons:
        members["reasons"] = dict(list(read.reasons.items())[: limits.reasons_max])
    return status_answer(request, status, members)


@router.post(
    "/signals",
    summary="Signal that pages may have changed",
    openapi_extra=rows_body(SIGNAL_ROWS),
)
async def signal(
    request: Request,
    corpus: CorpusName,
    source: Annotated[
        str, Query(min_length=1, max_length=200, description="Name of the source, such as sitemap.")
    ],
) -> Response:
    """Signal pages.  With an Idempotency-Key, a repeated request counts once."""
    hosted, limits = enter(request, corpus, Scope.SIGNAL), service_of(request).limits
    async with hold_body(request) as body:
        key = request_key(request, body.data, source)
        status = await hosted.change(_signal, hosted.corpus, body, limits, source, key)
    return status_answer(request, status)


def _signal(
    corpus: Any, body: RequestBody, limits: ServiceLimits, source: str, key: RequestKey | None
) -> NDArray[np.uint8]:
    rows = read_rows(body.data, body.format, SIGNAL_ROWS, limits)
    instants = {
        name: 0 if (column := rows.column(name)) is None else column.fill_null(0).to_numpy()
        for name in ("at_ms", "claimed_at_ms")
    }
    found = corpus.signal(
        rows.column_or_nulls("url"),
        source=source,
        key=rows.column("key"),
        request=key,
        **instants,
    )
    status: NDArray[np.uint8] = found.rows
    return status


@router.post(
    "/requests",
    summary="Report how often users requested pages",
    openapi_extra=rows_body(REQUEST_ROWS),
)
async def count_requests(request: Request, corpus: CorpusName) -> Response:
    """Report requests.  With an Idempotency-Key, a repeated report counts once."""
    hosted, limits = enter(request, corpus, Scope.REPORT), service_of(request).limits
    async with hold_body(request) as body:
        key = request_key(request, body.data)
        status = await hosted.change(_requests, hosted.corpus, body, limits, key)
    return status_answer(request, status)


def _requests(
    corpus: Any, body: RequestBody, limits: ServiceLimits, key: RequestKey | None
) -> NDArray[np.uint8]:
    rows = read_rows(body.data, body.format, REQUEST_ROWS, limits)
    count, at_ms = rows.column("n_requests"), rows.column("at_ms")
    found = corpus.requests(
        rows.column_or_nulls("url"),
        1 if count is None else count.fill_null(1.0).to_numpy(),
        at_ms=0 if at_ms is None else at_ms.fill_null(0).to_numpy(),
        key=rows.column("key"),
        request=key,
    )
    status: NDArray[np.uint8] = found.rows
    return status
