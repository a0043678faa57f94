"""Paths of settings: the budget, and how hosts are fetched from.

A client that gives the ETag of an answer as If-Match changes only what it has seen.
"""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from msgspec import Meta

from recrawl.corpus import PAGE_COLUMNS
from recrawl.service.calls import (
    CorpusName,
    check_at_most,
    enter,
    hold_body,
    json_body,
    service_of,
)
from recrawl.service.formats.answers import check_version, json_answer, rows_answer, version_of
from recrawl.service.formats.row_kinds import Instant
from recrawl.service.formats.rows import decode_json
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.keys import Scope
from recrawl.service.protection.audit_layer import note_new_values

__all__ = ["BudgetBody", "HostBody", "router"]

router = APIRouter(tags=["settings"])
_DELAY_SECONDS_MAX = 4e6
_PAGES_OF_HOST_MAX = 1_000
_Count = Annotated[int, Meta(ge=1, le=65_535)]


class BudgetBody(msgspec.Struct, forbid_unknown_fields=True):
    """A budget."""

    rate: str | None
    """Budget such as "30/h", "20000/day" or "100/run"; null for unlimited."""


class HostBody(msgspec.Struct, forbid_unknown_fields=True):
    """New settings of a host; what is not given stays as it is."""

    delay: Annotated[float, Meta(ge=0, lt=_DELAY_SECONDS_MAX)] | str | None = None
    """Time between two fetches: seconds, or text such as "5s"."""
    in_flight_max: _Count | None = None
    burst: _Count | None = None
    blocked_until_ms: Instant | None = None
    is_closed: bool | None = None
    is_unlimited: bool | None = None


@router.get("/budget", summary="Show the budget")
async def show_budget(request: Request, corpus: CorpusName) -> Response:
    """Return the budget that holds now."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(_budget, hosted.corpus)
    return json_answer(found, headers={"ETag": version_of(found)})


@router.put("/budget", summary="Set the budget", openapi_extra=json_body("BudgetBody"))
async def set_budget(request: Request, corpus: CorpusName) -> Response:
    """Set the budget; with If-Match, only if it is still the one that the client has seen."""
    hosted = enter(request, corpus, Scope.ADMIN)
    async with hold_body(request, only_json=True) as body, hosted.settings_lock:
        wanted: BudgetBody = decode_json(body.data, BudgetBody)
        note_new_values(request.scope, {"rate": wanted.rate or "unlimited"})
        check_version(request, await hosted.read(_budget, hosted.corpus))
        await hosted.change(hosted.corpus.set_budget, wanted.rate)
        found = await hosted.read(_budget, hosted.corpus)
    return json_answer(found, headers={"ETag": version_of(found)})


def _budget(corpus: Any) -> dict[str, Any]:
    stats = corpus.stats()
    return {
        "budget": stats.budget,
        "unit": stats.budget_unit,
        "per_second": stats.budget_per_second,
        "per_run": stats.run_budget,
    }


@router.get("/hosts", summary="List the hosts with the most pages")
async def list_hosts(request: Request, corpus: CorpusName) -> Response:
    """Return how the hosts with the most pages are fetched from, and the number of all hosts."""
    hosted = enter(request, corpus, Scope.READ)
    rows, n_hosts = await hosted.read(hosted.corpus.hosts)
    return json_answer({"hosts": [row._asdict() for row in rows], "n_hosts": n_hosts})


@router.get("/hosts/{host}/pages", summary="List the pages of a host")
async def list_pages_of_host(
    request: Request,
    corpus: CorpusName,
    host: str,
    prefix: Annotated[
        str,
        Query(max_length=2_000, description="Beginning of what follows the host in the URLs."),
    ] = "",
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1)] = 100,
    columns: Annotated[
        str,
        Query(max_length=2_000, description=f"all, or some of {', '.join(PAGE_COLUMNS.names)}."),
    ] = "url,status,importance,fetched_at_ms,due_at_ms,key",
) -> Response:
    """List pages in portions: there are more as long as an answer has a cursor."""
    hosted, limits = enter(request, corpus, Scope.READ), service_of(request).limits
    check_at_most("limit", limit, limits.listed_max)
    batch, following = await hosted.read(
        hosted.corpus.pages_of_host,
        host,
        prefix=prefix,
        cursor=cursor,
        columns=None if columns == "all" else columns.split(","),
        limit=min(limit, _PAGES_OF_HOST_MAX),
    )
    return rows_answer(request, "pages", batch, following)


@router.get("/hosts/{host}", summary="Show how a host is fetched from")
async def show_host(request: Request, corpus: CorpusName, host: str) -> Response:
    """Return the settings of a host, and the number of its pages."""
    hosted = enter(request, corpus, Scope.READ)
    return await _host_answer(hosted, host)


@router.patch(
    "/hosts/{host}",
    summary="Set how a host is fetched from",
    openapi_extra=json_body("HostBody"),
)
async def set_host(request: Request, corpus: CorpusName, host: str) -> Response:
    """Change settings of a host; with If-Match, only those that the client has seen."""
    hosted = enter(request, corpus, Scope.ADMIN)
    async with hold_body(request, only_json=True) as body, hosted.settings_lock:
        settings = msgspec.structs.asdict(decode_json(body.data, HostBody))
        note_new_values(request.scope, settings)
        check_version(request, _settings_of(await hosted.read(hosted.corpus.host, host)))
        await hosted.change(hosted.corpus.set_host, host, **settings)
        return await _host_answer(hosted, host)


async def _host_answer(hosted: HostedCorpus, host: str) -> Response:
    found = await hosted.read(hosted.corpus.host, host)
    return json_answer(found._asdict(), headers={"ETag": version_of(_settings_of(found))})


def _settings_of(host: Any) -> dict[str, Any]:
    """Return what a client can set: the number of pages, and who says so, is not a version."""
    settings: dict[str, Any] = host._asdict()
    for name in ("n_pages", "standby_seconds", "in_flight", "n_errors"):
        del settings[name]
    return settings
