"""Canonical URLs: the key under which a page is kept.

Two strings that any browser would take to the same place should be one page, and one string must
have the same key for ever.  The canonical form is what the URL Standard's parser and serialiser
make of a string, without the fragment; nothing else is cleaned.  It carries a version, written
with everything kept under it.
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
from recrawl.urls._plain import are_plain
from recrawl.urls._text import BATCH_BYTES_MAX, as_strings, text_of

__all__ = [
    "CANON_VERSION",
    "URL_BYTES_MAX",
    "URL_INPUT_BYTES_MAX",
    "CanonicalUrls",
    "UrlProblem",
    "canonical",
]

CANON_VERSION = 1
"""Changes whenever some string gets another key."""

URL_BYTES_MAX = 2048
"""Bytes of a canonical URL; the limit of sitemaps, and of a key that is looked up often."""

URL_INPUT_BYTES_MAX = 0xFFFF
"""Bytes of a string that is parsed at all."""

_PREFIXES = ("http://", "https://")


@unique
class UrlProblem(IntEnum):
    """Why a string has no canonical URL."""

    NONE = 0
    """It has one."""
    NOT_TEXT = 1
    """Null, or a string with a lone surrogate, which is no Unicode text."""
    NOT_A_URL = 2
    """The URL Standard's parser fails; among others anything relative."""
    SCHEME = 3
    """Neither http nor https."""
    TOO_LONG = 4
    """Beyond `URL_BYTES_MAX`, or `URL_INPUT_BYTES_MAX` as given."""
    CREDENTIALS = 5
    """A user or a password, which must not get into logs and keys."""


# Looking up a member takes longer than the rest of what is done with a string beside parsing it.
_NONE, _NOT_TEXT, _NOT_A_URL, _SCHEME, _TOO_LONG, _CREDENTIALS = (int(p) for p in UrlProblem)
_PREFIXES = ("http://", "https://")
_parse = url_py.URL.parse

# https://url.spec.whatwg.org/#url-parsing, of what has a special scheme and no base.
_C0_AND_SPACE = "".join(map(chr, range(0x21)))
_WITHOUT_TAB_AND_NEWLINE = str.maketrans("", "", "\t\n\r")
_AUTHORITY = re.compile(r"(https?:[/\\]*(?:[^/\\?#]*@)?)([^/\\?#:]+)(.*)", re.I | re.S)
# Without forbidden domain code points.
_ASCII_HOST = re.compile(r"[!\"$&'()*+,\-.0-9;=_`a-z{}~]+")
_ENDS_IN_A_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)\.?$")


class CanonicalUrls(NamedTuple):
    """What strings are as URLs, row by row."""

    url: pa.StringArray
    """Null where there is a problem."""
    problem: NDArray[np.uint8]
    """A `UrlProblem`."""


def canonical(urls: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> CanonicalUrls:
    r"""Return strings as canonical URLs, and what is wrong with those that are none.

    No string raises.  Where all are canonical already, the array given is returned.

    Parameters
    ----------
    urls
        Strings, or an Arrow array of them, within 2 GiB; null is no text.

    Examples
    --------
    >>> found = canonical(["HTTP://Shop.example:80/a/../b c?q='#top", "b.html", "mailto:x@y"])
    >>> found.url.to_pylist()
    ['http://shop.example/b%20c?q=%27', None, None]
    >>> [UrlProblem(problem).name for problem in found.problem]
    ['NONE', 'NOT_A_URL', 'SCHEME']
    """
    given = as_strings(urls)
    text = text_of(given)
    problem = np.zeros(len(given), np.uint8)
    is_done = are_plain(text, URL_BYTES_MAX)
    if given.null_count:
        is_null = given.is_null().to_numpy(zero_copy_only=False)
        problem[is_null] = _NOT_TEXT
        is_done |= is_null
    if is_done.all():
        return CanonicalUrls(given, problem)
    rows = np.flatnonzero(~is_done)
    is_huge = np.diff(text.offset)[rows] > URL_INPUT_BYTES_MAX
    parsed = [_parsed(string) for string in given.take(pa.array(rows, mask=is_huge)).to_pylist()]
    problem[rows] = [wrong for _, wrong in parsed]
    return CanonicalUrls(_replaced(given, ~is_done, [key for key, _ in parsed]), problem)


def _parsed(string: str | None) -> tuple[str | None, int]:
    """Return the key of a string (none: too long to parse), or what is wrong with it."""
    if string is None:
        return None, _TOO_LONG
    try:
        key = str(_parse(string))
    except url_py.IdnaError:
        return _parsed_with_ascii_host(string)
    except url_py.URLError:
        return None, _NOT_A_URL
    if not key.startswith(_PREFIXES):
        return None, _SCHEME
    key = key.partition("#")[0]
    if "@" in key and "@" in key.split("/", 3)[2]:
        return None, _CREDENTIALS
    if "^" in key:
        # Encoded in paths, not in queries, by the standard since 2025-03-04; url-py 2026.5.1
        # does not yet, so it is done here whether the parser did or not.
        path, mark, query = key.partition("?")
        key = path.replace("^", "%5E") + mark + query
    # What the parser writes is ASCII: its length is its bytes.
    if len(key) > URL_BYTES_MAX:
        return None, _TOO_LONG
    return key, _NONE


def _parsed_with_ascii_host(string: str) -> tuple[str | None, int]:
    """Return the key of a string whose host is no IDNA, but perhaps good as ASCII.

    By the standard since 2026-06-25 an ASCII host is only lowered, whatever its ``xn--`` labels
    decode to, since browsers open such hosts; url-py 2026.5.1 does not yet.
    """
    found = _AUTHORITY.fullmatch(string.strip(_C0_AND_SPACE).translate(_WITHOUT_TAB_AND_NEWLINE))
    if found is None:
        return None, _NOT_A_URL
    before, host, after = found.groups()
    host = unquote_to_bytes(host).decode("latin-1").lower()
    if not _ASCII_HOST.fullmatch(host) or _ENDS_IN_A_NUMBER.search(host):
        return None, _NOT_A_URL
    key, problem = _parsed(f"{before}h{after}")
    if key is None:
        return None, problem
    key = key.replace("//h", f"//{host}", 1)
    return (key, _NONE) if len(key) <= URL_BYTES_MAX else (None, _TOO_LONG)


def _replaced(
    given: pa.StringArray, is_replaced: FlagArray, keys: Sequence[str | None]
) -> pa.StringArray:
    replacement = pa.array(keys, pa.string())
    n_bytes = given.nbytes + replacement.nbytes
    if n_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"urls of a batch must be within 2 GiB, got {n_bytes} bytes")
    return pc.replace_with_mask(given, pa.array(is_replaced), replacement)
