"""Read a file or a pipe in decompressed blocks.

Memory is bounded: one block is read at a time, and a file that grows too much when decompressed is
cut off.
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
"""Bytes of a decompressed block."""

HEAD_BYTES_MAX = 1 << 16
"""Bytes at the beginning of a file from which its format is guessed."""

INFLATION_MAX = 1_000
"""Maximum ratio of decompressed to compressed size, for files that are large when decompressed."""

# Decompressed bytes up to which the ratio is not checked.
_INFLATION_UNCHECKED_BYTES = 256 << 20
_PART_BYTES = 1 << 16
# Compressed bytes to read for the head: bzip2 decompresses blocks of 900 kB.
_HEAD_COMPRESSED_BYTES_MAX = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = (".gz", ".bz2", ".zst", ".zstd")


class Input:
    """One file, folder or stream to read from.

    Parameters
    ----------
    source
        Path, or binary stream, which is read once and not closed.
    """

    def __init__(self, source: Path | str | BinaryIO) -> None:
        self.n_bytes_read = 0
        """Compressed bytes read so far."""
        self.n_bytes: int | None = None
        """Size of the file; None if unknown."""
        self.path: Path | None = None
        self._stream: BinaryIO | None = None
        self._is_read = False
        self._peeked = b""
        if isinstance(source, (str, Path)):
            self.path = Path(source)
            self.name = str(source)
            mode = _mode_of(self.path)
            self.is_folder = stat.S_ISDIR(mode)
            if stat.S_ISREG(mode):
                self.n_bytes = self.path.stat().st_size
            elif not self.is_folder:
                # A pipe can be read only once, so it stays open.
                self._stream = _open(self.path)
        else:
            self.name = str(getattr(source, "name", "stream"))
            self.is_folder = False
            self._stream = source
        self.compression: str | None = None
        self.head = b"" if self.is_folder else self._head()

    @property
    def plain_name(self) -> str:
        """The file's name in lower case, without the suffix of its compression."""
        name = self.name.lower()
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        return name

    def close(self) -> None:
        """Close a pipe that was opened by its path; a stream given by the caller stays open."""
        if self.path is not None and self._stream is not None:
            self._stream.close()

    @contextmanager
    def open_seekable(self) -> Iterator[BinaryIO]:
        """Open the file itself, for formats that need random access."""
        if self.compression is not None:
            raise ReadError(
                f"{self.name} is compressed as a whole and cannot be read in parts; "
                "decompress it first"
            )
        if self.path is not None and self._stream is None:
            with _open(self.path) as file:
                yield file
            return
        stream = self._stream
        assert stream is not None
        if not _is_seekable(stream):
            raise ReadError(f"{self.name} is a pipe, but this format needs a file; save it first")
        stream.seek(0)
        yield stream

    def blocks(self, refused: Refused) -> Iterator[bytes]:
        """Yield the decompressed bytes, a block at a time.

        An error after the head ends the stream; its reason is recorded in ``refused``.
        """
        if self._stream is not None:
            if self._is_read:
                raise ValueError("a stream can be read only once")
            self._is_read = True
            try:
                yield from self._blocks_of(self._stream, refused)
            finally:
                self.close()
            return
        assert self.path is not None
        with _open(self.path) as file:
            self.n_bytes_read = 0
            yield from self._blocks_of(file, refused)

    def _blocks_of(self, file: BinaryIO, refused: Refused) -> Iterator[bytes]:
        raw = cast(BinaryIO, _CountingFile(file, self))
        if self.compression is None:
            yield from _blocks(raw, BLOCK_BYTES, refused)
            return
        inflated = 0
        parts: list[bytes] = []
        n = 0
        # A failed read loses all its bytes, so reads are shorter than a block.
        for part in _blocks(_decompressor(raw, self.compression), _PART_BYTES, refused):
            parts.append(part)
            n += len(part)
            if n < BLOCK_BYTES:
                continue
            inflated += n
            yield b"".join(parts)
            parts, n = [], 0
            if inflated > max(_INFLATION_UNCHECKED_BYTES, INFLATION_MAX * self.n_bytes_read):
                refused.cut_short(
                    f"it grows to more than {INFLATION_MAX} times its size when decompressed"
                )
                return
        if parts:
            yield b"".join(parts)

    def _head(self) -> bytes:
        """Read the beginning of the file, and detect its compression."""
        if self._stream is None:
            assert self.path is not None
            with _open(self.path) as file:
                return self._head_of(file)
        return self._head_of(self._stream)

    def _head_of(self, file: BinaryIO) -> bytes:
        peeked = _read(file, HEAD_BYTES_MAX, self.name)
        for magic, compression in _MAGIC.items():
            if peeked.startswith(magic):
                self.compression = compression
                peeked += _read(file, _HEAD_COMPRESSED_BYTES_MAX - len(peeked), self.name)
        if self._stream is not None:
            self._peeked = peeked
        if self.compression is None:
            return peeked
        return _decompress_head(peeked, self.compression, self.name)


class _CountingFile(io.RawIOBase):
    """A file that counts the bytes read, and begins with those already read for the head."""

    def __init__(self, file: BinaryIO, owner: Input) -> None:
        self._file = file
        self._owner = owner
        self._peeked = memoryview(owner._peeked if owner._stream is file else b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._peeked:
            n = len(self._peeked) if size < 0 else size
            data = bytes(self._peeked[:n])
            self._peeked = self._peeked[n:]
        else:
            data = self._file.read(size) or b""
        self._owner.n_bytes_read += len(data)
        return data


def _blocks(file: BinaryIO, size: int, refused: Refused) -> Iterator[bytes]:
    """Yield blocks; on an error, record the reason and stop."""
    while True:
        try:
            block = file.read(size)
        except (OSError, ValueError, EOFError, pa.ArrowException) as error:
            refused.cut_short(f"reading failed: {_error_text(error)}")
            return
        if not block:
            return
        yield block


def _decompressor(raw: BinaryIO, compression: str) -> BinaryIO:
    file = pa.PythonFile(raw, mode="r")
    return cast(BinaryIO, pa.CompressedInputStream(file, compression))


def _decompress_head(peeked: bytes, compression: str, name: str) -> bytes:
    """Decompress as much of the head as possible."""
    parts: list[bytes] = []
    n = 0
    try:
        reader = pa.CompressedInputStream(pa.BufferReader(peeked), compression)
        while n < HEAD_BYTES_MAX and (part := reader.read(min(4_096, HEAD_BYTES_MAX - n))):
            parts.append(part)
            n += len(part)
    except (OSError, pa.ArrowException) as error:
        # An error is expected where the head cuts a compressed file.
        if not parts and len(peeked) < _HEAD_COMPRESSED_BYTES_MAX:
            raise ReadError(
                f"{name} is a damaged {compression} file: {_error_text(error)}; "
                "download or create it again"
            ) from error
    return b"".join(parts)


def _read(file: BinaryIO, size: int, name: str) -> bytes:
    parts = []
    try:
        while size > 0 and (part := file.read(size)):
            parts.append(part)
            size -= len(part)
    except (OSError, ValueError) as error:
        raise ReadError(f"{name} cannot be read: {_error_text(error)}") from error
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
        raise ReadError(f"{path} does not exist; check the path") from error
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be read: {_error_text(error)}") from error


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {_error_text(error)}") from error


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
