"""The path that sites send notices of IndexNow to; it needs no API key, only the site's own."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from recrawl.service.calls import CorpusName, hold_body, service_of
from recrawl.service.problems import Problem
from recrawl.service.receivers.indexnow import IndexNow, Notice, NoticeBody, read_notice

__all__ = ["router"]

router = APIRouter(tags=["receivers"])


async def _receive(request: Request, corpus: str, notice: Notice) -> Response:
    indexnow: IndexNow = request.app.state.indexnow
    hosted = service_of(request).corpora.find(corpus)
    return Response(status_code=await indexnow.receive(hosted, notice))


@router.get("/indexnow", summary="Announce a changed page (IndexNow)")
async def announce_page(
    request: Request,
    corpus: CorpusName,
    url: Annotated[str, Query(description="URL of the page.")],
    key: Annotated[str, Query(description="Key of the site.")],
    key_location: Annotated[
        str | None, Query(alias="keyLocation", description="URL of the file with the key.")
    ] = None,
) -> Response:
    """Take the URL of one page."""
    return await _receive(
        request, corpus, read_notice([url], key, host=None, key_url=key_location, n_urls_max=1)
    )


@router.post("/indexnow", summary="Announce changed pages (IndexNow)")
async def announce_pages(request: Request, corpus: CorpusName) -> Response:
    """Take the URLs of many pages of one host."""
    async with hold_body(request, only_json=True, is_keyless=True) as body:
        try:
            given = msgspec.json.decode(body.data, type=NoticeBody)
        except msgspec.MsgspecError as error:
            raise Problem("invalid-body", str(error)) from error
    indexnow: IndexNow = request.app.state.indexnow
    notice = read_notice(
        given.url_list,
        given.key,
        host=given.host,
        key_url=given.key_location,
        n_urls_max=indexnow.n_urls_max,
    )
    return await _receive(request, corpus, notice)
