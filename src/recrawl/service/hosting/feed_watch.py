"""Requests that wait for changes of pages: they are woken when something was reported."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem, too_busy

__all__ = ["FeedWatch"]

# Changes that another process or a bulk import makes are seen after at most this time.
_LOOK_SECONDS = 1.0


class FeedWatch:
    """The requests of one corpus that wait for changes.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`.
    limits
        Limits of the server.
    """

    def __init__(self, corpus: Any, limits: ServiceLimits) -> None:
        self.corpus = corpus
        self._limits = limits
        self._n_waiting = 0
        self._next = asyncio.Event()
        self.is_closed = False

    @property
    def n_waiting(self) -> int:
        """Number of requests that wait."""
        return self._n_waiting

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count a request as waiting; raise if there are too many."""
        if self.is_closed:
            raise Problem("unavailable", "the server is stopping", headers={"Retry-After": "1"})
        if self._n_waiting >= self._limits.waiting_feeds_max:
            raise too_busy(f"{self._n_waiting:,} requests wait for changes; try again soon")
        self._n_waiting += 1
        try:
            yield
        finally:
            self._n_waiting -= 1

    def wake(self) -> None:
        """Let all requests that wait look for changes."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until there may be new changes, but not longer than some seconds."""
        if self.is_closed:
            return
        try:
            async with asyncio.timeout(min(seconds, _LOOK_SECONDS)):
                await self._next.wait()
        except TimeoutError:
            pass

    def close(self) -> None:
        """End all waits."""
        self.is_closed = True
        self.wake()
