"""A thread that reports answers to the corpus, so that reading bodies never holds up the crawl.

Everything that is waiting is reported at once.  If items say what changed, each response waits for
its report; otherwise only while many answers or bytes are waiting.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from recrawl.corpus import Outcome, PageChange, Transition
from recrawl.errors import RecrawlError
from recrawl.scrapy.page_store import FinishedPage, PageStore

if TYPE_CHECKING:
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
# A report takes milliseconds whatever its size, so it waits this long for others to come along:
# less if responses wait for it.
_GATHER_SECONDS: Final = 1.0
_GATHER_SECONDS_AWAITED: Final = 0.02
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


class Reporter:
    """Reports answers, and writes what the page store keeps, in a thread of its own.

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
        self._waiting: queue.SimpleQueue[_Answer | FinishedPage | list[int] | None] = (
            queue.SimpleQueue()
        )
        self._cursor = corpus.commit_changes(ITEMS_CONSUMER, "newest")
        self._thread = threading.Thread(target=self._work, name="recrawl-reporter", daemon=True)
        self.counts = ReportCounts()
        """Numbers of answers; complete after `stop`."""
        self._n_bytes_waiting = 0
        self._has_failed = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Report everything that is waiting, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    @property
    def is_behind(self) -> bool:
        """Whether so much is waiting that responses should wait, too."""
        n_waiting = self._waiting.qsize()
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
        self._waiting.put(_Answer(fetch, outcome, resolve))

    def finish(self, page: FinishedPage) -> None:
        """Note that all items of a page have been processed."""
        self._waiting.put(page)

    def release(self, handles: list[int]) -> None:
        """Give back orders that were not fetched."""
        self._waiting.put(handles)

    def _work(self) -> None:
        try:
            self._work_to_end()
        except Exception as error:
            self._fail(error, is_bug=True)
            # A response must never wait for ever.
            while (one := self._waiting.get()) is not None:
                if isinstance(one, _Answer) and one.resolve is not None:
                    self._resolve(one.resolve, None)

    def _work_to_end(self) -> None:
        with PageStore(self._folder) as pages:
            is_last = False
            while not is_last:
                batch = self._gather()
                is_last = None in batch
                answers = [one for one in batch if isinstance(one, _Answer)]
                news: list[PageNews | None] = [None] * len(answers)
                try:
                    self._release([one for one in batch if isinstance(one, list)])
                    if answers:
                        news = self._report(pages, answers)
                    # After the reports: they open pages that may be finished already.
                    pages.mark_finished(one for one in batch if isinstance(one, FinishedPage))
                except (RecrawlError, OSError) as error:
                    self._fail(error)
                except Exception as error:
                    self._fail(error, is_bug=True)
                self._n_bytes_waiting = max(
                    self._n_bytes_waiting - sum(len(one.outcome.body or b"") for one in answers), 0
                )
                for answer, found in zip(answers, news, strict=True):
                    self.counts.add(answer.outcome, found)
                    if answer.resolve is not None:
                        self._resolve(answer.resolve, found)

    def _gather(self) -> "list[_Answer | FinishedPage | list[int] | None]":
        """Return what is waiting, and what comes within some milliseconds."""
        batch = [self._waiting.get()]
        seconds = _GATHER_SECONDS_AWAITED if self.is_awaited else _GATHER_SECONDS
        ends_at = time.monotonic() + seconds
        while len(batch) < _BATCH_MAX and batch[-1] is not None:
            left = ends_at - time.monotonic() if self._n_under_way() else 0.0
            try:
                batch.append(self._waiting.get(block=left > 0, timeout=max(left, 0.0)))
            except queue.Empty:
                break
        return batch

    def _resolve(self, resolve: _Resolve, news: PageNews | None) -> None:
        self._call_in_loop(lambda: resolve(news))

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
        pages.mark_open((one.fetch.url, one.fetch.request, _NOT_REPORTED) for one in opened)
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
            (answer.outcome.fetched_at_ms, answer.fetch.open_transition or 0, answer.fetch.url)
            for answer in opened
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
