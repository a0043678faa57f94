"""Deliver the changes of a corpus to one webhook: read, send, store what waits, and move on."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from recrawl.corpus import PageChange
from recrawl.errors import ChangesLost, RecrawlError
from recrawl.safe_text import escape_controls
from recrawl.service.webhooks.events import (
    BATCH_TYPE,
    EVENT_TYPE,
    ChangeFilter,
    batch_body,
    event_text,
)
from recrawl.service.webhooks.files import WebhookFiles
from recrawl.service.webhooks.outbox import Letter, Outbox
from recrawl.service.webhooks.sender import WebhookAnswer, WebhookSender
from recrawl.service.webhooks.signatures import signature_headers
from recrawl.service.webhooks.subscription import Webhook

__all__ = ["ChangeFeed", "DeliverySettings", "WebhookStatus", "WebhookWorker"]

_READ_MAX = 500
_PLAIN_EVENT_BYTES_MAX = 1 << 16
_UNSUBSCRIBED = "the receiver answered 410: it wants no more changes"
_DISABLED_SECONDS = 3_600.0


class FeedConsumer(Protocol):
    """What delivery needs to know of a consumer of the feed."""

    @property
    def name(self) -> str:
        """Name of the consumer."""
        ...

    @property
    def n_behind(self) -> int:
        """Number of changes in the feed after its place."""
        ...


class ChangeFeed(Protocol):
    """The part of `recrawl.AsyncCorpus` that delivery needs: its change feed."""

    async def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> Sequence[PageChange]:
        """Return the changes after a cursor or the place of a consumer, oldest first."""
        ...

    async def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor."""
        ...

    async def consumers(self) -> Sequence[FeedConsumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        ...

    async def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """What all webhooks of a corpus share."""

    source: str = "urn:recrawl:corpus"
    """Name of the corpus as a URI, which events have as their ``source``."""
    allow_networks: tuple[str, ...] = ()
    """Networks that receivers may be in although they are not public, such as ``127.0.0.0/8``."""
    reload_seconds: float = 1.0
    """Time between two looks for webhooks that were added, changed or removed."""
    look_seconds: float = 5.0
    """Time after which the feed is read again, although nobody has said that it has changed."""
    store_seconds: float = 0.25
    """Time between two stores of a webhook's state; what was delivered since is delivered again
    after the process was killed."""
    now_seconds: Callable[[], float] = time.time
    """Function that returns the present time in seconds since 1970."""
    random: Callable[[], float] = random.random
    """Function that returns a random number from 0 to 1, which spreads attempts."""


class WebhookStatus(NamedTuple):
    """How the delivery to a webhook goes."""

    name: str
    state: str
    """One of ``delivering``, ``idle``, ``down``, ``full``, ``disabled``, ``lost`` and
    ``failing``; `WebhookWorker.state` explains them."""
    n_delivered: int
    """Number of changes delivered since the process has started."""
    n_failed: int
    """Number of requests that failed since the process has started."""
    n_held: int
    """Number of changes that it holds: in flight, waiting, held back or dead."""
    n_dead: int
    """Number of dead letters."""
    n_behind: int | None
    """Number of changes in the feed after its stored place; None if not known."""
    problem: str
    """What went wrong last; empty if the last request succeeded."""


class WebhookWorker:
    """Delivers changes to one webhook, from the place in the feed where it stopped.

    Parameters
    ----------
    webhook
        Webhook to deliver to.
    feed
        Change feed of the corpus.
    files
        Files of the webhooks.
    sender
        Sender of requests.
    settings
        Settings that all webhooks of the corpus share.
    count_webhooks
        Function that returns the number of webhooks, which share the limits of reads and stores.
    """

    def __init__(
        self,
        webhook: Webhook,
        feed: ChangeFeed,
        files: WebhookFiles,
        sender: WebhookSender,
        settings: DeliverySettings,
        count_webhooks: Callable[[], int] = lambda: 1,
    ) -> None:
        self.webhook = webhook
        self._feed = feed
        self._files = files
        self._sender = sender
        self._settings = settings
        self._count_webhooks = count_webhooks
        self._filter: ChangeFilter | None = None
        self._outbox = Outbox(files.limits)
        self._after: str | None = None
        """Place up to which changes were read; None for the stored place."""
        self._look_at = -float("inf")
        """Time of the loop from which on the feed is read again, after all was read."""
        self._read_at = -float("inf")
        self._n_wakes = 0
        self._stored_at = -float("inf")
        self._has_requests = True
        self._is_disabling = False
        self._is_enabling = False
        self._is_lost = False
        self._is_stopping = False
        self._problem = ""
        self._trouble = ""
        self._n_delivered = 0
        self._n_failed = 0
        self._woken = asyncio.Event()
        self._opened = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ from outside

    def wake(self) -> None:
        """Look for changes now, or as soon as the limit of reads allows."""
        self._look_at = self._read_at + self._read_seconds_min
        self._n_wakes += 1
        self._woken.set()

    async def wait_for_place(self) -> None:
        """Wait until the webhook has its place in the feed, or cannot have it now."""
        await self._opened.wait()

    def update(self, webhook: Webhook) -> None:
        """Use changed settings of the webhook from now on."""
        if self.webhook.disabled is not None and webhook.disabled is None:
            # What was read may be older than the answer 410, so it is read again.
            webhook = replace(webhook, disabled=self.webhook.disabled)
            self._is_enabling = True
        self.webhook = webhook
        self._filter = None
        self._outbox.events_max = webhook.events_max
        self._outbox.set_holding_back(webhook.holds_back)
        self.wake()

    def notice_requests(self) -> None:
        """Look for requests about dead letters."""
        self._has_requests = True
        self._woken.set()

    @property
    def state(self) -> str:
        """How the delivery goes.

        ``disabled``: nothing is sent; ``lost``: the feed no longer has the next changes;
        ``failing``: the feed or the disk cannot be read or written; ``down``: the receiver fails
        again and again; ``full``: too many changes wait or are dead, so that reading has stopped;
        ``delivering`` and ``idle``: all is well.
        """
        if self.webhook.disabled is not None:
            return "disabled"
        if self._is_lost:
            return "lost"
        if self._trouble:
            return "failing"
        if self._outbox.is_down:
            return "down"
        if self._room() == 0:
            return "full"
        return "delivering" if self._outbox.n_in_flight or self._outbox.n_ready else "idle"

    def status(self, n_behind: int | None = None) -> WebhookStatus:
        """Return how the delivery goes.

        Parameters
        ----------
        n_behind
            Number of changes in the feed after the stored place, if known.
        """
        return WebhookStatus(
            self.webhook.name,
            self.state,
            self._n_delivered,
            self._n_failed,
            self._outbox.n_letters,
            self._outbox.n_dead,
            n_behind,
            self._trouble or self._problem,
        )

    async def stop(self) -> None:
        """Begin nothing new, wait for running requests, and store the state."""
        self._is_stopping = True
        self._woken.set()
        if self._sending:
            await asyncio.wait(self._sending, timeout=self._files.limits.drain_seconds_max)
        for task in list(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    # ------------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Deliver until `stop` is called; troubles of disk and feed are tried again."""
        is_open = False
        while not self._is_stopping:
            self._woken.clear()
            wait = self._settings.look_seconds
            try:
                if not is_open:
                    await self._open()
                    is_open = True
                    self._opened.set()
                wait = await self._step()
                self._trouble = ""
            except (RecrawlError, OSError) as error:
                self._trouble = _problem_text(error)
            except Exception as error:  # one webhook must not end the others
                self._trouble = f"{type(error).__name__}: {_problem_text(error)}"
            self._opened.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
        await self.stop()
        if is_open:
            with suppress(RecrawlError, OSError):  # what is not stored is delivered again
                await self._store(now_or_never=True)

    async def _open(self) -> None:
        """Load the letters, and create the place in the feed of a new webhook."""
        webhook = self.webhook
        letters = await asyncio.to_thread(self._files.read_letters, webhook.id)
        self._outbox = Outbox(
            self._files.limits,
            letters,
            events_max=webhook.events_max,
            holds_back=webhook.holds_back,
        )
        names = {one.name for one in await self._feed.consumers()}
        if webhook.consumer not in names:
            # A place that got lost begins again with the oldest change: rather twice than never.
            start = "oldest" if webhook.is_started else webhook.start
            await self._feed.commit_changes(webhook.consumer, start)
        if not webhook.is_started:
            await asyncio.to_thread(self._files.change, webhook.name, webhook.id, is_started=True)

    async def _step(self) -> float:
        """Do what can be done now; return the seconds until there may be more."""
        settings, outbox = self._settings, self._outbox
        if self._has_requests:
            await self._apply_requests()
        if self._is_enabling and not self._is_disabling:
            await self._read_again()
        if self.webhook.disabled is not None:
            outbox.store_all()
            await self._store()
            unstored = self._seconds_to_store()
            return _DISABLED_SECONDS if unstored is None else unstored
        if any(seconds <= 0 for seconds in self._seconds_to_read()):
            await self._read()
        self._begin_requests()
        now = settings.now_seconds()
        if outbox.waits_until > now + settings.look_seconds:
            outbox.store_all()
        await self._store()
        waits = [settings.look_seconds, *self._seconds_to_read()]
        if (seconds := outbox.seconds_to_next(now)) is not None:
            waits.append(seconds)
        if (unstored := self._seconds_to_store()) is not None:
            waits.append(unstored)
        return max(min(waits), 0.0)

    def _room(self) -> int:
        limits = self._files.limits
        plain_max = min(_PLAIN_EVENT_BYTES_MAX, limits.event_bytes_max)
        return self._outbox.room(
            limits.event_bytes_max if self.webhook.with_passages else plain_max
        )

    @property
    def _read_seconds_min(self) -> float:
        return self._count_webhooks() / self._files.limits.reads_per_second_max

    def _seconds_to_read(self) -> list[float]:
        """Return the seconds until more is read; none if that depends on other events."""
        limits = self._files.limits
        # While requests run, some changes are kept ready.
        is_short = self._outbox.n_ready < limits.requests_max * self.webhook.events_max
        is_waiting = self._outbox.waits_until > self._settings.now_seconds()
        if not is_short or is_waiting or self._room() == 0:
            return []
        return [self._look_at - asyncio.get_running_loop().time()]

    async def _read(self) -> None:
        """Read changes, and put those that the webhook wants into the outbox."""
        limit = min(self._room(), _READ_MAX)
        consumer = self.webhook.consumer if self._after is None else None
        n_wakes = self._n_wakes
        self._read_at = asyncio.get_running_loop().time()
        try:
            changes = await self._feed.changes(self._after, consumer=consumer, limit=limit)
        except ChangesLost as error:
            self._is_lost = True
            self._look_at = self._read_at + self._settings.look_seconds
            self._problem = _problem_text(error)
            return
        self._is_lost = False
        if len(changes) < limit:
            is_quiet = not changes and n_wakes == self._n_wakes
            wait = self._settings.look_seconds if is_quiet else self._read_seconds_min
            self._look_at = self._read_at + wait
        if not changes:
            return
        for change, letter in await asyncio.to_thread(self._make_letters, changes):
            self._outbox.add(change.cursor, letter)
        self._after = changes[-1].cursor

    def _make_letters(
        self, changes: Sequence[PageChange]
    ) -> list[tuple[PageChange, Letter | None]]:
        webhook = self.webhook
        if self._filter is None:
            self._filter = ChangeFilter(webhook)
        found: list[tuple[PageChange, Letter | None]] = []
        for change, is_wanted in zip(changes, self._filter.choose(changes), strict=True):
            letter = None
            if is_wanted:
                event = event_text(
                    change,
                    self._settings.source,
                    with_passages=webhook.with_passages,
                    limits=self._files.limits,
                )
                letter = Letter(id=change.sequence, page=(change.key, change.url), event=event)
            found.append((change, letter))
        return found

    # ------------------------------------------------------------------ requests

    def _begin_requests(self) -> None:
        while request := self._outbox.next_request(self._settings.now_seconds()):
            task = asyncio.create_task(self._send(request))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, request: list[Letter]) -> None:
        webhook = self.webhook
        events = [letter.event for letter in request]
        message_id = request[0].id if len(request) == 1 else f"{request[0].id}+{len(request)}"
        body = batch_body(events) if webhook.is_batched else events[0].encode()
        now = self._settings.now_seconds()
        headers = {
            "Content-Type": BATCH_TYPE if webhook.is_batched else EVENT_TYPE,
            **signature_headers(webhook.valid_secrets(now * 1000), message_id, int(now), body),
        }
        try:
            answer = await self._sender.send(webhook.url, body, headers)
        except BaseException:
            self._outbox.put_back(request)
            raise
        await self._take_answer(request, answer)
        self._woken.set()

    async def _take_answer(self, request: list[Letter], answer: WebhookAnswer) -> None:
        if answer.is_accepted:
            self._outbox.deliver(request)
            self._n_delivered += len(request)
            self._problem = ""
            return
        self._n_failed += 1
        self._problem = answer.problem
        if answer.is_gone:
            self._outbox.put_back(request)
            await self._disable(_UNSUBSCRIBED)
            return
        self._outbox.fail(
            request,
            self._settings.now_seconds(),
            problem=answer.problem,
            jitter=self._settings.random(),
            retry_after_seconds=answer.retry_after_seconds,
        )

    async def _disable(self, reason: str) -> None:
        webhook = self.webhook
        self.webhook = replace(webhook, disabled=reason)
        # It may have been removed or replaced meanwhile.  If the disk is full, the receiver is
        # asked once more after a restart.
        self._is_disabling = True
        with suppress(ValueError, RecrawlError, OSError):
            await asyncio.to_thread(self._files.change, webhook.name, webhook.id, disabled=reason)

        self._is_disabling = False

    async def _read_again(self) -> None:
        self._is_enabling = False
        webhook = await asyncio.to_thread(self._files.read, self.webhook.name)
        if webhook is not None and webhook.id == self.webhook.id:
            self.webhook = webhook
            self._filter = None

    async def _apply_requests(self) -> None:
        """Send dead letters again, or give them up, as somebody has asked for."""
        self._has_requests = False
        requests = await asyncio.to_thread(self._files.take_requests, self.webhook.id)
        if requests is None:
            return
        self._outbox.drop(requests.drop)
        self._outbox.send_again(requests.send_again, self._settings.now_seconds())
        await self._store(now_or_never=True)
        await asyncio.to_thread(self._files.finish_requests, self.webhook.id, requests)

    # ------------------------------------------------------------------ what is stored

    def _seconds_to_store(self) -> float | None:
        if not self._outbox.has_changed:
            return None
        stored_ago = asyncio.get_running_loop().time() - self._stored_at
        between = self._count_webhooks() / self._files.limits.stores_per_second_max
        return max(self._settings.store_seconds - stored_ago, between - stored_ago, 0.0)

    async def _store(self, *, now_or_never: bool = False) -> None:
        """Store letters, then the place in the feed, unless that was done a moment ago."""
        wait = self._seconds_to_store()
        if wait is None or (wait > 0 and not now_or_never):
            return
        checkpoint = self._outbox.checkpoint()
        try:
            if checkpoint.letters is not None:
                await asyncio.to_thread(
                    self._files.write_letters, self.webhook.id, checkpoint.letters
                )
            if checkpoint.cursor is not None:
                await self._feed.commit_changes(self.webhook.consumer, checkpoint.cursor)
        except BaseException:
            self._outbox.restore(checkpoint)
            raise
        self._stored_at = asyncio.get_running_loop().time()
        if self._outbox.is_all_stored:
            # Read on from the stored place, which notices changes that the feed has lost.
            self._after = None


def _problem_text(error: BaseException) -> str:
    return escape_controls(str(error))[:300]
