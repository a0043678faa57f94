"""Paths of orders: lease pages, also by URL, extend and release."""

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from msgspec import Meta

from recrawl.corpus import LeasedUrls, Orders, RequestKey
from recrawl.messages.leases import LEASE_SECONDS_MAX
from recrawl.service.calls import (
    CorpusName,
    RequestBody,
    check_at_most,
    check_row_count,
    enter,
    hold_body,
    json_body,
    request_key,
    rows_body,
    service_of,
)
from recrawl.service.formats.answers import (
    json_answer,
    note_rows,
    order_answers,
    orders_answer,
    status_answer,
)
from recrawl.service.formats.handles import Handle, handle_number
from recrawl.service.formats.row_kinds import URL_ROWS
from recrawl.service.formats.rows import decode_json, read_rows
from recrawl.service.forwarded import find_forwarded
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.hosting.lease_queue import WantedLease
from recrawl.service.keys import Scope
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem

__all__ = ["ExtendBody", "ReleaseBody", "router"]

router = APIRouter(tags=["orders"])

_Seconds = Annotated[
    float | None,
    Query(gt=0, le=LEASE_SECONDS_MAX, description="Length of the leases."),
]
_Run = Annotated[str | None, Query(max_length=200, description="Name of the run that pays.")]


class ReleaseBody(msgspec.Struct, forbid_unknown_fields=True):
    """Orders to give back."""

    handles: list[Handle]


class ExtendBody(msgspec.Struct, forbid_unknown_fields=True):
    """Orders to hold for longer."""

    handles: list[Handle]
    seconds: Annotated[float, Meta(gt=0, le=LEASE_SECONDS_MAX)]
    """Time from now for which to hold them."""


@router.post("/orders", summary="Lease the pages that are most worth fetching")
async def lease(
    request: Request,
    corpus: CorpusName,
    n: Annotated[int, Query(ge=1, description="Largest number of orders.")] = 1,
    wait: Annotated[
        float, Query(ge=0, description="Seconds to wait until the first page is due.")
    ] = 0.0,
    seconds: _Seconds = None,
    run: _Run = None,
    exact: Annotated[
        bool, Query(description="Compare every page, also in a large corpus.")
    ] = False,
    why: Annotated[bool, Query(description="Say why there are fewer than n.")] = True,
) -> Response:
    """Lease up to n pages.  With an Idempotency-Key, a repeated request gets the same orders."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    check_at_most("n", n, limits.orders_max)
    check_at_most("wait", wait, limits.wait_seconds_max)
    forwarded = find_forwarded(request)
    is_held_only = forwarded is not None and forwarded.is_held_only
    key = request_key(request, n, seconds, run, exact)
    wanted = WantedLease(
        # None: a lease that holds orders already gets these, whatever their number.
        n=0 if is_held_only else n,
        seconds=seconds,
        exact=exact,
        run=run,
        request=key,
        wait_seconds=wait,
        with_shortfall=why,
        # A client that got no answer repeats the request.  A worker that forwards one does not: it
        # has answered its client without these orders.
        keeps_orders=is_held_only or (key is not None and forwarded is None),
    )
    if key is None or forwarded is None:
        orders = await _lease_or_leave(request, hosted, wanted)
    else:
        # A repetition must not find orders that are about to be given back.
        async with hosted.leases.hold_key(key):
            orders = await _lease_or_leave(request, hosted, wanted)
    shortfall = None if orders.shortfall is None else orders.shortfall.as_dict()
    return orders_answer(request, orders, shortfall)


async def _lease_or_leave(request: Request, hosted: HostedCorpus, wanted: WantedLease) -> Orders:
    """Return orders; if the client has gone away meanwhile, nobody gets any."""
    if wanted.wait_seconds == 0:
        orders = await hosted.leases.lease(wanted)
        if await request.is_disconnected():
            await _give_back(hosted, wanted, orders)
        return orders
    leasing = asyncio.create_task(hosted.leases.lease(wanted))
    leaving = asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait([leasing, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not leasing.done():
            raise _gone_away()
        orders = leasing.result()
        if leaving.done():
            await _give_back(hosted, wanted, orders)
        return orders
    finally:
        for task in (leasing, leaving):
            if not task.done():
                task.cancel()
        await asyncio.gather(leasing, leaving, return_exceptions=True)


async def _give_back(hosted: HostedCorpus, wanted: WantedLease, orders: Orders) -> None:
    """Give back the orders of a client that has gone away, unless it will ask for them again."""
    if orders and not wanted.keeps_orders:
        await hosted.change(hosted.corpus.release, [one.handle for one in orders])
        raise _gone_away()


def _gone_away() -> Problem:
    return Problem("invalid-body", "the client has gone away")


async def _wait_until_gone(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


@router.post(
    "/orders/by-url",
    summary="Lease given pages, as far as each may be fetched now",
    openapi_extra=rows_body(URL_ROWS),
)
async def lease_urls(
    request: Request,
    corpus: CorpusName,
    add: Annotated[bool, Query(description="Track URLs that are not tracked yet.")] = False,
    seconds: _Seconds = None,
    run: _Run = None,
) -> Response:
    """Return for each URL an order, or the reason why it may not be fetched now."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    if add:
        enter(request, corpus, Scope.REPORT)
    async with hold_body(request) as body:
        key = request_key(request, body.data, add, seconds, run)
        options = {"add": add, "seconds": seconds, "run": run}
        return await hosted.change(_lease_urls, hosted.corpus, request, body, limits, key, options)


def _lease_urls(
    corpus: Any,
    request: Request,
    body: RequestBody,
    limits: ServiceLimits,
    key: RequestKey | None,
    options: dict[str, Any],
) -> Response:
    rows = read_rows(body.data, body.format, URL_ROWS, limits)
    found: LeasedUrls = corpus.lease_urls(
        rows.column_or_nulls("url"), key=rows.column("key"), request=key, **options
    )
    note_rows(request, len(found))
    orders = iter(order_answers(found.orders))
    answers = [
        {**one.as_dict(), "order": None if one.order is None else next(orders)} for one in found
    ]
    return json_answer({"answers": answers})


@router.post(
    "/orders/extend", summary="Hold orders for longer", openapi_extra=json_body("ExtendBody")
)
async def extend(request: Request, corpus: CorpusName) -> Response:
    """Hold orders until some seconds from now.  An order that is not held any more is unknown."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    async with hold_body(request, only_json=True) as body:
        wanted: ExtendBody = decode_json(body.data, ExtendBody)
        check_row_count(wanted.handles, limits)
        handles = list(map(handle_number, wanted.handles))
        found = await hosted.change(hosted.corpus.extend, handles, seconds=wanted.seconds)
    return status_answer(request, found.rows)


@router.post("/orders/release", summary="Give orders back", openapi_extra=json_body("ReleaseBody"))
async def release(request: Request, corpus: CorpusName) -> Response:
    """Give back orders that were not fetched."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    async with hold_body(request, only_json=True) as body:
        wanted: ReleaseBody = decode_json(body.data, ReleaseBody)
        check_row_count(wanted.handles, limits)
        handles = list(map(handle_number, wanted.handles))
        found = await hosted.change(hosted.corpus.release, handles)
    return status_answer(request, found.rows)
