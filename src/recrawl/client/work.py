"""Fetch what a service leases, and report it: leases ahead, extends, and stops without losses."""

import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from recrawl.client.request_keys import new_request_key
from recrawl.errors import RecrawlError, ServiceUnavailable, StorageError
from recrawl.messages.enums import Why
from recrawl.messages.leases import Orders
from recrawl.messages.orders import Order, Outcome
from recrawl.messages.results import CountedRows, Reported, RowStatus, find_unavailable

__all__ = ["Stop", "WorkCounts", "work_until_stopped"]

_log = logging.getLogger("recrawl.client")

_WAIT_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.5
_ANSWER_SECONDS = 1.0
# Work that ends when it is idle waits for a host for so long.
_IDLE_SECONDS_MAX = 60.0
_REPORT_SECONDS = 0.5
_REPORTED_MAX = 200
_REPORTED_BYTES_MAX = 8 << 20
_UNREPORTED_MAX = 2_000
# An outcome that waits for longer than this is reported with the time of its fetch.
_LATE_SECONDS = 5.0


# A host that rests is worth waiting for; a page that is not due, or that another fetcher has, is
# not.
_SOON = frozenset({Why.DUE, Why.GROUP_BLOCKED, Why.GROUP_RESTING, Why.LEASE_FULL})
# Pages that are remembered by work that ends when it is idle.
_SEEN_MAX = 1_000_000


class Stop(Protocol):
    """An event that ends the work, such as `threading.Event` or `asyncio.Event`."""

    def is_set(self) -> bool:
        """Return whether the work should end."""
        ...


class WorkCounts(NamedTuple):
    """What `work` has done."""

    n_fetched: int
    """Number of fetches that have ended."""
    n_counted: int
    """Number of outcomes that the service has counted."""
    n_released: int
    """Number of orders that were given back without a fetch."""
    n_refused: int
    """Number of outcomes that the service does not take."""


class _Client(Protocol):
    """The methods of a client that `work` uses."""

    def now_ms(self) -> int: ...

    async def lease(
        self,
        n: int,
        *,
        seconds: float | None = None,
        run: str | None = None,
        with_shortfall: bool = True,
        request: str | None = None,
        wait: float = 0.0,
    ) -> Orders: ...

    async def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows: ...

    async def release(self, handles: Sequence[int]) -> CountedRows: ...

    async def report(self, outcomes: list[Outcome]) -> Reported: ...


class _Done(NamedTuple):
    outcome: Outcome
    handle: int
    ended_at: float
    is_away: bool = False
    """Whether its partition could not be reached when it was reported last."""


@dataclass(frozen=True, kw_only=True)
class _Options:
    concurrency: int
    seconds: float
    run: str | None
    stop: Stop | None
    for_seconds: float
    until_idle: bool
    stop_seconds: float
    on_error: Callable[[Order, Exception], Outcome | None] | None


async def work_until_stopped(
    client: _Client,
    once: _Client,
    fetch: Callable[[Order], Awaitable[Outcome]],
    **options: Any,
) -> WorkCounts:
    """Fetch pages and report them until told to stop; see `AsyncClient.work`.

    Parameters
    ----------
    client
        Client of the service.
    once
        Client of the service that sends each row once, also if its partition cannot be reached.
    fetch
        Function that fetches the page of an order.
    **options
        Arguments of `AsyncClient.work`.
    """
    work = _Work(client, once, fetch, _Options(**options))
    with _stop_on_sigterm(work.stop):
        return await work.run()


@contextmanager
def _stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """Stop on SIGTERM, where the loop can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)
    try:
        loop.add_signal_handler(signal.SIGTERM, stop)
    except (NotImplementedError, RuntimeError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


def _log_failure(what: str, error: Exception) -> None:
    """Log a failed call; the connection itself says once that the server is away."""
    is_away = isinstance(error, ServiceUnavailable)
    _log.log(logging.INFO if is_away else logging.WARNING, "%s: %s", what, error)


def _is_worth_waiting(orders: Orders) -> bool:
    """Return whether a page can be leased soon, after an empty lease."""
    reasons = () if orders.shortfall is None else orders.shortfall.reasons
    return any(one.why in _SOON and (one.seconds or 0.0) <= _IDLE_SECONDS_MAX for one in reasons)


class _Work:
    """One call of `work`."""

    def __init__(
        self,
        client: _Client,
        once: _Client,
        fetch: Callable[[Order], Awaitable[Outcome]],
        options: _Options,
    ) -> None:
        if options.concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {options.concurrency}")
        if not options.seconds > 0:
            raise ValueError(f"seconds must be positive, got {options.seconds}")
        self._client = client
        self._once = once
        self._fetch = fetch
        self._options = options
        self._ready: deque[Order] = deque()
        self._fetching: dict[int, Order] = {}
        self._done: deque[_Done] = deque()
        self._unused: list[int] = []
        # Work that ends when it is idle fetches each page once.  Orders of the same pages are held
        # until then: given back at once, they would come again and again.
        self._seen: set[int] = set()
        self._repeated: list[int] = []
        # When each order that is held was leased or extended last.
        self._held_since: dict[int, float] = {}
        self._n_fetched = self._n_counted = self._n_released = self._n_refused = 0
        self._changed = asyncio.Condition()
        self._stopped = asyncio.Event()
        self._is_draining = False
        self._error: BaseException | None = None

    def stop(self) -> None:
        """End the work as soon as the fetches that have begun are reported."""
        self._stopped.set()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stopped.set()

    async def run(self) -> WorkCounts:
        """Work until stopped."""
        leasing = self._start(self._lease_ahead())
        reporting = self._start(self._report_batches())
        helping = [self._start(self._extend_leases()), self._start(self._watch_stop())]
        fetching = [self._start(self._fetch_pages()) for _ in range(self._options.concurrency)]
        try:
            await self._stopped.wait()
        finally:
            # Also if this task is cancelled: outcomes must not be lost.
            try:
                await self._finish(leasing, fetching, reporting)
            finally:
                tasks = [leasing, reporting, *helping, *fetching]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error
        return WorkCounts(self._n_fetched, self._n_counted, self._n_released, self._n_refused)

    def _start(self, coroutine: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(coroutine)
        task.add_done_callback(self._see_end)
        return task

    def _see_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _finish(
        self,
        leasing: "asyncio.Task[None]",
        fetching: "list[asyncio.Task[None]]",
        reporting: "asyncio.Task[None]",
    ) -> None:
        """Give back what no fetch has begun, wait for the fetches, and report all outcomes."""
        self._stopped.set()
        await self._wake()
        # An answer on its way brings orders to give back; a lease that only waits is cancelled.
        await asyncio.wait([leasing], timeout=_ANSWER_SECONDS)
        leasing.cancel()
        await asyncio.wait([leasing])
        self._unused += [order.handle for order in self._ready]
        self._ready.clear()
        await self._wake()
        await asyncio.wait(fetching, timeout=self._options.stop_seconds)
        for task in fetching:
            task.cancel()
        await asyncio.wait(fetching)
        self._unused += self._fetching
        self._fetching.clear()
        self._unused += self._repeated
        self._repeated.clear()
        self._is_draining = True
        await self._wake()
        await asyncio.wait([reporting])
        if self._done:
            text = f"{len(self._done)} outcomes were not reported; their pages are leased again"
            error = self._error or ServiceUnavailable(text)
            error.add_note(text)
            self._error = error
        await self._release_unused()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _wait(self, is_so: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until something is so, or some seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(is_so)

    # ------------------------------------------------------------------ stopping

    async def _watch_stop(self) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._options.for_seconds
        stop = self._options.stop
        while loop.time() < ends_at and not (stop is not None and stop.is_set()):
            await asyncio.sleep(min(_LOOK_SECONDS, max(ends_at - loop.time(), 0.0)))
        self.stop()

    # ------------------------------------------------------------------ leasing

    @property
    def _n_held(self) -> int:
        return len(self._ready) + len(self._fetching)

    def _has_room(self) -> bool:
        concurrency = self._options.concurrency
        n_free = 2 * concurrency - self._n_held
        return n_free >= max(concurrency // 2, 1) and len(self._done) < _UNREPORTED_MAX

    def _is_idle(self) -> bool:
        return not (self._ready or self._fetching or self._done)

    async def _lease_ahead(self) -> None:
        loop = asyncio.get_running_loop()
        options = self._options
        # A lease that failed may have had its effect: the same key finds its orders.
        request, n = "", 0
        ordered_at = loop.time()
        while not self._stopped.is_set():
            await self._wait(lambda: self._has_room() or self._stopped.is_set())
            if self._stopped.is_set():
                return
            if not request:
                request, n = new_request_key(), 2 * options.concurrency - self._n_held
            asked_at = loop.time()
            try:
                orders = await self._client.lease(
                    n,
                    seconds=options.seconds,
                    run=options.run,
                    with_shortfall=options.until_idle,
                    request=request,
                    wait=0.0 if options.until_idle else _WAIT_SECONDS,
                )
            except (ServiceUnavailable, StorageError) as error:
                _log_failure("no lease", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            request = ""
            now = loop.time()
            for order in orders:
                self._held_since[order.handle] = now
            n_before = len(self._ready)
            self._ready.extend(order for order in orders if not self._is_repeated(order))
            n_new = len(self._ready) - n_before
            await self._wake()
            await self._release_unused()
            if n_new or len(orders) == n:
                ordered_at = now if n_new else ordered_at
                continue
            is_over = now - ordered_at > _IDLE_SECONDS_MAX or not _is_worth_waiting(orders)
            if options.until_idle and self._is_idle() and is_over:
                self.stop()
                return
            if now - asked_at < _PAUSE_SECONDS:  # the server did not wait
                await asyncio.sleep(_LOOK_SECONDS if options.until_idle else _PAUSE_SECONDS)

    def _is_repeated(self, order: Order) -> bool:
        """Return whether a page was fetched before, by work that ends when it is idle."""
        if not self._options.until_idle:
            return False
        name = hash((order.key, order.url))
        if name in self._seen:
            self._repeated.append(order.handle)
            return True
        if len(self._seen) < _SEEN_MAX:
            self._seen.add(name)
        return False

    async def _extend_leases(self) -> None:
        """Extend the leases of orders that have been held for a third of their time."""
        loop = asyncio.get_running_loop()
        seconds = self._options.seconds
        while True:
            await asyncio.sleep(seconds / 6)
            now = loop.time()
            old = [h for h, since in self._held_since.items() if now - since >= seconds / 3]
            if not old:
                continue
            try:
                extended = await self._once.extend(old, seconds=seconds)
            except (ServiceUnavailable, StorageError) as error:
                _log_failure("leases were not extended", error)
                continue
            away = {old[row] for row in find_unavailable(extended.rows)}  # asked again soon
            lost = {
                handle
                for handle, status in zip(old, extended.rows.tolist(), strict=True)
                if status != RowStatus.DONE and handle not in away
            }
            for handle in old:
                if handle in self._held_since and handle not in away:
                    self._held_since[handle] = now
            # Somebody else may have these pages by now; a fetch that has begun still counts.
            kept = [order for order in self._ready if order.handle not in lost]
            self._ready.clear()
            self._ready.extend(kept)
            for handle in lost:
                self._held_since.pop(handle, None)

    async def _release_unused(self) -> None:
        unused, self._unused = self._unused, []
        if not unused:
            return
        try:
            self._n_released += await self._once.release(unused)
        except (RecrawlError, ValueError) as error:
            # Their leases end by themselves.
            _log.warning("%d orders were not given back: %s", len(unused), error)
        for handle in unused:
            self._held_since.pop(handle, None)

    # ------------------------------------------------------------------ fetching

    async def _fetch_pages(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait(lambda: bool(self._ready) or self._stopped.is_set())
            if self._stopped.is_set():
                return
            if not self._ready:
                continue
            order = self._ready.popleft()
            self._fetching[order.handle] = order
            outcome = await self._outcome_of(order)
            self._fetching.pop(order.handle, None)
            if outcome is None:
                self._unused.append(order.handle)
            else:
                self._n_fetched += 1
                self._done.append(_Done(outcome, order.handle, loop.time()))
            await self._wake()

    async def _outcome_of(self, order: Order) -> Outcome | None:
        """Return the outcome of a fetch; None if the order is to be given back."""
        try:
            outcome: Outcome | None = await self._fetch(order)
            if not isinstance(outcome, Outcome):
                raise TypeError(f"fetch must return an Outcome, got {outcome!r}")
        except Exception as error:
            outcome = self._outcome_of_error(order, error)
        if outcome is not None and outcome.handle == 0 and outcome.url is None:
            return replace(outcome, handle=order.handle)
        return outcome

    def _outcome_of_error(self, order: Order, error: Exception) -> Outcome | None:
        try:
            if self._options.on_error is not None:
                return self._options.on_error(order, error)
            if isinstance(error, OSError):
                return Outcome(handle=order.handle, status=0)
            raise error
        except Exception as raised:
            self._fail(raised)
            return None

    # ------------------------------------------------------------------ reporting

    async def _report_batches(self) -> None:
        while True:
            await self._wait(lambda: bool(self._done) or self._is_draining)
            if not self._done:
                return
            await self._wait(
                lambda: len(self._done) >= _REPORTED_MAX or self._is_draining, _REPORT_SECONDS
            )
            batch = self._next_batch()
            are_away = all(one.is_away for one in batch)
            # When the work ends, those that are away are reported last, for as long as a client
            # sends rows again.
            client = self._client if self._is_draining and are_away else self._once
            try:
                away = await self._report(client, batch)
            except (ServiceUnavailable, StorageError) as error:
                if self._is_draining:
                    self._fail(error)
                    return
                _log_failure(f"{len(self._done)} outcomes wait", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            kept = {id(one) for one in away}
            for one in batch:
                self._done.popleft()
                if id(one) not in kept:
                    self._held_since.pop(one.handle, None)
            self._done.extend(one._replace(is_away=True) for one in away)
            await self._wake()
            if away and are_away:
                if client is self._client:
                    return
                _log.info("%d outcomes wait for their partitions", len(away))
                await asyncio.sleep(_PAUSE_SECONDS)

    def _next_batch(self) -> list[_Done]:
        batch: list[_Done] = []
        n_bytes = 0
        for one in self._done:
            n_bytes += len(one.outcome.body or b"") + len(one.outcome.text or "")
            if batch and (len(batch) >= _REPORTED_MAX or n_bytes > _REPORTED_BYTES_MAX):
                break
            batch.append(one)
        return batch

    async def _report(self, client: _Client, batch: list[_Done]) -> list[_Done]:
        """Report outcomes; return those whose partitions cannot be reached now.

        Those that the service refuses are dropped, and the others counted.
        """
        try:
            reported = await client.report([self._with_fetch_time(one) for one in batch])
        except (ServiceUnavailable, StorageError):
            raise
        except ValueError as error:
            if len(batch) == 1:
                self._n_refused += 1
                self._unused.append(batch[0].handle)
                _log.error("the service refuses the outcome of %d: %s", batch[0].handle, error)
                return []
            return [away for one in batch for away in await self._report(self._once, [one])]
        self._n_counted += int(reported.counted.sum())
        return [batch[row] for row in find_unavailable(reported.rows)]

    def _with_fetch_time(self, one: _Done) -> Outcome:
        seconds = asyncio.get_running_loop().time() - one.ended_at
        if one.outcome.fetched_at_ms or seconds < _LATE_SECONDS:
            return one.outcome
        return replace(one.outcome, fetched_at_ms=self._client.now_ms() - round(seconds * 1000))
