"""A thread that reports answers to the corpus, so that reading bodies never holds up the crawl.

Everything that is waiting is reported at once.  If items say what changed, each response waits for
its report; otherwise only while many answers or bytes are waiting.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from recrawl.corpus import Outcome, PageChange, Transition
from recrawl.errors import RecrawlError
from recrawl.scrapy.page_store import FinishedPage, PageStore

if TYPE_CHECKING:
    from recrawl.content import ObserverPool
    from recrawl.corpus import Corpus

__all__ = [
    "ANSWERS_WAITING_MAX",
    "BYTES_WAITING_MAX",
    "ITEMS_CONSUMER",
    "PageFetch",
    "PageNews",
    "ReportCounts",
    "Reporter",
]

logger = logging.getLogger(__name__)

ITEMS_CONSUMER: Final = "scrapy-items"
"""Consumer of the change feed from which items learn the passages that changed."""
# Transition of a page that was fetched, but not reported yet.
_NOT_REPORTED: Final = 100
_BATCH_MAX: Final = 512
# A report takes milliseconds whatever its size, so what comes within this time is reported at once:
# less if responses wait for it.
_GATHER_SECONDS: Final = 1.0
_GATHER_SECONDS_AWAITED: Final = 0.02
# Bytes of waiting bodies that are reported before that time has passed.
_BATCH_BYTES: Final = 16 << 20
ANSWERS_WAITING_MAX: Final = 1_024
"""Number of answers beyond which responses wait until they are reported."""
BYTES_WAITING_MAX: Final = 64 << 20
"""Bytes of waiting bodies beyond which responses wait until they are reported."""
_CHANGES_MAX: Final = 1_000


class PageNews(NamedTuple):
    """What a fetch found, compared with the copy before; ``response.meta["recrawl"]`` as fields."""

    transition: str
    """``"new"``, ``"changed"``, ``"unchanged"``, ``"reverted"``, ``"gone"``, ``"returned"`` …"""
    added: tuple[int, ...]
    """Hashes of passages that the page did not have before."""
    removed: tuple[int, ...]
    """Hashes of passages that the page no longer has."""
    added_text: tuple[str | None, ...] | None
    """Texts of ``added``, with ``RECRAWL_KEEP_TEXT``; else None."""
    previous_at_ms: int | None
    """Time of the previous fetch, in milliseconds since 1970; None if there was none."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for items and for JSON."""
        return {
            "transition": self.transition,
            "added": list(self.added),
            "removed": list(self.removed),
            "added_text": None if self.added_text is None else list(self.added_text),
            "previous_at_ms": self.previous_at_ms,
        }


@dataclass(slots=True, kw_only=True, eq=False)
class PageFetch:
    """One page that is fetched, until all its items have been processed.

    Parameters
    ----------
    url
        Canonical URL of the page.
    handle
        Handle of the order; 0 for a fetch without one.
    etag, last_modified
        Validators to send; None if there are none.
    request
        Request of the page as JSON; None if it cannot be stored.
    previous_at_ms
        Time of the fetch before; 0 if there was none.
    open_transition
        Transition of an earlier fetch whose items may not have been processed; None if there is
        none.
    started_at_ms
        Time at which the last request was sent.
    was_conditional
        Whether the add-on added validators to the request.
    news
        Result of the report; None if items do not say what changed.
    n_items_open
        Number of its items that have not passed all pipelines.
    is_consumed
        Whether its callback has ended.
    follow_ups
        Requests that it leads to, as JSON; None if one of them cannot be stored.
    n_characters
        Characters of ``follow_ups`` together.
    """

    url: str
    handle: int = 0
    etag: bytes | None = None
    last_modified: bytes | None = None
    request: str | None = None
    previous_at_ms: int = 0
    open_transition: int | None = None
    started_at_ms: int = 0
    was_conditional: bool = False
    news: PageNews | None = None
    n_items_open: int = 0
    is_consumed: bool = False
    follow_ups: list[str] | None = None
    n_characters: int = 0

    def failure(self, now_ms: int, *, is_disallowed: bool = False) -> Outcome:
        """Return the outcome of a fetch without an answer.

        Parameters
        ----------
        now_ms
            Time of the corpus.
        is_disallowed
            Whether robots.txt forbids the page, so that nothing was sent.
        """
        return Outcome(
            handle=self.handle,
            url=None if self.handle else self.url,
            status=0,
            disallowed=is_disallowed,
            fetched_at_ms=self.started_at_ms or now_ms,
        )


@dataclass(slots=True)
class ReportCounts:
    """Numbers of reported answers, for the summary."""

    fetched: int = 0
    failed: int = 0
    forbidden: int = 0
    not_reported: int = 0
    by_transition: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome, news: PageNews | None) -> None:
        """Count one answer; ``news`` is None if it could not be reported."""
        self.fetched += not outcome.disallowed
        self.forbidden += outcome.disallowed
        if news is None:
            self.not_reported += 1
        elif outcome.is_failure:
            self.failed += 1
        elif not outcome.disallowed:
            self.by_transition[news.transition] = self.by_transition.get(news.transition, 0) + 1


_Resolve: TypeAlias = Callable[[PageNews | None], None]


class _Answer(NamedTuple):
    fetch: PageFetch
    outcome: Outcome
    resolve: _Resolve | None


_Waiting: TypeAlias = _Answer | FinishedPage | list[int]


class Reporter:
    """Reports answers, and writes what the page store keeps, in a thread of its own.

    The thread looks at what is waiting from time to time.  If each answer woke it, the thread of
    the crawl would give up the interpreter's lock for each, and would wait to get it back.

    Parameters
    ----------
    corpus
        Corpus of the crawl.
    folder
        Folder of the page store.
    call_in_loop
        Function that calls another one in the thread of the crawl.
    n_under_way
        Function that returns the number of pages that are being fetched.
    is_awaited
        Whether each response waits for its report, because items say what changed.
    """

    def __init__(
        self,
        corpus: "Corpus",
        folder: Path,
        call_in_loop: Callable[[Callable[[], None]], None],
        n_under_way: Callable[[], int],
        *,
        is_awaited: bool,
    ) -> None:
        self._n_under_way = n_under_way
        self.is_awaited = is_awaited
        self._corpus = corpus
        self._folder = folder
        self._call_in_loop = call_in_loop
        self._waiting: deque[_Waiting] = deque()
        self._wake = threading.Event()
        self._is_stopping = False
        self._cursor = corpus.commit_changes(ITEMS_CONSUMER, "newest")
        self._gathered_at = time.monotonic()
        # Bodies are read while those before are compared and written.
        self._read: queue.Queue[list[_Waiting]] = queue.Queue(1)
        content = corpus.config.content
        self._reads_ahead = content.enabled and content.processes > 0
        work = [self._work, self._read_ahead] if self._reads_ahead else [self._work]
        self._threads = [
            threading.Thread(target=one, name="recrawl-reporter", daemon=True) for one in work
        ]
        self.counts = ReportCounts()
        """Numbers of answers; complete after `stop`."""
        self._n_bytes_waiting = 0
        self._has_failed = False

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Report everything that is waiting, and end the threads."""
        self._is_stopping = True
        self._wake.set()
        for thread in self._threads:
            thread.join()

    @property
    def is_behind(self) -> bool:
        """Whether so much is waiting that responses should wait, too."""
        n_waiting = len(self._waiting)
        return n_waiting >= ANSWERS_WAITING_MAX or self._n_bytes_waiting >= BYTES_WAITING_MAX

    def report(self, fetch: PageFetch, outcome: Outcome, resolve: _Resolve | None = None) -> None:
        """Report an answer, and call a function with the news when it is durable.

        Parameters
        ----------
        fetch
            Page that was fetched.
        outcome
            Result of the fetch.
        resolve
            Function to call in the thread of the crawl; its argument is None if the report failed.
        """
        # Both threads change this number, so it is an estimate.
        self._n_bytes_waiting += len(outcome.body or b"")
        self._waiting.append(_Answer(fetch, outcome, resolve))
        is_awaited_alone = resolve is not None and not self._n_under_way()
        if is_awaited_alone or self._has_batch:
            self._wake.set()

    def finish(self, page: FinishedPage) -> None:
        """Note that all items of a page have been processed."""
        self._waiting.append(page)

    def release(self, handles: list[int]) -> None:
        """Give back orders that were not fetched."""
        self._waiting.append(handles)

    @property
    def _has_batch(self) -> bool:
        return len(self._waiting) >= _BATCH_MAX or self._n_bytes_waiting >= _BATCH_BYTES

    def _work(self) -> None:
        following = self._read.get if self._reads_ahead else self._gather
        try:
            with PageStore(self._folder) as pages:
                while batch := following():
                    self._process(pages, batch)
        except Exception as error:
            self._fail(error, is_bug=True)
            # A response must never wait for ever.
            while batch := following():
                self._resolve((one, None) for one in batch if isinstance(one, _Answer))

    def _read_ahead(self) -> None:
        from recrawl.content import ObserverPool  # noqa: PLC0415

        content = self._corpus.config.content
        try:
            with ObserverPool(content.processes, content.content_settings()) as pool:
                while batch := self._gather():
                    self._read.put(self._observe(pool, batch))
        finally:
            # Without an end, the other thread would wait for ever.
            self._read.put([])

    def _observe(self, pool: "ObserverPool", batch: list[_Waiting]) -> list[_Waiting]:
        """Return the same with observations in place of bodies."""
        from recrawl.content import PageBody  # noqa: PLC0415

        answers = [one for one in batch if isinstance(one, _Answer) and one.outcome.body]
        bodies = [
            PageBody(one.outcome.body or b"", one.outcome.content_type, one.fetch.url)
            for one in answers
        ]
        with_texts = self._corpus.config.content.keep_text
        try:
            observations = list(pool.observe_all(bodies, with_texts=with_texts))
        except Exception as error:
            self._fail(error, is_bug=True)
            return batch  # the corpus reads these bodies itself
        found = {
            id(one): one._replace(outcome=replace(one.outcome, body=None, observation=observation))
            for one, observation in zip(answers, observations, strict=True)
        }
        return [found.get(id(one), one) for one in batch]

    def _process(self, pages: PageStore, batch: list[_Waiting]) -> None:
        answers = [one for one in batch if isinstance(one, _Answer)]
        news: list[PageNews | None] = [None] * len(answers)
        try:
            self._release([one for one in batch if isinstance(one, list)])
            if answers:
                news = self._report(pages, answers)
            # After the reports: they open pages that may be finished already.
            pages.mark_finished([one for one in batch if isinstance(one, FinishedPage)])
        except (RecrawlError, OSError) as error:
            self._fail(error)
        except Exception as error:
            self._fail(error, is_bug=True)
        for answer, found in zip(answers, news, strict=True):
            self.counts.add(answer.outcome, found)
        self._resolve(zip(answers, news, strict=True))

    def _gather(self) -> list[_Waiting]:
        """Wait for something to do; return the first of it, or nothing after `stop`."""
        seconds = _GATHER_SECONDS_AWAITED if self.is_awaited else _GATHER_SECONDS
        while True:
            is_last = self._is_stopping
            left = self._gathered_at + seconds - time.monotonic()
            if left > 0 and not (is_last or self._has_batch):
                self._wake.wait(left)
            self._wake.clear()
            self._gathered_at = time.monotonic()
            n_waiting = min(len(self._waiting), _BATCH_MAX)
            if n_waiting or is_last:
                batch = [self._waiting.popleft() for _ in range(n_waiting)]
                n_bytes = sum(
                    len(one.outcome.body or b"") for one in batch if isinstance(one, _Answer)
                )
                self._n_bytes_waiting = max(self._n_bytes_waiting - n_bytes, 0)
                return batch

    def _resolve(self, found: Iterable[tuple[_Answer, PageNews | None]]) -> None:
        """Let responses that wait go on, all in one call."""
        waiting = [(one.resolve, news) for one, news in found if one.resolve is not None]
        if not waiting:
            return

        def resolve_all() -> None:
            for resolve, news in waiting:
                resolve(news)

        self._call_in_loop(resolve_all)

    def _fail(self, error: Exception, *, is_bug: bool = False) -> None:
        if not self._has_failed:
            logger.error(
                "recrawl could not report a fetch: %s\nThe crawl goes on; pages that were not "
                "reported are fetched again.",
                error,
                exc_info=error if is_bug else None,
            )
        self._has_failed = True

    def _release(self, handles: list[list[int]]) -> None:
        if handles:
            self._corpus.release([one for part in handles for one in part])

    def _report(self, pages: PageStore, answers: list[_Answer]) -> list[PageNews | None]:
        opened = [one for one in answers if 200 <= one.outcome.status < 300]
        pages.mark_open([(one.fetch.url, one.fetch.request, _NOT_REPORTED) for one in opened])
        reported = self._corpus.report([one.outcome for one in answers])
        has_changes = self.is_awaited and reported.transition.any()
        changes = self._new_changes() if has_changes else {}
        news: list[PageNews | None] = []
        for answer, code in zip(answers, reported.transition.tolist(), strict=True):
            fetch = answer.fetch
            transition = Transition(code)
            earlier = fetch.open_transition
            if transition == Transition.NONE and earlier is not None:
                # An earlier crawl saw this version, and ended before its items were processed.
                is_unknown = earlier == _NOT_REPORTED
                transition = Transition.CHANGED if is_unknown else Transition(earlier)
            news.append(_news_of(fetch, transition, changes.get(fetch.url)))
            fetch.open_transition = int(transition)
        pages.mark_reported(
            [
                (one.fetch.url, one.outcome.fetched_at_ms, one.fetch.open_transition or 0)
                for one in opened
            ]
        )
        return news

    def _new_changes(self) -> dict[str, PageChange]:
        """Return the changes in the feed since the last call, by URL."""
        changes: dict[str, PageChange] = {}
        while found := self._corpus.changes(self._cursor, limit=_CHANGES_MAX):
            self._cursor = found[-1].cursor
            changes |= {one.url: one for one in found}
        return changes


def _news_of(fetch: PageFetch, transition: Transition, change: PageChange | None) -> PageNews:
    passages = None if change is None else change.passages
    return PageNews(
        transition="unchanged" if transition == Transition.NONE else transition.name.lower(),
        added=() if passages is None else passages.added,
        removed=() if passages is None else passages.removed,
        added_text=None if passages is None else passages.added_text,
        previous_at_ms=fetch.previous_at_ms or None,
    )
