"""Calls of a worker to its own partitions, with a deadline as for calls to other workers.

A partition whose log cannot be written leaves out its rows itself, see
`Corpus.leave_out_stopped`.  Whatever else delays a call, the rows of other workers must not wait
for it: it runs in a thread of its own, and its rows are unavailable when the deadline has passed.
The call goes on: what it writes later is in the log.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from recrawl.corpus import Corpus
from recrawl.errors import ServiceUnavailable
from recrawl.service.hosting.reading_threads import ReadingThreads

__all__ = ["OwnCalls"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_THREADS: Final = 64
# While a call is late, others wait no longer than this: many of them wait for the same partition.
# Those that only miss this shorter time do not count as late themselves, or a worker that is slow
# after its broker has come back would stay unavailable: each call would shorten the next one.
_WAIT_SECONDS: Final = 0.5
# Time to wait at the end for calls that run, after the log has given up.
_CLOSE_SECONDS: Final = 5.0


class OwnCalls:
    """Calls to the partitions that are open in this process.

    Parameters
    ----------
    local
        Corpus with these partitions.
    """

    def __init__(self, local: Corpus) -> None:
        self._local = local
        # A process that ends does not wait for a stuck call: nobody was told that it is done.
        self._threads = ReadingThreads("recrawl-own-rows", _THREADS)
        self._lock = threading.Lock()
        self._n_late = 0

    def close(self) -> None:
        """Wait until the calls that run have ended; those that wait are not begun."""
        self._threads.end(self._local.config.ledger.give_up_after + _CLOSE_SECONDS)

    @property
    def _is_alone(self) -> bool:
        """Whether all partitions are open here, so that there is nobody whom a call could delay."""
        nodes = self._local.nodes
        return len(nodes.all) == nodes.n_partitions

    def begin(self, call: Callable[[], _T]) -> "Future[_T]":
        """Begin a call; if all partitions are open here, make it in the thread of the caller."""
        if not self._is_alone:
            return self._submit(call)
        done: Future[_T] = Future()
        try:
            done.set_result(call())
        except Exception as error:
            done.set_exception(error)
        return done

    def result_of(self, call: "Future[_T]", seconds_max: float) -> _T:
        """Return the result of a call.

        Parameters
        ----------
        call
            Call that was begun.
        seconds_max
            Time to wait for it.

        Raises
        ------
        ServiceUnavailable
            If it has not ended by then.
        """
        seconds = self._seconds(seconds_max)
        try:
            return call.result(seconds)
        except TimeoutError:
            if call.done():
                return call.result()  # it has ended just now, perhaps with such an error
            raise self._late_error(call, lambda _: None, counts=seconds >= seconds_max) from None
        except CancelledError:
            raise _stopping_error() from None

    async def call(
        self, call: Callable[[], _T], seconds_max: float, on_late: Callable[[_T], object]
    ) -> _T:
        """Make a call, and return its result; see `result_of`.

        Parameters
        ----------
        call
            Function that makes the call.
        seconds_max
            Time to wait for it.
        on_late
            Function that is called with a result that comes later; it must not wait.
        """
        begun = self._submit(call)
        waiting = asyncio.wrap_future(begun)
        seconds = self._seconds(seconds_max)
        await asyncio.wait([waiting], timeout=None if self._is_alone else seconds)
        if not waiting.done():
            error = self._late_error(begun, on_late, counts=seconds >= seconds_max)
            waiting.cancel()
            raise error
        if waiting.cancelled():
            raise _stopping_error()
        return waiting.result()

    def _submit(self, call: Callable[[], _T]) -> "Future[_T]":
        try:
            return self._threads.submit(call)
        except RuntimeError:
            raise _stopping_error() from None

    def _seconds(self, seconds_max: float) -> float:
        return min(seconds_max, _WAIT_SECONDS) if self._n_late else seconds_max

    def _late_error(
        self, call: "Future[_T]", on_late: Callable[[_T], object], *, counts: bool
    ) -> ServiceUnavailable:
        """Return the error for a call that has not ended in time, and watch how it ends.

        Parameters
        ----------
        call
            Call that has not ended.
        on_late
            Function that is called with its result.
        counts
            Whether it has missed its whole deadline, so that other calls wait less until it ends.
        """
        if not call.cancel():
            with self._lock:
                self._n_late += counts
                is_first = counts and self._n_late == 1
            if is_first:
                logger.warning("own partitions do not answer in time; their rows are unavailable")
            call.add_done_callback(lambda ended: self._end_late(ended, on_late, counts=counts))
        return ServiceUnavailable("the partitions of this worker have not answered in time")

    def _end_late(
        self, call: "Future[_T]", on_late: Callable[[_T], object], *, counts: bool
    ) -> None:
        with self._lock:
            self._n_late -= counts
        error: Any = call.exception()
        if error is None:
            on_late(call.result())
        else:
            logger.warning("a late call to own partitions has failed: %s", error)


def _stopping_error() -> ServiceUnavailable:
    return ServiceUnavailable("the worker is stopping")
