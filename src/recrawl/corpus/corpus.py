"""A corpus: the pages somebody keeps, in one folder, and all that can be asked of them.

`Corpus` is the whole interface for one process; `recrawl.corpus.aio.AsyncCorpus` is its twin for
asyncio.  It routes what it is told to the partition of each page's host, and adds nothing of its
own to what nodes do.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.corpus.budget_split import Market
from recrawl.corpus.inspect.change_feed import Change, CorpusCursor, changes_after
from recrawl.corpus.inspect.explanation import PageExplanation, explained
from recrawl.corpus.inspect.page_table import page_batches
from recrawl.corpus.inspect.stats import Stats, stats_of
from recrawl.corpus.plan.curve import Plan, plan_of
from recrawl.errors import PositionLost, RecrawlError
from recrawl.ledger import Log
from recrawl.node.clock import Clock, NodeTime
from recrawl.node.config.corpus_config import CorpusConfig
from recrawl.node.durability.recovery import Partition, recovered, settings_event
from recrawl.node.durability.snapshotter import Snapshotter
from recrawl.node.node import Node, follow_price
from recrawl.node.numbering import Namer, NewPages
from recrawl.node.orders import Order, Outcome, order_of, orders_of, partition_of
from recrawl.node.reporting import answers_of, report_answers
from recrawl.node.routing import (
    Batch,
    Urls,
    as_amounts,
    as_array,
    as_numbers,
    cuts,
    known_host,
    null_where_same,
    partition_of_key,
    partitions_of,
    routed,
)
from recrawl.node.settings.hosts import HostSettings, politeness_event
from recrawl.node.settings.pages import PageSettings, set_by_pattern, set_pages
from recrawl.node.settings.patterns import apply_patterns
from recrawl.shard import (
    LeasesExtended,
    LeasesReleased,
    PagesRemoved,
    RequestsSeen,
    Signals,
    event_of,
)
from recrawl.store import Names
from recrawl.urls import canonical

__all__ = ["WAIT_SECONDS_MAX", "Added", "Corpus", "Reported"]

WAIT_SECONDS_MAX = 1.0
_LEASE_SECONDS_MAX = 366 * 86_400.0


class Added(NamedTuple):
    """What became of URLs that were to be added."""

    n_added: int
    n_known: int
    """There already, or twice among them."""
    n_refused: int
    """Not URLs that can be kept."""


class Reported(NamedTuple):
    """What became of outcomes, row by row."""

    counted: NDArray[np.bool_]
    """False: reported before, of a page or an order that is not known, or no later than the last
    outcome known."""
    transition: NDArray[np.uint8]
    """`recrawl.shard.Transition`: what it means to whoever follows changes."""


class Corpus:
    """The pages that somebody keeps; see `recrawl.open`.

    All methods may be called from several threads.

    Parameters
    ----------
    folder
        Of the corpus.
    nodes
        One per partition.
    partitions
        Where the parts of each are.
    log
        That the nodes share.
    config
        As the owner wrote it.
    clock
        To go by.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Node],
        partitions: Sequence[Partition],
        log: Log,
        config: CorpusConfig,
        clock: Clock,
    ) -> None:
        self.folder = folder
        self.nodes = list(nodes)
        self.config = config
        self._partitions_on_disk = partitions
        self._log = log
        self._clock = clock
        self.time = NodeTime(clock, max(node.shard.now_ms for node in nodes))
        self._namers = [Namer(node, config) for node in nodes]
        self._snapshotter = Snapshotter(
            [(node, part.snapshots) for node, part in zip(nodes, partitions, strict=True)],
            config,
            clock,
        )
        self._next_node = 0
        self._market = Market(nodes, config, clock)
        self._is_closed = False
        self.is_reader = nodes[0].is_reader

    # ------------------------------------------------------------------ life

    def begin(self, *, is_told: bool, before: CorpusConfig) -> None:
        """Claim the partitions and tell them what the configuration says.

        Parameters
        ----------
        is_told
            Whether there is one; otherwise it is that of the last time, and what was set since
            holds.
        before
            That of the last time.
        """
        owner = secrets.randbits(63)
        settings = self.config.shard_settings()
        for node, namer in zip(self.nodes, self._namers, strict=True):
            if node.position == 0:
                # The first record of every log, so that replay begins as this shard did.
                node.submit([settings_event(settings)])
            node.claim(owner, self.time)
            if is_told and node.shard.settings != settings:
                node.submit([settings_event(settings)])
            namer.name_kinds()
            node.shares = namer.shares()
            if is_told:
                apply_patterns(node, namer, self.config, before.patterns)
                namer.tell_hosts()
        if is_told:
            self._market.set_budget(self.config)
        else:
            self._market.begin_run(self.config)
        self._snapshotter.start()

    def close(self) -> None:
        """End; what was acknowledged is on disk already."""
        if self._is_closed:
            return
        self._is_closed = True
        self._snapshotter.stop()
        with ExitStack() as closing:
            # Each is closed, whatever becomes of the others.
            closing.callback(self._log.close)
            for node in self.nodes:
                closing.callback(node.store.close)
            if not self.is_reader:
                for node in self.nodes:
                    # Of a disk that is full, or a partition taken over, nothing new is to be said.
                    with suppress(RecrawlError):
                        node.note_price(self.time)
                self._snapshotter.take_last()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def snapshot(self) -> None:
        """Take a snapshot of every partition now; otherwise that happens by itself."""
        if self.is_reader or self._is_closed:
            state = "closed" if self._is_closed else "open for reading"
            raise RecrawlError(f"the corpus is {state}")
        self._snapshotter.take_all()

    def refresh(self) -> None:
        """See what has been logged since: for a corpus that is open for reading."""
        for i, node in enumerate(self.nodes):
            try:
                node.refresh()
                if self.is_reader:
                    follow_price(node.shard)
            except PositionLost:
                if not self.is_reader:
                    raise
                # The writer has forgotten that part of the log: a snapshot holds what it led to.
                node.store.close()
                self.nodes[i] = recovered(self._partitions_on_disk[i], is_reader=True)

    @property
    def partitions(self) -> Sequence[Partition]:
        """Where the parts of each partition are, to read what was."""
        return self._partitions_on_disk

    # ------------------------------------------------------------------ pages

    def _partitions(self, urls: pa.StringArray) -> NDArray[np.int64]:
        return partitions_of(urls, len(self.nodes), self.config.corpus.group_by)

    def _routed(self, urls: Urls) -> Iterator[Batch]:
        return routed(urls, len(self.nodes), self.config.corpus.group_by)

    def add(self, urls: Urls, *, importance: Any = None, cost: Any = None) -> Added:
        """Keep pages.  Those that are kept already stay as they are.

        Parameters
        ----------
        urls
            As they are to be fetched; what a page is known by is its canonical form.
        importance, cost
            Relative to other pages: one number, or one per URL.  Unless given, as the page's
            pattern says, or 1.
        """
        urls = as_array(urls)
        n_urls = len(urls)
        importances = as_amounts("importance", importance, n_urls)
        costs = as_amounts("cost", cost, n_urls)
        n_added = n_valid = 0
        for i, rows, url, given in self._routed(urls):
            fetch_url = null_where_same(given, url)
            new = NewPages(url, fetch_url, importances[rows], costs[rows])
            n_added += int(np.count_nonzero(self._namers[i].add(new, self.time)))
            n_valid += rows.size
        return Added(n_added, n_valid - n_added, n_urls - n_valid)

    def remove(self, urls: Urls) -> int:
        """Keep pages no longer; return how many there were."""
        n_removed = 0
        for i, _, url, _ in self._routed(urls):
            node = self.nodes[i]
            with node.lock:
                page = np.unique(node.store.pages_of(url))
                page = page[page >= 0]
                if page.size:
                    (applied,) = node.submit([event_of(PagesRemoved, page=page)])
                    n_removed += int(np.count_nonzero(applied.valid))
        return n_removed

    def set(self, urls: Urls | None = None, *, pattern: str | None = None, **settings: Any) -> int:
        """Set what holds for pages, given by URL or by pattern; return how many there are.

        Parameters
        ----------
        urls
            Of the pages.
        pattern
            That their URLs match, instead; all pages are looked at.
        **settings
            ``importance``, ``cost``, ``kind`` (a name), ``min_age``, ``max_age``, ``stale_for``,
            ``stale_probability``: see `recrawl.node.settings.pages.PageSettings`.
        """
        if (urls is None) == (pattern is None):
            raise ValueError("set must be given either urls or a pattern")
        told = PageSettings(**settings)
        if pattern is not None:
            return sum(
                set_by_pattern(node, namer, pattern, told)
                for node, namer in zip(self.nodes, self._namers, strict=True)
            )
        n_set = 0
        for i, _, url, _ in self._routed(urls if urls is not None else ()):
            node = self.nodes[i]
            with node.lock:
                page = np.unique(node.store.pages_of(url))
                n_set += set_pages(node, self._namers[i], page[page >= 0], told)
        return n_set

    def set_host(
        self,
        host: str,
        *,
        delay: float | None = None,
        in_flight_max: int | None = None,
        burst: int | None = None,
        blocked_until_ms: int | None = None,
        is_closed: bool | None = None,
    ) -> None:
        """Set how often a host (or domain, if pages are grouped so) may be asked.

        What is not given stays as it is.

        Parameters
        ----------
        host
            Of pages that are kept, or will be.
        delay
            Seconds between two fetches.
        in_flight_max
            Fetches at the same time.
        burst
            Fetches that may follow each other at once, where several may be in flight.
        blocked_until_ms
            Not to be asked before.
        is_closed
            Closed by its rules, or because these could not be read.
        """
        settings = HostSettings(
            delay=delay,
            in_flight_max=in_flight_max,
            burst=burst,
            blocked_until_ms=blocked_until_ms,
            is_closed=is_closed,
        )
        host = known_host(host, self.config.corpus.group_by)
        i = partition_of_key(host, len(self.nodes))
        node = self.nodes[i]
        with node.lock:
            number = int(self._namers[i].numbers(Names.GROUP, [host])[0])
            node.submit([politeness_event(node, number, settings)])

    # ------------------------------------------------------------------ orders

    def set_budget(self, rate: str | None) -> None:
        """Set what may be spent: ``"30/h"``, ``"100/run"``, None for as much as is asked for.

        Kept until it is set again, or until the corpus is opened with a configuration that says
        otherwise.
        """
        self._market.set_rate(rate)

    def lease(self, n: int, *, seconds: float | None = None, exact: bool = False) -> list[Order]:
        """Return up to ``n`` pages that are most worth fetching now, within budget and politeness.

        Each is held for whoever asked, until it is reported, released, or its time is up.

        Parameters
        ----------
        n
            Orders wanted at most.
        seconds
            How long they are held; as the configuration says unless given.
        exact
            Look at every page, also in a large corpus: for a batch once a night.
        """
        _check_seconds(seconds)
        self._market.rebalance()
        self._next_node = (self._next_node + 1) % len(self.nodes)
        turn = [*range(self._next_node, len(self.nodes)), *range(self._next_node)]
        found: list[Order] = []
        # A fair part from each, and then what is left from whoever has more.
        for share in (-(-n // len(turn)), n) if len(turn) > 1 else (n,):
            for i in turn:
                wanted = min(share, n - len(found))
                if wanted > 0:
                    found += self._lease_from(i, wanted, seconds, exact)
        return found

    def _lease_from(self, i: int, n: int, seconds: float | None, exact: bool) -> list[Order]:
        node = self.nodes[i]
        ordered = node.order(n, self.time, lease_seconds=seconds, exact=exact)
        if ordered.order.size == 0:
            return []
        return orders_of(node.store, i, ordered)

    def paced(
        self,
        *,
        batch_max: int = 100,
        seconds: float | None = None,
        for_seconds: float = float("inf"),
    ) -> Iterator[Order]:
        """Yield pages to fetch as the budget allows and they come due; waits between.

        Ends when the budget of a run (``"500/run"``) is spent, or after so many seconds.

        Parameters
        ----------
        batch_max
            Orders held by this iterator at most.
        seconds
            How long each is held for its fetcher.
        for_seconds
            How long to go on.
        """
        ends_ms = self._clock.running_ms() + for_seconds * 1000
        while self._clock.running_ms() < ends_ms:
            orders = self.lease(batch_max, seconds=seconds)
            left = [order.handle for order in reversed(orders)]
            try:
                for order in orders:
                    left.pop()
                    yield order
            finally:
                if left:  # whoever asked has stopped asking
                    self.release(left)
            if not orders:
                wait = self.wait_seconds()
                if wait == float("inf"):
                    return
                self._clock.sleep(min(wait, WAIT_SECONDS_MAX))

    def wait_seconds(self) -> float:
        """Return how long to wait before asking again, when there was nothing to do.

        Infinite when the budget of a run is spent.
        """
        return min(node.wait_seconds() for node in self.nodes)

    def extend(self, handles: Sequence[int], *, seconds: float) -> int:
        """Hold orders for so many seconds more from now; return how many still were held."""
        _check_seconds(seconds)
        expires_at_ms = self.time.now_ms() + round(seconds * 1000)
        return sum(
            self._count(i, event_of(LeasesExtended, order=order, expires_at_ms=expires_at_ms))
            for i, order in self._by_partition(handles)
        )

    def release(self, handles: Sequence[int]) -> int:
        """Give orders back, nothing fetched; return how many still were held.

        Their pages may be ordered again; what they cost of the budget stays spent.
        """
        return sum(
            self._count(i, event_of(LeasesReleased, order=order))
            for i, order in self._by_partition(handles)
        )

    def _by_partition(self, handles: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        handle = np.asarray(handles, np.int64).reshape(-1)
        partition = partition_of(handle)
        for i in np.unique(partition[(partition < len(self.nodes)) & (handle > 0)]):
            yield int(i), order_of(handle[partition == i])

    def _count(self, i: int, event: Any) -> int:
        node = self.nodes[i]
        with node.lock:
            node.tick(self.time)
            (applied,) = node.submit([event])
        return int(np.count_nonzero(applied.valid))

    def report(self, outcomes: Outcome | Iterable[Outcome] | pa.Table | pa.RecordBatch) -> Reported:
        """Say what fetches found, ordered or not.  A second report of an order does not count.

        Parameters
        ----------
        outcomes
            One, several, or a table with the fields of `Outcome` as columns.
        """
        answers = answers_of([outcomes] if isinstance(outcomes, Outcome) else outcomes)
        n_rows = answers.handle.size
        counted, transition = np.zeros(n_rows, np.bool_), np.zeros(n_rows, np.uint8)
        partition = np.where(answers.handle != 0, partition_of(answers.handle), -1)
        url = pa.nulls(n_rows, pa.string())
        by_url = np.flatnonzero(answers.handle == 0)
        if by_url.size:
            url = canonical(answers.url).url
            found = by_url[url.is_valid().to_numpy(zero_copy_only=False)[by_url]]
            partition[found] = self._partitions(url.take(pa.array(found)))
        for i in np.unique(partition[(partition >= 0) & (partition < len(self.nodes))]):
            own = np.flatnonzero(partition == i)
            for first, end in cuts(answers.n_bytes[own]):
                rows = own[first:end]
                part = answers if rows.size == n_rows else answers.take(rows)
                node = self.nodes[i]
                order = order_of(part.handle)
                page = node.pages_of_orders(order)
                named = np.flatnonzero(part.handle == 0)
                if named.size:
                    page[named] = node.store.pages_of(url.take(pa.array(rows[named])))
                counted[rows], transition[rows] = report_answers(node, page, order, part, self.time)
        return Reported(counted, transition)

    # ------------------------------------------------------------------ hints

    def signal(self, urls: Urls, *, source: str, at_ms: Any = 0, claimed_at_ms: Any = 0) -> int:
        """Say that pages may have changed; return how many of the hints counted.

        Parameters
        ----------
        urls
            Of pages that are kept; others are not heard.
        source
            Who says so, such as ``"sitemap"``: what it is worth is learned for each host.
        at_ms
            When it was heard; now unless given.
        claimed_at_ms
            When the page changed, as the source has it; 0 for not said.  One seen before is no
            hint.
        """
        if not source.isprintable() or not source:
            raise ValueError(f"source must be a name without control characters, got {source!r}")
        urls = as_array(urls)
        at, claimed = (
            as_numbers(at_ms, len(urls), np.int64),
            as_numbers(claimed_at_ms, len(urls), np.int64),
        )
        n_heard = 0
        for i, rows, url, _ in self._routed(urls):
            node = self.nodes[i]
            now_ms = node.tick(self.time)
            page = node.store.pages_of(url)
            known = np.flatnonzero(page >= 0)
            if known.size == 0:
                continue
            number = self._namers[i].sources(url.take(pa.array(known)), source)
            heard = at[rows[known]]
            event = event_of(
                Signals,
                page=page[known],
                source=number,
                at_ms=np.where(heard > 0, heard, now_ms),
                claimed_at_ms=claimed[rows[known]],
            )
            (applied,) = node.submit([event])
            n_heard += int(np.count_nonzero(applied.valid))
        return n_heard

    def requests(self, urls: Urls, n_requests: Any = 1, *, at_ms: Any = 0) -> int:
        """Say how often pages were asked for, which makes them important; return how many known.

        Parameters
        ----------
        urls
            Of pages that are kept; others are not counted.
        n_requests
            Of each, since the last time this was told.
        at_ms
            Up to when; now unless given.
        """
        urls = as_array(urls)
        count = as_amounts("n_requests", n_requests, len(urls))
        at = as_numbers(at_ms, len(urls), np.int64)
        n_counted = 0
        for i, rows, url, _ in self._routed(urls):
            node = self.nodes[i]
            now_ms = node.tick(self.time)
            event = event_of(
                RequestsSeen,
                page=node.store.pages_of(url),
                n_requests=count[rows],
                at_ms=np.where(at[rows] > 0, at[rows], now_ms),
            )
            (applied,) = node.submit([event])
            n_counted += int(np.count_nonzero(applied.valid))
        return n_counted

    # ------------------------------------------------------------------ asking

    def _locked(self) -> ExitStack:
        stack = ExitStack()
        for node in self.nodes:
            stack.enter_context(node.lock)
        return stack

    def explain(self, url: str) -> PageExplanation | None:
        """Return everything known of a page and why it is or is not due; None if not kept."""
        for i, _, canon, _ in self._routed([url]):
            return explained(self.nodes[i], canon, self.time.now_ms())
        return None

    def pages(
        self, columns: Sequence[str] | None = None, *, batch: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Yield what is known of all pages, in batches of rows.

        Parameters
        ----------
        columns
            Names of `recrawl.corpus.inspect.page_table.PAGE_COLUMNS`; all unless given.
        batch
            Rows of a batch at most.
        """
        return page_batches(self.nodes, columns, batch, self.time.now_ms())

    def changes(self, after: str | None = None, *, limit: int = 1_000) -> list[Change]:
        """Return what happened to pages after a cursor, oldest first.

        Parameters
        ----------
        after
            The cursor of the last change seen, which stays good when the corpus is closed; None
            to begin with the oldest change that is kept.
        limit
            Changes wanted at most.
        """
        return changes_after(self.nodes, CorpusCursor.parse(after, len(self.nodes)), limit)

    def stats(self) -> Stats:
        """Return counts, budget, price and modelled freshness."""
        with self._locked():
            return stats_of([node.shard for node in self.nodes], now_ms=self.time.now_ms())

    def plan(self) -> Plan:
        """Return freshness against budget for this corpus."""
        with self._locked():
            kinds = [_kind_names(node) for node in self.nodes]
            return plan_of(
                [node.shard for node in self.nodes], kinds=kinds, now_ms=self.time.now_ms()
            )


def _kind_names(node: Node) -> dict[int, str]:
    numbers = range(1, node.store.n_named(Names.KIND) + 1)
    names = node.store.names_of(Names.KIND, numbers)
    return {number: name or "" for number, name in zip(numbers, names, strict=True)}


def _check_seconds(seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds <= _LEASE_SECONDS_MAX:
        raise ValueError(f"seconds must be positive, and a year at most, got {seconds!r}")
