"""The path of robots.txt files: what fetchers tell of them, for people who look at a host."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from msgspec import Meta

from recrawl.messages.robots import ROBOTS_CLOSES, ROBOTS_RESULTS, RobotsNote
from recrawl.service.calls import (
    CorpusName,
    check_row_count,
    enter,
    hold_body,
    json_body,
    service_of,
)
from recrawl.service.formats.answers import json_answer, note_rows
from recrawl.service.formats.row_kinds import Instant
from recrawl.service.formats.rows import decode_json
from recrawl.service.keys import Scope

__all__ = ["RobotsBody", "router"]

router = APIRouter(tags=["reading"])

_HOSTS_MAX = 100


class RobotsRow(msgspec.Struct):
    """What the robots.txt file of a site says to a fetcher."""

    origin: Annotated[str, Meta(min_length=1, max_length=300)]
    """Scheme, host and port of the site, such as https://example.com."""
    result: Annotated[str, Meta(pattern=f"^({'|'.join(ROBOTS_RESULTS)})$")]
    """Result of the latest attempt to read it."""
    closes: Annotated[str, Meta(pattern=f"^({'|'.join(ROBOTS_CLOSES)})$")]
    """How much it closes to the fetcher."""
    asked_at_ms: Instant
    """Time of the latest attempt."""
    read_at_ms: Instant | None = None
    """Time of the latest answer that was not an error."""
    next_ask_ms: Instant | None = None
    crawl_delay_seconds: Annotated[float, Meta(ge=0, le=1e7)] | None = None
    agent: Annotated[str, Meta(max_length=100)] = ""
    """Name by which the file addresses the fetcher."""
    lines: Annotated[list[Annotated[str, Meta(max_length=1_000)]], Meta(max_length=100)] = []
    """First lines that hold for the fetcher; only the first few are kept."""
    n_lines: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Number of all such lines."""


class RobotsBody(msgspec.Struct):
    """What robots.txt files say."""

    files: list[RobotsRow]


@router.post(
    "/robots", summary="Tell what robots.txt files say", openapi_extra=json_body("RobotsBody")
)
async def note_robots(request: Request, corpus: CorpusName) -> Response:
    """Keep what robots.txt files say, for people; it changes nothing about what is leased."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    async with hold_body(request, only_json=True) as body:
        wanted: RobotsBody = decode_json(body.data, RobotsBody)
        check_row_count(wanted.files, limits)
        note_rows(request, len(wanted.files))
        notes = [RobotsNote.of_dict(msgspec.structs.asdict(row)) for row in wanted.files]
        await hosted.change(hosted.corpus.note_robots, notes)
    return json_answer({})


@router.get("/robots", summary="Show what robots.txt files of hosts say")
async def show_robots(
    request: Request,
    corpus: CorpusName,
    host: Annotated[
        list[str], Query(max_length=_HOSTS_MAX, description="Hosts or domains; may be repeated.")
    ],
) -> Response:
    """Return what fetchers have told, by host; those of which nothing is known are missing."""
    hosted = enter(request, corpus, Scope.READ)
    found: dict[str, Any] = await hosted.read(hosted.corpus.robots, host)
    notes = {name: [one._asdict() for one in own] for name, own in found.items()}
    return json_answer({"hosts": notes})
