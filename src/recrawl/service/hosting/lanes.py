"""Run the calls to a corpus in few threads, with a limited queue for each kind of call.

Calls of different kinds do not wait for each other: a report never waits behind a lease, and
`/healthz` never behind either.  A full queue refuses further calls at once, so that clients know
that they have to slow down.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from recrawl.service.hosting.reading_threads import ReadingThreads
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
    only_reads
        Whether the calls only read the corpus, so that they can be cut off when the server stops.
    """

    def __init__(
        self, name: str, n_threads: int, n_calls_max: int, *, only_reads: bool = False
    ) -> None:
        prefix = f"recrawl-{name}"
        self._threads: ThreadPoolExecutor | ReadingThreads = (
            ReadingThreads(prefix, n_threads)
            if only_reads
            else ThreadPoolExecutor(n_threads, thread_name_prefix=prefix)
        )
        self._running: set[asyncio.Future[Any]] = set()
        self._n_calls_max = n_calls_max

    @property
    def n_calls(self) -> int:
        """Number of calls that run or wait."""
        return len(self._running)

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a function in a thread of the lane; errors of a corpus become problems."""
        if self.n_calls >= self._n_calls_max:
            raise too_busy(f"{self.n_calls:,} calls of this kind are waiting; try again soon")
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        self._running.add(running)
        running.add_done_callback(self._count_end)
        with corpus_problems():
            # A caller that goes away does not stop a call that has begun.
            return await asyncio.shield(running)

    def _count_end(self, running: "asyncio.Future[Any]") -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # marks it as seen, if its caller has gone away

    async def close(self, seconds_max: float = threading.TIMEOUT_MAX) -> None:
        """Wait until the calls that run have ended; those that wait are not begun.

        Parameters
        ----------
        seconds_max
            Time after which calls that only read are no longer waited for.
        """
        if not isinstance(self._threads, ReadingThreads):
            await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)
        elif not await asyncio.to_thread(self._threads.end, seconds_max):
            for running in self._running:
                running.cancel()  # so that the end of the call looks for no event loop


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
