"""The changes that a webhook holds: which are sent next, which wait, and which are given up.

This is a state machine without clock, randomness, disk and network: times and random numbers are
arguments.  Two rules shape it:

- Changes of a page are sent one after the other, in the order of the feed; different pages do not
  wait for each other.
- The place in the feed moves over a change only when it was delivered or is stored as a letter, so
  a process that is killed loses none.
"""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from recrawl.service.webhooks.limits import WebhookLimits

__all__ = ["Letter", "Outbox", "OutboxCheckpoint", "PageName"]

PageName: TypeAlias = tuple[str | None, str]
"""Key and URL of a page."""

_PROBLEM_MAX = 300


@dataclass(slots=True, kw_only=True, eq=False)
class Letter:
    """A change that a webhook has to deliver."""

    id: str
    """Sequence number of the change, which is the id of its event."""
    page: PageName
    event: str
    """The event as JSON."""
    n_attempts: int = 0
    next_at: float = 0.0
    """Time of the next attempt, in seconds since 1970."""
    problem: str = ""
    """What went wrong at the last attempt."""
    is_dead: bool = False
    """Whether its attempts are used up."""
    is_stored: bool = False
    """Whether it has to be stored, because the place in the feed may move over it."""
    is_in_flight: bool = False
    is_queued: bool = True
    """Whether it is in the queue of its page."""

    def as_json(self) -> dict[str, Any]:
        """Return the letter for a file."""
        names = ("id", "page", "event", "n_attempts", "next_at", "problem", "is_dead", "is_queued")
        return {name: getattr(self, name) for name in names}

    def as_public(self) -> dict[str, Any]:
        """Return what the owner of the webhook wants to know of it."""
        key, url = self.page
        return {
            "id": self.id,
            "url": url,
            "key": key,
            "n_attempts": self.n_attempts,
            "next_at_ms": None if self.is_dead else round(self.next_at * 1000),
            "is_dead": self.is_dead,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """Return the letter that `as_json` described."""
        key, url = row["page"]
        return cls(
            id=str(row["id"]),
            page=(None if key is None else str(key), str(url)),
            event=str(row["event"]),
            n_attempts=int(row["n_attempts"]),
            next_at=float(row["next_at"]),
            problem=str(row["problem"]),
            is_dead=bool(row["is_dead"]),
            is_queued=bool(row["is_queued"]),
            is_stored=True,
        )


class OutboxCheckpoint(NamedTuple):
    """What has to be stored: first the letters, then the place in the feed."""

    letters: list[dict[str, Any]] | None
    """All letters to store, as JSON; None if they have not changed."""
    cursor: str | None
    """Place in the feed to commit; None if it has not moved."""


@dataclass(slots=True, eq=False)
class _ReadChange:
    cursor: str
    letter: Letter | None
    """Letter of the change; None once it needs nothing more."""


class Outbox:
    """The letters of one webhook.

    Parameters
    ----------
    limits
        Limits of webhooks.
    letters
        Letters that were stored before.
    events_max
        Events per request.
    holds_back
        Whether a dead letter holds back the later changes of its page.
    """

    def __init__(
        self,
        limits: WebhookLimits,
        letters: Iterable[Letter] = (),
        *,
        events_max: int = 1,
        holds_back: bool = True,
    ) -> None:
        self.limits = limits
        self.events_max = events_max
        self.holds_back = holds_back
        self._letters: dict[str, Letter] = {}
        self._queues: dict[PageName, deque[Letter]] = {}
        self._ready: deque[Letter] = deque()
        self._waiting: list[tuple[float, str]] = []
        self._read: deque[_ReadChange] = deque()
        self._cursor: str | None = None
        self._are_letters_changed = False
        self._n_bytes = 0
        self._n_in_flight = 0
        self._asked_until = 0.0
        self._down_until = 0.0
        self.n_failures = 0
        """Number of failed requests since the last one that succeeded."""
        for letter in sorted(letters, key=lambda one: one.id):
            self._take(letter)
        for page in list(self._queues):
            self._set_dead_aside(page)

    # ------------------------------------------------------------------ counts

    @property
    def letters(self) -> list[Letter]:
        """All letters, in the order of their ids."""
        return [self._letters[one] for one in sorted(self._letters)]

    @property
    def n_letters(self) -> int:
        """Number of changes that are held."""
        return len(self._letters)

    @property
    def n_dead(self) -> int:
        """Number of dead letters."""
        return sum(letter.is_dead for letter in self._letters.values())

    @property
    def n_ready(self) -> int:
        """Number of pages with a change that was not sent yet and could be."""
        return len(self._ready)

    @property
    def n_in_flight(self) -> int:
        """Number of requests that wait for an answer."""
        return self._n_in_flight

    @property
    def is_down(self) -> bool:
        """Whether so many requests have failed in a row that the receiver counts as down."""
        return self.n_failures >= self.limits.failures_max

    @property
    def waits_until(self) -> float:
        """Time before which nothing is sent, in seconds since 1970."""
        return max(self._asked_until, self._down_until)

    def room(self, event_bytes_max: int) -> int:
        """Return the number of changes that may be read now.

        Parameters
        ----------
        event_bytes_max
            Size of the largest event.
        """
        n_left = self.limits.letters_max - len(self._letters)
        n_bytes_left = self.limits.letters_bytes_max - self._n_bytes
        return max(min(n_left, n_bytes_left // event_bytes_max), 0)

    # ------------------------------------------------------------------ changes in

    def add(self, cursor: str, letter: Letter | None) -> None:
        """Take the next change of the feed.

        Parameters
        ----------
        cursor
            Place in the feed after the change.
        letter
            Letter of the change; None if the webhook does not want it.
        """
        if letter is not None and letter.id in self._letters:
            letter = None  # stored before the process was killed
        if letter is None and (not self._read or self._read[-1].letter is None):
            if self._read:
                self._read[-1].cursor = cursor
            else:
                self._cursor = cursor
            return
        self._read.append(_ReadChange(cursor, letter))
        if letter is not None:
            queue = self._queues.get(letter.page)
            # What waits behind a stored letter can wait for long, and is stored too.
            letter.is_stored = queue is not None and queue[0].is_stored
            self._are_letters_changed |= letter.is_stored
            self._take(letter)

    def _take(self, letter: Letter) -> None:
        self._letters[letter.id] = letter
        self._n_bytes += len(letter.event)
        if letter.is_queued:
            self._enqueue(letter)

    def _enqueue(self, letter: Letter) -> None:
        queue = self._queues.setdefault(letter.page, deque())
        place = len(queue)
        # Only letters from before a restart can be later than a change that is read again.
        while place and queue[place - 1].id > letter.id and not queue[place - 1].is_in_flight:
            place -= 1
        queue.insert(place, letter)
        if place == 0:
            self._schedule(letter)

    def _schedule_page(self, page: PageName) -> None:
        """Let the first letter of a page be sent when its time comes, if there is one."""
        self._set_dead_aside(page)
        queue = self._queues.get(page)
        if queue:
            self._schedule(queue[0])

    def _schedule(self, head: Letter) -> None:
        if head.is_dead or head.is_in_flight:
            return
        if _is_unsent(head):
            self._ready.append(head)
        else:
            heapq.heappush(self._waiting, (head.next_at, head.id))

    # ------------------------------------------------------------------ requests out

    def next_request(self, now: float) -> list[Letter]:
        """Return the letters of the next request, and count them as sent; none if all must wait.

        Parameters
        ----------
        now
            Present time, in seconds since 1970.
        """
        n_requests_max = 1 if self.is_down else self.limits.requests_max
        if now < self.waits_until or self._n_in_flight >= n_requests_max:
            return []
        request = self._next_waiting(now) or self._next_ready()
        for letter in request:
            letter.is_in_flight = True
        self._n_in_flight += bool(request)
        return request

    def _next_waiting(self, now: float) -> list[Letter]:
        """Return a letter that failed before; alone, so that it cannot harm others."""
        while self._waiting and self._waiting[0][0] <= now:
            _, name = heapq.heappop(self._waiting)
            letter = self._letters.get(name)
            if letter is not None and self._is_sendable(letter) and letter.next_at <= now:
                return [letter]
        return []

    def _next_ready(self) -> list[Letter]:
        request: list[Letter] = []
        n_bytes = 0
        n_max = 1 if self.is_down else self.events_max
        while self._ready and len(request) < n_max:
            head = self._ready.popleft()
            if not self._is_sendable(head) or not _is_unsent(head):
                continue
            for letter in self._queues[head.page]:
                n_bytes += len(letter.event) + 1
                is_full = request and n_bytes > self.limits.request_bytes_max
                if is_full or len(request) >= n_max or not _is_unsent(letter):
                    if letter is head:
                        self._ready.appendleft(head)
                        return request
                    break
                request.append(letter)
        return request

    def _is_sendable(self, letter: Letter) -> bool:
        queue = self._queues.get(letter.page)
        is_head = queue is not None and queue[0] is letter
        return is_head and not letter.is_in_flight and not letter.is_dead

    def seconds_to_next(self, now: float) -> float | None:
        """Return the time until a letter may be sent; None if that depends on other events.

        Parameters
        ----------
        now
            Present time, in seconds since 1970.
        """
        if self._n_in_flight >= (1 if self.is_down else self.limits.requests_max):
            return None
        if self._ready:
            return max(self.waits_until - now, 0.0)
        if self._waiting:
            return max(self._waiting[0][0] - now, self.waits_until - now, 0.0)
        return None

    # ------------------------------------------------------------------ answers in

    def deliver(self, request: Sequence[Letter]) -> None:
        """Note that the letters of a request were delivered."""
        self.n_failures = 0
        self._down_until = 0.0
        self._n_in_flight -= 1
        for letter in request:
            letter.is_in_flight = False
        self._remove(request)

    def fail(
        self,
        request: Sequence[Letter],
        now: float,
        *,
        problem: str,
        jitter: float,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Note that a request has failed: its letters wait, or are dead after too many attempts.

        Parameters
        ----------
        request
            Letters of the request.
        now
            Present time, in seconds since 1970.
        problem
            Description of the failure.
        jitter
            Random number from 0 to 1, which spreads the next attempts: a wait is between half of
            its length and its length.
        retry_after_seconds
            Wait that the receiver has asked for.
        """
        limits = self.limits
        self.n_failures += 1
        self._n_in_flight -= 1
        asked = min(retry_after_seconds or 0.0, limits.retry_after_seconds_max)
        if asked:
            self._asked_until = max(self._asked_until, now + asked)
        if self.is_down:
            wait = self._wait(self.n_failures - limits.failures_max + 1, limits.down_seconds_max)
            self._down_until = now + wait * (0.5 + 0.5 * jitter)
        for letter in request:
            letter.is_in_flight = False
            letter.n_attempts += 1
            letter.problem = problem[:_PROBLEM_MAX]
            letter.is_dead = letter.n_attempts >= limits.attempts_max
            wait = self._wait(letter.n_attempts, limits.backoff_seconds_max)
            letter.next_at = now + max(wait * (0.5 + 0.5 * jitter), asked)
        self._store_from(request)

    def _wait(self, n_failures: int, seconds_max: float) -> float:
        exponent = min(n_failures - 1, 60)
        return min(self.limits.backoff_seconds * self.limits.backoff_factor**exponent, seconds_max)

    def put_back(self, request: Sequence[Letter]) -> None:
        """Note that a request was not answered because of us: it is sent again, and not counted."""
        self._n_in_flight -= 1
        for letter in request:
            letter.is_in_flight = False
        self._store_from(request)

    def _store_from(self, request: Sequence[Letter]) -> None:
        """Store letters and what waits behind them, and let the first of each page wait."""
        for page in dict.fromkeys(letter.page for letter in request):
            for letter in self._queues.get(page, ()):
                letter.is_stored = True
            self._are_letters_changed = True
            self._schedule_page(page)

    def _set_dead_aside(self, page: PageName) -> None:
        """Take dead letters out of the way of the later ones, unless they hold those back."""
        if self.holds_back:
            return
        queue = self._queues.get(page)
        while queue and queue[0].is_dead:
            queue.popleft().is_queued = False
            self._are_letters_changed = True
        if not queue:
            self._queues.pop(page, None)

    def _remove(self, letters: Iterable[Letter]) -> None:
        heads_left: set[PageName] = set()
        for letter in letters:
            del self._letters[letter.id]
            self._n_bytes -= len(letter.event)
            self._are_letters_changed |= letter.is_stored
            # A change that is removed is done, wherever the place in the feed is.
            letter.is_stored = True
            queue = self._queues.get(letter.page)
            if letter.is_queued and queue is not None:
                if queue[0] is letter:
                    heads_left.add(letter.page)
                queue.remove(letter)
                if not queue:
                    del self._queues[letter.page]
        for page in heads_left:
            self._schedule_page(page)

    # ------------------------------------------------------------------ dead letters

    def send_again(self, ids: Collection[str] | None, now: float) -> int:
        """Give dead letters all their attempts again; return how many.

        Parameters
        ----------
        ids
            Ids of letters; None for all dead ones.
        now
            Present time, in seconds since 1970.
        """
        chosen = self._choose_dead(ids)
        for letter in chosen:
            letter.is_dead = False
            letter.n_attempts = 0
            letter.next_at = now
            if letter.is_queued:
                if self._queues[letter.page][0] is letter:
                    self._schedule(letter)
            else:
                letter.is_queued = True
                self._enqueue(letter)
        self._are_letters_changed |= bool(chosen)
        return len(chosen)

    def drop(self, ids: Collection[str] | None) -> int:
        """Give up dead letters for good; return how many.  Later changes of their pages go on.

        Parameters
        ----------
        ids
            Ids of letters; None for all dead ones.
        """
        chosen = self._choose_dead(ids)
        self._remove(chosen)
        return len(chosen)

    def _choose_dead(self, ids: Collection[str] | None) -> list[Letter]:
        names = sorted(self._letters) if ids is None else sorted(set(ids))
        found = (self._letters.get(name) for name in names)
        return [letter for letter in found if letter is not None and letter.is_dead]

    def set_holding_back(self, holds_back: bool) -> None:
        """Choose whether dead letters hold back the later changes of their pages."""
        is_eased = self.holds_back and not holds_back
        self.holds_back = holds_back
        if is_eased:
            for page in [page for page, queue in self._queues.items() if queue[0].is_dead]:
                self._schedule_page(page)

    # ------------------------------------------------------------------ what is stored

    def store_all(self) -> None:
        """Store all letters, so that the place in the feed can move although nothing is sent."""
        for letter in self._letters.values():
            if not letter.is_stored:
                letter.is_stored = True
                self._are_letters_changed = True

    @property
    def has_changed(self) -> bool:
        """Whether there is something to store."""
        return self._are_letters_changed or self._cursor is not None or self._is_first_settled()

    @property
    def is_all_stored(self) -> bool:
        """Whether the place in the feed is after all changes that were added."""
        return not self._read and self._cursor is None

    def _is_first_settled(self) -> bool:
        return bool(self._read) and (self._read[0].letter is None or self._read[0].letter.is_stored)

    def checkpoint(self) -> OutboxCheckpoint:
        """Return what has to be stored now; call it again after it was stored."""
        moved = self._cursor
        while self._is_first_settled():
            moved = self._read.popleft().cursor
        self._cursor = None
        letters = None
        if self._are_letters_changed:
            self._are_letters_changed = False
            letters = [one.as_json() for one in self.letters if one.is_stored]
        return OutboxCheckpoint(letters, moved)

    def restore(self, checkpoint: OutboxCheckpoint) -> None:
        """Take back a checkpoint that could not be stored."""
        self._are_letters_changed |= checkpoint.letters is not None
        if checkpoint.cursor is not None and self._cursor is None:
            self._cursor = checkpoint.cursor


def _is_unsent(letter: Letter) -> bool:
    """Return whether nothing was tried yet: such letters may share a request."""
    return letter.n_attempts == 0 and letter.next_at == 0.0 and not letter.is_dead
