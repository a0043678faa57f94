"""A folder of sorted keys and values, with one writer process and any number of readers."""

import ctypes
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Self, TypeAlias, cast, get_args

from rocksdict import (
    AccessType,
    BottommostLevelCompaction,
    Checkpoint,
    CompactOptions,
    DbClosedError,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from recrawl.atomic_files import create_folder
from recrawl.errors import ForkedError, LockedError, StorageError
from recrawl.kv.damage_marks import is_damage, mark_damaged
from recrawl.kv.options import KvOptions, engine_options
from recrawl.one_process import OneProcess

__all__ = ["KeyValues", "Mode"]

Mode: TypeAlias = Literal["writer", "reader"]

_ATTEMPTS_MAX = 100
_ENGINE_SETTINGS = "rocksdict-config.json"
# Opened with options of its own: an existing one would otherwise get those that the engine has
# stored, which lack the size of the block cache.
_FAMILY = "default"
_ENTRIES_PER_PAUSE = 4_096
_READAHEAD_BYTES = 1 << 20


class KeyValues(OneProcess):
    """Keys and values of bytes in a folder, sorted by key.

    One process writes, others may read meanwhile: a reader sees the state at its last `catch_up`.
    Errors of the engine and of the disk are raised as `StorageError`; after one from `write`, close
    the object and open the folder again.

    Threads may share one object.  The engine holds the GIL while it writes and while it returns
    values, so large batches delay other threads; it releases the GIL while it waits for the disk:
    in `flush`, in `checkpoint` and for `sync`.
    """

    _engine_process = 0
    """Process in which an engine was first started; 0 before."""

    def __init__(
        self, folder: Path, mode: Mode, options: KvOptions, *, marks_damage: bool = False
    ) -> None:
        self._folder = folder
        self._mode = mode
        self._options = options
        self._marks_damage = marks_damage
        self._scratch: Path | None = None
        self._engine: Rdict | None = None
        # Version of the manifest that a reader's engine has read.
        self._seen_manifest: tuple[str, int] | None = None
        self._n_starts = 0
        self.remember_process()

    def native_handles(self) -> tuple[object, ...]:
        """Return the engine, whose destructor would write files and wait for its threads."""
        return (self._engine,)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        mode: Mode = "writer",
        options: KvOptions | None = None,
        marks_damage: bool = False,
    ) -> Self:
        """Open a folder; a writer creates it if it does not exist.

        Parameters
        ----------
        folder
            Folder of the files.
        mode
            Mode, ``"writer"`` or ``"reader"``.
        options
            Options of the engine.
        marks_damage
            Whether a wrong checksum is noted with `mark_damaged`.

        Raises
        ------
        LockedError
            If a writer already has the folder open.
        StorageError
            If the folder cannot be read or written, or does not exist for a reader.
        """
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {get_args(Mode)}, got {mode!r}")
        opened = cls(Path(folder), mode, options or KvOptions(), marks_damage=marks_damage)
        try:
            opened._start()
            KeyValues._engine_process = KeyValues._engine_process or os.getpid()
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._folder

    @property
    def mode(self) -> Mode:
        """Mode in which the folder was opened."""
        return self._mode

    @property
    def cached_bytes(self) -> int:
        """Memory that the block cache takes, which databases with equal options share."""
        return int(self._require_engine().property_int_value("rocksdb.block-cache-usage") or 0)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if the key is absent."""
        try:
            return cast(bytes | None, self._require_engine().get(key))
        except Exception as error:
            self._fail(error)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, None for absent keys; sorted keys are faster."""
        try:
            found = self._require_engine().get(keys if isinstance(keys, list) else list(keys))
        except Exception as error:
            self._fail(error)
        return cast(list[bytes | None], found)

    def scan(
        self, start: bytes, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values from ``start`` up to but excluding ``end``.

        Later writes do not change what the iterator yields.  With ``reverse``, the last key comes
        first.  An iterator that is not exhausted keeps its files open: drop it soon.
        """
        bounds = ReadOptions()
        if end is not None:
            if end <= start:
                return
            bounds.set_iterate_upper_bound(end)
        try:
            # A cursor, because the binding's own iterators treat a corrupt block as the end.
            # No lower bound: the binding (rocksdict 0.3.29) sets it as the upper bound.
            cursor = self._require_engine().iter(bounds)
            if reverse:
                cursor.seek_to_last()
            else:
                cursor.seek(start)
            step = cursor.prev if reverse else cursor.next
            while cursor.valid():
                key = cast(bytes, cursor.key())
                if key < start:
                    return
                yield key, cast(bytes, cursor.value())
                step()
            cursor.status()
        except Exception as error:
            self._fail(error)

    def check_blocks(self, start: bytes = b"") -> Iterator[tuple[bytes, int]]:
        """Read all blocks that hold keys from ``start`` on, and compare their checksums.

        Yields the current key and the bytes read since, about every megabyte, so that the caller
        can pause or stop.  What is read does not enter the block cache; blocks that are in it are
        not read from disk, so open the folder without a cache for this.

        Raises
        ------
        StorageError
            If a checksum does not match.
        """
        options = ReadOptions()
        options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks the argument
        options.set_verify_checksums(True)
        options.set_readahead_size(_READAHEAD_BYTES)
        n_bytes = n_entries = 0
        try:
            cursor = self._require_engine().iter(options)
            cursor.seek(start)
            while cursor.valid():
                key = cast(bytes, cursor.key())
                n_bytes += len(key) + len(cast(bytes, cursor.value()))
                n_entries += 1
                if n_bytes >= _READAHEAD_BYTES or n_entries >= _ENTRIES_PER_PAUSE:
                    yield key, n_bytes
                    n_bytes = n_entries = 0
                cursor.next()
            cursor.status()
        except Exception as error:
            self._fail(error)

    def write(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        *,
        deletes: Sequence[bytes] = (),
        delete_range: tuple[bytes, bytes] | None = None,
        sync: bool = False,
    ) -> None:
        """Delete a range of keys, then single keys, then put keys, atomically.

        When it returns, the write survives a crash of the process, and with ``sync`` a power cut.
        A key that is both deleted and put exists afterwards; if a key is put twice, the later
        value counts.
        """
        if len(keys) != len(values):
            raise ValueError(
                f"keys and values must have the same length, got {len(keys)} and {len(values)}"
            )
        if self._mode == "reader":
            raise StorageError(f"{self._folder} is open for reading only")
        batch = WriteBatch(raw_mode=True)
        try:
            if delete_range is not None and delete_range[0] < delete_range[1]:
                batch.delete_range(*delete_range)
            # `deque` runs the loop in C, so a put costs little more than the call.
            if deletes:
                deque(map(batch.delete, deletes), maxlen=0)
            if len(keys) == 1:
                batch.put(keys[0], values[0])
            else:
                deque(map(batch.put, keys, values), maxlen=0)
            engine = self._require_engine()
            engine.write(batch)
            if sync:
                # The write's own sync option would hold the GIL while it waits.
                engine.flush_wal(True)
        except Exception as error:
            self._fail(error)

    def sync(self) -> None:
        """Wait until every write that has returned survives a power cut."""
        if self._mode == "reader":
            raise StorageError(f"{self._folder} is open for reading only")
        try:
            self._require_engine().flush_wal(True)
        except Exception as error:
            self._fail(error)

    def checkpoint(self, folder: Path) -> None:
        """Copy everything into a new folder by hard links; the copy can be opened as well."""
        if folder.exists():
            raise StorageError(f"{folder} exists already; a checkpoint needs a new folder")
        try:
            # The engine would flush by itself, but would hold the GIL.
            self._require_engine().flush()
            Checkpoint(self._require_engine()).create_checkpoint(str(folder))
        except Exception as error:
            self._fail(error)

    def catch_up(self) -> None:
        """Make a reader see the writer's current state; does nothing for a writer."""
        if self._mode == "reader":
            self._require_engine()
            self._catch_up()

    def flush(self) -> None:
        """Write everything in memory to sorted files on disk."""
        try:
            self._require_engine().flush()
        except Exception as error:
            self._fail(error)

    def compact(self) -> None:
        """Merge all files, which reads and writes everything once.

        What was deleted or overwritten is in no file afterwards, unless an iterator still uses it.
        """
        options = CompactOptions()
        # Otherwise files of the last level that nothing overlaps would stay as they are.
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        try:
            self._require_engine().flush()
            self._require_engine().compact_range(None, None, options)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """Close the folder; a second call does nothing.  No other thread may use the object.

        In a child of the process that opened it, it does nothing at all.
        """
        if self.is_forked:
            return
        engine, self._engine = self._engine, None
        scratch, self._scratch = self._scratch, None
        try:
            if engine is not None:
                engine.close()
        except Exception as error:
            self._fail(error)
        finally:
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._engine is not None else ", closed"
        return f"KeyValues({str(self._folder)!r}, mode={self._mode!r}{state})"

    def _start(self) -> None:
        if self._mode == "reader":
            self._start_reader()
            return
        self._check_engine_process()
        try:
            create_folder(self._folder)
            options = engine_options(self._options, is_reader=False)
            self._engine = Rdict(str(self._folder), options, column_families={_FAMILY: options})
        except Exception as error:
            self._fail(error)

    @classmethod
    def _check_engine_process(cls) -> None:
        """Raise `ForkedError` in a child of a process that has started the engine.

        The threads that flush and compact do not exist in the child, and closing would wait for
        them for ever.  A reader needs no such threads.
        """
        if cls._engine_process not in (0, os.getpid()):
            raise ForkedError(
                f"process {os.getpid()} is a child (fork) of process {cls._engine_process}, which "
                "has opened a corpus before: the threads of the storage engine do not exist here. "
                'Start the process with the multiprocessing method "spawn" or "forkserver", '
                "or open corpora only after the fork."
            )

    def _start_reader(self) -> None:
        # Checked here, because the engine would create the folder.
        if not (self._folder / "CURRENT").exists():
            raise StorageError(f"{self._folder} holds no data to read")
        self._scratch = self._make_scratch()
        self._catch_up()

    def _make_scratch(self) -> Path:
        """Return a new folder, in which the engine of a reader writes its messages."""
        prefix = "recrawl-reader-"
        try:
            return Path(tempfile.mkdtemp(prefix=prefix))
        except OSError as error:
            # Without a folder for temporary files, as in a container with a read-only file system.
            with suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=self._folder.parent))
            raise StorageError(
                f"{self._folder} cannot be read: there is no folder for temporary files.  Set "
                "TMPDIR to a folder that can be written to."
            ) from error

    def _catch_up(self) -> None:
        """Read the manifest and then the write-ahead log, until the two are consistent.

        The engine follows the write-ahead log, but not the manifest: it would return a value from
        the log although a new file has a later one.  So the reader opens a new engine when the
        manifest has changed.  The writer may also delete a log after the reader has read the
        manifest but before it has read the log.  The writes are then in a file that only the new
        manifest lists, so the reader compares the manifest again at the end.
        """
        problem: Exception = RuntimeError("the writer changes files faster than the reader follows")
        for _ in range(_ATTEMPTS_MAX):
            try:
                manifest = self._manifest_version()
                if self._engine is not None and manifest == self._seen_manifest:
                    engine = self._engine
                    engine.try_catch_up_with_primary()
                else:
                    engine = self._start_reader_engine()
                    self._sweep_scratch()
                if self._manifest_version() == manifest:
                    # Iterators in use keep the engine they came from.
                    self._engine, self._seen_manifest = engine, manifest
                    return
            except Exception as error:
                problem = error
        self._fail(problem)

    def _start_reader_engine(self) -> Rdict:
        self._n_starts += 1
        assert self._scratch is not None
        scratch = self._scratch / str(self._n_starts)
        options = engine_options(self._options, is_reader=True)
        return Rdict(
            str(self._folder if self._is_writable() else self._link_files(scratch)),
            options,
            column_families={_FAMILY: options},
            access_type=AccessType.secondary(str(scratch)),
        )

    def _is_writable(self) -> bool:
        """Return whether rocksdict can write its own settings, which it does for readers, too."""
        settings = self._folder / _ENGINE_SETTINGS
        return os.access(settings if settings.exists() else self._folder, os.W_OK)

    def _link_files(self, scratch: Path) -> Path:
        """Return a folder with links to the files, for a file system that is read-only.

        The engine reads through the links.  Files that the writer adds later belong to another
        manifest, for which the reader starts another engine.
        """
        links = scratch / "links"
        links.mkdir(parents=True)
        for file in self._folder.iterdir():
            if file.name == _ENGINE_SETTINGS:
                shutil.copyfile(file, links / file.name)
            else:
                (links / file.name).symlink_to(file.absolute())
        return links

    def _sweep_scratch(self) -> None:
        """Remove the scratch folders of this reader's earlier engines."""
        assert self._scratch is not None
        for folder in self._scratch.iterdir():
            if folder.name != str(self._n_starts):
                shutil.rmtree(folder, ignore_errors=True)

    def _manifest_version(self) -> tuple[str, int]:
        """Return the name and the size of the current manifest."""
        name = (self._folder / "CURRENT").read_text().strip()
        return name, (self._folder / name).stat().st_size

    def _require_engine(self) -> Rdict:
        self.check_process()
        if self._engine is None:
            raise StorageError(f"{self._folder} is closed")
        return self._engine

    def _fail(self, error: Exception) -> NoReturn:
        """Raise an error of the engine, which is a bare `Exception`, as one of `recrawl.errors`."""
        if isinstance(error, ForkedError | StorageError | TypeError | ValueError | MemoryError):
            raise error
        message = str(error)
        if "lock" in message and "LOCK" in message:
            raise LockedError(
                f"{self._folder} is already open, in another process or in this one"
            ) from error
        if isinstance(error, DbClosedError):
            message = "closed"
        elif "already borrowed" in message.lower():
            message = "in use by another thread"
        # Not while it opens: the caller may be able to do without what is damaged.
        if self._marks_damage and self._engine is not None and is_damage(message):
            mark_damaged(self._folder, message)
        raise StorageError(f"{self._folder}: {message}") from error


def _leave_child_early() -> None:
    """Let a forked child end without the engine's exit handler.

    The handler waits for threads of the engine, which do not exist in the child, and crashes.  Exit
    handlers run in reverse order, so the one that is registered last runs first.
    """
    if KeyValues._engine_process:
        libc = ctypes.CDLL(None)
        if hasattr(libc, "on_exit"):
            libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=_leave_child_early)
