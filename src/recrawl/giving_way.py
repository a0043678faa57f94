"""Let calls that can wait, such as those for pages of the dashboard, give way to leases.

A lease gives up the interpreter's lock many times, and takes it back only when no other thread
runs Python.  So who reads a corpus for people does it in short pieces, between leases: the code
that reads calls `give_way` before each piece, which does nothing unless the call is inside of
`LeasesUnderWay.go_first`.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

__all__ = ["LeasesUnderWay", "Patience", "give_way"]

_POLL_SECONDS = 0.001
# After a lease another thread writes and sends its answer.
_ANSWER_SECONDS = 0.004


class LeasesUnderWay:
    """The leases of a corpus that run at this moment, each inside of a ``with`` statement."""

    def __init__(self) -> None:
        # Changed by single operations only: a fork or a signal may come while a lock is held.
        self._threads: set[int] = set()

    def __enter__(self) -> None:
        self._threads.add(threading.get_ident())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.discard(threading.get_ident())

    @property
    def is_any(self) -> bool:
        """Whether a lease runs."""
        return bool(self._threads)

    @property
    def goes_before_this_thread(self) -> bool:
        """Whether a lease runs, and none of this thread, which would wait for itself."""
        return self.is_any and threading.get_ident() not in self._threads

    @contextmanager
    def go_first(self, seconds_max: float) -> Iterator[None]:
        """Let leases go before each piece of what this thread does meanwhile.

        Parameters
        ----------
        seconds_max
            Time from now on after which it no longer waits, however many leases there are.
        """
        before = getattr(_OF_THREAD, "patience", None)
        _OF_THREAD.patience = Patience(self, seconds_max)
        try:
            give_way()
            yield
        finally:
            _OF_THREAD.patience = before


class Patience:
    """How long something still waits for leases.

    Parameters
    ----------
    leases
        Leases that go first.
    seconds_max
        Time from now on after which nothing is waited for.
    """

    def __init__(self, leases: LeasesUnderWay, seconds_max: float) -> None:
        self._leases = leases
        self._until = time.monotonic() + seconds_max
        self._has_seen_any = False

    def pause_seconds(self) -> float:
        """Return the seconds after which to ask again; 0 if the next piece may begin now."""
        if self._leases.goes_before_this_thread:
            if time.monotonic() < self._until:
                self._has_seen_any = True
                return _POLL_SECONDS
        elif self._has_seen_any:
            self._has_seen_any = False
            return _ANSWER_SECONDS
        return 0.0


_OF_THREAD = threading.local()


def give_way() -> None:
    """Wait until no lease runs, if this thread has promised to let leases go first."""
    patience: Patience | None = getattr(_OF_THREAD, "patience", None)
    if patience is not None:
        while (seconds := patience.pause_seconds()) > 0:
            time.sleep(seconds)
