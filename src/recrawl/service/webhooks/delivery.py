"""Deliver the changes of a corpus to all its webhooks, as long as the service runs."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

from aiohttp.abc import AbstractResolver

from recrawl.errors import RecrawlError
from recrawl.fetch.addresses import parse_networks
from recrawl.service.webhooks.files import WebhookFiles
from recrawl.service.webhooks.limits import WebhookLimits
from recrawl.service.webhooks.sender import WebhookSender
from recrawl.service.webhooks.subscription import Webhook
from recrawl.service.webhooks.worker import (
    ChangeFeed,
    DeliverySettings,
    WebhookStatus,
    WebhookWorker,
)

__all__ = ["WebhookDelivery"]

_CONSUMER_PREFIX = "webhook."


class WebhookDelivery:
    """Delivers the changes of one corpus to its webhooks; use it with ``async with``.

    Each webhook has its own task, place in the feed, letters and requests, so that a receiver that
    is slow or down does not hold back the others.  Webhooks that other processes add, change or
    remove are noticed within a second.

    Parameters
    ----------
    feed
        Object with the methods of `recrawl.AsyncCorpus`.
    folder
        Folder of the corpus, which has the files of its webhooks.
    settings
        Settings that all webhooks of the corpus share.
    limits
        Limits of webhooks.
    resolver
        Look-up of names; the system's unless given.
    is_feed_shared
        Whether other servers have webhooks of the same corpus, whose places in the feed must stay.
    """

    def __init__(
        self,
        feed: ChangeFeed,
        folder: Path,
        *,
        settings: DeliverySettings | None = None,
        limits: WebhookLimits | None = None,
        resolver: AbstractResolver | None = None,
        is_feed_shared: bool = False,
    ) -> None:
        self._feed = feed
        self._is_feed_shared = is_feed_shared
        self._files = WebhookFiles(folder, limits)
        self._settings = settings or DeliverySettings()
        self._allowed = parse_networks(self._settings.allow_networks)
        self._resolver = resolver
        self._sender: WebhookSender | None = None
        self._workers: dict[str, tuple[WebhookWorker, asyncio.Task[None]]] = {}
        self._versions: dict[str, tuple[int, int]] | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._reload_lock = asyncio.Lock()
        self.problem = ""
        """Why the files of webhooks could not be read at the last look; empty if they could."""

    @property
    def allow_networks(self) -> tuple[str, ...]:
        """Networks that may be sent to although they are not public."""
        return self._settings.allow_networks

    async def start(self) -> None:
        """Begin to deliver; after it returns, each webhook has its place in the feed."""
        limits = self._files.limits
        self._sender = WebhookSender(
            limits,
            allowed=self._allowed,
            now_seconds=self._settings.now_seconds,
            resolver=self._resolver,
        )
        await self._sender.__aenter__()
        await self._try_reload()
        for worker, _ in self._workers.values():
            await worker.wait_for_place()
        await self._remove_leftovers()
        self._reloading = asyncio.create_task(self._keep_reloading())

    async def stop(self) -> None:
        """Begin nothing new, let running requests end, and store the state of all webhooks."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
            self._reloading = None
        await asyncio.gather(*(self._end(name) for name in list(self._workers)))
        if self._sender is not None:
            await self._sender.__aexit__()
            self._sender = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def wake(self) -> None:
        """Look for changes now; call it after each report."""
        for worker, _ in self._workers.values():
            worker.wake()

    async def status(self) -> list[WebhookStatus]:
        """Return how the delivery to each webhook goes, by name."""
        behind = {one.name: one.n_behind for one in await self._feed.consumers()}
        return [
            worker.status(behind.get(worker.webhook.consumer))
            for _, (worker, _) in sorted(self._workers.items())
        ]

    async def resume(self, name: str, start: str = "oldest") -> str:
        """Continue a webhook whose next changes the feed has lost; return its new place.

        Parameters
        ----------
        name
            Name of the webhook.
        start
            Place to continue from: ``"oldest"`` or ``"newest"``.
        """
        webhook = await asyncio.to_thread(self._files.require, name)
        cursor = await self._feed.commit_changes(webhook.consumer, start, rewind=True)
        if name in self._workers:
            self._workers[name][0].wake()
        return cursor

    async def reload(self) -> None:
        """Notice now what is otherwise noticed within a second.

        That is webhooks that were added, changed or removed, and requests about letters.
        """
        async with self._reload_lock:
            await self._reload()

    async def _reload(self) -> None:
        versions = await asyncio.to_thread(self._files.versions)
        if versions == self._versions:
            return
        names = await asyncio.to_thread(self._files.names)
        webhooks: dict[str, Webhook] = {}
        for name in names[: self._files.limits.webhooks_max]:
            webhook = await asyncio.to_thread(self._files.read, name)
            if webhook is not None:
                webhooks[name] = webhook
        for name, (worker, _) in list(self._workers.items()):
            if name not in webhooks or webhooks[name].id != worker.webhook.id:
                await self._end(name)
                await self._feed.remove_consumer(worker.webhook.consumer)
        for name, webhook in webhooks.items():
            self._begin_or_update(name, webhook)
        self._versions = versions

    def _begin_or_update(self, name: str, webhook: Webhook) -> None:
        if name in self._workers:
            worker = self._workers[name][0]
            if worker.webhook != webhook:
                worker.update(webhook)
            worker.notice_requests()
            return
        if self._sender is None:
            raise RuntimeError("delivery has not been started")
        worker = WebhookWorker(
            webhook,
            self._feed,
            self._files,
            self._sender,
            self._settings,
            count_webhooks=lambda: len(self._workers),
        )
        self._workers[name] = worker, asyncio.create_task(worker.run())

    async def _end(self, name: str) -> None:
        worker, task = self._workers.pop(name)
        await worker.stop()
        await asyncio.gather(task, return_exceptions=True)

    async def _keep_reloading(self) -> None:
        while True:
            await asyncio.sleep(self._settings.reload_seconds)
            await self._try_reload()

    async def _try_reload(self) -> None:
        try:
            await self.reload()
            self.problem = ""
        except Exception as error:  # looked at again soon
            self.problem = f"{type(error).__name__}: {error}"

    async def _remove_leftovers(self) -> None:
        """Remove letters and places in the feed of webhooks that were removed meanwhile."""
        with suppress(RecrawlError, OSError):
            if self.problem:
                return
            await asyncio.to_thread(self._files.remove_leftovers)
            if self._is_feed_shared:
                return
            kept = {worker.webhook.consumer for worker, _ in self._workers.values()}
            for consumer in await self._feed.consumers():
                if consumer.name.startswith(_CONSUMER_PREFIX) and consumer.name not in kept:
                    await self._feed.remove_consumer(consumer.name)
