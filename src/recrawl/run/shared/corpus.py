"""A corpus on a server, with what a crawl needs beside the methods of a client.

While the server cannot be reached, calls wait and are repeated, so that a crawl goes on when it is
back.  What the API key does not allow, and a crawl can do without, is left out.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from recrawl.client import Client
from recrawl.corpus import Added, CorpusConfig, Orders, Outcome, PageChange, Reported, Stats
from recrawl.errors import AccessDenied, ChangesLost, ServiceUnavailable, StorageError
from recrawl.messages.results import CountedRows, Signalled
from recrawl.messages.views import SourceRow

__all__ = ["SharedCorpus"]

_T = TypeVar("_T")
_log = logging.getLogger("recrawl.run")

_STATS_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.5
# Time for the last reports of a crawl that is told to stop while the server is away.
_STOP_SECONDS: Final = 10.0


class SharedCorpus:
    """The part of a corpus that a crawl uses, over HTTP.

    Parameters
    ----------
    client
        Client of the service; its own retries should be short.
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
        """Hold orders until ``seconds`` from now."""
        return self._call(lambda: self.client.extend(handles, seconds=seconds))

    def release(self, handles: Sequence[int]) -> CountedRows:
        """Give back orders that were not fetched."""
        return self._call(lambda: self.client.release(handles))

    def report(self, outcomes: list[Outcome]) -> Reported:
        """Report what fetches found."""
        return self._call(lambda: self.client.report(outcomes))

    # ------------------------------------------------------------------ pages and signals

    def add(self, urls: Sequence[str], **columns: Any) -> Added:
        """Add pages to track."""
        return self._call(lambda: self.client.add(urls, **columns))

    def signal(self, urls: Sequence[str], *, source: str, **columns: Any) -> Signalled:
        """Signal that pages may have changed."""
        from recrawl.client.request_keys import new_request_key  # noqa: PLC0415

        key = new_request_key()
        return self._call_if_allowed(
            "changes that sitemaps and feeds announce are not signalled",
            lambda: self.client.signal(urls, source=source, request=key, **columns),
            Signalled(0),
        )

    def set(self, urls: Sequence[str], **settings: Any) -> None:
        """Set when sitemaps and feeds are read again."""
        self._call_if_allowed(
            "sitemaps and feeds are read as often as pages",
            lambda: self.client.set(urls, **settings),
            CountedRows(0),
        )

    def set_each(self, urls: Sequence[str], **columns: Any) -> None:
        """Set the importance of pages."""
        self._call_if_allowed(
            "copies of pages keep their importance",
            lambda: self.client.set_each(urls, **columns),
            CountedRows(0),
        )

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
