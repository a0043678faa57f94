"""Change feeds of old partitions that were merged into those of new ones."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recrawl.store import Cursor, Store
from recrawl.store.resize.moved_feed import OldFeed, merge_feeds, moved_changes

N_CHANGES = 40


def old_store(folder: Path, partition: int) -> Store:
    """Return a store with changes of pages, one for each record of its log."""
    store = Store.open(folder / f"old{partition}")
    page = np.arange(4)
    batch = store.batch()
    batch.add_pages(page, pa.array([f"https://h{partition}.example/{i}" for i in page]))
    for i in range(N_CHANGES):
        # Partition 1 is half a second behind partition 0.
        at_ms = np.array([1_000 * i + 500 * partition])
        batch.add_changes(10 + i, page[i % 4 : i % 4 + 1], np.array([1]), at_ms)
    store.write(batch, 10 + N_CHANGES)
    return store


@pytest.fixture
def stores(tmp_path: Path) -> list[Store]:
    """Return new stores: pages with even numbers are in the first, the others in the second."""
    olds = [old_store(tmp_path, i) for i in range(2)]

    def partitions_of(names: pa.StringArray) -> np.ndarray:
        return np.array([int(name[-1]) % 2 for name in names.to_pylist()])

    feeds = [
        moved_changes(old.values, i, partitions_of, lambda page: page + 100)
        for i, old in enumerate(olds)
    ]
    news = [Store.open(tmp_path / f"new{i}") for i in range(2)]
    about = OldFeed(3, (Cursor(10, 0), Cursor(10, 0)))
    counts = merge_feeds(feeds, [new.values for new in news], about)
    assert counts == [N_CHANGES] * 2
    for new, n_changes in zip(news, counts, strict=True):
        new.complete(new.batch(), 2, n_changes=n_changes, counts=None, curve_prior=None)
    return news


def test_changes_are_in_the_order_of_their_time(stores: list[Store]) -> None:
    for i, store in enumerate(stores):
        found = store.changes(Cursor.parse(None), 1_000)
        assert [one.at_ms for one in found] == sorted(one.at_ms for one in found)
        assert len(found) == store.n_changes == N_CHANGES
        assert {one.page % 2 for one in found} == {i}
        assert min(one.page for one in found) >= 100
        assert store.n_changes_before(Cursor(0, 7)) == 7


@pytest.mark.parametrize("n_read", [0, 1, 13, 40, 79, 80])
def test_a_cursor_leads_to_the_first_change_that_was_not_read(
    stores: list[Store], n_read: int
) -> None:
    # In the order of time, partitions take turns.
    places = [Cursor(10 + (n_read + 1) // 2, 0), Cursor(10 + n_read // 2, 0)]
    found = []
    for store in stores:
        found += store.changes(store.translate_places(3, places), 1_000)
    assert len(found) == 2 * N_CHANGES - n_read
    at_ms = [1_000 * (i // 2) + 500 * (i % 2) for i in range(n_read, 2 * N_CHANGES)]
    assert sorted(one.at_ms for one in found) == at_ms


def test_cursors_of_other_layouts_and_lost_changes_are_refused(stores: list[Store]) -> None:
    with pytest.raises(ValueError, match="layout generation 2"):
        stores[0].translate_places(2, [Cursor(10, 0)] * 2)
    with pytest.raises(ValueError, match="layout generation 3"):
        stores[0].translate_places(3, [Cursor(10, 0)] * 3)
    with pytest.raises(ValueError, match="were removed before they were read"):
        stores[0].translate_places(3, [Cursor(10, 0), Cursor(9, 0)])
    assert stores[0].translate_places(3, [Cursor(0, 0), Cursor(0, 0)]) == Cursor(0, 0)


def test_moved_changes_are_removed_like_others(stores: list[Store]) -> None:
    store = stores[0]
    store.trim_changes(before_ms=20_000)
    place = store.translate_places(3, [Cursor(10, 0)] * 2)
    assert place == store.first_change
    assert min(one.at_ms for one in store.changes(place, 1_000)) >= 20_000
    store.trim_changes(before_ms=1_000_000)
    assert store.changes(Cursor.parse(None), 10) == []
    assert next(store.values.scan(b"o", b"p"), None) is None
