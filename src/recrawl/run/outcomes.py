"""What an answer of a fetcher means for the corpus, and what the spool keeps of it."""

from typing import Final
from urllib.parse import urlsplit

from recrawl.corpus import Order, Outcome
from recrawl.fetch import FetchAnswer, FetchProblem
from recrawl.fetch.sinks import FetchedPage

__all__ = ["FORBIDDEN", "is_unsent", "make_outcome", "make_spool_page"]

_NOT_MODIFIED: Final = 304
_GONE: Final = (404, 410)
FORBIDDEN: Final = frozenset({FetchProblem.ROBOTS, FetchProblem.BAD_URL})
"""Problems for which no request was sent, and none will be soon.

An address that is refused is not a rule of the site: the name may lead elsewhere later, and the
user may allow the network.
"""
_UNSENT: Final = frozenset({FetchProblem.HOST_DELAY, FetchProblem.CLOSED})


def is_unsent(answer: FetchAnswer) -> bool:
    """Return whether nothing was sent now, but can be later; the order is then given back.

    A robots.txt file that is unreachable comes with the time of the next attempt.

    Parameters
    ----------
    answer
        Answer of the fetcher.
    """
    if answer.redirects:
        return False
    is_unreachable = answer.problem == FetchProblem.ROBOTS and answer.retry_after_seconds
    return answer.problem in _UNSENT or bool(is_unreachable)


def make_outcome(order: Order, answer: FetchAnswer) -> Outcome:
    """Return the outcome of a fetch; whatever happened counts for the page that was ordered.

    Parameters
    ----------
    order
        Order that was fetched.
    answer
        Answer of the fetcher.
    """
    has_page = answer.problem is None and 200 <= answer.status < 300
    return Outcome(
        handle=order.handle,
        status=_status_of(answer),
        body=answer.body if has_page else None,
        content_type=answer.content_type,
        # A "not modified" answer may lack validators that still hold.
        etag=answer.etag or (order.etag if answer.status == _NOT_MODIFIED else None),
        last_modified=answer.last_modified
        or (order.last_modified if answer.status == _NOT_MODIFIED else None),
        fetched_at_ms=answer.fetched_at_ms,
        retry_after_seconds=_wait_of_host(answer),
        disallowed=answer.problem in FORBIDDEN,
    )


def _wait_of_host(answer: FetchAnswer) -> float:
    """Return how long the host of the order asks to be left alone.

    After a redirect the answer may be of another host, whose delay is its own.
    """
    has_moved = urlsplit(answer.final_url).netloc != urlsplit(answer.url).netloc
    return 0.0 if has_moved else answer.retry_after_seconds or 0.0


def _status_of(answer: FetchAnswer) -> int:
    """Return the status to report; 0 for an answer that says nothing about the page."""
    if answer.problem is not None:
        return 0
    if answer.status == _NOT_MODIFIED:
        # Nobody asked whether the page was modified.
        return _NOT_MODIFIED if answer.was_conditional else 0
    # A redirect that was not followed names no target.
    return 0 if 300 <= answer.status < 400 else answer.status


def make_spool_page(
    order: Order, answer: FetchAnswer, *, keeps_unchanged: bool, keeps_gone: bool = False
) -> FetchedPage | None:
    """Return what the spool keeps of an answer; None if no sink needs it.

    Parameters
    ----------
    order
        Order that was fetched.
    answer
        Answer of the fetcher.
    keeps_unchanged
        Whether sinks also want answers without news, for archives.
    keeps_gone
        Whether answers that a page is gone are kept, so that the spool knows whose change it is.
    """
    status = _status_of(answer)
    is_kept = 200 <= status < 300
    if keeps_unchanged:
        is_kept = is_kept or status == _NOT_MODIFIED
    if keeps_unchanged or keeps_gone:
        is_kept = is_kept or status in _GONE
    if not is_kept:
        return None
    return FetchedPage(
        url=order.url,
        key=order.key,
        fetched_at_ms=answer.fetched_at_ms,
        status=answer.status,
        content_type=answer.content_type,
        body=answer.body,
        headers=tuple(answer.headers.items()),
        final_url=answer.final_url if answer.redirects else None,
    )
