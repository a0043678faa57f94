"""Unpack the body of an answer piece by piece, within limits of size and expansion."""

import importlib
import zlib
from collections.abc import Iterator
from typing import Any, Final

import brotli

from recrawl.fetch.fetcher import FetchProblem

__all__ = ["ACCEPT_ENCODING", "BodyUnpacker"]


def _find_zstd() -> Any:
    """Return the module that unpacks zstd; None if neither Python nor a package has it."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_ZSTD: Final = _find_zstd()
_ZSTD_ERRORS: Final[tuple[type[Exception], ...]] = () if _ZSTD is None else (_ZSTD.ZstdError,)

ACCEPT_ENCODING: Final = "gzip, deflate, br" if _ZSTD is None else "gzip, deflate, br, zstd"
"""Codings that a fetcher asks for: those whose output can be limited."""

_STEP_BYTES: Final = 1 << 18
# The ratio counts only beyond this size: a short text of equal characters is harmless.
_FREE_BYTES: Final = 1 << 20
_GZIP_START: Final = b"\x1f"
_HEADER_BYTES: Final = 2
_GZIP_WINDOW: Final = 31
_ZLIB_WINDOW: Final = 15
# 8 MiB, the largest window of the coding (RFC 9659): a frame may ask for much more memory.
_ZSTD_WINDOW_LOG: Final = 23
_ZSTD_START: Final = b"\x28\xb5\x2f\xfd"
# Codings that exist and were not asked for.  Anything else, such as "utf-8", is a mistake of the
# server and means that the body is not packed.
_OTHER_CODINGS: Final = frozenset({"compress", "dcb", "dcz", "exi", "pack200-gzip", "zstd"})


class BodyUnpacker:
    """Collects the pieces of a body and unpacks them.

    Parameters
    ----------
    coding
        Value of ``Content-Encoding``; empty if the answer has none.
    bytes_max
        Largest unpacked body.
    ratio_max
        Unpacked bytes per packed byte beyond 1 MiB.

    Examples
    --------
    >>> reader = BodyUnpacker("gzip", bytes_max=1000, ratio_max=200)
    >>> reader.feed(zlib.compress(b"Hello", wbits=31))
    >>> reader.finish(), reader.body
    (None, b'Hello')
    """

    def __init__(self, coding: str, *, bytes_max: int, ratio_max: int) -> None:
        self._bytes_max = bytes_max
        self._ratio_max = ratio_max
        self._pieces: list[bytes] = []
        self._n_out = 0
        self._unpacker: _Inflater | _BrotliUnpacker | _ZstdUnpacker | None = None
        self.n_bytes_packed = 0
        """Bytes that were fed."""
        self.problem: FetchProblem | None = None
        """First problem; nothing is read after it."""
        name = coding.strip().lower()
        if name in ("gzip", "x-gzip"):
            self._unpacker = _Inflater(_GZIP_WINDOW)
        elif name == "deflate":
            self._unpacker = _Inflater(_ZLIB_WINDOW)
        elif name == "br":
            self._unpacker = _BrotliUnpacker()
        elif name == "zstd" and _ZSTD is not None:
            self._unpacker = _ZstdUnpacker()
        elif "," in name or name in _OTHER_CODINGS:
            self.problem = FetchProblem.BAD_ENCODING

    @property
    def body(self) -> bytes:
        """The unpacked bytes, at most ``bytes_max``."""
        return b"".join(self._pieces)[: self._bytes_max]

    def feed(self, piece: bytes) -> None:
        """Read one more piece; ``problem`` says whether to go on.

        Parameters
        ----------
        piece
            Bytes as they came from the network.
        """
        self.n_bytes_packed += len(piece)
        if self.problem is not None:
            return
        if self._unpacker is None:
            self.problem = self._take(piece, self._bytes_max)
            return
        try:
            for out in self._unpacker.unpack(piece):
                n_bytes_max = max(self._ratio_max * self.n_bytes_packed, _FREE_BYTES)
                self.problem = self._take(out, n_bytes_max)
                if self.problem is not None:
                    return
        except (zlib.error, brotli.error, *_ZSTD_ERRORS):
            self.problem = FetchProblem.BAD_ENCODING

    def finish(self) -> FetchProblem | None:
        """Return the problem of the whole body; None if it is complete."""
        unpacker = self._unpacker
        is_whole = unpacker is None or not self.n_bytes_packed or self.problem or unpacker.is_done
        if not is_whole:
            self.problem = FetchProblem.BAD_ENCODING
        return self.problem

    def _take(self, out: bytes, n_bytes_max: int) -> FetchProblem | None:
        self._pieces.append(out)
        self._n_out += len(out)
        if self._n_out > self._bytes_max:
            return FetchProblem.TOO_LARGE
        return FetchProblem.BOMB if self._n_out > n_bytes_max else None


class _Inflater:
    """Unpacks gzip, with any number of members, and deflate with or without its header."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inflate = zlib.decompressobj(window)
        self._is_first = True
        self._held = b""

    @property
    def is_done(self) -> bool:
        return self._inflate.eof

    def unpack(self, data: bytes) -> Iterator[bytes]:
        if self._is_first:
            # The first two bytes show whether the header is there.
            data = self._held + data
            if len(data) < _HEADER_BYTES:
                self._held = data
                return
        while data:
            if self._inflate.eof:
                # What follows the end is ignored, as browsers do, unless it is another member.
                if not (self._window == _GZIP_WINDOW and data.startswith(_GZIP_START)):
                    return
                self._inflate = zlib.decompressobj(self._window)
            try:
                out = self._inflate.decompress(data, _STEP_BYTES)
            except zlib.error:
                if not (self._is_first and self._window == _ZLIB_WINDOW):
                    raise
                # Many servers send deflate without the header that the standard asks for.
                self._window = -_ZLIB_WINDOW
                self._inflate = zlib.decompressobj(self._window)
                out = self._inflate.decompress(data, _STEP_BYTES)
            self._is_first = False
            if out:
                yield out
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail


class _BrotliUnpacker:
    def __init__(self) -> None:
        self._unpacker = brotli.Decompressor()

    @property
    def is_done(self) -> bool:
        return bool(self._unpacker.is_finished())

    def unpack(self, data: bytes) -> Iterator[bytes]:
        if self._unpacker.is_finished():
            return
        out: bytes = self._unpacker.process(data, output_buffer_limit=_STEP_BYTES)
        yield out
        while not (self._unpacker.is_finished() or self._unpacker.can_accept_more_data()):
            yield self._unpacker.process(b"", output_buffer_limit=_STEP_BYTES)


class _ZstdUnpacker:
    """Unpacks zstd, with any number of frames."""

    def __init__(self) -> None:
        self._held = b""
        self._start()

    def _start(self) -> None:
        options = {_ZSTD.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._unpacker = _ZSTD.ZstdDecompressor(options=options)

    @property
    def is_done(self) -> bool:
        return bool(self._unpacker.eof)

    def unpack(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._unpacker.eof:
                # What follows the end is ignored, unless it is another frame.
                data, self._held = self._held + data, b""
                if not data.startswith(_ZSTD_START):
                    self._held = data if _ZSTD_START.startswith(data) else b""
                    return
                self._start()
            out: bytes = self._unpacker.decompress(data, max_length=_STEP_BYTES)
            if out:
                yield out
            data = self._unpacker.unused_data if self._unpacker.eof else b""
            if not data and (self._unpacker.eof or self._unpacker.needs_input):
                return
