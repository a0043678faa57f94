"""What happened to one page, from the log: polls, signals, orders, and what was believed meanwhile.

The log is read once from its oldest snapshot on; of other pages nothing is kept.  With beliefs,
every record is applied to a shard on the way, as when a corpus is opened: the chance of being
fresh, the value and the price at a moment are those that the node itself had then.  Changes from
before the log are in the feed of changes, which is kept for longer, though without their polls.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from recrawl.core.arrays import CountArray, FloatArray
from recrawl.corpus.corpus import Corpus
from recrawl.corpus.past.replay import OnStep, Step, applied, begun, first_time, place_of, steps
from recrawl.node.durability.recovery import Partition
from recrawl.node.node import follow_price
from recrawl.node.records import Happening, PagesNamed, PagesReported, happening_of
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
from recrawl.store import Names, Store

__all__ = [
    "CHANGES_READ_MAX",
    "EVENTS_MAX",
    "FedChange",
    "Moments",
    "Ordering",
    "PageHistory",
    "Poll",
    "SignalHeard",
    "history_of",
]

EVENTS_MAX = 100_000
"""Polls, signals and orders that are kept, of each; the oldest are dropped."""
CHANGES_READ_MAX = 2_000_000
"""Changes of the feed that are looked at."""
_CHANGES_PER_READ = 10_000
# Kinds of records that can be about a page or tell the time, of the shard and of the node.
_SCHEMAS_READ = frozenset(
    {SCHEMA_ID[kind] for kind in (Outcomes, Signals, Ordered, PagesRemoved, LeasesReleased)}
    | {SCHEMA_ID[kind] for kind in (Ticked, Claimed, LeasesExpired)}
    | {101, 103}
)
_HEAD_BYTES = 1 << 20
# Moments between the beginning and the end at which beliefs are looked at, and beyond the end.
_MOMENTS = 240
_MOMENTS_AHEAD = 40
# How far ahead to look where a page is never due, or overdue, as a share of what lies behind.
_AHEAD_SHARE = 0.15
_AHEAD_SHARE_MAX = 0.5


class Poll(NamedTuple):
    """One fetch and what it found."""

    at_ms: int
    """By the node's clock, when it was reported."""
    fetched_at_ms: int
    """By the fetcher's clock, though not before it was ordered nor after it was reported."""
    verdict: Verdict
    transition: Transition | None
    """What it meant; None where that was not looked at."""
    is_counted: bool | None
    """False for an outcome that was void, as one reported twice; None where that is not known."""


class SignalHeard(NamedTuple):
    """One hint that the page changed."""

    at_ms: int
    source: str


class Ordering(NamedTuple):
    """One decision to fetch the page."""

    at_ms: int
    reason: Reason


class FedChange(NamedTuple):
    """A change from before the log, of which only this is left."""

    at_ms: int
    transition: Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What was believed of a page, one row per moment."""

    at_ms: CountArray
    freshness: FloatArray
    """Chance that the copy was what the page said; nan before the first fetch."""
    value: FloatArray
    """What a fetch was worth, per cost."""
    price: FloatArray
    """What it had to be worth; nan before there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHistory:
    """What happened to a page, as far back as the log reaches; oldest first."""

    url: str
    from_ms: int
    """Where the log begins, or the page."""
    until_ms: int
    is_whole: bool
    """Whether that is all that ever happened to the page."""
    polls: tuple[Poll, ...]
    signals: tuple[SignalHeard, ...]
    orders: tuple[Ordering, ...]
    earlier: tuple[FedChange, ...]
    """Changes from before ``from_ms``, as far as the feed keeps them."""
    believed: Moments | None
    """None where beliefs were not asked for."""
    ahead: Moments | None
    """From now to the time it comes due, if nothing happens until then."""

    @property
    def begins_ms(self) -> int:
        """When the first of all polls was, if that is before: fetches may be told of later."""
        return min([self.from_ms, *(poll.fetched_at_ms for poll in self.counted)])

    @property
    def counted(self) -> tuple[Poll, ...]:
        """Polls without those that were void."""
        return tuple(poll for poll in self.polls if poll.is_counted is not False)

    @property
    def seen(self) -> tuple[Poll, ...]:
        """Of those, polls that saw the page, or that it was not there."""
        return tuple(poll for poll in self.counted if poll.verdict < Verdict.DISALLOWED)

    @property
    def n_changes(self) -> int:
        """Polls that found a change."""
        return sum(is_change(poll) for poll in self.counted)

    @property
    def n_reverted(self) -> int:
        """Polls that found a version from before."""
        return sum(poll.verdict == Verdict.REVERTED for poll in self.counted)

    @property
    def n_seen(self) -> int:
        """How many polls saw the page, or that it was not there."""
        return len(self.seen)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain dictionaries, lists and numbers, as for JSON."""
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
        }


def _columns(moments: Moments | None) -> dict[str, list[float]] | None:
    if moments is None:
        return None
    return {name: getattr(moments, name).tolist() for name in Moments.__slots__}


def is_change(poll: Poll) -> bool:
    """Return whether a poll found a change."""
    if poll.transition is not None:
        return poll.transition in _CHANGES
    return poll.verdict == Verdict.CHANGED


_CHANGES = (Transition.CHANGED, Transition.GONE, Transition.MOVED, Transition.RETURNED)


class _Sampler:
    """Looks at a page's belief now and then, while a shard goes through its log."""

    def __init__(self, page: int, times: Sequence[int]) -> None:
        self._page = page
        self._times = deque(times)
        self._rows: deque[tuple[int, float, float, float]] = deque(maxlen=3 * EVENTS_MAX)

    def pass_to(self, shard: Shard, at_ms: int) -> None:
        """Look at the moments before an instant, with the shard as it is."""
        while self._times and self._times[0] < at_ms:
            self.look(shard, self._times.popleft())

    def look(self, shard: Shard, at_ms: int) -> bool:
        """Look now; return whether there was a page to look at."""
        follow_price(shard)
        state = shard.explain(self._page, at_ms)
        if state is None:
            return False
        fresh = float("nan") if state.fetched_at_ms is None else state.freshness_probability
        # Without a price everything is worth more than it.
        price = state.price if state.price > 1e-299 else float("nan")
        self._rows.append((at_ms, fresh, state.value, price))
        return True

    def moments(self) -> Moments:
        """Return what was seen."""
        rows = np.array(self._rows, np.float64).reshape(-1, 4)
        return Moments(
            at_ms=rows[:, 0].astype(np.int64),
            freshness=rows[:, 1],
            value=rows[:, 2],
            price=rows[:, 3],
        )


@dataclass(slots=True)
class _Found:
    """What has been found in the log so far."""

    polls: deque[Poll] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    signals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    orders: deque[Ordering] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    is_begun: bool = False
    """Whether the page was added within the log."""
    last: Poll | None = None
    """The latest poll that saw the page, or that it was not there."""
    ordered_ms: dict[int, int | None] = field(default_factory=dict)
    """When the page was ordered, by order; None once it was reported of or given back."""

    @property
    def is_cut(self) -> bool:
        """Whether some were dropped."""
        return any(len(kept) == EVENTS_MAX for kept in (self.polls, self.signals, self.orders))

    def note(self, step: Step, rows: "CountArray", done: Applied | None) -> None:
        """Keep what a record says of the page, in some of its rows."""
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
                    self.orders.append(Ordering(step.at_ms, Reason(int(happening.reason[i]))))
                case PagesNamed():
                    self.is_begun = True

    def _note_order(self, order: int, at_ms: int | None) -> None:
        self.ordered_ms[order] = at_ms
        if len(self.ordered_ms) > EVENTS_MAX:
            del self.ordered_ms[next(iter(self.ordered_ms))]

    def _note_poll(self, poll: Poll, order: int) -> None:
        # Between its order and its report, whatever the clock of its fetcher says.
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
        """Return whether a poll counts, as far as that can be told without a shard."""
        if order in self.ordered_ms and self.ordered_ms[order] is None:
            return False
        if order and order not in self.ordered_ms:
            # Of another page, or ordered before the log began, which is not known.
            return False if self.is_begun else None
        if poll.verdict >= Verdict.DISALLOWED:
            return True
        last = self.last
        if last is None:
            return True if self.is_begun else None
        # Pages keep whole seconds.
        return poll.fetched_at_ms // 1000 > last.fetched_at_ms // 1000

    def _transition_of(self, verdict: Verdict) -> Transition | None:
        """Return what a verdict means after the last one; None where that is not known.

        As `recrawl.shard.apply.outcomes` has it, but that a page given up is one that is gone.
        """
        last = None if self.last is None else self.last.verdict
        if verdict in _AWAY:
            is_news = verdict != last if last is not None or self.is_begun else None
            return None if is_news is None else _AWAY[verdict] if is_news else Transition.NONE
        if last in _AWAY:
            return Transition.RETURNED
        if last is None and self.is_begun:
            # The first look at a page finds it new, not changed.
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


def _rows_of(happening: Happening, page: int) -> CountArray:
    """Return the rows of a record that are about a page."""
    match happening:
        case PagesReported(outcomes):
            pages = outcomes.page
        case PagesNamed(added):
            pages = added.page
        case Outcomes() | Signals() | Ordered() | PagesRemoved():
            pages = happening.page
        case _:
            return np.zeros(0, np.int64)
    return np.flatnonzero(pages == page)


def _changes_before(store: Store, page: int, position: int) -> tuple[FedChange, ...]:
    """Return the changes of a page that are in the feed and before a position of the log."""
    found: deque[FedChange] = deque(maxlen=EVENTS_MAX)
    after = store.first_change
    for _ in range(CHANGES_READ_MAX // _CHANGES_PER_READ):
        changes = store.changes(after, _CHANGES_PER_READ)
        for change in changes:
            # A cursor is where to go on, in the same record or after it.
            if change.cursor.position >= position:
                return tuple(found)
            if change.page == page:
                found.append(FedChange(change.at_ms, Transition(change.transition)))
        if len(changes) < _CHANGES_PER_READ:
            break
        after = changes[-1].cursor
    return tuple(found)


def _first_ms(partition: Partition) -> int:
    """Return the time that a log begins with."""
    now_ms = first_time(partition).now_ms
    if now_ms > 0:
        return now_ms
    for _, record in partition.ledger.read(partition.ledger.first, n_bytes_max=_HEAD_BYTES):
        happening = happening_of(record)
        if isinstance(happening, Claimed):
            return int(happening.at_ms[0])
    return 0


def _grid(first_ms: int, last_ms: int, n: int) -> list[int]:
    return [int(at) for at in np.linspace(first_ms, last_ms, n)] if last_ms > first_ms else []


def _ahead(shard: Shard, page: int, now_ms: int, behind_ms: int) -> Moments:
    """Return what will be believed from now to the time a page comes due, and a little beyond."""
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


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One pass over the log for one page."""

    partition: Partition
    page: int
    from_ms: int
    until_ms: int
    on_step: OnStep | None
    found: _Found = field(default_factory=_Found)

    def scan(self) -> None:
        """Find what happened, reading only the records that can be about a page."""
        ledger, time = self.partition.ledger, first_time(self.partition)
        for step in steps(ledger, ledger.first, time, schemas=_SCHEMAS_READ, on_step=self.on_step):
            if step.at_ms > self.until_ms:
                break
            time.follow(step)
            self.found.note(step, _rows_of(step.happening, self.page), None)

    def replay(self) -> tuple[Moments, Moments]:
        """Find what happened and what was believed, and what will be; applies every record."""
        shard, position = begun(self.partition)
        sampler = _Sampler(self.page, _grid(self.from_ms, self.until_ms, _MOMENTS))
        for step in steps(self.partition.ledger, position, shard, on_step=self.on_step):
            if step.at_ms > self.until_ms:
                break
            sampler.pass_to(shard, step.at_ms)
            rows = _rows_of(step.happening, self.page)
            if rows.size:
                sampler.look(shard, step.at_ms)
            done = applied(shard, step.happening)
            if rows.size:
                sampler.look(shard, step.at_ms)
            self.found.note(step, rows, done)
        sampler.pass_to(shard, self.until_ms)
        sampler.look(shard, self.until_ms)
        behind_ms = self.until_ms - self.from_ms
        return sampler.moments(), _ahead(shard, self.page, self.until_ms, behind_ms)


def history_of(
    corpus: Corpus,
    url: str,
    *,
    until_ms: int | None = None,
    with_beliefs: bool = True,
    on_step: OnStep | None = None,
) -> PageHistory | None:
    """Return what happened to a page; None if it is not kept.

    Parameters
    ----------
    corpus
        Open, also only for reading.
    url
        Of the page.
    until_ms
        Up to when; now unless given.
    with_beliefs
        Whether to apply the log on the way, for what was believed.  Without, only the records
        that can be about the page are read: what polls meant is taken from their verdicts, and
        where that cannot tell whether one was void, it is not said.
    on_step
        Told of each record that is read: 1.
    """
    place = place_of(corpus, url)
    if place is None:
        return None
    i, page = place
    partition, node = corpus.partitions[i], corpus.nodes[i]
    with node.lock:
        state = node.shard.explain(page)
    log_ms = _first_ms(partition)
    reading = _Reading(
        partition=partition,
        page=page,
        from_ms=max(log_ms, 0 if state is None else state.added_at_ms),
        until_ms=max(corpus.time.now_ms() if until_ms is None else until_ms, log_ms),
        on_step=on_step,
    )
    believed = ahead = None
    if with_beliefs:
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
            SignalHeard(at_ms, (names[number] or "").partition("\t")[0])
            for at_ms, number in found.signals
        ),
        orders=tuple(found.orders),
        earlier=_changes_before(node.store, page, partition.ledger.first),
        believed=believed,
        ahead=ahead,
    )
