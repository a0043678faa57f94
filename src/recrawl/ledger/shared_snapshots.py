"""Snapshots in storage that all workers reach: a folder, S3, or what else pyarrow can write to.

A snapshot is stored as chunks, each an object that is named by the hash of its bytes, and a
manifest that lists them.  A chunk that is there already is not sent again, so a snapshot costs what
has changed since the last one.  The manifest is written last and has a name of its own, so a
snapshot is complete or does not exist; whoever reads a chunk checks its hash.

Chunks are small enough for one request.  Larger objects would be sent to S3 in parts, of which a
worker that is killed leaves some behind for ever, and an error in the middle of such a stream would
leave a truncated object under the final name.

A snapshot is removed by removing its manifest, of which a copy with the ending ``.removed`` stays
for a day: a worker that has read the manifest just before still finds all chunks.

::

    <corpus id>/chunks/3f/3f09…                                          8 MiB or less
    <corpus id>/0/00000000000000012345-0000000007-5d41402abc4b2a76.json  position, epoch, random
    <corpus id>/0/00000000000000000123-0000000006-9a1c55e0c6bb0317.json.removed
    <corpus id>/damaged/3f09…                                            a chunk to send again
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from recrawl.atomic_files import create_folder, replace_file
from recrawl.errors import IdentityError, LedgerError, SnapshotError, SnapshotFormatError
from recrawl.ledger import SavedSnapshot, SnapshotFolder, SnapshotOrigin

__all__ = ["CHUNK_BYTES", "UNUSED_HOURS_MAX", "SharedSnapshot", "SharedSnapshots"]

CHUNK_BYTES: Final = 8 << 20
"""Size of a chunk; the last one of a file is smaller."""
UNUSED_HOURS_MAX: Final = 24.0
"""Time for which a chunk is kept that no manifest lists.

Its manifest may be on its way, or a worker may be reading a snapshot that was removed.
"""
# A chunk that was read back is read again after this time.
_READ_BACK_HOURS: Final = 12.0
# A chunk that is there, but older than this, is sent again: it might be removed as unused before
# the manifest that lists it now is written.
_RENEWED_HOURS: Final = 12.0
_MANIFEST_BYTES_MAX: Final = 256 << 20
_FORMAT: Final = 1
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_NAME: Final = re.compile(r"(\d{20})-(\d{10})-([0-9a-f]{16})\.json")
# Older versions do not look at objects with this ending.
_REMOVED: Final = ".removed"
_CHUNK_NAME: Final = re.compile(r"[0-9a-f]{64}")


class SharedSnapshot(NamedTuple):
    """A complete snapshot in shared storage."""

    position: int
    """Position of the log: the snapshot is the state after all records before it."""
    epoch: int
    """Epoch of the owner that took it."""
    path: str
    """Path of its manifest."""


class _SharedFile(NamedTuple):
    path: PurePosixPath
    n_bytes: int
    chunks: tuple[str, ...]


class _ReadBack(NamedTuple):
    """Size of a chunk, and when this process read it."""

    n_bytes: int
    at_ms: int


class _Listed(NamedTuple):
    origin: SnapshotOrigin
    files: list[_SharedFile]
    at_ms: int


def _do_nothing() -> None:
    pass


class SharedSnapshots:
    """The snapshots of one partition in shared storage.

    Parameters
    ----------
    storage
        File system of pyarrow.
    root
        Folder or bucket for all corpora.
    origin
        Corpus and partition.
    """

    def __init__(self, storage: fs.FileSystem, root: str, origin: SnapshotOrigin) -> None:
        self._storage = storage
        self._root = root.rstrip("/")
        self._origin = origin
        self._corpus = f"{self._root}/{origin.corpus_id}"
        self._folder = f"{self._corpus}/{origin.partition}"
        # The chunks of the snapshot that was verified last.
        self._read_back: dict[str, _ReadBack] = {}
        # Chunks that had other bytes when they were read, and must be sent again.
        self._damaged: set[str] = set()

    @property
    def folder(self) -> str:
        """Path of the partition's snapshots in the storage."""
        return self._folder

    # ------------------------------------------------------------------ writing

    def publish(
        self,
        saved: SavedSnapshot,
        *,
        epoch: int,
        now_ms: int,
        at_ms: int = 0,
        on_request: Callable[[], None] = _do_nothing,
    ) -> SharedSnapshot:
        """Store a snapshot; only chunks that are not there yet are sent.

        Parameters
        ----------
        saved
            Snapshot in a folder of this machine.
        epoch
            Epoch of the partition's owner.
        now_ms
            Time in milliseconds since 1970.
        at_ms
            Time of the state in the snapshot, for `time_of`.
        on_request
            Function to call before each chunk; an exception of it ends the upload.

        Raises
        ------
        LedgerError
            The storage cannot be written, or the snapshot was removed meanwhile; then there is no
            manifest of it.
        """
        with self._writable(saved.position):
            self._damaged |= self._reported_chunks()
            paths = sorted(path for path in saved.folder.rglob("*") if path.is_file())
            files = [self._send_file(path, saved.folder, now_ms, on_request) for path in paths]
            manifest = {
                "format": _FORMAT,
                "corpus": self._origin.corpus_id,
                "partition": self._origin.partition,
                "position": saved.position,
                "epoch": epoch,
                "at_ms": at_ms,
                "saved_at_ms": now_ms,
                "files": [
                    {"path": str(one.path), "bytes": one.n_bytes, "chunks": one.chunks}
                    for one in files
                ],
            }
            name = f"{saved.position:020d}-{epoch:010d}-{secrets.token_hex(8)}.json"
            path = f"{self._folder}/{name}"
            try:
                self._write(path, json.dumps(manifest).encode())
            except BaseException:
                with suppress(OSError, pa.ArrowException):
                    self._storage.delete_file(path)  # what a stream leaves that was cut off
                raise
        return SharedSnapshot(saved.position, epoch, path)

    def send_early(
        self, folder: Path, *, now_ms: int, on_request: Callable[[], None] = _do_nothing
    ) -> int:
        """Store files before the snapshot that will have them, and read them back.

        They are chunks without a manifest, which are kept for a day.  `publish` and `verify` of
        the same object then need not send or read them again.  Returns the number of bytes read.

        Parameters
        ----------
        folder
            Folder of the files.
        now_ms
            Time in milliseconds since 1970.
        on_request
            Function to call before each chunk; an exception of it ends the upload.
        """
        n_bytes = 0
        place = SharedSnapshot(0, 0, f"{self._folder} before its first snapshot")
        with self._writable(0):
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            files = [self._send_file(path, folder, now_ms, on_request) for path in paths]
        for name in {chunk for file in files for chunk in file.chunks}:
            on_request()
            data = self._read_chunk(place, name)
            n_bytes += len(data)
            self._read_back[name] = _ReadBack(len(data), now_ms)
        return n_bytes

    def _send_file(
        self, path: Path, folder: Path, now_ms: int, on_request: Callable[[], None]
    ) -> _SharedFile:
        chunks = []
        n_bytes = 0
        with path.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                n_bytes += len(data)
                chunks.append(_digest(data))
                on_request()
                if not self._has_chunk(chunks[-1], len(data), now_ms):
                    # What was read back before is gone now.
                    self._read_back.pop(chunks[-1], None)
                    self._write(self._chunk_path(chunks[-1]), data)
                    self._withdraw_report(chunks[-1])
        relative = PurePosixPath(path.relative_to(folder).as_posix())
        return _SharedFile(relative, n_bytes, tuple(chunks))

    def _has_chunk(self, name: str, n_bytes: int, now_ms: int) -> bool:
        """Return whether a chunk is there, whole, and young enough not to be removed soon."""
        if name in self._damaged:
            return False
        (found,) = self._storage.get_file_info([self._chunk_path(name)])
        if found.type != fs.FileType.File or found.size != n_bytes:
            return False
        return _age_hours(found, now_ms) < _RENEWED_HOURS

    def _reported_chunks(self) -> set[str]:
        """Return the chunks that somebody could not use who wanted to restore a snapshot."""
        selector = fs.FileSelector(f"{self._corpus}/damaged", allow_not_found=True)
        found = self._storage.get_file_info(selector)
        return {one.base_name for one in found if _CHUNK_NAME.fullmatch(one.base_name)}

    def _report_damaged(self, name: str) -> None:
        """Tell the owner to send a chunk again: it has read it before, and would not do so soon."""
        with suppress(OSError, pa.ArrowException):  # who only reads need not be able to write
            self._write(f"{self._corpus}/damaged/{name}", b"")

    def _withdraw_report(self, name: str) -> None:
        if name in self._damaged:
            self._damaged.discard(name)
            with suppress(OSError, pa.ArrowException):
                self._storage.delete_file(f"{self._corpus}/damaged/{name}")

    def _chunk_path(self, name: str) -> str:
        return f"{self._corpus}/chunks/{name[:2]}/{name}"

    def _write(self, path: str, data: bytes) -> None:
        if self._storage.type_name == "local":
            # Object stores show an object when it is whole; a folder must be made to.
            file = Path(path)
            create_folder(file.parent)
            with replace_file(file, is_durable=True) as draft:
                draft.write(data)
            return
        with self._storage.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    @contextmanager
    def _writable(self, position: int) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise LedgerError(
                f"the snapshot at {position} cannot be stored in {self._corpus}: {error}"
            ) from error

    # ------------------------------------------------------------------ reading

    def list_complete(self) -> list[SharedSnapshot]:
        """Return the snapshots of the partition, newest first."""
        try:
            return [one for one, _ in _list_with_days(self._list_objects())]
        except (OSError, pa.ArrowException) as error:
            raise LedgerError(f"no snapshots can be found in {self._folder}: {error}") from error

    def _list_objects(self) -> list[fs.FileInfo]:
        """Return what the folder of the partition has."""
        selector = fs.FileSelector(self._folder, allow_not_found=True)
        found: list[fs.FileInfo] = self._storage.get_file_info(selector)
        return found

    def verify(
        self,
        snapshot: SharedSnapshot,
        *,
        now_ms: int | None = None,
        on_request: Callable[[], None] = _do_nothing,
    ) -> int:
        """Read a snapshot, and compare its hashes; return the number of bytes that were read.

        Parameters
        ----------
        snapshot
            Snapshot to read.
        now_ms
            Time in milliseconds since 1970: chunks that this object has read less than 12 hours
            before are only looked for.  None to read all of them.
        on_request
            Function to call before each chunk; an exception of it ends the reading.

        Raises
        ------
        SnapshotError
            It is damaged, or parts of it are missing.
        IdentityError
            It was taken of another corpus or partition.
        """
        n_bytes = 0
        since_ms = None if now_ms is None else now_ms - _READ_BACK_HOURS * _HOUR_MS
        found: dict[str, _ReadBack] = {}
        known: dict[str, _ReadBack] = {}
        for file in self._files_of(snapshot):
            for name in file.chunks:
                before = self._read_back.get(name)
                if before is not None and since_ms is not None and before.at_ms > since_ms:
                    found[name] = known[name] = before
                elif name not in found:
                    on_request()
                    data = self._read_chunk(snapshot, name)
                    n_bytes += len(data)
                    found[name] = _ReadBack(len(data), now_ms or 0)
            if sum(found[name].n_bytes for name in file.chunks) != file.n_bytes:
                raise SnapshotError(f"{snapshot.path} is damaged: {file.path} has another size")
        self._check_presence(snapshot, known)
        self._read_back = found
        return n_bytes

    def _check_presence(self, snapshot: SharedSnapshot, chunks: dict[str, _ReadBack]) -> None:
        """Raise `SnapshotError` if a chunk that was read before is missing, or not whole."""
        if not chunks:
            return
        try:
            found = self._storage.get_file_info([self._chunk_path(name) for name in chunks])
        except (OSError, pa.ArrowException) as error:
            raise SnapshotError(f"{snapshot.path} cannot be read: {error}") from error
        for (name, before), one in zip(chunks.items(), found, strict=True):
            if one.type != fs.FileType.File or one.size != before.n_bytes:
                raise SnapshotError(f"{snapshot.path} is damaged: chunk {name} is not whole")

    def time_of(self, snapshot: SharedSnapshot) -> int:
        """Return the time of the state in a snapshot, in milliseconds since 1970."""
        return self._list_files(snapshot).at_ms

    def restore(
        self,
        snapshot: SharedSnapshot,
        folder: SnapshotFolder,
        *,
        before_adding: Callable[[SavedSnapshot], None] | None = None,
    ) -> SavedSnapshot:
        """Copy a snapshot into a folder of this machine, and check it on the way.

        Parameters
        ----------
        snapshot
            Snapshot to copy.
        folder
            Folder of the partition's snapshots.
        before_adding
            Function to call with the whole copy, before it becomes one of the folder's snapshots;
            an exception of it ends the restoring.

        Raises
        ------
        SnapshotError
            It is damaged, or parts of it are missing; the folder stays as it was.
        IdentityError
            It was taken of another corpus or partition.
        LedgerError
            The folder cannot be written.
        """
        files = self._files_of(snapshot)

        def copy_files(draft: Path) -> None:
            for file in files:
                self._copy_file(snapshot, file, draft)
            if before_adding is not None:
                before_adding(SavedSnapshot(position=snapshot.position, folder=draft))

        try:
            path = folder.copy_in(snapshot.position, copy_files)
        except OSError as error:
            raise LedgerError(f"{folder.folder} cannot be written: {error}") from error
        return SavedSnapshot(position=snapshot.position, folder=path)

    def _copy_file(self, snapshot: SharedSnapshot, file: _SharedFile, draft: Path) -> None:
        path = draft / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as copy:
            for data in self._chunks_of(snapshot, file):
                copy.write(data)
            if copy.tell() != file.n_bytes:
                raise SnapshotError(f"{snapshot.path} is damaged: {file.path} has another size")

    def _chunks_of(self, snapshot: SharedSnapshot, file: _SharedFile) -> Iterator[bytes]:
        for name in file.chunks:
            try:
                data = self._read_chunk(snapshot, name)
            except SnapshotError:
                if name in self._damaged:
                    self._report_damaged(name)
                raise
            yield data

    def _read_chunk(self, snapshot: SharedSnapshot, name: str) -> bytes:
        data = self._read(self._chunk_path(name), snapshot, CHUNK_BYTES)
        if _digest(data) != name:
            self._damaged.add(name)
            raise SnapshotError(f"{snapshot.path} is damaged: chunk {name} has other bytes")
        return data

    def _read(self, path: str, snapshot: SharedSnapshot, n_bytes_max: int) -> bytes:
        try:
            with self._storage.open_input_stream(path, compression=None) as stream:
                data: bytes = stream.read(n_bytes_max + 1)
        except (OSError, pa.ArrowException) as error:
            raise SnapshotError(f"{snapshot.path} cannot be read: {error}") from error
        if len(data) > n_bytes_max:
            raise SnapshotError(f"{snapshot.path} is damaged: {path} is too large")
        return data

    def _files_of(self, snapshot: SharedSnapshot) -> list[_SharedFile]:
        return self._list_files(snapshot).files

    def _list_files(self, snapshot: SharedSnapshot) -> _Listed:
        """Return what a manifest lists."""
        text = self._read(snapshot.path, snapshot, _MANIFEST_BYTES_MAX)
        listed = _files_listed(text, snapshot.path)
        origin = listed.origin
        if origin != self._origin:
            raise IdentityError(
                f"{snapshot.path} was taken of partition {origin.partition} of corpus "
                f"{origin.corpus_id}, but this is partition {self._origin.partition} of corpus "
                f"{self._origin.corpus_id}"
            )
        return listed

    # ------------------------------------------------------------------ removing

    def remove(self, snapshot: SharedSnapshot) -> None:
        """Remove a snapshot; its chunks stay for a day, for workers that are reading it."""
        with self._removable():
            self._remove(snapshot.path)

    def discard(self, snapshot: SharedSnapshot) -> None:
        """Remove a snapshot that is not to be used by anybody; chunks of it stay until unused."""
        with self._removable():
            self._storage.delete_file(snapshot.path)

    def remove_old(
        self, *, keep: int, days: int = 0, protect: Collection[str] = (), now_ms: int
    ) -> int:
        """Remove older snapshots of the partition; return how many.

        Parameters
        ----------
        keep
            Number of snapshots to keep, at least 2: an older one is the fallback.
        days
            Number of days, back from the newest snapshot, of which the last one is kept as well.
        protect
            Paths of snapshots to keep in any case.
        now_ms
            Time in milliseconds since 1970.
        """
        if keep < 2:
            raise ValueError(f"keep must be at least 2, got {keep}")
        with self._removable():
            found = self._list_objects()
            listed = _list_with_days(found)
            kept = {one.path for one, _ in listed[:keep]} | set(protect)
            last_day = max((day for _, day in listed), default=0)
            seen: set[int] = set()
            for one, day in listed:
                if day not in seen and last_day - day < days:
                    kept.add(one.path)
                seen.add(day)
            old = [one.path for one, _ in listed if one.path not in kept]
            for path in old:
                self._remove(path)
            for one in found:
                if _is_manifest(one, _REMOVED) and _age_hours(one, now_ms) >= UNUSED_HOURS_MAX:
                    self._storage.delete_file(one.path)
        return len(old)

    def _remove(self, path: str) -> None:
        """Remove a manifest, after its copy was written whose age is the time since its removal.

        If this is interrupted in between, the snapshot is still there, and the next attempt writes
        the copy again.
        """
        with self._storage.open_input_stream(path, compression=None) as stream:
            text: bytes = stream.read(_MANIFEST_BYTES_MAX + 1)
        if len(text) <= _MANIFEST_BYTES_MAX:  # a longer one cannot be read, and is of no use
            self._write(path + _REMOVED, text)
        self._storage.delete_file(path)

    def of_other_corpora(self, corpus_ids: Collection[str]) -> list["SharedSnapshots"]:
        """Return those of some other corpora that have anything in the storage.

        Parameters
        ----------
        corpus_ids
            Ids of the corpora.
        """
        with self._removable():
            selector = fs.FileSelector(self._root, allow_not_found=True)
            found = {one.base_name for one in self._storage.get_file_info(selector)}
        return [
            SharedSnapshots(self._storage, self._root, SnapshotOrigin(one, 0))
            for one in sorted(found.intersection(corpus_ids) - {self._origin.corpus_id})
        ]

    def remove_unused_chunks(self, now_ms: int) -> int:
        """Remove chunks that no manifest of any partition has listed for a day; return how many.

        A manifest counts for a day after its removal.

        Parameters
        ----------
        now_ms
            Time in milliseconds since 1970.
        """
        with self._removable():
            unused = self._unused_chunks(now_ms)
            for path in unused:
                self._storage.delete_file(path)
        return len(unused)

    @contextmanager
    def _removable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise LedgerError(f"{self._corpus} cannot be cleaned up: {error}") from error

    def _unused_chunks(self, now_ms: int) -> list[str]:
        # The chunks first: one that a later manifest lists is younger than those removed here.
        selector = fs.FileSelector(f"{self._corpus}/chunks", allow_not_found=True, recursive=True)
        old = [
            one
            for one in self._storage.get_file_info(selector)
            if one.type == fs.FileType.File
            and _CHUNK_NAME.fullmatch(one.base_name)
            and _age_hours(one, now_ms) >= UNUSED_HOURS_MAX
        ]
        if not old:
            return []
        used: set[str] = set()
        for one in self._storage.get_file_info(fs.FileSelector(self._corpus, recursive=True)):
            is_removed = _is_manifest(one, _REMOVED)
            if is_removed and _age_hours(one, now_ms) >= UNUSED_HOURS_MAX:
                continue
            if not is_removed and not _is_manifest(one):
                continue
            # One that cannot be read now stops the removal, because its chunks are not known.
            text = self._read(one.path, _snapshot_of(one), _MANIFEST_BYTES_MAX)
            try:
                listed = _files_listed(text, one.path)
            except SnapshotFormatError:
                raise
            except SnapshotError:
                continue  # a damaged one is of no use, with or without its chunks
            used.update(chunk for file in listed.files for chunk in file.chunks)
        return [one.path for one in old if one.base_name not in used]


def _is_manifest(found: fs.FileInfo, ending: str = "") -> bool:
    """Return whether an object is a manifest whose name has an ending."""
    name: str = found.base_name
    return (
        found.type == fs.FileType.File
        and name.endswith(ending)
        and _NAME.fullmatch(name.removesuffix(ending)) is not None
    )


def _snapshot_of(found: fs.FileInfo) -> SharedSnapshot:
    """Return the snapshot that the name of a manifest says."""
    position, epoch, _ = found.base_name.split("-")
    return SharedSnapshot(int(position), int(epoch), found.path)


def _list_with_days(found: Iterable[fs.FileInfo]) -> list[tuple[SharedSnapshot, int]]:
    """Return the snapshots, newest first, and the number of the day each was written on."""
    dated = [(_snapshot_of(one), _mtime_ms(one) // _DAY_MS) for one in found if _is_manifest(one)]
    return sorted(dated, reverse=True)


def _files_listed(text: bytes, path: str) -> _Listed:
    """Return what a manifest lists, and the corpus and partition that it names."""
    try:
        manifest = json.loads(text)
        if manifest["format"] != _FORMAT:
            raise SnapshotFormatError(
                f"{path} was written by a newer version of recrawl: format {manifest['format']}"
            )
        origin = SnapshotOrigin(str(manifest["corpus"]), int(manifest["partition"]))
        files = [_file_of(one) for one in manifest["files"]]
        return _Listed(origin, files, int(manifest["at_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SnapshotError(f"{path} is damaged: {error!r:.200}") from error


def _file_of(found: Any) -> _SharedFile:
    path = PurePosixPath(found["path"])
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"not a path below the snapshot: {path}")
    chunks = tuple(found["chunks"])
    if not all(isinstance(one, str) and _CHUNK_NAME.fullmatch(one) for one in chunks):
        raise ValueError("not names of chunks")
    return _SharedFile(path, int(found["bytes"]), chunks)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _mtime_ms(found: fs.FileInfo) -> int:
    return int((found.mtime_ns or 0) // 1_000_000)


def _age_hours(found: fs.FileInfo, now_ms: int) -> float:
    if found.mtime_ns is None:
        return 0.0
    return float((now_ms - _mtime_ms(found)) / _HOUR_MS)
