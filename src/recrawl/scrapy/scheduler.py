"""A scheduler that asks recrawl about each request before it is sent.

It wraps the scheduler of the project, which keeps the queue, its order and the filter of
duplicates.  A request is decided on when it is about to be sent, so that nothing is reserved long
before.
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object

from recrawl.corpus import Why
from recrawl.scrapy.crawl_corpus import FETCH_KEY, CrawlCorpus, Decision, Disposal
from recrawl.scrapy.exports import warn_of_overwriting
from recrawl.units import seconds_text

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from recrawl.corpus import Orders

__all__ = ["DROPPED_KEY", "RecrawlScheduler"]

logger = logging.getLogger(__name__)

DROPPED_KEY: Final = "recrawl_dropped"
"""Key of ``Request.meta`` of a request that is answered without being sent."""
_OVER_BUDGET: Final = frozenset(
    {Why.BUDGET_SPENT, Why.RUN_SPENT, Why.NO_BUDGET, Why.OUTSIDE_WINDOW}
)
# Requests that are decided on at once: as many as are sent in this time, up to a limit.
_BATCH_SECONDS: Final = 2.0
_BATCH_MAX: Final = 512
# Time after which other work of the crawl gets its turn.
_TURN_SECONDS: Final = 0.05
_ISSUED_AT_ONCE: Final = 100
# A crawl that refreshes ends when it has found no page, and no page is due, within this time.
_REFRESH_WAIT_SECONDS_MAX: Final = 10.0
_GATHER_SECONDS: Final = 0.05
# Shorter waits are not worth a message.
_SAID_SECONDS_MIN: Final = 5.0
# A fetch is lost if nothing has been under way for this time.
_LOST_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.002


class RecrawlScheduler(BaseScheduler):
    """Sends only requests for pages that are worth fetching.

    Parameters
    ----------
    crawler
        Crawler of Scrapy.
    inner
        Scheduler of the project.
    """

    def __init__(self, crawler: "Crawler", inner: BaseScheduler) -> None:
        self._crawler = crawler
        self._inner = inner
        self._crawl = CrawlCorpus.of(crawler)
        self._is_refresh = self._crawl.settings.mode == "refresh"
        self._ready: deque[Request] = deque()
        self._returned: deque[Request] = deque()
        self._returning: dict[int, Request] = {}
        self._to_track: list[Request] = []
        self._unfinished: deque[tuple[str, Request]] = deque()
        self._repeated: list[int] = []
        self._n_later = 0
        self._n_at_once = max(crawler.settings.getint("CONCURRENT_REQUESTS"), 1)
        self._undecided: deque[Request] = deque()
        self._gathers_since: float | None = None
        self._decided_at = time.monotonic()
        self._batch = self._n_at_once
        self._is_exhausted = False
        self._is_waking = False
        self._said_waiting: set[Why] = set()
        self._lost_since: float | None = None
        self._idle_since: float | None = None

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Return the scheduler of a crawler, around the one in ``RECRAWL_FALLBACK_SCHEDULER``."""
        name = crawler.settings.get("RECRAWL_FALLBACK_SCHEDULER", "scrapy.core.scheduler.Scheduler")
        return cls(crawler, build_from_crawler(load_object(name), crawler))

    def open(self, spider: "Spider") -> "Deferred[None]":
        """Open the corpus and the wrapped scheduler."""
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: "Spider") -> None:
        await self._crawl.prepare()
        self._crawl.open()
        if self._crawl.is_open:
            for url, text in self._crawl.open_requests():
                found = None if text is None else self._crawl.decode([text])
                self._unfinished.extend((url, one) for one in found or ())
            warn_of_overwriting(self._crawler, n_pages=self._crawl.n_pages)
        elif self._is_refresh:
            self._is_exhausted = True
        opening = self._inner.open(spider)
        if opening is not None:
            await maybe_deferred_to_future(opening)

    def close(self, reason: str) -> "Deferred[None] | None":
        """Close the wrapped scheduler and the corpus; a job directory keeps what was not sent."""
        waiting = (self._ready, self._undecided, self._returned, self._returning.values())
        for request in (one for part in waiting for one in part):
            if request.meta.pop(DROPPED_KEY, None) is None:
                if (fetch := self._crawl.take_fetch(request)) is not None:
                    self._crawl.release(fetch)
                request.meta.pop(FETCH_KEY, None)
                self._inner.enqueue_request(request.replace(dont_filter=True))
        if self._to_track and self._crawl.is_open:
            self._crawl.track(self._to_track)
        if self._repeated and self._crawl.is_open:
            self._crawl.reporter.release(self._repeated)
        if reason == "finished" and self._crawl.is_open:
            self._crawl.fail_all()  # nothing is under way any more
        closing = self._inner.close(reason)
        self._crawl.close()
        return closing

    def has_pending_requests(self) -> bool:
        """Return whether requests wait, here or in the wrapped scheduler."""
        if self._ready or self._undecided or self._returned or self._n_later:
            return True
        if self._inner.has_pending_requests():
            return True
        if not self._crawl.is_open:
            return False
        return bool(self._to_track or self._unfinished) or (
            self._is_refresh and not self._is_exhausted
        )

    def enqueue_request(self, request: Request) -> bool:
        """Store a request; return False for a duplicate."""
        crawl = self._crawl
        if not crawl.is_open:
            return self._inner.enqueue_request(request)
        if self._returning.pop(id(request), None) is not None:
            self._returned.append(request)
            return True
        if not crawl.continues(request):
            # The spider may have copied the meta of a response.
            for key in (FETCH_KEY, DROPPED_KEY, "recrawl"):
                request.meta.pop(key, None)
            if self._is_refresh and crawl.is_page(request):
                self._to_track.append(request)
                self._is_exhausted = False
                return True
        is_stored = self._inner.enqueue_request(request)
        if not is_stored:
            # A redirect to a page that was requested before: the fetch has led nowhere.
            crawl.fail(request)
        return is_stored

    def next_request(self) -> Request | None:
        """Return a request to send now; None if there is none."""
        if not self._crawl.is_open:
            return self._inner.next_request()
        ends_at = time.monotonic() + _TURN_SECONDS
        while not self._ready:
            if not (self._decide_some() or self._find_others()):
                break
            if time.monotonic() > ends_at:
                self._yield_turn()
                break
        return self._ready.popleft() if self._ready else None

    def _find_others(self) -> bool:
        """Find requests that the spider did not make; return False if there are none now."""
        if self._undecided:
            return False
        self._settle_lost()
        return (self._is_refresh and self._lease_due()) or self._resume_unfinished()

    def _settle_lost(self) -> None:
        """Report fetches that will have no answer as failures, so that nothing waits for them.

        If a middleware near the downloader discards an answer, as with too many redirects, Scrapy
        tells only the errback of the request.
        """
        downloader = getattr(self._crawler.engine, "downloader", None)
        is_busy = self._ready or self._returned or self._n_later
        if downloader is None or downloader.active or is_busy or self._inner.has_pending_requests():
            self._lost_since = None
        elif not self._crawl.in_flight:
            return
        elif self._lost_since is None:
            self._lost_since = time.monotonic()
            self._wake_later(_LOST_SECONDS)
        elif time.monotonic() - self._lost_since >= _LOST_SECONDS:
            self._lost_since = None
            self._crawl.fail_all()
        else:
            self._wake_later(_LOST_SECONDS)

    # ------------------------------------------------------------------ decisions

    def _decide_some(self) -> bool:
        """Decide on the next requests; return False if there are none, or more are waited for."""
        n_new = self._take_requests()
        if self._ready or not self._undecided:
            return bool(self._ready)
        if not self._is_time(n_new):
            return False
        undecided = list(self._undecided)
        self._undecided.clear()
        self._gathers_since = None
        self._choose_batch(len(undecided))
        for request, decision in zip(undecided, self._crawl.decide(undecided), strict=True):
            self._carry_out(request, decision)
        return True

    def _choose_batch(self, n_decided: int) -> None:
        """Choose how many requests to decide on next time, from how fast they go out.

        Orders of pages that wait long for a slow host would run out.
        """
        now = time.monotonic()
        per_second = n_decided / max(now - self._decided_at, 1e-3)
        self._decided_at = now
        self._batch = min(max(self._n_at_once, round(per_second * _BATCH_SECONDS)), _BATCH_MAX)

    def _take_requests(self) -> int:
        """Take requests from the wrapped scheduler; return how many wait for a decision now."""
        n_before = len(self._undecided)
        while len(self._undecided) < self._batch and len(self._ready) < self._n_at_once:
            request = self._returned.popleft() if self._returned else self._inner.next_request()
            if request is None:
                break
            if self._crawl.continues(request) or not self._crawl.is_page(request):
                self._ready.append(request)
            else:
                self._undecided.append(request)
        return len(self._undecided) - n_before

    def _is_time(self, n_new: int) -> bool:
        """Return whether to decide now, or to wait some milliseconds for more requests.

        A decision takes milliseconds for one request as for a hundred, and Scrapy asks for the next
        request after each new one.
        """
        now = time.monotonic()
        if self._gathers_since is None:
            self._gathers_since = now
        left = self._gathers_since + _GATHER_SECONDS - now
        if len(self._undecided) >= self._batch or left <= 0:
            return True
        if self._crawl.in_flight:
            return not self._wake_later(left)
        # Nothing is under way, so waiting is of use only while requests keep coming.
        if not n_new and not self._is_starting:
            return True
        return not self._wake_later(_LOOK_SECONDS)

    @property
    def _is_starting(self) -> bool:
        """Whether the spider may still yield requests to start with, which come one by one."""
        return getattr(self._crawler.engine, "_start", None) is not None

    def _carry_out(self, request: Request, decision: Decision) -> None:
        if decision.disposal == Disposal.FETCH and decision.fetch is not None:
            self._ready.append(self._crawl.mark(request, decision.fetch))
        elif decision.disposal == Disposal.WAIT:
            self._say_waiting(decision)
            self._return_later(decision.seconds, request)
        elif decision.disposal == Disposal.DROP:
            self._drop(request, decision)
        else:
            self._ready.append(request)

    def _say_waiting(self, decision: Decision) -> None:
        why = decision.why
        if why in self._said_waiting:
            return
        seconds = seconds_text(decision.seconds)
        if why == Why.IN_FLIGHT:
            self._said_waiting.add(why)
            logger.info(
                "An earlier crawl was ended while it fetched some pages.  They are fetched when "
                "their time is over, in up to %s (RECRAWL_LEASE).",
                seconds,
            )
        elif why == Why.GROUP_RESTING and decision.seconds >= _SAID_SECONDS_MIN:
            self._said_waiting.add(why)
            logger.info(
                "Some requests wait, the first of them for %s: their hosts have sent errors, or "
                "have asked for a pause (RECRAWL_WAIT_MAX).",
                seconds,
            )

    def _drop(self, request: Request, decision: Decision) -> None:
        crawl, stats = self._crawl, self._crawler.stats
        assert stats is not None
        known = decision.known
        follow_ups = known.follow_ups or [] if known is not None else []
        requests = crawl.decode(follow_ups)
        if known is not None and requests is None:
            self._ready.append(crawl.begin_again(request, decision.url, known))
            return
        crawl.counts.dropped += 1
        crawl.counts.over_budget += decision.why in _OVER_BUDGET
        stats.inc_value(f"recrawl/dropped/{decision.why.name.lower()}")
        if crawl.settings.unchanged == "callback":
            request.meta[DROPPED_KEY] = follow_ups
            self._ready.append(request)
            return
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self._crawler.spider
        )
        if requests:
            self._issue_later(requests)

    # ------------------------------------------------------------------ refresh

    def _lease_due(self) -> bool:
        """Lease pages that are due; return False if there are none now."""
        crawl = self._crawl
        if self._to_track:
            waiting, self._to_track = self._to_track, []
            crawl.track(waiting)
        orders = crawl.lease_due(self._n_at_once)
        new = [order for order in orders if not crawl.has_fetched(order.url)]
        # One crawl fetches a page once, also if its longest interval is shorter than the crawl.
        # Such orders are kept to its end: given back, they would come again, before other pages.
        self._repeated += [order.handle for order in orders if crawl.has_fetched(order.url)]
        known = crawl.find_pages([order.url for order in new])
        for order in new:
            page = known.get(order.url)
            stored = crawl.decode([page.request]) if page is not None and page.request else None
            request = stored[0] if stored else Request(order.fetch_url)
            request = request.replace(dont_filter=True)
            self._ready.append(crawl.begin_order(order, page, request))
        if not orders and not crawl.in_flight:
            # Callbacks that still run may add pages, and then the crawl goes on.
            seconds, now = _seconds_to_next(orders), time.monotonic()
            self._idle_since = now if self._idle_since is None else self._idle_since
            ends_at = self._idle_since + _REFRESH_WAIT_SECONDS_MAX
            self._is_exhausted = seconds is None or now + seconds > ends_at
            if seconds is not None and not self._is_exhausted:
                self._wake_later(max(seconds, _LOOK_SECONDS))
        elif new or crawl.in_flight:
            self._idle_since = None
        return bool(orders)

    def _wake_later(self, seconds: float) -> bool:
        """Make the engine ask for requests after some time; return False if that is not possible.

        By itself the engine asks after each answer, and every five seconds.
        """
        slot = getattr(self._crawler.engine, "_slot", None)
        if getattr(slot, "nextcall", None) is None:
            return False
        if not self._is_waking:
            self._is_waking = True
            call_later(seconds, self._wake)
        return True

    def _wake(self) -> None:
        self._is_waking = False
        slot = getattr(self._crawler.engine, "_slot", None)
        if slot is not None:
            slot.nextcall.schedule()

    def _resume_unfinished(self) -> bool:
        """Fetch pages whose items an earlier crawl did not process; return False if none is left.

        Last of all, so that the spider's own requests come first, and none of them twice.
        """
        if not self._unfinished or self._n_later or self._crawl.in_flight:
            return False
        while self._unfinished and len(self._returned) < self._n_at_once:
            url, request = self._unfinished.popleft()
            if not self._crawl.has_fetched(url):
                self._returned.append(request.replace(dont_filter=True))
        return bool(self._returned)

    # ------------------------------------------------------------------ later

    def _issue_later(self, requests: Sequence[Request]) -> None:
        """Issue requests as if a callback had yielded them, some at a time."""
        self._crawl.counts.reissued += len(requests)
        for first in range(0, len(requests), _ISSUED_AT_ONCE):
            part = requests[first : first + _ISSUED_AT_ONCE]
            self._n_later += len(part)
            call_later(0, self._issue, part)

    def _return_later(self, seconds: float, request: Request) -> None:
        """Decide on a request again after some time."""
        self._returning[id(request)] = request
        self._n_later += 1
        call_later(seconds, self._issue, [request])

    def _yield_turn(self) -> None:
        """Let other work run, and then go on."""
        # The engine asks again at once only after it was given a request.
        if self._wake_later(0):
            return
        request = self._returned.popleft() if self._returned else self._inner.next_request()
        if request is not None:
            self._return_later(0, request)

    def _issue(self, requests: Sequence[Request]) -> None:
        engine = self._crawler.engine
        self._n_later -= len(requests)
        for request in requests:
            if engine.spider is not None and self._crawl.is_open:
                engine.crawl(request)


def _seconds_to_next(orders: "Orders") -> float | None:
    """Return the seconds after which more pages are due; None if a crawl should not wait for them.

    Parameters
    ----------
    orders
        Orders of a lease that returned none.
    """
    shortfall = orders.shortfall
    if shortfall is None or shortfall.seconds is None:
        return None
    if any(one.why in (Why.RUN_SPENT, Why.NO_BUDGET) for one in shortfall.reasons):
        return None
    return shortfall.seconds
