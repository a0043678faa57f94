"""What the page about one URL shows: the explanation, the timeline and the last change."""

from typing import Any, Final, NamedTuple

from recrawl.client.details import ServiceDetails
from recrawl.corpus import (
    LastChange,
    PageHistory,
    explanation_of_answer,
    explanation_rows,
    explanation_words,
    timeline_svg,
)
from recrawl.errors import PartitionAway, RecrawlError

__all__ = ["RECORDS_READ_MAX", "PageSight", "see_page"]

RECORDS_READ_MAX: Final = 2_000
"""Number of records of the log that are read for a timeline."""
_TIMELINE_WIDTH: Final = 1_040
_TITLE: Final = "Fetches, changes and signals"


class PageSight(NamedTuple):
    """Everything that is shown of one page."""

    members: dict[str, Any]
    """Members of the explanation, as `PageExplanation.as_dict` has them."""
    words: str
    """The explanation in sentences."""
    rows: list[tuple[str, str]]
    """The explanation in numbers."""
    svg: str | None
    """Timeline; None if the log cannot be read."""
    history: PageHistory | None
    change: LastChange | None


def see_page(corpus: Any, url: str, key: str | None) -> PageSight | None:
    """Return what is shown of a page; None if it is not tracked.

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
    history, change = _read_past(corpus, found.url, key)
    if isinstance(found, ServiceDetails):
        # A page of another worker comes with the words of that worker.
        words, page = " ".join(found.words), explanation_of_answer(found.as_dict())
    else:
        words, page = explanation_words(found, history), found
    svg = None if history is None else timeline_svg(history, title=_TITLE, width=_TIMELINE_WIDTH)
    return PageSight(found.as_dict(), words, explanation_rows(page), svg, history, change)


def _read_past(
    corpus: Any, url: str, key: str | None
) -> tuple[PageHistory | None, LastChange | None]:
    try:
        history = corpus.history(url, key=key, n_records_max=RECORDS_READ_MAX)
        return history, corpus.last_change(url, key=key)
    except (PartitionAway, RecrawlError):
        return None, None  # the explanation may come from a standby, which has no log
