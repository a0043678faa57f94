"""Observe bodies in other processes: resiliparse holds the interpreter's lock while it parses."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType, TracebackType
from typing import Any, Final, NamedTuple, Self

from recrawl.content.observation import Observation
from recrawl.content.observing import observe, observe_bytes
from recrawl.content.settings import DEFAULT_CONTENT_SETTINGS, ContentSettings

__all__ = ["ObserverPool", "PageBody"]

TIMEOUT_SECONDS: Final = 10.0
"""Time after which the process that reads a body is ended; reading takes below a second."""
START_SECONDS_MAX: Final = 180.0
"""Time that processes have to start, in which they may have to compile."""
BODIES_PER_CALL_MAX: Final = 16
"""Bodies that a process is given at once.

For each call two threads hand bodies and results over, and take the interpreter's lock from others.
"""
BYTES_PER_CALL_MAX: Final = 4 << 20
"""Bytes of bodies that a process is given at once, unless one alone is larger."""
WAITING_PER_PROCESS_MAX: Final = 2 * BODIES_PER_CALL_MAX
"""Bodies that wait for each process; `ObserverPool.observe_all` takes no more from its input."""


class PageBody(NamedTuple):
    """Body of an answer, and what is known about it."""

    body: bytes
    content_type: str | None = None
    url: str | None = None


def _observe(
    pages: list[PageBody], settings: ContentSettings, with_texts: bool
) -> list[Observation]:
    return [observe(*page, settings=settings, with_texts=with_texts) for page in pages]


def _groups(pages: list[PageBody]) -> Iterator[list[PageBody]]:
    """Yield bodies in groups within the limits of a call."""
    group: list[PageBody] = []
    n_bytes = 0
    for page in pages:
        n_bytes += len(page.body)
        if group and (n_bytes > BYTES_PER_CALL_MAX or len(group) == BODIES_PER_CALL_MAX):
            yield group
            group, n_bytes = [], len(page.body)
        group.append(page)
    if group:
        yield group


class _PlainProcess(SpawnProcess):
    """A process that does not run the user's script again.

    A new process normally imports the main module of its parent.  A script that starts a crawl
    when it is imported, as many do, would start another one.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name that multiprocessing calls
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _PlainContext(SpawnContext):
    Process = _PlainProcess


class _ProgramEndingError(Exception):
    """The program ends, and no process takes more bodies."""


def _live_as_long_as_parent() -> None:
    """End this process when its parent is gone, also if that was killed, and not before.

    Ctrl-C reaches all processes of a terminal, and the parent may still have bodies to read.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


class ObserverPool:
    """Processes that observe bodies; use it as a context manager, or call `close`.

    A body whose process ends or takes too long is compared by its bytes, with the problem
    ``crashed`` or ``timed_out``; the other bodies are read again by new processes.

    Parameters
    ----------
    n_processes
        Number of processes.
    settings
        Settings of all observations.
    timeout_seconds
        Time after which the process that reads a body is ended.
    """

    def __init__(
        self,
        n_processes: int,
        settings: ContentSettings = DEFAULT_CONTENT_SETTINGS,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        if n_processes < 1:
            raise ValueError(f"n_processes must be at least 1, got {n_processes}")
        self.n_processes = n_processes
        self.settings = settings
        self.timeout_seconds = timeout_seconds
        self._executor: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def observe_all(
        self, pages: Iterable[PageBody], *, with_texts: bool = False
    ) -> Iterator[Observation]:
        """Yield the observation of each body, in the order of the bodies.

        Parameters
        ----------
        pages
            Bodies; they are read as they are needed, so this may be a long stream.
        with_texts
            Whether to keep the text of each passage.
        """
        waiting = iter(pages)
        while chunk := list(islice(waiting, self.n_processes * WAITING_PER_PROCESS_MAX)):
            # One chunk at a time: after a crash it is known which bodies were under way.
            with self._lock:
                found = self._observe_chunk(chunk, with_texts)
            yield from found

    def close(self) -> None:
        """End the processes."""
        if self._executor is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> ProcessPoolExecutor:
        if self._executor is None:
            # A forked process would copy locks that other threads hold.
            self._executor = ProcessPoolExecutor(
                self.n_processes, mp_context=_PlainContext(), initializer=_live_as_long_as_parent
            )
            ready = [
                self._submit(self._executor, [PageBody(b"<p>x")], with_texts=False)
                for _ in range(self.n_processes)
            ]
            try:
                for future in ready:
                    future.result(START_SECONDS_MAX)
            except (BrokenProcessPool, FutureTimeoutError) as error:
                self._end()
                raise RuntimeError("the processes that read bodies could not be started") from error
        return self._executor

    def _submit(
        self, executor: ProcessPoolExecutor, pages: list[PageBody], *, with_texts: bool
    ) -> Future[list[Observation]]:
        try:
            return executor.submit(_observe, pages, self.settings, with_texts)
        except BrokenProcessPool:
            raise
        except RuntimeError as error:
            raise _ProgramEndingError from error

    def _observe_chunk(self, pages: list[PageBody], with_texts: bool) -> list[Observation]:
        groups = list(_groups(pages))
        found: dict[int, list[Observation]] = {}
        try:
            executor = self._start()
            futures = [self._submit(executor, one, with_texts=with_texts) for one in groups]
            self._collect(futures, found)
        except BrokenProcessPool:
            self._end()
        except _ProgramEndingError:
            return _observe(pages, self.settings, with_texts)
        for k, group in enumerate(groups):
            if k not in found:
                # One of these ended the processes: read each alone to find out which.
                found[k] = [self._observe_alone(page, with_texts) for page in group]
        return [one for k in range(len(groups)) for one in found[k]]

    def _collect(
        self, futures: list[Future[list[Observation]]], found: dict[int, list[Observation]]
    ) -> None:
        # The time that one body has; if all of a group need more, each is read alone.
        rounds = -(-len(futures) // self.n_processes)
        ends_at = time.monotonic() + self.timeout_seconds * rounds
        for k, future in enumerate(futures):
            try:
                found[k] = future.result(max(ends_at - time.monotonic(), 0.0))
            except FutureTimeoutError:
                self._end()
                return

    def _observe_alone(self, page: PageBody, with_texts: bool) -> Observation:
        try:
            future = self._submit(self._start(), [page], with_texts=with_texts)
            return future.result(self.timeout_seconds)[0]
        except FutureTimeoutError:
            problem = "timed_out"
        except BrokenProcessPool:
            problem = "crashed"
        except _ProgramEndingError:
            return observe(*page, settings=self.settings, with_texts=with_texts)
        self._end()
        return observe_bytes(page.body, problems=(problem,))

    def _end(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        processes = list((executor._processes or {}).values())
        for process in processes:
            process.kill()
        executor.shutdown(wait=True, cancel_futures=True)
