"""Paths of the change feed: read it, wait for changes, follow it as events, commit a place."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from recrawl.corpus import PageChange
from recrawl.service.calls import CorpusName, check_at_most, enter, hold_body, json_body, service_of
from recrawl.service.formats.answers import json_answer, note_rows
from recrawl.service.formats.rows import decode_json
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.keys import Scope
from recrawl.service.problems import Problem

__all__ = ["CommitBody", "change_answer", "router"]

router = APIRouter(tags=["changes"])
_HEARTBEAT_SECONDS = 15.0
_EVENTS = "text/event-stream"
_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
_Consumer = Annotated[str, Path(pattern=_NAME, description="Name of the consumer.")]


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """A place in the change feed."""

    cursor: str
    """Cursor of the last change that was processed, or "oldest" or "newest"."""
    rewind: bool = False
    """Whether the consumer may move back."""


@router.get("/changes", summary="Read new, changed and gone pages")
async def changes(
    request: Request,
    corpus: CorpusName,
    after: Annotated[
        str | None, Query(max_length=4_000, description="Cursor to continue after.")
    ] = None,
    consumer: Annotated[
        str | None, Query(pattern=_NAME, description="Name of a consumer, instead of after.")
    ] = None,
    limit: Annotated[int, Query(ge=1)] = 1_000,
    wait: Annotated[float, Query(ge=0, description="Seconds to wait for the first change.")] = 0.0,
    passages: Annotated[bool, Query(description="Include hashes and texts of passages.")] = False,
) -> Response:
    """Read changes after a cursor or the committed place of a consumer, oldest first.

    With ``Accept: text/event-stream`` the answer is a stream of events that does not end; it
    continues after ``Last-Event-ID``.
    """
    hosted, limits = enter(request, corpus, Scope.READ), service_of(request).limits
    check_at_most("limit", limit, limits.listed_max)
    check_at_most("wait", wait, limits.wait_seconds_max)
    if _EVENTS in request.headers.get("accept", ""):
        after = request.headers.get("last-event-id") or after
        # Read before the answer begins, so that a wrong cursor is an error and not an empty stream.
        found = await _read(hosted, after, None if after else consumer, limit)
        return StreamingResponse(
            _events(hosted, found, after, None if after else consumer, limit),
            media_type=_EVENTS,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
    found = await _wait_for_changes(hosted, after, consumer, limit, wait)
    note_rows(request, len(found))
    kept_used = None if consumer is None else hosted.consumers.kept_used.get(consumer)
    return await hosted.read(_changes_answer, found, after, kept_used, with_passages=passages)


def _changes_answer(
    found: list[PageChange], after: str | None, kept_used: float | None, *, with_passages: bool
) -> Response:
    cursor = found[-1].cursor if found else after
    answers = [change_answer(one) for one in found]
    if with_passages:
        for one, answer in zip(found, answers, strict=True):
            answer["passages"] = None if one.passages is None else one.passages._asdict()
    return json_answer({"changes": answers, "cursor": cursor, "kept_used": kept_used})


async def _read(
    hosted: HostedCorpus, after: str | None, consumer: str | None, limit: int
) -> list[PageChange]:
    try:
        return await hosted.read(hosted.corpus.changes, after, consumer=consumer, limit=limit)
    except Problem as problem:
        if problem.name == "changes-lost":
            problem.members |= await hosted.read(_lost_members, hosted.corpus, consumer)
        raise


def _lost_members(corpus: Any, consumer: str | None) -> dict[str, Any]:
    """Return what a consumer that has missed changes needs to know, to continue."""
    n_missed = next((one.n_missed for one in corpus.consumers() if one.name == consumer), None)
    return {"n_missed": n_missed, "continue_with": "oldest"}


async def _wait_for_changes(
    hosted: HostedCorpus, after: str | None, consumer: str | None, limit: int, wait: float
) -> list[PageChange]:
    found = await _read(hosted, after, consumer, limit)
    if found or wait == 0:
        return found
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + wait
    with hosted.feed.count():
        while not found and not hosted.feed.is_closed and (left := ends_at - loop.time()) > 0:
            await hosted.feed.wait(left)
            found = await _read(hosted, after, consumer, limit)
    return found


async def _events(
    hosted: HostedCorpus,
    found: list[PageChange],
    after: str | None,
    consumer: str | None,
    limit: int,
) -> AsyncIterator[bytes]:
    """Yield changes as server-sent events, and comments while there are none."""
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    yield b": changes of pages\n\n"
    try:
        with hosted.feed.count():
            while not hosted.feed.is_closed:
                for change in found:
                    after, consumer = change.cursor, None
                    data = msgspec.json.encode(change_answer(change))
                    yield b"id: %s\nevent: %s\ndata: %s\n\n" % (
                        change.cursor.encode(),
                        change.what.name.lower().encode(),
                        data,
                    )
                    sent_at = loop.time()
                if not found:
                    await hosted.feed.wait(_HEARTBEAT_SECONDS)
                    if loop.time() - sent_at >= _HEARTBEAT_SECONDS:
                        yield b": still here\n\n"
                        sent_at = loop.time()
                found = await _read(hosted, after, consumer, limit)
    except Problem as problem:
        document = {"type": f"urn:recrawl:problem:{problem.name}", "detail": problem.detail}
        yield b"event: problem\ndata: %s\n\n" % msgspec.json.encode(document)


def change_answer(change: PageChange) -> dict[str, Any]:
    """Return a change as answers have it: without the texts of its passages.

    Parameters
    ----------
    change
        Change of a page.
    """
    """Return a change as JSON has it, without the texts of its passages."""
    passages = change.passages
    return {
        "cursor": change.cursor,
        "url": change.url,
        "what": change.what.name.lower(),
        "at_ms": change.at_ms,
        "doc_id": change.doc_id,
        "metadata": change.metadata,
        "key": change.key,
        "kind": change.kind,
        "sequence": change.sequence,
        "n_passages_kept": None if passages is None else len(passages.kept),
        "n_passages_added": None if passages is None else len(passages.added),
        "n_passages_removed": None if passages is None else len(passages.removed),
    }


@router.get("/consumers", summary="List the consumers of the change feed")
async def consumers(request: Request, corpus: CorpusName) -> Response:
    """Return all consumers, and how far behind each is."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(hosted.corpus.consumers)
    return json_answer({"consumers": [one._asdict() for one in found]})


@router.put(
    "/consumers/{consumer}",
    summary="Commit the place of a consumer",
    openapi_extra=json_body("CommitBody"),
)
async def commit(request: Request, corpus: CorpusName, consumer: _Consumer) -> Response:
    """Record durably that a consumer has processed all changes up to a cursor."""
    hosted = enter(request, corpus, Scope.READ)
    async with hold_body(request, only_json=True) as body:
        wanted: CommitBody = decode_json(body.data, CommitBody)
        cursor = await hosted.read(
            hosted.corpus.commit_changes, consumer, wanted.cursor, rewind=wanted.rewind
        )
    return json_answer({"consumer": consumer, "cursor": cursor})


@router.delete("/consumers/{consumer}", summary="Remove a consumer")
async def remove_consumer(request: Request, corpus: CorpusName, consumer: _Consumer) -> Response:
    """Remove a consumer of the change feed."""
    hosted = enter(request, corpus, Scope.ADMIN)
    if not await hosted.read(hosted.corpus.remove_consumer, consumer):
        raise Problem("unknown-consumer", f"there is no consumer {consumer!r}")
    return json_answer({"consumer": consumer, "removed": True})
