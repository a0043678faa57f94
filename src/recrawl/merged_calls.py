"""Merge the small calls of many threads into one, which costs hardly more than each of them.

A call of one row pays for a sync of the log and for a hundred small steps that do not depend on the
number of rows.  Calls that wait for another one are therefore done together: the first of them does
the work of all, in the order in which they came, and then passes the turn to the next that waits.
So nobody works for others more than once per call, and nobody is overtaken.

Callers whose calls were done together often come back together: the first of them would do its call
alone, and let all others wait for it.  It therefore waits a moment for as many calls as the last
time, at most as long as those took; in vain only once.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from threading import Lock, get_ident
from time import perf_counter
from typing import Generic, TypeVar

from recrawl.one_process import ProcessLock

__all__ = ["MergedCalls"]

# Longest wait for callers that may come back together.
_GATHERING_SECONDS_MAX = 0.003

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


class _Ticket(Generic[_Given, _Found]):
    """One call: what it was given, and what came of it."""

    __slots__ = ("error", "found", "given", "has_turn", "is_done", "kind", "n_rows", "woken")

    def __init__(self, given: _Given, n_rows: int, kind: Hashable) -> None:
        self.given = given
        self.n_rows = n_rows
        self.kind = kind
        self.found: list[_Found] = []
        self.error: BaseException | None = None
        self.is_done = self.has_turn = False
        self.woken: Lock | None = None


class MergedCalls(Generic[_Given, _Found]):
    """Calls of one function by many threads, those that wait done together.

    Parameters
    ----------
    run_all
        Function that does several calls, of the same kind if they have one; it returns for each
        its result, or the error that its caller gets.  An error that it raises goes to all.
    n_rows_max
        Number of rows after which no other call is merged.
    """

    def __init__(
        self,
        run_all: Callable[[Sequence[_Given]], Sequence[_Found | BaseException]],
        n_rows_max: int,
    ) -> None:
        self._run_all = run_all
        self._n_rows_max = n_rows_max
        self._lock = ProcessLock(Lock())
        self._waiting: deque[_Ticket[_Given, _Found]] = deque()
        self._is_busy = False
        self._callers: set[int] = set()
        self._n_expected = 1
        self._last_seconds = 0.0
        self._gathered: Lock | None = None

    def call(self, given: _Given, *, n_rows: int = 1, kind: Hashable = None) -> _Found:
        """Do one call, alone or together with others that wait; return its result.

        Parameters
        ----------
        given
            Arguments of the call.
        n_rows
            Number of its rows.
        kind
            Kind of the call; two calls of different kinds are not done together.
        """
        ticket: _Ticket[_Given, _Found] = _Ticket(given, n_rows, kind)
        caller = get_ident()
        if caller in self._callers:
            # A signal handler has interrupted this thread in the middle of a call: it may be the
            # one that others wait for, so it must not wait for others.
            self._run([ticket])
            return self._result_of(ticket)
        gathered: Lock | None = None
        try:
            self._callers.add(caller)
            with self._lock:
                if self._is_busy:
                    self._waiting.append(ticket)
                    ticket.woken = Lock()
                    ticket.woken.acquire()
                    if self._gathered is not None and len(self._waiting) >= self._n_expected:
                        self._gathered.release()
                        self._gathered = None
                else:
                    self._is_busy = ticket.has_turn = True
                    if self._n_expected > 1:
                        self._waiting.append(ticket)
                        gathered = self._gathered = Lock()
                        gathered.acquire()
            if ticket.woken is not None:
                ticket.woken.acquire()
            elif gathered is not None:
                gathered.acquire(timeout=min(self._last_seconds, _GATHERING_SECONDS_MAX))
            else:
                self._run([ticket])  # nobody waited when it came
                ticket.is_done = True
            if not ticket.is_done:
                self._run_group()
        finally:
            # A user may interrupt this thread at any point; others must not wait for it.
            if ticket.has_turn or not ticket.is_done:
                self._leave(ticket)
            self._callers.discard(caller)
        return self._result_of(ticket)

    @staticmethod
    def _result_of(ticket: _Ticket[_Given, _Found]) -> _Found:
        if ticket.error is not None:
            raise ticket.error
        return ticket.found[0]

    def _leave(self, ticket: _Ticket[_Given, _Found]) -> None:
        """Withdraw a call that nobody has begun; pass its turn to the one that waits longest."""
        with self._lock:
            if not ticket.is_done and ticket in self._waiting:
                self._waiting.remove(ticket)
            if not ticket.has_turn:
                return
            if not self._waiting:
                self._is_busy = False
                return
            following = self._waiting[0]
            following.has_turn = True
        assert following.woken is not None
        following.woken.release()

    def _run_group(self) -> None:
        with self._lock:
            self._gathered = None
            group = [self._waiting.popleft()]
            n_rows = group[0].n_rows
            kind = group[0].kind
            while self._waiting:
                following = self._waiting[0]
                n_rows += following.n_rows
                if n_rows > self._n_rows_max:
                    break
                if following.kind is not None:
                    if kind is not None and following.kind != kind:
                        break
                    kind = following.kind
                group.append(self._waiting.popleft())
        started = perf_counter()
        try:
            self._run(group)
        finally:
            self._n_expected, self._last_seconds = len(group), perf_counter() - started
            for ticket in group:
                ticket.is_done = True
                if ticket.woken is not None and not ticket.has_turn:
                    ticket.woken.release()

    def _run(self, group: Sequence[_Ticket[_Given, _Found]]) -> None:
        """Do the calls of a group, and note what came of them."""
        try:
            found = self._run_all([ticket.given for ticket in group])
            for ticket, result in zip(group, found, strict=True):
                if isinstance(result, BaseException):
                    ticket.error = result
                else:
                    ticket.found.append(result)
        except BaseException as error:
            for ticket in group:
                ticket.error = error
