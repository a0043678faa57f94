"""Assign numbers to pages, groups, kinds and sources.

A shard knows pages and names only by number.  The owner of the partition assigns the numbers and
logs them with its epoch; a replay reads them from the log.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recrawl.errors import ConfigError, RecrawlError
from recrawl.node.clock import NodeTime
from recrawl.node.config.corpus_config import CorpusConfig, PatternConfig
from recrawl.node.config.holdout_section import HoldoutConfig, keeps_old_rule
from recrawl.node.domains import domain_entries, limit_event
from recrawl.node.node import Node, Submission
from recrawl.node.open_nodes import commit_together, lock_nodes, tick_each
from recrawl.node.records import LogEntry, NamesNumbered, PagesAddedWithUrls
from recrawl.node.routing import batch_ranges, partition_of_key, split_partitions_of
from recrawl.node.split_hosts.homes import split_entries
from recrawl.node.user_data import UserColumns, set_user_data
from recrawl.shard import (
    DomainsSet,
    GroupsSet,
    GroupsSplit,
    LimitsSet,
    PagesAdded,
    PagesRemoved,
    PageStatus,
    event_of,
)
from recrawl.shard.events import SCHEDULE_STALE_SECONDS, slot_of_page
from recrawl.shard.state.tables import GROUP_UNLIMITED, Groups
from recrawl.shard.state.words import EPOCH_SECONDS
from recrawl.store import Names
from recrawl.urls import PatternSet, group_index, group_keys, page_names

__all__ = [
    "AddedRows",
    "Namer",
    "PagesToAdd",
    "add_together",
    "held_out_limits",
    "limits_columns",
]


# Limit of a name: a host, or the name of a source followed by a host.
_NAME_BYTES_MAX = 3_000
# Limit of the cached numbers in each namespace: about 100 MB with that many hosts.
_RECENT_MAX = 1 << 19
_NO_ROWS = np.zeros(0, np.int64)


class PagesToAdd(NamedTuple):
    """Pages to add to one partition."""

    url: pa.StringArray
    """Canonical URL."""
    fetch_url: pa.StringArray
    """URL to request, null where it equals ``url``."""
    importance: NDArray[np.float32]
    """Importance of the page; NaN means that of its pattern."""
    cost: NDArray[np.float32]
    """Cost of a fetch; NaN means that of the page's pattern."""
    own: UserColumns | None = None
    """The user's own data of each page; None if there are none."""
    key: pa.StringArray | None = None
    """Key of each page; None unless the corpus is grouped by key."""

    @property
    def name(self) -> pa.StringArray:
        """Names of the pages, by which the store finds them."""
        return page_names(self.key, self.url)

    def take(self, rows: NDArray[np.int64]) -> "PagesToAdd":
        """Return some of the pages."""
        index = pa.array(rows)
        return PagesToAdd(
            self.url.take(index),
            self.fetch_url.take(index),
            self.importance[rows],
            self.cost[rows],
            None if self.own is None else self.own.take(rows),
            None if self.key is None else self.key.take(index),
        )


class AddedRows(NamedTuple):
    """Result of adding pages to one partition."""

    is_added: NDArray[np.bool_]
    """Which rows were added; the others are tracked already."""
    n_limited: int = 0
    """Number of added pages that are newcomers, with a limited share of fetches."""
    limited_until_ms: int = 0
    """When the last of them stops being one, in milliseconds since 1970; 0 for none."""
    elsewhere: NDArray[np.int64] | None = None
    """Rows with new pages of split hosts that belong to other partitions; None for none."""


class _BegunAdd(NamedTuple):
    """Pages that are to be added and not yet logged."""

    new: PagesToAdd
    rows: NDArray[np.int64]
    """Rows that are not tracked yet."""
    elsewhere: NDArray[np.int64] | None
    """As in `AddedRows`."""
    page: NDArray[np.int64]
    """Number of the page of each row that is added."""
    group: NDArray[np.int64]
    """Number of its group."""
    at_ms: int
    """Time of the addition, in milliseconds since 1970."""
    additions: slice
    """Which of the entries add them."""
    submission: Submission


def limits_columns(pattern: PatternConfig) -> dict[str, float] | None:
    """Return the columns of `LimitsSet` for the limits of a pattern; None if it has none."""
    has_staleness_limit = pattern.stale_probability is not None and pattern.stale_for is not None
    if pattern.max_age is None and pattern.min_age is None and not has_staleness_limit:
        return None
    return {
        "interval_seconds_min": pattern.min_age or 0.0,
        "interval_seconds_max": float("inf") if pattern.max_age is None else pattern.max_age,
        "stale_seconds": (pattern.stale_for or 0.0) if has_staleness_limit else 0.0,
        "stale_probability": (pattern.stale_probability or 0.0) if has_staleness_limit else 0.0,
    }


def held_out_limits(page: NDArray[np.int64], config: HoldoutConfig) -> LimitsSet:
    """Return the event by which pages of held-out groups are fetched at a fixed interval.

    Audits may fetch them in between: otherwise they would meet only copies that are as old as the
    interval, and the hold-out would seem less fresh than it is.
    """
    assert config.interval is not None
    return event_of(
        LimitsSet,
        page=page,
        interval_seconds_min=config.interval,
        interval_seconds_max=config.interval,
        stale_seconds=SCHEDULE_STALE_SECONDS,
        stale_probability=0.0,
    )


class Namer:
    """Assigns numbers to the names and pages of one node, and adds pages by its configuration.

    Parameters
    ----------
    node
        Node whose store holds the names that have numbers.
    config
        Configuration of patterns and hosts.
    can_split
        Function that returns whether groups that are too large are split over partitions now.
    """

    def __init__(
        self,
        node: Node,
        config: CorpusConfig,
        *,
        can_split: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node = node
        self._can_split = can_split
        self._config = config
        self._patterns = patterns = config.patterns
        self._recent: dict[Names, dict[str, int]] = {}
        self._matcher = PatternSet([pattern.match for pattern in patterns])
        # One value per pattern; the last one (index -1) is for URLs that match no pattern.
        self._kind = np.zeros(len(patterns) + 1, np.uint16)
        self._importance = np.ones(len(patterns) + 1, np.float32)
        self._cost = np.ones(len(patterns) + 1, np.float32)
        for i, pattern in enumerate(patterns):
            self._importance[i] = pattern.importance if pattern.importance is not None else 1.0
            self._cost[i] = pattern.cost if pattern.cost is not None else 1.0

    def _assign_numbers(
        self, what: Names, keys: Sequence[str]
    ) -> tuple[NDArray[np.int64], list[LogEntry]]:
        """Return the numbers of names, and the entries to log for new names."""
        store = self._node.store
        numbers = self._look_up_numbers(what, keys)
        new = np.flatnonzero(numbers < 0)
        if new.size == 0:
            return numbers, []
        # Checked before logging, because a logged entry can no longer be rejected.
        for i in new.tolist():
            if len(keys[i].encode()) > _NAME_BYTES_MAX:
                raise ValueError(
                    f"a name must have at most {_NAME_BYTES_MAX} bytes, got {keys[i]!r}"
                )
        # Kind 0 is for pages that match no pattern.
        first = store.n_names(what) + (1 if what == Names.KIND else 0)
        numbers[new] = first + np.arange(new.size)
        settings = self._node.shard.settings
        limit = {
            Names.GROUP: settings.groups_max,
            Names.KIND: settings.kinds_max,
            Names.SOURCE: settings.sources_max,
        }[what]
        if numbers.max() >= limit:
            raise ValueError(
                f"there is no room for {keys[int(numbers.argmax())]!r}: the limit is {limit}; "
                f"raise capacity.{what.name.lower()}s_max"
            )
        event = NamesNumbered(
            np.full(new.size, self._node.shard.epoch, np.int64),
            np.full(new.size, what, np.uint8),
            numbers[new].astype(np.uint32),
            pa.array([keys[i] for i in new.tolist()], pa.string()),
        )
        return numbers, [event]

    def _look_up_numbers(self, what: Names, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of names, -1 for names without one."""
        recent = self._recent.setdefault(what, {})
        numbers = np.fromiter((recent.get(key, -1) for key in keys), np.int64, len(keys))
        missing = np.flatnonzero(numbers < 0).tolist()
        if missing:
            missing_keys = [keys[i] for i in missing]
            numbers[missing] = found = self._node.store.numbers_of(what, missing_keys)
            if len(recent) + len(missing_keys) > _RECENT_MAX:
                recent.clear()
            # Safe to cache, because a name keeps its number for ever.
            recent.update(
                (key, number)
                for key, number in zip(missing_keys, found.tolist(), strict=True)
                if number >= 0
            )
        return numbers

    def numbers(self, what: Names, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of distinct names; assign and log numbers for new names."""
        numbers = self._look_up_numbers(what, keys)
        if (numbers >= 0).all():
            return numbers
        with self._node.lock:
            self._node.check_owner()
            numbers, entries = self._assign_numbers(what, keys)
            if what == Names.GROUP:
                parts = self._part_entries(entries)
                entries += self._domain_entries(entries)
                entries += parts
            self._node.submit(entries)
            # A new owner may have taken over meanwhile; the numbers would be void.
            self._node.check_owner()
            return numbers

    def source_numbers(self, name: pa.StringArray, source: str) -> NDArray[np.int64]:
        """Return the number of a source for each page; each group of pages has its own."""
        distinct, index = group_index(name, self._config.corpus.group_by)
        keys = [f"{source}\t{group}" for group in distinct.to_pylist()]
        return self.numbers(Names.SOURCE, keys)[index]

    def number_kinds(self) -> None:
        """Assign numbers to the kinds of all patterns."""
        names = list(dict.fromkeys(pattern.kind_name for pattern in self._patterns))
        if names:
            try:
                found = self.numbers(Names.KIND, names)
            except ValueError as error:
                raise ConfigError(f"pattern: {error}") from None
            numbers = dict(zip(names, found, strict=True))
            self._kind[:-1] = [numbers[pattern.kind_name] for pattern in self._patterns]

    def shares(self) -> dict[int, float]:
        """Return the share of the budget that the configuration reserves for each kind."""
        return {
            int(kind): pattern.share
            for kind, pattern in zip(self._kind, self._patterns, strict=False)
            if pattern.share is not None
        }

    def kinds_of(self, pattern: NDArray[np.int16]) -> NDArray[np.uint16]:
        """Return the kinds of pages from the indices of their patterns, -1 for no pattern."""
        kind: NDArray[np.uint16] = self._kind[pattern]
        return kind

    def match(self, urls: pa.StringArray) -> NDArray[np.int16]:
        """Return the index of the first pattern that each URL matches, -1 for none."""
        if not self._patterns:
            return np.full(len(urls), -1, np.int16)
        return self._matcher.first_match(urls)

    def add(self, new: PagesToAdd, time: NodeTime) -> AddedRows:
        """Add pages that are not tracked yet; return which rows were added.

        Tracked pages keep everything but the user's own data, which is set where it is given.
        """
        with self._node.lock:
            now_ms = self._node.tick(time)
            begun = self._begin_add(new, now_ms)
            return begun if isinstance(begun, AddedRows) else self._finish_add(begun)

    def _begin_add(self, new: PagesToAdd, now_ms: int) -> "AddedRows | _BegunAdd":
        """Put pages that are not tracked yet into the next append; hold the node's lock.

        Returns the result if there are none.
        """
        node = self._node
        n_rows = len(new.url)
        node.check_owner()
        names = new.name
        rows = _first_occurrences(names)
        url = new.url if rows.size == n_rows else new.url.take(pa.array(rows))
        name = names if rows.size == n_rows else names.take(pa.array(rows))
        page = node.store.pages_of(name)
        is_elsewhere = self._find_elsewhere(name, page)
        kept = self._remove_retired(page)
        absent = (page < 0) & ~is_elsewhere
        elsewhere = rows[is_elsewhere] if is_elsewhere.any() else None
        self._add_missing_limits(url, name, page)
        if not absent.any():
            self._set_user_data(new)
            return AddedRows(np.zeros(n_rows, np.bool_), elsewhere=elsewhere)
        rows = rows[absent]
        fetch_url, key = new.fetch_url, new.key
        if rows.size != n_rows:
            url, name = new.url.take(pa.array(rows)), names.take(pa.array(rows))
            fetch_url = fetch_url.take(pa.array(rows))
            key = None if key is None else key.take(pa.array(rows))
        pattern = self.match(url)
        group, group_entries = self._groups(name)
        importance, cost = new.importance[rows], new.cost[rows]
        added = event_of(
            PagesAdded,
            page=node.shard.free_pages(rows.size),
            group=group,
            kind=self.kinds_of(pattern),
            importance=np.where(np.isnan(importance), self._importance[pattern], importance),
            cost=np.where(np.isnan(cost), self._cost[pattern], cost),
            at_ms=now_ms,
        )
        epoch = np.full(rows.size, node.shard.epoch, np.int64)
        given = None if new.own is None else new.own.take(rows)
        own = given if kept is None else kept.take(np.flatnonzero(absent)).merge(given)
        doc_id, metadata = (None, None) if own is None else (own.doc_id, own.metadata)
        with_urls = PagesAddedWithUrls(added, epoch, url, fetch_url, doc_id, metadata, key)
        additions = _in_records(with_urls, own)
        limits = self._limits_of_new(name, added.page, pattern)
        entries = [*group_entries, *additions, *limits]
        first = len(group_entries)
        return _BegunAdd(
            new=new,
            rows=rows,
            elsewhere=elsewhere,
            page=added.page,
            group=group,
            at_ms=now_ms,
            additions=slice(first, first + len(additions)),
            submission=node.begin(entries),
        )

    def _finish_add(self, begun: "_BegunAdd") -> AddedRows:
        """Wait until pages are logged and added, or do it; hold the node's lock since the begin."""
        node = self._node
        applied = node.finish(begun.submission)[begun.additions]
        node.check_owner()
        n_rows = len(begun.new.url)
        is_added = np.zeros(n_rows, np.bool_)
        is_valid = np.concatenate([part.valid for part in applied])
        is_added[begun.rows] = is_valid
        if begun.rows.size != n_rows:
            self._set_user_data(begun.new)
        slots = slot_of_page(begun.page[is_valid])
        until = node.shard.tables.pages.newcomer_until[slots].astype(np.int64)
        self._split_large_groups(begun.group, begun.at_ms)
        n_limited = int(np.count_nonzero(until))
        last = (int(until.max()) + EPOCH_SECONDS) * 1000 if n_limited else 0
        return AddedRows(is_added, n_limited, last, begun.elsewhere)

    def _find_elsewhere(self, name: pa.StringArray, page: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which new pages are on split hosts and belong to other partitions.

        Only the home partition of a host decides: other partitions get only what is theirs.
        """
        is_elsewhere = np.zeros(page.size, np.bool_)
        hosts, n_partitions = self._node.split_hosts(), self._config.corpus.partitions
        rows = np.flatnonzero(page < 0) if hosts else _NO_ROWS
        if rows.size == 0:
            return is_elsewhere
        keys = group_keys(name.take(pa.array(rows)), self._config.corpus.group_by)
        home = self._node.partition
        own = [host for host in hosts if partition_of_key(host, n_partitions) == home]
        rows = rows[pc.is_in(keys, pa.array(own, pa.string())).to_numpy(zero_copy_only=False)]
        if rows.size:
            part = split_partitions_of(name.take(pa.array(rows)), home, n_partitions)
            is_elsewhere[rows[part != home]] = True
        return is_elsewhere

    def _split_large_groups(self, group: NDArray[np.int64], now_ms: int) -> None:
        """Split the groups among these that have become too large for one partition."""
        node, most = self._node, self._config.corpus.group_pages_max
        if most == 0 or self._config.corpus.partitions == 1:
            return
        group = np.unique(group)
        n_pages = node.shard.tables.groups.n_pages[group]
        large = np.setdiff1d(group[n_pages > most], node.shard.split_groups).tolist()
        if large and self._can_split():
            node.submit(split_entries(node, large, now_ms))

    def _part_entries(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Return the entries that say which new groups have their home in another partition."""
        n_partitions = self._config.corpus.partitions
        numbers = [
            number
            for entry in entries
            if isinstance(entry, NamesNumbered) and n_partitions > 1
            for key, number in zip(entry.key.to_pylist(), entry.number.tolist(), strict=True)
            if partition_of_key(key, n_partitions) != self._node.partition
        ]
        if not numbers:
            return []
        return [event_of(GroupsSplit, epoch=self._node.shard.epoch, group=numbers)]

    @property
    def node(self) -> Node:
        """Node of the partition."""
        return self._node

    def _set_user_data(self, new: PagesToAdd) -> None:
        """Set the given data of all pages; the last value counts if a page is given twice."""
        if new.own is not None:
            set_user_data(self._node, self._node.store.pages_of(new.name), new.own)

    def _add_missing_limits(
        self, url: pa.StringArray, name: pa.StringArray, page: NDArray[np.int64]
    ) -> None:
        """Set the limits of tracked pages that lack them because an earlier add was interrupted."""
        known = np.flatnonzero(page >= 0)
        has_limits = any(limits_columns(row) is not None for row in self._patterns)
        if known.size == 0 or not (has_limits or self._config.holdout.share > 0):
            return
        known = known[self._node.shard.tables.pages.limits[slot_of_page(page[known])] == 0]
        if known.size:
            pattern = self.match(url.take(pa.array(known)))
            own = name.take(pa.array(known))
            self._node.submit(self._limits_of_new(own, page[known], pattern))

    def _limits_of_new(
        self, name: pa.StringArray, page: NDArray[np.int64], pattern: NDArray[np.int16]
    ) -> list[LogEntry]:
        """Return the events that set the limits of pages by their patterns, or by the hold-out."""
        holdout = self._config.holdout
        if holdout.share <= 0:
            return self.limits_events(page, pattern)
        distinct, index = group_index(name, self._config.corpus.group_by)
        held = keeps_old_rule(distinct, holdout)[index]
        events = self.limits_events(page[~held], pattern[~held])
        return [*events, held_out_limits(page[held], holdout)] if held.any() else events

    def _remove_retired(self, page: NDArray[np.int64]) -> UserColumns | None:
        """Remove retired pages, so that they can be added again; sets them to -1 in ``page``.

        Returns the user's own data of these pages, null in other rows; None if no page is retired.
        """
        status = self._node.shard.tables.pages.status
        retired = np.flatnonzero(page >= 0)
        retired = retired[status[slot_of_page(page[retired])] == PageStatus.RETIRED]
        if retired.size == 0:
            return None
        kept = self._node.store.user_data_of(np.where(np.isin(page, page[retired]), page, -1))
        self._node.submit([event_of(PagesRemoved, page=page[retired])])
        page[retired] = -1
        doc_id, metadata = (pa.array(column, pa.string()) for column in kept)
        return UserColumns(doc_id, metadata, {})

    def _groups(self, name: pa.StringArray) -> tuple[NDArray[np.int64], list[LogEntry]]:
        """Return the group of each page, and the entries to log for new groups."""
        distinct, index = group_index(name, self._config.corpus.group_by)
        keys: list[str] = distinct.to_pylist()
        numbers, entries = self._assign_numbers(Names.GROUP, keys)
        if entries:
            new = entries[0]
            assert isinstance(new, NamesNumbered)
            new_groups = list(zip(new.key.to_pylist(), new.number.tolist(), strict=True))
            parts = self._part_entries(entries)
            entries += self._domain_entries(entries)
            entries += parts
            if self._config.hosts:
                entries += self._unlimited_entries(new_groups, entries)
                entries += self.group_events(new_groups)
        return numbers[index], entries

    def _domain_entries(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Return the entries that tell the shard the domains of new hosts."""
        if self._config.corpus.group_by != "host":
            return []
        new = [
            pair
            for entry in entries
            if isinstance(entry, NamesNumbered)
            for pair in zip(entry.key.to_pylist(), entry.number.tolist(), strict=True)
        ]
        return domain_entries(self._node, new) if new else []

    def _unlimited_entries(
        self, hosts: Sequence[tuple[str, int]], entries: Sequence[LogEntry]
    ) -> list[LogEntry]:
        """Return the entries for new hosts whose new pages are configured not to be limited.

        Parameters
        ----------
        hosts
            Names and numbers of the new hosts.
        entries
            Entries before these, with the domains of the hosts.
        """
        wanted = [n for host, n in hosts if self._is_unlimited(host)]
        if not wanted:
            return []
        domain = {
            group: of
            for entry in entries
            if isinstance(entry, DomainsSet)
            for group, of in zip(entry.group.tolist(), entry.domain.tolist(), strict=True)
        }
        domains = [domain.get(n, n) for n in wanted]
        return [event_of(DomainsSet, group=wanted, domain=domains, is_unlimited=1)]

    def _is_unlimited(self, host: str) -> bool | None:
        own = self._config.hosts.get(host)
        return None if own is None else own.unlimited

    def apply_host_settings(self) -> None:
        """Log the configured settings of known hosts where they differ from the current ones."""
        hosts = list(self._config.hosts)
        numbers = self._look_up_numbers(Names.GROUP, hosts)
        known = [(host, n) for host, n in zip(hosts, numbers.tolist(), strict=True) if n >= 0]
        groups = self._node.shard.tables.groups
        different = [
            (host, n)
            for host, n in known
            if n >= groups.delay_ms.size or self._host_differs(host, groups, n)
        ]
        limits = [
            limit_event(self._node, n, is_unlimited=wanted)
            for host, n in known
            if (wanted := self._is_unlimited(host)) is not None
            and wanted != bool(n < groups.flags.size and groups.flags[n] & GROUP_UNLIMITED)
        ]
        self._node.submit([*self.group_events(different), *limits])

    def _host_differs(self, host: str, groups: Groups, n: int) -> bool:
        politeness = self._config.politeness_of(host)
        wanted = (round(politeness.delay * 1000), politeness.in_flight_max, politeness.burst)
        found = (groups.delay_ms[n], groups.in_flight_max[n], groups.burst[n])
        return wanted != tuple(int(value) for value in found)

    def group_events(self, groups: Sequence[tuple[str, int]]) -> list[LogEntry]:
        """Return the events that set the configured politeness of groups."""
        configured = [
            (number, self._config.politeness_of(key))
            for key, number in groups
            if key in self._config.hosts
        ]
        if not configured:
            return []
        return [
            event_of(
                GroupsSet,
                group=[number for number, _ in configured],
                delay_ms=[round(politeness.delay * 1000) for _, politeness in configured],
                in_flight_max=[politeness.in_flight_max for _, politeness in configured],
                burst=[politeness.burst for _, politeness in configured],
                blocked_until_ms=0,
                is_closed=0,
            )
        ]

    def limits_events(self, page: NDArray[np.int64], pattern: NDArray[np.int16]) -> list[LogEntry]:
        """Return the events that set the limits of pages by their patterns."""
        events: list[LogEntry] = []
        for i in np.unique(pattern[pattern >= 0]):
            columns = limits_columns(self._patterns[i])
            if columns is not None:
                events.append(event_of(LimitsSet, page=page[pattern == i], **columns))
        return events


def _in_records(entry: PagesAddedWithUrls, own: UserColumns | None) -> list[PagesAddedWithUrls]:
    """Return an entry in parts that fit into records.

    Retired pages keep the data of their users, whose size the caller did not know.
    """
    ranges = [] if own is None else list(batch_ranges(own.n_bytes))
    if len(ranges) < 2:
        return [entry]
    added, epoch, *texts = entry
    columns = added._asdict()
    return [
        PagesAddedWithUrls(
            event_of(PagesAdded, **{name: column[first:end] for name, column in columns.items()}),
            epoch[first:end],
            *(None if text is None else text.slice(first, end - first) for text in texts),
        )
        for first, end in ranges
    ]


def _first_occurrences(url: pa.StringArray) -> NDArray[np.int64]:
    """Return the rows whose URL does not occur in an earlier row."""
    encoded = url.dictionary_encode()
    if len(encoded.dictionary) == len(url):
        return np.arange(len(url))
    index = encoded.indices.to_numpy()
    return np.sort(np.unique(index, return_index=True)[1])


def add_together(
    pages: Sequence[tuple[Namer, PagesToAdd]], time: NodeTime
) -> list[AddedRows | RecrawlError]:
    """Add pages to several partitions; their appends to the log are under way together.

    Parameters
    ----------
    pages
        Pages of each partition, with the namers of different nodes; at most `TOGETHER_MAX`.
    time
        Time of the corpus.

    Returns
    -------
    list of AddedRows or RecrawlError
        Result of each partition: one that fails affects no other.
    """
    if len(pages) == 1:
        namer, new = pages[0]
        try:
            return [namer.add(new, time)]
        except RecrawlError as error:
            return [error]
    found: list[AddedRows | RecrawlError | _BegunAdd] = []
    nodes = [namer.node for namer, _ in pages]
    with lock_nodes(nodes):
        now_ms = time.now_ms()
        failed = tick_each(nodes, now_ms)
        try:
            for namer, new in pages:
                found.append(failed.get(namer.node.partition) or _begin_add(namer, new, now_ms))
        finally:
            # What was begun is logged in any case, also if the rows of another are not valid.
            commit_together(nodes)
        return [
            _finish_add(namer, one) if isinstance(one, _BegunAdd) else one
            for (namer, _), one in zip(pages, found, strict=True)
        ]


def _begin_add(namer: Namer, new: PagesToAdd, now_ms: int) -> AddedRows | _BegunAdd | RecrawlError:
    try:
        return namer._begin_add(new, now_ms)
    except RecrawlError as error:
        return error


def _finish_add(namer: Namer, begun: _BegunAdd) -> AddedRows | RecrawlError:
    try:
        return namer._finish_add(begun)
    except RecrawlError as error:
        return error
