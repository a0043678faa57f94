"""Patterns of URLs, such as ``/product/*``, to select many pages at once.

Patterns match canonical URLs.  ``*`` matches any run of characters, including none; every other
character matches itself, so ``?`` is the mark before a query.

=============================  ==========================================================
``/product/*``                 path and query, on any host
``shop.example/*``             a host (with its port, if not the scheme's own), then a path
``*.example.com/blog/*``       the same; not ``example.com``, which lacks the dot
``https://shop.example/*``     with a scheme
``*``                          every URL
=============================  ==========================================================

A ``*`` in the host stays within the host: ``*.example.com/*`` does not match
``https://elsewhere.net/www.example.com/``.  A path without ``*`` at its end must match to the
end, query and all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recrawl.core.kernel import table_kernel
from recrawl.urls._arrow_text import ByteArray, SpanArray, text_of
from recrawl.urls._canonical_check import host_start
from recrawl.urls.canonical import URL_BYTES_MAX, UrlProblem, canonical

__all__ = ["PATTERNS_MAX", "Pattern", "PatternSet"]

MatchArray: TypeAlias = NDArray[np.int16]

PATTERNS_MAX = 2**15 - 1
"""Most patterns in a set; the limit of 16-bit indices."""

_SCHEMES = ("*", "http", "https")


class _Parts(NamedTuple):
    """The parts of a pattern; the host and the path are globs."""

    scheme: str
    host: str
    path: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of URLs; the syntax is described in the module.

    Examples
    --------
    >>> Pattern("/product/*")
    Pattern(text='/product/*')
    >>> Pattern("shop.example")
    Traceback (most recent call last):
    ValueError: pattern 'shop.example' has no path: write 'shop.example/*' for all pages of a host
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"pattern must be a string, got {self.text!r}")
        _check(self.text)

    def _parts(self) -> _Parts:
        return _parts_of(self.text)


def _parts_of(text: str) -> _Parts:
    if text == "*":
        return _Parts("*", "*", "/*")
    if text.startswith("/"):
        return _Parts("*", "*", text)
    scheme, mark, rest = text.partition("://")
    if not mark or "/" in scheme:
        scheme, rest = "*", text
    host, slash, path = rest.partition("/")
    return _Parts(scheme, host, slash + path)


def _check(text: str) -> None:
    """Raise ValueError with a suggestion if no canonical URL can match."""
    if not 1 <= len(text) <= URL_BYTES_MAX:
        raise ValueError(f"pattern must have 1 to {URL_BYTES_MAX} characters, got {len(text)}")
    scheme, host, path = _parts_of(text)
    if scheme not in _SCHEMES:
        raise ValueError(f"pattern {text!r} must have scheme http, https or *, got {scheme!r}")
    if not host:
        raise ValueError(
            f"pattern {text!r} has no host: write {scheme + '://*' + (path or '/*')!r}"
        )
    if not path:
        raise ValueError(f"pattern {text!r} has no path: write {_with_path(text, host)}")
    if "#" in text:
        hint = text.partition("#")[0]
        raise ValueError(f"pattern {text!r} has a fragment, which URLs lose: write {hint!r}")
    # A pattern is itself a URL, ``*`` being allowed everywhere but in an IP address.  A port may
    # be the default of one scheme only.
    schemes = ["http", "https"] if scheme == "*" else [scheme]
    result = canonical([f"{scheme}://{host}{path}" for scheme in schemes])
    keys = [_parts_of(key) for key in result.url.to_pylist() if key is not None]
    if not keys:
        problem = UrlProblem(result.problem[0]).name.lower().replace("_", " ")
        raise ValueError(f"pattern {text!r} matches no URL ({problem}): write 'host/path*'")
    if all(key[1:] != (host, path) for key in keys):
        before, _, _ = text.partition(host + path)
        hint = keys[0].path if text.startswith("/") else before + keys[0].host + keys[0].path
        raise ValueError(f"pattern {text!r} is not in canonical form: write {hint!r}")


def _with_path(text: str, host: str) -> str:
    """Return a suggestion for a pattern without a path."""
    if "?" in host:
        return repr(text.replace("?", "/?", 1) if host[0] != "?" else f"/*{text}")
    if "*" in host:
        return f"{f'/{text}'!r} for paths on any host, {f'{text}/*'!r} for hosts"
    return f"{f'{text}/*'!r} for all pages of a host"


class _Globs(NamedTuple):
    """Patterns as arrays for kernels.

    The literal pieces between the stars of all globs are concatenated.  Glob 2 k is the
    host of pattern k, 2 k + 1 its path.
    """

    data: ByteArray
    fail: NDArray[np.int16]
    """Failure function: for each byte of a piece, the length of the prefix that ends there."""
    piece: SpanArray
    """Offset of each piece, and finally the total length."""
    glob: SpanArray
    """The first piece of each glob, and finally the number of pieces."""
    scheme: ByteArray
    """Per pattern: 0 for any, 4 for http, 5 for https (their lengths)."""
    pairs: NDArray[np.uint64]
    """Per pattern: the pairs of neighbouring bytes in its pieces, as bits."""


class PatternSet:
    """Patterns in order, to match against many URLs at once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> patterns = PatternSet(["/product/*", "shop.example/*"])
    >>> urls = ["https://shop.example/product/1", "https://shop.example/", "https://b.example/"]
    >>> patterns.first_match(pa.array(urls))
    array([ 0,  1, -1], dtype=int16)
    """

    def __init__(self, patterns: Iterable[Pattern | str]) -> None:
        self.patterns = tuple(
            pattern if isinstance(pattern, Pattern) else Pattern(pattern) for pattern in patterns
        )
        if len(self.patterns) > PATTERNS_MAX:
            raise ValueError(
                f"patterns must be at most {PATTERNS_MAX} in number, got {len(self.patterns)}"
            )
        self._globs = _globs_of(self.patterns)

    def first_match(self, urls: pa.StringArray) -> MatchArray:
        """Return the index of the first pattern that matches each canonical URL, -1 for none."""
        text = text_of(urls)
        out = np.empty(len(urls), np.int16)
        _match_rows(text.data, text.offset, self._globs, out)
        if urls.null_count:
            out[urls.is_null().to_numpy(zero_copy_only=False)] = -1
        return out


def _globs_of(patterns: Iterable[Pattern]) -> _Globs:
    pieces: list[bytes] = []
    glob = [0]
    schemes = []
    pairs = []
    for pattern in patterns:
        scheme, host, path = pattern._parts()
        schemes.append(0 if scheme == "*" else len(scheme))
        for text in (host, path):
            first, *inner = text.encode().split(b"*")
            # Empty pieces between neighbouring stars are dropped.
            pieces += [first, *(piece for piece in inner[:-1] if piece), *inner[-1:]]
            glob.append(len(pieces))
        pairs.append(_pairs_of(pieces[glob[-3] :]))
    fail: list[int] = []
    for piece in pieces:
        fail += _failures(piece)
    return _Globs(
        np.frombuffer(b"".join(pieces), np.uint8),
        np.array(fail, np.int16),
        np.cumsum([0, *map(len, pieces)], dtype=np.int32),
        np.array(glob, np.int32),
        np.array(schemes, np.uint8),
        np.array(pairs, np.uint64),
    )


def _pairs_of(pieces: Iterable[bytes]) -> int:
    bits = 0
    for piece in pieces:
        data = np.frombuffer(piece, np.uint8)
        bits |= int(_pairs_in(data, 0, data.size))
    return bits


def _failures(piece: bytes) -> list[int]:
    """Return, for each prefix, the length of its longest proper prefix that is also its suffix."""
    fail = [0] * len(piece)
    n_same = 0
    for k in range(1, len(piece)):
        while n_same and piece[k] != piece[n_same]:
            n_same = fail[n_same - 1]
        n_same += piece[k] == piece[n_same]
        fail[k] = n_same
    return fail


@table_kernel
def _pairs_in(data: ByteArray, start: int, end: int) -> np.uint64:
    """Return the pairs of neighbouring bytes, each as one of 64 bits.

    Most patterns have a pair that most URLs lack, which rules out a match quickly.
    """
    bits = np.uint64(0)
    one = np.uint64(1)
    place = np.uint64(start) + one
    while place < np.uint64(end):
        pair = np.uint64(data[place - one]) * np.uint64(37) + np.uint64(data[place])
        bits |= one << (pair & np.uint64(63))
        place += one
    return bits


@table_kernel
def _is_at(data: ByteArray, place: int, globs: _Globs, piece: int) -> bool:
    """Return whether a piece occurs at a place; there must be room for it."""
    first = np.uint64(globs.piece[piece])
    for k in range(np.uint64(globs.piece[piece + 1]) - first):
        if data[np.uint64(place) + k] != globs.data[first + k]:
            return False
    return True


@table_kernel
def _after_next(data: ByteArray, start: int, end: int, globs: _Globs, piece: int) -> int:
    """Return the end of the first occurrence of a piece, or -1.

    D. E. Knuth, J. H. Morris, V. R. Pratt, "Fast pattern matching in strings", SIAM J. Comput.
    1977, §2: each byte is read once.
    """
    first = np.uint64(globs.piece[piece])
    size = np.uint64(globs.piece[piece + 1]) - first
    one = np.uint64(1)
    n_same = np.uint64(0)
    place = np.uint64(start)
    while place < np.uint64(end):
        byte = data[place]
        if n_same == 0 and byte != globs.data[first]:  # nearly always
            place += one
            continue
        while n_same > 0 and byte != globs.data[first + n_same]:
            n_same = np.uint64(globs.fail[first + n_same - one])
        if byte == globs.data[first + n_same]:
            n_same += one
        place += one
        if n_same == size:
            return int(np.int64(place))
    return -1


@table_kernel
def _matches(data: ByteArray, start: int, end: int, globs: _Globs, glob: int) -> bool:
    """Return whether bytes match a glob: the first and last piece at the ends, the others between.

    The earliest occurrence of each piece leaves the most room for the rest.
    """
    head = globs.glob[glob]
    tail = globs.glob[glob + 1] - 1
    n_head = globs.piece[head + 1] - globs.piece[head]
    if n_head > end - start or not _is_at(data, start, globs, head):
        return False
    start += n_head
    if head == tail:
        return start == end
    n_tail = globs.piece[tail + 1] - globs.piece[tail]
    if n_tail > end - start or not _is_at(data, end - n_tail, globs, tail):
        return False
    end -= n_tail
    for piece in range(head + 1, tail):
        start = _after_next(data, start, end, globs, piece)
        if start < 0:
            return False
    return True


@table_kernel
def _match_rows(data: ByteArray, offset: SpanArray, globs: _Globs, out: MatchArray) -> None:
    for i in range(out.size):
        out[i] = -1
        start = int(offset[i])
        end = int(offset[i + 1])
        host = host_start(data, start, end)
        if host < 0:
            continue
        place = np.uint64(host)
        while place < np.uint64(end) and data[place] != 47:  # /
            place += np.uint64(1)
        path = int(np.int64(place))
        lacking = ~_pairs_in(data, host, end)
        for k in range(globs.scheme.size):
            if globs.pairs[k] & lacking:
                continue
            scheme = globs.scheme[k]
            if scheme != 0 and scheme != host - start - 3:
                continue
            if _matches(data, host, path, globs, 2 * k) and _matches(
                data, path, end, globs, 2 * k + 1
            ):
                out[i] = k
                break
