"""Change feeds of old partitions that were merged into those of new ones."""

import json
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recrawl.store import Cursor, Store
from recrawl.store.resize.moved_feed import (
    FeedMerge,
    OldFeed,
    UnreadChangesError,
    moved_changes,
    old_feeds,
)

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
    merge = FeedMerge([new.values for new in news], len(feeds))
    assert merge.add(feeds, [about])
    counts = merge.finish([about])
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


def move(
    olds: list[Store], generation: int, folder: Path, partition_of: Callable[[str], int], n_new: int
) -> list[Store]:
    """Return new stores with the changes of old ones; pages keep their numbers."""

    def partitions_of(names: pa.StringArray) -> np.ndarray:
        return np.array([partition_of(name) for name in names.to_pylist()], np.int64)

    feeds = [
        moved_changes(old.values, i, partitions_of, lambda page: page) for i, old in enumerate(olds)
    ]
    present = OldFeed(generation, tuple(old.kept_from for old in olds))
    feeds_before = old_feeds([(old.values, old.first_change) for old in olds], present)
    news = [Store.open(folder / f"g{generation + 1}-{i}") for i in range(n_new)]
    merge = FeedMerge([new.values for new in news], len(feeds))
    assert merge.add(feeds, feeds_before)
    counts = merge.finish(feeds_before)
    for new, n_changes in zip(news, counts, strict=True):
        new.complete(new.batch(), 2, n_changes=n_changes, counts=None, curve_prior=None)
    return news


def spread(n_new: int, name: str) -> int:
    """Return the partition of a page among so many, which differs for each number of them."""
    return zlib.crc32(f"{n_new} {name}".encode()) % n_new


def names_after(
    stores: list[Store], generation: int, places: list[Cursor]
) -> list[tuple[int, str, int]]:
    """Return instant, URL and transition of the changes after a cursor, in the order of time."""
    found = []
    for store in stores:
        found += store.changes(store.translate_places(generation, places), 1_000)
    found.sort(key=lambda one: one.at_ms)
    return [(one.at_ms, one.url or "", one.transition) for one in found]


@pytest.mark.parametrize("number", range(4))
def test_cursors_stay_valid_through_several_moves(tmp_path: Path, number: int) -> None:
    random = np.random.default_rng(number)
    n_pages, olds = 12, []
    for i in range(2):
        store = Store.open(tmp_path / f"g0-{i}")
        batch = store.batch()
        page = np.arange(n_pages)
        batch.add_pages(page, pa.array([f"https://h{i}.example/{n}" for n in page]))
        # Many changes of one instant, and pages that change several times.
        at_ms = np.sort(random.integers(0, 8, 30)) * 1_000
        for row, instant in enumerate(at_ms):
            own = random.integers(n_pages, size=1)
            batch.add_changes(10 + row, own, np.array([1 + row]), np.array([instant]))
        store.write(batch, 50)
        olds.append(store)
    cuts = [[Cursor(10 + int(n), 0) for n in random.integers(31, size=2)] for _ in range(8)]
    unread = [
        {
            (one.at_ms, one.url, one.transition)
            for old, place in zip(olds, cut, strict=True)
            for one in old.changes(place, 1_000)
        }
        for cut in cuts
    ]
    stores = olds
    for generation, n_new in enumerate((3, 2, 4)):
        stores = move(stores, generation, tmp_path, partial(spread, n_new), n_new)
        for cut, expected in zip(cuts, unread, strict=True):
            found = names_after(stores, 0, cut)
            assert expected <= {*found}
            assert [one[0] for one in found] == sorted(one[0] for one in found)
            for url in {one[1] for one in found}:
                # The transition counts the changes of an old partition.
                transitions = [one[2] for one in found if one[1] == url]
                assert transitions == sorted(transitions)
        # The end of the feed stays the end.
        assert names_after(stores, 0, [Cursor(40, 0)] * 2) == []


def test_changes_that_were_removed_between_two_moves_are_missed(
    stores: list[Store], tmp_path: Path
) -> None:
    early, late = [Cursor(10, 0)] * 2, [Cursor(35, 0)] * 2
    for store in stores:
        store.trim_changes(before_ms=20_000)
    assert [store.n_changes_read(3, early) for store in stores] == [0, 0]
    assert [store.n_changes_read(3, late) for store in stores] == [26, 24]
    moved = move(stores, 4, tmp_path, lambda name: int(name[-1]) % 3, 3)
    with pytest.raises(UnreadChangesError):
        moved[0].translate_places(3, early)
    assert len(names_after(moved, 3, late)) == 30
    for store in moved:
        store.trim_changes(before_ms=1_000_000)
    with pytest.raises(UnreadChangesError):
        moved[0].translate_places(3, late)
    # Nothing is missing for a reader who has read everything.
    assert names_after(moved, 3, [Cursor(49, 1)] * 2) == []
    assert names_after(moved, 3, [Cursor(50, 0)] * 2) == []


def test_a_reader_of_everything_has_missed_nothing_that_was_removed(tmp_path: Path) -> None:
    olds = [old_store(tmp_path, i) for i in range(2)]
    for old in olds:
        old.trim_changes(before_ms=1_000_000)
        assert old.kept_from == Cursor(49, 1) < old.first_change
    news = move(olds, 0, tmp_path, lambda _: 0, 1)
    assert names_after(news, 0, [Cursor(49, 1)] * 2) == []
    with pytest.raises(UnreadChangesError):
        news[0].translate_places(0, [Cursor(49, 0), Cursor(49, 1)])


@pytest.fixture
def earlier(stores: list[Store]) -> list[Store]:
    """Return the stores as a version has made them that kept places of one division only."""
    for store in stores:
        origins = [*store.values.scan(b"o", b"p")]
        store.values.write([], [], delete_range=(b"o", b"p"))
        about = store.values.get(b"!old-feed")
        assert about is not None
        ((generation, first),) = json.loads(about)["feeds"]
        store.values.write(
            [b"!old-feed", *(key[:1] + key[2:] for key, _ in origins)],
            [
                json.dumps({"generation": generation, "first": first}).encode(),
                *(value[:4] for _, value in origins),
            ],
        )
    return stores


@pytest.mark.parametrize("n_read", [0, 13, 80])
def test_places_that_an_earlier_version_kept_stay_valid(
    earlier: list[Store], tmp_path: Path, n_read: int
) -> None:
    places = [Cursor(10 + (n_read + 1) // 2, 0), Cursor(10 + n_read // 2, 0)]
    at_ms = [1_000 * (i // 2) + 500 * (i % 2) for i in range(n_read, 2 * N_CHANGES)]
    assert [one[0] for one in names_after(earlier, 3, places)] == at_ms
    assert sum(store.n_changes_read(3, places) for store in earlier) == n_read
    moved = move(earlier, 4, tmp_path, partial(spread, 3), 3)
    assert [one[0] for one in names_after(moved, 3, places)] == at_ms


def test_changes_that_an_earlier_version_has_moved_are_removed(
    earlier: list[Store], tmp_path: Path
) -> None:
    first, second = earlier
    first.trim_changes(before_ms=1_000_000)
    assert next(first.values.scan(b"o", b"p"), None) is None
    assert first.translate_places(3, [Cursor(50, 0)] * 2) == first.first_change
    with pytest.raises(UnreadChangesError):
        first.translate_places(3, [Cursor(10, 0)] * 2)
    # That version did not note what it removed last.
    second.values.write([], [], delete_range=(b"o", b"p"))
    with pytest.raises(UnreadChangesError):
        second.translate_places(3, [Cursor(10, 0)] * 2)
    second.trim_changes(before_ms=1_000_000)
    moved = move(earlier, 4, tmp_path, partial(spread, 3), 3)
    with pytest.raises(UnreadChangesError):
        moved[0].translate_places(3, [Cursor(50, 0)] * 2)
