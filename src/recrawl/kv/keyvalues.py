"""One folder of sorted keys and values: a single writer, and readers beside it."""

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Self, TypeAlias, cast, get_args

from rocksdict import AccessType, Checkpoint, DbClosedError, Rdict, ReadOptions, WriteBatch

from recrawl.errors import LockedError, StorageError
from recrawl.kv.options import KvOptions, engine_options

__all__ = ["KeyValues", "Mode"]

Mode: TypeAlias = Literal["writer", "reader"]

_ATTEMPTS_MAX = 100


class KeyValues:
    """Keys and values of bytes, sorted by key, in a folder.

    One process writes.  Others read beside it: a reader sees what the writer had done when the
    reader last caught up.  Whatever the engine or the disk complains of is a `StorageError`;
    after one from `write`, close and open again.

    Threads may share one object.  The engine keeps the interpreter's lock while it writes and
    while it hands over what it read, so large batches hold up other threads; it lets go of it
    while it waits for the disk: in `flush`, `checkpoint` and for `sync`.
    """

    def __init__(self, folder: Path, mode: Mode, options: KvOptions) -> None:
        self._folder = folder
        self._mode = mode
        self._options = options
        self._scratch: Path | None = None
        self._engine: Rdict | None = None
        # A reader's list of files, as its engine knows it.
        self._listed: tuple[str, int] | None = None
        self._n_starts = 0

    @classmethod
    def open(cls, folder: Path, *, mode: Mode = "writer", options: KvOptions | None = None) -> Self:
        """Open a folder, which a writer makes if there is none.

        Raises
        ------
        LockedError
            If a writer has it open already.
        StorageError
            If it cannot be read or written, or for a reader: is not there.
        """
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {get_args(Mode)}, got {mode!r}")
        opened = cls(Path(folder), mode, options or KvOptions())
        try:
            opened._start()
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    @property
    def mode(self) -> Mode:
        """Whether it was opened to write or to read."""
        return self._mode

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none."""
        try:
            return cast(bytes | None, self._open_engine().get(key))
        except Exception as error:
            self._fail(error)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, None where there is none; quicker if the keys are sorted."""
        try:
            found = self._open_engine().get(keys if isinstance(keys, list) else list(keys))
        except Exception as error:
            self._fail(error)
        return cast(list[bytes | None], found)

    def scan(
        self, start: bytes, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield what is at ``start`` or after and before ``end``, as it was when this began.

        With ``reverse`` the same, last first.  An iterator that is not used up holds on to the
        files it reads: drop it soon.
        """
        bounds = ReadOptions()
        if end is not None:
            if end <= start:
                return
            bounds.set_iterate_upper_bound(end)
        try:
            # A cursor, because the binding's own iterators take a broken block for the end.
            # And no lower bound: the binding (rocksdict 0.3.29) takes it for the upper one.
            cursor = self._open_engine().iter(bounds)
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

    def write(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        *,
        deletes: Sequence[bytes] = (),
        delete_range: tuple[bytes, bytes] | None = None,
        sync: bool = False,
    ) -> None:
        """Delete a range of keys, then single keys, then put keys: all or nothing.

        Returns when a crash of the process loses nothing, with ``sync`` when a power cut loses
        nothing.  A key that is deleted and put is there afterwards; of a key that is put twice,
        the later value.
        """
        if len(keys) != len(values):
            raise ValueError(f"values must be as many as keys, got {len(values)} for {len(keys)}")
        if self._mode == "reader":
            raise StorageError(f"{self._folder} is open to read only")
        batch = WriteBatch(raw_mode=True)
        try:
            if delete_range is not None and delete_range[0] < delete_range[1]:
                batch.delete_range(*delete_range)
            # The loop runs inside deque: a put costs little more than the call.
            deque(map(batch.delete, deletes), maxlen=0)
            deque(map(batch.put, keys, values), maxlen=0)
            engine = self._open_engine()
            engine.write(batch)
            if sync:
                # Not by the write's own option: that waits with the interpreter's lock held.
                engine.flush_wal(True)
        except Exception as error:
            self._fail(error)

    def checkpoint(self, folder: Path) -> None:
        """Make a copy in a new folder by hard links, which can be opened like the original."""
        if folder.exists():
            raise StorageError(f"{folder} exists already")
        try:
            # The engine would flush by itself, but with the interpreter's lock held.
            self._open_engine().flush()
            Checkpoint(self._open_engine()).create_checkpoint(str(folder))
        except Exception as error:
            self._fail(error)

    def catch_up(self) -> None:
        """See what the writer has done until now; for a writer, nothing."""
        if self._mode == "reader":
            self._open_engine()
            self._catch_up()

    def flush(self) -> None:
        """Bring everything to disk, in sorted files."""
        try:
            self._open_engine().flush()
        except Exception as error:
            self._fail(error)

    def compact(self) -> None:
        """Merge all files; takes as long as reading and writing everything once."""
        try:
            self._open_engine().compact_range(None, None)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """Close; again does nothing.  No other thread may be using it."""
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
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._engine = Rdict(str(self._folder), engine_options(self._options, is_reader=False))
        except Exception as error:
            self._fail(error)

    def _start_reader(self) -> None:
        # The engine would make the folder.
        if not (self._folder / "CURRENT").exists():
            raise StorageError(f"{self._folder} holds no data")
        self._scratch = Path(tempfile.mkdtemp(prefix="recrawl-reader-"))
        self._catch_up()

    def _catch_up(self) -> None:
        """Read the list of files and then the log of recent writes, until they fit together.

        The engine itself follows the log, but not the list: writes that it has seen in the log
        hide later ones that it finds in a new file only.  So with a new list it is opened anew.
        The writer may also drop a log whose writes are in a file that is not on the list which
        was read; but then the list has grown by the time the log has been looked for.
        """
        problem: Exception = RuntimeError("the writer is too busy to catch up with")
        for _ in range(_ATTEMPTS_MAX):
            try:
                listed = self._list_of_files()
                if self._engine is not None and listed == self._listed:
                    engine = self._engine
                    engine.try_catch_up_with_primary()
                else:
                    engine = self._new_reader()
                    self._sweep_scratch()
                if self._list_of_files() == listed:
                    # Iterators in use keep the engine they came from.
                    self._engine, self._listed = engine, listed
                    return
            except Exception as error:
                problem = error
        self._fail(problem)

    def _new_reader(self) -> Rdict:
        self._n_starts += 1
        assert self._scratch is not None
        return Rdict(
            str(self._folder),
            engine_options(self._options, is_reader=True),
            access_type=AccessType.secondary(str(self._scratch / str(self._n_starts))),
        )

    def _sweep_scratch(self) -> None:
        """Remove what earlier engines of this reader left; they need none of it."""
        assert self._scratch is not None
        for left in self._scratch.iterdir():
            if left.name != str(self._n_starts):
                shutil.rmtree(left, ignore_errors=True)

    def _list_of_files(self) -> tuple[str, int]:
        """Return which file lists the files now, and how much it says."""
        name = (self._folder / "CURRENT").read_text().strip()
        return name, (self._folder / name).stat().st_size

    def _open_engine(self) -> Rdict:
        if self._engine is None:
            raise StorageError(f"{self._folder} is closed")
        return self._engine

    def _fail(self, error: Exception) -> NoReturn:
        """Raise our error for one of the engine's, which come as a bare `Exception`."""
        if isinstance(error, StorageError | TypeError | ValueError | MemoryError):
            raise error
        message = str(error)
        if "lock" in message and "LOCK" in message:
            raise LockedError(
                f"{self._folder} is open already, in another process or in this one"
            ) from error
        if isinstance(error, DbClosedError):
            message = "closed"
        elif "already borrowed" in message.lower():
            message = "in use by another thread"
        raise StorageError(f"{self._folder}: {message}") from error
