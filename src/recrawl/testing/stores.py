"""Read everything in a store, to compare it with another store of the same log."""

from typing import Any

import numpy as np

from recrawl.store import Cursor, Names, Store

__all__ = ["contents_of"]

_SLOTS_PER_SCAN = 1 << 16


def contents_of(store: Store, n_slots: int) -> dict[str, Any]:
    """Return the pages, names, changes, memories of texts and position of a store.

    The result does not depend on the layout on disk: two stores of one log have different hash keys
    and may have been written in different batches.

    Parameters
    ----------
    store
        Store to read.
    n_slots
        Number of slots ever used in its partition.
    """
    pages: dict[int, Any] = {}
    for first in range(0, n_slots, _SLOTS_PER_SCAN):
        page, url = store.scan_names(first, min(_SLOTS_PER_SCAN, n_slots - first))
        columns = [url.to_pylist(), store.fetch_urls_of(page).to_pylist()]
        columns += [list(column) for column in store.records_of(page)]
        columns += [list(column) for column in store.user_data_of(page)]
        columns += [list(column) for column in store.page_contents_of(page)]
        pages |= dict(zip(page.tolist(), zip(*columns, strict=True), strict=True))
    names = {what: store.names_of(what, range(store.n_names(what) + 1)) for what in Names}
    changes: list[Any] = []
    after = Cursor.parse(None)
    while found := store.changes(after, 10_000):
        changes += found
        after = found[-1].cursor
    groups = np.arange(store.n_names(Names.GROUP) + 1)
    return {
        "position": store.position,
        "pages": pages,
        "names": names,
        "changes": changes,
        "content_counts": store.content_counts,
        "hosts": store.host_memories_of(groups),
    }
