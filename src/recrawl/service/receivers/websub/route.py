"""The callbacks of subscriptions, which hubs verify and send changes to; they need no API key."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import PlainTextResponse, Response

from recrawl.service.calls import CorpusName, service_of
from recrawl.service.problems import Problem
from recrawl.service.receivers.websub.worker import HubClient

__all__ = ["router"]

router = APIRouter(tags=["receivers"])
_Token = Annotated[str, Path(max_length=64, description="Token of the subscription.")]


def _client(request: Request, corpus: str) -> HubClient | None:
    clients: dict[str, HubClient] = request.app.state.hub_clients
    return clients.get(corpus)


@router.get("/websub/{token}", summary="Verify a subscription (WebSub)")
async def verify_subscription(request: Request, corpus: CorpusName, token: _Token) -> Response:
    """Return the challenge of a hub, if the server has asked it for the subscription."""
    client = _client(request, corpus)
    challenge = None if client is None else await client.verify(token, request.query_params)
    if challenge is None:
        raise Problem("unknown-path", "there is no such request to a hub")
    return PlainTextResponse(challenge, headers={"X-Content-Type-Options": "nosniff"})


@router.post("/websub/{token}", summary="Push changes of a feed (WebSub)")
async def push_changes(request: Request, corpus: CorpusName, token: _Token) -> Response:
    """Take a feed or its new entries, signed with the secret of the subscription."""
    service = service_of(request)
    client = _client(request, corpus)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("unknown-format", "a signed body must not be compressed")
    n_max = service.limits.notice_bytes_max
    async with service.memory.hold(request, n_max, is_keyless=True) as body:
        signature = request.headers.get("x-hub-signature", "")
        # An unknown corpus is answered like an unknown subscription.
        status = 410 if client is None else await client.receive(token, signature, body)
    if status == 410:
        raise Problem("subscription-ended", "the server is not subscribed to this")
    return Response(status_code=status)
