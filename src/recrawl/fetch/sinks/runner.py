"""Bring the versions in a spool to every sink, each at its own pace."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from recrawl.atomic_files import create_folder, replace_json
from recrawl.errors import SinkError
from recrawl.fetch.sinks.contract import Sink, check_sink_name
from recrawl.fetch.sinks.spool import Spool
from recrawl.shard import Transition

__all__ = ["RETRY_SECONDS_MAX", "SinkRunner", "SinkStatus"]

RETRY_SECONDS_MAX = 300.0
"""Longest time between two attempts to write to a sink that fails."""
_RETRY_SECONDS_MIN = 1.0
_WAIT_SECONDS = 0.5
_ERROR_CHARACTERS_MAX = 500
# A call of a sink gets more versions if the last one was shorter than this, otherwise fewer.
_CALL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """How far a sink is.

    Parameters
    ----------
    name
        Name of the sink.
    n_waiting
        Number of versions in the spool that the sink does not have yet.
    n_written
        Number of versions written since the runner was created.
    n_missed
        Number of versions that the spool had deleted before this sink was used.
    n_failures
        Number of attempts that failed since the last that did not.
    error
        Reason of the last failure; None after a success.
    retry_at_ms
        Instant of the next attempt after a failure, in milliseconds since 1970; None otherwise.
    """

    name: str
    n_waiting: int
    n_written: int
    n_missed: int
    n_failures: int
    error: str | None
    retry_at_ms: int | None

    def __str__(self) -> str:
        text = f"{self.name}: {self.n_written} written, {self.n_waiting} waiting"
        return text if self.error is None else f"{text}, failing: {self.error}"


class _Delivery:
    """A sink and its place in the spool."""

    def __init__(self, sink: Sink, spool: Spool, folder: Path) -> None:
        self.sink = sink
        self.spool = spool
        self.path = folder / f"{check_sink_name(sink.name)}.json"
        self.n_written = 0
        self.n_failures = 0
        self.error: str | None = None
        self.retry_at_ms: int | None = None
        self.waiting_since_ms: int | None = None
        # A process that is killed again and again must have written something each time, so a
        # call gets few versions at first.
        self.versions_max = 1
        first = spool.first_number
        stored = self._stored_number()
        # A spool whose end was damaged gives some numbers again.
        stored = None if stored is None else min(stored, spool.next_number)
        self.number = first if stored is None else max(stored, first)
        self.n_missed = self.number - stored if stored is not None else 0

    def _stored_number(self) -> int | None:
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            stored = json.loads(self.path.read_bytes())
            if stored["spool"] == self.spool.id:
                return int(stored["next"])
        return None

    @property
    def n_waiting(self) -> int:
        return max(self.spool.next_number - self.number, 0)

    def is_due(self, now_ms: int, *, at_once: bool) -> bool:
        """Return whether to call the sink now."""
        if not self.n_waiting:
            self.waiting_since_ms = None
            return False
        if self.retry_at_ms is not None:
            return now_ms >= self.retry_at_ms
        if self.waiting_since_ms is None:
            self.waiting_since_ms = now_ms
        batch = self.sink.batch
        waited = now_ms - self.waiting_since_ms >= batch.wait_seconds * 1000
        return at_once or waited or self.n_waiting >= batch.versions_max

    def step(self, now_ms: int) -> bool:
        """Write the next versions; return whether that succeeded."""
        batch = self.sink.batch
        # A sink that collects versions wants them in one call.
        is_collecting = batch.wait_seconds > 0
        limit = batch.versions_max if is_collecting else self.versions_max
        started = time.monotonic()
        try:
            versions = self.spool.read(self.number, limit=limit, bytes_max=batch.bytes_max)
            if not versions:
                return False
            wanted = versions
            if not self.sink.wants_unchanged:
                wanted = [one for one in versions if one.transition != Transition.NONE]
            if wanted:
                self.sink.write(wanted)
            number = versions[-1].number + 1
            replace_json(self.path, {"spool": self.spool.id, "next": number})
        except Exception as error:  # a sink of a user may raise anything
            self._note_failure(error, now_ms)
            return False
        self.number = number
        self.n_written += len(wanted)
        self.n_failures, self.error, self.retry_at_ms = 0, None, None
        self.waiting_since_ms = None
        factor = 2.0 if time.monotonic() - started < _CALL_SECONDS else 0.5
        self.versions_max = min(max(int(factor * self.versions_max), 1), batch.versions_max)
        return True

    def _note_failure(self, error: Exception, now_ms: int) -> None:
        wait = min(_RETRY_SECONDS_MIN * 2.0 ** min(self.n_failures, 20), RETRY_SECONDS_MAX)
        if isinstance(error, SinkError):
            text = str(error)
            if error.retry_after_seconds is not None:
                wait = max(wait, min(error.retry_after_seconds, RETRY_SECONDS_MAX))
        else:
            text = f"{type(error).__name__}: {error}"
        self.n_failures += 1
        self.error = text[:_ERROR_CHARACTERS_MAX]
        self.retry_at_ms = now_ms + round(wait * 1000)

    def status(self) -> SinkStatus:
        return SinkStatus(
            name=self.sink.name,
            n_waiting=self.n_waiting,
            n_written=self.n_written,
            n_missed=self.n_missed,
            n_failures=self.n_failures,
            error=self.error,
            retry_at_ms=self.retry_at_ms,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class SinkRunner:
    """Sends versions from a spool to sinks, with a durable place for each.

    A sink that fails keeps its place and is tried again ever more slowly; the others go on.  The
    spool deletes a version when every sink has it.

    Use `start` and `stop` to send in background threads, or call `step` yourself.

    Parameters
    ----------
    spool
        Spool to read from.
    sinks
        Sinks, each with its own name.
    now_ms
        Function that returns the present instant, in milliseconds since 1970.
    """

    def __init__(
        self, spool: Spool, sinks: Sequence[Sink], *, now_ms: Callable[[], int] = _now_ms
    ) -> None:
        names = [sink.name for sink in sinks]
        if len(set(names)) < len(names):
            raise ValueError(f"each sink must have its own name, got {names}")
        folder = spool.folder / "positions"
        create_folder(folder)
        self._spool = spool
        self._now_ms = now_ms
        self._deliveries = [_Delivery(sink, spool, folder) for sink in sinks]
        self._is_stopping = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._delete_written()

    @property
    def n_waiting(self) -> int:
        """Largest number of versions that wait for a sink."""
        return max((one.n_waiting for one in self._deliveries), default=0)

    @property
    def next_step_ms(self) -> int | None:
        """Earliest instant at which `step` may have something to do; None if nothing waits."""
        found = []
        for one in self._deliveries:
            if one.n_waiting:
                since = one.waiting_since_ms
                ready = 0 if since is None else since + round(one.sink.batch.wait_seconds * 1000)
                found.append(ready if one.retry_at_ms is None else one.retry_at_ms)
        return min(found, default=None)

    def statuses(self) -> list[SinkStatus]:
        """Return how far each sink is."""
        return [one.status() for one in self._deliveries]

    def step(self, *, at_once: bool = False) -> bool:
        """Call each sink that is due once; return whether any of them has written something.

        Parameters
        ----------
        at_once
            Whether to send also what a sink would rather collect for longer.
        """
        has_written = False
        for one in self._deliveries:
            has_written |= self._step_of(one, at_once)
        return has_written

    def _step_of(self, delivery: _Delivery, at_once: bool) -> bool:
        now_ms = self._now_ms()
        if not delivery.is_due(now_ms, at_once=at_once) or not delivery.step(now_ms):
            return False
        self._delete_written()
        return True

    def _delete_written(self) -> None:
        numbers = [one.number for one in self._deliveries]
        self._spool.forget_before(min(numbers, default=self._spool.next_number))

    def start(self) -> None:
        """Begin to send in background threads, one for each sink."""
        for one in self._deliveries:
            name = f"recrawl sink {one.sink.name}"
            thread = threading.Thread(target=self._send, args=(one,), name=name, daemon=True)
            self._threads[one.sink.name] = thread
            thread.start()

    def _send(self, delivery: _Delivery) -> None:
        while not self._is_stopping.is_set():
            if not self._step_of(delivery, False):
                if delivery.n_waiting:
                    self._is_stopping.wait(_WAIT_SECONDS)
                else:
                    self._spool.wait_for_version(delivery.number, _WAIT_SECONDS)

    def stop(self, seconds: float = 10.0) -> bool:
        """End the background threads, send what waits, and close the sinks.

        Returns whether every sink has every version.  What is left is sent after the next start.

        Parameters
        ----------
        seconds
            Longest time to wait for calls that have begun, and to send what waits.  A sink whose
            call takes longer is left as it is; its versions come again after the next start.
        """
        self._is_stopping.set()
        end = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(end - time.monotonic(), 0.0))
        idle = [one for one in self._deliveries if not self._is_busy(one)]
        while time.monotonic() < end and any(self._step_of(one, True) for one in idle):
            pass
        for one in idle:
            with suppress(Exception):  # everything that counts is durable
                one.sink.close()
        return self.n_waiting == 0

    def _is_busy(self, delivery: _Delivery) -> bool:
        thread = self._threads.get(delivery.sink.name)
        return thread is not None and thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
