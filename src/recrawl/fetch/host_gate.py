"""When each host may be contacted next.

Requests for pages, robots.txt files, sitemaps, feeds and redirects all pass the gate of their host.
The delay runs from the end of an answer, so that two requests never reach a host sooner than that,
however long the first one was under way.
"""

import asyncio
import json
import math
import zlib
from typing import Final, NamedTuple, Protocol

from recrawl.fetch.fetch_time import FetchTime
from recrawl.fetch.settings import FetchSettings
from recrawl.signals.headers import RETRY_AFTER_SECONDS_MAX

__all__ = ["GateRecords", "HostGate", "HostState"]

# Weight of the latest answer in the average of how long a host takes.
_LATEST_WEIGHT: Final = 0.3
_DOUBLINGS_MAX: Final = 20
# Share of a Retry-After that is added, by host, so that not all hosts of a site are due at once.
_SPREAD_SHARE: Final = 0.1
_WAIT_SECONDS_MAX: Final = RETRY_AFTER_SECONDS_MAX * (1 + _SPREAD_SHARE)
_LINE_FIELDS: Final = 6
# Nobody knows when a request that is under way will end.
_BUSY_SECONDS: Final = 0.2


class GateRecords(Protocol):
    """Keeps a line for each change of a host, such as `recrawl.fetch.GateFile`."""

    def append(self, line: bytes) -> None:
        """Write one line so that it survives the end of the process."""
        ...


class HostState(NamedTuple):
    """What a gate has learned of a host, for another gate that contacts the host next."""

    crawl_delay_seconds: float = 0.0
    """Delay that the robots.txt file asks for."""
    answer_seconds: float = 0.0
    """Average time that the host takes to answer."""
    n_failures: int = 0
    """Number of failures in a row."""


class _Host:
    """Delays of one host."""

    __slots__ = (
        "answer_seconds",
        "crawl_delay_seconds",
        "n_failures",
        "n_open",
        "n_waiting",
        "next_at_ms",
        "slot_is_free",
    )

    def __init__(self) -> None:
        self.next_at_ms = 0
        self.crawl_delay_seconds = 0.0
        self.answer_seconds = 0.0
        self.n_failures = 0
        self.n_open = 0
        self.n_waiting = 0
        self.slot_is_free: asyncio.Event | None = None


class HostGate:
    """Lets requests to each host start one after the other, with a delay in between.

    Parameters
    ----------
    settings
        Delays and limits.
    time
        Clock, and how to wait.
    records
        Place for a line per change, which `restore` reads after a restart; None keeps the delays
        in memory alone.
    """

    def __init__(
        self, settings: FetchSettings, time: FetchTime, records: GateRecords | None = None
    ) -> None:
        self._settings = settings
        self._time = time
        self._records = records
        self._hosts: dict[str, _Host] = {}
        self._full_until_ms = 0

    def __len__(self) -> int:
        return len(self._hosts)

    async def enter(self, host: str) -> float:
        """Wait until a request to a host may start.

        Returns 0 when it may, and then the caller must call `leave`.  Returns the seconds still to
        wait, at once, if they are more than ``wait_seconds_max``.

        Parameters
        ----------
        host
            Name or address of the host, in lower case.
        """
        found = self._hosts.get(host)
        if found is None:
            found = self._add(host)
            if found is None:
                return max(self._settings.wait_seconds_max, 1.0)
        found.n_waiting += 1
        try:
            while True:
                now_ms = self._time.now_ms()
                wait_ms = found.next_at_ms - now_ms
                if wait_ms > self._settings.wait_seconds_max * 1000:
                    return wait_ms / 1000
                if found.n_open >= self._settings.connections_per_host:
                    await _wait_for_slot(found)
                elif wait_ms > 0:
                    await self._time.sleep(wait_ms / 1000)
                else:
                    break
        finally:
            found.n_waiting -= 1
        self._start(host, found, now_ms)
        return 0.0

    def try_enter(self, host: str) -> float:
        """Let a request to a host start if it may start now.

        Returns 0 if it may, and then the caller must call `leave` or `leave_after`.  Otherwise
        returns the seconds after which to ask again.

        Parameters
        ----------
        host
            Name or address of the host, in lower case.
        """
        found = self._hosts.get(host) or self._add(host)
        if found is None:
            return max(self._settings.wait_seconds_max, 1.0)
        now_ms = self._time.now_ms()
        if found.next_at_ms > now_ms:
            return (found.next_at_ms - now_ms) / 1000
        if found.n_open >= self._settings.connections_per_host:
            return _BUSY_SECONDS
        self._start(host, found, now_ms)
        return 0.0

    def join(self, host: str) -> bool:
        """Count a request that is already under way; return whether the host has room for it.

        Parameters
        ----------
        host
            Name or address of the host.
        """
        found = self._hosts.get(host) or self._add(host)
        if found is None or found.n_open >= self._settings.connections_per_host:
            return False
        self._count_open(host, found)
        return True

    def knows(self, host: str) -> bool:
        """Return whether a request was ever sent to a host, as far as it is remembered."""
        return host in self._hosts

    def leave_after(
        self, host: str, wait_seconds: float, state: HostState | None = None, *, was_open: bool
    ) -> None:
        """Note that a request that another gate sent has ended.

        Parameters
        ----------
        host
            Name or address of the host.
        wait_seconds
            Time for which the other gate leaves the host alone.
        state
            State of the host by the other gate; None if it did not say.
        was_open
            Whether this gate counts the request as one that is under way.
        """
        found = self._hosts.get(host) or self._add(host)
        if found is None:
            return
        if was_open:
            found.n_open -= 1
        if state is not None:
            self._adopt(found, state)
        self._delay(found, max(min(wait_seconds, _WAIT_SECONDS_MAX), self._delay_seconds(found)))
        self._record(host, found)
        _free_slot(found)

    def state(self, host: str) -> HostState:
        """Return what is known of a host."""
        found = self._hosts.get(host)
        if found is None:
            return HostState()
        return HostState(found.crawl_delay_seconds, found.answer_seconds, found.n_failures)

    def adopt(self, host: str, state: HostState) -> None:
        """Take over what another gate has learned of a host.

        Parameters
        ----------
        host
            Name or address of the host.
        state
            State of the host by the other gate.
        """
        found = self._hosts.get(host)
        if found is not None:
            self._adopt(found, state)

    def _adopt(self, found: _Host, state: HostState) -> None:
        found.crawl_delay_seconds = max(state.crawl_delay_seconds, 0.0)
        found.answer_seconds = max(state.answer_seconds, 0.0)
        found.n_failures = max(state.n_failures, 0)

    def _start(self, host: str, found: _Host, now_ms: int) -> None:
        found.next_at_ms = now_ms + math.ceil(self._delay_seconds(found) * 1000)
        self._count_open(host, found)

    def _count_open(self, host: str, found: _Host) -> None:
        """Count a request that starts; one that cannot be recorded does not start."""
        found.n_open += 1
        try:
            self._record(host, found)
        except BaseException:
            found.n_open -= 1
            raise

    def leave(
        self,
        host: str,
        *,
        seconds: float = 0.0,
        is_failure: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Note that a request has ended.

        Parameters
        ----------
        host
            Host that was given to `enter`.
        seconds
            Time from the request to the end of the answer.
        is_failure
            Whether the host did not answer, or asked for fewer requests (429 or 503).
        retry_after_seconds
            Delay that the host asked for.
        """
        found = self._hosts[host]
        found.n_open -= 1
        found.answer_seconds += _LATEST_WEIGHT * (seconds - found.answer_seconds)
        wait = self._delay_seconds(found)
        if is_failure:
            backoff = self._settings.backoff_seconds * 2.0 ** min(found.n_failures, _DOUBLINGS_MAX)
            wait = max(wait, min(backoff, self._settings.backoff_seconds_max))
            found.n_failures += 1
        else:
            found.n_failures = 0
        if retry_after_seconds is not None:
            asked = min(retry_after_seconds, RETRY_AFTER_SECONDS_MAX)
            wait = max(wait, asked * (1.0 + _SPREAD_SHARE * zlib.crc32(host.encode()) / 2**32))
        self._delay(found, wait)
        self._record(host, found)
        _free_slot(found)

    def delay_host(self, host: str, seconds: float) -> None:
        """Let nothing start before some seconds have passed.

        Parameters
        ----------
        host
            Name or address of the host.
        seconds
            Least delay from now.
        """
        found = self._hosts.get(host) or self._add(host)
        if found is not None:
            self._delay(found, seconds)
            self._record(host, found)

    def set_crawl_delay(self, host: str, seconds: float) -> None:
        """Set the delay that the robots.txt file of a host asks for.

        Parameters
        ----------
        host
            Name or address of the host.
        seconds
            Least seconds between two requests; 0 if the file asks for none.
        """
        found = self._hosts.get(host)
        if found is None and seconds > 0.0:
            found = self._add(host)
        if found is None:
            return
        if found.crawl_delay_seconds != seconds:
            if seconds > found.crawl_delay_seconds and found.next_at_ms:
                # The request for the file itself has just ended.
                self._delay(found, seconds)
            found.crawl_delay_seconds = seconds
            self._record(host, found)

    def next_start_ms(self, host: str) -> int:
        """Return the instant before which no request to a host may start; 0 if it may at once."""
        found = self._hosts.get(host)
        return 0 if found is None else found.next_at_ms

    def delay_seconds(self, host: str) -> float:
        """Return the seconds between two requests to a host, without back-off after failures.

        Parameters
        ----------
        host
            Name or address of the host.
        """
        found = self._hosts.get(host)
        return self._settings.delay_seconds if found is None else self._delay_seconds(found)

    def delayed_hosts(self, *, seconds_min: float) -> dict[str, int]:
        """Return the hosts that must be left alone for long, with the instants until which.

        Parameters
        ----------
        seconds_min
            Least delay from now to be listed.
        """
        after_ms = self._time.now_ms() + seconds_min * 1000
        return {name: at.next_at_ms for name, at in self._hosts.items() if at.next_at_ms > after_ms}

    def save(self) -> bytes:
        """Return the delays of all hosts, one line each, for `restore`."""
        now_ms = self._time.now_ms()
        return b"".join(
            _line(name, one)
            for name, one in self._hosts.items()
            if one.next_at_ms > now_ms or one.n_open or one.n_failures
        )

    def restore(self, lines: bytes, *, open_seconds: float = 0.0) -> int:
        """Take over delays that `save` returned or ``records`` kept; return the number of hosts.

        Lines that cannot be read are skipped.  A request that had not ended may have reached its
        host until now, so its delay starts now.

        Parameters
        ----------
        lines
            Lines, one per change of a host; the last line of a host counts.
        open_seconds
            Time for which a request that had not ended may still be under way, because another
            process sent it.
        """
        latest: dict[str, list[float]] = {}
        for line in lines.splitlines():
            try:
                name, *values = json.loads(line)
            except (ValueError, TypeError):
                continue
            are_numbers = all(
                isinstance(value, int | float) and math.isfinite(value) for value in values
            )
            if isinstance(name, str) and len(values) == _LINE_FIELDS - 1 and are_numbers:
                latest[name] = values
        now_ms = self._time.now_ms()
        for name, (next_at_ms, n_open, crawl_delay, answer_seconds, n_failures) in latest.items():
            found = self._hosts.get(name) or self._add(name)
            if found is None:
                break
            found.crawl_delay_seconds = max(crawl_delay, 0.0)
            found.answer_seconds = max(answer_seconds, 0.0)
            found.n_failures = max(int(n_failures), 0)
            # A clock that was set back must not block a host for years.
            latest_ms = now_ms + _WAIT_SECONDS_MAX * 1000
            found.next_at_ms = max(found.next_at_ms, int(min(next_at_ms, latest_ms)))
            if n_open > 0:
                self._delay(found, open_seconds + self._delay_seconds(found))
        return len(latest)

    def _delay_seconds(self, found: _Host) -> float:
        settings = self._settings
        slow = min(settings.slowness_factor * found.answer_seconds, settings.delay_seconds_max)
        return max(settings.delay_seconds, found.crawl_delay_seconds, slow)

    def _delay(self, found: _Host, seconds: float) -> None:
        at_ms = self._time.now_ms() + math.ceil(seconds * 1000)
        found.next_at_ms = max(found.next_at_ms, at_ms)

    def _add(self, host: str) -> _Host | None:
        """Return a new host; None if too many hosts have a delay that has not passed."""
        if len(self._hosts) >= self._settings.hosts_max:
            now_ms = self._time.now_ms()
            if now_ms < self._full_until_ms:
                return None
            passed = [
                name
                for name, one in self._hosts.items()
                if one.next_at_ms <= now_ms and not one.n_open and not one.n_waiting
            ]
            for name in passed:
                del self._hosts[name]
            if not passed:
                # Looking again for each request would take longer than the requests.
                self._full_until_ms = now_ms + 1000
                return None
        found = self._hosts[host] = _Host()
        return found

    def _record(self, host: str, found: _Host) -> None:
        if self._records is not None:
            self._records.append(_line(host, found))


def _free_slot(found: _Host) -> None:
    if found.slot_is_free is not None:
        found.slot_is_free.set()
        found.slot_is_free = None


async def _wait_for_slot(found: _Host) -> None:
    if found.slot_is_free is None:
        found.slot_is_free = asyncio.Event()
    await found.slot_is_free.wait()


def _line(host: str, found: _Host) -> bytes:
    values = (
        host,
        found.next_at_ms,
        found.n_open,
        found.crawl_delay_seconds,
        round(found.answer_seconds, 3),
        found.n_failures,
    )
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
