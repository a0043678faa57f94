"""Read the history of one page from the log: polls, signals, orders and, if wanted, beliefs.

One pass reads the log from its beginning or its oldest snapshot, and collects only what is about
the page.  With beliefs, it also applies every record to a shard, as opening a corpus does, so the
freshness, value and price at each moment are those that the node had then.  Earlier changes come
from the feed of changes, which reaches further back than the log but has no polls.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.past.replay import (
    LogTime,
    OnRecord,
    Step,
    locate_page,
    log_start_time,
    nearest_start,
    steps,
)
from recrawl.corpus.view import CorpusView
from recrawl.node.durability.recovery import Partition
from recrawl.node.node import apply_entry, use_logged_price
from recrawl.node.records import (
    ADDED_SCHEMAS,
    REPORTED_SCHEMAS,
    LogEntry,
    PagesAddedWithUrls,
    PagesReported,
    entry_of,
)
from recrawl.shard import (
    Applied,
    Claimed,
    LeasesExpired,
    LeasesReleased,
    Ordered,
    Outcomes,
    PagesRemoved,
    Reason,
    Shard,
    Signals,
    Ticked,
    Transition,
    Verdict,
)
from recrawl.shard.events import SCHEMA_ID
from recrawl.shard.explain import Explanation
from recrawl.store import Cursor, Names, Store

__all__ = [
    "CHANGES_READ_MAX",
    "EVENTS_MAX",
    "PAGES_REPLAYED_MAX",
    "BeliefSeries",
    "EarlierChange",
    "PageHistory",
    "PageOrder",
    "PageSignal",
    "Poll",
    "read_page_history",
]

EVENTS_MAX = 100_000
"""Largest number of polls, of signals and of orders in a history; the oldest are dropped."""
CHANGES_READ_MAX = 2_000_000
"""Number of changes of the feed that are searched, the newest first."""
PAGES_REPLAYED_MAX = 100_000
"""Number of pages of a partition up to which a history with a limit replays the log."""
# Kinds of records that can be about a page or have the time, of the shard and of the node.
_SCHEMAS_READ = frozenset(
    {SCHEMA_ID[kind] for kind in (Outcomes, Signals, Ordered, PagesRemoved, LeasesReleased)}
    | {SCHEMA_ID[kind] for kind in (Ticked, Claimed, LeasesExpired)}
    | ADDED_SCHEMAS
    | REPORTED_SCHEMAS
)
_HEAD_BYTES = 1 << 20
# Number of moments at which beliefs are sampled, up to the end and beyond it.
_MOMENTS = 240
_MOMENTS_AHEAD = 40
# Time shown beyond the end for a page that is never due or overdue, as a share of the history.
_AHEAD_SHARE = 0.15
_AHEAD_SHARE_MAX = 0.5


class Poll(NamedTuple):
    """One fetch of the page and its result."""

    at_ms: int
    """Time of the report, by the node's clock."""
    fetched_at_ms: int
    """Time of the fetch by the fetcher's clock, limited to the time between order and report."""
    verdict: Verdict
    transition: Transition | None
    """What the result means for the page; None if unknown."""
    is_counted: bool | None
    """False for an outcome that was ignored, such as a second report; None if unknown."""


class PageSignal(NamedTuple):
    """One signal that the page may have changed."""

    at_ms: int
    source: str


class PageOrder(NamedTuple):
    """One decision to fetch the page."""

    at_ms: int
    reason: Reason


class EarlierChange(NamedTuple):
    """A change from before the beginning of the log, known only from the feed of changes."""

    at_ms: int
    transition: Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefSeries:
    """Freshness, value and price of a page over time, one row per moment."""

    at_ms: CountArray
    freshness: FloatArray
    """Probability that the copy was fresh; nan before the first fetch."""
    value: FloatArray
    """Value of a fetch, per cost."""
    price: FloatArray
    """Price that the value had to reach; nan before there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHistory:
    """Events of a page as far back as the log reaches, oldest first."""

    url: str
    from_ms: int
    """Beginning of the log, or of the page if that is later."""
    until_ms: int
    is_whole: bool
    """Whether the history is complete, from the adding of the page on."""
    polls: tuple[Poll, ...]
    signals: tuple[PageSignal, ...]
    orders: tuple[PageOrder, ...]
    earlier: tuple[EarlierChange, ...]
    """Changes before ``from_ms``, as far back as the feed of changes reaches."""
    believed: BeliefSeries | None
    """Freshness, value and price up to ``until_ms``; None if not requested."""
    ahead: BeliefSeries | None
    """The same from ``until_ms`` to the time the page comes due, if nothing happens until then."""
    is_belief_present: bool = False
    """Whether ``believed`` shows freshness by the present belief, not by that of each moment."""
    due_at_ms: int | None = None
    """When the page comes due if nothing happens until then; None for never, if it is not tracked
    any more, or if the history ends in the past."""

    @property
    def begins_ms(self) -> int:
        """The earlier of ``from_ms`` and the first poll: imported fetches may be before it."""
        return min([self.from_ms, *(poll.fetched_at_ms for poll in self.counted)])

    @property
    def counted(self) -> tuple[Poll, ...]:
        """Polls without those that were ignored."""
        return tuple(poll for poll in self.polls if poll.is_counted is not False)

    @property
    def seen(self) -> tuple[Poll, ...]:
        """Counted polls that saw the page, or that it was gone."""
        return tuple(poll for poll in self.counted if poll.verdict < Verdict.DISALLOWED)

    @property
    def n_changes(self) -> int:
        """Number of polls that found a change."""
        return sum(is_change(poll) for poll in self.counted)

    @property
    def n_reverted(self) -> int:
        """Number of polls that found an earlier version again."""
        return sum(poll.verdict == Verdict.REVERTED for poll in self.counted)

    @property
    def n_seen(self) -> int:
        """Number of polls that saw the page, or that it was gone."""
        return len(self.seen)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, for JSON."""
        return {
            "from_ms": self.from_ms,
            "until_ms": self.until_ms,
            "is_whole": self.is_whole,
            "polls": [
                {
                    "at_ms": poll.at_ms,
                    "fetched_at_ms": poll.fetched_at_ms,
                    "verdict": poll.verdict.name.lower(),
                    "transition": poll.transition.name.lower() if poll.transition else None,
                    "is_counted": poll.is_counted,
                }
                for poll in self.polls
            ],
            "signals": [signal._asdict() for signal in self.signals],
            "orders": [
                {"at_ms": order.at_ms, "reason": order.reason.name.lower()} for order in self.orders
            ],
            "earlier_changes": [
                {"at_ms": change.at_ms, "transition": change.transition.name.lower()}
                for change in self.earlier
            ],
            "believed": _columns(self.believed),
            "ahead": _columns(self.ahead),
            "is_belief_present": self.is_belief_present,
            "due_at_ms": self.due_at_ms,
        }

    @classmethod
    def from_dict(cls, members: Mapping[str, Any]) -> Self:
        """Return the history in a dictionary of `as_dict` with its URL, as a service sends it."""
        return cls(
            url=members["url"],
            from_ms=members["from_ms"],
            until_ms=members["until_ms"],
            is_whole=members["is_whole"],
            polls=tuple(
                Poll(
                    one["at_ms"],
                    one["fetched_at_ms"],
                    Verdict[one["verdict"].upper()],
                    Transition[one["transition"].upper()] if one["transition"] else None,
                    one["is_counted"],
                )
                for one in members["polls"]
            ),
            signals=tuple(PageSignal(**one) for one in members["signals"]),
            orders=tuple(
                PageOrder(one["at_ms"], Reason[one["reason"].upper()]) for one in members["orders"]
            ),
            earlier=tuple(
                EarlierChange(one["at_ms"], Transition[one["transition"].upper()])
                for one in members["earlier_changes"]
            ),
            believed=_series_of(members["believed"]),
            ahead=_series_of(members["ahead"]),
            is_belief_present=members["is_belief_present"],
            due_at_ms=members.get("due_at_ms"),
        )


def _series_of(columns: Mapping[str, Any] | None) -> BeliefSeries | None:
    if columns is None:
        return None
    # JSON has null where a number is not known.
    numbers: dict[str, Any] = {
        name: np.array(columns[name], np.float64) for name in BeliefSeries.__slots__
    }
    return BeliefSeries(**numbers | {"at_ms": numbers["at_ms"].astype(np.int64)})


def _columns(moments: BeliefSeries | None) -> dict[str, list[float]] | None:
    if moments is None:
        return None
    return {name: getattr(moments, name).tolist() for name in BeliefSeries.__slots__}


def is_change(poll: Poll) -> bool:
    """Return whether a poll found a change."""
    if poll.transition is not None:
        return poll.transition in _CHANGES
    return poll.verdict == Verdict.CHANGED


_CHANGES = (Transition.CHANGED, Transition.GONE, Transition.MOVED, Transition.RETURNED)


class _Sampler:
    """Samples the belief about a page at given times while a shard replays its log."""

    def __init__(self, page: int, times: Sequence[int]) -> None:
        self._page = page
        self._times = deque(times)
        self._rows: deque[tuple[int, float, float, float]] = deque(maxlen=3 * EVENTS_MAX)

    def pass_to(self, shard: Shard, at_ms: int) -> None:
        """Sample all pending times before an instant, with the shard in its current state."""
        while self._times and self._times[0] < at_ms:
            self.look(shard, self._times.popleft())

    def look(self, shard: Shard, at_ms: int) -> bool:
        """Sample now; return whether the shard has the page."""
        use_logged_price(shard)
        state = shard.explain(self._page, at_ms)
        if state is None:
            return False
        fresh = float("nan") if state.fetched_at_ms is None else state.freshness_probability
        # A price this small stands for none.
        price = state.price if state.price > 1e-299 else float("nan")
        self._rows.append((at_ms, fresh, state.value, price))
        return True

    def moments(self) -> BeliefSeries:
        """Return the samples."""
        rows = np.array(self._rows, np.float64).reshape(-1, 4)
        return BeliefSeries(
            at_ms=rows[:, 0].astype(np.int64),
            freshness=rows[:, 1],
            value=rows[:, 2],
            price=rows[:, 3],
        )


@dataclass(slots=True)
class _Events:
    """Events of the page found in the log so far."""

    polls: deque[Poll] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    signals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    orders: deque[PageOrder] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    is_begun: bool = False
    """Whether the log has the adding of the page."""
    last: Poll | None = None
    """The latest poll that saw the page, or that it was gone."""
    ordered_ms: dict[int, int | None] = field(default_factory=dict)
    """Time of each order of the page; None once it was reported or released."""

    @property
    def is_cut(self) -> bool:
        """Whether old events were dropped."""
        return any(len(events) == EVENTS_MAX for events in (self.polls, self.signals, self.orders))

    def note(self, step: Step, rows: "CountArray", done: Applied | None) -> None:
        """Record what the given rows of a log entry say about the page."""
        happening = step.happening
        if isinstance(happening, PagesReported):
            happening = happening.outcomes
        if isinstance(happening, LeasesReleased):
            for order in self.ordered_ms.keys() & set(happening.order.tolist()):
                self.ordered_ms[order] = None
        for i in rows.tolist():
            match happening:
                case Outcomes():
                    poll = _poll_of(happening, i, step.at_ms, done)
                    self._note_poll(poll, int(happening.order[i]))
                case Signals():
                    self.signals.append((int(happening.at_ms[i]), int(happening.source[i])))
                case Ordered():
                    self._note_order(int(happening.order[i]), step.at_ms)
                    self.orders.append(PageOrder(step.at_ms, Reason(int(happening.reason[i]))))
                case PagesAddedWithUrls():
                    self.is_begun = True

    def _note_order(self, order: int, at_ms: int | None) -> None:
        self.ordered_ms[order] = at_ms
        if len(self.ordered_ms) > EVENTS_MAX:
            del self.ordered_ms[next(iter(self.ordered_ms))]

    def _note_poll(self, poll: Poll, order: int) -> None:
        # The fetch was between order and report, whatever the fetcher's clock says.
        since = self.ordered_ms.get(order) or 0
        poll = poll._replace(fetched_at_ms=min(max(poll.fetched_at_ms, since), poll.at_ms))
        if poll.is_counted is None:
            poll = poll._replace(is_counted=self._is_counted(poll, order))
        if order:
            self._note_order(order, None)
        if poll.verdict < Verdict.DISALLOWED and poll.is_counted is not False:
            if poll.transition is None:
                poll = poll._replace(transition=self._transition_of(poll.verdict))
            self.last = poll
        self.polls.append(poll)

    def _is_counted(self, poll: Poll, order: int) -> bool | None:
        """Return whether a poll counts; None if that is unknown without a shard."""
        if order in self.ordered_ms and self.ordered_ms[order] is None:
            return False
        if order and order not in self.ordered_ms:
            # The order is of another page, or from before the beginning of the log.
            return False if self.is_begun else None
        if poll.verdict >= Verdict.DISALLOWED:
            return True
        last = self.last
        if last is None:
            return True if self.is_begun else None
        # A shard stores whole seconds.
        return poll.fetched_at_ms // 1000 > last.fetched_at_ms // 1000

    def _transition_of(self, verdict: Verdict) -> Transition | None:
        """Return what a verdict means after the previous one; None if that is unknown.

        The rules are those of `recrawl.shard.apply.outcomes`, except that a page given up counts
        as gone.
        """
        last = None if self.last is None else self.last.verdict
        if verdict in _AWAY:
            is_news = verdict != last if last is not None or self.is_begun else None
            return None if is_news is None else _AWAY[verdict] if is_news else Transition.NONE
        if last in _AWAY:
            return Transition.RETURNED
        if last is None and self.is_begun:
            # The first fetch finds a new page, not a change.
            return Transition.NEW
        return _FOUND[verdict] if last is not None else None


_AWAY = {Verdict.GONE: Transition.GONE, Verdict.MOVED: Transition.MOVED}
_FOUND = {
    Verdict.UNCHANGED: Transition.NONE,
    Verdict.CHANGED: Transition.CHANGED,
    Verdict.REVERTED: Transition.REVERTED,
}


def _poll_of(outcomes: Outcomes, i: int, at_ms: int, done: Applied | None) -> Poll:
    verdict = int(outcomes.verdict[i])
    return Poll(
        at_ms,
        int(outcomes.fetched_at_ms[i]),
        Verdict(verdict) if verdict <= max(Verdict) else Verdict.TRANSIENT_ERROR,
        None if done is None else Transition(int(done.transition[i])),
        None if done is None else bool(done.valid[i]),
    )


def _rows_of(happening: LogEntry, page: int) -> CountArray:
    """Return the rows of a record that are about a page."""
    match happening:
        case PagesReported(outcomes):
            pages = outcomes.page
        case PagesAddedWithUrls(added):
            pages = added.page
        case Outcomes() | Signals() | Ordered() | PagesRemoved():
            pages = happening.page
        case _:
            return np.zeros(0, np.int64)
    return np.flatnonzero(pages == page)


def _changes_before(store: Store, page: int, position: int) -> tuple[EarlierChange, ...]:
    """Return the changes of a page that are in the feed and before a position of the log."""
    newest = store.changes_of_page(
        page, Cursor(position, 0), n_read_max=CHANGES_READ_MAX, before=True
    )
    found = [
        EarlierChange(change.at_ms, Transition(change.transition))
        for change in islice(newest, EVENTS_MAX)
    ]
    return tuple(reversed(found))


def _first_ms(partition: Partition) -> int:
    """Return the time at the beginning of a log, in milliseconds since 1970."""
    now_ms = log_start_time(partition).now_ms
    if now_ms > 0:
        return now_ms
    for _, record in partition.ledger.read(partition.ledger.first, n_bytes_max=_HEAD_BYTES):
        happening = entry_of(record)
        if isinstance(happening, Claimed):
            return int(happening.at_ms[0])
    return 0


def _begin_time(time: LogTime, happening: LogEntry) -> None:
    """Set the time and epoch to those of a record, if it has them."""
    if isinstance(happening, Ticked | Ordered | LeasesExpired | Claimed) and happening.at_ms.size:
        time.epoch = int(happening.epoch.max())
        time.now_ms = int(happening.at_ms.max())


def _grid(first_ms: int, last_ms: int, n: int) -> list[int]:
    return [int(at) for at in np.linspace(first_ms, last_ms, n)] if last_ms > first_ms else []


def _ahead(shard: Shard, page: int, now_ms: int, behind_ms: int) -> BeliefSeries:
    """Return freshness, value and price from now to a little after the page comes due."""
    state = shard.explain(page, now_ms)
    due_ms = None if state is None else state.due_at_ms
    most = int(_AHEAD_SHARE_MAX * behind_ms)
    if due_ms is None or due_ms <= now_ms:
        ahead_ms = int(_AHEAD_SHARE * behind_ms)
    else:
        ahead_ms = min(int(1.1 * (due_ms - now_ms)), most)
    sampler = _Sampler(page, _grid(now_ms, now_ms + max(ahead_ms, 1), _MOMENTS_AHEAD))
    sampler.pass_to(shard, now_ms + max(ahead_ms, 1) + 1)
    return sampler.moments()


def _believed_now(reading: "_Reading", state: Explanation) -> BeliefSeries:
    """Return the freshness since each poll that was found, by the present belief of the page."""
    polls = [poll.fetched_at_ms for poll in reading.found.polls if poll.is_counted is not False]
    if state.fetched_at_ms is not None:
        polls.append(state.fetched_at_ms)  # it may be before the records that were read
    seen = np.unique(np.array(polls, np.int64))
    grid = np.array(_grid(reading.from_ms, reading.until_ms, _MOMENTS), np.int64)
    at_ms = np.unique(np.concatenate([grid, seen, seen - 1, [reading.until_ms]]))
    at_ms = at_ms[(at_ms >= reading.from_ms) & (at_ms <= reading.until_ms)]
    place = np.searchsorted(seen, at_ms, side="right") - 1
    # The marginal of a Poisson process whose rate has a gamma distribution.
    age = (at_ms - seen[np.maximum(place, 0)]) / 1000 if seen.size else np.zeros(at_ms.size)
    fresh = (1 + np.maximum(age, 0) / state.belief_seconds) ** -state.belief_shape
    nothing = np.full(at_ms.size, np.nan)
    return BeliefSeries(
        at_ms=at_ms,
        freshness=np.where(place >= 0, fresh, np.nan),
        value=nothing,
        price=nothing,
    )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One pass over the log for one page."""

    partition: Partition
    page: int
    from_ms: int
    until_ms: int
    on_record: OnRecord | None
    found: _Events = field(default_factory=_Events)

    def scan(self) -> None:
        """Find events, reading only the records that can be about a page."""
        ledger, time = self.partition.ledger, log_start_time(self.partition)
        for step in steps(
            ledger, ledger.first, time, schemas=_SCHEMAS_READ, on_record=self.on_record
        ):
            if step.at_ms > self.until_ms:
                break
            time.follow(step)
            self.found.note(step, _rows_of(step.happening, self.page), None)

    def scan_last(self, n_records_max: int) -> None:
        """Find events in the last records of the log; ``from_ms`` becomes the time of the first."""
        ledger, time = self.partition.ledger, LogTime(0, 0)
        first = max(ledger.first, ledger.end - n_records_max)
        for step in steps(ledger, first, time, schemas=_SCHEMAS_READ, on_record=self.on_record):
            if time.now_ms == 0:
                _begin_time(time, step.happening)
                if time.now_ms == 0:
                    continue  # no record before it says when it was
                self.from_ms = max(self.from_ms, time.now_ms)
            else:
                time.follow(step)
            if time.now_ms > self.until_ms:
                break
            at_now = step._replace(at_ms=time.now_ms)
            self.found.note(at_now, _rows_of(step.happening, self.page), None)

    def replay(self) -> tuple[BeliefSeries, BeliefSeries]:
        """Apply every record; find events, and return the beliefs until now and ahead."""
        shard, position = nearest_start(self.partition)
        self.from_ms = max(self.from_ms, shard.now_ms)  # the log may begin before all snapshots
        sampler = _Sampler(self.page, _grid(self.from_ms, self.until_ms, _MOMENTS))
        for step in steps(self.partition.ledger, position, shard, on_record=self.on_record):
            if step.at_ms > self.until_ms:
                break
            sampler.pass_to(shard, step.at_ms)
            rows = _rows_of(step.happening, self.page)
            if rows.size:
                sampler.look(shard, step.at_ms)
            done = apply_entry(shard, step.happening)
            if rows.size:
                sampler.look(shard, step.at_ms)
            self.found.note(step, rows, done)
        sampler.pass_to(shard, self.until_ms)
        sampler.look(shard, self.until_ms)
        behind_ms = self.until_ms - self.from_ms
        return sampler.moments(), _ahead(shard, self.page, self.until_ms, behind_ms)


def read_page_history(
    corpus: CorpusView,
    url: str,
    *,
    until_ms: int | None = None,
    with_beliefs: bool = True,
    on_record: OnRecord | None = None,
    key: str | None = None,
    n_records_max: int | None = None,
) -> PageHistory | None:
    """Return the history of a page; None if it is not tracked.

    Parameters
    ----------
    corpus
        Open corpus, which may be read-only.
    url
        URL of the page.
    until_ms
        End of the history, in milliseconds since 1970; now by default.
    with_beliefs
        Whether to replay the log, for freshness, value and price.  Without, only records that can
        be about the page are read; the meaning of polls follows from their verdicts, and whether
        some counted stays unknown.
    on_record
        Called with 1 for each record that is read.
    key
        Key of the page, in a corpus grouped by key.
    n_records_max
        Largest number of records to read.  Of a longer log only the last ones are read.  There,
        and with more than `PAGES_REPLAYED_MAX` pages, freshness is that of the present belief.
        None for no limit.
    """
    place = locate_page(corpus, url, key)
    if place is None:
        return None
    i, page = place
    partition, node = corpus.partitions[i], corpus.nodes[i]
    with node.lock:
        state = node.shard.explain(page)
    now_ms = corpus.time.now_ms() if until_ms is None else until_ms
    ledger = partition.ledger
    is_cut = n_records_max is not None and (
        ledger.end - ledger.first > n_records_max
        or (with_beliefs and node.shard.n_pages > PAGES_REPLAYED_MAX)
    )
    log_ms = 0 if is_cut else _first_ms(partition)
    reading = _Reading(
        partition=partition,
        page=page,
        from_ms=max(log_ms, 0 if state is None else state.added_at_ms),
        until_ms=max(now_ms, log_ms),
        on_record=on_record,
    )
    believed = ahead = None
    if n_records_max is not None and is_cut:
        reading.scan_last(n_records_max)
        if with_beliefs and state is not None:
            believed = _believed_now(reading, state)
            with node.lock:
                behind_ms = reading.until_ms - reading.from_ms
                ahead = _ahead(node.shard, page, reading.until_ms, behind_ms)
    elif with_beliefs:
        believed, ahead = reading.replay()
    else:
        reading.scan()
    found = reading.found
    numbers = sorted({number for _, number in found.signals})
    names = dict(zip(numbers, node.store.names_of(Names.SOURCE, numbers), strict=True))
    return PageHistory(
        url=node.store.urls_of(np.array([page]))[0].as_py(),
        from_ms=reading.from_ms,
        until_ms=reading.until_ms,
        is_whole=found.is_begun and not found.is_cut,
        polls=tuple(found.polls),
        signals=tuple(
            PageSignal(at_ms, (names[number] or "").partition("\t")[0])
            for at_ms, number in found.signals
        ),
        orders=tuple(found.orders),
        # The feed of changes is as long as the log; changes in other partitions are at 0.
        earlier=() if is_cut else _changes_before(node.store, page, max(ledger.first, 1)),
        believed=believed,
        ahead=ahead,
        is_belief_present=is_cut and believed is not None,
        due_at_ms=state.due_at_ms if until_ms is None and state is not None else None,
    )
