"""A corpus for asyncio: the same methods, run in threads so that they do not block the loop."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import pyarrow as pa

from recrawl.corpus.corpus import WAIT_SECONDS_MAX, Added, Corpus, Reported
from recrawl.corpus.feed.change_feed import PageChange
from recrawl.corpus.feed.consumers import Consumer
from recrawl.corpus.inspect.explanation import PageExplanation
from recrawl.corpus.inspect.page_table import PageRows
from recrawl.corpus.inspect.stats import Stats
from recrawl.corpus.leasing.shortfall import Orders, is_run_over
from recrawl.corpus.leasing.urls import LeasedUrls
from recrawl.corpus.monitoring.metrics import CorpusMetrics
from recrawl.corpus.opening import open_corpus
from recrawl.corpus.plan.curve import Plan
from recrawl.corpus.view import CountedRows, Signalled
from recrawl.giving_way import LeasesUnderWay
from recrawl.messages.robots import RobotsNote
from recrawl.messages.samples import Sample, Samples, SourceSamples
from recrawl.node.clock import Clock
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.scrubber import ScrubReport
from recrawl.node.orders import Order, Outcome
from recrawl.node.records import RequestKey
from recrawl.node.routing import Urls

if TYPE_CHECKING:
    from recrawl.corpus.backups.backup import BackupResult
    from recrawl.corpus.forgetting.forget import Forgotten
    from recrawl.corpus.holdout.experiment import HoldoutView
    from recrawl.corpus.import_crawl import CrawlImport
    from recrawl.corpus.inspect.beliefs import BelievedPages
    from recrawl.corpus.inspect.hosts import HostTable, HostView
    from recrawl.corpus.inspect.source_table import SourceRow, SourceTable
    from recrawl.corpus.past.page_history import PageHistory
    from recrawl.corpus.past.replay import OnRecord
    from recrawl.corpus.plan.corpus_plan import CorpusPlan
    from recrawl.corpus.plan.targets import Target
    from recrawl.messages.views import AuditTable, LastChange

__all__ = ["AsyncCorpus"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncCorpus:
    """A corpus for asyncio; each method does what the method of `Corpus` with its name does.

    Open it with ``async with``.  Calls that wait at the same time share one sync of the log.

    Parameters
    ----------
    path, config, read_only, clock, accept_clock
        Arguments of `recrawl.open`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: CorpusConfig | None = None,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        accept_clock: bool = False,
    ) -> None:
        self._open = lambda: open_corpus(
            path, config, read_only=read_only, clock=clock, accept_clock=accept_clock
        )
        self._corpus: Corpus | None = None

    @property
    def corpus(self) -> Corpus:
        """The corpus itself; its methods block the loop."""
        if self._corpus is None:
            raise RuntimeError("the corpus is not open; open it with `async with`")
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
        # A cancelled caller does not stop the thread: the call is completed.
        return await asyncio.to_thread(method, *args, **kwargs)

    async def add(
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
        return await self._run(
            self.corpus.add,
            urls,
            importance=importance,
            cost=cost,
            doc_id=doc_id,
            metadata=metadata,
            key=key,
        )

    async def why_refused(
        self, urls: Urls, *, doc_id: Any = None, metadata: Any = None, key: Any = None
    ) -> dict[int, str]:
        """Return the rows that `add` refuses, and the reason of each."""
        return await self._run(
            self.corpus.why_refused, urls, doc_id=doc_id, metadata=metadata, key=key
        )

    async def remove(
        self, urls: Urls | None = None, *, pattern: str | None = None, key: Any = None
    ) -> CountedRows:
        """Stop tracking pages, given by URL or by pattern; return the number of pages removed."""
        return await self._run(self.corpus.remove, urls, pattern=pattern, key=key)

    async def forget(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        backups: Sequence[str | os.PathLike[str]] = (),
    ) -> "list[Forgotten]":
        """Erase pages from store, change feed, log, snapshots and backups."""
        return await self._run(self.corpus.forget, urls, pattern=pattern, backups=backups)

    async def forget_states(self) -> "list[Forgotten]":
        """Return the state of every forget so far: whether it is complete, and what remains."""
        return await self._run(self.corpus.forget_states)

    async def set(
        self,
        urls: Urls | None = None,
        *,
        pattern: str | None = None,
        key: Any = None,
        **settings: Any,
    ) -> CountedRows:
        """Change settings of pages, given by URL or by pattern; return the number of pages."""
        return await self._run(self.corpus.set, urls, pattern=pattern, key=key, **settings)

    async def set_each(
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
        return await self._run(
            self.corpus.set_each,
            urls,
            importance=importance,
            cost=cost,
            doc_id=doc_id,
            metadata=metadata,
            key=key,
        )

    async def set_host(self, host: str, **politeness: Any) -> None:
        """Set how often a host may be fetched from."""
        await self._run(self.corpus.set_host, host, **politeness)

    async def set_budget(self, rate: str | None) -> None:
        """Set the budget: ``"30/h"``, ``"20000/day"``, ``"100/run"``, or None for unlimited."""
        await self._run(self.corpus.set_budget, rate)

    async def lease(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
        with_shortfall: bool = True,
        request: RequestKey | None = None,
    ) -> Orders:
        """Return up to ``n`` pages that are most worth fetching now."""
        return await self._run(
            self.corpus.lease,
            n,
            seconds=seconds,
            exact=exact,
            run=run,
            with_shortfall=with_shortfall,
            request=request,
        )

    async def lease_table(
        self,
        n: int,
        *,
        seconds: float | None = None,
        exact: bool = False,
        run: str | None = None,
    ) -> pa.Table:
        """Return up to ``n`` pages that are most worth fetching now, as an Arrow table."""
        return await self._run(self.corpus.lease_table, n, seconds=seconds, exact=exact, run=run)

    async def lease_urls(
        self,
        urls: Urls,
        *,
        add: bool = False,
        seconds: float | None = None,
        run: str | None = None,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> LeasedUrls:
        """Return an order for each URL that may be fetched now, or the reason why it may not."""
        return await self._run(
            self.corpus.lease_urls,
            urls,
            add=add,
            seconds=seconds,
            run=run,
            key=key,
            request=request,
        )

    def run_name(self, run: str | None = None) -> str:
        """Return the name of the run that pays for leases: the one given, or today's date."""
        return self.corpus.run_name(run)

    @property
    def lease_asked_at_ms(self) -> int | None:
        """When somebody last asked this object for pages, whether it got any; None if never."""
        return self.corpus.lease_asked_at_ms

    @property
    def leases_under_way(self) -> LeasesUnderWay:
        """The leases that run now; calls that can wait let them go first."""
        return self.corpus.leases_under_way

    @property
    def is_budget_per_run(self) -> bool:
        """Whether the budget is per named run, such as ``"100/run"``."""
        return self.corpus.is_budget_per_run

    async def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
        run: str | None = None,
    ) -> AsyncIterator[Order]:
        """Yield pages to fetch as they come due and the budget allows, waiting in between."""
        run = self.corpus.run_name(run)
        loop = asyncio.get_running_loop()
        ends = loop.time() + for_seconds
        while loop.time() < ends:
            orders = await self.lease(batch_max, seconds=seconds, run=run)
            unused = [order.handle for order in reversed(orders)]
            try:
                for order in orders:
                    unused.pop()
                    yield order
            finally:
                if unused:  # the caller has stopped iterating
                    await self.release(unused)
            if not orders:
                wait = await self.wait_seconds()
                if wait == float("inf") or (self.is_budget_per_run and is_run_over(orders)):
                    return
                await asyncio.sleep(min(wait, WAIT_SECONDS_MAX))

    async def wait_seconds(self) -> float:
        """Return the seconds to wait before the next `lease` after one that returned nothing."""
        return await self._run(self.corpus.wait_seconds)

    async def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; return the number that were still held."""
        return await self._run(self.corpus.extend, handles, seconds=seconds)

    async def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched; return the number that were still held."""
        return await self._run(self.corpus.release, handles)

    async def report(
        self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch
    ) -> Reported:
        """Report what fetches found."""
        return await self._run(self.corpus.report, outcomes)

    async def signal(
        self,
        urls: Urls,
        *,
        source: str,
        at_ms: Any = 0,
        claimed_at_ms: Any = 0,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> Signalled:
        """Signal that pages may have changed; return the number of signals that counted."""
        return await self._run(
            self.corpus.signal,
            urls,
            source=source,
            at_ms=at_ms,
            claimed_at_ms=claimed_at_ms,
            key=key,
            request=request,
        )

    async def fetch_now(self, urls: Urls, *, key: Any = None) -> CountedRows:
        """Have pages fetched as soon as possible, as if they had certainly changed."""
        return await self._run(self.corpus.fetch_now, urls, key=key)

    async def requests(
        self,
        urls: Urls,
        n_requests: Any = 1,
        *,
        at_ms: Any = 0,
        key: Any = None,
        request: RequestKey | None = None,
    ) -> CountedRows:
        """Report how often users requested pages; requested pages become more important."""
        return await self._run(
            self.corpus.requests, urls, n_requests, at_ms=at_ms, key=key, request=request
        )

    def now_ms(self) -> int:
        """Return the current time of the corpus, in milliseconds since 1970."""
        return self.corpus.now_ms()

    @property
    def n_pages(self) -> int:
        """The number of tracked pages."""
        return self.corpus.n_pages

    async def explain(
        self,
        url: str,
        *,
        at_ms: int | None = None,
        on_record: "OnRecord | None" = None,
        key: str | None = None,
    ) -> PageExplanation | None:
        """Return everything known of a page and why it is or is not due; None if not tracked."""
        return await self._run(self.corpus.explain, url, at_ms=at_ms, on_record=on_record, key=key)

    async def history(
        self,
        url: str,
        *,
        until_ms: int | None = None,
        with_beliefs: bool = True,
        on_record: "OnRecord | None" = None,
        key: str | None = None,
        n_records_max: int | None = None,
    ) -> "PageHistory | None":
        """Return the fetches, signals and orders of a page from the log; None if not tracked."""
        return await self._run(
            self.corpus.history,
            url,
            until_ms=until_ms,
            with_beliefs=with_beliefs,
            on_record=on_record,
            key=key,
            n_records_max=n_records_max,
        )

    async def last_change(self, url: str, *, key: str | None = None) -> "LastChange | None":
        """Return the last change of a page and its passages, as far as the feed has it."""
        return await self._run(self.corpus.last_change, url, key=key)

    async def n_log_records(self, url: str | None = None, *, key: str | None = None) -> int:
        """Return the number of records in the log, or in the partition of a page."""
        return await self._run(self.corpus.n_log_records, url, key=key)

    async def similar_urls(self, url: str) -> list[str]:
        """Return up to three URLs of tracked pages that are spelled much like this one."""
        return await self._run(self.corpus.similar_urls, url)

    async def sources(self) -> "SourceTable":
        """Return the sources of signals, and how reliable and how late each is on each host."""
        return await self._run(self.corpus.sources)

    async def audited_freshness(self) -> "AuditTable":
        """Return audited and modelled freshness of all pages, by kind, and of the largest hosts."""
        return await self._run(self.corpus.audited_freshness)

    async def source(self, source: str, host: str) -> "SourceRow | None":
        """Return how reliable and how late a source of signals is on a host."""
        return await self._run(self.corpus.source, source, host)

    async def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host."""
        return await self._run(self.corpus.n_pages_of_host, host)

    async def host(self, host: str) -> "HostView":
        """Return how a host is fetched from."""
        return await self._run(self.corpus.host, host)

    async def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Keep what robots.txt files say, for people who look at a host."""
        await self._run(self.corpus.note_robots, notes)

    async def robots(self, hosts: Sequence[str]) -> dict[str, list[RobotsNote]]:
        """Return what robots.txt files of hosts say, as far as fetchers have told."""
        return await self._run(self.corpus.robots, hosts)

    async def hosts(self) -> "HostTable":
        """Return the hosts with the most pages, most first."""
        return await self._run(self.corpus.hosts)

    async def pages_of_host(
        self,
        host: str,
        *,
        prefix: str = "",
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int = 100,
    ) -> PageRows:
        """Return some pages of a host, and the cursor to continue with."""
        return await self._run(
            self.corpus.pages_of_host,
            host,
            prefix=prefix,
            cursor=cursor,
            columns=columns,
            limit=limit,
        )

    async def newcomers(self) -> dict[str, int]:
        """Return the hosts whose new pages have a limited share of the budget."""
        return await self._run(self.corpus.newcomers)

    async def holdout(self, *, share: float | None = None, days: float = 28.0) -> "HoldoutView":
        """Return what the hold-out of the corpus shows so far, or the plan of one."""
        return await self._run(self.corpus.holdout, share=share, days=days)

    async def similar_hosts(self, host: str) -> dict[str, int]:
        """Return the hosts with this name at any port, and the number of pages of each."""
        return await self._run(self.corpus.similar_hosts, host)

    async def believed_pages(self, n_pages_max: int) -> "BelievedPages":
        """Return the estimated change rates of all pages, or of about ``n_pages_max``."""
        return await self._run(self.corpus.believed_pages, n_pages_max)

    async def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield all pages and what is known of each, in batches of rows."""
        batches = self.corpus.pages(columns, batch=batch)
        while (found := await self._run(lambda: next(batches, None))) is not None:
            yield found

    async def pages_after(
        self,
        cursor: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int = 1_000,
    ) -> PageRows:
        """Return some pages after a cursor, and the cursor to continue with."""
        return await self._run(self.corpus.pages_after, cursor, columns=columns, limit=limit)

    async def export_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield all pages with the columns of `recrawl.corpus.EXPORT_SCHEMA`, in batches."""
        batches = self.corpus.export_batches()
        while (found := await self._run(lambda: next(batches, None))) is not None:
            yield found

    def import_crawl(self) -> "CrawlImport":
        """Return an import of an earlier crawl's fetch log; its methods block the loop."""
        return self.corpus.import_crawl()

    async def changes(
        self, after: str | None = None, *, consumer: str | None = None, limit: int = 1_000
    ) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first."""
        return await self._run(self.corpus.changes, after, consumer=consumer, limit=limit)

    async def commit_changes(self, consumer: str, cursor: str, *, rewind: bool = False) -> str:
        """Record durably that a consumer has processed all changes up to a cursor."""
        return await self._run(self.corpus.commit_changes, consumer, cursor, rewind=rewind)

    async def consumers(self) -> list[Consumer]:
        """Return the consumers of the change feed, and how far behind each is."""
        return await self._run(self.corpus.consumers)

    async def remove_consumer(self, consumer: str) -> bool:
        """Remove a consumer of the change feed; return whether it existed."""
        return await self._run(self.corpus.remove_consumer, consumer)

    async def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness."""
        return await self._run(self.corpus.stats)

    async def metrics(self) -> CorpusMetrics:
        """Return figures for monitoring; see `Corpus.metrics`."""
        return await self._run(self.corpus.metrics)

    async def sample(self) -> Sample:
        """Return the present state for monitoring pages; see `Corpus.sample`."""
        return await self._run(self.corpus.sample)

    async def samples(
        self,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
        host: str | None = None,
        kind: str | None = None,
    ) -> Samples:
        """Return figures over time, of the corpus, a host or a kind; see `Corpus.samples`."""
        return await self._run(
            self.corpus.samples,
            step=step,
            since_ms=since_ms,
            until_ms=until_ms,
            host=host,
            kind=kind,
        )

    async def source_samples(
        self,
        source: str,
        host: str,
        *,
        step: str = "minute",
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> SourceSamples:
        """Return what was known of a source over time; see `Corpus.source_samples`."""
        return await self._run(
            self.corpus.source_samples,
            source,
            host,
            step=step,
            since_ms=since_ms,
            until_ms=until_ms,
        )

    async def plan(self) -> Plan:
        """Return the freshness that each budget buys for this corpus."""
        return await self._run(self.corpus.plan)

    async def plan_targets(
        self,
        targets: "Sequence[str | Target]" = (),
        *,
        budget_per_hour: float | None = None,
        is_weighted: bool = True,
    ) -> "CorpusPlan":
        """Return what budgets buy, by kind of page and host, and what targets cost."""
        return await self._run(
            self.corpus.plan_targets,
            targets,
            budget_per_hour=budget_per_hour,
            is_weighted=is_weighted,
        )

    async def reset_clock(self) -> float:
        """Move a corpus that is ahead of the system clock back; return by how many seconds."""
        return await self._run(self.corpus.reset_clock)

    async def open_partition(self, partition: int) -> None:
        """Open another partition, whose log is on Kafka, and claim it."""
        await self._run(self.corpus.open_partition, partition)

    async def close_partition(self, partition: int, *, snapshot: bool = True) -> None:
        """Close a partition, so that another process can open it."""
        await self._run(self.corpus.close_partition, partition, snapshot=snapshot)

    async def snapshot(self) -> None:
        """Take a snapshot of every partition now."""
        await self._run(self.corpus.snapshot)

    async def backup(self, dest: str | os.PathLike[str], *, keep: int = 7) -> "BackupResult":
        """Copy the corpus into a folder of backups, and check the copy."""
        return await self._run(self.corpus.backup, dest, keep=keep)

    async def last_scrub(self) -> ScrubReport | None:
        """Return what the last complete reading of all files found; None if there was none."""
        return await self._run(self.corpus.last_scrub)

    async def refresh(self) -> None:
        """Read what other processes have logged since; for a corpus opened with ``read_only``."""
        await self._run(self.corpus.refresh)
