"""A receiver of webhooks that misbehaves as it is told, and a change feed in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web

from recrawl.corpus import PageChange
from recrawl.errors import ChangesLost
from recrawl.service.webhooks import verify_webhook
from recrawl.shard import Transition

Answer: TypeAlias = Callable[["Received"], Awaitable[web.StreamResponse]]
LOOPBACK = ("127.0.0.0/8",)


class Received(NamedTuple):
    """A request that a receiver got."""

    request: web.Request
    body: bytes
    n: int
    """Number of requests before it."""


@dataclass
class Receiver:
    """Takes events with a right signature, unless its script answers otherwise."""

    url: str = ""
    secret: str | list[str] = ""
    script: Answer | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    """Events of the requests that were accepted."""
    headers: list[dict[str, str]] = field(default_factory=list)
    n_requests: int = 0

    async def take(self, request: web.Request) -> web.StreamResponse:
        received = Received(request, await request.read(), self.n_requests)
        self.n_requests += 1
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.secret:
            verify_webhook(self.secret, request.headers, received.body)
        if self.script is not None:
            return await self.script(received)
        return self.accept(received)

    def accept(self, received: Received) -> web.Response:
        found = json.loads(received.body)
        self.events += found if isinstance(found, list) else [found]
        return web.Response(status=204)

    @property
    def numbers(self) -> list[str]:
        """The sequence numbers of all events, as they came."""
        return [event["sequence"] for event in self.events]

    def check_order(self) -> None:
        """Check that of each page an event came only after all earlier ones, repeats aside."""
        seen: dict[str, list[str]] = {}
        for event in self.events:
            own = seen.setdefault(event["subject"], [])
            if event["id"] not in own:
                assert not own or own[-1] < event["id"], f"{event['id']} came after {own[-1]}"
                own.append(event["id"])


@asynccontextmanager
async def open_receiver(**options: Any) -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of this machine."""
    receiver = Receiver(**options)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/hook", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


class FakeConsumer(NamedTuple):
    name: str
    n_behind: int


@dataclass
class FakeFeed:
    """A change feed in memory, with the methods of `recrawl.AsyncCorpus`; cursors are numbers."""

    stored: list[PageChange] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    n_trimmed: int = 0
    trouble: Exception | None = None
    n_reads: int = 0

    def happen(self, *pages: str, what: Transition = Transition.CHANGED, **more: Any) -> None:
        for page in pages:
            n = len(self.stored) + 1
            url = f"https://site.example/{page}"
            change = PageChange(str(n), url, what, 1_700_000_000_000 + n, sequence=f"{n:08}")
            self.stored.append(change._replace(**more))

    async def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> Sequence[PageChange]:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        self.n_reads += 1
        place = self.places[consumer] if consumer is not None else int(after or 0)
        if consumer is not None and place < self.n_trimmed:
            raise ChangesLost(f"{self.n_trimmed - place} changes are lost")
        place = max(place, self.n_trimmed)
        return self.stored[place : place + limit]

    async def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        marks = {"oldest": self.n_trimmed, "newest": len(self.stored)}
        place = marks[cursor] if cursor in marks else int(cursor)
        before = self.places.get(consumer, 0)
        self.places[consumer] = place if rewind else max(place, before)
        return str(self.places[consumer])

    async def consumers(self) -> Sequence[FakeConsumer]:
        return [FakeConsumer(name, len(self.stored) - n) for name, n in self.places.items()]

    async def remove_consumer(self, consumer: str) -> bool:
        return self.places.pop(consumer, None) is not None


async def until(is_so: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.005)
