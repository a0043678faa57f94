"""Turns at hosts: which fetcher may send a request to a host now.

Fetchers on several machines share the delays of hosts.  Before each request, also for robots.txt
files and redirects, a fetcher begins a turn; afterwards it ends the turn and says how long the host
must be left alone.  A turn that is not renewed ends by itself, as its fetcher may be dead; the
delay of the host follows.
"""

from pathlib import Path
from typing import Final, NamedTuple

from recrawl.fetch import (
    FetchSettings,
    FetchTime,
    GateFile,
    HostGate,
    HostState,
    SystemTime,
)
from recrawl.messages.turns import TurnEnd, TurnStart
from recrawl.service.limits import ServiceLimits

__all__ = ["HostTurns"]

_FULL_SECONDS: Final = 1.0
# Nothing is sent from here; the settings only have delays.
_CONTACT: Final = "https://example.invalid/"
_FILE: Final = "run/hosts"


class _Turn(NamedTuple):
    host: str
    ends_at_ms: int


class HostTurns:
    """The turns at the hosts of one corpus; call it from one thread at a time.

    Parameters
    ----------
    delay_seconds
        Least time between two requests to a host.
    n_at_once_max
        Number of requests to a host at a time.
    folder
        Folder of the corpus, whose file of delays is used; None keeps them in memory alone.
    time
        Clock; the system's if None.
    limits
        Limits of the server; the default ones if None.
    """

    def __init__(
        self,
        *,
        delay_seconds: float,
        n_at_once_max: int,
        folder: Path | None = None,
        time: FetchTime | None = None,
        limits: ServiceLimits | None = None,
    ) -> None:
        limits = limits or ServiceLimits()
        self._turn_seconds = limits.turn_seconds_max
        self._n_turns_max = limits.turns_max
        self._time = SystemTime() if time is None else time
        settings = FetchSettings(
            contact=_CONTACT, delay_seconds=delay_seconds, connections_per_host=n_at_once_max
        )
        self._file: GateFile | None = None
        if folder is None:
            self._gate = HostGate(settings, self._time)
        else:
            path = folder / _FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = GateFile(path)
            # Fetchers go on with their requests while the server starts again.
            self._gate = self._file.open_gate(settings, self._time, open_seconds=self._turn_seconds)
        # Those that end first come first: a turn that is renewed moves to the end.
        self._turns: dict[str, _Turn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def begin(self, turn: str, host: str) -> TurnStart:
        """Begin a turn if the host may be contacted now; a repeated call returns the same turn.

        Parameters
        ----------
        turn
            Name of the turn, which no other one has.
        host
            Name or address of the host, in lower case.
        """
        self._end_overdue()
        now_ms = self._time.now_ms()
        held = self._turns.get(turn)
        if held is not None:
            return self._start(held.host, (held.ends_at_ms - now_ms) / 1000)
        if len(self._turns) >= self._n_turns_max:
            return TurnStart(False, _FULL_SECONDS)
        wait = self._gate.try_enter(host)
        if wait:
            return TurnStart(False, wait)
        self._turns[turn] = _Turn(host, now_ms + round(self._turn_seconds * 1000))
        return self._start(host, self._turn_seconds)

    def renew(self, turn: str, host: str) -> float | None:
        """Let a turn go on; return the seconds until it ends, None if another one has begun.

        Parameters
        ----------
        turn
            Name of the turn.
        host
            Host of the turn, in case the server has started again since then.
        """
        self._end_overdue()
        held = self._turns.pop(turn, None)
        if held is None and (len(self._turns) >= self._n_turns_max or not self._gate.join(host)):
            return None
        host = host if held is None else held.host
        self._turns[turn] = _Turn(host, self._time.now_ms() + round(self._turn_seconds * 1000))
        return self._turn_seconds

    def end(self, ended: TurnEnd) -> None:
        """End a turn; its host is left alone for as long as the fetcher says, at least its delay.

        Parameters
        ----------
        ended
            Turn, and what the fetcher has learned of the host.
        """
        self._end_overdue()
        held = self._turns.pop(ended.turn, None)
        state = HostState(ended.crawl_delay_seconds, ended.answer_seconds, ended.n_failures)
        host = ended.host if held is None else held.host
        if held is None and not self._gate.knows(host):
            return  # never contacted: whoever invents hosts must not fill the table
        self._gate.leave_after(host, ended.wait_seconds, state, was_open=held is not None)

    def close(self) -> None:
        """Close the file of delays."""
        if self._file is not None:
            self._file.close()

    def _start(self, host: str, seconds: float) -> TurnStart:
        return TurnStart(True, seconds, *self._gate.state(host))

    def _end_overdue(self) -> None:
        now_ms = self._time.now_ms()
        while self._turns:
            turn, held = next(iter(self._turns.items()))
            if held.ends_at_ms > now_ms:
                return
            del self._turns[turn]
            self._gate.leave_after(held.host, 0.0, was_open=True)
