"""The path that programs of sites send signed notices to; it needs no API key."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from recrawl.service.calls import CorpusName, service_of
from recrawl.service.formats.answers import json_answer
from recrawl.service.problems import Problem
from recrawl.service.receivers.signed_notices import NO_SIGNATURE_FITS, SignedNotices

__all__ = ["router"]

router = APIRouter(tags=["receivers"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"urls": {"type": "array", "items": {"type": "string"}}},
                }
            }
        },
    }
}


@router.post(
    "/receivers/{receiver}",
    summary="Announce changed pages by a signed request",
    openapi_extra=_BODY,
)
async def announce_signed(
    request: Request,
    corpus: CorpusName,
    receiver: Annotated[str, Path(max_length=32, description="Name of the receiver.")],
) -> Response:
    """Take URLs of changed pages; the request is signed as Standard Webhooks says."""
    service = service_of(request)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("unknown-format", "a signed body must not be compressed")
    n_max = service.limits.notice_bytes_max
    async with service.memory.hold(request, n_max, is_keyless=True) as body:
        notices: SignedNotices = request.app.state.signed_notices
        if corpus not in service.corpora.names:
            # As of an unknown receiver, so that nobody learns which corpora there are.
            raise Problem("signature-not-valid", NO_SIGNATURE_FITS)
        hosted = service.corpora.find(corpus)
        found = await notices.receive(hosted, receiver, request.headers, body)
    return json_answer(found._asdict())
