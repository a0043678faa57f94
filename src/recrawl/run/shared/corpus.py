"""A corpus on a server, with what a crawl needs beside the methods of a client.

While the server cannot be reached, calls wait and are repeated, so that a crawl goes on when it is
back.  What the API key does not allow, and a crawl can do without, is left out.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from recrawl.client import Client
from recrawl.corpus import Added, CorpusConfig, Orders, Outcome, PageChange, Reported, Stats
from recrawl.errors import AccessDenied, ChangesLost, ServiceUnavailable, StorageError
from recrawl.messages.results import CountedRows, RowStatus, Signalled, find_unavailable
from recrawl.messages.robots import RobotsNote
from recrawl.messages.views import SourceRow

__all__ = ["SharedCorpus"]

_T = TypeVar("_T")
_log = logging.getLogger("recrawl.run")

_STATS_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
# Time for the last reports of a crawl that is told to stop while the server is away.
_STOP_SECONDS: Final = 10.0
# Longest time for which rows of pages are sent again while their partitions cannot be reached.
_ROWS_SECONDS: Final = 60.0


_UNSIGNALLED: Final = "changes that sitemaps and feeds announce are not signalled"


class SharedCorpus:
    """The part of a corpus that a crawl uses, over HTTP.

    Parameters
    ----------
    client
        Client of the service; its own retries should be short, and it should send rows once.
    folder
        Folder of this worker, for what it keeps between two runs.
    on_pause
        Function that is called with a sentence when the server cannot be reached, and with None
        when it is back.
    """

    def __init__(
        self, client: Client, folder: Path, on_pause: Callable[[str | None], None] = lambda _: None
    ) -> None:
        self.client = client
        self.folder = folder
        self.on_pause = on_pause
        """Function that is told that the server is away, and that it is back."""
        self._lock = threading.Lock()
        self._is_away = False
        self._gives_up_at: float | None = None
        self._stats: tuple[float, Stats] | None = None
        self._left_out: set[str] = set()

    @cached_property
    def config(self) -> CorpusConfig:
        """The configuration; the defaults if the key does not allow to read it."""
        try:
            return CorpusConfig.from_dict(self._call(self.client.configuration))
        except AccessDenied:
            return CorpusConfig()

    def stop(self) -> None:
        """Repeat calls only for a few seconds from now on."""
        self._gives_up_at = time.monotonic() + _STOP_SECONDS

    def _call(self, call: Callable[[], _T]) -> _T:
        """Call the service until it answers."""
        while True:
            try:
                found = call()
            except (ServiceUnavailable, StorageError) as error:
                gives_up_at = self._gives_up_at
                if gives_up_at is not None and time.monotonic() > gives_up_at:
                    raise
                self._note_away(str(error))
                time.sleep(_PAUSE_SECONDS)
                continue
            self._note_away(None)
            return found

    def _note_away(self, why: str | None) -> None:
        with self._lock:
            is_news = self._is_away != (why is not None)
            self._is_away = why is not None
        if is_news:
            self.on_pause(None if why is None else f"waiting for the server: {why}")

    def _call_if_allowed(self, what: str, call: Callable[[], _T], otherwise: _T) -> _T:
        """Call the service; say once that something is left out if the key does not allow it."""
        try:
            return self._call(call)
        except AccessDenied as error:
            if what not in self._left_out:
                self._left_out.add(what)
                _log.warning("%s: %s", what, error)
            return otherwise

    def _repeat_rows(
        self,
        what: str,
        status: NDArray[np.uint8],
        send: Callable[[NDArray[np.int64]], NDArray[np.uint8]],
    ) -> None:
        """Send rows again while their partitions cannot be reached, as long as that is of use.

        Parameters
        ----------
        what
            Loss, if the rows are not done in time, for a warning.
        status
            Status of each row, which is changed.
        send
            Function that sends some rows, given by number, and returns the status of each.
        """
        ends_at = time.monotonic() + _ROWS_SECONDS
        while (rows := find_unavailable(status)).size:
            gives_up_at = self._gives_up_at
            if time.monotonic() > min(ends_at, math.inf if gives_up_at is None else gives_up_at):
                _log.warning("the partitions of %d pages cannot be reached: %s", rows.size, what)
                return
            time.sleep(_PAUSE_SECONDS)
            status[rows] = send(rows)

    # ------------------------------------------------------------------ orders

    def lease(self, n: int, *, seconds: float, with_shortfall: bool) -> Orders:
        """Return up to ``n`` pages that are most worth fetching now."""
        from recrawl.client.request_keys import new_request_key  # noqa: PLC0415

        key = new_request_key()  # the same for all attempts, so that no order is lost
        return self._call(
            lambda: self.client.lease(
                n, seconds=seconds, with_shortfall=with_shortfall, request=key
            )
        )

    def wait_seconds(self) -> float:
        """Return 0: the service does not say when the budget allows the next fetch."""
        return 0.0

    def extend(self, handles: Sequence[int], *, seconds: float) -> CountedRows:
        """Hold orders until ``seconds`` from now; those that are unavailable, the crawl repeats."""
        return self._call(lambda: self.client.extend(handles, seconds=seconds))

    def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched."""
        return self._call(lambda: self.client.release(handles))

    def report(self, outcomes: list[Outcome]) -> Reported:
        """Report what fetches found; the crawl reports again what is unavailable."""
        return self._call(lambda: self.client.report(outcomes))

    # ------------------------------------------------------------------ pages and signals

    def add(self, urls: Sequence[str], **columns: Any) -> Added:
        """Add pages to track."""
        added = self._call(lambda: self.client.add(urls, **columns))
        counts, rows = np.array(added), added.rows.copy()
        n_limited, limited_until_ms = added.n_limited, added.limited_until_ms

        def send(some: NDArray[np.int64]) -> NDArray[np.uint8]:
            nonlocal counts, n_limited, limited_until_ms
            own = _take(columns, some, len(urls))
            again = self._call(lambda: self.client.add([urls[i] for i in some], **own))
            counts = counts + np.array(again)
            n_limited += again.n_limited
            limited_until_ms = max(limited_until_ms, again.limited_until_ms)
            return again.rows

        self._repeat_rows("they were not added", rows, send)
        return Added(
            *counts.tolist(), n_limited=n_limited, limited_until_ms=limited_until_ms, rows=rows
        )

    def signal(self, urls: Sequence[str], *, source: str, **columns: Any) -> Signalled:
        """Signal that pages may have changed."""
        from recrawl.client.request_keys import new_request_key  # noqa: PLC0415

        key = new_request_key()
        # The same request each time: the service remembers its key, so that rows count once.
        found = self._call_if_allowed(
            _UNSIGNALLED,
            lambda: self.client.signal(urls, source=source, request=key, **columns),
            Signalled(0),
        )
        rows = found.rows.copy()

        def send(some: NDArray[np.int64]) -> NDArray[np.uint8]:
            again = self._call(
                lambda: self.client.signal(urls, source=source, request=key, **columns)
            )
            return again.rows[some]

        self._repeat_rows(_UNSIGNALLED, rows, send)
        is_unknown = np.isin(rows, (RowStatus.UNKNOWN, RowStatus.REFUSED))
        return Signalled(
            int(np.count_nonzero(rows == RowStatus.DONE)),
            n_unknown=int(np.count_nonzero(is_unknown)),
            rows=rows,
        )

    def set(self, urls: Sequence[str], **settings: Any) -> None:
        """Set when sitemaps and feeds are read again."""
        what = "sitemaps and feeds are read as often as pages"
        found = self._call_if_allowed(
            what, lambda: self.client.set(urls, **settings), CountedRows(0)
        )

        def send(some: NDArray[np.int64]) -> NDArray[np.uint8]:
            return self._call(lambda: self.client.set([urls[i] for i in some], **settings)).rows

        self._repeat_rows(what, found.rows.copy(), send)

    def set_each(self, urls: Sequence[str], **columns: Any) -> None:
        """Set the importance of pages."""
        what = "copies of pages keep their importance"
        found = self._call_if_allowed(
            what, lambda: self.client.set_each(urls, **columns), CountedRows(0)
        )

        def send(some: NDArray[np.int64]) -> NDArray[np.uint8]:
            own = _take(columns, some, len(urls))
            return self._call(lambda: self.client.set_each([urls[i] for i in some], **own)).rows

        self._repeat_rows(what, found.rows.copy(), send)

    def set_host(self, host: str, **politeness: Any) -> None:
        """Let nothing of a host be leased for some time, or set its delay."""
        until_ms = politeness.pop("blocked_until_ms", None)
        if until_ms is not None:
            seconds = max((until_ms - self.now_ms()) / 1000, 0.0)
            self._call(lambda: self.client.take_turns(rest={host: seconds}))
        if politeness:
            self._call_if_allowed(
                "pages of slow hosts are leased earlier than they can be fetched",
                lambda: self.client.set_host(host, **politeness),
                None,
            )

    def note_robots(self, notes: Iterable[RobotsNote]) -> None:
        """Tell the service what robots.txt files say; once, as a crawl can do without."""
        self.client.note_robots(notes)

    # ------------------------------------------------------------------ reading

    def now_ms(self) -> int:
        """Return the current time of the server, as far as its answers have shown it."""
        return self.client.now_ms()

    def stats(self) -> Stats:
        """Return counts, budget, price and estimated freshness, at most a few seconds old."""
        now = time.monotonic()
        if self._stats is None or now - self._stats[0] > _STATS_SECONDS:
            self._stats = (now, self._call(self.client.stats))
        return self._stats[1]

    @property
    def n_pages(self) -> int:
        """The number of tracked pages."""
        return self.stats().n_pages

    def n_pages_of_host(self, host: str) -> int:
        """Return the number of tracked pages of a host."""
        return self._call(lambda: self.client.n_pages_of_host(host))

    def explain(self, url: str) -> Any:
        """Return what discovery looks at: price, importance and rate of change of a page."""
        found = self._call(lambda: self.client.explain(url))
        if found is None:
            return None
        members = found.as_dict()
        state = SimpleNamespace(**members)
        return SimpleNamespace(
            state=state,
            has_price=members.get("price") is not None,
            group=members["host"]["name"],
        )

    def source(self, source: str, host: str) -> SourceRow | None:
        """Return how reliable and how late a source of signals is on a host."""
        return self._call(lambda: self.client.source(source, host))

    def changes(self, after: str | None = None, *, limit: int = 1_000) -> list[PageChange]:
        """Return the new, changed and gone pages after a cursor, oldest first."""
        try:
            return self._call(lambda: self.client.changes(after, limit=limit))
        except ChangesLost:
            # This worker was away for long; its own changes, if any, are among those that are left.
            return self._call(lambda: self.client.changes(None, limit=limit))


def _take(columns: dict[str, Any], rows: NDArray[np.int64], n_rows: int) -> dict[str, Any]:
    """Return the values of some rows; a value that is not a list is that of all rows."""
    return {
        name: [values[i] for i in rows]
        if isinstance(values, list) and len(values) == n_rows
        else values
        for name, values in columns.items()
    }
