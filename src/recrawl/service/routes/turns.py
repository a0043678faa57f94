"""The path of turns: which fetcher may contact a host now."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec import Meta

from recrawl.messages.turns import TurnEnd
from recrawl.service.calls import (
    CorpusName,
    check_row_count,
    enter,
    hold_body,
    json_body,
    service_of,
)
from recrawl.service.formats.answers import json_answer, note_rows
from recrawl.service.formats.rows import decode_json
from recrawl.service.hosting.host_turns import HostTurns
from recrawl.service.keys import Scope

__all__ = ["TurnsBody", "router"]

router = APIRouter(tags=["orders"])

_WEEK_SECONDS = 7 * 86_400.0
_Name = Annotated[str, Meta(min_length=1, max_length=100)]
_Host = Annotated[str, Meta(min_length=1, max_length=255)]
_Seconds = Annotated[float, Meta(ge=0, le=2 * _WEEK_SECONDS)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class TurnRow(msgspec.Struct, forbid_unknown_fields=True):
    """A turn at a host."""

    turn: _Name
    """Name of the turn, which the fetcher makes up."""
    host: _Host
    """Name or address of the host, without a port."""


class TurnEndRow(msgspec.Struct, forbid_unknown_fields=True):
    """A turn that has ended, and what the fetcher has learned of its host."""

    turn: _Name
    host: _Host
    wait_seconds: _Seconds = 0.0
    """Time for which nobody may contact the host, such as its Retry-After."""
    crawl_delay_seconds: _Seconds = 0.0
    answer_seconds: _Seconds = 0.0
    n_failures: _Count = 0


class RestRow(msgspec.Struct, forbid_unknown_fields=True):
    """A host of which no pages are leased for some time."""

    host: _Host
    """Host of pages, with its port unless that is the usual one."""
    seconds: _Seconds


class TurnsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Turns to end, renew and begin, in this order."""

    end: list[TurnEndRow] = []
    renew: list[TurnRow] = []
    begin: list[TurnRow] = []
    rest: list[RestRow] = []


@router.post(
    "/turns", summary="Take turns at contacting hosts", openapi_extra=json_body("TurnsBody")
)
async def take_turns(request: Request, corpus: CorpusName) -> Response:
    """Begin, renew and end turns.  Between them, no other fetcher contacts the host."""
    hosted, limits = enter(request, corpus, Scope.LEASE), service_of(request).limits
    async with hold_body(request, only_json=True) as body:
        wanted: TurnsBody = decode_json(body.data, TurnsBody)
        lists = (wanted.end, wanted.renew, wanted.begin, wanted.rest)
        for rows in lists:
            check_row_count(rows, limits)
        note_rows(request, sum(len(rows) for rows in lists))
        if wanted.rest:
            await hosted.change(_rest, hosted.corpus, wanted.rest)
        here, elsewhere = _split_turns(hosted.corpus, wanted)
        found = await hosted.take_turns(_take_turns, hosted.turns, here)
        if elsewhere is not None:
            others = await hosted.change(_take_elsewhere, hosted.corpus, elsewhere)
            found = {name: one | others[name] for name, one in found.items()}
    return json_answer(found)


def _split_turns(corpus: Any, wanted: TurnsBody) -> tuple[TurnsBody, TurnsBody | None]:
    """Return the turns that this process grants, and those of other workers of a cluster."""
    is_here: Callable[[str], bool] | None = getattr(corpus, "is_turn_here", None)
    if is_here is None:
        return wanted, None
    here, elsewhere = TurnsBody([], [], [], []), TurnsBody([], [], [], [])
    for name in ("end", "renew", "begin"):
        for row in getattr(wanted, name):
            getattr(here if is_here(row.host.lower()) else elsewhere, name).append(row)
    is_any = elsewhere.end or elsewhere.renew or elsewhere.begin
    return here, elsewhere if is_any else None


def _take_elsewhere(corpus: Any, wanted: TurnsBody) -> dict[str, Any]:
    found = corpus.take_turns(
        begin={row.turn: row.host.lower() for row in wanted.begin},
        renew={row.turn: row.host.lower() for row in wanted.renew},
        end=[_turn_end(row) for row in wanted.end],
    )
    begun = {turn: one._asdict() for turn, one in found.begun.items()}
    return {"begun": begun, "renewed": found.renewed}


def _turn_end(row: TurnEndRow) -> TurnEnd:
    return TurnEnd(**(msgspec.structs.asdict(row) | {"host": row.host.lower()}))


def _take_turns(turns: HostTurns, wanted: TurnsBody) -> dict[str, Any]:
    for row in wanted.end:
        turns.end(_turn_end(row))
    renewed = {row.turn: turns.renew(row.turn, row.host.lower()) for row in wanted.renew}
    begun = {row.turn: turns.begin(row.turn, row.host.lower()) for row in wanted.begin}
    return {
        "begun": {turn: one._asdict() for turn, one in begun.items()},
        "renewed": {turn: seconds for turn, seconds in renewed.items() if seconds is not None},
    }


def _rest(corpus: Any, rows: list[RestRow]) -> None:
    """Lease no pages of some hosts for some time; a longer rest stays as it is."""
    for row in rows:
        found = corpus.host(row.host)
        until_ms = corpus.now_ms() + round(row.seconds * 1000)
        if found.n_pages and until_ms > (found.blocked_until_ms or 0):
            corpus.set_host(row.host, blocked_until_ms=until_ms)
