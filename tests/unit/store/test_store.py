"""Each feature of the store, one at a time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import recrawl.store.store as store_module
from recrawl.errors import FormatError, LockedError, StorageError
from recrawl.kv import KeyValues
from recrawl.store import (
    DIGESTS_MAX,
    ETAG_BYTES_MAX,
    LAST_MODIFIED_BYTES_MAX,
    URL_TEXT_BYTES_MAX,
    Cursor,
    Names,
    Store,
    page_urls,
)
from recrawl.store.keys import HashArray

START = Cursor.parse(None)


def urls(n: int, first: int = 0) -> pa.StringArray:
    texts = [f"https://shop.example/item/{i}" for i in range(first, first + n)]
    return pa.array(texts, pa.string())


def pages(n: int, first: int = 0, generation: int = 0) -> NDArray[np.int64]:
    return np.arange(first, first + n) | generation << 32


def add(store: Store, n: int, first: int = 0) -> NDArray[np.int64]:
    batch = store.batch()
    batch.add_pages(pages(n, first), urls(n, first))
    store.write(batch, store.position + 1)
    return pages(n, first)


def see(store: Store, page: NDArray[np.int64], **content: Any) -> None:
    """Write a fetch of each page with this content."""
    names = ("digest", "etag", "last_modified", "sketch", "profile", "moved_to")
    columns = [pa.array([content.get(name)] * page.size, pa.binary()) for name in names]
    batch = store.batch()
    batch.add_content(page, *columns)
    store.write(batch, store.position + 1)


def one_hash(texts: pa.StringArray, key: int) -> HashArray:
    return np.full(len(texts), 7, np.uint64)


# ------------------------------------------------------------------ pages


def test_a_page_is_found_by_its_url_and_the_url_by_its_page(store: Store) -> None:
    assert store.pages_of(urls(3)).tolist() == [-1, -1, -1]
    page = add(store, 3)
    assert store.pages_of(urls(5)).tolist() == [0, 1, 2, -1, -1]
    assert store.urls_of(page).equals(urls(3))
    assert store.urls_of(np.array([2, 9, -1, 1 | 1 << 32])).to_pylist() == [
        "https://shop.example/item/2",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("n_at_once", [3, 8, 40])
def test_what_is_remembered_of_pages_is_limited(
    store: Store, monkeypatch: pytest.MonkeyPatch, n_at_once: int
) -> None:
    monkeypatch.setattr(store_module, "_LATELY_READ_MAX", 10)
    page = add(store, 40)
    for first in range(0, 40, n_at_once):
        some = page[first : first + n_at_once]
        assert store.urls_of(some).equals(urls(some.size, first))
        assert store.digests_of(some) == [[]] * some.size
        assert len(store._names_read) <= 10
        assert len(store._records_read) <= 10


def test_empty_input_gives_empty_output(store: Store) -> None:
    nothing = np.empty(0, np.int64)
    assert store.pages_of(urls(0)).size == 0
    assert len(store.urls_of(nothing)) == 0
    assert len(store.fetch_urls_of(nothing)) == 0
    assert store.records_of(nothing).etag == []
    assert store.numbers_of(Names.GROUP, []).size == 0
    assert store.names_of(Names.GROUP, []) == []
    assert store.scan_urls(0, 0)[0].size == 0
    assert store.scan_urls(0, 10)[0].size == 0
    batch = store.batch()
    batch.add_pages(nothing, urls(0))
    batch.remove_pages(nothing)
    store.write(batch, 1)
    assert store.position == 1


def test_urls_of_any_length_are_stored(store: Store) -> None:
    """Blocks store lengths in two bytes."""
    lengths = [1, 255, 256, 257, 1000, 40_000, URL_TEXT_BYTES_MAX]
    texts = pa.array(["é" * (n // 2) + "x" * (n % 2) for n in (lengths * 10)])
    page = pages(len(texts))
    batch = store.batch()
    batch.add_pages(page, texts)
    store.write(batch, 1)
    assert store.urls_of(page).equals(texts)
    assert store.scan_urls(0, 100)[1].equals(texts)


def test_slices_of_arrow_arrays_are_stored_correctly(store: Store) -> None:
    whole = urls(200)
    batch = store.batch()
    batch.add_pages(pages(100), whole[50:150])
    store.write(batch, 1)
    assert store.urls_of(pages(100)).equals(whole[50:150])
    assert store.pages_of(whole[140:160]).tolist() == [*range(90, 100), *[-1] * 10]


def test_a_fetch_url_is_returned_where_it_differs(store: Store) -> None:
    batch = store.batch()
    batch.add_pages(pages(2), urls(2), pa.array([None, "https://m.shop.example/"], pa.string()))
    store.write(batch, 1)
    assert store.fetch_urls_of(np.array([1, 0, 5])).to_pylist() == [
        "https://m.shop.example/",
        "https://shop.example/item/0",
        None,
    ]
    batch = store.batch()
    batch.remove_pages(pages(2))
    batch.add_pages(pages(2, generation=1), urls(2))
    store.write(batch, 2)
    assert store.fetch_urls_of(pages(2, generation=1)).equals(urls(2))
    assert store.fetch_urls_of(pages(2)).null_count == 2


@pytest.mark.parametrize("n", [1, 40, 200])
def test_a_removed_page_is_gone_and_its_slot_can_be_reused(store: Store, n: int) -> None:
    page = add(store, n)
    see(store, page, digest=b"a" * 16, etag=b"e")
    batch = store.batch()
    batch.remove_pages(page[::2])
    store.write(batch, 5)
    left = [-1 if i % 2 == 0 else i for i in range(n)]
    assert store.pages_of(urls(n)).tolist() == left
    assert store.records_of(page[::2]).digests == [[]] * page[::2].size
    new = page[::2] | 1 << 32
    batch = store.batch()
    batch.add_pages(new, urls(new.size, 1000))
    store.write(batch, 6)
    assert store.pages_of(urls(new.size, 1000)).tolist() == new.tolist()
    assert store.urls_of(page[::2]).null_count == new.size
    assert store.records_of(new).etag == [None] * new.size
    found, texts = store.scan_urls(0, n)
    assert (found & 0xFFFFFFFF).tolist() == list(range(n))
    assert texts.equals(store.urls_of(found))


@pytest.mark.parametrize("n_found", [0, 1, 3, 100])
def test_single_urls_are_found_beside_blocks_and_after_opening_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_found: int
) -> None:
    monkeypatch.setattr(page_urls, "_BLOCKS_FOUND_MAX", n_found)
    removed = [0, 70, 71, 200, 319]
    expected: list[str | None] = urls(330).to_pylist()
    with Store.open(tmp_path / "store") as store:
        add(store, 320)
        add(store, 10, 320)
        batch = store.batch()
        batch.remove_pages(np.array(removed))
        store.write(batch, store.position + 1)
        batch = store.batch()
        batch.add_pages(np.array([70 | 1 << 32]), pa.array(["https://shop.example/new"]))
        store.write(batch, store.position + 1)
        for slot in removed:
            expected[slot] = None
        assert store.urls_of(pages(330)).to_pylist() == expected
        new = np.array([70 | 1 << 32])
        assert store.urls_of(new).to_pylist() == ["https://shop.example/new"]
    with Store.open(tmp_path / "store") as store:
        assert store.urls_of(pages(330)).to_pylist() == expected
        assert store.urls_of(new).to_pylist() == ["https://shop.example/new"]
        add(store, 5, 400)
        assert store.urls_of(pages(10, 396)).to_pylist() == [
            *[None] * 4,
            *urls(5, 400).to_pylist(),
            None,
        ]


def test_removing_unknown_pages_is_ignored(store: Store) -> None:
    page = add(store, 40)
    batch = store.batch()
    batch.remove_pages(np.array([3 | 1 << 32, 999]))
    store.write(batch, 2)
    assert store.pages_of(urls(40)).tolist() == page.tolist()


def test_pages_may_be_added_in_any_order_of_slots(store: Store) -> None:
    rng = np.random.default_rng(1)
    page = rng.permutation(pages(500))
    batch = store.batch()
    batch.add_pages(page, urls(500))
    store.write(batch, 1)
    assert store.pages_of(urls(500)).tolist() == page.tolist()
    assert store.urls_of(page).equals(urls(500))


# ------------------------------------------------------------------ within one batch


def test_a_batch_applies_its_calls_in_order(store: Store) -> None:
    page = add(store, 50)
    batch = store.batch()
    batch.remove_pages(page[:10])
    batch.add_pages(page[:10] | 1 << 32, urls(10, 100))
    batch.remove_pages(page[:5] | 1 << 32)
    batch.remove_pages(page[5:10])  # void: other pages have the slots
    batch.add_pages(page[:2] | 2 << 32, urls(2))
    store.write(batch, 2)
    assert store.pages_of(urls(10)).tolist() == [2 << 32, 1 | 2 << 32, *[-1] * 8]
    assert store.pages_of(urls(10, 100)).tolist() == [
        *[-1] * 5,
        *(i | 1 << 32 for i in range(5, 10)),
    ]
    assert store.scan_urls(0, 10)[0].tolist() == [
        2 << 32,
        1 | 2 << 32,
        *(i | 1 << 32 for i in range(5, 10)),
    ]


def test_a_url_added_twice_returns_the_first_page(store: Store) -> None:
    batch = store.batch()
    batch.add_pages(np.array([5]), urls(1))
    batch.add_pages(np.array([3]), urls(1))
    store.write(batch, 1)
    assert store.pages_of(urls(1)).tolist() == [5]
    assert store.urls_of(np.array([3, 5])).to_pylist() == urls(1).to_pylist() * 2
    batch = store.batch()
    batch.remove_pages(np.array([5]))
    store.write(batch, 2)
    assert store.pages_of(urls(1)).tolist() == [3]


def test_a_page_added_and_removed_in_one_batch_leaves_only_changes(store: Store) -> None:
    batch = store.batch()
    batch.add_pages(pages(40), urls(40))
    no_values = [pa.nulls(1, pa.binary())] * 5
    batch.add_content(np.array([7]), pa.array([b"d" * 16]), *no_values)
    batch.add_changes(0, np.array([7]), np.array([2]), np.array([99]))
    batch.remove_pages(pages(40))
    store.write(batch, 1)
    assert (store.pages_of(urls(40)) == -1).all()
    assert store.scan_urls(0, 40)[0].size == 0
    assert store.records_of(np.array([7])).digests == [[]]
    (change,) = store.changes(START, 10)
    assert change.url == "https://shop.example/item/7"


def test_invalid_rows_are_refused(store: Store) -> None:
    batch = store.batch()
    with pytest.raises(ValueError, match="urls must have 2 rows, got 3"):
        batch.add_pages(pages(2), urls(3))
    with pytest.raises(ValueError, match="urls must have no nulls, got 1"):
        batch.add_pages(pages(1), pa.nulls(1, pa.string()))
    with pytest.raises(ValueError, match="urls must have at most 65535 bytes, got 65536"):
        batch.add_pages(pages(1), pa.array(["x" * 65536]))
    with pytest.raises(ValueError, match="each slot only once"):
        batch.add_pages(np.array([1, 1 | 1 << 32]), urls(2))
    with pytest.raises(ValueError, match="digests must have 16 bytes"):
        batch.add_content(pages(1), pa.array([b"abc"]), *[pa.nulls(1, pa.binary())] * 5)
    with pytest.raises(ValueError, match="what must be one of"):
        batch.add_names(9, [1], pa.array(["x"]))
    with pytest.raises(ValueError, match="keys must have at most"):
        batch.add_names(Names.KIND, [1], pa.array(["x" * 5000]))


# ------------------------------------------------------------------ hashes


def test_pages_with_the_same_hash_are_distinguished(tmp_path: Path) -> None:
    with Store.open(tmp_path, hash_urls=one_hash) as store:
        page = add(store, 50)
        assert store.pages_of(urls(60)).tolist() == [*page, *[-1] * 10]
        batch = store.batch()
        batch.remove_pages(page[10:20])
        store.write(batch, 2)
        add(store, 5, first=100)
        expected = [*page[:10], *[-1] * 10, *page[20:]]
        assert store.pages_of(urls(50)).tolist() == expected
        assert store.pages_of(urls(5, 100)).tolist() == list(range(100, 105))


def test_look_ups_from_before_a_write_are_not_reused(tmp_path: Path) -> None:
    """A write skips reading hashes that a look-up found absent, unless there was a write since."""
    with Store.open(tmp_path, hash_urls=one_hash) as store:
        store.pages_of(urls(1, 1))
        add(store, 1)
        add(store, 1, first=1)
        assert store.pages_of(urls(2)).tolist() == [0, 1]


def test_each_store_has_its_own_hash_key(tmp_path: Path) -> None:
    keys = []

    def spy(texts: pa.StringArray, key: int) -> HashArray:
        keys.append(key)
        return one_hash(texts, key)

    for name in ("a", "b", "a"):
        with Store.open(tmp_path / name, hash_urls=spy) as store:
            store.pages_of(urls(1))
    assert keys[0] == keys[2] != keys[1]


# ------------------------------------------------------------------ names


def test_names_and_numbers_are_found_by_each_other(store: Store) -> None:
    batch = store.batch()
    batch.add_names(Names.GROUP, [0, 1], pa.array(["a.example", "b.example"]))
    batch.add_names(np.array([Names.KIND, Names.GROUP]), [1, 2], pa.array(["product", "é.example"]))
    batch.add_names(Names.GROUP, [2], pa.array(["é.example"]))
    store.write(batch, 1)
    assert store.numbers_of(Names.GROUP, ["b.example", "é.example", "x"]).tolist() == [1, 2, -1]
    assert store.names_of(Names.GROUP, [2, 0, 7]) == ["é.example", "a.example", None]
    assert store.names_of(Names.KIND, np.array([1])) == ["product"]  # type: ignore[arg-type]
    assert [store.n_names(what) for what in Names] == [3, 1, 0, 0, 0]
    assert store.numbers_of(Names.SOURCE, ["product"]).tolist() == [-1]


# ------------------------------------------------------------------ fetch records


def test_new_content_replaces_or_clears_validators(store: Store) -> None:
    page = add(store, 1)
    see(store, page, digest=b"a" * 16, etag=b'"1"', last_modified=b"Mon", sketch=b"s", profile=b"p")
    see(store, page, etag=b'"2"', moved_to=b"https://new.example/")
    record = store.records_of(page)
    assert record == ([[b"a" * 16]], [b'"2"'], [b"Mon"], [b"s"], [b"p"], ["https://new.example/"])
    assert store.validators_of(page) == ([b'"2"'], [b"Mon"])
    see(store, page, digest=b"b" * 16)
    assert store.records_of(page) == (
        [[b"b" * 16, b"a" * 16]],
        [None],
        [None],
        [None],
        [b"p"],
        [None],
    )


def test_recent_distinct_digests_are_kept_newest_first(store: Store) -> None:
    page = add(store, 1)
    for letter in b"abcdefd":
        see(store, page, digest=bytes([letter]) * 16)
    (digests,) = store.digests_of(page)
    assert [chr(digest[0]) for digest in digests] == ["d", "f", "e", "c"]
    assert len(digests) == DIGESTS_MAX


def test_columns_may_have_any_compatible_arrow_type(store: Store) -> None:
    page = add(store, 3)
    digest = [bytes([i]) * 16 for i in range(4)]
    etag = [b"a", b"", b"cc", b"ddd"]
    for digests in (
        pa.array(digest, pa.binary(16)),
        pa.array(digest),
        pa.array(digest, pa.large_binary()),
    ):
        for texts in (pa.array(etag), pa.array([text.decode() for text in etag])):
            for rows in (slice(0, 3), slice(1, 4)):
                batch = store.batch()
                batch.add_content(page, digests[rows], texts[rows], *[pa.nulls(3)] * 4)
                store.write(batch, 5)
                assert [digests[0] for digests in store.digests_of(page)] == digest[rows]
                assert store.validators_of(page)[0] == [text or None for text in etag[rows]]


def test_one_batch_may_update_a_page_twice(store: Store) -> None:
    page = add(store, 1)
    batch = store.batch()
    for letter in (b"a", b"b"):
        batch.add_content(page, pa.array([letter * 16]), *[pa.nulls(1, pa.binary())] * 5)
    store.write(batch, 2)
    assert store.digests_of(page) == [[b"b" * 16, b"a" * 16]]


def test_a_value_beyond_its_limit_clears_the_stored_value(store: Store) -> None:
    page = add(store, 1)
    see(store, page, etag=b"short", last_modified=b"x" * LAST_MODIFIED_BYTES_MAX)
    assert store.validators_of(page) == ([b"short"], [b"x" * LAST_MODIFIED_BYTES_MAX])
    see(store, page, etag=b"x" * (ETAG_BYTES_MAX + 1))
    see(store, page, last_modified=b"x" * (LAST_MODIFIED_BYTES_MAX + 1))
    assert store.validators_of(page) == ([None], [None])


def test_arbitrary_bytes_are_stored_unchanged(store: Store) -> None:
    page = add(store, 1)
    see(store, page, etag=b"\xff\0\n", moved_to=b"https://x/\xff")
    assert store.records_of(page).etag == [b"\xff\0\n"]
    assert store.records_of(page).moved_to == ["https://x/\ufffd"]


# ------------------------------------------------------------------ changes


def tell(store: Store, position: int, n: int, at_ms: int = 0) -> None:
    batch = store.batch()
    batch.add_changes(position, pages(n), np.arange(n) % 5, np.full(n, at_ms))
    store.write(batch, position + 1)


def test_changes_are_read_from_a_cursor_on(store: Store) -> None:
    add(store, 3)
    tell(store, 5, 3, at_ms=50)
    tell(store, 9, 2, at_ms=90)
    changes = store.changes(START, 4)
    assert [str(change.cursor) for change in changes] == ["5.1", "5.2", "5.3", "9.1"]
    assert changes[1][1:5] == (1, 1, 50, "https://shop.example/item/1")
    rest = store.changes(Cursor.parse("9.1"), 10)
    assert [change.page for change in rest] == [1]
    assert store.changes(rest[-1].cursor, 10) == []
    assert store.changes(START, 0) == []


def test_changes_of_a_removed_page_stay_readable(store: Store) -> None:
    page = add(store, 2)
    batch = store.batch()
    batch.add_changes(1, page, np.array([1, 1]), np.array([7, 7]), pa.array(["https://own/", None]))
    batch.add_changes(1, np.array([999]), np.array([1]), np.array([8]))
    batch.remove_pages(page)
    store.write(batch, 2)
    texts = [change.url for change in store.changes(START, 10)]
    assert texts == ["https://own/", "https://shop.example/item/1", None]
    assert [change.cursor.row for change in store.changes(START, 10)] == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.0", "1.2.3", "a.b", "1.5e3", "٣.١"])
def test_invalid_cursors_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor must be"):
        Cursor.parse(text)


def test_a_cursor_can_be_parsed_from_its_text() -> None:
    assert Cursor.parse(str(Cursor(12, 3))) == Cursor(12, 3)


def test_changes_are_trimmed_by_their_number(tmp_path: Path) -> None:
    with Store.open(tmp_path, changes_max=20) as store:
        for position in range(0, 300, 3):
            tell(store, position, 4)
            changes = store.changes(START, 1000)
            assert len(changes) <= 22
            if position >= 60:
                assert len(changes) >= 19
                assert changes[0].cursor > store.first_change
        tell(store, 400, 500)
        changes = store.changes(START, 1000)
        assert [change.page for change in changes] == list(range(480, 500))
        assert store.first_change == (400, 480)
    with Store.open(tmp_path, changes_max=20) as store:
        assert store.first_change == (400, 480)


def test_changes_are_trimmed_by_age(store: Store) -> None:
    for position in range(0, 100, 7):
        tell(store, position, 2, at_ms=position * 1000)
    store.trim_changes(before_ms=50_000)
    assert {change.at_ms for change in store.changes(START, 100)} == set(
        range(56_000, 100_000, 7000)
    )
    assert store.first_change == (56, 0)
    store.trim_changes(before_ms=10)
    assert store.first_change == (56, 0)
    store.trim_changes(before_ms=10**9)
    assert store.changes(START, 100) == []
    tell(store, 200, 1)
    assert len(store.changes(START, 100)) == 1


# ------------------------------------------------------------------ position


def test_the_position_moves_with_writes(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert store.position == 0
        add(store, 3)
        store.write(store.batch(), 17)
        with pytest.raises(ValueError, match="position must be at least 17, got 16"):
            store.write(store.batch(), 16)
    with Store.open(tmp_path) as store:
        assert store.position == 17


def test_a_large_batch_is_written_in_parts_and_repeating_it_is_harmless(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes fail at each part in turn; the records are then written again in other groups."""
    monkeypatch.setattr(store_module, "_KEYS_PER_WRITE", 40)
    n = 300
    write = KeyValues.write
    for fails_at in range(9):
        left = iter(range(fails_at))

        def failing(kv: KeyValues, *args: Any, left: Any = left, **more: Any) -> None:
            if next(left, None) is None:
                raise StorageError("no space left")
            write(kv, *args, **more)

        monkeypatch.setattr(KeyValues, "write", failing)
        batch = store.batch()
        batch.add_pages(pages(n), urls(n))
        batch.add_names(Names.GROUP, [0], pa.array(["a"]))
        with pytest.raises(StorageError, match="no space"):
            store.write(batch, 2)
        assert store.position == 0
        assert store.n_names(Names.GROUP) == 0
        monkeypatch.setattr(KeyValues, "write", write)
    for first, end in ((0, 50), (50, n)):
        batch = store.batch()
        batch.add_pages(pages(end - first, first), urls(end - first, first))
        batch.add_names(Names.GROUP, [0], pa.array(["a"]))
        store.write(batch, 1)
    assert store.n_names(Names.GROUP) == 1
    assert store.pages_of(urls(n)).tolist() == pages(n).tolist()
    assert store.scan_urls(0, n)[1].equals(urls(n))
    batch = store.batch()
    batch.remove_pages(pages(n))
    store.write(batch, 2)
    assert (store.pages_of(urls(n)) == -1).all()
    assert store.scan_urls(0, n)[0].size == 0


# ------------------------------------------------------------------ files


def test_a_reader_sees_the_writes_after_catch_up(store: Store) -> None:
    add(store, 10)
    with Store.open(store.folder, mode="reader") as reader:
        assert reader.pages_of(urls(10)).tolist() == list(range(10))
        add(store, 10, first=10)
        tell(store, 5, 1)
        assert reader.position == 1
        reader.catch_up()
        assert reader.position == 6
        assert reader.pages_of(urls(20)).tolist() == list(range(20))
        assert len(reader.changes(START, 10)) == 1
        with pytest.raises(StorageError, match="reading only"):
            reader.write(reader.batch(), 9)
    store.catch_up()


def test_a_checkpoint_equals_the_store(store: Store, tmp_path: Path) -> None:
    page = add(store, 100)
    see(store, page, digest=b"a" * 16)
    store.checkpoint(tmp_path / "copy")
    with KeyValues.open(store.folder, mode="reader") as original:
        before = list(original.scan(b""))
    add(store, 100, first=100)
    with Store.open(tmp_path / "copy") as copy:
        assert copy.position == 2
        assert copy.pages_of(urls(101)).tolist() == [*range(100), -1]
        assert copy.digests_of(page) == [[b"a" * 16]] * 100
    with KeyValues.open(tmp_path / "copy") as kv:
        assert list(kv.scan(b"")) == before


def test_writes_survive_a_killed_process(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import numpy as np, pyarrow as pa\n"
        "from recrawl.store import Store\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "batch = store.batch()\n"
        "batch.add_pages(np.arange(50), pa.array([f'https://x.example/{i}' for i in range(50)]))\n"
        "store.write(batch, 3)\n"
        "os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == 9
    with Store.open(tmp_path) as store:
        assert store.position == 3
        assert store.pages_of(pa.array(["https://x.example/49"])).tolist() == [49]


@pytest.mark.parametrize("name", ["format", "canon_version"])
def test_a_store_of_a_newer_version_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with KeyValues.open(tmp_path) as kv:
        identity = json.loads(kv.get(b"!store") or b"")
        identity[name] += 1
        kv.write([b"!store"], [json.dumps(identity).encode()])
    with pytest.raises(
        FormatError, match=f"has {name} {identity[name]}, and this version reads up to"
    ):
        Store.open(tmp_path)


def test_the_canonical_version_of_an_older_store_is_kept(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with KeyValues.open(tmp_path) as kv:
        identity = json.loads(kv.get(b"!store") or b"")
        kv.write([b"!store"], [json.dumps({**identity, "canon_version": 0}).encode()])
    with Store.open(tmp_path) as store:
        assert store.canon_version == 0


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with KeyValues.open(tmp_path / "other") as kv:
        kv.write([b"x"], [b"y"])
    with pytest.raises(StorageError, match="is not a store"):
        Store.open(tmp_path / "other")
    with pytest.raises(StorageError, match="holds no data"):
        Store.open(tmp_path / "none", mode="reader")


def test_opening_a_store_twice_is_refused(store: Store) -> None:
    with pytest.raises(LockedError):
        Store.open(store.folder)


def test_the_size_on_disk_is_reported(store: Store) -> None:
    before = store.n_bytes_on_disk
    add(store, 1000)
    store.flush()
    store.compact()
    assert store.n_bytes_on_disk > before
    assert "position=1" in repr(store)


@pytest.mark.parametrize(("n_partitions", "mb"), [(1, 64), (4, 64), (16, 16), (256, 8)])
def test_many_stores_share_the_memory_for_writes(
    tmp_path: Path, n_partitions: int, mb: int
) -> None:
    with Store.open(tmp_path / "store", n_partitions=n_partitions) as store:
        assert store._kv._options.write_buffer_bytes == mb << 20
