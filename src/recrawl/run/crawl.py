"""Fetch what is due, store what was found, and learn from it, until somebody says stop.

For each batch of answers, in this order: the spool gets the bodies, the finder says what they lead
to, the corpus gets new pages, signals and outcomes, and the spool turns its changes into versions.
So a crash at any moment loses nothing: what was not reported is fetched again.
"""

import asyncio
import heapq
import math
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, ParamSpec, TypeVar

from recrawl.corpus import Corpus, Order, Orders, Outcome, RowStatus, Why
from recrawl.errors import AccessDenied, ServiceUnavailable, SpoolFull
from recrawl.fetch import (
    FetchAnswer,
    FetchKind,
    FetchProblem,
    FetchRequest,
    FetchTime,
    PageFetcher,
    SystemTime,
)
from recrawl.fetch.sinks import Spool
from recrawl.run.found import Findings, FoundPage, FoundSignal, PageFinder
from recrawl.run.held_orders import HeldOrders
from recrawl.run.host_delays import HostDelays
from recrawl.run.outcomes import is_unsent, make_outcome, make_spool_page
from recrawl.run.progress import CrawlProgress, FetchResult
from recrawl.run.settings import CrawlSettings
from recrawl.shard import Reason

__all__ = ["CrawlEnd", "CrawlSummary", "crawl"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NAP_SECONDS: Final = 0.05
_IDLE_SECONDS_MIN: Final = 0.25
_FREE_TIMES_MAX: Final = 10_000
_WAIT_SECONDS_MAX: Final = 60.0
_ASK_SECONDS: Final = 60.0
_FULL_SECONDS: Final = 1.0
# So long before its lease ends, a fetch is cancelled: clocks of two machines differ a little.
_LOST_SECONDS: Final = 5.0
_LOST_LOOK_SECONDS: Final = 1.0
# A pass is over when so many pages in a row were fetched in it before.
_REPEATS_MAX: Final = 5
_PAGES_SEEN_MAX: Final = 1_000_000
# A host that waits or works is worth waiting for; a page that is not due is not.
_SOON: Final = frozenset(
    {
        Why.DUE,
        Why.EARLY,
        Why.GROUP_BLOCKED,
        Why.GROUP_BUSY,
        Why.GROUP_RESTING,
        Why.LEASE_FULL,
        Why.UNAVAILABLE,
    }
)
# Time between two looks whether pages are still due in another partition.
_OTHERS_SECONDS: Final = 1.0
# Time between two reports of outcomes whose partitions cannot be reached.
_AGAIN_SECONDS: Final = 1.0
# Time for which they are reported again when the crawl ends.
_LAST_SECONDS: Final = 10.0


class CrawlEnd(StrEnum):
    """Why a crawl ended."""

    STOPPED = "stopped"
    TIME_OVER = "time over"
    PASS_OVER = "pass over"
    RUN_SPENT = "run spent"
    """The budget of the run is spent."""


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """What a crawl did, and why it ended."""

    end: CrawlEnd
    seconds: float
    progress: CrawlProgress
    n_given_back: int
    """Orders that were given back when the crawl ended."""
    left: str | None = None
    """Why a single pass fetched no more, in a sentence."""


@dataclass(slots=True)
class _Held:
    """An order, until its outcome is reported."""

    order: Order
    ends_at_ms: int
    """Instant at which the lease ends unless it is extended, by the clock of the crawl."""
    task: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class _Answered:
    """A fetch that has ended and is not reported yet."""

    order: Order
    kind: FetchKind
    answer: FetchAnswer


@dataclass(frozen=True, slots=True)
class _Report:
    """An outcome that is to be reported."""

    outcome: Outcome
    answered: _Answered | None = None
    """Its fetch; None if it had no order."""
    position: int | None = None
    """Position of its body in the spool; None if the spool has none."""


@dataclass(slots=True)
class _Pass:
    """Which pages a single pass has fetched."""

    seen: set[int] = field(default_factory=set)
    n_repeats: int = 0
    is_spare: bool = False
    """Whether orders were given back, because their pages are fetched and not due."""

    def has_seen(self, order: Order) -> bool:
        """Return whether the page of an order was fetched in this pass."""
        return hash((order.key, order.url)) in self.seen

    def note(self, order: Order) -> None:
        """Take note of a page that is fetched."""
        name = hash((order.key, order.url))
        if name in self.seen:
            # Budget that is left is spent on pages that are not due, so nothing else is.
            self.n_repeats += _REPEATS_MAX if order.reason == Reason.SPARE else 1
        else:
            self.n_repeats = 0
            if len(self.seen) < _PAGES_SEEN_MAX:
                self.seen.add(name)


async def crawl(
    corpus: Corpus,
    fetcher: PageFetcher,
    urls: Sequence[str] = (),
    *,
    settings: CrawlSettings | None = None,
    time: FetchTime | None = None,
    spool: Spool | None = None,
    finder: PageFinder | None = None,
    held_orders: HeldOrders | None = None,
    stopping: asyncio.Event | None = None,
    progress: CrawlProgress | None = None,
) -> CrawlSummary:
    """Fetch what is due until the time is over, everything is fetched, or somebody says stop.

    Parameters
    ----------
    corpus
        Corpus whose pages are fetched; its methods are called in threads.
    fetcher
        Fetcher to use; the caller closes it.  The corpus follows the delays of its attribute
        ``gate``, a `recrawl.fetch.HostGate`, if it has one.
    urls
        URLs to add first.
    settings
        Limits of the crawl.
    time
        Clock, and how to wait; the system's if None.
    spool
        Spool that takes the bodies of pages; None to store none.
    finder
        Finder of pages and hints in answers; None to fetch only what the corpus has.
    held_orders
        File of the orders that are held, which the next crawl gives back after a crash.
    stopping
        Event that ends the crawl: fetches that have begun get a few seconds.
    progress
        Counts to update; new ones if None.
    """
    return await _Crawl(
        corpus,
        fetcher,
        CrawlSettings() if settings is None else settings,
        SystemTime() if time is None else time,
        spool,
        finder,
        held_orders,
        asyncio.Event() if stopping is None else stopping,
        CrawlProgress() if progress is None else progress,
    ).run(urls)


class _Crawl:
    """One crawl: a loop that leases, a task per fetch, and a task that reports."""

    def __init__(
        self,
        corpus: Corpus,
        fetcher: PageFetcher,
        settings: CrawlSettings,
        time: FetchTime,
        spool: Spool | None,
        finder: PageFinder | None,
        held_orders: HeldOrders | None,
        stopping: asyncio.Event,
        progress: CrawlProgress,
    ) -> None:
        self._corpus = corpus
        self._fetcher = fetcher
        self._settings = settings
        self._time = time
        self._spool = spool
        self._finder = finder
        self._held_orders = held_orders
        self._stopping = stopping
        self._progress = progress
        self._host_delays = HostDelays(corpus, getattr(fetcher, "gate", None), time)
        self._held: dict[int, _Held] = {}
        self._answered: list[_Answered] = []
        # Outcomes whose partitions could not be reached; their orders are held.
        self._unreported: list[_Report] = []
        self._again_at_ms = 0
        self._n_bytes_waiting = 0
        self._has_answers = asyncio.Event()
        self._is_ending = False
        self._is_finishing = False
        self._is_paused = False
        self._free_at_ms: list[int] = []
        self._started_fetch_at_ms = time.now_ms()
        self._left: str | None = None
        self._pass = _Pass() if settings.is_single_pass else None
        # One thread at a time uses the spool and the finder.
        self._storing = threading.Lock()
        self._calls: set[asyncio.Future[Any]] = set()
        self._ends_at_ms = math.inf
        self._has_asked = asyncio.Event()
        self._has_asked_all = asyncio.Event()
        if finder is None:
            self._has_asked_all.set()
        self._is_filled = False

    async def run(self, urls: Sequence[str]) -> CrawlSummary:
        started_ms = self._time.now_ms()
        self._ends_at_ms = started_ms + self._settings.for_seconds * 1000
        await self._in_thread(self._begin, urls)
        reporting = asyncio.create_task(self._report_answers())
        asking = None if self._finder is None else asyncio.create_task(self._ask_sites())
        fencing = None
        if self._settings.is_shared:
            fencing = asyncio.create_task(self._cancel_lost_fetches())
        try:
            # Pages that sitemaps name are added before the first fetch: later they would count as
            # newcomers, which have only a share of the budget.
            if asking is not None and not self._is_filled:
                await self._nap(math.inf, self._has_asked)
            end = await self._lease_until_end(reporting, asking)
        finally:
            if fencing is not None:
                fencing.cancel()
            n_given_back = await self._finish(reporting, asking)
        seconds = (self._time.now_ms() - started_ms) / 1000
        return CrawlSummary(end, seconds, self._progress, n_given_back, self._left)

    # ------------------------------------------------------------------ leases and fetches

    async def _lease_until_end(self, *working: "asyncio.Task[None] | None") -> CrawlEnd:
        idle = _IDLE_SECONDS_MIN
        while True:
            for task in working:
                if task is not None and task.done():
                    task.result()  # raises what ended it
            if self._stopping.is_set():
                return CrawlEnd.STOPPED
            if self._time.now_ms() >= self._ends_at_ms:
                return CrawlEnd.TIME_OVER
            n = min(self._settings.orders_max - len(self._held), self._settings.batch_max)
            if self._is_spool_full():
                await self._nap(_FULL_SECONDS)
                continue
            if n <= 0 or self._n_bytes_waiting > self._settings.bytes_waiting_max:
                if self._has_late_leases():
                    await self._in_thread(self._extend_leases)
                await self._nap(_NAP_SECONDS)
                continue
            # A pass that ends before the sites have answered would never read a new sitemap.
            has_asked = self._has_asked_all.is_set()
            is_idle_pass = self._pass is not None and not self._is_fetching() and has_asked
            orders, wait = await self._in_thread(self._lease, n, with_shortfall=is_idle_pass)
            self._start_fetches(await self._give_back_repeats(orders))
            if self._pass is not None and self._pass.n_repeats >= _REPEATS_MAX:
                if not has_asked:
                    await self._nap(math.inf, self._has_asked_all)
                elif self._pass.is_spare and await self._is_due_elsewhere():
                    self._pass.n_repeats, self._pass.is_spare = 0, False
                    await self._nap(_OTHERS_SECONDS)
                else:
                    return CrawlEnd.PASS_OVER
                continue
            if len(orders) == n:
                continue
            if orders:
                idle = _IDLE_SECONDS_MIN
                await self._nap(_NAP_SECONDS)
                continue
            if wait == math.inf and not self._held:
                return CrawlEnd.RUN_SPENT
            if is_idle_pass and self._is_pass_over(orders):
                return CrawlEnd.PASS_OVER
            nap = max(min(idle, self._seconds_to_free_host()), _NAP_SECONDS)
            longest = max(_WAIT_SECONDS_MAX, self._settings.idle_seconds_max)
            await self._nap(max(nap, min(wait, longest)))
            idle = min(idle * 2.0, max(self._settings.idle_seconds_max, _NAP_SECONDS))

    def _is_fetching(self) -> bool:
        """Return whether there are orders beside those whose partitions cannot be reached now."""
        return len(self._held) > sum(one.answered is not None for one in self._unreported)

    def _seconds_to_free_host(self) -> float:
        """Return the seconds until the delay of a host is over; infinite if none is known."""
        now_ms = self._time.now_ms()
        while self._free_at_ms and self._free_at_ms[0] <= now_ms:
            heapq.heappop(self._free_at_ms)
        return (self._free_at_ms[0] - now_ms) / 1000 if self._free_at_ms else math.inf

    def _is_spool_full(self) -> bool:
        if self._spool is None or not self._spool.is_full:
            if self._is_paused:
                self._is_paused = False
                self._progress.set_pause(None)
            return False
        self._is_paused = True
        self._progress.set_pause("the spool is full until the sinks have written what waits")
        return True

    def _lease(self, n: int, *, with_shortfall: bool) -> tuple[Orders, float]:
        """Lease pages, and extend leases of fetches that take long.  Runs in a thread.

        Returns the orders, and the seconds until the budget allows more if there are none.
        """
        self._extend_leases()
        seconds = self._settings.lease_seconds
        orders = self._corpus.lease(n, seconds=seconds, with_shortfall=with_shortfall)
        if self._held_orders is not None and orders:
            self._held_orders.write([*self._held, *(order.handle for order in orders)])
        return orders, 0.0 if orders else self._corpus.wait_seconds()

    def _has_late_leases(self) -> bool:
        ends_before_ms = self._time.now_ms() + self._settings.lease_seconds * 500
        return any(one.ends_at_ms < ends_before_ms for one in self._held.values())

    def _extend_leases(self) -> None:
        """Extend leases of which less than half is left.  Runs in a thread."""
        now_ms, seconds = self._time.now_ms(), self._settings.lease_seconds
        held = list(self._held.values())
        late = [one for one in held if one.ends_at_ms < now_ms + seconds * 500]
        if not late:
            return
        extended = self._corpus.extend([one.order.handle for one in late], seconds=seconds)
        for one, status in zip(late, extended.rows.tolist(), strict=True):
            if status in (RowStatus.UNAVAILABLE, RowStatus.ELSEWHERE):
                continue  # asked again with the next lease
            # One that is not held any more may be somebody else's.
            one.ends_at_ms = now_ms + round(seconds * 1000) if status == RowStatus.DONE else 0

    async def _cancel_lost_fetches(self) -> None:
        """Cancel fetches whose leases end, because another worker may get their pages."""
        while True:
            await self._time.sleep(_LOST_LOOK_SECONDS)
            lost_ms = self._time.now_ms() + _LOST_SECONDS * 1000
            for one in self._held.values():
                if one.ends_at_ms < lost_ms and one.task is not None and not one.task.done():
                    one.task.cancel()

    def _is_pass_over(self, orders: Orders) -> bool:
        """Return whether a single pass has nothing left to wait for, after an empty lease."""
        reasons = () if orders.shortfall is None else orders.shortfall.reasons
        self._left = None if orders.shortfall is None else orders.shortfall.text
        most = self._settings.pass_wait_seconds_max
        if self._time.now_ms() - self._started_fetch_at_ms > most * 1000:
            return True
        return not any(one.why in _SOON and (one.seconds or 0.0) <= most for one in reasons)

    async def _give_back_repeats(self, orders: Orders) -> Sequence[Order]:
        """Return the orders without those that a pass on a server need not fetch, and release them.

        A partition whose pages are all fetched spends what it has left on them again, while another
        one waits for its part of the budget.
        """
        if self._pass is None or not self._settings.is_shared:
            return orders
        is_spare = [one.reason == Reason.SPARE and self._pass.has_seen(one) for one in orders]
        if not any(is_spare):
            return orders
        handles = [one.handle for one, is_one in zip(orders, is_spare, strict=True) if is_one]
        await self._in_thread(self._corpus.release, handles)
        self._pass.n_repeats, self._pass.is_spare = _REPEATS_MAX, True
        return [one for one, is_one in zip(orders, is_spare, strict=True) if not is_one]

    async def _is_due_elsewhere(self) -> bool:
        """Return whether a pass should wait, because a partition on a server has pages due."""
        most = self._settings.pass_wait_seconds_max
        if self._time.now_ms() - self._started_fetch_at_ms > most * 1000:
            return False
        try:
            stats = await self._in_thread(self._corpus.stats)
        except AccessDenied:
            return False
        # Without a limit, no partition waits for its part of the budget.
        is_limited = stats.budget_per_second is not None
        return stats.n_partitions_away > 0 or (is_limited and stats.n_due > 0)

    def _start_fetches(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._started_fetch_at_ms = self._time.now_ms()
            left_ms = order.expires_at_ms - self._corpus.now_ms()
            held = _Held(order, self._time.now_ms() + left_ms)
            self._held[order.handle] = held
            held.task = asyncio.create_task(self._fetch(order))
            if self._pass is not None:
                self._pass.note(order)
        self._progress.n_open = len(self._held)

    async def _fetch(self, order: Order) -> None:
        kind = FetchKind.PAGE if self._finder is None else self._finder.kind_of(order)
        request = FetchRequest(
            url=order.fetch_url,
            etag=order.etag,
            last_modified=order.last_modified,
            conditional=self._settings.is_conditional,
            kind=kind,
        )
        try:
            answer = await self._fetcher.fetch(request)
        except asyncio.CancelledError:
            if self._is_ending:
                raise
            # The lease, or the turn at the host, was lost to another worker.
            answer = FetchAnswer(
                url=order.fetch_url,
                final_url=order.fetch_url,
                fetched_at_ms=self._time.now_ms(),
                problem=FetchProblem.HOST_DELAY,
                detail="another worker may fetch it",
            )
        except Exception as error:  # a fetcher of a user may raise anything
            answer = FetchAnswer(
                url=order.fetch_url,
                final_url=order.fetch_url,
                fetched_at_ms=self._time.now_ms(),
                problem=FetchProblem.BAD_ANSWER,
                detail=f"{type(error).__name__}: {error}",
            )
        self._answered.append(_Answered(order, kind, answer))
        self._n_bytes_waiting += len(answer.body)
        self._has_answers.set()

    # ------------------------------------------------------------------ reports

    async def _report_answers(self) -> None:
        """Report answers in batches, as they come, until the crawl is finishing."""
        while not (self._is_finishing and not self._answered):
            await self._wait_for_answers()
            if self._unreported and self._time.now_ms() >= self._again_at_ms:
                await self._report_again()
            batch = self._answered[: self._settings.batch_max]
            if not batch:
                self._has_answers.clear()
                continue
            try:
                unreported = await self._in_thread_alone(self._store, batch)
            except SpoolFull:
                # The answers stay in memory, and their orders are held.
                self._is_spool_full()
                if self._is_finishing:
                    break
                await self._time.sleep(_FULL_SECONDS)
                continue
            del self._answered[: len(batch)]
            self._keep_unreported(unreported)
            self._let_go(batch)
        await self._report_last()

    async def _wait_for_answers(self) -> None:
        """Wait until there are answers, or outcomes to report again."""
        if not self._unreported:
            await self._has_answers.wait()
            return
        seconds = max((self._again_at_ms - self._time.now_ms()) / 1000, 0.0)
        await _first_of(self._time, [_wait_for(self._has_answers)], seconds)

    async def _report_again(self) -> None:
        """Report outcomes again whose partitions could not be reached."""
        before, self._unreported = self._unreported, []
        try:
            self._keep_unreported(await self._in_thread_alone(self._report_and_settle, before))
        except BaseException:
            self._unreported = before + self._unreported
            raise
        self._let_go(one.answered for one in before if one.answered is not None)

    async def _report_last(self) -> None:
        """Report what was not reported yet, for some seconds, when the crawl ends."""
        ends_at_ms = self._time.now_ms() + _LAST_SECONDS * 1000
        while self._unreported:
            await self._report_again()
            if not self._unreported:
                return
            if self._time.now_ms() >= ends_at_ms:
                raise ServiceUnavailable(
                    f"{len(self._unreported):,} outcomes were not reported, because their "
                    "partitions cannot be reached now; their pages are leased again"
                )
            await self._time.sleep(_AGAIN_SECONDS)

    def _keep_unreported(self, reports: Sequence[_Report]) -> None:
        if reports:
            self._unreported += reports
            self._again_at_ms = self._time.now_ms() + round(_AGAIN_SECONDS * 1000)

    def _let_go(self, batch: Iterable[_Answered]) -> None:
        """Hold the orders of fetches no longer, as far as they are reported."""
        held = {id(one.answered) for one in self._unreported}
        for one in batch:
            if id(one) not in held:
                self._n_bytes_waiting -= len(one.answer.body)
                self._held.pop(one.order.handle, None)
        self._progress.n_open = len(self._held)

    def _store(self, batch: Sequence[_Answered]) -> list[_Report]:
        """Store a batch of answers: spool, finder, corpus, spool.  Runs in a thread.

        Returns the outcomes whose partitions cannot be reached now.
        """
        sent = [one for one in batch if not self._give_back(one)]
        positions = self._append_bodies(sent)
        found, reports = Findings(), []
        for one in sent:
            outcome = make_outcome(one.order, one.answer)
            if self._finder is not None:
                taken = self._finder.take(one.order, one.answer)
                found.extend(taken)
                if one.kind != FetchKind.PAGE:
                    # Whether it brought news counts, not whether its bytes are others.
                    outcome = replace(outcome, body=None, changed=bool(taken.changed))
            reports.append(_Report(outcome, one, positions.get(one.order.handle)))
        self._add_found(found)
        unreported = self._report_and_settle([*reports, *map(_Report, found.outcomes)])
        now_ms = self._time.now_ms()
        for one in sent:
            seconds = self._host_delays.follow(one.order)
            if len(self._free_at_ms) < _FREE_TIMES_MAX:
                heapq.heappush(self._free_at_ms, now_ms + math.ceil(seconds * 1000))
        return unreported

    def _report_and_settle(self, reports: Sequence[_Report]) -> list[_Report]:
        """Report outcomes, and turn what changed into versions.  Runs in a thread.

        Returns the outcomes whose partitions cannot be reached now.
        """
        unreported: list[_Report] = []
        if reports:
            reported = self._corpus.report([one.outcome for one in reports])
            for one, is_away, transition, is_wrong in zip(
                reports,
                reported.is_unavailable.tolist(),
                reported.transition.tolist(),
                reported.wrong_answer.tolist(),
                strict=True,
            ):
                if is_away:
                    unreported.append(one)
                elif one.answered is not None:
                    self._count(one.answered, transition, is_wrong=bool(is_wrong))
        held = {id(one) for one in unreported}
        done = [one.position for one in reports if id(one) not in held]
        self._settle([position for position in done if position is not None])
        return unreported

    def _count(self, one: _Answered, transition: int, *, is_wrong: bool) -> None:
        if one.kind == FetchKind.PAGE:
            self._progress.count_answer(one.order.url, one.answer, transition, is_wrong)
        else:
            self._progress.count_document(one.answer)

    def _give_back(self, one: _Answered) -> bool:
        """Give back the order of a fetch that could not begin; return whether it was one."""
        if not is_unsent(one.answer):
            return False
        if one.answer.problem != FetchProblem.CLOSED:
            wait = max(one.answer.retry_after_seconds or 0.0, 1.0)
            if not self._host_delays.pause(one.order, wait):
                return False  # reported as a failure, so that the page waits
        self._corpus.release([one.order.handle])
        self._progress.results[FetchResult.GIVEN_BACK] += 1
        return True

    def _append_bodies(self, sent: Sequence[_Answered]) -> dict[int, int]:
        """Store the bodies of pages; return their positions in the spool, by handle."""
        if self._spool is None:
            return {}
        keeps = self._spool.keeps_unchanged
        pages = {
            one.order.handle: make_spool_page(
                one.order,
                one.answer,
                keeps_unchanged=keeps,
                keeps_gone=self._spool.only_own,
            )
            for one in sent
            if one.kind == FetchKind.PAGE
        }
        kept = {handle: page for handle, page in pages.items() if page is not None}
        if not kept:
            return {}
        return dict(zip(kept, self._spool.append([*kept.values()]), strict=True))

    def _settle(self, positions: Sequence[int]) -> None:
        if self._finder is not None:
            self._finder.commit()
        if self._spool is not None:
            self._progress.n_versions += self._spool.settle_feed(self._corpus, positions)

    # ------------------------------------------------------------------ what is found

    async def _ask_sites(self) -> None:
        """Read robots.txt files and sitemaps of sites that have not been asked yet."""
        assert self._finder is not None
        try:
            while True:
                sites = await self._in_thread_alone(self._finder.sites_to_ask)
                if sites:
                    self._progress.begin_asking(len(sites))
                    asked = self._finder.ask_sites(self._fetcher, sites, self._time)
                    async with aclosing(asked):
                        async for answers in asked:
                            self._keep_unreported(
                                await self._in_thread_alone(self._store_sites, answers)
                            )
                            self._has_answers.set()
                            self._progress.count_asked(len(answers))
                            self._has_asked.set()
                self._has_asked_all.set()
                self._has_asked.set()
                await self._time.sleep(max(_ASK_SECONDS, self._settings.idle_seconds_max))
        finally:
            self._has_asked_all.set()
            self._has_asked.set()

    def _store_sites(self, answers: Sequence[Any]) -> list[_Report]:
        """Store the answers of sites; return the outcomes whose partitions cannot be reached."""
        assert self._finder is not None
        found = self._finder.take_sites(answers)
        self._add_found(found)
        return self._report_and_settle([_Report(one) for one in found.outcomes])

    def _add_found(self, found: Findings) -> None:
        """Add pages, send signals and set importances.  Runs in a thread."""
        groups: dict[tuple[bool, bool], list[FoundPage]] = {}
        for page in found.pages:
            is_document = self._finder is not None and self._finder.kind_of(page) != FetchKind.PAGE
            groups.setdefault((is_document, page.importance is not None), []).append(page)
        for (is_document, _), pages in groups.items():
            n_added = self._add_pages(pages)
            if not is_document:
                self._progress.n_found += n_added
        by_source: dict[str, list[FoundSignal]] = {}
        for signal in found.signals:
            by_source.setdefault(signal.source, []).append(signal)
        for source, signals in by_source.items():
            signalled = self._corpus.signal(
                [one.url for one in signals],
                source=source,
                at_ms=[one.at_ms for one in signals],
                claimed_at_ms=[one.claimed_at_ms for one in signals],
            )
            self._progress.n_signals += int(signalled)
        if found.importances:
            self._corpus.set_each(
                list(found.importances), importance=list(found.importances.values())
            )

    def _add_pages(self, pages: Sequence[FoundPage]) -> int:
        importance = [page.importance for page in pages]
        metadata = [page.metadata for page in pages]
        added = self._corpus.add(
            [page.url for page in pages],
            importance=None if importance[0] is None else importance,
            metadata=metadata if any(one is not None for one in metadata) else None,
        )
        return added.n_added

    # ------------------------------------------------------------------ beginning and end

    def _begin(self, urls: Sequence[str]) -> None:
        """Take up the work of the last crawl, and add the given URLs.  Runs in a thread."""
        # A corpus that was fetched from before does not wait for its sites to be asked again.
        self._is_filled = self._corpus.stats().n_outcomes > 0
        if self._held_orders is not None:
            left = self._held_orders.read()
            if left:
                self._corpus.release(left)
        if self._spool is not None:
            self._spool.settle_feed(self._corpus, self._spool.pending)
        if self._finder is not None:
            self._add_found(self._finder.start(urls))
            self._finder.commit()
            self._progress.n_found = 0  # these were given
        elif urls:
            self._corpus.add(list(urls))

    async def _finish(
        self, reporting: "asyncio.Task[None]", asking: "asyncio.Task[None] | None"
    ) -> int:
        """End all tasks, report what has been fetched, and give the other orders back."""
        fetches = {one.task for one in self._held.values() if one.task is not None}
        running = {task for task in fetches if not task.done()}
        if running:
            await _first_of(self._time, [_wait_for_all(running)], self._settings.grace_seconds)
        self._is_ending = True
        others = [task for task in (*running, asking) if task is not None]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._is_finishing = True
        self._has_answers.set()
        (found,) = await asyncio.gather(reporting, return_exceptions=True)
        await asyncio.gather(*self._calls, return_exceptions=True)
        n_given_back = await self._in_thread(self._give_back_all)
        if isinstance(found, Exception):
            raise found
        return n_given_back

    def _give_back_all(self) -> int:
        handles = list(self._held)
        n = self._corpus.release(handles) if handles else 0
        self._held.clear()
        if self._held_orders is not None:
            self._held_orders.write(())
        self._progress.n_open = 0
        return n

    # ------------------------------------------------------------------ threads and time

    async def _in_thread(
        self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call a function in a thread; the call is completed even if the caller is cancelled."""
        call = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _in_thread_alone(
        self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call a function of the spool or the finder in a thread, one at a time."""

        def call() -> _T:
            with self._storing:
                return function(*args, **kwargs)

        return await self._in_thread(call)

    async def _nap(self, seconds: float, other: asyncio.Event | None = None) -> None:
        """Wait until some seconds have passed, another event happened, or the crawl must end."""
        left = max((self._ends_at_ms - self._time.now_ms()) / 1000, 0.0)
        waits = [self._stopping.wait()] + ([] if other is None else [other.wait()])
        await _first_of(self._time, waits, min(seconds, left))


async def _first_of(
    time: FetchTime, waits: Sequence[Coroutine[Any, Any, object]], seconds: float
) -> None:
    """Wait until one of several coroutines has ended or some seconds have passed."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(one) for one in waits]
    if seconds < math.inf:
        tasks.append(asyncio.create_task(_sleep(time, seconds)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def _sleep(time: FetchTime, seconds: float) -> None:
    await time.sleep(seconds)


async def _wait_for_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.wait([*tasks])
