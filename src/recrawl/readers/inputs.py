"""Bytes of a file or a pipe, decompressed, in blocks, and its beginning to guess from.

Memory is bounded whatever the file says of itself: a block is read at a time, and a file that
inflates beyond measure is given up.
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from recrawl.errors import ReadError
from recrawl.readers.refused import Refused

__all__ = ["BLOCK_BYTES", "HEAD_BYTES_MAX", "INFLATION_MAX", "Input"]

BLOCK_BYTES = 1 << 20
"""Bytes that are read at a time, decompressed."""

HEAD_BYTES_MAX = 1 << 16
"""Bytes at a file's beginning that its format is guessed from."""

INFLATION_MAX = 1_000
"""Times its size that a compressed file may grow; checked from `_INFLATED_FREELY` bytes on."""

_INFLATED_FREELY = 256 << 20
_PART_BYTES = 1 << 16
# Compressed bytes to get a beginning from: bzip2 gives nothing before 900 kB are whole.
_BEGUN_BYTES_MAX = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = (".gz", ".bz2", ".zst", ".zstd")


class Input:
    """One file, folder or stream to read from.

    Parameters
    ----------
    source
        A path, or a binary stream, which is read once and not closed.
    """

    def __init__(self, source: Path | str | BinaryIO) -> None:
        self.n_bytes_read = 0
        """Bytes taken from the file so far, compressed as they are."""
        self.n_bytes: int | None = None
        """Of the file; None where that is not known before its end."""
        self.path: Path | None = None
        self._stream: BinaryIO | None = None
        self._is_drawn = False
        self._begun = b""
        if isinstance(source, (str, Path)):
            self.path = Path(source)
            self.name = str(source)
            mode = _mode_of(self.path)
            self.is_folder = stat.S_ISDIR(mode)
            if stat.S_ISREG(mode):
                self.n_bytes = self.path.stat().st_size
            elif not self.is_folder:
                # A pipe gives its bytes once.
                self._stream = _opened(self.path)
        else:
            self.name = str(getattr(source, "name", "stream"))
            self.is_folder = False
            self._stream = source
        self.compression: str | None = None
        self.head = b"" if self.is_folder else self._head()

    @property
    def plain_name(self) -> str:
        """The file's name in lower case, without what says how it is compressed."""
        name = self.name.lower()
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        return name

    def close(self) -> None:
        """Close a pipe that was opened by its path; a stream that was given stays open."""
        if self.path is not None and self._stream is not None:
            self._stream.close()

    @contextmanager
    def seekable(self) -> Iterator[BinaryIO]:
        """Give the file itself, for a format that is read in no order."""
        if self.compression is not None:
            raise ReadError(
                f"{self.name} is compressed as a whole and cannot be read in parts; "
                "decompress it first"
            )
        if self.path is not None and self._stream is None:
            with _opened(self.path) as file:
                yield file
            return
        stream = self._stream
        assert stream is not None
        if not _is_seekable(stream):
            raise ReadError(f"{self.name} is a pipe and this format needs a file; save it first")
        stream.seek(0)
        yield stream

    def blocks(self, refused: Refused) -> Iterator[bytes]:
        """Yield the decompressed bytes, a block at a time.

        What breaks after the beginning ends the stream and is said in ``refused``.
        """
        if self._stream is not None:
            if self._is_drawn:
                raise ValueError("a stream can be read once")
            self._is_drawn = True
            try:
                yield from self._blocks_of(self._stream, refused)
            finally:
                self.close()
            return
        assert self.path is not None
        with _opened(self.path) as file:
            self.n_bytes_read = 0
            yield from self._blocks_of(file, refused)

    def _blocks_of(self, file: BinaryIO, refused: Refused) -> Iterator[bytes]:
        raw = cast(BinaryIO, _Counted(file, self))
        if self.compression is None:
            yield from _blocks(raw, BLOCK_BYTES, refused)
            return
        inflated = 0
        parts: list[bytes] = []
        n = 0
        # What breaks in a read is lost with it, hence reads shorter than a block.
        for part in _blocks(_decompressor(raw, self.compression), _PART_BYTES, refused):
            parts.append(part)
            n += len(part)
            if n < BLOCK_BYTES:
                continue
            inflated += n
            yield b"".join(parts)
            parts, n = [], 0
            if inflated > max(_INFLATED_FREELY, INFLATION_MAX * self.n_bytes_read):
                refused.cut_short(
                    f"it grows to more than {INFLATION_MAX} times its size when decompressed"
                )
                return
        if parts:
            yield b"".join(parts)

    def _head(self) -> bytes:
        """Read the beginning, and find out how the file is compressed."""
        if self._stream is None:
            assert self.path is not None
            with _opened(self.path) as file:
                return self._head_of(file)
        return self._head_of(self._stream)

    def _head_of(self, file: BinaryIO) -> bytes:
        begun = _read(file, HEAD_BYTES_MAX, self.name)
        for magic, compression in _MAGIC.items():
            if begun.startswith(magic):
                self.compression = compression
                begun += _read(file, _BEGUN_BYTES_MAX - len(begun), self.name)
        if self._stream is not None:
            self._begun = begun
        if self.compression is None:
            return begun
        return _inflated(begun, self.compression, self.name)


class _Counted(io.RawIOBase):
    """A file whose bytes are counted as they are read; what was peeked at comes first."""

    def __init__(self, file: BinaryIO, owner: Input) -> None:
        self._file = file
        self._owner = owner
        self._begun = memoryview(owner._begun if owner._stream is file else b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._begun:
            n = len(self._begun) if size < 0 else size
            data = bytes(self._begun[:n])
            self._begun = self._begun[n:]
        else:
            data = self._file.read(size) or b""
        self._owner.n_bytes_read += len(data)
        return data


def _blocks(file: BinaryIO, size: int, refused: Refused) -> Iterator[bytes]:
    """Yield what can be read, and say why that ended before the end."""
    while True:
        try:
            block = file.read(size)
        except (OSError, ValueError, EOFError, pa.ArrowException) as error:
            refused.cut_short(f"it cannot be read further: {_words(error)}")
            return
        if not block:
            return
        yield block


def _decompressor(raw: BinaryIO, compression: str) -> BinaryIO:
    file = pa.PythonFile(raw, mode="r")
    return cast(BinaryIO, pa.CompressedInputStream(file, compression))


def _inflated(begun: bytes, compression: str, name: str) -> bytes:
    """Return the beginning of what ``begun`` is the compressed beginning of."""
    parts: list[bytes] = []
    n = 0
    try:
        reader = pa.CompressedInputStream(pa.BufferReader(begun), compression)
        while n < HEAD_BYTES_MAX and (part := reader.read(min(4_096, HEAD_BYTES_MAX - n))):
            parts.append(part)
            n += len(part)
    except (OSError, pa.ArrowException) as error:
        # Mostly because ``begun`` is a beginning.
        if not parts and len(begun) < _BEGUN_BYTES_MAX:
            raise ReadError(
                f"{name} is broken {compression}: {_words(error)}; fetch or make it again"
            ) from error
    return b"".join(parts)


def _read(file: BinaryIO, size: int, name: str) -> bytes:
    parts = []
    try:
        while size > 0 and (part := file.read(size)):
            parts.append(part)
            size -= len(part)
    except (OSError, ValueError) as error:
        raise ReadError(f"{name} cannot be read: {_words(error)}") from error
    return b"".join(parts)


def _is_seekable(stream: BinaryIO) -> bool:
    try:
        return stream.seekable()
    except (AttributeError, ValueError):
        return False


def _mode_of(path: Path) -> int:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError as error:
        raise ReadError(f"{path} is not there; check its name") from error
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be read: {_words(error)}") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {_words(error)}") from error


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
