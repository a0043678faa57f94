"""What a crawl finds beside pages: pages to add, signals to send, importances to set.

A crawl knows nothing of sitemaps, feeds and links.  It asks a `PageFinder`, which is
`recrawl.run.Discovery` in ``recrawl run``.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recrawl.corpus import Order, Outcome
from recrawl.fetch import FetchAnswer, FetchKind, FetchTime, PageFetcher

__all__ = ["Findings", "FoundPage", "FoundSignal", "HasMetadata", "PageFinder"]


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page to add.

    Parameters
    ----------
    url
        URL of the page.
    importance
        Importance of a new page; the configured one if None.
    metadata
        Data to store with the page; None keeps what it has.
    """

    url: str
    importance: float | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FoundSignal:
    """A hint that a page may have changed.

    Parameters
    ----------
    url
        URL of the page.
    source
        Name of the source, such as ``"sitemap of example.com"``.
    at_ms
        Instant at which the hint was seen, in milliseconds since 1970.
    claimed_at_ms
        Instant of the change by the hint itself; 0 if it gives none.
    """

    url: str
    source: str
    at_ms: int
    claimed_at_ms: int = 0


@dataclass(slots=True)
class Findings:
    """Everything that one answer leads to.

    Parameters
    ----------
    pages
        Pages to add.
    signals
        Hints to send.
    importances
        Importances to set, by URL.
    outcomes
        Outcomes of fetches that had no order, to report after the pages are added.
    changed
        Whether the answer to the order of a sitemap or feed brought news; None for a page, whose
        content decides.
    """

    pages: list[FoundPage] = field(default_factory=list)
    signals: list[FoundSignal] = field(default_factory=list)
    importances: dict[str, float] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    changed: bool | None = None

    def extend(self, other: "Findings") -> None:
        """Add everything of another one, except ``changed``.

        Parameters
        ----------
        other
            Another one.
        """
        self.pages += other.pages
        self.signals += other.signals
        self.importances |= other.importances
        self.outcomes += other.outcomes


class HasMetadata(Protocol):
    """An order or a change of the feed: something about a page, with the page's metadata."""

    @property
    def url(self) -> str:
        """URL of the page."""
        ...

    @property
    def metadata(self) -> dict[str, Any] | None:
        """Data that is stored with the page."""
        ...


class PageFinder(Protocol):
    """Finds pages, and hints about pages, in the answers of a crawl.

    A crawl calls one method at a time, in threads; `ask_sites` runs in the event loop.
    """

    def start(self, urls: Sequence[str]) -> Findings:
        """Return what to add before the first fetch.

        Parameters
        ----------
        urls
            URLs that the user gave; none when an earlier crawl goes on.
        """
        ...

    def sites_to_ask(self) -> Sequence[Any]:
        """Return the sites whose robots.txt files and sitemaps should be read now."""
        ...

    def ask_sites(
        self, fetcher: PageFetcher, sites: Sequence[Any], time: FetchTime
    ) -> AsyncGenerator[Sequence[Any], None]:
        """Fetch the robots.txt files and the first sitemaps of sites; change nothing.

        Yields the answers in groups, as they come, one for each site.

        Parameters
        ----------
        fetcher
            Fetcher to use.
        sites
            Sites that `sites_to_ask` returned.
        time
            Clock, and how to wait.
        """
        ...

    def take_sites(self, answers: Sequence[Any]) -> Findings:
        """Return what the answers of sites lead to.

        Parameters
        ----------
        answers
            Group of answers that `ask_sites` yielded.
        """
        ...

    def kind_of(self, page: HasMetadata) -> FetchKind:
        """Return whether a page of the corpus is a page, a sitemap or a feed.

        Parameters
        ----------
        page
            Order for the page, or a change of it.
        """
        ...

    def take(self, order: Order, answer: FetchAnswer) -> Findings:
        """Return what an answer leads to.

        Parameters
        ----------
        order
            Order that was fetched.
        answer
            Answer of the fetcher.
        """
        ...

    def commit(self) -> None:
        """Make durable what `take` has remembered: everything that it returned is stored now."""
        ...
