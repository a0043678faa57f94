"""What the latest fetch of a page meant, from the feed of changes: pages themselves do not keep it.

The feed is in the order of its instants, so the place of the fetch is found by halving, and only
what was reported about then is looked at.
"""

from recrawl.shard import Transition
from recrawl.store import Cursor, Store

__all__ = ["CHANGES_READ_MAX", "REPORTED_WITHIN_MS", "last_outcome"]

CHANGES_READ_MAX = 10_000
"""Changes that are looked at for one answer."""
REPORTED_WITHIN_MS = 86_400_000
"""A fetch reported later than this is taken for one that found nothing new."""
# Pages keep whole seconds.
_SLACK_MS = 1_000
_CHANGES_PER_READ = 1_000


def _place_of(store: Store, at_ms: int) -> Cursor | None:
    """Return where changes from an instant on begin; None if some before it are forgotten."""
    first = store.first_change
    oldest = store.changes(first, 1)
    if first != (0, 0) and (not oldest or oldest[0].at_ms > at_ms):
        return None
    low, high = first.position, store.position
    while low < high:
        middle = (low + high) // 2
        found = store.changes(Cursor(middle, 0), 1)
        if not found or found[0].at_ms >= at_ms:
            high = middle
        else:
            low = found[0].cursor.position + 1
    return Cursor(low, 0) if low > first.position else first


def last_outcome(
    store: Store, page: int, *, added_at_ms: int, fetched_at_ms: int
) -> Transition | None:
    """Return what the latest fetch of a page meant; NONE if it found nothing new.

    Parameters
    ----------
    store
        With the feed.
    page
        The page.
    added_at_ms
        When it was added.  One fetched before was imported, and its fetch is not in its place.
    fetched_at_ms
        When that fetch was.

    Returns
    -------
    transition
        None if it is not known: the feed no longer reaches so far back, or too much happened.
    """
    if fetched_at_ms + _SLACK_MS < added_at_ms:
        return None
    after = _place_of(store, fetched_at_ms - _SLACK_MS)
    if after is None:
        return None
    found = Transition.NONE
    for _ in range(CHANGES_READ_MAX // _CHANGES_PER_READ):
        changes = store.changes(after, _CHANGES_PER_READ)
        for change in changes:
            if change.at_ms > fetched_at_ms + REPORTED_WITHIN_MS:
                return found
            if change.page == page:
                found = Transition(change.transition)
        if len(changes) < _CHANGES_PER_READ:
            return found
        after = changes[-1].cursor
    return found if found != Transition.NONE else None
