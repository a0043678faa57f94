"""Leases that wait until pages are due: one queue per corpus, not one thread per client.

All leases that wait are asked for together, in the order in which they came.  If a corpus has
nothing to fetch, the queue asks again when its budget allows a fetch, when something was reported
or added, and at least once a second.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from recrawl.corpus import Order, Orders, RequestKey
from recrawl.service.hosting.lanes import CallLane
from recrawl.service.hosting.write_guard import WriteGuard
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem, problem_of, too_busy

__all__ = ["LeaseQueue", "WantedLease"]

_MERGED_ORDERS_MAX = 1_000
_PAUSE_SECONDS_MIN = 0.05
_PAUSE_SECONDS_MAX = 1.0
_PAUSE_GROWTH = 1.5
# Shortest time between two rounds that find nothing, however much is reported meanwhile.
_EMPTY_SECONDS = 0.01


@dataclass(slots=True, kw_only=True, eq=False)
class WantedLease:
    """What a client asks for."""

    n: int
    seconds: float | None = None
    exact: bool = False
    run: str | None = None
    request: RequestKey | None = None
    wait_seconds: float = 0.0
    """Longest time to wait for the first order."""
    with_shortfall: bool = True
    """Whether to say why there are fewer orders."""
    keeps_orders: bool = False
    """Whether orders stay held if the caller goes away, because it will ask for them again."""
    ends_at: float = 0.0
    answered: "asyncio.Future[Orders]" = field(init=False)

    @property
    def kind(self) -> Hashable:
        """What leases must have in common to be asked for together."""
        return self.seconds, self.exact, self.run


@dataclass(slots=True)
class _KeyLock:
    """A lock of the leases with one key, and the number of these leases."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    n_leases: int = 0


class LeaseQueue:
    """The leases of one corpus that wait.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`.
    limits
        Limits of the server.
    guard
        Guard that refuses leases if the corpus cannot write.
    """

    def __init__(self, corpus: Any, limits: ServiceLimits, guard: WriteGuard) -> None:
        self._corpus = corpus
        self._guard = guard
        self._limits = limits
        self._lane = CallLane("lease", 1, limits.calls_max)
        self._waiting: deque[WantedLease] = deque()
        self._woken = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False
        self._releasing: set[asyncio.Task[None]] = set()
        self._locks: dict[bytes, _KeyLock] = {}

    @property
    def n_waiting(self) -> int:
        """Number of leases that wait."""
        return len(self._waiting)

    @property
    def n_calls(self) -> int:
        """Number of calls to the corpus that run or wait."""
        return self._lane.n_calls

    @asynccontextmanager
    async def hold_key(self, request: RequestKey) -> AsyncIterator[None]:
        """Let one lease with a key at a time begin and end, here in this process.

        Parameters
        ----------
        request
            Key of the lease.
        """
        own = self._locks.setdefault(request.key, _KeyLock())
        own.n_leases += 1
        try:
            async with own.lock:
                yield
        finally:
            own.n_leases -= 1
            if not own.n_leases:
                del self._locks[request.key]

    async def lease(self, wanted: WantedLease) -> Orders:
        """Return orders as soon as there are any, or none when the time to wait is over.

        A caller that is cancelled gives its orders back.
        """
        if self._is_closed:
            raise Problem("unavailable", "the server is stopping", headers={"Retry-After": "1"})
        if len(self._waiting) >= self._limits.waiting_leases_max:
            raise too_busy(f"{len(self._waiting):,} leases are waiting; try again soon")
        loop = asyncio.get_running_loop()
        wanted.ends_at = loop.time() + wanted.wait_seconds
        wanted.answered = loop.create_future()
        self._waiting.append(wanted)
        self.wake()
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        try:
            return await wanted.answered
        except asyncio.CancelledError:
            if wanted.answered.done() and not wanted.answered.cancelled():
                await self._give_back(wanted, wanted.answered.result())
            raise
        finally:
            if wanted in self._waiting:
                self._waiting.remove(wanted)

    def wake(self) -> None:
        """Ask for the leases that wait again, because something has changed."""
        self._woken.set()

    async def _work(self) -> None:
        try:
            await self._ask_again_and_again()
        except Exception as error:
            for one in list(self._waiting):
                if not one.answered.done():
                    one.answered.set_exception(error)
            self._waiting.clear()

    async def _ask_again_and_again(self) -> None:
        loop = asyncio.get_running_loop()
        pause = _PAUSE_SECONDS_MIN
        while self._waiting:
            self._woken.clear()
            is_any = await self._ask_once()
            if is_any:
                pause = _PAUSE_SECONDS_MIN
            if not self._waiting:
                return
            if not is_any:
                await asyncio.sleep(_EMPTY_SECONDS)
            wait = await self._lane.run(self._corpus.wait_seconds)
            pause = min(max(pause * _PAUSE_GROWTH, wait), _PAUSE_SECONDS_MAX)
            # All of them may have gone away meanwhile.
            ends_at = min((one.ends_at for one in self._waiting), default=loop.time())
            seconds = max(min(pause, ends_at - loop.time()), 0.0)
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
                pause = _PAUSE_SECONDS_MIN
            except TimeoutError:
                pass

    async def _ask_once(self) -> bool:
        """Ask once for all leases that wait; return whether there were any orders."""
        loop = asyncio.get_running_loop()
        is_any = False
        asked: set[int] = set()
        while group := self._next_group(asked):
            asked.update(map(id, group))
            now = loop.time()
            try:
                with self._guard.watch():
                    found = await self._lane.run(
                        self._corpus.lease_each,
                        [one.n for one in group],
                        requests=[one.request for one in group],
                        seconds=group[0].seconds,
                        exact=group[0].exact,
                        run=group[0].run,
                        with_shortfall=any(
                            one.with_shortfall and one.ends_at <= now for one in group
                        ),
                    )
            except Exception as error:
                for one in group:
                    if not one.answered.done():
                        one.answered.set_exception(error)
                        self._waiting.remove(one)
                continue
            is_any |= any(found)
            self._answer(group, found, now)
        return is_any

    def _next_group(self, asked: set[int]) -> list[WantedLease]:
        """Return leases that can be asked for together and were not asked for yet."""
        group: list[WantedLease] = []
        n_orders = 0
        for one in self._waiting:
            if id(one) in asked or one.answered.done():
                continue
            if group and one.kind != group[0].kind:
                continue
            n_orders += one.n
            if group and n_orders > _MERGED_ORDERS_MAX:
                break
            group.append(one)
        return group

    def _answer(
        self, group: list[WantedLease], found: list[Orders | Exception], now: float
    ) -> None:
        left: list[Order] = []
        for one, orders in zip(group, found, strict=True):
            if isinstance(orders, Exception):
                if not one.answered.done():
                    one.answered.set_exception(problem_of(orders) or orders)
                    self._waiting.remove(one)
            elif one.answered.done():  # its caller has gone away
                left += () if one.keeps_orders else orders
            elif orders or one.ends_at <= now or self._is_closed:
                one.answered.set_result(orders if one.with_shortfall else Orders(orders))
                self._waiting.remove(one)
        if left:
            task = asyncio.create_task(self._release(left))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _release(self, orders: list[Order]) -> None:
        await self._lane.run(self._corpus.release, [order.handle for order in orders])

    async def _give_back(self, wanted: WantedLease, orders: Orders) -> None:
        if orders and not wanted.keeps_orders:
            await self._release(orders)

    async def close(self) -> None:
        """Answer all leases that wait, without orders, and refuse further ones."""
        self._is_closed = True
        for one in list(self._waiting):
            if not one.answered.done():
                one.answered.set_result(Orders())
        self._waiting.clear()
        self.wake()
        if self._working is not None:
            await asyncio.wait([self._working])
        if self._releasing:
            await asyncio.wait(self._releasing)
        await self._lane.close()
