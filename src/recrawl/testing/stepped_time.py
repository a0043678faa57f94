"""Stepped time: an event loop whose clock moves only when nothing is in flight.

A test of a crawler waits most of the time: for delays of hosts, for time-outs, for pages to become
due.  In stepped time nobody waits.  Server, crawler and scheduler share one event loop; when no
callback can run, no thread works and no byte is on its way between two sockets, the clock jumps to
the next timer.  So a day takes seconds, and no time-out comes too early because the machine was
slow::

    def test_a_day():
        assert run_stepped(lambda time: crawl_for_a_day(time)) == ...

The loop knows what is in flight: callbacks and sockets by its selector, threads because it counts
the calls of ``run_in_executor`` (and so of ``asyncio.to_thread``), and everything else by `hold`.
On Linux it also asks the kernel whether every byte sent to a socket has been received.
"""

import asyncio
import contextlib
import selectors
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any, TypeVar, TypeVarTuple, Unpack, cast

__all__ = ["SteppedClock", "SteppedLoop", "SteppedTime", "run_stepped"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

START_AT_MS = 1_767_225_600_000
"""Default start: 1 January 2026, when the histories of `recrawl.sim.pages` begin."""

# Bytes that a peer does not read stay in flight for ever; the clock moves on after this long.
_SETTLE_ROUNDS_MAX = 25
_SETTLE_SECONDS = 0.002
# Elsewhere than on Linux the loop cannot ask what was received, and gives the kernel this long.
_GRACE_SECONDS = 0.002
_IS_LINUX = sys.platform == "linux"
_SIOCOUTQ = 0x5411  # bytes sent to a socket that its peer has not acknowledged


def _n_bytes_in_flight(fd: int) -> int:
    """Return how many bytes the kernel still has to deliver for a socket of Linux."""
    import fcntl  # noqa: PLC0415 - Windows has no fcntl

    try:
        answer = fcntl.ioctl(fd, _SIOCOUTQ, b"\0\0\0\0")
    except OSError:  # not a socket, or already closed
        return 0
    return int.from_bytes(answer, sys.byteorder)


def _acknowledge_now(fd: int) -> None:
    """Make the kernel acknowledge what a socket has received, which it may delay by 40 ms."""
    try:
        with _borrow_socket(fd) as borrowed:
            borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:  # not a TCP socket
        return


@contextlib.contextmanager
def _borrow_socket(fd: int) -> Iterator[socket.socket]:
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)
    try:
        yield borrowed
    finally:
        borrowed.detach()


class _SteppedSelector(selectors.BaseSelector):
    """A selector that moves the clock of its loop instead of waiting."""

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self._active: set[int] = set()  # sockets with traffic since the clock last moved
        self._has_changed = False
        self._stuck: dict[int, int] = {}  # bytes in flight that nobody has read for a while
        self.now = 0.0
        self.n_held = 0
        self.n_steps = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._inner.register(fileobj, events, data)
        self._active.add(key.fd)
        self._has_changed = True
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._inner.unregister(fileobj)
        self._active.discard(key.fd)
        self._stuck.pop(key.fd, None)
        self._has_changed = True
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._inner.modify(fileobj, events, data)
        self._active.add(key.fd)
        self._has_changed = True
        return key

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return sockets that are ready; if there are none, move the clock by the time-out."""
        found = self._look(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if self.n_held or timeout is None:
            return self._look(None)
        found = self._settle()
        if not found:
            self.now += timeout
            self.n_steps += 1
        return found

    def _look(self, seconds: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._inner.select(seconds)
        for key, _ in found:
            self._active.add(key.fd)
            self._has_changed = True
        return found

    def _settle(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until nothing is in flight; return what became ready meanwhile."""
        if not self._has_changed:
            return []
        if not _IS_LINUX:
            found = self._look(_GRACE_SECONDS)
            self._has_changed = bool(found)
            return found
        for _ in range(_SETTLE_ROUNDS_MAX):
            unread = self._bytes_in_flight()
            # What was delivered before the question was asked is seen by this look.
            found = self._look(0 if not unread else _SETTLE_SECONDS)
            if found:
                return found
            if not unread:
                break
        else:
            self._stuck.update(unread)
        self._active = set(unread)
        self._has_changed = False
        return []

    def _bytes_in_flight(self) -> dict[int, int]:
        for fd in self._active:
            _acknowledge_now(fd)
        found = {}
        connecting = self._inner.get_map()
        for fd in self._active:
            n_bytes = _n_bytes_in_flight(fd)
            key = connecting.get(fd)
            if not n_bytes and key is not None and key.events & selectors.EVENT_WRITE:
                n_bytes = -1  # a connection that is not yet established
            if n_bytes and self._stuck.get(fd) != n_bytes:
                found[fd] = n_bytes
        return found


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves only when nothing is in flight.

    Parameters
    ----------
    start_at_ms
        Milliseconds since 1970 at which the clock starts.
    """

    def __init__(self, start_at_ms: int = START_AT_MS) -> None:
        self._stepped = _SteppedSelector()
        self._start_at_ms = start_at_ms
        super().__init__(self._stepped)
        # A timer fires up to the resolution early; adding less would be lost by rounding after
        # some months, and the timer would never fire.
        self._clock_resolution = 1e-7

    def time(self) -> float:
        """Return the seconds since the start of the loop, in stepped time."""
        return self._stepped.now

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, in stepped time."""
        return self._start_at_ms + round(1_000 * self._stepped.now)

    @property
    def n_steps(self) -> int:
        """How often the clock has moved."""
        return self._stepped.n_steps

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the clock as long as the block runs, for work that the loop cannot see.

        Examples of such work are processes and threads that answer with
        ``loop.call_soon_threadsafe``.
        """
        self._stepped.n_held += 1
        try:
            yield
        finally:
            self._stepped.n_held -= 1

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[Unpack[_Ts]], _T],
        *args: *_Ts,
    ) -> "asyncio.Future[_T]":
        """Run a function in a thread, and stop the clock until it returns."""
        future = super().run_in_executor(executor, func, *args)
        self._stepped.n_held += 1
        future.add_done_callback(self._release)
        return future

    def _release(self, _: "asyncio.Future[Any]") -> None:
        self._stepped.n_held -= 1

    def sleep_in_thread(self, seconds: float) -> None:
        """Wait in a thread that `run_in_executor` started; the clock may move meanwhile."""
        if threading.get_ident() == getattr(self, "_thread_id", None):
            raise RuntimeError("the thread of the loop cannot wait; use `asyncio.sleep`")
        woken: Future[None] = Future()

        def wake() -> None:
            self._stepped.n_held += 1
            woken.set_result(None)

        def start() -> None:
            self._stepped.n_held -= 1
            self.call_later(seconds, wake)

        self.call_soon_threadsafe(start)
        woken.result()


class SteppedTime:
    """The time of a stepped loop, for a fetcher and other code that runs in the loop.

    Parameters
    ----------
    loop
        Loop whose clock it reads.
    """

    def __init__(self, loop: SteppedLoop) -> None:
        self.loop = loop

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self.loop.now_ms

    async def sleep(self, seconds: float) -> None:
        """Let this many seconds of stepped time pass."""
        await asyncio.sleep(seconds)

    @property
    def clock(self) -> "SteppedClock":
        """Clock for `recrawl.open` and `recrawl.AsyncCorpus`."""
        return SteppedClock(self.loop)


class SteppedClock:
    """The time of a stepped loop as the clock of a corpus; use it in threads of the loop.

    Parameters
    ----------
    loop
        Loop whose clock it reads.
    """

    def __init__(self, loop: SteppedLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self._loop.now_ms

    def running_ms(self) -> int:
        """Return milliseconds since 1970, which never decrease."""
        return self._loop.now_ms

    def sleep(self, seconds: float) -> None:
        """Wait in a thread until this many seconds of stepped time have passed."""
        self._loop.sleep_in_thread(seconds)


def run_stepped(
    main: Callable[[SteppedTime], Awaitable[_T]], *, start_at_ms: int = START_AT_MS
) -> _T:
    """Run a coroutine in stepped time and return its result.

    Parameters
    ----------
    main
        Function that takes the time and returns the coroutine to run.
    start_at_ms
        Milliseconds since 1970 at which the clock starts.

    Examples
    --------
    >>> async def wait_a_day(time):
    ...     started_ms = time.now_ms()
    ...     await time.sleep(86_400)
    ...     return time.now_ms() - started_ms
    >>> run_stepped(wait_a_day)
    86400000
    """
    with asyncio.Runner(loop_factory=lambda: SteppedLoop(start_at_ms)) as runner:
        loop = cast(SteppedLoop, runner.get_loop())

        async def run() -> _T:
            return await main(SteppedTime(loop))

        return runner.run(run())
