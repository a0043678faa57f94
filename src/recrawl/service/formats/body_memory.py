"""Read the body of a request within limits of size, time and memory."""

import asyncio
import zlib

from starlette.requests import ClientDisconnect, Request

from recrawl.messages.forwarding import Forwarded, forwarded_digest
from recrawl.service.limits import ServiceLimits
from recrawl.service.problems import Problem, too_busy

__all__ = ["BodyMemory", "HeldBody"]

_GZIP_WBITS = 31
# Pieces in which a body is decompressed, so that other requests are served in between.
_PIECE_BYTES = 1 << 20
# Part of the memory for bodies of requests without an API key, which anybody can send.
_KEYLESS_PART = 8


class BodyMemory:
    """The bodies that the server holds, with a limit of their total size.

    Parameters
    ----------
    limits
        Limits of the server.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._n_held = self._n_keyless = 0

    @property
    def n_held(self) -> int:
        """Size of all bodies held now, in bytes."""
        return self._n_held

    def hold(
        self, request: Request, n_bytes_max: int | None = None, *, is_keyless: bool = False
    ) -> "HeldBody":
        """Return a block that begins with reading the body of a request, and holds it.

        Parameters
        ----------
        request
            Request whose body nothing has read yet.
        n_bytes_max
            Size of the body, if it has a smaller limit than others.
        is_keyless
            Whether anybody can send it; all such bodies have an eighth of the memory.
        """
        return HeldBody(self, self._limits, request, n_bytes_max, is_keyless=is_keyless)

    def take(self, n_bytes: int, *, is_keyless: bool) -> None:
        """Count bytes as held; raise if there is no room."""
        n_max = self._limits.held_bytes_max
        n_keyless = self._n_keyless + n_bytes if is_keyless else 0
        if self._n_held + n_bytes > n_max or n_keyless > n_max // _KEYLESS_PART:
            raise too_busy("the server holds too many bodies; try again soon")
        self._n_held += n_bytes
        self._n_keyless += n_bytes if is_keyless else 0

    def give_back(self, n_bytes: int, *, is_keyless: bool) -> None:
        """Count bytes as no longer held."""
        self._n_held -= n_bytes
        self._n_keyless -= n_bytes if is_keyless else 0


class HeldBody:
    """One body while it is read and used: ``async with`` returns its bytes.

    Parameters
    ----------
    memory
        Bodies that the server holds.
    limits
        Limits of the server.
    request
        Request of the body.
    n_bytes_max
        Size of the body, if it has a smaller limit than others.
    is_keyless
        Whether anybody can send it.
    """

    def __init__(
        self,
        memory: BodyMemory,
        limits: ServiceLimits,
        request: Request,
        n_bytes_max: int | None = None,
        *,
        is_keyless: bool = False,
    ) -> None:
        self._is_keyless = is_keyless
        self._memory = memory
        self._request = request
        self._n_max = n_bytes_max or limits.body_bytes_max
        self._seconds_max = limits.body_seconds_max
        self._n_bytes = 0
        self._pieces: list[bytes] = []

    async def __aenter__(self) -> bytes:
        try:
            async with asyncio.timeout(self._seconds_max):
                return await self._read()
        except TimeoutError:
            self.forget()
            raise Problem(
                "body-too-slow",
                f"the body did not arrive within {self._seconds_max:g} s",
                headers={"Connection": "close"},
            ) from None
        except ClientDisconnect:
            self.forget()
            raise Problem("invalid-body", "the body ended early") from None
        except BaseException:
            self.forget()
            raise

    async def __aexit__(self, *_: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Count the body as no longer held."""
        self._memory.give_back(self._n_bytes, is_keyless=self._is_keyless)
        self._n_bytes = 0
        self._pieces.clear()

    def _add(self, piece: bytes) -> None:
        if self._n_bytes + len(piece) > self._n_max:
            raise self._too_large()
        self._memory.take(len(piece), is_keyless=self._is_keyless)
        self._n_bytes += len(piece)
        self._pieces.append(piece)

    def _too_large(self) -> Problem:
        return Problem(
            "body-too-large",
            f"a body has at most {self._n_max:,} bytes, after decompression",
            headers={"Connection": "close"},
            bytes_max=self._n_max,
        )

    async def _read(self) -> bytes:
        request = self._request
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise Problem(
                "unknown-format",
                f"Content-Encoding must be gzip or none, got {encoding[:40]!r}",
                headers={"Accept-Encoding": "gzip"},
            )
        length = request.headers.get("content-length", "")
        if length.isdigit() and len(length) < 20 and int(length) > self._n_max:
            raise self._too_large()
        gzip = zlib.decompressobj(_GZIP_WBITS) if encoding == "gzip" else None
        async for chunk in request.stream():
            if gzip is None:
                if chunk:
                    self._add(chunk)
            else:
                await self._decompress(gzip, chunk)
        if gzip is not None and not gzip.eof:
            raise Problem("invalid-body", "the gzip data ends early")
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        forwarded: Forwarded | None = request.scope.get("state", {}).get("forwarded")
        if forwarded is not None and forwarded.body != forwarded_digest(body):
            raise Problem("key-needed", "the body is not the one that the other worker has signed")
        return body

    async def _decompress(self, gzip: "zlib._Decompress", chunk: bytes) -> None:
        has_more = bool(chunk)
        while has_more:
            if gzip.eof:
                raise Problem("invalid-body", "there are bytes after the end of the gzip data")
            try:
                piece = gzip.decompress(chunk, _PIECE_BYTES)
            except zlib.error:
                raise Problem("invalid-body", "the body is not valid gzip data") from None
            if piece:
                self._add(piece)
            chunk = gzip.unconsumed_tail or gzip.unused_data
            # A full piece may not be all that the decompressor has for these bytes.
            has_more = bool(chunk) or (len(piece) == _PIECE_BYTES and not gzip.eof)
            if has_more:
                await asyncio.sleep(0)
