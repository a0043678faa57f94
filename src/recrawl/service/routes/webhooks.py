"""Paths of webhooks: subscribe other programs to changes, and look after what fails."""

from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from msgspec import Meta

from recrawl.service.calls import CorpusName, enter, hold_body, json_body
from recrawl.service.formats.answers import json_answer
from recrawl.service.formats.rows import decode_json
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.keys import Scope
from recrawl.service.problems import Problem, corpus_problems
from recrawl.service.protection.audit_layer import note_new_values
from recrawl.service.webhooks import (
    add_webhook,
    change_webhook,
    drop_letters,
    list_letters,
    list_webhooks,
    private_address_warning,
    remove_webhook,
    rotate_webhook_secret,
    send_letters_again,
)

__all__ = ["LettersBody", "RotateBody", "WebhookBody", "WebhookChangeBody", "router"]

router = APIRouter(tags=["webhooks"])
_NAME = r"^[a-z0-9][a-z0-9._-]{0,31}$"
_Name = Annotated[str, Path(pattern=_NAME, description="Name of the webhook.")]
_Texts = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)]
_Patterns = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=2_000)]], Meta(max_length=100)
]
_What = Literal["new", "changed", "reverted", "gone", "moved", "returned", "retired"]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=1, le=100)]
_ONE = "/webhooks/{webhook}"
_OVERLAP_SECONDS_MAX = 366 * 86_400.0


class WebhookBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new webhook."""

    name: Annotated[str, Meta(pattern=_NAME)]
    url: str
    """Address that receives the requests."""
    what: list[_What] = []
    """Changes to send, such as "new"; all if empty."""
    patterns: _Patterns = []
    """Patterns of URLs, of which one must match; any URL if empty."""
    kinds: _Texts = []
    """Kinds of pages; all if empty."""
    divergence_min: _Share = 0.0
    with_passages: bool = False
    events_max: _Count = 1
    """Events per request; above 1 the body is a batch."""
    holds_back: bool = True
    """Whether a dead letter holds back the later changes of its page."""
    start: Literal["newest", "oldest"] = "newest"


class WebhookChangeBody(msgspec.Struct, forbid_unknown_fields=True):
    """New settings of a webhook; what is not given stays as it is."""

    url: str | msgspec.UnsetType = msgspec.UNSET
    what: list[_What] | msgspec.UnsetType = msgspec.UNSET
    patterns: _Patterns | msgspec.UnsetType = msgspec.UNSET
    kinds: _Texts | msgspec.UnsetType = msgspec.UNSET
    divergence_min: _Share | msgspec.UnsetType = msgspec.UNSET
    with_passages: bool | msgspec.UnsetType = msgspec.UNSET
    events_max: _Count | msgspec.UnsetType = msgspec.UNSET
    holds_back: bool | msgspec.UnsetType = msgspec.UNSET
    disabled: Annotated[str, Meta(max_length=200)] | msgspec.UnsetType | None = msgspec.UNSET
    """Reason why nothing is sent; null to enable the webhook."""


class RotateBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long the old secret stays valid."""

    overlap_seconds: Annotated[float, Meta(ge=0, le=_OVERLAP_SECONDS_MAX)] = 86_400.0


class LettersBody(msgspec.Struct, forbid_unknown_fields=True):
    """Dead letters of a webhook."""

    ids: list[str] | None = None
    """Ids of letters; null for all dead ones."""


def _folder(hosted: HostedCorpus) -> FilePath:
    if hosted.webhooks_folder is None:
        raise Problem("unknown-webhook", "this corpus has no webhooks here")
    return hosted.webhooks_folder


def _now_ms(hosted: HostedCorpus) -> int:
    found: int = hosted.corpus.now_ms()
    return found


async def _require(hosted: HostedCorpus, name: str) -> None:
    found = await hosted.read(list_webhooks, _folder(hosted))
    if name not in {one.name for one in found}:
        raise Problem("unknown-webhook", f"there is no webhook {name!r}")


@router.get("/webhooks", summary="List the webhooks")
async def show_webhooks(request: Request, corpus: CorpusName) -> Response:
    """Return all webhooks without their secrets, and how the delivery to each goes."""
    hosted = enter(request, corpus, Scope.READ)
    found = await hosted.read(list_webhooks, _folder(hosted))
    status = {}
    if hosted.webhooks is not None:
        status = {one.name: one._asdict() for one in await hosted.webhooks.status()}
    rows = [{**one.as_public(), "status": status.get(one.name)} for one in found]
    return json_answer({"webhooks": rows})


@router.post("/webhooks", summary="Add a webhook", openapi_extra=json_body("WebhookBody"))
async def create_webhook(request: Request, corpus: CorpusName) -> Response:
    """Subscribe an address to changes; return the webhook and its secret."""
    hosted = enter(request, corpus, Scope.ADMIN)
    async with hold_body(request, only_json=True) as body:
        wanted = msgspec.structs.asdict(decode_json(body.data, WebhookBody))
        name, url = wanted.pop("name"), wanted.pop("url")
        note_new_values(request.scope, {"name": name})
        webhook, secret = await hosted.change(
            add_webhook, _folder(hosted), name, url, now_ms=_now_ms(hosted), **wanted
        )
    await _reload(hosted)
    warning = private_address_warning(url, _allow_networks(hosted))
    return json_answer({**webhook.as_public(), "secret": secret, "warning": warning}, 201)


def _allow_networks(hosted: HostedCorpus) -> tuple[str, ...]:
    return () if hosted.webhooks is None else hosted.webhooks.allow_networks


@router.patch(_ONE, summary="Change a webhook", openapi_extra=json_body("WebhookChangeBody"))
async def set_webhook(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Change settings of a webhook, disable or enable it."""
    hosted = enter(request, corpus, Scope.ADMIN)
    await _require(hosted, webhook)
    async with hold_body(request, only_json=True) as body:
        wanted = msgspec.structs.asdict(decode_json(body.data, WebhookChangeBody))
        settings = {name: one for name, one in wanted.items() if one is not msgspec.UNSET}
        changed = await hosted.change(change_webhook, _folder(hosted), webhook, **settings)
    await _reload(hosted)
    return json_answer(changed.as_public())


@router.delete(_ONE, summary="Remove a webhook")
async def delete_webhook(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Remove a webhook and the changes that wait for it."""
    hosted = enter(request, corpus, Scope.ADMIN)
    await _require(hosted, webhook)
    await hosted.change(remove_webhook, _folder(hosted), webhook)
    return json_answer({"webhook": webhook, "removed": True})


@router.post(f"{_ONE}/rotate", summary="Replace the secret", openapi_extra=json_body("RotateBody"))
async def rotate(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Give a webhook a new secret; requests are signed with the old one, too, for some time."""
    hosted = enter(request, corpus, Scope.ADMIN)
    await _require(hosted, webhook)
    async with hold_body(request, only_json=True) as body:
        wanted: RotateBody = decode_json(body.data, RotateBody)
        secret = await hosted.change(
            rotate_webhook_secret,
            _folder(hosted),
            webhook,
            now_ms=_now_ms(hosted),
            overlap_seconds=wanted.overlap_seconds,
        )
    await _reload(hosted)
    return json_answer({"webhook": webhook, "secret": secret})


@router.get(f"{_ONE}/letters", summary="List the changes that wait or are dead")
async def show_letters(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Return the changes that wait for another attempt, are held back, or are dead."""
    hosted = enter(request, corpus, Scope.READ)
    await _require(hosted, webhook)
    found = await hosted.read(list_letters, _folder(hosted), webhook)
    return json_answer({"letters": [letter.as_public() for letter in found]})


@router.post(
    f"{_ONE}/letters/send-again",
    summary="Send dead letters again",
    openapi_extra=json_body("LettersBody"),
)
async def send_again(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Send changes again that could not be delivered."""
    return await _ask(request, corpus, webhook, send_letters_again)


@router.post(
    f"{_ONE}/letters/drop", summary="Give up dead letters", openapi_extra=json_body("LettersBody")
)
async def drop(request: Request, corpus: CorpusName, webhook: _Name) -> Response:
    """Give up changes that could not be delivered; later changes of their pages go on."""
    return await _ask(request, corpus, webhook, drop_letters)


async def _ask(
    request: Request, corpus: str, webhook: str, function: Callable[..., None]
) -> Response:
    hosted = enter(request, corpus, Scope.ADMIN)
    await _require(hosted, webhook)
    async with hold_body(request, only_json=True) as body:
        wanted: LettersBody = decode_json(body.data, LettersBody)
        await hosted.change(function, _folder(hosted), webhook, wanted.ids)
    await _reload(hosted)
    return json_answer({"webhook": webhook, "ids": wanted.ids})


async def _reload(hosted: HostedCorpus) -> None:
    """Let delivery notice the change at once, instead of within a second."""
    if hosted.webhooks is not None:
        with corpus_problems():
            await hosted.webhooks.reload()
