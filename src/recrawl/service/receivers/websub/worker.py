"""Ask hubs to push the changes of feeds, renew that in time, and take what they push."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlencode, urljoin

from recrawl.corpus import RequestKey
from recrawl.errors import RecrawlError
from recrawl.fetch.addresses import parse_networks
from recrawl.service.hosting.hosted import HostedCorpus
from recrawl.service.limits import ServiceLimits
from recrawl.service.receivers.announced_pages import check_all_taken, signal_announced
from recrawl.service.receivers.host_limits import HostLimits
from recrawl.service.receivers.websub.discovery import FetchFeed, find_hubs
from recrawl.service.receivers.websub.files import SubscriptionFile
from recrawl.service.receivers.websub.pushes import is_signed, read_push, within_limits
from recrawl.service.receivers.websub.subscription import (
    LEASE_SECONDS,
    FeedSubscription,
    HubMode,
    add_failure,
    begin_request,
    end_lease,
    next_step,
    note_denial,
    note_verified,
)
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.sender import WebhookAnswer, WebhookSender

__all__ = ["WEBSUB_SOURCE", "HubClient", "WebSubSettings"]

WEBSUB_SOURCE = "websub"
"""Name of the source of these signals."""

_REQUESTS_MAX = 4
_REDIRECTS_MAX = 3
_CHALLENGE_MAX = 1_000
_PUSH_NOTED_MS = 3_600_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSubSettings:
    """How a server reaches hubs, and hubs reach it."""

    url: str
    """Address of the server, as hubs see it, such as https://recrawl.example/."""
    fetch_feed: FetchFeed
    """Function that fetches feeds; it must connect to public addresses alone."""
    allow_networks: tuple[str, ...] = ()
    """Networks of hubs that may be connected to although they are not public."""
    poll_seconds: float = 1.0
    """Time between two looks at what is due."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"the address of the server must be a URL, got {self.url!r}")
        parse_networks(self.allow_networks)


class HubClient:
    """The subscriptions of one corpus while a server runs.

    Parameters
    ----------
    hosted
        Corpus whose pages are signalled.
    folder
        Folder of the corpus, which has the subscriptions.
    settings
        How hubs are reached.
    limits
        Limits of the server.
    """

    def __init__(
        self, hosted: HostedCorpus, folder: Path, settings: WebSubSettings, limits: ServiceLimits
    ) -> None:
        self._hosted = hosted
        self._file = SubscriptionFile(folder)
        self._settings = settings
        self._hosts = HostLimits(limits.notice_urls_per_hour)
        self._sender = WebhookSender(
            WebhookLimits(), allowed=parse_networks(settings.allow_networks)
        )
        self._room = asyncio.Semaphore(_REQUESTS_MAX)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to ask hubs."""
        await self._sender.__aenter__()
        self._loop = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the requests that run; they are made again after a restart."""
        tasks = [*self._running.values(), *([] if self._loop is None else [self._loop])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.__aexit__()

    def _now_ms(self) -> int:
        now_ms: int = self._hosted.corpus.now_ms()
        return now_ms

    async def _run(self) -> None:
        while True:
            try:
                found = self._file.read()
            except (OSError, RecrawlError) as error:
                _LOG.warning("subscriptions of WebSub cannot be read: %s", error)
                found = {}
            now_ms = self._now_ms()
            for token, one in found.items():
                if token not in self._running and next_step(one, now_ms) != "wait":
                    task = asyncio.create_task(self._act(token))
                    self._running[token] = task
                    task.add_done_callback(partial(self._forget_task, token))
            await asyncio.sleep(self._settings.poll_seconds)

    def _forget_task(self, token: str, _: "asyncio.Task[None]") -> None:
        self._running.pop(token, None)

    async def _act(self, token: str) -> None:
        """Do what is due for one subscription."""
        try:
            async with self._room:
                one = self._file.read().get(token)
                step = "wait" if one is None else next_step(one, self._now_ms())
                if one is None or step == "wait":
                    return
                if step == "drop":
                    await self._change(token, lambda _: None)
                else:
                    await self._ask(one, HubMode(step))
        except (OSError, RecrawlError) as error:
            _LOG.warning("the subscription of WebSub cannot be changed: %s", error)

    async def _change(
        self, token: str, function: Callable[[FeedSubscription], FeedSubscription | None]
    ) -> FeedSubscription | None:
        return await asyncio.to_thread(self._file.change, token, function)

    async def _ask(self, one: FeedSubscription, mode: HubMode) -> None:
        """Ask the hub of a feed to begin, to go on or to end."""
        hub, topic = one.hub, one.topic
        if mode is HubMode.SUBSCRIBE:
            fetched = await self._settings.fetch_feed(one.feed)
            found = None if fetched is None else find_hubs(fetched)
            if found is not None:
                # A hub that fails is left for the next one that the feed names.
                hub, topic = found.hubs[one.n_failures % len(found.hubs)], found.topic
            elif not hub:
                problem = "the feed cannot be fetched" if fetched is None else "it names no hub"
                await self._fail(one.token, problem)
                return
        # Stored first: a hub may verify before it answers.
        now_ms = self._now_ms()
        asked = await self._change(
            one.token, lambda stored: begin_request(stored, mode, hub, topic, now_ms)
        )
        if asked is None:
            return
        answer = await self._post(asked, mode)
        if not answer.is_accepted:
            await self._fail(one.token, answer.problem)

    async def _fail(self, token: str, problem: str) -> None:
        await self._change(token, lambda one: add_failure(one, problem, self._now_ms()))

    async def _post(self, one: FeedSubscription, mode: HubMode) -> WebhookAnswer:
        """Send a request to the hub, also to where the hub redirects it."""
        base = self._settings.url.rstrip("/")
        form = {
            "hub.callback": f"{base}/v1/corpora/{self._hosted.name}/websub/{one.token}",
            "hub.mode": str(mode),
            "hub.topic": one.topic,
        }
        if mode is HubMode.SUBSCRIBE:
            form |= {"hub.lease_seconds": str(LEASE_SECONDS), "hub.secret": one.secret}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        hub = one.hub
        for _ in range(_REDIRECTS_MAX + 1):
            answer = await self._sender.send(hub, urlencode(form).encode(), headers)
            moved_to = _safe_target(hub, answer.moved_to) if answer.moved_to else None
            if moved_to is None:
                break
            hub = moved_to
        return answer

    async def verify(self, token: str, query: Mapping[str, str]) -> str | None:
        """Return the challenge of a hub if it asks about a request of ours; else None.

        Parameters
        ----------
        token
            Token in the path.
        query
            Parameters of the request.
        """
        one, now_ms = self._file.read().get(token), self._now_ms()
        mode, topic = query.get("hub.mode", ""), query.get("hub.topic", "")
        if one is None or topic != one.topic:
            return None
        if mode == "denied":
            reason = query.get("hub.reason", "")
            await self._change(token, lambda stored: note_denial(stored, reason, now_ms))
            return ""
        challenge = query.get("hub.challenge", "")
        is_ours = one.expects(mode, topic, now_ms) and one.is_wanted is (mode == HubMode.SUBSCRIBE)
        if not is_ours or not 0 < len(challenge) <= _CHALLENGE_MAX:
            return None
        if mode == HubMode.UNSUBSCRIBE:
            await self._change(token, lambda stored: end_lease(stored, now_ms))
            return challenge
        lease = query.get("hub.lease_seconds", "")
        if not (lease.isascii() and lease.isdecimal() and len(lease) < 12 and int(lease) > 0):
            return None
        await self._change(token, partial(_grant_lease, int(lease), now_ms))
        return challenge

    async def receive(self, token: str, signature: str, body: bytes) -> int:
        """Take what a hub pushes, and signal its pages; return the status of the answer.

        Parameters
        ----------
        token
            Token in the path.
        signature
            Value of the header ``X-Hub-Signature``.
        body
            Body of the request, byte by byte as it arrived.
        """
        one, now_ms = self._file.read().get(token), self._now_ms()
        if one is None or not one.is_active(now_ms):
            return 410
        # A push that is not signed is ignored, and nobody learns whether it was.
        if not is_signed(one.secret, signature, body):
            return 202
        found = await asyncio.to_thread(read_push, one, body, now_ms)
        pages = within_limits(found, self._hosts)
        if pages:
            # The same push again, within a day, counts once.
            digest = blake2b(body, digest_size=16).digest()
            away = await signal_announced(
                self._hosted,
                [page.url for page in pages],
                source=WEBSUB_SOURCE,
                claimed_at_ms=[page.claimed_at_ms for page in pages],
                request=RequestKey(f"websub {token} {digest.hex()}".encode(), digest),
            )
            if away:
                for page in pages:
                    self._hosts.give_back(page.host, 1)
            check_all_taken(away, len(pages))
        if now_ms - one.pushed_at_ms >= _PUSH_NOTED_MS:
            await self._change(token, lambda stored: replace(stored, pushed_at_ms=now_ms))
        return 202


def _safe_target(hub: str, moved_to: str) -> str | None:
    """Return where a hub redirects to; None unless that is a URL that keeps the secret safe."""
    try:
        target = urljoin(hub, moved_to)
    except ValueError:
        return None
    # The request has the secret, which must not go out in clear text.
    return None if hub.startswith("https:") and not target.startswith("https:") else target


def _grant_lease(lease_seconds: int, now_ms: int, stored: FeedSubscription) -> FeedSubscription:
    return note_verified(stored, lease_seconds, now_ms)
