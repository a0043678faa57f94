"""Compare a store with a model of dictionaries through random operations and crashes."""

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from recrawl.store import DIGESTS_MAX, Cursor, Names, Store, StoreBatch
from recrawl.store.keys import HashArray

pytestmark = pytest.mark.slow

URLS = [f"https://host{i % 7}.example/page/{i}" for i in range(300)]
N_COLUMNS = 6


def good_hash(urls: pa.StringArray, key: int) -> HashArray:
    """Return hashes that are fast even if kernels are interpreted."""
    secret = key.to_bytes(8, "big")
    digests = [hashlib.blake2b(url.encode(), key=secret).digest() for url in urls.to_pylist()]
    return np.array([int.from_bytes(digest[:8], "big") for digest in digests], np.uint64)


def bad_hash(urls: pa.StringArray, key: int) -> HashArray:
    """Return hashes with only four values."""
    return good_hash(urls, key) % np.uint64(4)


def binaries(values: list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


def killed_copy(folder: Path, copy: Path) -> None:
    """Copy the files of an open store as they are at one moment, between two compactions."""
    while True:
        # A compaction creates and removes files.
        before = sorted(path.name for path in folder.iterdir())
        with contextlib.suppress(shutil.Error):
            shutil.copytree(folder, copy)
            if sorted(path.name for path in folder.iterdir()) == before:
                return
        shutil.rmtree(copy, ignore_errors=True)


class Model:
    """The expected contents of a store."""

    def __init__(self) -> None:
        self.url: dict[int, str] = {}
        """URL by page, in the order of addition."""
        self.fetch_url: dict[int, str] = {}
        self.digests: dict[int, list[bytes]] = {}
        self.etag: dict[int, bytes] = {}
        self.changes: list[tuple[int, int, int, str]] = []
        self.names: dict[str, int] = {}
        self.generations: list[int] = []
        self.free: list[int] = []

    def new_pages(self, n: int, n_reused: int) -> list[int]:
        """Number pages as a shard does: some in free slots, the others in new ones."""
        reused = [self.free.pop() for _ in range(min(n, n_reused, len(self.free)))]
        first = len(self.generations)
        fresh = list(range(first, first + n - len(reused)))
        self.generations += [0] * len(fresh)
        return [slot | self.generations[slot] << 32 for slot in reused + fresh]

    def remove(self, page: int) -> None:
        for column in (self.url, self.fetch_url, self.digests, self.etag):
            column.pop(page, None)
        slot = page & 0xFFFFFFFF
        self.generations[slot] = (self.generations[slot] + 1) % 256
        self.free.append(slot)

    def see(self, page: int, digest: bytes | None, etag: bytes | None) -> None:
        if digest is not None:
            older = [old for old in self.digests.get(page, []) if old != digest]
            self.digests[page] = [digest, *older][:DIGESTS_MAX]
            self.etag.pop(page, None)
        if etag is not None:
            self.etag[page] = etag

    def page_of(self, url: str) -> int:
        return next((page for page, known in self.url.items() if known == url), -1)


class StoreMachine(RuleBasedStateMachine):
    """Batches of operations, reopening and crashes."""

    hashing: Any = staticmethod(good_hash)

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.n_folders = 0
        self.model = Model()
        self.store = Store.open(self.folder / "0", hash_urls=self.hashing)
        self.batch = self.store.batch()
        self.position = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    # ------------------------------------------------------------------ operations

    @rule(
        first=st.integers(0, 250),
        n=st.sampled_from([1, 2, 5, 40, 100]),
        n_reused=st.integers(0, 50),
        has_fetch_url=st.booleans(),
        looks_first=st.booleans(),
    )
    def add(
        self, first: int, n: int, n_reused: int, has_fetch_url: bool, looks_first: bool
    ) -> None:
        urls = URLS[first : first + n]
        if looks_first:
            self.store.pages_of(pa.array(urls))
        pages = self.model.new_pages(len(urls), n_reused)
        fetch_urls = [
            f"{url}?fetch" if has_fetch_url and i % 2 else None for i, url in enumerate(urls)
        ]
        self.batch.add_pages(np.array(pages), pa.array(urls), pa.array(fetch_urls, pa.string()))
        for page, url, fetch_url in zip(pages, urls, fetch_urls, strict=True):
            self.model.url[page] = url
            if fetch_url:
                self.model.fetch_url[page] = fetch_url
        self.position += 1

    def some(self, data: st.DataObject) -> list[int]:
        pages = list(self.model.url)
        if not pages:
            return []
        begin = data.draw(st.integers(0, len(pages) - 1))
        return pages[begin : begin + data.draw(st.integers(1, 30))]

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        pages = self.some(data)
        self.batch.remove_pages(np.array(pages, np.int64))
        for page in pages:
            self.model.remove(page)
        self.position += 1

    @rule(
        data=st.data(), digest=st.integers(0, 5), has_digest=st.booleans(), is_tagged=st.booleans()
    )
    def see(self, data: st.DataObject, digest: int, has_digest: bool, is_tagged: bool) -> None:
        pages = self.some(data)
        content = bytes([digest]) * 16 if has_digest else None
        etag = b'"%d"' % self.position if is_tagged else None
        n = len(pages)
        nothing = binaries([None] * n)
        self.batch.add_content(
            np.array(pages, np.int64),
            pa.array([content] * n, pa.binary(16)),
            binaries([etag] * n),
            *[nothing] * (N_COLUMNS - 2),
        )
        for page in pages:
            self.model.see(page, content, etag)
        self.batch.add_changes(
            self.position, np.array(pages, np.int64), np.full(n, digest), np.full(n, self.position)
        )
        self.model.changes += [
            (page, digest, self.position, self.model.url[page]) for page in pages
        ]
        self.position += 1

    @rule(key=st.sampled_from("abcdef"))
    def name(self, key: str) -> None:
        if key not in self.model.names:
            self.model.names[key] = len(self.model.names)
            self.batch.add_names(Names.GROUP, [self.model.names[key]], pa.array([key]))
        self.position += 1

    # ------------------------------------------------------------------ writing

    def write_batch(self) -> None:
        self.store.write(self.batch, self.position)
        self.batch = self.store.batch()

    @rule(again=st.booleans())
    def write(self, again: bool) -> None:
        batch: StoreBatch = self.batch
        self.write_batch()
        if again:
            self.store.write(batch, self.position)

    @rule()
    def reopen(self) -> None:
        self.write_batch()
        self.store.close()
        self.store = Store.open(self.store.folder, hash_urls=self.hashing)

    @rule()
    def crash(self) -> None:
        """Continue with a copy of the files on disk, as a killed process leaves them."""
        self.write_batch()
        self.n_folders += 1
        killed_copy(self.store.folder, self.folder / str(self.n_folders))
        self.store.close()
        self.store = Store.open(self.folder / str(self.n_folders), hash_urls=self.hashing)

    @rule()
    def flush(self) -> None:
        self.store.flush()

    # ------------------------------------------------------------------ checks

    @invariant()
    def store_equals_model(self) -> None:
        if not hasattr(self, "store") or self.store.position != self.position:
            return
        store, model = self.store, self.model
        expected = [model.page_of(url) for url in URLS]
        assert store.pages_of(pa.array(URLS)).tolist() == expected
        stale = [slot | (g - 1) % 256 << 32 for slot, g in enumerate(model.generations) if g]
        pages = np.array([*model.url, *stale, len(model.generations), -1], np.int64)
        urls = [model.url.get(page) for page in pages.tolist()]
        assert store.urls_of(pages).to_pylist() == urls
        fetch_urls = [
            model.fetch_url.get(page, url) for page, url in zip(pages.tolist(), urls, strict=True)
        ]
        assert store.fetch_urls_of(pages).to_pylist() == fetch_urls
        records = store.records_of(pages)
        assert records.digests == [model.digests.get(page, []) for page in pages.tolist()]
        assert records.etag == [model.etag.get(page) for page in pages.tolist()]
        self.check_scan(0, len(model.generations) + 5)
        self.check_scan(20, 50)
        changes = store.changes(Cursor.parse(None), 10_000)
        assert [change[1:5] for change in changes] == model.changes
        assert store.numbers_of(Names.GROUP, list(model.names)).tolist() == list(
            model.names.values()
        )
        assert store.n_names(Names.GROUP) == len(model.names)

    def check_scan(self, slot: int, n: int) -> None:
        pages, urls = self.store.scan_urls(slot, n)
        by_slot = sorted((page & 0xFFFFFFFF, page) for page in self.model.url)
        expected = [page for at, page in by_slot if slot <= at < slot + n]
        assert pages.tolist() == expected
        assert urls.to_pylist() == [self.model.url[page] for page in expected]


class CollidingMachine(StoreMachine):
    """The same with a hash of only four values."""

    hashing: Any = staticmethod(bad_hash)


SETTINGS = settings(max_examples=15, stateful_step_count=20, derandomize=True, deadline=None)
TestStore = StoreMachine.TestCase
TestStore.settings = SETTINGS
TestCollidingStore = CollidingMachine.TestCase
TestCollidingStore.settings = SETTINGS
