"""Find the last change of a page in the feed of changes, and the texts of its passages.

The feed has the texts of the passages that a change added, if texts are kept.  The text of a
passage that a change removed is that of the earlier change which added it, if the feed still has
that one.
"""

from collections.abc import Iterator

from recrawl.corpus.inspect.explanation import first_cursor
from recrawl.messages.enums import Transition
from recrawl.messages.views import LastChange, Passage
from recrawl.node.node import Node
from recrawl.store import StoredChange, unpack_passages

__all__ = ["CHANGES_LOOKED_AT_MAX", "PASSAGES_SHOWN_MAX", "find_last_change"]

CHANGES_LOOKED_AT_MAX = 40_000
"""Largest number of changes of all pages that are searched for those of one page."""
PASSAGES_SHOWN_MAX = 200
"""Largest number of passages added, and of those removed, in a `LastChange`."""
# A fetch is reported while about so many other changes are.
_CHANGES_AFTER_FETCH = 10_000
# A shard stores whole seconds.
_SLACK_MS = 1_000


def find_last_change(node: Node, page: int) -> LastChange | None:
    """Return the last change of a page; None if the feed does not show one.

    Parameters
    ----------
    node
        Node with the page.
    page
        Number of the page.
    """
    with node.lock:
        state = node.shard.explain(page)
    if state is None or state.fetched_at_ms is None:
        return None
    changes = _changes_of(node, page, state.fetched_at_ms)
    last = next(changes, None)
    if last is None:
        return None
    what = Transition(last.transition)
    if last.passages is None:
        return LastChange(last.at_ms, what, None, None, 0)
    passages = unpack_passages(last.passages)
    removed = passages.removed[:PASSAGES_SHOWN_MAX]
    known = _texts_of(changes, set(removed))
    texts = passages.added_text or (None,) * len(passages.added)
    return LastChange(
        last.at_ms,
        what,
        tuple(Passage(one, known.get(one)) for one in removed),
        tuple(map(Passage, passages.added[:PASSAGES_SHOWN_MAX], texts)),
        len(passages.kept),
    )


def _changes_of(node: Node, page: int, fetched_at_ms: int) -> Iterator[StoredChange]:
    """Yield the changes of a page, the latest first."""
    store = node.store
    place = first_cursor(store, fetched_at_ms - _SLACK_MS) or store.first_change
    after = store.changes_of_page(page, place, n_read_max=_CHANGES_AFTER_FETCH, before=False)
    yield from reversed(list(after))
    yield from store.changes_of_page(page, place, n_read_max=CHANGES_LOOKED_AT_MAX, before=True)


def _texts_of(changes: Iterator[StoredChange], wanted: set[int]) -> dict[int, str]:
    """Return the texts of passages that earlier changes of the page added, as far as known."""
    found: dict[int, str] = {}
    while len(found) < len(wanted):
        change = next(changes, None)
        if change is None:
            break
        passages = None if change.passages is None else unpack_passages(change.passages)
        if passages is None or passages.added_text is None:
            continue
        for number, text in zip(passages.added, passages.added_text, strict=True):
            if text is not None and number in wanted:
                found.setdefault(number, text)
    return found
