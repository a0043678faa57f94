"""Counts of a crawl, for people who watch it and for its summary."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recrawl.corpus import Transition
from recrawl.fetch import FetchAnswer
from recrawl.run.outcomes import FORBIDDEN
from recrawl.units import count_text

__all__ = ["CrawlProgress", "FetchResult", "RecentChange"]

_RECENT_MAX: Final = 50
_NOT_MODIFIED: Final = 304


class FetchResult(StrEnum):
    """Result of a fetch, in a word."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    NOT_MODIFIED = "not modified"
    GONE = "gone"
    NOT_FOUND = "not found"
    """The page never existed, or was known to be gone."""
    WRONG_ANSWER = "wrong answer"
    """An error page or a block page with a status of success."""
    DISALLOWED = "disallowed"
    """The robots.txt file forbids it, or the address is not public."""
    FAILED = "failed"
    GIVEN_BACK = "given back"
    """The host may not be contacted yet, or the crawl was stopped."""


_OF_TRANSITION: Final = {
    Transition.NEW: FetchResult.NEW,
    Transition.RETURNED: FetchResult.NEW,
    Transition.CHANGED: FetchResult.CHANGED,
    Transition.REVERTED: FetchResult.CHANGED,
    Transition.GONE: FetchResult.GONE,
    Transition.MOVED: FetchResult.GONE,
    Transition.RETIRED: FetchResult.NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A page that was new, changed or gone."""

    at_ms: int
    result: FetchResult
    url: str


@dataclass(slots=True)
class CrawlProgress:
    """What a crawl has done so far; one thread writes it, others may read it.

    Parameters
    ----------
    on_note
        Function that is called with sentences for people, such as why the crawl pauses.
    """

    on_note: Callable[[str], None] = lambda _: None
    results: Counter[FetchResult] = field(default_factory=Counter)
    """Number of fetches of pages by result."""
    problems: Counter[str] = field(default_factory=Counter)
    """Number of failed fetches by problem, such as ``timed_out`` or ``status 500``."""
    recent: deque[RecentChange] = field(default_factory=lambda: deque(maxlen=_RECENT_MAX))
    """Latest changes, oldest first."""
    n_documents: int = 0
    """Fetches of sitemaps and feeds."""
    n_bytes: int = 0
    """Bytes received, headers included."""
    n_requests: int = 0
    """Requests sent, redirects included, without robots.txt files."""
    n_found: int = 0
    """Pages that were added because a sitemap, a feed or a link named them, without sitemaps and
    feeds themselves."""
    n_signals: int = 0
    """Hints of sitemaps and feeds that counted."""
    n_versions: int = 0
    """Versions handed to the sinks."""
    n_open: int = 0
    """Orders that are held now."""
    n_sites: int = 0
    """Sites whose robots.txt files and sitemaps are being read."""
    n_sites_answered: int = 0
    """Those of them that have answered, or will not."""
    pause: str | None = None
    """Why the crawl pauses; None if it does not."""

    @property
    def n_fetches(self) -> int:
        """Number of fetches of pages that were reported."""
        return self.results.total() - self.results[FetchResult.GIVEN_BACK]

    def count_answer(self, url: str, answer: FetchAnswer, transition: int, is_wrong: bool) -> None:
        """Count a fetch that was reported.

        Parameters
        ----------
        url
            URL of the page.
        answer
            Answer of the fetcher.
        transition
            Meaning of the outcome for the page, a `recrawl.corpus.Transition`.
        is_wrong
            Whether the body was not the page.
        """
        result = _result_of(answer, transition, is_wrong)
        self.results[result] += 1
        self.n_bytes += answer.n_bytes_received
        self.n_requests += answer.n_requests
        if result in (FetchResult.FAILED, FetchResult.DISALLOWED):
            self.problems[answer.problem or f"status {answer.status}"] += 1
        if result in (FetchResult.NEW, FetchResult.CHANGED, FetchResult.GONE):
            self.recent.append(RecentChange(answer.fetched_at_ms, result, url))

    def count_document(self, answer: FetchAnswer) -> None:
        """Count a fetch of a sitemap or feed.

        Parameters
        ----------
        answer
            Answer of the fetcher.
        """
        self.n_documents += 1
        self.n_bytes += answer.n_bytes_received
        self.n_requests += answer.n_requests

    def begin_asking(self, n_sites: int) -> None:
        """Note that robots.txt files and sitemaps are read now.

        Parameters
        ----------
        n_sites
            Number of sites that are asked.
        """
        self.n_sites, self.n_sites_answered = n_sites, 0
        sites = count_text(n_sites, "site")
        self.on_note(f"Reading robots.txt and the sitemaps of {sites} …")

    def count_asked(self, n_sites: int) -> None:
        """Note that sites have answered, or will not.

        Parameters
        ----------
        n_sites
            Number of these sites.
        """
        is_first = self.n_sites_answered == 0
        self.n_sites_answered += n_sites
        n_left = self.n_sites - self.n_sites_answered
        if is_first:
            left = f"; {count_text(n_left, 'site')} still to answer" if n_left else ""
            found = f"Found {count_text(self.n_found, 'page')}" if self.n_found else "Found no page"
            self.on_note(f"{found} in sitemaps{left}. Fetching what is due …")
        elif not n_left:
            self.on_note(f"All sites were asked; found {count_text(self.n_found, 'page')} so far.")

    def set_pause(self, reason: str | None) -> None:
        """Note that the crawl pauses, or goes on; say so once.

        Parameters
        ----------
        reason
            Why it pauses; None if it goes on.
        """
        if reason is not None and self.pause is None:
            self.on_note(f"Paused: {reason}.")
        elif reason is None and self.pause is not None:
            self.on_note("Going on.")
        self.pause = reason


def _result_of(answer: FetchAnswer, transition: int, is_wrong: bool) -> FetchResult:
    found = _OF_TRANSITION.get(Transition(transition))
    if found is not None:
        return found
    if is_wrong:
        return FetchResult.WRONG_ANSWER
    if answer.problem in FORBIDDEN:
        return FetchResult.DISALLOWED
    if answer.problem is None:
        if answer.status == _NOT_MODIFIED and answer.was_conditional:
            return FetchResult.NOT_MODIFIED
        if 200 <= answer.status < 300:
            return FetchResult.UNCHANGED
        if answer.status in (404, 410):
            return FetchResult.NOT_FOUND
    return FetchResult.FAILED
