"""Everything in a store, to compare it with another one that should say the same."""

from typing import Any

from recrawl.store import Cursor, Names, Store

__all__ = ["contents_of"]

_SLOTS_PER_SCAN = 1 << 16


def contents_of(store: Store, n_slots: int) -> dict[str, Any]:
    """Return what a store says of pages, names and changes, and its position.

    Where things stand in it does not matter: two stores of one log have different hash keys and
    may have been written in different batches.

    Parameters
    ----------
    store
        To read.
    n_slots
        Slots ever used in its partition.
    """
    pages: dict[int, Any] = {}
    for first in range(0, n_slots, _SLOTS_PER_SCAN):
        page, url = store.scan_urls(first, min(_SLOTS_PER_SCAN, n_slots - first))
        columns = [url.to_pylist(), store.fetch_urls_of(page).to_pylist()]
        columns += [list(column) for column in store.records_of(page)]
        pages |= dict(zip(page.tolist(), zip(*columns, strict=True), strict=True))
    names = {what: store.names_of(what, range(store.n_named(what) + 1)) for what in Names}
    changes: list[Any] = []
    after = Cursor.parse(None)
    while found := store.changes(after, 10_000):
        changes += found
        after = found[-1].cursor
    return {"position": store.position, "pages": pages, "names": names, "changes": changes}
