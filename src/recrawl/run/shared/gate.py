"""A gate whose delays of hosts hold for all workers of a service.

Before each request a worker begins a turn at the host with the service, and ends it afterwards.
While a request is under way, the worker renews its turn.  If it cannot, because the service cannot
be reached, it cancels the request before the turn ends, as another worker may contact the host
then.
"""

import asyncio
import uuid
from contextlib import suppress
from typing import Final, Protocol

from recrawl.errors import RecrawlError
from recrawl.fetch import FetchSettings, FetchTime, HostGate, HostState
from recrawl.messages.turns import TurnEnd, TurnsAnswer, TurnStart

__all__ = ["SharedGate", "TurnClient"]

# A turn is renewed when this share of its time has passed.
_RENEWED_SHARE: Final = 0.3
# Its request is cancelled when this share has passed.
_CANCELLED_SHARE: Final = 0.9
_RETRY_SECONDS: Final = 0.5
_WAIT_SECONDS_MAX: Final = 2.0
_CLOSE_SECONDS_MAX: Final = 5.0


class TurnClient(Protocol):
    """The part of `recrawl.AsyncClient` that a gate uses."""

    async def take_turns(
        self,
        *,
        begin: dict[str, str] | None = None,
        renew: dict[str, str] | None = None,
        end: tuple[TurnEnd, ...] = (),
    ) -> TurnsAnswer:
        """Take turns with other fetchers at contacting hosts."""
        ...


class _OpenTurn:
    """A turn of a request that is under way."""

    __slots__ = ("alarm", "host", "renew_at", "task")

    def __init__(self, host: str, task: "asyncio.Task[object] | None") -> None:
        self.host = host
        self.task = task
        self.renew_at = 0.0
        self.alarm: asyncio.TimerHandle | None = None


class SharedGate(HostGate):
    """Lets requests to each host start one after the other, also those of other workers.

    Create it, and call its methods, in one event loop.

    Parameters
    ----------
    settings
        Delays and limits.
    time
        Clock, and how to wait.
    client
        Client of the service.
    """

    def __init__(self, settings: FetchSettings, time: FetchTime, client: TurnClient) -> None:
        super().__init__(settings, time)
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._asked: dict[str, tuple[str, asyncio.Future[TurnStart]]] = {}
        self._open: dict[str, _OpenTurn] = {}
        # Turns of each host, oldest first; with one connection per host there is one.
        self._turns_of: dict[str, list[str]] = {}
        self._ended: dict[str, TurnEnd] = {}
        self._ended_at_ms: dict[str, int] = {}
        self._has_work = asyncio.Event()
        self._is_closing = False
        self._sending = asyncio.create_task(self._send_all())

    async def enter(self, host: str) -> float:
        """Wait until a request to a host may start; see `HostGate.enter`."""
        wait = await super().enter(host)
        if wait:
            return wait
        turn = uuid.uuid4().hex
        most = self._settings.wait_seconds_max
        given_up_at = self._loop.time() + most
        pause = 0.0
        try:
            while True:
                start = await self._ask(turn, host)
                if start.is_granted:
                    break
                pause = min(max(start.seconds, pause * 1.5), max(start.seconds, _WAIT_SECONDS_MAX))
                if start.seconds > most or self._loop.time() + pause > given_up_at:
                    self.leave_after(host, start.seconds, was_open=True)
                    return max(start.seconds, 1.0)
                await self._time.sleep(pause)
        except BaseException:
            # The service may have begun the turn.
            self.leave_after(host, 0.0, was_open=True)
            self._end(turn, TurnEnd(turn, host, 0.0, *self.state(host)))
            raise
        self.adopt(host, HostState(*start[2:]))
        self._turns_of.setdefault(host, []).append(turn)
        return 0.0

    def leave(
        self,
        host: str,
        *,
        seconds: float = 0.0,
        is_failure: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Note that a request has ended; see `HostGate.leave`."""
        super().leave(
            host, seconds=seconds, is_failure=is_failure, retry_after_seconds=retry_after_seconds
        )
        turns = self._turns_of[host]
        turn = turns.pop(0)
        if not turns:
            del self._turns_of[host]
        self._end(turn, TurnEnd(turn, host, 0.0, *self.state(host)))

    def set_crawl_delay(self, host: str, seconds: float) -> None:
        """Set the delay that the robots.txt file of a host asks for."""
        before = self.state(host)
        super().set_crawl_delay(host, seconds)
        after = self.state(host)
        if after != before:
            # The turn of the file has ended; this one only tells the others of the delay.
            turn = uuid.uuid4().hex
            self._end(turn, TurnEnd(turn, host, 0.0, *after))

    async def close(self) -> None:
        """Tell the service of all turns that have ended, as far as it can be reached."""
        self._is_closing = True
        self._has_work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                await asyncio.shield(self._sending)
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)

    # ------------------------------------------------------------------ turns

    async def _ask(self, turn: str, host: str) -> TurnStart:
        """Return whether a turn has begun; waits while the service cannot be reached."""
        future: asyncio.Future[TurnStart] = self._loop.create_future()
        self._asked[turn] = (host, future)
        self._open[turn] = _OpenTurn(host, asyncio.current_task())
        self._has_work.set()
        try:
            start = await future
        finally:
            self._asked.pop(turn, None)
            if not (future.done() and not future.cancelled() and future.result().is_granted):
                self._close_turn(turn)
        return start

    def _end(self, turn: str, ended: TurnEnd) -> None:
        self._close_turn(turn)
        self._ended[turn] = ended
        # The wait is computed when it is sent: that may be later.
        self._ended_at_ms[turn] = max(self.next_start_ms(ended.host), 0)
        self._has_work.set()

    def _close_turn(self, turn: str) -> None:
        one = self._open.pop(turn, None)
        if one is not None and one.alarm is not None:
            one.alarm.cancel()

    def _note_granted(self, turn: str, asked_at: float, seconds: float) -> None:
        """Set when a turn is renewed, and when its request is cancelled at the latest."""
        one = self._open.get(turn)
        if one is None:
            return
        if one.alarm is not None:
            one.alarm.cancel()
        one.renew_at = asked_at + _RENEWED_SHARE * seconds
        one.alarm = self._loop.call_at(asked_at + _CANCELLED_SHARE * seconds, self._lose, turn)

    def _lose(self, turn: str) -> None:
        """Cancel the request of a turn that another worker may have got."""
        one = self._open.get(turn)
        if one is not None and one.task is not None:
            one.task.cancel("the turn at the host was lost")

    # ------------------------------------------------------------------ sending

    async def _send_all(self) -> None:
        while not (self._is_closing and not self._ended):
            now = self._loop.time()
            renew = {
                turn: one.host
                for turn, one in self._open.items()
                if one.renew_at and one.renew_at <= now
            }
            if not (self._asked or self._ended or renew):
                self._has_work.clear()
                due = [one.renew_at for one in self._open.values() if one.renew_at]
                wait = min([one - now for one in due], default=None)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._has_work.wait()
                continue
            await self._send_once(renew)

    async def _send_once(self, renew: dict[str, str]) -> None:
        asked, ended = dict(self._asked), dict(self._ended)
        now_ms = self._time.now_ms()
        ends = tuple(
            one._replace(wait_seconds=max(self._ended_at_ms[turn] - now_ms, 0) / 1000)
            for turn, one in ended.items()
        )
        asked_at = self._loop.time()
        try:
            answer = await self._client.take_turns(
                begin={turn: host for turn, (host, _) in asked.items()}, renew=renew, end=ends
            )
        except (RecrawlError, OSError):
            # Turns that are not renewed in time are lost; the others wait.
            await asyncio.sleep(_RETRY_SECONDS)
            return
        for turn in ended:
            self._ended.pop(turn, None)
            self._ended_at_ms.pop(turn, None)
        for turn in renew:
            if turn in answer.renewed:
                self._note_granted(turn, asked_at, answer.renewed[turn])
            else:
                self._lose(turn)
        for turn, (host, future) in asked.items():
            start = answer.begun.get(turn)
            if start is None:
                continue
            if future.done():
                if start.is_granted and turn not in self._ended:
                    self._end(turn, TurnEnd(turn, host, 0.0, *self.state(host)))
                continue
            self._asked.pop(turn, None)
            if start.is_granted:
                self._note_granted(turn, asked_at, start.seconds)
            future.set_result(start)
