"""A downloader middleware that waits when a host asks for it, and slots with a Crawl-delay.

Usable alone::

    DOWNLOADER_MIDDLEWARES = {"recrawl.scrapy.HostDelayMiddleware": 560}
"""

import time
from typing import TYPE_CHECKING, Final, Self

from scrapy import Request
from scrapy.core.downloader import Slot
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from recrawl.signals.headers import parse_retry_after

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = [
    "HOSTS_MAX",
    "WAIT_SECONDS_MAX",
    "HostAsksToWait",
    "HostDelayMiddleware",
    "count_stat",
    "slow_down",
]

WAIT_SECONDS_MAX: Final = 60.0
"""Longest time that a request waits; if the host asks for more, it is not sent in this crawl."""
HOSTS_MAX: Final = 100_000
"""Number of hosts whose delays are remembered."""
_ASKING: Final = (429, 503)
_HAS_JITTER: Final = "jitter" in getattr(Slot, "__annotations__", {})


class HostAsksToWait(IgnoreRequest):
    """A host has asked to be left alone for longer than a request can wait."""


class HostDelayMiddleware:
    """Obeys ``Retry-After``, for all requests to the host that sent it.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    """

    def __init__(self, crawler: "Crawler") -> None:
        self._crawler = crawler
        self._ends_at: dict[str, float] = {}

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the middleware of a crawler."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Wait until the host may be contacted."""
        host = urlparse_cached(request).hostname or ""
        while (left := self._ends_at.get(host, 0.0) - time.monotonic()) > 0:
            if left > WAIT_SECONDS_MAX:
                count_stat(self._crawler, "recrawl/host_delays/dropped")
                raise HostAsksToWait(f"{host} asks to be left alone for {left:.0f} seconds")
            await _sleep(left)
        self._ends_at.pop(host, None)

    def process_response(self, request: Request, response: Response) -> Response:
        """Note how long the host asks to be left alone."""
        text = response.headers.get(b"Retry-After")
        if text is not None and response.status in _ASKING:
            now = time.time()
            asked = parse_retry_after(text.decode("latin-1"), now_ms=round(now * 1000))
            host = urlparse_cached(request).hostname or ""
            if asked and (host in self._ends_at or len(self._ends_at) < HOSTS_MAX):
                ends_at = time.monotonic() + asked
                self._ends_at[host] = max(self._ends_at.get(host, 0.0), ends_at)
                count_stat(self._crawler, "recrawl/host_delays/retry_after")
                self._hold_queue(request, asked)
        return response

    def _hold_queue(self, request: Request, seconds: float) -> None:
        """Keep requests that already wait in the slot of the host from being sent."""
        engine = self._crawler.engine
        assert engine is not None
        downloader = engine.downloader
        slot = downloader.slots.get(downloader.get_slot_key(request))
        if slot is None:
            return
        if seconds > WAIT_SECONDS_MAX:
            while slot.queue:
                waiting, answer = slot.queue.popleft()
                host = urlparse_cached(waiting).hostname
                count_stat(self._crawler, "recrawl/host_delays/dropped")
                answer.errback(HostAsksToWait(f"{host} asks to be left alone"))
            return
        if slot.latercall is not None:
            slot.latercall.cancel()
        # The slot sends nothing before this call, as if its delay were longer once.
        slot.latercall = call_later(seconds, downloader._latercall, slot)


def count_stat(crawler: "Crawler", name: str) -> None:
    """Add one to a number of Scrapy's statistics."""
    if crawler.stats is not None:
        crawler.stats.inc_value(name)


def slow_down(crawler: "Crawler", request: Request, seconds: float) -> None:
    """Let at least some seconds pass between two requests to the host of a request.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    request
        Request to the host.
    seconds
        Least delay; a longer delay stays as it is.
    """
    assert crawler.engine is not None
    downloader = crawler.engine.downloader
    key = downloader.get_slot_key(request)
    # Scrapy forgets slots that nobody uses, and makes them again from these settings.
    settings = downloader.per_slot_settings.setdefault(key, {})
    slot = downloader.slots.get(key)
    # Since 2.19 the random part of a delay has another name.
    exact = {"jitter": 0.0} if _HAS_JITTER else {"randomize_delay": False}
    if float(settings.get("delay") or 0.0) < seconds:
        settings.update(delay=seconds, concurrency=1, **exact)
    if slot is not None and slot.delay < seconds:
        slot.delay, slot.concurrency = seconds, 1
        for name, value in exact.items():
            setattr(slot, name, value)


async def _sleep(seconds: float) -> None:
    done: Deferred[None] = Deferred()
    call_later(seconds, done.callback, None)
    await maybe_deferred_to_future(done)
