"""A corpus for asyncio: the same methods, run in threads so that the loop goes on."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import pyarrow as pa

from recrawl.corpus.corpus import WAIT_SECONDS_MAX, Added, Corpus, Reported
from recrawl.corpus.inspect.change_feed import Change
from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.corpus.inspect.stats import Stats
from recrawl.corpus.opening import open_corpus
from recrawl.corpus.plan.curve import Plan
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.orders import Order, Outcome
from recrawl.node.routing import Urls

__all__ = ["AsyncCorpus"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncCorpus:
    """The twin of `Corpus` for asyncio; each method does what that of `Corpus` does.

    Coroutines that wait at the same time share the syncs of the log.

    Parameters
    ----------
    path, config, read_only, clock
        As `recrawl.open` takes them; opened by ``async with``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: CorpusConfig | None = None,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._open = lambda: open_corpus(path, config, read_only=read_only, clock=clock)
        self._corpus: Corpus | None = None

    @property
    def corpus(self) -> Corpus:
        """The corpus itself; its methods block."""
        if self._corpus is None:
            raise RuntimeError("the corpus is not open; use `async with`")
        return self._corpus

    async def __aenter__(self) -> Self:
        self._corpus = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.corpus.close)

    async def _run(self, method: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        # What has been handed to a thread happens: a cancelled caller does not hear of it.
        return await asyncio.to_thread(method, *args, **kwargs)

    async def add(self, urls: Urls, *, importance: Any = None, cost: Any = None) -> Added:
        """Keep pages."""
        return await self._run(self.corpus.add, urls, importance=importance, cost=cost)

    async def remove(self, urls: Urls) -> int:
        """Keep pages no longer."""
        return await self._run(self.corpus.remove, urls)

    async def set(
        self, urls: Urls | None = None, *, pattern: str | None = None, **settings: Any
    ) -> int:
        """Set what holds for pages."""
        return await self._run(self.corpus.set, urls, pattern=pattern, **settings)

    async def set_host(self, host: str, **politeness: Any) -> None:
        """Set how often a host may be asked."""
        await self._run(self.corpus.set_host, host, **politeness)

    async def set_budget(self, rate: str | None) -> None:
        """Set what may be spent."""
        await self._run(self.corpus.set_budget, rate)

    async def lease(
        self, n: int, *, seconds: float | None = None, exact: bool = False
    ) -> list[Order]:
        """Return up to ``n`` pages that are most worth fetching now."""
        return await self._run(self.corpus.lease, n, seconds=seconds, exact=exact)

    async def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
    ) -> AsyncIterator[Order]:
        """Yield pages to fetch as the budget allows and they come due."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + for_seconds
        while loop.time() < ends:
            orders = await self.lease(batch_max, seconds=seconds)
            left = [order.handle for order in reversed(orders)]
            try:
                for order in orders:
                    left.pop()
                    yield order
            finally:
                if left:  # whoever asked has stopped asking
                    await self.release(left)
            if not orders:
                wait = await self._run(self.corpus.wait_seconds)
                if wait == float("inf"):
                    return
                await asyncio.sleep(min(wait, WAIT_SECONDS_MAX))

    async def extend(self, handles: Sequence[int], *, seconds: float) -> int:
        """Hold orders longer."""
        return await self._run(self.corpus.extend, handles, seconds=seconds)

    async def release(self, handles: Sequence[int]) -> int:
        """Give orders back, nothing fetched."""
        return await self._run(self.corpus.release, handles)

    async def report(
        self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch
    ) -> Reported:
        """Say what fetches found."""
        return await self._run(self.corpus.report, outcomes)

    async def signal(
        self, urls: Urls, *, source: str, at_ms: Any = 0, claimed_at_ms: Any = 0
    ) -> int:
        """Say that pages may have changed."""
        return await self._run(
            self.corpus.signal, urls, source=source, at_ms=at_ms, claimed_at_ms=claimed_at_ms
        )

    async def requests(self, urls: Urls, n_requests: Any = 1, *, at_ms: Any = 0) -> int:
        """Say how often pages were asked for."""
        return await self._run(self.corpus.requests, urls, n_requests, at_ms=at_ms)

    async def explain(self, url: str) -> PageExplanation | None:
        """Return everything known of a page."""
        return await self._run(self.corpus.explain, url)

    async def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> AsyncIterator[pa.RecordBatch]:
        """See `Corpus.pages`."""
        batches = self.corpus.pages(columns, batch=batch)
        while (found := await self._run(lambda: next(batches, None))) is not None:
            yield found

    async def changes(self, after: str | None = None, *, limit: int = 1_000) -> list[Change]:
        """Return what happened to pages after a cursor."""
        return await self._run(self.corpus.changes, after, limit=limit)

    async def stats(self) -> Stats:
        """Return counts, budget, price and modelled freshness."""
        return await self._run(self.corpus.stats)

    async def plan(self) -> Plan:
        """Return freshness against budget."""
        return await self._run(self.corpus.plan)

    async def snapshot(self) -> None:
        """Take a snapshot of every partition now."""
        await self._run(self.corpus.snapshot)

    async def refresh(self) -> None:
        """See what has been logged since, for a corpus that is open for reading."""
        await self._run(self.corpus.refresh)
