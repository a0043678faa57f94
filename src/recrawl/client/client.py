"""The client of a service for plain programs: the methods of `recrawl.Corpus` over HTTP.

`Client` runs an `AsyncClient` in the event loop of a thread of its own.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from recrawl.client.async_client import AsyncClient
from recrawl.client.details import ServiceDetails
from recrawl.client.rows import Urls
from recrawl.client.work import Stop, WorkCounts
from recrawl.messages.leases import LeasedUrls, Orders
from recrawl.messages.orders import Order, Outcome
from recrawl.messages.results import Added, CountedRows, Reported, Signalled
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import Sample, Samples, SourceSamples
from recrawl.messages.turns import TurnEnd, TurnsAnswer
from recrawl.messages.views import (
    AuditTable,
    Consumer,
    HostTable,
    HostView,
    LastChange,
    PageChange,
    PageRows,
    SourceRow,
    SourceTable,
    Stats,
)

__all__ = ["Client"]

_T = TypeVar("_T")
_CLOSE_SECONDS_MAX = 10.0


class Client:
    """A corpus on a server; close it, or use it with ``with``.

    Each method does what the method of `recrawl.Corpus` with its name does, as far as the service
    offers it.  All methods may be called from several threads.

    Parameters
    ----------
    url, key
        Address of the corpus and API key, as for `AsyncClient`.
    **options
        Options of `AsyncClient`, such as ``timeout_seconds`` and ``retry_seconds``.
    """

    def __init__(self, url: str, key: str | None = None, **options: Any) -> None:
        self._client = AsyncClient(url, key, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the corpus."""
        return self._client.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(self._client.close(), loop).result(_CLOSE_SECONDS_MAX)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_SECONDS_MAX)
        loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is not None and self._process != os.getpid():
                raise RuntimeError(
                    "this client was used before the process forked; make one in each process"
                )
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="recrawl-client", daemon=True
                )
                self._thread.start()
            return self._loop

    def _wait(self, call: Coroutine[Any, Any, _T]) -> _T:
        future = asyncio.run_coroutine_threadsafe(call, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C; nothing happens if the call has ended
            raise

    def add(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> Added:
        """Add pages to track."""
        return self._wait(
            self._client.add(
                urls, importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
            )
        )

    def why_refused(
        self, urls: Urls, *, doc_id: Any = None, metadata: Any = None, key: Any = None
    ) -> dict[int, str]:
        """Return the first rows that `add` refuses, and the reason of each."""
        return self._wait(self._client.why_refused(urls, doc_id=doc_id, metadata=metadata, key=key))

    def remove(
        self, urls: Urls | None = None, *, pattern: str | None = None, key: Any = None
    ) -> CountedRows:
        """Stop tracking pages, given by URL or by pattern; return the number of pages removed."""
        return self._wait(self._client.remove(urls, pattern=pattern, key=key))

    def set(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        key: Any = None,
        **settings: Any,
    ) -> CountedRows:
        """Change settings of pages, given by URL or by pattern; return the number of pages."""
        return self._wait(self._client.set(urls, pattern=pattern, key=key, **settings))

    def set_each(
        self,
        urls: Urls,
        *,
        importance: Any = None,
        cost: Any = None,
        doc_id: Any = None,
        metadata: Any = None,
        key: Any = None,
    ) -> CountedRows:
        """Set the importance, the cost, the doc_id or the metadata of each page."""
        return self._wait(
            self._client.set_each(
                urls, importance=importance, cost=cost, doc_id=doc_id, metadata=metadata, key=key
            )
        )

    def set_host(self, host: str, **politeness: Any) -> None:
        """Set how often a host may be fetched from."""
        self._wait(self._client.set_host(host, **politeness))

    def set_budget(self, rate: str | None) -> None:
        """Set the budget: ``"30/h"``, ``"20000/day"``, ``"100/run"``, or None for unlimited."""
        self._wait(self._client.set_budget(rate))

    def lease(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
        with_shortfall: bool = True,
        request: str | None = None,
        wait: float = 0.0,
    ) -> Orders:
        """Return up to ``n`` pages that are most worth fetching now; see `AsyncClient.lease`."""
        return self._wait(
            self._client.lease(
                n,
                seconds=seconds,
                exact=exact,
                run=run,
                with_shortfall=with_shortfall,
                request=request,
                wait=wait,
            )
        )

    def lease_table(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
    ) -> pa.Table:
        """Return up to ``n`` pages that are most worth fetching now, as an Arrow table."""
        return self._wait(self._client.lease_table(n, seconds=seconds, exact=exact, run=run))

    def lease_urls(
        self,
        urls: Urls,
        *,
        add: bool = False,
        seconds: float | None = None,
        run: str | None = None,
        key: Any = None,
        request: str | None = None,
    ) -> LeasedUrls:
        """Return an order for each URL that may be fetched now, or the reason why it may not."""
        return self._wait(
            self._client.lease_urls(
                urls, add=add, seconds=seconds, run=run, key=key, request=request
            )
        )

    def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
        run: str | None = None,
    ) -> Iterator[Order]:
        """Yield pages to fetch as they come due and the budget allows, waiting in between."""
        return self._iterate(
            self._client.paced(
                batch_max=batch_max, seconds=seconds, for_seconds=for_seconds, run=run
            )
        )

    def _iterate(self, items: Any) -> Iterator[Any]:
        try:
            while (item := self._wait(_next_of(items))) is not None:
                yield item
        finally:
            self._wait(items.aclose())

    def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; return the number that were still held."""
        return self._wait(self._client.extend(handles, seconds=seconds))

    def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched; return the number that were still held."""
        return self._wait(self._client.release(handles))

    def take_turns(
        self,
        *,
        begin: Mapping[str, str] | None = None,
        renew: Mapping[str, str] | None = None,
        end: Iterable[TurnEnd] = (),
        rest: Mapping[str, float] | None = None,
    ) -> TurnsAnswer:
        """Take turns with other fetchers at contacting hosts; see `AsyncClient.take_turns`."""
        return self._wait(self._client.take_turns(begin=begin, renew=renew, end=end, rest=rest))

    def report(self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Reported:
        """Report what fetches found."""
        return self._wait(self._client.report(outcomes))

    def work(
        self,
        fetch: Callable[[Order], Outcome],
        *,
        concurrency: int = 16,
        seconds: float = 300.0,
        run: str | None = None,
        stop: Stop | None = None,
        for_seconds: float = float("inf"),
        until_idle: bool = False,
        stop_seconds: float = 30.0,
        on_error: Callable[[Order, Exception], Outcome | None] | None = None,
    ) -> WorkCounts:
        """Fetch pages and report them until told to stop; see `AsyncClient.work`.

        ``fetch`` is called in ``concurrency`` threads.  SIGTERM ends the work cleanly; so does
        Ctrl-C, and `KeyboardInterrupt` is raised after that.  A second one ends it at once.
        """
        stopping = _Stopping(stop)
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix="recrawl-fetch")

        async def fetch_in_thread(order: Order) -> Outcome:
            return await asyncio.get_running_loop().run_in_executor(pool, fetch, order)

        async def work() -> WorkCounts:
            return await self._client.work(
                fetch_in_thread,
                concurrency=concurrency,
                seconds=seconds,
                run=run,
                stop=stopping,
                for_seconds=for_seconds,
                until_idle=until_idle,
                stop_seconds=stop_seconds,
                on_error=on_error,
            )

        try:
            with stopping.catch_signals():
                counts = self._wait(work())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if stopping.signal == signal.SIGINT:
            raise KeyboardInterrupt
        return counts

    def signal(
        self,
        urls: Urls,
        *,
        source: str,
        at_ms: Any = 0,
        claimed_at_ms: Any = 0,
        key: Any = None,
        request: str | None = None,
    ) -> Signalled:
        """Signal that pages may have changed; return the number of signals that counted."""
        return self._wait(
            self._client.signal(
                urls,
                source=source,
                at_ms=at_ms,
                claimed_at_ms=claimed_at_ms,
                key=key,
                request=request,
            )
        )

    def requests(
        self,
        urls: Urls,
        n_requests: Any = 1,
        *,
        at_ms: Any = 0,
        key: Any = None,
        request: str | None = None,
    ) -> CountedRows:
        """Report how often users requested pages; requested pages become more important."""
        return self._wait(
            self._client.requests(urls, n_requests, at_ms=at_ms, key=key, request=request)
        )

    def now_ms(self) -> int:
        """Return the current time of the server, as far as its answers have shown it."""
        return self._client.now_ms()

    @property
    def n_pages(self) -> int:
        """The number of tracked pages."""
        return self.stats().n_pages

    def explain(self, url: str, *, key: str | None = None) -> ServiceDetails | None:
        """Return everything known of a page and why it is or is not due; None if not tracked."""
        return self._wait(self._client.explain(url, key=key))

    def history(
        self,
        url: str,
        *,
        with_beliefs: bool = True,
        key: str | None = None,
        n_records_max: int | None = None,
    ) -> ServiceDetails | None:
        """Return the fetches, signals and orders of a page from the log; None if not tracked."""
        return self._wait(
            self._client.history(
                url, with_beliefs=with_beliefs, key=key, n_records_max=n_records_max
            )
        )

    def last_change(self, url: str, *, key: str | None = None) -> LastChange | None:
        """Return the last change of a page and its passages, as far as the feed has it."""
        return self._wait(self._client.last_change(url, key=key))

    def fetch_now(self, urls: Urls, *, key: Any = None) -> CountedRows:
        """Have pages fetched as soon as possible, as if they had certainly changed."""
        return self._wait(self._client.fetch_now(urls, key=key))

    def hosts(self) -> HostTable:
        """Return the hosts with the most pages, most first."""
        return self._wait(self._client.hosts())

    def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Keep what robots.txt files say; see `AsyncClient.note_robots`."""
        self._wait(self._client.note_robots(notes))

    def robots(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return what robots.txt files of hosts say, as far as fetchers have told."""
        return self._wait(self._client.robots(hosts))

    def pages_of_host(
        self,
        host: str,
        *,
        prefix: str = "",
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
    ) -> PageRows:
        """Return some pages of a host, and the cursor to continue with."""
        return self._wait(
            self._client.pages_of_host(
                host, prefix=prefix, cursor=cursor, columns=columns, limit=limit
            )
        )

    def host(self, host: str) -> HostView:
        """Return how a host is fetched from."""
        return self._wait(self._client.host(host))

    def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host."""
        return self._wait(self._client.n_pages_of_host(host))

    def sources(self) -> SourceTable:
        """Return the sources of signals, and how reliable and how late each is on each host."""
        return self._wait(self._client.sources())

    def audited_freshness(self) -> AuditTable:
        """Return audited and modelled freshness of all pages, by kind, and of the largest hosts."""
        return self._wait(self._client.audited_freshness())

    def source(self, source: str, host: str) -> SourceRow | None:
        """Return how reliable and how late a source of signals is on a host."""
        return self._wait(self._client.source(source, host))

    def configuration(self) -> dict[str, Any]:
        """Return the settings of the corpus that differ from their defaults, by section."""
        return self._wait(self._client.configuration())

    def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness."""
        return self._wait(self._client.stats())

    def sample(self) -> Sample:
        """Return the present state: totals, partitions, largest hosts, kinds, sources."""
        return self._wait(self._client.sample())

    def samples(
        self,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
        host: str | None = None,
        kind: str | None = None,
    ) -> Samples:
        """Return figures over time, of the corpus, a host or a kind."""
        return self._wait(
            self._client.samples(
                step=step, since_ms=since_ms, until_ms=until_ms, host=host, kind=kind
            )
        )

    def source_samples(
        self,
        source: str,
        host: str,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> SourceSamples:
        """Return precision, recall, delay and volume of a source of signals over time."""
        return self._wait(
            self._client.source_samples(
                source, host, step=step, since_ms=since_ms, until_ms=until_ms
            )
        )

    def plan(self) -> ServiceDetails:
        """Return the freshness that each budget buys for this corpus."""
        return self._wait(self._client.plan())

    def plan_targets(
        self, targets: Sequence[str] = (), *, budget_per_hour: float | None = None
    ) -> ServiceDetails:
        """Return what budgets buy, and what targets cost."""
        return self._wait(self._client.plan_targets(targets, budget_per_hour=budget_per_hour))

    def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Yield all pages and what is known of each, in batches of rows."""
        return self._iterate(self._client.pages(columns, batch=batch))

    def pages_after(
        self,
        cursor: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> PageRows:
        """Return some pages after a cursor, and the cursor to continue with."""
        return self._wait(self._client.pages_after(cursor, columns=columns, limit=limit))

    def changes(
        self,
        after: str | None = None,
        *,
        consumer: str | None = None,
        limit: int = 1_000,
        wait: float = 0.0,
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first."""
        return self._wait(self._client.changes(after, consumer=consumer, limit=limit, wait=wait))

    def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor."""
        return self._wait(self._client.commit_changes(consumer, cursor, rewind=rewind))

    def consumers(self) -> list[Consumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        return self._wait(self._client.consumers())

    def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        return self._wait(self._client.remove_consumer(consumer))


async def _next_of(items: Any) -> Any:
    return await anext(items, None)


class _Stopping:
    """Whether `Client.work` should end: a signal has come, or the caller's event is set.

    Parameters
    ----------
    event
        Event of the caller.
    """

    def __init__(self, event: Stop | None) -> None:
        self._event = event
        self.signal: int | None = None

    def is_set(self) -> bool:
        """Return whether the work should end."""
        return self.signal is not None or (self._event is not None and self._event.is_set())

    @contextmanager
    def catch_signals(self) -> Iterator[None]:
        """Note the first SIGTERM or Ctrl-C; a second one does what it did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}

        def note(number: int, _: object) -> None:
            self.signal = number
            restore()

        def restore() -> None:
            for one, handler in before.items():
                signal.signal(one, handler)

        for one in before:
            signal.signal(one, note)
        try:
            yield
        finally:
            restore()
