"""What a store keeps of the text of pages."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from recrawl.store import (
    ADDED_TEXT_BYTES_MAX,
    HOST_MEMORY_BYTES_STORED_MAX,
    PAGE_MEMORY_BYTES_STORED_MAX,
    Cursor,
    Store,
    pack_passages,
    unpack_passages,
)
from recrawl.store.content.differences import pack_difference, unpack_difference

START = Cursor.parse(None)
BLOCKED = 2


def joined(memory: bytes | None, updates: Sequence[bytes]) -> bytes:
    return b",".join([*([] if memory is None else [memory]), *updates])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store", update_host=joined)
    batch = store.batch()
    urls = [f"https://shop.example/{i}" for i in range(4)]
    batch.add_pages(np.arange(4), pa.array(urls))
    store.write(batch, 1)
    return store


def report(
    store: Store,
    page: Sequence[int],
    memory: Sequence[bytes | None],
    wrong: Sequence[int] | None = None,
    at_ms: int = 7,
) -> None:
    batch = store.batch()
    kinds = np.array(wrong or [0] * len(page), np.uint8)
    batch.add_page_content(np.array(page), list(memory), kinds, at_ms)
    batch.count_content(kinds, 0, 0)
    store.write(batch, store.position + 1)


def hashes(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def test_a_store_without_bodies_has_no_key_for_them(store: Store) -> None:
    assert store.content_counts is None
    assert store.page_contents_of(np.arange(4)).memory == [None] * 4
    assert store.host_memories_of(np.arange(4)) == [None] * 4
    assert not list(store._kv.scan(b"x", b"y"))
    assert store._kv.get(b"!content") is None


def test_the_last_memory_of_a_page_is_kept(store: Store) -> None:
    report(store, [0, 2], [b"one", b"two"])
    report(store, [2, 3], [b"new", None])
    assert store.page_contents_of(np.arange(4)).memory == [b"one", None, b"new", None]
    another_generation = np.array([1 << 32])
    assert store.page_contents_of(another_generation).memory == [None]


def test_a_memory_may_be_written_as_its_difference(store: Store) -> None:
    old = bytes(range(250)) * 3
    new = old[:300] + b"inserted" + old[310:]
    report(store, [0, 1], [old, old])
    for base in (old, b"another memory"):
        batch = store.batch()
        page, kinds = np.array([0, 1]), np.zeros(2, np.uint8)
        memory: list[bytes | None] = [pack_difference(new, base), new]
        batch.add_page_content(page, memory, kinds, 7, np.array([True, False]))
        batch.count_content(kinds, 0, 0)
        assert len(memory[0] or b"") < (60 if base == old else len(new))
        store.write(batch, store.position + 1)
        # The difference from another memory is refused, and the page keeps the one it has.
        assert store.page_contents_of(page).memory == [new, new]
        report(store, [1], [old])


def test_a_difference_is_never_misread() -> None:
    old, new = bytes(range(200)), bytes(range(100, 220))
    data = pack_difference(new, old)
    assert unpack_difference(data, old, n_bytes_max=120) == new
    assert unpack_difference(data, old, n_bytes_max=119) is None
    assert unpack_difference(data, old[1:], n_bytes_max=120) is None
    assert unpack_difference(data[:-1], old, n_bytes_max=120) is None
    assert unpack_difference(b"", old, n_bytes_max=120) is None
    assert unpack_difference(pack_difference(new, b""), b"", n_bytes_max=120) == new
    bomb = pack_difference(bytes(10**7), b"")
    assert unpack_difference(bomb, b"", n_bytes_max=1_000) is None


def test_wrong_answers_are_counted_and_leave_the_memory(store: Store) -> None:
    report(store, [1], [b"memory"])
    report(store, [1, 2], [None, None], [BLOCKED, 1], at_ms=20)
    report(store, [1], [None], [3], at_ms=30)
    found = store.page_contents_of(np.arange(3))
    assert found.memory == [None, b"memory", None]
    assert found.wrong_answer == [0, 3, 1]
    assert found.n_wrong_answers == [0, 2, 1]
    assert found.wrong_answer_at_ms == [0, 30, 20]
    report(store, [1], [b"later"], at_ms=40)
    assert store.page_contents_of(np.array([1])).n_wrong_answers == [2]
    counts = store.content_counts
    assert counts is not None
    assert counts.n_observed == 5
    assert counts.n_wrong_answers[:5] == (0, 1, 1, 1, 0)


def test_a_removed_page_leaves_nothing(store: Store) -> None:
    report(store, [1, 2], [b"one", b"two"])
    batch = store.batch()
    batch.add_page_content(np.array([2]), [b"late"], np.zeros(1, np.uint8), 9)
    batch.count_content(np.zeros(1, np.uint8), 0, 0)
    batch.remove_pages(np.array([1, 2]))
    store.write(batch, store.position + 1)
    assert not list(store._kv.scan(b"x", b"y"))


def test_host_updates_are_applied_in_their_order(store: Store) -> None:
    batch = store.batch()
    batch.add_host_updates([(5, b"a"), (6, b"b"), (5, b"c")])
    batch.count_content(np.zeros(3, np.uint8), 1, 2)
    store.write(batch, store.position + 1)
    batch = store.batch()
    batch.add_host_updates([(5, b"d")])
    batch.count_content(np.zeros(1, np.uint8), 0, 0)
    store.write(batch, store.position + 1)
    assert store.host_memories_of(np.array([5, 6, 7])) == [b"a,c,d", b"b", None]
    counts = store.content_counts
    assert counts is not None
    assert (counts.n_observed, counts.n_baselines, counts.n_template_changes) == (4, 1, 2)
    store.clear_host_memories(np.array([5]))
    assert store.host_memories_of(np.array([5, 6])) == [None, b"b"]


def test_memories_have_limits(store: Store) -> None:
    report(store, [0], [b"x" * (PAGE_MEMORY_BYTES_STORED_MAX + 1)])
    assert store.page_contents_of(np.array([0])).memory == [None]
    batch = store.batch()
    batch.add_host_updates([(1, b"x" * (HOST_MEMORY_BYTES_STORED_MAX + 1))])
    batch.count_content(np.zeros(1, np.uint8), 0, 0)
    store.write(batch, store.position + 1)
    assert store.host_memories_of(np.array([1])) == [None]


def test_everything_is_there_after_opening_again(store: Store) -> None:
    report(store, [1], [b"memory"], [BLOCKED])
    counts = store.content_counts
    store.close()
    with Store.open(store.folder) as again:
        assert again.content_counts == counts
        assert again.page_contents_of(np.array([1])).memory == [b"memory"]


def test_a_change_has_its_passages(store: Store) -> None:
    passages = pack_passages(hashes(1, 2), hashes(2**64 - 1), hashes(), ["Größe 7"])
    batch = store.batch()
    transition, at_ms = np.full(2, 2), np.full(2, 99)
    batch.add_changes(1, np.array([0, 1]), transition, at_ms, passages=[passages, None])
    store.write(batch, store.position + 1)
    first, second = store.changes(START, 10)
    assert (first.url, first.transition, first.at_ms) == ("https://shop.example/0", 2, 99)
    assert first.passages is not None
    found = unpack_passages(first.passages)
    assert found[:3] == ((1, 2), (2**64 - 1,), ())
    assert found.added_text == ("Größe 7",)
    assert second.passages is None
    assert second.url == "https://shop.example/1"
    assert store.change_at(Cursor(1, 0)) == first


def test_erasing_a_url_erases_its_passages(store: Store) -> None:
    batch = store.batch()
    passages = pack_passages(hashes(1), hashes(2), hashes(), ["secret words"])
    batch.add_changes(1, np.array([0]), np.full(1, 2), np.full(1, 99), passages=[passages])
    batch.remove_pages(np.array([0]))
    store.write(batch, store.position + 1)

    def is_forgotten(urls: pa.StringArray) -> NDArray[np.bool_]:
        return np.array([url == "https://shop.example/0" for url in urls.to_pylist()], np.bool_)

    class NoLock:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    assert store.find_urls(is_forgotten) == {b"https://shop.example/0"}
    store.erase_urls(is_forgotten, NoLock())
    (change,) = store.changes(START, 10)
    assert (change.url, change.passages, change.transition) == (None, None, 2)


def test_texts_beyond_the_limit_are_left_out() -> None:
    long = "x" * ADDED_TEXT_BYTES_MAX
    found = unpack_passages(pack_passages(hashes(), hashes(1, 2, 3), hashes(), ["a", long, "b"]))
    assert found.added_text == ("a", None, "b")
    assert unpack_passages(pack_passages(hashes(), hashes(1), hashes())).added_text is None
    broken = unpack_passages(pack_passages(hashes(), hashes(1), hashes(), ["\ud800"]))
    assert broken.added_text == ("?",)
