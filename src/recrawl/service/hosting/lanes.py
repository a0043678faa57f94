"""Run the calls to a corpus in few threads, with a limited queue for each kind of call.

Calls of different kinds do not wait for each other: a report never waits behind a lease, and
`/healthz` never behind either.  A full queue refuses further calls at once, so that clients know
that they have to slow down.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from recrawl.service.problems import corpus_problems, too_busy

__all__ = ["CallLane", "MergingLane"]

_T = TypeVar("_T")
_Given = TypeVar("_Given")


class CallLane:
    """Threads for one kind of calls.

    Parameters
    ----------
    name
        Name of the threads.
    n_threads
        Number of calls that run at a time.
    n_calls_max
        Number of calls that run or wait to run.
    """

    def __init__(self, name: str, n_threads: int, n_calls_max: int) -> None:
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix=f"recrawl-{name}")
        self._n_calls = 0
        self._n_calls_max = n_calls_max

    @property
    def n_calls(self) -> int:
        """Number of calls that run or wait."""
        return self._n_calls

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a function in a thread of the lane; errors of a corpus become problems."""
        if self._n_calls >= self._n_calls_max:
            raise too_busy(f"{self._n_calls:,} calls of this kind are waiting; try again soon")
        self._n_calls += 1
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        running.add_done_callback(self._count_end)
        with corpus_problems():
            # A caller that goes away does not stop a call that has begun.
            return await asyncio.shield(running)

    def _count_end(self, running: "asyncio.Future[Any]") -> None:
        self._n_calls -= 1
        if not running.cancelled():
            running.exception()  # marks it as seen, if its caller has gone away

    async def close(self) -> None:
        """Wait until the calls that run have ended; those that wait are not begun."""
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)


class _SmallCall(NamedTuple, Generic[_Given]):
    rows: list[_Given]
    answered: "asyncio.Future[Any]"


class MergingLane(Generic[_Given]):
    """A thread that does small calls together: those that came while it was busy are one call.

    Parameters
    ----------
    name
        Name of the thread.
    run_all
        Function that does a call with the rows of all; its result has a method ``part``.
    n_rows_max
        Number of rows after which no other call is merged.
    n_calls_max
        Number of calls that may wait.
    """

    def __init__(
        self,
        name: str,
        run_all: Callable[[list[_Given]], Any],
        n_rows_max: int,
        n_calls_max: int,
    ) -> None:
        self._lane = CallLane(name, 1, n_calls_max)
        self._run_all = run_all
        self._n_rows_max = n_rows_max
        self._n_calls_max = n_calls_max
        self._waiting: deque[_SmallCall[_Given]] = deque()
        self._working: asyncio.Task[None] | None = None

    @property
    def n_calls(self) -> int:
        """Number of calls that run or wait."""
        return self._lane.n_calls + len(self._waiting)

    async def call(self, rows: list[_Given]) -> Any:
        """Do one call, together with others that wait; return its part of the result."""
        if len(self._waiting) >= self._n_calls_max:
            raise too_busy(f"{len(self._waiting):,} calls of this kind are waiting; try again soon")
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_SmallCall(rows, answered))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await answered

    async def _work(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft()]
            n_rows = len(group[0].rows)
            while self._waiting and n_rows + len(self._waiting[0].rows) <= self._n_rows_max:
                group.append(self._waiting.popleft())
                n_rows += len(group[-1].rows)
            await self._run(group)

    async def _run(self, group: Sequence[_SmallCall[_Given]]) -> None:
        try:
            found = await self._lane.run(self._run_all, [row for one in group for row in one.rows])
        except BaseException as error:
            if len(group) == 1 or not isinstance(error, Exception):
                for one in group:
                    if not one.answered.done():
                        one.answered.set_exception(error)
                return
            for one in group:  # an error of one caller must not be one of the others
                await self._run([one])
            return
        first = 0
        for one in group:
            end = first + len(one.rows)
            if not one.answered.done():
                one.answered.set_result(found.part(first, end))
            first = end

    async def close(self) -> None:
        """Wait until all calls are done."""
        if self._working is not None:
            await asyncio.wait([self._working])
        await self._lane.close()
