"""Read a corpus for pages: in threads, once for all who look, and not more often than needed."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, cast

from recrawl.dashboard.limits import DashboardLimits
from recrawl.service.hosting.hosted import HostedCorpus

__all__ = ["PageReads"]

_T = TypeVar("_T")

_SHARE_MAX: Final = 0.1


class PageReads:
    """The results of calls to corpora, kept for a few seconds.

    Parameters
    ----------
    limits
        Limits of the dashboard.
    """

    def __init__(self, limits: DashboardLimits) -> None:
        self._limits = limits
        self._kept: OrderedDict[Hashable, tuple[float, asyncio.Task[Any]]] = OrderedDict()

    async def read(
        self, hosted: HostedCorpus, function: Callable[..., _T], *args: Hashable, **kwargs: Hashable
    ) -> _T:
        """Return the result of a call in a thread, at most a few seconds old.

        Parameters
        ----------
        hosted
            Corpus of the page.
        function
            Method of the corpus, or a function of a module; calls of the same name with the same
            arguments share a result.
        *args, **kwargs
            Arguments of the call.
        """
        name = f"{function.__module__}.{function.__qualname__}"
        key = (hosted.name, name, args, tuple(sorted(kwargs.items())))
        found = self._kept.get(key)
        if found is None or (found[1].done() and time.monotonic() >= found[0]):
            began = time.monotonic()
            task = asyncio.create_task(hosted.show(function, *args, **kwargs))
            task.add_done_callback(lambda done: self._begin_age(key, done, began))
            self._kept[key] = (0.0, task)
            self._kept.move_to_end(key)
            while len(self._kept) > self._limits.kept_max:
                self._kept.popitem(last=False)
        else:
            task = found[1]
        # One who goes away does not stop a call that others wait for.
        return cast(_T, await asyncio.shield(task))

    def _begin_age(self, key: Hashable, task: "asyncio.Task[Any]", began: float) -> None:
        found = self._kept.get(key)
        if found is None or found[1] is not task:
            return
        if task.cancelled() or task.exception() is not None:
            del self._kept[key]  # the next one tries again
        else:
            now = time.monotonic()
            # What takes long is asked for less often, however many people look.
            seconds = max(self._limits.kept_seconds, (now - began) / _SHARE_MAX)
            self._kept[key] = (now + seconds, task)

    def forget(self, hosted: HostedCorpus) -> None:
        """Drop the results of a corpus, because somebody has changed it."""
        self._kept = OrderedDict(
            (key, kept) for key, kept in self._kept.items() if cast(Any, key)[0] != hosted.name
        )
