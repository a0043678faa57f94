"""Threads for calls that only read a corpus, which a process that ends does not wait for."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["ReadingThreads"]

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class ReadingThreads(Executor):
    """A few threads that are started when there is something to do.

    A process waits for the threads of `concurrent.futures.ThreadPoolExecutor` before it ends.  A
    call that only reads loses nothing when it is cut off.

    Parameters
    ----------
    name
        Name of the threads.
    n_threads_max
        Number of calls that run at a time.
    """

    def __init__(self, name: str, n_threads_max: int) -> None:
        self._name = name
        self._n_threads_max = n_threads_max
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._n_calls = 0
        self._is_closed = False

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Call a function in one of the threads; return its future result."""
        future: Future[_T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("these threads have ended")
            self._n_calls += 1
            self._waiting.put((future, lambda: fn(*args, **kwargs)))
            if len(self._threads) < min(self._n_calls, self._n_threads_max):
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._n_calls -= 1
            # An idle thread must not keep a result alive.
            del call, future, function

    def end(self, seconds_max: float) -> bool:
        """End the threads; return False if a call still runs after a time, which is cut off.

        Parameters
        ----------
        seconds_max
            Time to wait for calls that run; those that wait are not begun.
        """
        end_at = time.monotonic() + seconds_max
        with self._lock:
            self._is_closed = True
            while not self._waiting.empty():
                call = self._waiting.get_nowait()
                if call is not None:
                    call[0].cancel()
            for _ in self._threads:
                self._waiting.put(None)
        for thread in self._threads:
            thread.join(max(end_at - time.monotonic(), 0.0))
        is_over = not any(thread.is_alive() for thread in self._threads)
        if not is_over:
            logger.warning("%s: a call still runs, and is not waited for", self._name)
        return is_over

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads as `concurrent.futures.Executor` does; calls that wait are not begun."""
        del cancel_futures
        self.end(threading.TIMEOUT_MAX if wait else 0.0)
