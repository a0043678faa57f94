"""What the page about one URL shows: the explanation, the timeline and the last change."""

from collections.abc import Hashable
from typing import Any, Final, NamedTuple, Self

from recrawl.client.details import ServiceDetails
from recrawl.corpus import (
    LastChange,
    PageExplanation,
    PageHistory,
    explanation_of_answer,
    explanation_rows,
    explanation_words,
    timeline_svg,
)
from recrawl.errors import PartitionAway, RecrawlError

__all__ = [
    "RECORDS_READ_MAX",
    "PagePast",
    "PagePresent",
    "PageSight",
    "read_page_past",
    "read_page_present",
]

RECORDS_READ_MAX: Final = 2_000
"""Number of records of the log that are read for a timeline."""
_TIMELINE_WIDTH: Final = 1_040
_TITLE: Final = "Fetches, changes and signals"


class PagePresent(NamedTuple):
    """The present state of one page: what is quick to read."""

    url: str
    members: dict[str, Any]
    """Members of the explanation, as `PageExplanation.as_dict` has them."""
    page: PageExplanation
    words: str | None
    """The explanation in sentences, if another worker has written it."""

    @property
    def version(self) -> Hashable:
        """Value that differs after each fetch, failed ones included, and each signal."""
        members = self.members
        signals = sum(one["signals_since_fetch"] for one in members["sources"])
        names = ("fetched_at_ms", "errors", "n_wrong_answers", "status")
        return (signals, *(members.get(name) for name in names))


class PagePast(NamedTuple):
    """The past of one page: what takes long to read."""

    history: PageHistory | None = None
    """None if the log cannot be read."""
    svg: str | None = None
    """Timeline; None without a history."""
    change: LastChange | None = None


class PageSight(NamedTuple):
    """Everything that is shown of one page."""

    members: dict[str, Any]
    """Members of the explanation, as `PageExplanation.as_dict` has them."""
    words: str
    """The explanation in sentences."""
    rows: list[tuple[str, str]]
    """The explanation in numbers."""
    svg: str | None
    history: PageHistory | None
    change: LastChange | None

    @classmethod
    def of(cls, present: PagePresent, past: PagePast) -> Self:
        """Return what is shown of a page with this state and past.

        Parameters
        ----------
        present
            Present state.
        past
            Past, which may be older than the state.
        """
        words, fetched_at_ms = present.words, present.members["fetched_at_ms"]
        if words is None:
            history = past.history
            if history is not None and history.until_ms < (fetched_at_ms or 0):
                history = None  # it lacks the last fetch
            words = explanation_words(present.page, history)
        rows = explanation_rows(present.page)
        return cls(present.members, words, rows, past.svg, past.history, past.change)


def read_page_present(corpus: Any, url: str, key: str | None) -> PagePresent | None:
    """Return the present state of a page; None if it is not tracked.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`.
    url
        URL of the page.
    key
        Key of the page, in a corpus grouped by key.
    """
    found = corpus.explain(url, key=key)
    if found is None:
        return None
    if isinstance(found, ServiceDetails):
        # A page of another worker comes with the words of that worker.
        members = found.as_dict()
        page = explanation_of_answer(members)
        return PagePresent(found.url, members, page, " ".join(found.words))
    return PagePresent(found.url, found.as_dict(), found, None)


def read_page_past(corpus: Any, url: str, key: str | None) -> PagePast:
    """Return the timeline and the last change of a page.

    Parameters
    ----------
    corpus
        Object with the methods of `recrawl.Corpus`.
    url
        URL of the page.
    key
        Key of the page, in a corpus grouped by key.
    """
    try:
        history = corpus.history(url, key=key, n_records_max=RECORDS_READ_MAX)
        change = corpus.last_change(url, key=key)
    except (PartitionAway, RecrawlError):
        return PagePast()  # the explanation may come from a standby, which has no log
    svg = None if history is None else timeline_svg(history, title=_TITLE, width=_TIMELINE_WIDTH)
    return PagePast(history, svg, change)
