"""Read a corpus for pages: in threads, once for all who look, and not more often than needed."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar, cast

from recrawl.dashboard.limits import DashboardLimits
from recrawl.service.hosting.hosted import HostedCorpus

__all__ = ["PageReads"]

_T = TypeVar("_T")

_SHARE_MAX: Final = 0.1


class _Kept(NamedTuple):
    """A call whose result is kept."""

    until: float
    """Time by `time.monotonic` from which on the result is too old; 0 while the call runs."""
    task: "asyncio.Task[Any]"
    version: Hashable = None
    older: "asyncio.Task[Any] | None" = None
    """Call with the result that is shown until this one ends."""


class PageReads:
    """The results of calls to corpora, kept for a few seconds.

    Parameters
    ----------
    limits
        Limits of the dashboard.
    """

    def __init__(self, limits: DashboardLimits) -> None:
        self._limits = limits
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    async def read(
        self, hosted: HostedCorpus, function: Callable[..., _T], *args: Hashable, **kwargs: Hashable
    ) -> _T:
        """Return the result of a call in a thread, at most a few seconds old.

        A call that takes long is made less often, however many people look.

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
        key = _key_of(hosted, function, args, kwargs)
        found = self._kept.get(key)
        if found is None or _is_over(found):
            found = self._begin(key, hosted, function, args, kwargs, _SHARE_MAX)
        return await _result_of(found.task)

    async def read_current(
        self, hosted: HostedCorpus, function: Callable[..., _T], *args: Hashable
    ) -> _T:
        """Return the result of a call, never older than `DashboardLimits.kept_seconds`.

        For calls that are quick: one that itself takes longer is kept as long as it takes.  The
        parameters are those of `read`.
        """
        key = _key_of(hosted, function, args, {})
        found = self._kept.get(key)
        if found is None or _is_over(found):
            found = self._begin(key, hosted, function, args, {}, math.inf)
        return await _result_of(found.task)

    async def read_slow(
        self, hosted: HostedCorpus, version: Hashable, function: Callable[..., _T], *args: Hashable
    ) -> _T:
        """Return the result of a call that takes long; an older one while a new one is made.

        Parameters
        ----------
        hosted
            Corpus of the page.
        version
            Version of what is read: another one than before makes the call at once.
        function, *args
            The call, as `read` has it.
        """
        key = _key_of(hosted, function, args, {})
        found = self._kept.get(key)
        if found is None or (found.task.done() and (_is_over(found) or found.version != version)):
            older = None if found is None else found.task
            found = self._begin(key, hosted, function, args, {}, _SHARE_MAX, version, older)
        return await _result_of(found.task if found.older is None else found.older)

    def _begin(
        self,
        key: Hashable,
        hosted: HostedCorpus,
        function: Callable[..., Any],
        args: tuple[Hashable, ...],
        kwargs: dict[str, Hashable],
        share_max: float,
        version: Hashable = None,
        older: "asyncio.Task[Any] | None" = None,
    ) -> _Kept:
        """Make a call, and keep its result so long that the call takes that share of the time."""
        began = time.monotonic()
        task = asyncio.create_task(hosted.show(function, *args, **kwargs))
        found = self._kept[key] = _Kept(0.0, task, version, older)
        task.add_done_callback(lambda done: self._begin_age(key, done, began, share_max))
        self._kept.move_to_end(key)
        while len(self._kept) > self._limits.kept_max:
            self._kept.popitem(last=False)
        return found

    def _begin_age(
        self, key: Hashable, task: "asyncio.Task[Any]", began: float, share_max: float
    ) -> None:
        has_failed = task.cancelled() or task.exception() is not None
        found = self._kept.get(key)
        if found is None or found.task is not task:
            return
        if has_failed:
            del self._kept[key]  # the next one tries again
        else:
            now, kept_seconds = time.monotonic(), self._limits.kept_seconds
            if math.isinf(share_max):
                # It says what was so when it began, so a slow call is not kept as long.
                is_in_time = now < began + kept_seconds
                until = began + kept_seconds if is_in_time else now + (now - began)
            else:
                until = now + max(kept_seconds, (now - began) / share_max)
            self._kept[key] = _Kept(until, task, found.version)

    def forget(self, hosted: HostedCorpus) -> None:
        """Drop the results of a corpus, because somebody has changed it."""
        self._kept = OrderedDict(
            (key, kept) for key, kept in self._kept.items() if cast(Any, key)[0] != hosted.name
        )


def _key_of(
    hosted: HostedCorpus,
    function: Callable[..., Any],
    args: tuple[Hashable, ...],
    kwargs: dict[str, Hashable],
) -> Hashable:
    name = f"{function.__module__}.{function.__qualname__}"
    return (hosted.name, name, args, tuple(sorted(kwargs.items())))


def _is_over(found: _Kept) -> bool:
    return found.task.done() and time.monotonic() >= found.until


async def _result_of(task: "asyncio.Task[_T]") -> _T:
    # One who goes away does not stop a call that others wait for.
    return await asyncio.shield(task)
