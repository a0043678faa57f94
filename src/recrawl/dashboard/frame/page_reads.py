"""Read a corpus for pages: in threads, once for all who look, and not more often than needed."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar, cast

from recrawl.dashboard.limits import DashboardLimits
from recrawl.service.hosting.hosted import HostedCorpus

__all__ = ["PageReads"]

_T = TypeVar("_T")

# Share of the time that calls may take which are made again and again: while one runs, leases take
# longer, and the slowest in a hundred of them should not.
_SHARE_MAX: Final = 0.02
_SLOW_SHARE_MAX: Final = 0.005
_SLOW_SECONDS_MIN: Final = 120.0
_SECONDS_MAX: Final = 300.0
# Time for which a result that is too old is still shown while a new one is made.
_OLDER_SECONDS_MAX: Final = 60.0


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

        A call that takes long is made less often, however many people look: its result is kept
        fifty times as long as it took, but for at most five minutes.

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
            found = self._begin(key, hosted, function, args, kwargs, self._seconds_of_quick)
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
            found = self._begin(key, hosted, function, args, {}, self._seconds_of_current)
        return await _result_of(found.task)

    async def read_slow(
        self, hosted: HostedCorpus, version: Hashable, function: Callable[..., _T], *args: Hashable
    ) -> _T:
        """Return the result of a call that takes long; an older one while a new one is made.

        The result is kept for two minutes, or 200 times as long as the call took, but for at most
        five minutes.  If somebody asks within a minute after that, the result is shown while
        a new one is made; who asks later waits for the new one.

        Parameters
        ----------
        hosted
            Corpus of the page.
        version
            Version of what is read: another one than before makes the call at once.  A result that
            must not be shown while another one is made has its version among the arguments.
        function, *args
            The call, as `read` has it.
        """
        key = _key_of(hosted, function, args, {})
        found = self._kept.get(key)
        if found is None or (found.task.done() and (_is_over(found) or found.version != version)):
            older = None if found is None or _is_too_old(found) else found.task
            found = self._begin(key, hosted, function, args, {}, _seconds_of_slow, version, older)
        return await _result_of(found.task if found.older is None else found.older)

    def _begin(
        self,
        key: Hashable,
        hosted: HostedCorpus,
        function: Callable[..., Any],
        args: tuple[Hashable, ...],
        kwargs: dict[str, Hashable],
        seconds_kept: Callable[[float], float],
        version: Hashable = None,
        older: "asyncio.Task[Any] | None" = None,
    ) -> _Kept:
        """Make a call, and keep its result as long as a function of the seconds it took says."""
        began = time.monotonic()
        task = asyncio.create_task(hosted.show(function, *args, **kwargs))
        found = self._kept[key] = _Kept(0.0, task, version, older)
        task.add_done_callback(lambda done: self._begin_age(key, done, began, seconds_kept))
        self._kept.move_to_end(key)
        while len(self._kept) > self._limits.kept_max:
            self._kept.popitem(last=False)
        return found

    def _begin_age(
        self,
        key: Hashable,
        task: "asyncio.Task[Any]",
        began: float,
        seconds_kept: Callable[[float], float],
    ) -> None:
        has_failed = task.cancelled() or task.exception() is not None
        found = self._kept.get(key)
        if found is None or found.task is not task:
            return
        if has_failed:
            del self._kept[key]  # the next one tries again
        else:
            now = time.monotonic()
            self._kept[key] = _Kept(now + seconds_kept(now - began), task, found.version)

    def _seconds_of_current(self, took: float) -> float:
        # It says what was so when it began, so a slow call is not kept as long.
        kept_seconds = self._limits.kept_seconds
        return kept_seconds - took if took < kept_seconds else took

    def _seconds_of_quick(self, took: float) -> float:
        return max(self._limits.kept_seconds, min(took / _SHARE_MAX, _SECONDS_MAX))

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


def _seconds_of_slow(took: float) -> float:
    return min(max(took / _SLOW_SHARE_MAX, _SLOW_SECONDS_MIN), _SECONDS_MAX)


def _is_too_old(found: _Kept) -> bool:
    return time.monotonic() >= found.until + _OLDER_SECONDS_MAX


def _is_over(found: _Kept) -> bool:
    return found.task.done() and time.monotonic() >= found.until


async def _result_of(task: "asyncio.Task[_T]") -> _T:
    # One who goes away does not stop a call that others wait for.
    return await asyncio.shield(task)
