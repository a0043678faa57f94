"""Canonical URLs, the keys of pages.

Two strings that lead any browser to the same place should be one page, and the key of a string
must never change.  The canonical form is the output of the URL Standard's parser and serialiser,
without the fragment; nothing else is normalised.  It has a version, which is stored with the keys.
"""

import re
from collections.abc import Sequence
from enum import IntEnum, unique
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import url as url_py
from numpy.typing import NDArray

from recrawl.core.arrays import FlagArray
from recrawl.urls._arrow_text import BATCH_BYTES_MAX, string_array, text_of
from recrawl.urls._canonical_check import are_canonical

__all__ = [
    "CANON_VERSION",
    "URL_BYTES_MAX",
    "URL_INPUT_BYTES_MAX",
    "CanonicalUrls",
    "UrlProblem",
    "canonical",
]

CANON_VERSION = 1
"""Version of the canonical form; it changes whenever the key of any string changes."""

URL_BYTES_MAX = 2048
"""Most bytes of a canonical URL; the same limit as in sitemaps."""

URL_INPUT_BYTES_MAX = 0xFFFF
"""Most bytes of a string to parse."""

_PREFIXES = ("http://", "https://")


@unique
class UrlProblem(IntEnum):
    """Why a string has no canonical URL."""

    NONE = 0
    """The string has a canonical URL."""
    NOT_TEXT = 1
    """Null, or a string with a lone surrogate, which is not valid Unicode text."""
    NOT_A_URL = 2
    """The URL Standard's parser fails, for example on relative URLs."""
    SCHEME = 3
    """Neither http nor https."""
    TOO_LONG = 4
    """Longer than `URL_BYTES_MAX`, or than `URL_INPUT_BYTES_MAX` before parsing."""
    CREDENTIALS = 5
    """A user or a password, which must not get into logs and keys."""


# Plain integers, because looking up an enum member is slow compared with the rest of the work.
_NONE, _NOT_TEXT, _NOT_A_URL, _SCHEME, _TOO_LONG, _CREDENTIALS = (int(p) for p in UrlProblem)
_PREFIXES = ("http://", "https://")
_parse = url_py.URL.parse

# https://url.spec.whatwg.org/#url-parsing, for special schemes and no base URL.
_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_WITHOUT_TAB_AND_NEWLINE = str.maketrans("", "", "\t\n\r")
_AUTHORITY = re.compile(r"(https?:[/\\]*(?:[^/\\?#]*@)?)([^/\\?#:]+)(.*)", re.I | re.S)
# Without forbidden domain code points.
_ASCII_HOST = re.compile(r"[!\"$&'()*+,\-.0-9;=_`a-z{}~]+")
_ENDS_IN_A_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)\.?$")


class CanonicalUrls(NamedTuple):
    """Canonical URLs of strings, row by row."""

    url: pa.StringArray
    """Null where there is a problem."""
    problem: NDArray[np.uint8]
    """A `UrlProblem`."""


def canonical(urls: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> CanonicalUrls:
    r"""Return the canonical URLs of strings, and the problem of each string without one.

    No string raises.  If all are canonical already, the given array is returned.

    Parameters
    ----------
    urls
        Strings, or an Arrow array of them, within 2 GiB; may have nulls.

    Examples
    --------
    >>> found = canonical(["HTTP://Shop.example:80/a/../b c?q='#top", "b.html", "mailto:x@y"])
    >>> found.url.to_pylist()
    ['http://shop.example/b%20c?q=%27', None, None]
    >>> [UrlProblem(problem).name for problem in found.problem]
    ['NONE', 'NOT_A_URL', 'SCHEME']
    """
    given = string_array(urls)
    text = text_of(given)
    problem = np.zeros(len(given), np.uint8)
    is_done = are_canonical(text, URL_BYTES_MAX)
    if given.null_count:
        is_null = given.is_null().to_numpy(zero_copy_only=False)
        problem[is_null] = _NOT_TEXT
        is_done |= is_null
    if is_done.all():
        return CanonicalUrls(given, problem)
    rows = np.flatnonzero(~is_done)
    is_huge = np.diff(text.offset)[rows] > URL_INPUT_BYTES_MAX
    parsed = [_parse_url(string) for string in given.take(pa.array(rows, mask=is_huge)).to_pylist()]
    problem[rows] = [wrong for _, wrong in parsed]
    return CanonicalUrls(_replace_rows(given, ~is_done, [key for key, _ in parsed]), problem)


def _parse_url(string: str | None) -> tuple[str | None, int]:
    """Return the key of a string and its problem; a string of None is too long to parse."""
    if string is None:
        return None, _TOO_LONG
    try:
        key = str(_parse(string))
    except url_py.IdnaError:
        return _parse_ascii_host(string)
    except url_py.URLError:
        return None, _NOT_A_URL
    if not key.startswith(_PREFIXES):
        return None, _SCHEME
    key = key.partition("#")[0]
    if "@" in key and "@" in key.split("/", 3)[2]:
        return None, _CREDENTIALS
    if "^" in key:
        # Since 2025-03-04 the standard encodes ^ in paths, but not in queries; url-py 2026.5.1
        # does not do so yet.
        path, mark, query = key.partition("?")
        key = path.replace("^", "%5E") + mark + query
    # The parser returns ASCII, so the length is the number of bytes.
    if len(key) > URL_BYTES_MAX:
        return None, _TOO_LONG
    return key, _NONE


def _parse_ascii_host(string: str) -> tuple[str | None, int]:
    """Return the key of a string whose host is invalid IDNA, but may be valid ASCII.

    Since 2026-06-25 the standard only lowercases an ASCII host, whatever its ``xn--`` labels
    decode to, because browsers open such hosts; url-py 2026.5.1 does not do so yet.
    """
    found = _AUTHORITY.fullmatch(string.strip(_C0_AND_SPACE).translate(_WITHOUT_TAB_AND_NEWLINE))
    if found is None:
        return None, _NOT_A_URL
    before, host, after = found.groups()
    host = unquote_to_bytes(host).decode("latin-1").lower()
    if not _ASCII_HOST.fullmatch(host) or _ENDS_IN_A_NUMBER.search(host):
        return None, _NOT_A_URL
    key, problem = _parse_url(f"{before}h{after}")
    if key is None:
        return None, problem
    key = key.replace("//h", f"//{host}", 1)
    return (key, _NONE) if len(key) <= URL_BYTES_MAX else (None, _TOO_LONG)


def _replace_rows(
    given: pa.StringArray, is_replaced: FlagArray, keys: Sequence[str | None]
) -> pa.StringArray:
    replacement = pa.array(keys, pa.string())
    n_bytes = given.nbytes + replacement.nbytes
    if n_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"urls of a batch must be within 2 GiB, got {n_bytes} bytes")
    return pc.replace_with_mask(given, pa.array(is_replaced), replacement)
