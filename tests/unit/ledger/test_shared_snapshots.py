"""Snapshots in shared storage are complete or not there, whatever request fails."""

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from recrawl.errors import IdentityError, LedgerError, SnapshotError, SnapshotFormatError
from recrawl.ledger import SavedSnapshot, SnapshotFolder, SnapshotOrigin, shared_snapshots
from recrawl.ledger.shared_snapshots import SharedSnapshot, SharedSnapshots

ORIGIN = SnapshotOrigin("ab" * 16, 3)
CHUNK_BYTES = 1_000
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_snapshots, "CHUNK_BYTES", CHUNK_BYTES)


class ObjectStore(fs.FileSystemHandler):  # type: ignore[misc]
    """Objects in memory, as in S3: no folders, and a failed stream leaves a truncated object.

    Parameters
    ----------
    fails_at
        Number of the request that fails, from 0; None for none.
    """

    def __init__(self, fails_at: int | None = None) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.fails_at = fails_at
        self.n_requests = 0
        self.n_bytes_sent = 0
        self.now_ms = 1_700_000_000_000

    def request(self) -> bool:
        """Count a request; return whether it fails."""
        self.n_requests += 1
        return self.n_requests - 1 == self.fails_at

    def _raise_if_failing(self) -> None:
        if self.request():
            raise OSError("503 Slow Down")

    def get_type_name(self) -> str:
        return "memory"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = None  # type: ignore[assignment]

    def normalize_path(self, path: str) -> str:
        return path

    def _info(self, path: str) -> fs.FileInfo:
        if path not in self.objects:
            return fs.FileInfo(path, fs.FileType.NotFound)
        data, at_ms = self.objects[path]
        return fs.FileInfo(path, fs.FileType.File, size=len(data), mtime_ns=at_ms * 1_000_000)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        self._raise_if_failing()
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self._raise_if_failing()
        prefix = selector.base_dir.rstrip("/") + "/"
        found = [path for path in self.objects if path.startswith(prefix)]
        if not selector.recursive:
            found = [path for path in found if "/" not in path.removeprefix(prefix)]
        return [self._info(path) for path in found]

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        self._raise_if_failing()
        return pa.PythonFile(_ObjectStream(self, path), mode="w")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        self._raise_if_failing()
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.objects[path][0])

    def delete_file(self, path: str) -> None:
        self._raise_if_failing()
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def _not_used(self, *_: Any) -> Any:
        raise AssertionError("not used")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _not_used
    move = copy_file = open_input_file = open_append_stream = _not_used


class _ObjectStream:
    """A stream whose bytes become an object when it is closed, also after an error."""

    closed = False

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store, self._path, self._data = store, path, b""

    def write(self, data: Any) -> int:
        if self._store.request():
            self._data += bytes(data)[: len(bytes(data)) // 2]
            raise OSError("connection reset")
        self._data += bytes(data)
        self._store.n_bytes_sent += len(bytes(data))
        return len(bytes(data))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self._store.objects[self._path] = (self._data, self._store.now_ms)
        self.closed = True


def take_snapshot(folder: Path, position: int, *, changed: bytes = b"") -> SavedSnapshot:
    """Return a snapshot with files as a node writes them."""
    snapshots = SnapshotFolder(folder, keep=9, origin=ORIGIN)
    with snapshots.begin(position) as draft:
        draft.write(0, random.Random(0).randbytes(4_000) + changed)
        store = draft.folder / "store"
        store.mkdir()
        (store / "000001.sst").write_bytes(random.Random(1).randbytes(7_000))
        (store / f"{position:06d}.sst").write_bytes(random.Random(position).randbytes(700))
        (store / "CURRENT").write_bytes(b"MANIFEST-000001\n")
        (store / "EMPTY").write_bytes(b"")
        return draft.commit(json.dumps({"position": position}))


def contents_of(saved: SavedSnapshot) -> dict[str, bytes]:
    return {
        str(path.relative_to(saved.folder)): path.read_bytes()
        for path in saved.folder.rglob("*")
        if path.is_file()
    }


def in_memory(store: ObjectStore, origin: SnapshotOrigin = ORIGIN) -> SharedSnapshots:
    return SharedSnapshots(fs.PyFileSystem(store), "bucket/recrawl", origin)


@pytest.fixture(params=["folder", "objects"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> SharedSnapshots:
    if request.param == "folder":
        return SharedSnapshots(fs.LocalFileSystem(), str(tmp_path / "shared"), ORIGIN)
    return in_memory(ObjectStore())


def test_a_snapshot_is_restored_as_it_was(shared: SharedSnapshots, tmp_path: Path) -> None:
    assert shared.list_complete() == []
    saved = [take_snapshot(tmp_path / "here", position) for position in (5, 70, 800)]
    published = [shared.publish(one, epoch=2, now_ms=0) for one in saved]
    assert shared.list_complete() == list(reversed(published))
    there = SnapshotFolder(tmp_path / "there", origin=ORIGIN)
    for one, expected in zip(published, saved, strict=True):
        n_bytes = sum(map(len, contents_of(expected).values()))
        assert shared.verify(one) == n_bytes
        restored = shared.restore(one, there)
        assert contents_of(restored) == contents_of(expected)
        assert restored.origin() == ORIGIN
    assert [one.position for one in there.list_saved()] == [800, 70, 5]


def test_only_what_has_changed_is_sent(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    first = take_snapshot(tmp_path, 5)
    shared.publish(first, epoch=1, now_ms=store.now_ms)
    n_first, store.n_bytes_sent = store.n_bytes_sent, 0
    shared.publish(take_snapshot(tmp_path, 6, changed=b"!"), epoch=1, now_ms=store.now_ms)
    assert n_first > sum(map(len, contents_of(first).values()))
    assert store.n_bytes_sent < n_first / 3
    # The same once more, by an owner that does not know of the first.
    store.n_bytes_sent = 0
    again = shared.publish(first, epoch=2, now_ms=store.now_ms)
    assert store.n_bytes_sent < 3_000
    assert shared.list_complete()[1] == again
    shared.verify(again)


@pytest.mark.parametrize("before", ["nothing", "an earlier snapshot"])
def test_every_request_may_fail(before: str, tmp_path: Path) -> None:
    """A snapshot is complete or not there, and the next attempt completes it."""
    earlier, saved = (take_snapshot(tmp_path / "here", position) for position in (5, 60))
    counted = ObjectStore()
    in_memory(counted).publish(saved, epoch=1, now_ms=counted.now_ms)
    assert counted.n_requests > 30
    for fails_at in range(counted.n_requests):
        store = ObjectStore()
        shared = in_memory(store)
        known = []
        if before != "nothing":
            known = [shared.publish(earlier, epoch=1, now_ms=store.now_ms)]
        store.n_requests, store.fails_at = 0, fails_at
        with suppress(LedgerError):
            # After an earlier snapshot there are fewer requests, and perhaps none that fails.
            known.insert(0, shared.publish(saved, epoch=1, now_ms=store.now_ms))
            assert store.n_requests <= fails_at
        store.fails_at = None
        assert shared.list_complete() == known
        for one in known:
            shared.verify(one)
        published = shared.publish(saved, epoch=1, now_ms=store.now_ms)
        there = SnapshotFolder(tmp_path / f"there-{before[:2]}-{fails_at}", origin=ORIGIN)
        assert contents_of(shared.restore(published, there)) == contents_of(saved)


def test_a_restore_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    published = shared.publish(take_snapshot(tmp_path / "here", 5), epoch=1, now_ms=0)
    store.n_requests = 0
    shared.verify(published)
    n_requests = store.n_requests
    assert n_requests > 10
    for fails_at in range(n_requests):
        there = SnapshotFolder(tmp_path / f"there-{fails_at}", origin=ORIGIN)
        store.n_requests, store.fails_at = 0, fails_at
        with pytest.raises(SnapshotError, match="cannot be read"):
            shared.restore(published, there)
        assert there.list_saved() == []


def _flip_byte(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGES: list[Callable[[bytes], bytes | None]] = [
    _flip_byte,
    lambda data: data[:-1],
    lambda data: data + b"x",
    lambda _: b"",
    lambda _: None,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=["byte", "shorter", "longer", "empty", "missing"])
def test_a_damaged_chunk_is_found_and_replaced(
    damage: Callable[[bytes], bytes | None], tmp_path: Path
) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    saved = take_snapshot(tmp_path / "here", 5)
    published = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    chunk = max(path for path in store.objects if "/chunks/" in path)
    data, at_ms = store.objects.pop(chunk)
    if (damaged := damage(data)) is not None:
        store.objects[chunk] = (damaged, at_ms)
    with pytest.raises(SnapshotError):
        shared.verify(published)
    with pytest.raises(SnapshotError):
        shared.restore(published, SnapshotFolder(tmp_path / "there", origin=ORIGIN))
    # One of another size is recognised without reading it, and this object remembers the others.
    shared.publish(saved, epoch=1, now_ms=store.now_ms)
    shared.verify(published)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m | {"format": 2},
        lambda m: m | {"files": [{"path": "../x", "bytes": 0, "chunks": []}]},
        lambda m: m | {"files": [{"path": "/etc/x", "bytes": 0, "chunks": []}]},
        lambda m: m | {"files": [{"path": "", "bytes": 0, "chunks": []}]},
        lambda m: m | {"files": [{"path": "x", "bytes": 0, "chunks": ["../../secret"]}]},
        lambda m: m | {"files": [{"path": "x", "bytes": 9, "chunks": []}]},
        lambda m: m | {"files": None},
        lambda _: [],
    ],
)
def test_a_forged_manifest_is_refused(change: Callable[[Any], Any], tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    published = shared.publish(take_snapshot(tmp_path / "here", 5), epoch=1, now_ms=0)
    text, at_ms = store.objects[published.path]
    store.objects[published.path] = (json.dumps(change(json.loads(text))).encode(), at_ms)
    there = SnapshotFolder(tmp_path / "there", origin=ORIGIN)
    with pytest.raises(SnapshotError):
        shared.restore(published, there)
    assert there.list_saved() == []
    assert not (tmp_path / "x").exists()


def test_snapshots_of_others_are_refused(tmp_path: Path) -> None:
    store = ObjectStore()
    published = in_memory(store).publish(take_snapshot(tmp_path, 5), epoch=1, now_ms=0)
    other = in_memory(store, ORIGIN._replace(partition=4))
    assert other.list_complete() == []
    with pytest.raises(IdentityError, match="of partition 3 of corpus abab"):
        other.verify(published)


def test_other_work_goes_on_while_files_are_sent_early(tmp_path: Path) -> None:
    """The caller follows logs, which are shortened while large stores are sent and read."""
    store = ObjectStore()
    shared = in_memory(store)
    saved = take_snapshot(tmp_path, 5)
    n_sent: list[int] = []
    n_read = shared.send_early(
        saved.folder, now_ms=store.now_ms, on_request=lambda: n_sent.append(len(store.objects))
    )
    n_chunks = len(store.objects)
    assert n_read > n_chunks > 2
    assert {*range(n_chunks)} <= {*n_sent}  # before each that was sent
    assert n_sent.count(n_chunks) >= n_chunks  # before each that was read
    n_before = store.n_bytes_sent
    published = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    assert len(store.objects) == n_chunks + 1
    assert store.n_bytes_sent - n_before < n_before
    assert shared.verify(published, now_ms=store.now_ms) == 0


def test_old_snapshots_and_unused_chunks_are_removed(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    saved = [take_snapshot(tmp_path, position) for position in (5, 6, 7, 8)]
    published = []
    for one in saved:
        store.now_ms += 10 * HOUR_MS
        published.append(shared.publish(one, epoch=1, now_ms=store.now_ms))
    with pytest.raises(ValueError, match="keep must be at least 2"):
        shared.remove_old(keep=1, now_ms=store.now_ms)
    # The manifests at once, and what only they list a day later.
    assert shared.remove_old(keep=2, now_ms=store.now_ms) == 2
    assert shared.list_complete() == [published[3], published[2]]
    n_before = len(store.objects)
    store.now_ms += 23 * HOUR_MS
    assert shared.remove_unused_chunks(store.now_ms) == 0
    assert shared.remove_old(keep=2, now_ms=store.now_ms) == 0
    assert len(store.objects) == n_before
    store.now_ms += HOUR_MS
    assert shared.remove_unused_chunks(store.now_ms) >= 2
    assert shared.remove_old(keep=2, now_ms=store.now_ms) == 0
    assert names_of_manifests(store) == {one.path for one in published[2:]}
    for kept in published[2:]:
        shared.verify(kept)


def names_of_manifests(store: ObjectStore) -> set[str]:
    return {path for path in store.objects if "/chunks/" not in path}


def chunks_of(store: ObjectStore, snapshot: SharedSnapshot) -> set[str]:
    text = store.objects[snapshot.path][0].decode()
    return {path for path in store.objects if path.rpartition("/")[2] in text}


def test_who_reads_a_snapshot_while_it_is_removed_finds_its_chunks(tmp_path: Path) -> None:
    """Its chunks are old, but it was listed until now; each request may be the last one."""
    saved = [take_snapshot(tmp_path / "here", position) for position in (5, 6, 7, 8)]
    for fails_at in range(100):
        store = ObjectStore()
        shared = in_memory(store)
        published = [shared.publish(one, epoch=1, now_ms=0) for one in saved]
        wanted, kept = chunks_of(store, published[0]), chunks_of(store, published[3])
        assert wanted - kept
        files = shared._files_of(published[0])
        store.now_ms += 1_000 * HOUR_MS
        store.n_requests, store.fails_at = 0, fails_at
        for attempt in range(3):
            with suppress(LedgerError, SnapshotError):
                shared.remove_old(keep=2, now_ms=store.now_ms)
                shared.remove_unused_chunks(store.now_ms)
            if attempt == 0:
                n_requests = store.n_requests
            store.fails_at = None
            # Whoever has read the manifest can read all chunks.
            assert wanted <= store.objects.keys()
            for file in files:
                assert sum(map(len, shared._chunks_of(published[0], file))) == file.n_bytes
            # What is listed is complete.
            for one in shared.list_complete():
                shared.verify(one)
            store.now_ms += 11 * HOUR_MS
        assert len(shared.list_complete()) == 2
        store.now_ms += 24 * HOUR_MS
        shared.remove_old(keep=2, now_ms=store.now_ms)
        shared.remove_unused_chunks(store.now_ms)
        assert names_of_manifests(store) == {one.path for one in published[2:]}
        assert not (wanted - kept) & store.objects.keys()
        shared.verify(published[3])
        if n_requests <= fails_at:
            break
    assert fails_at > 10


def test_the_last_snapshots_of_days_are_kept(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    began_ms = store.now_ms - store.now_ms % (24 * HOUR_MS)
    published = []
    for k in range(8):
        store.now_ms = began_ms + k * 12 * HOUR_MS
        saved = take_snapshot(tmp_path, 5 + k)
        published.append(shared.publish(saved, epoch=1, now_ms=store.now_ms, at_ms=k))
    assert [shared.time_of(one) for one in published] == [*range(8)]
    protect = [published[0].path]
    assert shared.remove_old(keep=3, days=3, protect=protect, now_ms=store.now_ms) == 3
    assert shared.list_complete() == [published[i] for i in (7, 6, 5, 3, 0)]
    shared.remove(published[0])
    assert shared.list_complete()[-1] == published[3]
    shared.discard(published[3])
    assert shared.list_complete()[-1] == published[5]
    # Of one that nobody has used, nothing is kept.
    removed = {path for path in names_of_manifests(store) if path.endswith(".removed")}
    assert removed == {f"{published[i].path}.removed" for i in (0, 1, 2, 4)}


def test_a_damaged_manifest_can_be_removed(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    published = [
        shared.publish(take_snapshot(tmp_path, position), epoch=1, now_ms=store.now_ms)
        for position in (5, 6, 7)
    ]
    store.objects[published[0].path] = (b"", store.now_ms)
    assert shared.remove_old(keep=2, now_ms=store.now_ms) == 1
    store.now_ms += 25 * HOUR_MS
    assert shared.remove_unused_chunks(store.now_ms) == 2
    assert shared.list_complete() == [published[2], published[1]]


def test_chunks_that_were_read_back_are_only_looked_for(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    published = [
        shared.publish(take_snapshot(tmp_path, position), epoch=1, now_ms=store.now_ms)
        for position in (5, 6)
    ]
    n_first = shared.verify(published[0], now_ms=store.now_ms)
    n_second = shared.verify(published[1], now_ms=store.now_ms)
    assert n_first > 10_000
    assert 700 < n_second < 3_000
    assert shared.verify(published[1], now_ms=store.now_ms + 13 * HOUR_MS) == n_first
    assert shared.verify(published[1]) == n_first
    text = store.objects[published[1].path][0].decode()
    for path in [path for path in store.objects if path.rpartition("/")[2] in text]:
        shared.verify(published[1], now_ms=store.now_ms)
        data, at_ms = store.objects.pop(path)
        with pytest.raises(SnapshotError):
            shared.verify(published[1], now_ms=store.now_ms)
        store.objects[path] = (data, at_ms)


def test_a_chunk_that_is_sent_again_is_read_back_again(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    saved = take_snapshot(tmp_path, 5)
    first = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    store.now_ms += 11 * HOUR_MS
    shared.verify(first, now_ms=store.now_ms)
    store.now_ms += 2 * HOUR_MS
    write = shared._write

    def damage(path: str, data: bytes) -> None:
        write(path, data if path.endswith(".json") else bytes(len(data)))

    shared._write = damage  # type: ignore[method-assign]
    again = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    with pytest.raises(SnapshotError, match="has other bytes"):
        shared.verify(again, now_ms=store.now_ms)


def test_a_chunk_that_somebody_could_not_use_is_sent_again(tmp_path: Path) -> None:
    store = ObjectStore()
    owner = in_memory(store)
    saved = take_snapshot(tmp_path / "a", 10)
    first = owner.publish(saved, epoch=1, now_ms=store.now_ms)
    owner.verify(first, now_ms=store.now_ms)
    # The owner reads this chunk again in 12 hours.
    chunk = min(one for one in store.objects if "/chunks/" in one)
    data, at_ms = store.objects[chunk]
    store.objects[chunk] = (_flip_byte(data), at_ms)
    owner.verify(first, now_ms=store.now_ms)
    other = in_memory(store)
    with pytest.raises(SnapshotError, match="has other bytes"):
        other.restore(first, SnapshotFolder(tmp_path / "b"))
    reports = [one for one in store.objects if "/damaged/" in one]
    assert len(reports) == 1
    saved = take_snapshot(tmp_path / "a", 20)
    second = owner.publish(saved, epoch=1, now_ms=store.now_ms)
    assert owner.verify(second, now_ms=store.now_ms) > 0
    assert store.objects[chunk][0] == data
    assert not [one for one in store.objects if "/damaged/" in one]
    for snapshot in (first, second):
        other.restore(snapshot, SnapshotFolder(tmp_path / f"c{snapshot.position}"))


def test_an_upload_can_be_ended(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    saved = take_snapshot(tmp_path, 5)
    left = iter(range(4))

    def end_soon() -> None:
        if next(left, None) is None:
            raise LedgerError("enough")

    with pytest.raises(LedgerError, match="enough"):
        shared.publish(saved, epoch=1, now_ms=0, on_request=end_soon)
    assert shared.list_complete() == []
    published = shared.publish(saved, epoch=1, now_ms=0)
    with pytest.raises(LedgerError, match="enough"):
        shared.verify(published, on_request=end_soon)


def test_nothing_is_removed_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    published = shared.publish(take_snapshot(tmp_path, 5), epoch=1, now_ms=store.now_ms)
    (text, at_ms), chunks = store.objects[published.path], len(store.objects) - 1
    later_ms = store.now_ms + 100 * HOUR_MS
    store.objects[published.path] = (text.replace(b'"format": 1', b'"format": 2'), at_ms)
    with pytest.raises(SnapshotFormatError):
        shared.remove_unused_chunks(later_ms)
    for fails_at in range(3):
        store.n_requests, store.fails_at = 0, fails_at
        with pytest.raises((LedgerError, SnapshotError)):
            shared.remove_unused_chunks(later_ms)
    store.fails_at = None
    assert len(store.objects) == 1 + chunks
    # One that is damaged is of no use to anybody.
    store.objects[published.path] = (text[:-9], at_ms)
    assert shared.remove_unused_chunks(later_ms) == chunks


def test_a_chunk_that_is_about_to_be_removed_is_sent_again(tmp_path: Path) -> None:
    store = ObjectStore()
    shared = in_memory(store)
    saved = take_snapshot(tmp_path, 5)
    first = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    del store.objects[first.path]
    # Somebody removes unused chunks while the next manifest is on its way.
    store.now_ms += 25 * HOUR_MS
    write = shared._write

    def remove_first(path: str, data: bytes) -> None:
        if path.endswith(".json"):
            in_memory(store).remove_unused_chunks(store.now_ms)
        write(path, data)

    shared._write = remove_first  # type: ignore[method-assign]
    again = shared.publish(saved, epoch=1, now_ms=store.now_ms)
    assert isinstance(again, SharedSnapshot)
    shared.verify(again)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    shared = SharedSnapshots(fs.LocalFileSystem(), str(tmp_path / "file"), ORIGIN)
    saved = take_snapshot(tmp_path / "here", 5)
    with pytest.raises(LedgerError, match="the snapshot at 5 cannot be stored in"):
        shared.publish(saved, epoch=1, now_ms=0)
    os.truncate(saved.folder / "columns", 0)
